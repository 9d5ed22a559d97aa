"""A drain, tried out: an engine is told that the node is cordoned and that its pods wait for another.

What is evicted follows `kubectl drain` (1.36, kubectl/pkg/drain/filters.go): not the pods of DaemonSets, nor static
ones; a pod that nothing controls is gone for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tutti.api.core import Pod
from tutti.api.messages import agreeing, counted
from tutti.api.owners import controller_of
from tutti.cli.views.drain.trial import (
    NOBODY_MAKES_THEM,
    AffectedBudget,
    AffectedGang,
    Drain,
    DrainedPod,
    DrainTrial,
    GangCourse,
    NodeDrain,
    PodFate,
    try_drain,
)
from tutti.cli.views.drawing import first_few
from tutti.cli.views.what_if import ObservedCluster, key_of
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.preemption import PreemptionState
from tutti.engine.records.gang_membership import SCALE_DOWN_ANNOTATIONS, SCALE_DOWN_MARK, scale_down_annotations
from tutti.engine.records.observations import PodSeen
from tutti.engine.records.workloads import Workload, WorkloadKey

_LETS_GO: Mapping[str, tuple[str, str]] = MappingProxyType({"false": ("", "true"), "true": ("", "false")})
"""By what an annotation says that keeps a node: what says that it may go; a time (`4h`) keeps it, too."""
_MIRROR = "kubernetes.io/config.mirror"
_DAEMON_SET = "DaemonSet"
_NOT_BEGUN = "Pending"


def check_drain(asked: ObservedCluster, state: PreemptionState, name: str) -> Drain:
    """Return what a drain of a node would do.

    Args:
        asked: Who can be asked.
        state: What there is (`Asked.stock`).
        name: A node that there is.
    """
    here = [one.pod for one in asked.listed.seen if isinstance(one, PodSeen) and one.pod.spec.node_name == name]
    fates = {key_of(pod): drained_fate(pod) for pod in here}
    leaving = [pod for pod in here if fates[key_of(pod)] in (PodFate.MOVES, PodFate.LOST)]
    along = _deleted_along(asked, state, leaving)
    fates |= {key_of(pod): drained_fate(pod) for pod in along}
    coming = [pod for pod in (*leaving, *along) if fates[key_of(pod)] is PodFate.MOVES]
    outcome = _tried(asked, state, name, [*leaving, *along], coming)
    pods = tuple(_leaver(state, pod, fates[key_of(pod)], outcome) for pod in here)
    elsewhere = [_leaver(state, pod, fates[key_of(pod)], outcome) for pod in along]
    gangs = tuple(_gangs(state, leaving, [*pods, *elsewhere], outcome))
    budgets = tuple(_budgets(state, leaving))
    nodes = state.cluster.nodes
    return Drain(
        name,
        bool(nodes.unschedulable[nodes.rows[name]]),
        pods,
        gangs,
        budgets,
        tuple(outcome.taken_out),
        tuple(_problems(pods, budgets, outcome)),
        tuple(_kept_from_scale_down(state, here)),
    )


def _kept_from_scale_down(state: PreemptionState, here: Sequence[Pod]) -> Iterator[str]:
    """Yield which pods keep autoscalers from taking the node away, by annotations of ours or of their own."""
    for pod in here:
        said = scale_down_annotations(pod.metadata.annotations)
        keeping = [key for key, value in SCALE_DOWN_ANNOTATIONS.items() if said.get(key, "") not in _LETS_GO[value]]
        if not keeping or drained_fate(pod) in (PodFate.STAYS, PodFate.ENDED):
            continue
        group = state.pod_group_of.get(key_of(pod))
        ours = SCALE_DOWN_MARK in said and group is not None
        why = f"{'/'.join(group[0][1:])} needs it (scaleDownProtection)" if ours and group else f"{', '.join(keeping)}"
        yield f"{pod.metadata.namespace}/{pod.metadata.name}: {why}"


def drained_fate(pod: Pod) -> PodFate:
    """Return what becomes of a pod when its node is drained, as `kubectl drain` would have it."""
    owner = controller_of(pod.metadata.owner_references)
    if _MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == _DAEMON_SET):
        return PodFate.STAYS
    if pod.terminated or pod.metadata.deletion_timestamp is not None:
        return PodFate.ENDED
    return PodFate.LOST if owner is None else PodFate.MOVES


def _deleted_along(asked: ObservedCluster, state: PreemptionState, leaving: Sequence[Pod]) -> list[Pod]:
    """Return the pods on other nodes whose gangs are deleted as a whole once one of their members is."""
    gone = {key_of(pod) for pod in leaving}
    whole = {
        state.pod_group_of[key][0] for key in gone if key in state.members and state.members[key].claim.leaves_together
    }
    left = {member.pod.key for gang in whole for member in state.workloads[gang].members()} - gone
    seen = (one.pod for one in asked.listed.seen if isinstance(one, PodSeen) and key_of(one.pod) in left)
    return [pod for pod in seen if drained_fate(pod) in (PodFate.MOVES, PodFate.LOST)]


def _tried(
    asked: ObservedCluster, state: PreemptionState, name: str, leaving: Sequence[Pod], coming: Sequence[Pod]
) -> DrainTrial:
    """Place what is made in place of pods: first those of ours, then those of others."""
    pods = [one.pod for one in asked.listed.seen if isinstance(one, PodSeen)]
    groups = {key: group[0] for key, group in state.pod_group_of.items() if group[0][0] != "Pod"}
    makes = {key_of(pod) for pod in pods if drained_fate(pod) is PodFate.MOVES}
    ours = [pod for pod in coming if key_of(pod) in state.members]
    others = [pod for pod in coming if key_of(pod) not in state.members]
    return try_drain(NodeDrain(asked, name, leaving, ours, others), groups, makes)


def _leaver(state: PreemptionState, pod: Pod, fate: PodFate, outcome: DrainTrial) -> DrainedPod:
    key, owner = key_of(pod), controller_of(pod.metadata.owner_references)
    group = state.pod_group_of.get(key)
    to = outcome.to.get(key, "") if fate is PodFate.MOVES else ""
    return DrainedPod(
        *key,
        pod.spec.scheduler_name,
        f"{owner.kind}/{owner.name}" if owner is not None else "",
        "/".join(group[0]) if group is not None and group[0][0] != "Pod" else "",
        tuple(_covering(state, pod)),
        PodFate.WAITS if fate is PodFate.MOVES and not to else fate,
        to,
        outcome.why.get(key, ""),
    )


def _covering(state: PreemptionState, pod: Pod) -> list[str]:
    record = _protected(state, pod)
    if record is None:
        return []
    return [f"{space}/{name}" for (space, name), budget in state.budgets.items() if budget.covers(record)]


def _gangs(
    state: PreemptionState, leaving: Sequence[Pod], pods: Sequence[DrainedPod], outcome: DrainTrial
) -> list[AffectedGang]:
    fates = {(one.namespace, one.name): one for one in pods}
    by_gang: dict[WorkloadKey, list[PodKey]] = {}
    for pod in leaving:
        group = state.pod_group_of.get(key_of(pod))
        if group is not None and group[0][0] != "Pod":
            by_gang.setdefault(group[0], []).append(key_of(pod))
    return [_hit(state, state.workloads[key], gone, fates, outcome.courses[key]) for key, gone in by_gang.items()]


def _hit(
    state: PreemptionState,
    gang: Workload,
    here: Sequence[PodKey],
    fates: Mapping[PodKey, DrainedPod],
    course: GangCourse,
) -> AffectedGang:
    members = {member.pod.key for member in gang.members()}
    gone = members & {key for key, one in fates.items() if one.fate not in (PodFate.STAYS, PodFate.ENDED)}
    breaks = any(
        group.counts().placed - len(gone & group.members.keys()) < group.min_count for group in gang.groups.values()
    )
    stuck = [fates[key] for key in fates if key in gone and fates[key].fate is not PodFate.MOVES]
    return AffectedGang(
        *gang.key,
        gang.counts().bound,
        len(here),
        gang.required,
        breaks,
        not stuck,
        next((one.why or NOBODY_MAKES_THEM for one in stuck), ""),
        any(state.members[key].claim.leaves_together for key in here),
        gang.ready_seconds if breaks and stuck else None,
        course.action,
        None if course.window is None else int(course.window),
        course.kept,
        course.at_once,
        course.when_gone,
        course.again,
        course.again_why,
    )


def _budgets(state: PreemptionState, leaving: Sequence[Pod]) -> list[AffectedBudget]:
    records = [record for pod in leaving if (record := _protected(state, pod)) is not None]
    found = ((key, budget, sum(budget.covers(one) for one in records)) for key, budget in state.budgets.items())
    return [AffectedBudget(*key, covered, budget.allowed) for key, budget, covered in found if covered]


def _protected(state: PreemptionState, pod: Pod) -> PodRecord | None:
    """Return what budgets are asked about; None where none is (kube-apiserver 1.36, core/pod: canIgnorePDB)."""
    return None if pod.status.phase == _NOT_BEGUN else state.cluster.pods.get(key_of(pod))


def _problems(pods: Sequence[DrainedPod], budgets: Sequence[AffectedBudget], outcome: DrainTrial) -> list[str]:
    lost = [one for one in pods if one.fate is PodFate.LOST]
    waits = [one for one in pods if one.fate is PodFate.WAITS]
    problems = []
    if lost:
        names = first_few([f"{one.namespace}/{one.name}" for one in lost])
        again = f"nothing makes {agreeing(len(lost), ('it', 'them'))} again"
        problems.append(f"{counted(len(lost), 'pod')} would be gone for good, as {again}: {names}")
    if waits:
        names = first_few([f"{one.namespace}/{one.name}" for one in waits])
        problems.append(f"{counted(len(waits), 'pod')} would find no other node: {names}")
    problems += [
        f"PodDisruptionBudget {one.namespace}/{one.name} allows {one.allowed} of {counted(one.covered, 'eviction')} now"
        for one in budgets
        if one.short
    ]
    problems += [
        f"pod {one.namespace}/{one.name} cannot be evicted: budgets {' and '.join(one.budgets)} cover it, and the API "
        "server evicts only where one does"
        for one in pods
        if len(one.budgets) > 1 and one.fate not in (PodFate.STAYS, PodFate.ENDED)
    ]
    if outcome.taken_out:
        problems.append(f"Tutti would take out {', '.join(outcome.taken_out)}")
    return problems
