"""Who waits for victims, or devices, and fits before all of these have gone, or come: other room has become free.

It is looked at by amounts alone and for each need by itself: whoever may fit by that is tried, and starts there. Gangs
leave whole, and not all of their members are in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.engine.preemption import PreemptionState
from tutti.engine.preemption.nominated_columns import NominatedColumns
from tutti.engine.preemption.nominations import REFIT_SECONDS, without_nomination
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.workloads import Workload


def fitting_by_now(state: PreemptionState, freed: int) -> list[Workload]:
    """Return who waits for victims and may fit by now, while some of these are there still.

    However often something becomes free, they are looked at once in REFIT_SECONDS: in a busy cluster that is always.

    Args:
        state: The engine's memory.
        freed: How often room has become free, or quota has been given anew, since the last turn.
    """
    book = state.nominations
    book.missed = book.missed or freed > book.left
    if not book.missed or state.now < book.looked_at + REFIT_SECONDS:
        return []
    book.missed, book.looked_at = False, state.now
    waiting = [(state.workloads[key], one) for key, one in book.ours.items() if one.waits and key in state.workloads]
    room = {priority: _RoomBeside.of(state, priority) for priority in {one.priority for _, one in waiting}}
    return [
        workload
        for workload, one in waiting
        if room[one.priority].may_fit(pending_pod_sets(workload), one) and _may_have_quota(state, one)
    ]


@dataclass(slots=True)
class _RoomBeside:
    """What is free beside the room that those hold who wait for victims and never give way: as amounts alone.

    Attributes:
        nodes: All nodes.
        free: int64[rows, resources], what is free.
        beside: int64[rows, resources], the same without what is held for those that are in no queue and have at least
            some priority; what their victims still use does not count twice.
    """

    nodes: NodeColumns
    free: NDArray[np.int64]
    beside: NDArray[np.int64]
    _room: dict[PodClass, int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: PreemptionState, priority: int) -> Self:
        """Work it out for pods of a priority."""
        nodes, held = state.cluster.nodes, NominatedColumns()
        free = (nodes.allocatable - nodes.requested) * nodes.present[:, None]
        held.follow(
            [n for n in state.nominations.ours.values() if n.priority >= priority and not n.charges], state.cluster
        )
        beside = free.copy()
        for moves in (False, True):
            _, room = held.nominated(state.cluster, moves=moves)
            beside[room.rows, : room.amounts.shape[1]] -= room.amounts
        overlap = held.overlap(state.cluster)
        if overlap is not None:
            used = overlap.in_use()
            beside[overlap.rows, : used.shape[1]] += used
        return cls(nodes, free, beside)

    def may_fit(self, needs: Sequence[PodSetRequest] | Explanation, own: Nomination) -> bool:
        """Whether there may be room for the required pods of all needs, each for itself."""
        if isinstance(needs, Explanation):
            return False
        rows = sorted({self.nodes.rows[node] for node in own.nodes if node in self.nodes.rows})
        for need in needs:
            pod_class = need.pod_class
            if pod_class not in self._room:
                self._room[pod_class] = self._count(pod_class, self.beside)
            if need.required > self._room[pod_class] + self._count(pod_class, self.free[rows]):
                return False
        return True

    def _count(self, pod_class: PodClass, free: NDArray[np.int64]) -> int:
        """Return for how many pods of a class there is room on some rows together."""
        request = self.nodes.vector(pod_class.requests)
        asked = np.flatnonzero(request)
        if not len(asked):
            return 2**62
        return int((free[:, asked] // request[asked]).min(axis=1).clip(0).sum())


def _may_have_quota(state: PreemptionState, nomination: Nomination) -> bool:
    """Whether there is a flavor with so much of each resource that a nomination is for, each for itself."""
    with without_nomination(state, nomination):
        for charge, pods in nomination.charges:
            node = state.ledger.tree.queues.get(charge.queue)
            if node is None:
                return False
            for (_, resource), amount in charge.usage.items():
                here = (node.available(what) for what in node.quotas if what[1] == resource)
                if amount * pods > max(here, default=0):
                    return False
    return True
