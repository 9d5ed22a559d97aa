"""What statuses and metrics tell of queues, kept up to date one move at a time, so that asking walks through nobody.

How many workloads each queue holds and what they use, how many workloads and pods wait at which gate, which position
each pending workload has in its ClusterQueue, and which queues and cohorts use more quota than there is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from tutti.cluster.capacity import FreeCapacity
from tutti.engine.records.workloads import Counted, ObjectKey, Phase, Workload, WorkloadKey
from tutti.quota.ordering import OrderKey
from tutti.quota.tree import QuotaTree, Usage, add_to

NOT_COUNTED: Counted = ("", "", "")
"""What is counted in no queue."""


@dataclass(slots=True)
class QueueCount:
    """What one queue holds: workloads by what they do, and the quota of those that have some.

    Attributes:
        pending: How many wait.
        checking: How many hold quota, and no room yet.
        admitted: How many have quota and room, and may keep them.
        leaving: How many are being taken out, and still use quota.
        reserved: The quota that is held by any of them.
        yielding: The part of it that those hold that are being taken out, or have no room yet.
    """

    pending: int = 0
    checking: int = 0
    admitted: int = 0
    leaving: int = 0
    reserved: Usage = field(default_factory=dict)
    yielding: Usage = field(default_factory=dict)


class QueueCounts:
    """Workloads per LocalQueue (`namespace/name`) and ClusterQueue (`name`).

    Attributes:
        reported: The status last written per queue, by the uid of its object.
    """

    def __init__(self) -> None:
        self.reported: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, QueueCount] = {}
        self._usage: dict[WorkloadKey, Usage] = {}

    def of(self, name: str) -> QueueCount:
        """Return what a queue holds."""
        return self._counts.get(name) or QueueCount()

    def move(self, workload: Workload, to: Counted, usage: Usage, changed: dict[str, None]) -> None:
        """Count a workload, with what it uses, under `to` (its queues and bucket).

        The queues that this concerns are added to `changed`.
        """
        before, used = workload.counted, self._usage.get(workload.key, {})
        for name in (*before[:2], *to[:2]):
            if name:
                changed[name] = None  # what it uses may have changed though its bucket has not
        if before == to and used == usage:
            return
        self._add(before, used, -1)
        self._add(to, usage, 1)
        workload.counted = to
        self._usage[workload.key] = usage
        if not usage:
            del self._usage[workload.key]

    def _add(self, where: Counted, usage: Usage, by: int) -> None:
        local, cluster, bucket = where
        for name in (local, cluster):
            if not name:
                continue
            count = self._counts.setdefault(name, QueueCount())
            if bucket:
                setattr(count, bucket, getattr(count, bucket) + by)
            add_to(count.reserved, usage, by)
            if bucket in ("leaving", "checking"):
                add_to(count.yielding, usage, by)
            if not (count.pending or count.checking or count.admitted or count.leaving or any(count.reserved.values())):
                del self._counts[name]


_WAITING_FOR_NOTHING = (Phase.FINISHED, Phase.LEAVING)
"""Phases in which nobody is counted, whatever its members do."""


class WaitingPlace(NamedTuple):
    """Where a workload waits, and for what.

    Attributes:
        queue: The ClusterQueue that it resolves to, or "".
        phase: Waiting; Reserved where its reservation is held; of one that runs, what it waits with for more members.
        gate: The gate it stands at; "" where it has not been tried yet.
        reason: The reason in one word; "" likewise.
        local_queue: The LocalQueue that it is in, as `namespace/name`, or "".
    """

    queue: str
    phase: Phase
    gate: str = ""
    reason: str = ""
    local_queue: str = ""


@dataclass(slots=True)
class WaitingCount:
    """Who waits at one place.

    Attributes:
        workloads: Those that wait as a whole, or have a reservation that is held.
        pods: Members without a node, but for those that have scheduling gates.
        gated: Members with scheduling gates.
    """

    workloads: int = 0
    pods: int = 0
    gated: int = 0


WaitingShare = tuple[WaitingPlace, int, int, int]
"""What one workload adds: its place, itself, its pods and those of them with gates."""


class WaitingCounts:
    """Those who wait, by place.

    Attributes:
        binding: The workloads whose members are being bound.
    """

    def __init__(self) -> None:
        self.binding: dict[WorkloadKey, Workload] = {}
        self._crowds: dict[WaitingPlace, WaitingCount] = {}
        self._shares: dict[WorkloadKey, WaitingShare] = {}

    def places(self) -> dict[WaitingPlace, WaitingCount]:
        """Return who waits where."""
        return self._crowds

    def put(self, workload: Workload) -> None:
        """Count a workload as it is now, in the queues that it has been counted in."""
        if workload.phase is Phase.BINDING:
            self.binding[workload.key] = workload
        else:
            self.binding.pop(workload.key, None)
        self._move(workload.key, _share(workload))

    def drop(self, key: WorkloadKey) -> None:
        """Count a workload no more."""
        self.binding.pop(key, None)
        self._move(key, None)

    def _move(self, key: WorkloadKey, to: WaitingShare | None) -> None:
        before = self._shares.get(key)
        if before == to:
            return
        if before is not None:
            self._add(before, -1)
            del self._shares[key]
        if to is not None:
            self._add(to, 1)
            self._shares[key] = to

    def _add(self, share: WaitingShare, by: int) -> None:
        place, workloads, pods, gated = share
        crowd = self._crowds.get(place)
        if crowd is None:
            crowd = self._crowds[place] = WaitingCount()
        crowd.workloads += by * workloads
        crowd.pods += by * pods
        crowd.gated += by * gated
        if not (crowd.workloads or crowd.pods or crowd.gated):
            del self._crowds[place]


def _share(workload: Workload) -> WaitingShare | None:
    """Return what a workload adds to who waits; None where nothing of it does."""
    phase, tally = workload.phase, workload.counts()
    if phase in _WAITING_FOR_NOTHING or not workload.active:
        return None
    whole = phase in (Phase.RESERVED, Phase.CHECKING) or (
        phase is Phase.WAITING and (workload.waits_without_members or tally.live > 0)
    )
    if not (whole or tally.waiting or tally.gated):
        return None
    why = workload.explanation
    gate, reason = ("", "") if why is None else (why.gate.value, why.reason)
    local_queue, queue, _ = workload.counted
    place = WaitingPlace(queue, phase, gate, reason, local_queue)
    return place, int(whole), tally.waiting, tally.gated


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


class QueuePositions:
    """The lines of pending workloads.

    A position is found by bisection; to come and to go costs a shift of the line behind it. Where past use counts, each
    LocalQueue has a row of its own, and the rows stand among one another by what each has used at that moment.

    Attributes:
        used: Tells what a LocalQueue has used lately.
        moved: ClusterQueues in which positions may have changed since they were told.
        look_at: When these are told anew, Unix seconds; None where none are.
        unforeseen: ClusterQueues in which what is known of the future may have changed.
        foresee_at: When the next of these is worked out, Unix seconds; None where none is.
        expecting: ClusterQueues in which somebody was told when it starts.
    """

    def __init__(self) -> None:
        self.used: Callable[[str], float] = _none
        self.moved: dict[str, None] = {}
        self.look_at: float | None = None
        self.unforeseen: dict[str, None] = {}
        self.foresee_at: float | None = None
        self.expecting: dict[str, None] = {}
        self._lines: dict[str, dict[str, _Row]] = {}
        self._where: dict[WorkloadKey, tuple[str, str, OrderKey]] = {}

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
        if len(rows) == 1:
            return next(iter(rows.values()))
        used = [self.used(local_queue) for local_queue in rows]
        orders = list(chain.from_iterable(row.orders for row in rows.values()))
        use = list(chain.from_iterable([used[n]] * len(row.orders) for n, row in enumerate(rows.values())))
        workloads = list(chain.from_iterable(row.workloads for row in rows.values()))
        told = list(chain.from_iterable(row.told for row in rows.values()))
        order = sorted(range(len(orders)), key=lambda n: (orders[n][0], use[n], orders[n]))
        return _Row([orders[n] for n in order], [workloads[n] for n in order], [told[n] for n in order])

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
        return told


@dataclass(frozen=True, slots=True)
class OveruseReport:
    """What one ClusterQueue or Cohort is told, and since when, Unix seconds."""

    message: str
    at: float


@dataclass(slots=True)
class Overuses:
    """The ClusterQueues and Cohorts that use more than there is.

    Attributes:
        reported: What each is told, by its key; no entry where all is well.
        version: Grows whenever that changes.
        look_at: When to look for the sake of newer figures, Unix seconds; None where those told are right.
        tree: The quota as it was when all were looked at.
    """

    reported: dict[ObjectKey, OveruseReport] = field(default_factory=dict)
    version: int = 0
    look_at: float | None = None
    tree: QuotaTree | None = None


@dataclass(kw_only=True)
class QueueFigures:
    """What is counted per queue, and what of it may have changed since it was told.

    Attributes:
        counts: How many workloads are where, and what they have reserved, per queue.
        changed_queues: Queues whose counts or usage may have changed since they were last told.
        free_by_flavor: What was free in each flavor when queues were last told it.
        free_at: When that was, Unix seconds.
        free_is_stale: Whether pods or nodes have been seen since.
    """

    counts: QueueCounts = field(default_factory=QueueCounts)
    changed_queues: dict[str, None] = field(default_factory=dict)
    free_by_flavor: dict[str, FreeCapacity] = field(default_factory=dict)
    free_at: float = 0.0
    free_is_stale: bool = False
