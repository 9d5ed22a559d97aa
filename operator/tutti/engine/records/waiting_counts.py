"""How many workloads and pods wait, and at which gate: counted by differences, so that asking walks through nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tutti.engine.records.workloads import Phase, Workload, WorkloadKey

_WAITING_FOR_NOTHING = (Phase.FINISHED, Phase.LEAVING)
"""Phases in which nobody is counted, whatever its members do."""


class Place(NamedTuple):
    """Where a workload waits, and for what.

    Attributes:
        queue: The ClusterQueue that it resolves to, or "".
        phase: Waiting; Reserved where its reservation is held; of one that runs, what it waits with for more members.
        gate: The gate it stands at; "" where it has not been tried yet.
        reason: The reason in one word; "" likewise.
        door: The LocalQueue that it is in, as `namespace/name`, or "".
    """

    queue: str
    phase: Phase
    gate: str = ""
    reason: str = ""
    door: str = ""


@dataclass(slots=True)
class Crowd:
    """Who waits at one place.

    Attributes:
        workloads: Those that wait as a whole, or have a reservation that is held.
        pods: Members without a node, but for those that have scheduling gates.
        gated: Members with scheduling gates.
    """

    workloads: int = 0
    pods: int = 0
    gated: int = 0


Share = tuple[Place, int, int, int]
"""What one workload adds: its place, itself, its pods and those of them with gates."""


class WaitingCounts:
    """Those who wait, by place.

    Attributes:
        binding: The workloads whose members are being bound.
    """

    def __init__(self) -> None:
        self.binding: dict[WorkloadKey, Workload] = {}
        self._crowds: dict[Place, Crowd] = {}
        self._shares: dict[WorkloadKey, Share] = {}

    def places(self) -> dict[Place, Crowd]:
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

    def _move(self, key: WorkloadKey, to: Share | None) -> None:
        before = self._shares.get(key)
        if before == to:
            return
        if before is not None:
            self._add(before, -1)
            del self._shares[key]
        if to is not None:
            self._add(to, 1)
            self._shares[key] = to

    def _add(self, share: Share, by: int) -> None:
        place, workloads, pods, gated = share
        crowd = self._crowds.get(place)
        if crowd is None:
            crowd = self._crowds[place] = Crowd()
        crowd.workloads += by * workloads
        crowd.pods += by * pods
        crowd.gated += by * gated
        if not (crowd.workloads or crowd.pods or crowd.gated):
            del self._crowds[place]


def _share(workload: Workload) -> Share | None:
    """Return what a workload adds to who waits; None where nothing of it does."""
    phase, tally = workload.phase, workload.tally()
    if phase in _WAITING_FOR_NOTHING or not workload.active:
        return None
    whole = phase is Phase.RESERVED or (phase is Phase.WAITING and (workload.key[0] == "Workload" or tally.live > 0))
    if not (whole or tally.waiting or tally.gated):
        return None
    why = workload.explanation
    gate, reason = ("", "") if why is None else (why.gate.value, why.reason)
    door, queue, _ = workload.counted
    place = Place(queue, phase, gate, reason, door)
    return place, int(whole), tally.waiting, tally.gated
