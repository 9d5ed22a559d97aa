"""Trying again, a bounded number of times, what is safe to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tutti.kube.backoff import Backoff
from tutti.kube.errors import WireError, is_retryable, retry_after

R = TypeVar("R")


async def retrying(attempt: Callable[[], Awaitable[R]], *, tries: int = 5, backoff: Backoff | None = None) -> R:
    """Return what `attempt` returns, repeating it after errors that may pass, and not before the server's Retry-After.

    Only for requests that may be repeated although an earlier one took effect.

    Raises:
        WireError: The last try's error, or the first one that trying again cannot mend.
    """
    backoff = backoff or Backoff()
    for _ in range(tries - 1):
        try:
            return await attempt()
        except WireError as error:
            if not is_retryable(error):
                raise
            await asyncio.sleep(backoff.next(retry_after(error)))
    return await attempt()
