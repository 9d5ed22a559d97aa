"""Jobs of Volcano whose pods are placed here: the phases of their PodGroups, which Volcano's scheduler would write.

Volcano's controller makes a PodGroup for each Job, and pods only when its phase is neither empty nor Pending
(ed72c7c8, pkg/controllers/job/job_controller_actions.go, syncJob). Inqueue means that "controllers can start to create
pods" (apis/scheduling/v1beta1); its scheduler writes that, and Running and Completed later, by which Queues count
(framework/session.go, getPodGroupPhase). Unknown is never written: it would set off the policies of a Job.

The pods are made at once, as for every other kind of owner, and wait for queue, quota and room as one gang. A Job is
ours where its tasks, or it for them, name one of our schedulers; the PodGroups of all others are left to theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tutti.api.conventions.gang_objects import GangObject
from tutti.api.frameworks import ProjectedOwner
from tutti.engine.ingest import IngestState
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.faults import Whose
from tutti.engine.records.workloads import Phase, Workload

INQUEUE, RUNNING, COMPLETED = "Inqueue", "Running", "Completed"


def report_phases(state: IngestState, changed: Iterable[Workload]) -> None:
    """Write the phases that are not what they are to be: of PodGroups without pods, and of gangs that have changed."""
    known = state.gang_objects
    for gang in known.take_stirred() if known.stirred else ():
        whose = Whose("PodGroup.volcano.sh", gang.namespace, gang.name)
        state.attempt(whose, "writing its phase", partial(_begin, state, gang), None)
    for workload in changed:
        if workload.gang is not None and workload.gang.made_by is not None:
            act = partial(_follow, state, workload, workload.gang)
            state.attempt(Whose(*workload.key), "writing its phase", act, None)


def _begin(state: IngestState, gang: GangObject) -> None:
    """Let the pods of a gang be made."""
    if gang.uid not in state.gang_objects.phases and _is_ours(state, gang):
        _write(state, gang, INQUEUE)


def _follow(state: IngestState, workload: Workload, gang: GangObject) -> None:
    """Tell what has become of a gang; one that is taken out and waits again stays what it was, for pods to be made."""
    if not workload.was_scheduled or not _is_ours(state, gang):
        return
    phase = {Phase.SCHEDULED: RUNNING, Phase.FINISHED: COMPLETED}.get(workload.phase)
    if phase is not None and phase != state.gang_objects.phases.get(gang.uid, gang.phase):
        _write(state, gang, phase)


def _write(state: IngestState, gang: GangObject, phase: str) -> None:
    state.gang_objects.phases[gang.uid] = phase
    about = (gang.namespace, gang.name, gang.uid)
    state.out.append(PatchStatus("PodGroup", *about, {"phase": phase}, api_version=gang.api_version))


def _is_ours(state: IngestState, gang: GangObject) -> bool:
    """Whether pods of the Job that a PodGroup was made for are to be placed here, as far as it is known."""
    if gang.made_by is None:
        return False
    job = state.owner_graph.look_up(gang.made_by, gang.namespace)
    return isinstance(job, ProjectedOwner) and any(role.scheduler in state.profiles for role in job.roles)
