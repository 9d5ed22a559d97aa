"""What statuses and metrics tell of queues, kept up to date one move at a time, so that asking walks through nobody.

How many workloads each queue holds and what they use, how many workloads and pods wait at which gate, which position
each pending workload has in its ClusterQueue, and which queues and cohorts use more quota than there is.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tutti.cluster.capacity import FreeCapacity
from tutti.engine.records.workloads import Counted, ObjectKey, Phase, Workload, WorkloadKey
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

    def figures(self) -> Hashable:
        """Return all of it, to compare with later."""
        numbers = self.pending, self.checking, self.admitted, self.leaving
        return numbers, tuple(self.reserved.items()), tuple(self.yielding.items())


class QueueCounts:
    """Workloads per LocalQueue (`namespace/name`) and ClusterQueue (`name`).

    Attributes:
        reported: The status last written per queue, by the uid of its object.
        told_by: What its figures went by then, likewise; nothing where they go by more than can be told in short.
    """

    def __init__(self) -> None:
        self.reported: dict[str, dict[str, Any]] = {}
        self.told_by: dict[str, Hashable] = {}
        self._counts: dict[str, QueueCount] = {}
        self._usage: dict[WorkloadKey, Usage] = {}

    def forget_reported(self, uid: str) -> None:
        """Know nothing more of what the object of a queue says; nothing happens where nothing is known."""
        self.reported.pop(uid, None)
        self.told_by.pop(uid, None)

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
            count = self._counts.get(name)
            if count is None:
                count = self._counts[name] = QueueCount()
            if bucket:
                setattr(count, bucket, getattr(count, bucket) + by)
            add_to(count.reserved, usage, by)
            if bucket in ("leaving", "checking"):
                add_to(count.yielding, usage, by)
            if not (count.pending or count.checking or count.admitted or count.leaving or any(count.reserved.values())):
                del self._counts[name]


_RESERVED: Final = Phase.RESERVED
_CHECKING: Final = Phase.CHECKING
_WAITING: Final = Phase.WAITING
_BINDING: Final = Phase.BINDING
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
        if workload.phase is _BINDING:
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
    phase = workload.phase
    if phase in _WAITING_FOR_NOTHING or not workload.active:
        return None
    tally = workload.counts()
    whole = phase in (_RESERVED, _CHECKING) or (
        phase is _WAITING and (workload.waits_without_members or tally.live > 0)
    )
    if not (whole or tally.waiting or tally.gated):
        return None
    why = workload.explanation
    gate, reason = ("", "") if why is None else (why.gate.value, why.reason)
    local_queue, queue, _ = workload.counted
    place = WaitingPlace(queue, phase, gate, reason, local_queue)
    return place, int(whole), tally.waiting, tally.gated


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
