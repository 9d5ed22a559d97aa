"""PodGroups for gangs that others describe: by annotations, or by objects of other projects.

So their status can be seen like any other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tutti.api.core import OwnerReference
from tutti.api.kinds import PodGroup
from tutti.engine.ingest.sizes import IMPLICIT_LABEL, are_told
from tutti.engine.records.decisions import CreatePodGroup, DeletePodGroup
from tutti.engine.records.members import Member
from tutti.engine.records.observations import PodGroupWritten
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State

ASK_AGAIN_SECONDS = 10.0
"""How long after a PodGroup could not be written it is tried again."""


def keep_pod_group(state: State, workload: Workload) -> None:
    """Have the PodGroup of an annotated gang made with its first pod, and removed with its last."""
    kind, namespace, name = workload.key
    if kind != "PodGroup":
        return
    found = state.catalog.get(PodGroup, namespace, name)
    members = list(workload.members())
    declared = bool(members) and (workload.gang is not None or members[0].claim.implicit)
    if found is None and declared and workload.problem is None:
        if workload.asked_for != "made" and (workload.gang is not None or are_told(workload)):
            workload.asked_for = "made"
            made_for = {IMPLICIT_LABEL: members[0].claim.convention}
            state.out.append(CreatePodGroup(namespace, name, _spec(workload), made_for, _owners(members, namespace)))
    elif found is not None and not members and IMPLICIT_LABEL in found.metadata.labels:
        if workload.asked_for == "deleted":
            return
        workload.asked_for = "deleted"
        state.out.append(DeletePodGroup(namespace, name, found.metadata.uid))
    else:
        workload.asked_for = ""


def _owners(members: Sequence[Member], namespace: str) -> list[OwnerReference]:
    """Return what controls the members, such as a Job; none for bare pods, and none across namespaces."""
    found = {m.owner.uid: m.owner for m in members if m.owner is not None and m.pod.namespace == namespace}
    return list(found.values())


def _spec(workload: Workload) -> dict[str, Any]:
    """Return the spec of a PodGroup that asks for what a gang asks for."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": workload.required}}}
    if workload.gang is not None:
        spec = dict(workload.gang.document)
    if workload.permit_seconds is not None:
        spec["scheduleTimeoutSeconds"] = workload.permit_seconds
    if workload.queue:
        spec["queueName"] = workload.queue
    return spec


def written(state: State, result: PodGroupWritten) -> None:
    """Take in what became of the request; one that failed is made again after a while."""
    workload = state.workloads.get(("PodGroup", result.namespace, result.name))
    if workload is not None and not result.done:
        workload.asked_for = ""
        workload.tell_at = state.now + ASK_AGAIN_SECONDS
        state.timed.add(workload)
