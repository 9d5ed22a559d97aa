"""Times as the API writes them."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the wall clock's time in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)


def micro_time(moment: datetime) -> str:
    """Return a meta/v1 MicroTime, which must have exactly six fractional digits (kube-apiserver answers 400 else)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second_time(moment: datetime) -> str:
    """Return a meta/v1 Time: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
