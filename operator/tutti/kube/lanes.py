"""Who writes next: binds before evictions before statuses before events, within one limit for all of them.

A bind delayed by an event is a node that idles for a log line. So what is more important overtakes what waits; yet each
lane may always have one write under way, so that nothing starves. Nobody waits for a status or an event, so these have
no more than that one while anything more important is under way, and where something more important even waits, for the
server is busy, one begins ten times a second: in the busiest hour events still trickle out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import Final

from tutti.kube.errors import ApiError
from tutti.kube.pace import Pace

_TRICKLE_SECONDS: Final = 0.1


class Lane(IntEnum):
    """What is written, the most important first."""

    BIND = 0
    """Bindings, and the choices of volumes that bindings wait for."""
    EVICT = 1
    """Evictions and deactivations: they make room for somebody."""
    STATUS = 2
    """Statuses, conditions, and the pod groups that show an implicit gang."""
    EVENT = 3


# Looked up once: an enum takes as long to find its members as the comparison that they are for.
_LANES: Final = tuple(Lane)
_STATUS: Final = Lane.STATUS


class Lanes:
    """Hands out turns to write; within a lane in the order of asking. For one loop.

    A write enters, sends its requests, tells of each what became of it, and leaves. What it waits for between these,
    such as credentials or to know whether this process still leads, says nothing about how busy the server is.
    """

    def __init__(self, pace: Pace) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        self._under_way = [0] * len(Lane)
        self._total = 0
        self._waiting: list[deque[asyncio.Future[None]]] = [deque() for _ in Lane]
        self._entered = [float("-inf")] * len(Lane)
        self._trickle: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """How many writes may be under way now."""
        return self._pace.limit

    def waiting(self, lane: Lane) -> int:
        """Return how many writes wait for their turn."""
        return len(self._waiting[lane])

    def answered(self, seconds: float) -> None:
        """Learn from how long a request took that the server granted how busy it is."""
        self._pace.answered(seconds, pressed=any(self._waiting))

    def refused(self, error: ApiError) -> None:
        """Learn from a request that the server refused whether it has too much to do."""
        if error.overloaded:
            self._pace.refused()

    async def enter(self, lane: Lane) -> None:
        """Return when it is this write's turn; `leave` must follow."""
        if not self._waiting[lane] and self._may_enter(lane):
            self._count(lane, 1)
            return
        turn = self._loop.create_future()
        self._waiting[lane].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave(lane)  # the turn came together with the cancellation
            elif turn in self._waiting[lane]:
                self._waiting[lane].remove(turn)
            raise

    def leave(self, lane: Lane) -> None:
        """End a write and give its turn on."""
        self._count(lane, -1)
        self._give_turns()

    def _give_turns(self) -> None:
        """Let those go whose turn it is."""
        for following, queue in zip(_LANES, self._waiting, strict=True):
            while queue and self._may_enter(following):
                turn = queue.popleft()
                if not turn.cancelled():  # its task has yet to hear of it
                    self._count(following, 1)
                    turn.set_result(None)

    def _may_enter(self, lane: Lane) -> bool:
        """Whether there is a turn for this lane, given those that wait before it."""
        if lane < _STATUS:
            return not self._under_way[lane] or (self._total < self._pace.limit and not any(self._waiting[:lane]))
        if any(self._waiting[:_STATUS]):
            return not self._under_way[lane] and self._trickles(lane)
        if not self._under_way[lane]:
            return True
        if any(self._under_way[:lane]):
            return False  # it would take from the server what those that somebody waits for need
        return self._total < self._pace.limit and not any(self._waiting[:lane])

    def _trickles(self, lane: Lane) -> bool:
        """Whether the last one entered long enough ago; if not, it is seen to that somebody looks again."""
        loop = self._loop
        due = self._entered[lane] + _TRICKLE_SECONDS
        if due <= loop.time():
            return True
        if self._trickle is None:
            self._trickle = loop.call_at(due, self._look_again)
        return False

    def _look_again(self) -> None:
        self._trickle = None
        self._give_turns()

    def _count(self, lane: Lane, by: int) -> None:
        """Note that so many more are under way."""
        self._under_way[lane] += by
        self._total += by
        if by > 0 and lane >= _STATUS:
            self._entered[lane] = self._loop.time()
