"""Members of a gang that runs are kept from scale-down, where its Workload or ClusterQueue asks for that.

cluster-autoscaler removes no node with a pod that says `safe-to-evict: "false"` (1.36, simulator/drainability),
Karpenter none with one that says `do-not-disrupt: "true"` (utils/pod/scheduling.go, IsDisruptable). One evicted member
breaks a gang, and to whom it matters says so by `scaleDownProtection: WhileNeeded`: as many members of each pod group
as must run together have both annotations; those beyond have none, and their nodes may go.

They come with the Binding, at no write of their own, and are taken off by a patch when a member is needed no more:
there are more, its gang has ended or is taken out, or nobody asks for it any longer. What a user has written himself
stands: a third annotation says which of the two are ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import AnnotatePod
from tutti.engine.records.gang_membership import SCALE_DOWN_ANNOTATIONS, SCALE_DOWN_MARK
from tutti.engine.records.members import Member
from tutti.engine.records.observations import PodAnnotated
from tutti.engine.records.workloads import UNDER_WAY, Workload

AGAIN_SECONDS = 60.0
"""After how long an annotation is asked for again that could not be written."""


def protects(state: LifecycleState, workload: Workload) -> bool:
    """Whether the members that a gang needs are to be kept from scale-down."""
    if workload.required < 2:  # noqa: PLR2004 - one pod is no gang, and its loss breaks nothing else
        return False
    said = workload.scale_down_protection
    if not said:
        queue = state.catalog.queues.get(workload.cluster_queue or state.leads_to(workload.key[1], workload.queue))
        return queue is not None and queue.protects
    return said == "WhileNeeded"


def annotations_at_bind(workload: Workload, member: Member) -> Mapping[str, str]:
    """Return what the Binding of a member that is to be protected adds to its annotations."""
    free = [key for key in SCALE_DOWN_ANNOTATIONS if key not in member.scale_down]
    if not free:
        return {}
    workload.some_protected = True
    return {**{key: SCALE_DOWN_ANNOTATIONS[key] for key in free}, SCALE_DOWN_MARK: ",".join(free)}


def follow_protection(state: LifecycleState, workload: Workload) -> None:
    """Have the members that a gang needs protected, and no others."""
    wanted = workload.phase in UNDER_WAY and protects(state, workload)
    if not (wanted or workload.some_protected):
        return
    workload.some_protected = False
    for group in workload.groups.values():
        left = group.min_count if wanted else 0
        for member in group.members.values():
            pod = member.pod
            if not pod.node or pod.deleting or pod.terminated:
                continue
            needed, left = left > 0, left - 1
            workload.some_protected |= needed
            _follow(state, workload, member, needed=needed)


def _follow(state: LifecycleState, workload: Workload, member: Member, *, needed: bool) -> None:
    ours = [key for key in member.scale_down.get(SCALE_DOWN_MARK, "").split(",") if key in SCALE_DOWN_ANNOTATIONS]
    has = SCALE_DOWN_MARK in member.scale_down
    free = [key for key in SCALE_DOWN_ANNOTATIONS if key not in member.scale_down]
    if needed is has or (needed and not free):
        member.asked_protection = None
        return
    workload.some_protected = True
    if member.asked_protection is needed:
        return
    if member.protection_refused and state.now < member.protection_refused + AGAIN_SECONDS:
        state.set_alarm(workload, member.protection_refused + AGAIN_SECONDS)
        return
    member.asked_protection = needed
    change: dict[str, str | None] = dict.fromkeys((*ours, SCALE_DOWN_MARK))
    if needed:
        change = {**{key: SCALE_DOWN_ANNOTATIONS[key] for key in free}, SCALE_DOWN_MARK: ",".join(free)}
    pod = member.pod
    state.out.append(AnnotatePod(pod.namespace, pod.name, pod.uid, change))


def annotation_finished(state: LifecycleState, result: PodAnnotated) -> None:
    """Take in what became of an AnnotatePod; one that failed is asked for again after a while, and says so once."""
    member = state.members.get((result.namespace, result.name))
    if member is None or member.pod.uid != result.uid:
        return
    if result.done:
        member.protection_refused = 0.0
        return  # it is seen on the pod
    workload = state.workloads[state.pod_group_of[member.pod.key][0]]
    if not member.protection_refused:
        text = f"its annotations against scale-down could not be written to pod {result.name}: {result.message}; "
        text += "the operator needs the right to patch pods (manifests/components/scale-down-protection)"
        state.announce(workload, "Warning", "ScaleDownProtection", text)
    member.asked_protection, member.protection_refused = None, state.now
    state.touch(workload.key)
