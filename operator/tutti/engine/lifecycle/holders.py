"""What preemption goes by of those that hold quota: how important they are, since when, and who is spared."""

from __future__ import annotations

import math

from tutti.api.kinds import PodGroup
from tutti.engine.lifecycle.limits import protected_until
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.engine.state import State
from tutti.quota.snapshot import AdmittedWorkload
from tutti.quota.tree import Usage

PART = "#"
"""Stands between the name of a workload and that of a member that is a holder by itself; no name has it."""


def describe(state: State, workload: Workload) -> None:
    """Have what a workload holds described as it is now; nothing happens where it holds nothing."""
    if state.ledger.holds(workload.name):
        state.ledger.describe(workload.name, holder_of(state, workload, {}))


def note_exposure(state: State, workload: Workload) -> None:
    """Have those who wait for nodes look again, where one that has some may be taken out for them now as it was not.

    Whom it may be taken out for goes by its priority; which of its pods, by how many of them it needs and whether they
    leave together. All of that may change, or go with its object, while it runs.
    """
    found = state.catalog.get(PodGroup, *workload.key[1:]) if workload.key[0] == "PodGroup" else None
    mode = found.spec.disruption_mode if found is not None else ""
    exposure = workload.priority, workload.queue, mode, [group.min_count for group in workload.groups.values()]
    before, workload.exposure = workload.exposure, exposure
    if before is not None and before != exposure and workload.phase in ADMITTED:
        state.cluster.freed += 1


def holder_of(state: State, workload: Workload, usage: Usage) -> AdmittedWorkload:
    """Return what preemption goes by of a workload that has so much of the quota of its ClusterQueue."""
    queue = state.catalog.queues.get(workload.cluster_queue)
    return AdmittedWorkload(
        workload.name,
        workload.cluster_queue,
        usage,
        priority=workload.priority,
        queued_at=workload.queued_at,
        reserved_at=_reserved_at(workload),
        evicted=workload.phase is Phase.LEAVING,
        uid=workload.uid,
        local_queue=f"{workload.key[1]}/{workload.queue}",
        cross_queue_priority=None if queue is None else queue.cross_queue_priority(workload.priority),
        out_of_turn=workload.out_of_turn,
    )


def is_spared(state: State, holder: AdmittedWorkload) -> bool:
    """Whether a holder may not be preempted: it has not run long enough, or is none that could be told to leave."""
    workload = workload_of(state, holder)
    if workload is None or workload.key in state.nominations.ours:
        return True
    return protected_until(state, workload) > state.now


def workload_of(state: State, holder: AdmittedWorkload) -> Workload | None:
    """Return the workload of a holder, or of which it is a member that stands by itself."""
    kind, namespace, name = holder.name.partition(PART)[0].split("/")
    return state.workloads.get((kind, namespace, name))


def _reserved_at(workload: Workload) -> float:
    """Return when a workload was given quota; of one found bound, when the last of its pods had started."""
    if workload.reserved_at is not None:
        return workload.reserved_at
    started = [member.pod.started for member in workload.members() if member.pod.place]
    return max((time for time in started if time is not None), default=math.inf)
