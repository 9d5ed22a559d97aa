"""The ends of many waits, by one timer.

A timer for each request costs as much as the request's own head, and nearly none of them ever goes off. Of waits that
begin one after the other and may last about as long the first ends first, so that its timer serves for all of them.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Waiting(Protocol):
    """What may wait no longer than until some time."""

    def too_late(self) -> None:
        """The time is over; called once, unless `Deadlines.drop` was."""


class Deadlines:
    """Tells those that wait when their time is over, at that time; for one loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def set(self, waiting: Waiting, until: float) -> None:
        """Tell it at that time of the loop, instead of any time set before."""
        self._until[waiting] = until
        if until < self._next:
            self._arm(until)

    def drop(self, waiting: Waiting) -> None:
        """Tell it nothing any more; the timer is left, for the next that waits mostly needs it."""
        self._until.pop(waiting, None)

    def rest(self) -> None:
        """Leave no timer behind where nobody waits."""
        if not self._until:
            self._disarm()

    def _arm(self, until: float) -> None:
        self._disarm()
        self._next = until
        self._timer = self._loop.call_at(until, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, float("inf")

    def _look(self) -> None:
        """Tell those whose time is over, in the order of asking, and look again when the next may be."""
        self._disarm()
        now = self._loop.time()
        for waiting in [one for one, until in self._until.items() if until <= now]:
            if self._until.pop(waiting, None) is not None:  # one that was told may have dropped others
                waiting.too_late()
        if self._until:
            self._arm(min(self._until.values()))
