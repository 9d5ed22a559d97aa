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
which its PodGroup has. A reason there must be: cluster-autoscaler can be told to count pods without any. The same holds
for a pod whose claims are being made from templates: nearly always that takes milliseconds, and a condition and an
event for each such pod would be more writes than a bind.
"""

from __future__ import annotations

from tutti.api.messages import listed
from tutti.engine.records.decisions import SetPodCondition
from tutti.engine.records.explanation import AWAITING_CLAIMS, REFRESH_SECONDS, Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState

GATHERING = ("WaitingForMembers", "SchedulingGated", AWAITING_CLAIMS)
"""Reasons of a gang that is still gathering, or of a pod whose claims are being made."""
MOST_NAMES = 5
"""How many parts of a gang of which nobody is there a message names."""


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
    why = workload.explanation
    alone = workload.key[0] == "Pod"
    if alone and (why is None or why.reason != AWAITING_CLAIMS):
        return  # its gates are told by the API server
    due = workload.reason_since + REFRESH_SECONDS
    if state.now < due:
        if alone:
            state.report_in_time(workload, workload.reason_since)  # which is forgotten with the reason
        else:
            state.set_alarm(workload, due)
        return
    text = f"{workload.name} is still gathering: {_where_told(state, workload)}"
    reason = GATHERING[0]
    if alone and why is not None:
        reason, text = why.reason, why.message
        if all(member.reported[0] != reason for member in workload.members()):
            state.announce(workload, "Warning", "FailedScheduling", text)
    for member in workload.members():
        if member.reported[0] != reason or _is_outdated(member) or member.nominated:
            _tell(state, member, reason, text)


def _where_told(state: StatusState, workload: Workload) -> str:
    """Say where it is told what a gang waits for; as long as it has no object, of which of its parts none is there."""
    absent = [name for name, group in workload.groups.items() if not group.members]
    if absent and state.catalog.find(workload.key) is None:
        return f"no pod of {listed(absent, len(absent), MOST_NAMES)} has come that says how many they are"
    return "its status says which of its members are missing, or have gates"


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
