"""Where those who wait stand in their ClusterQueues, and what they were told of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, islice
from math import inf
from typing import Any

import numpy as np

from tutti.engine.records.line_order import LineOrder, Terms
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.quota.ordering import OrderKey

UNREPORTED = 0
"""What stands for a position where a workload has been told nothing of why it waits, or has no object to say it."""

NO_POSITION = -1
"""What stands for it where it has been told why it waits, but no position."""


@dataclass(slots=True, eq=False)
class _Row:
    """Those of one ClusterQueue whose order among one another stays: of one LocalQueue where past use counts, else all.

    Attributes:
        orders: What they are sorted by.
        told: The positions that they were told.
    """

    orders: list[OrderKey] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    told: list[int] = field(default_factory=list)

    def before(self, order: OrderKey, *, less_used: int) -> int:
        """Return how many of them go before somebody of a LocalQueue that has used more (1), less (-1) or as much."""
        if not less_used:
            return bisect_left(self.orders, order)
        find = bisect_right if less_used > 0 else bisect_left
        return find(self.orders, order[0], key=_rank)


def _rank(order: OrderKey) -> float:
    return order[0]


def _none(_: str) -> float:
    return 0.0


KNOWN_SECONDS = 10.0
"""For so long those who come are told where others stood in a queue that has an order; it is sorted once for all."""


_AT_THE_END: Terms = (inf,)
"""What the order of a queue says of who has not come to stand in its line yet."""


def _no_order(_: str) -> None:
    return None


class QueuePositions:
    """The lines of pending workloads.

    A position is found by bisection; to come and to go costs a shift of the line behind it. Where past use counts, each
    LocalQueue has a row of its own, and the rows stand among one another by what each has used at that moment.

    Attributes:
        used: Tells what a LocalQueue has used lately.
        sorting: Returns what sorts those who wait at a ClusterQueue that has an order; None for all others.
        moved: ClusterQueues in which positions may have changed since they were told.
        look_at: When these are told anew, Unix seconds; None where none are.
        unforeseen: ClusterQueues in which what is known of the future may have changed.
        foresee_at: When the next of these is worked out, Unix seconds; None where none is.
        expecting: ClusterQueues in which somebody was told when it starts.
    """

    def __init__(self) -> None:
        self.used: Callable[[str], float] = _none
        self.sorting: Callable[[str], LineOrder[Any] | None] = _no_order
        self.moved: dict[str, None] = {}
        self.look_at: float | None = None
        self.unforeseen: dict[str, None] = {}
        self.foresee_at: float | None = None
        self.expecting: dict[str, None] = {}
        self._lines: dict[str, dict[str, _Row]] = {}
        self._where: dict[WorkloadKey, tuple[str, str, OrderKey]] = {}
        self._known: dict[str, tuple[float, Mapping[WorkloadKey, int]]] = {}

    def put(self, workload: Workload, local_queue: str = "") -> None:
        """Have a workload stand where it is counted as pending, and nowhere else.

        Args:
            workload: The workload.
            local_queue: Its LocalQueue, where past use counts.
        """
        _, queue, bucket = workload.counted
        to = (queue, local_queue, workload.order) if queue and bucket == "pending" else None
        before = self._where.get(workload.key)
        if before == to:
            return
        told = self._leave(workload.key, *before) if before is not None else UNREPORTED
        if to is not None:
            self._where[workload.key] = to
            row = self._lines.setdefault(queue, {}).setdefault(local_queue, _Row())
            at = bisect_left(row.orders, to[2])
            row.orders.insert(at, to[2])
            row.workloads.insert(at, workload)
            row.told.insert(at, told)

    def note(self, workload: Workload, said: Mapping[str, Any] | None) -> None:
        """Take over what the object of a workload says of why it waits, if it says anything."""
        where = self._where.get(workload.key)
        if where is None:
            return
        queue, local_queue, order = where
        row = self._lines[queue][local_queue]
        position = UNREPORTED if said is None else said.get("position") or NO_POSITION
        row.told[bisect_left(row.orders, order)] = position
        if said is not None and said.get("estimatedStart"):
            self.expecting[queue] = None

    def most_wrong(self, queues: Sequence[str], most: int) -> list[tuple[int, Workload]]:
        """Return who of some queues was told the most wrong positions, with the right ones.

        What was told is the more wrong, the farther the one is from the other as a ratio; of equals, who stands nearer
        to the head comes first. Whoever was told nothing at all is left out.
        """
        lines = [self._in_order(name) for name in queues]
        told = np.fromiter(chain.from_iterable(line.told for line in lines), dtype=np.int64)
        positions = np.fromiter(chain.from_iterable(range(1, len(line.told) + 1) for line in lines), dtype=np.int64)
        wrong = np.flatnonzero((told != positions) & (told != UNREPORTED))
        right = np.minimum(told[wrong], positions[wrong]) / np.maximum(told[wrong], positions[wrong])
        chosen = wrong[np.lexsort((positions[wrong], right))[:most]]
        ends = np.cumsum([len(line.told) for line in lines])
        in_lines = np.searchsorted(ends, chosen, side="right")
        return [
            (position, lines[line].workloads[position - 1])
            for position, line in zip(positions[chosen].tolist(), in_lines.tolist(), strict=True)
        ]

    def of(self, workload: Workload) -> int | None:
        """Return the position of a workload, from 1, or None where it is pending in no queue."""
        where = self._where.get(workload.key)
        if where is None:
            return None
        queue, mine, order = where
        rows = self._lines[queue]
        if (sorting := self.sorting(queue)) is not None:
            return self._known_order(queue, sorting.facts.now()).get(workload.key)
        if len(rows) == 1:
            return bisect_left(rows[mine].orders, order) + 1
        used = {local_queue: self.used(local_queue) for local_queue in rows}
        return 1 + sum(
            row.before(order, less_used=(used[local_queue] < used[mine]) - (used[local_queue] > used[mine]))
            for local_queue, row in rows.items()
        )

    def heads(self, queue: str, most: int) -> list[Workload]:
        """Return who is pending in a ClusterQueue, the next one first; so many of them at most."""
        rows = self._lines.get(queue, {})
        if rows and self.sorting(queue) is not None:
            return self._in_order(queue).workloads[:most]
        firsts = [(self.used(local_queue) if len(rows) > 1 else 0.0, row) for local_queue, row in rows.items()]
        orders = ([(o[0], used, o) for o in row.orders[:most]] for used, row in firsts)
        found = merge(*(zip(keys, row.workloads, strict=False) for keys, (_, row) in zip(orders, firsts, strict=True)))
        return [workload for _, workload in islice(found, most)]

    def queues(self) -> Collection[str]:
        """Return the ClusterQueues in which anybody is pending."""
        return self._lines.keys()

    def _in_order(self, queue: str) -> _Row:
        """Return all of a ClusterQueue in one row, as they stand now."""
        rows = self._lines[queue]
        sorting = self.sorting(queue)
        if len(rows) == 1 and sorting is None:
            return next(iter(rows.values()))
        used = [self.used(local_queue) for local_queue in rows]
        orders = list(chain.from_iterable(row.orders for row in rows.values()))
        use = list(chain.from_iterable([used[n]] * len(row.orders) for n, row in enumerate(rows.values())))
        workloads = list(chain.from_iterable(row.workloads for row in rows.values()))
        told = list(chain.from_iterable(row.told for row in rows.values()))
        terms = _terms(sorting, workloads)
        order = sorted(range(len(orders)), key=lambda n: (orders[n][0], use[n], terms[n], orders[n]))
        return _Row([orders[n] for n in order], [workloads[n] for n in order], [told[n] for n in order])

    def _known_order(self, queue: str, now: float) -> Mapping[WorkloadKey, int]:
        """Return where those of a queue stood that has an order, no longer ago than it takes to tell them anew."""
        known = self._known.get(queue)
        if known is None or not known[0] <= now < known[0] + KNOWN_SECONDS:
            line = self._in_order(queue).workloads
            known = self._known[queue] = now, {one.key: at for at, one in enumerate(line, 1)}
        return known[1]

    def _leave(self, key: WorkloadKey, queue: str, local_queue: str, order: OrderKey) -> int:
        del self._where[key]
        rows = self._lines[queue]
        row = rows[local_queue]
        at = bisect_left(row.orders, order)
        del row.orders[at], row.workloads[at]
        told = row.told.pop(at)
        if not row.orders:
            del rows[local_queue]
        if not rows:
            del self._lines[queue]
            self._known.pop(queue, None)
        return told


def _terms(sorting: LineOrder[Any] | None, workloads: Sequence[Workload]) -> list[Terms]:
    if sorting is None:
        return [()] * len(workloads)
    places = [(one.traits, -one.standing[0], one.standing[1]) for one in workloads]
    there = [(traits, priority, since) for traits, priority, since in places if traits is not None]
    found = iter(sorting.terms_of_all(there))
    return [_AT_THE_END if traits is None else next(found) for traits, _, _ in places]
