"""Puts workloads with the nearest deadline first, by their annotation `example.com/deadline: 2026-11-21T22:00:00Z`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tutti.plugins import Waiting

DEADLINE = "example.com/deadline"


class Deadline:
    """A sort: what has no deadline, or none that can be read, comes after all that have one, by priority and age."""

    @property
    def annotations(self) -> Sequence[str]:
        """The annotations that it reads; others are not kept for it."""
        return (DEADLINE,)

    def sort(self, workload: Waiting) -> float:
        """Return the deadline in Unix seconds."""
        try:
            return datetime.fromisoformat(workload.annotations[DEADLINE]).timestamp()
        except (KeyError, ValueError):
            return float("inf")
