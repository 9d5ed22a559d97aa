"""Who writes next, and how many writes may be under way: priority levels within one concurrency limit.

A bind delayed by an event is a node that idles for a log line. So what is more important overtakes what waits: binds,
what begins with claims, evictions, statuses, events; yet each level may always have one write under way, so that
nothing starves. Nobody waits for a status or an event, so these have no more than that one while anything more
important is under way. Where something more important even waits, for the server is busy, they wait for a second: most
rushes are over by then, and all that the server can do is for those that somebody waits for. In longer ones one begins
ten times a second: in the busiest hour events still trickle out.

The limit follows what the answers say, as TCP Vegas follows round trips (Brakmo and Peterson, 1995): of `limit`
requests under way, `limit * (1 - quickest / mean)` are taken to be waiting inside the server. While few wait there the
limit grows, while many do it shrinks. A 429 of API priority and fairness halves it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from tutti.kube.errors import ApiError

_FEW_QUEUED: Final = 32
"""Waiting in the server that keep it busy however long an answer takes to come back, and from which etcd takes so many
into one commit that each costs less (docs/performance-changes.md)."""
_MANY_QUEUED: Final = 48
"""Waiting in the server that only delay what is written next, and everybody else's requests."""
_LEAST: Final = 4


class ConcurrencyLimiter:
    """The limit, from `first` on and between 4 and `most`; or `most` alone where that is lower.

    Attributes:
        limit: Writes that may be under way.
    """

    def __init__(self, most: int, *, first: int = 32) -> None:
        self._most = most
        self._least = min(_LEAST, most)
        self.limit = min(first, most)
        self._quickest = float("inf")
        self._answers = 0
        self._seconds = 0.0
        self._least_seconds = float("inf")
        self._pressed = False
        self._halved = False

    def answered(self, seconds: float, *, pressed: bool) -> None:
        """Count an answer that took so long; `pressed` says whether other writes waited for its slot."""
        self._answers += 1
        self._seconds += seconds
        self._least_seconds = min(self._least_seconds, seconds)
        self._pressed = self._pressed or pressed
        if self._answers >= self.limit:
            self._judge()

    def refused(self) -> None:
        """Count a 429: the limit is halved, once for all that were refused together."""
        if not self._halved:
            self.limit = max(self._least, self.limit // 2)
            self._begin()
            self._halved = True

    def _judge(self) -> None:
        """End a round of as many answers as may be under way."""
        mean = self._seconds / self._answers
        if self._pressed:
            self._quickest = min(self._quickest, self._least_seconds)
        else:
            self._quickest = self._least_seconds  # a quiet hour shows anew how quick the server is
        queued = self.limit * (1 - self._quickest / mean) if mean else 0.0
        if queued > _MANY_QUEUED:
            self.limit = max(self._least, self.limit - max(1, self.limit // 8))
        elif queued < _FEW_QUEUED and self._pressed and not self._halved:
            self.limit = min(self._most, self.limit + max(1, self.limit // 4))
        self._begin()

    def _begin(self) -> None:
        """Begin a round."""
        self._answers = 0
        self._seconds = 0.0
        self._least_seconds = float("inf")
        self._pressed = False
        self._halved = False


_TRICKLE_SECONDS: Final = 0.1
_RUSH_SECONDS: Final = 1.0


class PriorityLevel(IntEnum):
    """What is written, the most important first."""

    BIND = 0
    """Bindings, the choices of volumes that bindings wait for, and what goes on with a claim on devices."""
    CLAIM = 1
    """What begins with a claim on devices. Where many wait, those that are begun are bound before others begin."""
    EVICT = 2
    """Evictions and deactivations: they make room for somebody."""
    STATUS = 3
    """Statuses, conditions, and the pod groups that show an implicit gang."""
    EVENT = 4


_LEVELS: Final = tuple(PriorityLevel)
_STATUS: Final = PriorityLevel.STATUS


class PriorityLevels:
    """Hands out turns to write; within a level in the order of asking. For one loop.

    A write enters, sends its requests, tells of each what became of it, and leaves. What it waits for between these,
    such as credentials or to know whether this process still leads, says nothing about how busy the server is.
    """

    def __init__(self, limiter: ConcurrencyLimiter) -> None:
        self._loop = asyncio.get_running_loop()
        self._limiter = limiter
        self._under_way = [0] * len(PriorityLevel)
        self._total = 0
        self._waiting: list[deque[asyncio.Future[None]]] = [deque() for _ in PriorityLevel]
        self._elsewhere: dict[PriorityLevel, Callable[[], int]] = {}
        self._entered = [float("-inf")] * len(PriorityLevel)
        self._rush_began = float("-inf")  # since when something more important than statuses has waited, if it does
        self._trickle: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """How many writes may be under way now."""
        return self._limiter.limit

    def waiting(self, level: PriorityLevel) -> int:
        """Return how many writes wait for their turn, or to ask for it."""
        elsewhere = self._elsewhere.get(level)
        return len(self._waiting[level]) + (0 if elsewhere is None else elsewhere())

    @contextmanager
    def counting_waiting(self, level: PriorityLevel, more: Callable[[], int]) -> Iterator[None]:
        """Count as waiting, meanwhile, what stands in a line of somebody who asks for turns one after another."""
        self._elsewhere[level] = more
        try:
            yield
        finally:
            del self._elsewhere[level]

    def answered(self, seconds: float) -> None:
        """Learn from how long a request took that the server granted how busy it is."""
        self._limiter.answered(seconds, pressed=any(self._waiting))

    def refused(self, error: ApiError) -> None:
        """Learn from a request that the server refused whether it has too much to do."""
        if error.overloaded:
            self._limiter.refused()

    async def enter(self, level: PriorityLevel) -> None:
        """Return when it is this write's turn; `leave` must follow."""
        if not self._waiting[level] and self._may_enter(level):
            self._count(level, 1)
            return
        turn = self._loop.create_future()
        if level < _STATUS and not any(self._waiting[:_STATUS]):
            self._rush_began = self._loop.time()
        self._waiting[level].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave(level)  # the turn came together with the cancellation
            elif turn in self._waiting[level]:
                self._waiting[level].remove(turn)
            raise

    def leave(self, level: PriorityLevel) -> None:
        """End a write and give its turn on."""
        self._count(level, -1)
        self._give_turns()

    def _give_turns(self) -> None:
        """Let those go whose turn it is."""
        for following, queue in zip(_LEVELS, self._waiting, strict=True):
            while queue and self._may_enter(following):
                turn = queue.popleft()
                if not turn.cancelled():  # its task has yet to hear of it
                    self._count(following, 1)
                    turn.set_result(None)

    def _may_enter(self, level: PriorityLevel) -> bool:
        """Whether there is a turn for this level, given those that wait before it."""
        if level < _STATUS:
            return not self._under_way[level] or (self._total < self._limiter.limit and not any(self._waiting[:level]))
        if any(self._waiting[:_STATUS]):
            return not self._under_way[level] and self._trickles(level)
        if not self._under_way[level]:
            return True
        if any(self._under_way[:level]):
            return False  # it would take from the server what those that somebody waits for need
        return self._total < self._limiter.limit and not any(self._waiting[:level])

    def _trickles(self, level: PriorityLevel) -> bool:
        """Whether the rush has lasted, and the last one entered, for long enough; if not, somebody will look again."""
        loop = self._loop
        due = max(self._entered[level] + _TRICKLE_SECONDS, self._rush_began + _RUSH_SECONDS)
        if due <= loop.time():
            return True
        if self._trickle is None:
            self._trickle = loop.call_at(due, self._look_again)
        return False

    def _look_again(self) -> None:
        self._trickle = None
        self._give_turns()

    def _count(self, level: PriorityLevel, by: int) -> None:
        """Note that so many more are under way."""
        self._under_way[level] += by
        self._total += by
        if by > 0 and level >= _STATUS:
            self._entered[level] = self._loop.time()
