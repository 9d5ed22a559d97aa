"""When lines are to be looked at though nothing happens: because of the time alone, another is next in them.

Whoever has waited for as long as the order of its queue lets anybody is tried at that moment. Beside that, the lines
whose head blocks those behind it are looked at every now and then where what they go by moves by itself.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tutti.engine.queue import QueueState
from tutti.engine.records.queue_entries import EquivalenceClass, PendingQueue, QueueEntry
from tutti.quota.queue_order import TIMED

LOOK_SECONDS: Final = 60.0
"""So often it is looked whether another is next by age, or by response ratio, than the head that blocks a line."""

Lines = Mapping[tuple[str, str], PendingQueue]


class OrderedLines:
    """What is due in the lines of queues that have an order, or go by past use."""

    def __init__(self) -> None:
        self._overdue: list[tuple[float, int, QueueEntry]] = []
        self._numbers = itertools.count()
        self._used_at = 0.0
        self._looked_at = 0.0

    def clear(self) -> None:
        """Forget who will be overdue."""
        self._overdue = []

    def note(self, entry: QueueEntry, now: float) -> None:
        """Note when somebody who has come to a line is overdue there."""
        traits, since = entry.key[2], entry.key[1].queued_at
        if traits is None or entry.queue is None or entry.queue.order is None or since <= 0:
            return
        at = since + entry.queue.order.max_wait
        if now < at < math.inf:
            heapq.heappush(self._overdue, (at, next(self._numbers), entry))

    def take_overdue(self, now: float) -> Iterator[EquivalenceClass]:
        """Yield the classes in which somebody has become overdue since the last call."""
        heap = self._overdue
        while heap and (heap[0][0] <= now or heap[0][2].left):
            _, _, entry = heapq.heappop(heap)
            if not entry.left:
                yield entry.equivalence

    def to_look_at(self, state: QueueState, lines: Lines) -> list[tuple[str, str]]:
        """Return the lines in which another than the head that blocks them may be next by now, if it is time to look.

        Past use changes by itself: what runs is used, and what has been used fades.
        """
        found: list[tuple[str, str]] = []
        interval = state.configuration.admission_fair_sharing.usage_sampling_interval_seconds
        if state.catalog.by_past_use and state.now >= self._used_at + interval:
            self._used_at = state.now
            past = {name for name, queue in state.catalog.queues.items() if queue.by_past_use}
            found += [name for name, one in lines.items() if one.strict and name[0] in past]
        if state.catalog.ordered and state.now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = state.now
            found += _timed(lines)
        return found

    def next_due(self, state: QueueState, lines: Lines) -> Iterable[float]:
        """Yield when to look although nothing is observed, Unix seconds."""
        heap = self._overdue
        while heap and heap[0][2].left:
            heapq.heappop(heap)
        if heap:
            yield max(state.now, heap[0][0])
        if state.catalog.ordered and _timed(lines):
            yield max(state.now, self._looked_at + LOOK_SECONDS)


def _timed(lines: Lines) -> list[tuple[str, str]]:
    """Return the lines that a head blocks, and in which another may come before it by the time alone."""
    return [
        name
        for name, one in lines.items()
        if one.strict and one.sorting is not None and one.sorting.order.goes_by(TIMED) and one.has_rivals
    ]
