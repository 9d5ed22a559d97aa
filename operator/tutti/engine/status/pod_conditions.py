"""What each pod of a workload is told: its PodScheduled condition, and the node that is held for it.

Autoscalers read both, pod by pod, and know nothing of gangs:

- cluster-autoscaler adds nodes for a pod whose condition has the reason `Unschedulable`, and which names no
  `nominatedNodeName`; one that names a node is counted on that node, as if it were bound (1.36, core/podlistprocessor
  and utils/kubernetes/listers.go).
- Karpenter adds nodes for such pods, too, and leaves a node alone for a while that one of them would fit on; a pod that
  names a node is none of its business, so that an empty node which is held for it looks idle (utils/pod/scheduling.go).

So only pods that lack a node say `Unschedulable`, all members of a gang are told in the same turn, one after the other,
and what is held is told as `autoscaler` in the configuration says. That is written along with why the gang is held.

A gang that gathers has failed at nothing: its pods are told so only once that has lasted, and once, without numbers,
which its PodGroup has. A reason there must be: cluster-autoscaler can be told to count pods without any.
"""

from __future__ import annotations

from tutti.engine.records.decisions import SetPodCondition
from tutti.engine.records.explanation import REFRESH_SECONDS, Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState

GATHERING = ("WaitingForMembers", "SchedulingGated")
"""Reasons of a gang that is still gathering."""


def gathers(why: Explanation) -> bool:
    """Whether a workload waits for members to exist, or to be free of gates, and for nothing else."""
    return why.gate is Gate.GATHER and why.reason in GATHERING


def tell_members(state: StatusState, workload: Workload, why: Explanation) -> None:
    """Tell all members of a workload why it waits, or is held."""
    if gathers(why):
        tell_gathering(state, workload)
        return
    for member in workload.members():
        _tell(state, member, why.pod_reason, why.message)


def tell_others(state: StatusState, workload: Workload, why: Explanation) -> None:
    """Tell what the others were told to members that have come since, or whose spec is another by now."""
    if gathers(why):
        tell_gathering(state, workload)
        return
    for member in workload.members():
        if not member.reported[0] or _is_outdated(member) or member.nominated != _held_node(state, member):
            _tell(state, member, why.pod_reason, why.message)


def tell_gathering(state: StatusState, workload: Workload) -> None:
    """Tell the members of a gang that has been gathering for a while that this is what they wait for."""
    if workload.key[0] == "Pod":
        return  # its gates are told by the API server
    due = workload.reason_since + REFRESH_SECONDS
    if state.now < due:
        state.set_alarm(workload, due)
        return
    text = f"{workload.name} is still gathering: its status says which of its members are missing, or have gates"
    for member in workload.members():
        if member.reported[0] != GATHERING[0] or _is_outdated(member) or member.nominated:
            _tell(state, member, GATHERING[0], text)


def take_back_nominations(state: StatusState, workload: Workload) -> None:
    """Have no member name a node that is not held for it any more; whatever else it was told stands."""
    for member in workload.members():
        if member.nominated and member.reported[0] and not _held_node(state, member):
            _tell(state, member, member.reported[0], member.reported[1])
    workload.nominates = False


def _is_outdated(member: Member) -> bool:
    """Whether a pod has changed since it was told; 0: it does not say for which of its generations it was."""
    return bool(member.told_generation) and member.told_generation != member.pod.generation


def _held_node(state: StatusState, member: Member) -> str:
    """Return the node that a member's status is to name: where victims leave for it, or one that is held for it."""
    nominated = state.nominations.nodes.get(member.pod.key, "")
    if nominated or state.configuration.autoscaler != "ClusterAutoscaler":
        return nominated
    return member.pod.assumed


def _tell(state: StatusState, member: Member, reason: str, message: str) -> None:
    pod = member.pod
    if pod.node or pod.gated or pod.deleting or pod.terminated or member.sent:
        return  # it is on its way, or has no use for a node
    if pod.assumed and state.configuration.autoscaler == "Karpenter":
        reason = "Unschedulable"
    node = _held_node(state, member)
    if member.reported[:2] == (reason, message) and member.nominated == node and not _is_outdated(member):
        return
    nominated = node if node or member.nominated else None
    member.reported, member.nominated = (reason, message, state.now), node
    member.told_generation = pod.generation
    state.workloads[state.pod_group_of[pod.key][0]].nominates |= bool(node)
    about = (pod.namespace, pod.name, pod.uid)
    state.out.append(SetPodCondition(*about, reason, message, pod.generation, nominated_node=nominated))
