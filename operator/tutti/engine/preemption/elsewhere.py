"""Whether those who wait for their victims fit by now, while some of these are there still.

So it may be where room has become free that is none of theirs, or where some of them have gone: gangs leave whole, and
not all of their members are in the way.

This is looked at by amounts alone, each need for itself: whoever may fit is tried, and whether it does is found out
there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.engine.preemption.nominations import LOOK_SECONDS, without
from tutti.engine.records.claims import Nomination
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.needs import Need, needs_of
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State


def elsewhere(state: State, freed: int) -> list[Workload]:
    """Return who waits for victims and may fit by now, while some of these are there still.

    However often something becomes free, they are looked at once in LOOK_SECONDS: in a busy cluster that is always.

    Args:
        state: The engine's memory.
        freed: How often room has become free, or quota has been given anew, since the last turn.
    """
    book = state.nominations
    book.missed = book.missed or freed > book.left
    if not book.missed or state.now < book.looked_at + LOOK_SECONDS:
        return []
    book.missed, book.looked_at = False, state.now
    room: dict[PodClass, int] = {}
    waiting = [(state.workloads[key], one) for key, one in book.ours.items() if one.victims and key in state.workloads]
    return [
        workload
        for workload, one in waiting
        if _may_fit(state, needs_of(workload), room) and _may_have_quota(state, one)
    ]


def _may_fit(state: State, needs: Sequence[Need] | Explanation, room: dict[PodClass, int]) -> bool:
    """Whether there is room for the required pods of all needs, each for itself, going by amounts alone."""
    if isinstance(needs, Explanation):
        return False
    for need in needs:
        if need.klass not in room:
            room[need.klass] = _room_for(state, need.klass)
        if need.required > room[need.klass]:
            return False
    return True


def _room_for(state: State, klass: PodClass) -> int:
    """Return how many pods of a class all nodes together have room for."""
    nodes = state.cluster.nodes
    request = nodes.vector(klass.requests)
    asked = np.flatnonzero(request)
    if not len(asked):
        return 2**62
    free = (nodes.allocatable - nodes.requested)[nodes.present][:, asked]
    return int((free // request[asked]).min(axis=1).clip(0).sum())


def _may_have_quota(state: State, nomination: Nomination) -> bool:
    """Whether there is a flavor with so much of each resource that a nomination is for, each for itself."""
    with without(state, nomination):
        for charge, pods in nomination.charges:
            node = state.ledger.tree.queues.get(charge.queue)
            if node is None:
                return False
            for (_, resource), amount in charge.usage.items():
                here = (node.available(what) for what in node.quotas if what[1] == resource)
                if amount * pods > max(here, default=0):
                    return False
    return True
