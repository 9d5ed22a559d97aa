"""Where each pending workload stands in its ClusterQueue, kept in order one move at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tutti.engine.workloads import Workload, WorkloadKey
from tutti.queueing.order import OrderKey

UNTOLD = 0
"""What stands for a position where a workload has been told nothing of why it waits, or has no object to say it."""

NOWHERE = -1
"""What stands for it where it has been told why it waits, but no position."""


@dataclass(slots=True, eq=False)
class _Line:
    """The pending workloads of one ClusterQueue in order.

    Attributes:
        orders: What they are sorted by.
        told: The positions that they were told.
    """

    orders: list[OrderKey] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    told: list[int] = field(default_factory=list)


class Places:
    """The lines of pending workloads.

    A position is found by bisection; to come and to go costs a shift of the line behind it.

    Attributes:
        moved: ClusterQueues in which positions may have changed since they were told.
        look_at: When these are told anew, Unix seconds; None where none are.
        unforeseen: ClusterQueues in which what is known of the future may have changed.
        foresee_at: When the next of these is worked out, Unix seconds; None where none is.
        expecting: ClusterQueues in which somebody was told when it starts.
    """

    def __init__(self) -> None:
        self.moved: dict[str, None] = {}
        self.look_at: float | None = None
        self.unforeseen: dict[str, None] = {}
        self.foresee_at: float | None = None
        self.expecting: dict[str, None] = {}
        self._lines: dict[str, _Line] = {}
        self._where: dict[WorkloadKey, tuple[str, OrderKey]] = {}

    def put(self, workload: Workload) -> None:
        """Have a workload stand where it is counted as pending, and nowhere else."""
        _, queue, bucket = workload.counted
        to = (queue, workload.order) if queue and bucket == "pending" else None
        before = self._where.get(workload.key)
        if before == to:
            return
        told = self._leave(workload.key, *before) if before is not None else UNTOLD
        if to is not None:
            self._where[workload.key] = to
            line = self._lines.setdefault(queue, _Line())
            at = bisect_left(line.orders, to[1])
            line.orders.insert(at, to[1])
            line.workloads.insert(at, workload)
            line.told.insert(at, told)

    def note(self, workload: Workload, said: Mapping[str, Any] | None) -> None:
        """Take over what the object of a workload says of why it waits, if it says anything."""
        where = self._where.get(workload.key)
        if where is None:
            return
        queue, order = where
        line = self._lines[queue]
        position = UNTOLD if said is None else said.get("position") or NOWHERE
        line.told[bisect_left(line.orders, order)] = position
        if said is not None and said.get("estimatedStart"):
            self.expecting[queue] = None

    def most_wrong(self, queues: Sequence[str], most: int) -> list[tuple[int, Workload]]:
        """Return who of some queues was told the most wrong positions, with the right ones.

        What was told is the more wrong, the farther the one is from the other as a ratio; of equals, who stands nearer
        to the head comes first. Whoever was told nothing at all is left out.
        """
        lines = [self._lines[name] for name in queues]
        told = np.fromiter(chain.from_iterable(line.told for line in lines), dtype=np.int64)
        positions = np.fromiter(chain.from_iterable(range(1, len(line.told) + 1) for line in lines), dtype=np.int64)
        wrong = np.flatnonzero((told != positions) & (told != UNTOLD))
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
        queue, order = where
        return bisect_left(self._lines[queue].orders, order) + 1

    def line(self, queue: str) -> Sequence[Workload]:
        """Return who is pending in a ClusterQueue, the next one first."""
        line = self._lines.get(queue)
        return () if line is None else line.workloads

    def queues(self) -> Collection[str]:
        """Return the ClusterQueues in which anybody is pending."""
        return self._lines.keys()

    def _leave(self, key: WorkloadKey, queue: str, order: OrderKey) -> int:
        del self._where[key]
        line = self._lines[queue]
        at = bisect_left(line.orders, order)
        del line.orders[at], line.workloads[at]
        if not line.orders:
            del self._lines[queue]
        return line.told.pop(at)
