"""A drain, told to an engine in the order in which it happens, and what becomes of the gangs that it breaks.

First the node is cordoned and its pods are gone, so that the engine keeps for the gangs what they have lost; then their
successors are there, and after ours those of other schedulers. For gangs that are not whole then, time passes until
their windows are over: they are taken out, and their members are made again.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tutti.api.core import Pod
from tutti.cli.views.degraded import KeptQuota, quota_kept_for
from tutti.cli.views.drain.carrying import decide_and_carry_out
from tutti.cli.views.drain.others import left_by, place_others, settled, with_placed
from tutti.cli.views.pod_copies import claims_left_by, with_claims
from tutti.cli.views.what_if import ObservedCluster, cordoned, key_of, node_of, successors, waits_for
from tutti.cluster.pods import PodKey
from tutti.engine.cycle.engine import Engine
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.member_loss import is_restarting, restarts_at
from tutti.engine.records.decisions import AnyDecision, Evict
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.explanation import EvictionReason
from tutti.engine.records.observations import NodeGone, NodeSeen, PodGone, PodSeen
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey

NOBODY_MAKES_THEM = "nothing makes its pods again"
"""Why a gang is not whole again of which pods that nothing controls leave."""


class PodFate(enum.StrEnum):
    """What becomes of a pod when its node is drained."""

    STAYS = "Stays"
    ENDED = "Ended"
    MOVES = "Moves"
    WAITS = "Waits"
    LOST = "Lost"


class DrainedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the node.

    Attributes:
        owner: Kind and name of what controls it and makes another one, or "".
        gang: Kind, namespace and name of the gang that it is in, or "".
        budgets: The disruption budgets that cover it.
        to: Where the one that is made in its place would go, or "".
        why: Why it would not come back.
    """

    namespace: str
    name: str
    scheduler: str
    owner: str
    gang: str
    budgets: tuple[str, ...]
    fate: PodFate
    to: str = ""
    why: str = ""


class AffectedGang(msgspec.Struct, frozen=True, rename="camel"):
    """A gang with members on the node.

    Attributes:
        bound: How many members have a node now; `leaving` of them are on this one, and `required` must run together.
        breaks: Whether it would run with fewer than it needs meanwhile.
        whole: Whether it would be whole again.
        why: Why not.
        deleted: Whether all its members are deleted, wherever they are, once one of them is.
        patience: After how many seconds without being ready it is taken out as a whole; None: it is left as it is.
        action: Of one that breaks, Restart or Keep, as its onMemberLoss says; else "".
        window: For how many seconds what it loses is kept for successors; None: as long as it lacks them.
        kept: The quota that is.
        at_once: Why it is restarted before that, or "".
        when_gone: Whether it is restarted before that when the Node is deleted.
        again: Of one that is restarted, how many of its members go to each node then, as it is now.
        again_why: What it waits for then, or "".
    """

    kind: str
    namespace: str
    name: str
    bound: int
    leaving: int
    required: int
    breaks: bool
    whole: bool
    why: str = ""
    deleted: bool = False
    patience: int | None = None
    action: str = ""
    window: int | None = None
    kept: tuple[KeptQuota, ...] = ()
    at_once: str = ""
    when_gone: bool = False
    again: Mapping[str, int] = {}
    again_why: str = ""


class AffectedBudget(msgspec.Struct, frozen=True, rename="camel"):
    """A disruption budget that covers pods of the node, and how many more of its pods may be disrupted now."""

    namespace: str
    name: str
    covered: int
    allowed: int

    @property
    def short(self) -> int:
        """How many evictions it would refuse for now."""
        return max(0, self.covered - self.allowed)


class Drain(msgspec.Struct, frozen=True, rename="camel"):
    """What a drain would do.

    Attributes:
        cordoned: Whether the node is already.
        taken_out: Pods that Tutti would evict elsewhere to make room.
        problems: Why it should not be drained now; none where it can be.
        protected: Pods for whose sake autoscalers do not take the node away, and who asks for that.
    """

    node: str
    cordoned: bool
    pods: tuple[DrainedPod, ...]
    gangs: tuple[AffectedGang, ...]
    budgets: tuple[AffectedBudget, ...]
    taken_out: tuple[str, ...]
    problems: tuple[str, ...]
    protected: tuple[str, ...] = ()


@dataclass(slots=True)
class GangCourse:
    """What becomes of one gang.

    Attributes:
        action: Restart or Keep; "" where it lacks nothing, or nobody waits for successors.
        window: How many seconds from now quota and room are kept; None: as long as it lacks members.
        kept: The quota that is kept.
        at_once: Why it is restarted before its window is over, or "".
        when_gone: Whether it is restarted at once when the node does not exist any more.
        again: How many of its members go to each node once it was restarted.
        again_why: What it waits for then, or "".
    """

    action: str = ""
    window: float | None = None
    kept: tuple[KeptQuota, ...] = ()
    at_once: str = ""
    when_gone: bool = False
    again: Mapping[str, int] = field(default_factory=dict)
    again_why: str = ""


@dataclass(slots=True)
class DrainTrial:
    """What an engine did.

    Attributes:
        to: Where the successors of pods go.
        why: What those of others wait for.
        taken_out: Pods that are taken out for them.
        courses: What becomes of each gang that pods were of.
    """

    to: dict[PodKey, str] = field(default_factory=dict)
    why: dict[PodKey, str] = field(default_factory=dict)
    taken_out: list[str] = field(default_factory=list)
    courses: dict[WorkloadKey, GangCourse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeDrain:
    """A drain.

    Attributes:
        asked: Who can be asked.
        node: The one that is drained.
        leaving: The pods that leave, whoever has scheduled them.
        coming: Those of ours in whose place others are made.
        others: The same of other schedulers.
    """

    asked: ObservedCluster
    node: str
    leaving: Sequence[Pod]
    coming: Sequence[Pod]
    others: Sequence[Pod]

    def begun(self) -> Engine:
        """Return an engine that has seen the pods go and not come again yet."""
        engine = self.asked.stock()
        engine.observe(NodeSeen(cordoned(node_of(self.asked.listed.seen, self.node))))
        self.go(engine, self.leaving)
        engine.decide(self.asked.at, most=0)
        return engine

    def come(self, engine: Engine, pods: Iterable[Pod]) -> None:
        """Have an engine see what is made in place of pods."""
        for pod in pods:
            for one in with_claims(self.asked.listed.seen, pod, successors(pod, 1)):
                engine.observe(one)

    def go(self, engine: Engine, pods: Sequence[Pod]) -> None:
        """Have an engine see pods go, and the claims that they leave."""
        for pod in pods:
            engine.observe(PodGone(*key_of(pod), pod.metadata.uid))
        claims = [DeviceClaimSeen(one) for one in engine.state.cluster.nodes.devices.book.claims.values()]
        for claim in claims_left_by(claims, pods):
            engine.observe(claim)


def try_drain(scene: NodeDrain, homes: Mapping[PodKey, WorkloadKey], makes: Collection[PodKey]) -> DrainTrial:
    """Try a drain: who is made in place of pods of ours has nodes first, then who is made in place of others.

    Args:
        scene: The drain.
        homes: The gang of each pod that is in one.
        makes: The pods, on whatever node, that are made again when they are gone.
    """
    asked, found = scene.asked, DrainTrial()
    engine = scene.begun()
    gangs = dict.fromkeys(homes[key_of(pod)] for pod in scene.leaving if key_of(pod) in homes)
    for key in gangs:
        found.courses[key] = _course(engine.state, key, asked.at)
    scene.come(engine, scene.coming)
    decisions = decide_and_carry_out(engine, asked.at)
    for pod in scene.coming:
        note_placement(engine.state, pod, found)
    found.taken_out = _taken_out(decisions)
    if scene.others:
        _place_others(scene, engine, decisions, found)
    broken = [key for key in gangs if _is_broken(engine.state, key)]
    _pass_time(scene, engine, broken, found, makes)
    if any(not found.courses[key].at_once for key in broken):
        _delete_node(scene, broken, found)
    return found


def _place_others(scene: NodeDrain, engine: Engine, decisions: Iterable[AnyDecision], found: DrainTrial) -> None:
    """Place who is made in place of pods of others by what ours have left, and have an engine see them."""
    asked = scene.asked
    left = left_by(asked, scene.node, scene.leaving)
    state = place_others(asked, with_placed(asked, left, scene.coming, engine, decisions), scene.others, engine.state)
    for pod in scene.others:
        note_placement(state, pod, found)
    for one in settled(asked, scene.others, state):
        engine.observe(one)


def _course(state: LifecycleState, key: WorkloadKey, now: float) -> GangCourse:
    """Return what is kept for a gang that has lost members, and for how long."""
    workload = state.workloads.get(key)
    if workload is None or workload.degraded_since is None:
        return GangCourse(at_once=_restarted(workload))
    end = restarts_at(workload)
    kept = tuple(quota_kept_for(state, workload))
    return GangCourse("Keep", None, kept) if end is None else GangCourse("Restart", max(0.0, end - now), kept)


def note_placement(state: LifecycleState, pod: Pod, found: DrainTrial) -> None:
    """Note where the pod goes that is made in place of one, or what it waits for."""
    (new,) = successors(pod, 1)
    place = state.members[key_of(new.pod)].pod.place
    if place:
        found.to[key_of(pod)] = place
        return
    why = waits_for(state.workloads[state.pod_group_of[key_of(new.pod)][0]])
    found.why[key_of(pod)] = "" if why is None else why.plain


def _taken_out(decisions: Iterable[AnyDecision]) -> list[str]:
    """Return who is taken out for others; those whose own gang is restarted are not."""
    evicted = (one for one in decisions if isinstance(one, Evict))
    return [f"{one.namespace}/{one.name}" for one in evicted if one.reason != EvictionReason.MEMBER_LOST]


def _is_broken(state: LifecycleState, key: WorkloadKey) -> bool:
    """Whether a gang will not be whole with what has been decided."""
    workload = state.workloads.get(key)
    if workload is None or _restarted(workload):
        return workload is not None
    return workload.degraded_since is not None and any(group.missing for group in workload.groups.values())


def _restarted(workload: Workload | None) -> str:
    """Return why a gang has been taken out to start again whole, or ""."""
    if workload is None or workload.evicted is None or workload.evicted.reason != EvictionReason.MEMBER_LOST:
        return ""
    return workload.evicted.message if workload.phase is Phase.LEAVING or is_restarting(workload) else ""


def _pass_time(
    scene: NodeDrain, engine: Engine, broken: Sequence[WorkloadKey], found: DrainTrial, makes: Collection[PodKey]
) -> None:
    """Have the windows of broken gangs pass, and their members made again that were made by something."""
    state, now = engine.state, scene.asked.at
    for key in broken:
        course = found.courses[key]
        course.at_once = _restarted(state.workloads[key])
    windows = [found.courses[key].window or 0.0 for key in broken]
    if not broken:
        return
    engine.decide(now + max(windows) + 1.0)
    restarted = [key for key in broken if _restarted(state.workloads.get(key))]
    seen = {key_of(one.pod): one.pod for one in scene.asked.listed.seen if isinstance(one, PodSeen)}
    for key in restarted:
        members = [member.pod.key for member in state.workloads[key].members()]
        left = [seen[one] for one in members if one in seen]
        scene.go(engine, left)
        scene.come(engine, (pod for pod in left if key_of(pod) in makes))
    engine.decide(now + max(windows) + 1.0)
    for key in restarted:
        workload, course = state.workloads.get(key), found.courses[key]
        places = [] if workload is None else [m.pod.place for m in workload.members() if m.pod.place]
        course.again = dict(sorted(Counter(places).items()))
        why = None if workload is None or places else waits_for(workload)
        course.again_why = "" if why is None else why.plain


def _delete_node(scene: NodeDrain, broken: Sequence[WorkloadKey], found: DrainTrial) -> None:
    """Find out which gangs are restarted at once when the node does not exist any more."""
    engine = scene.begun()
    scene.come(engine, scene.coming)
    engine.decide(scene.asked.at)
    engine.observe(NodeGone(scene.node))
    engine.decide(scene.asked.at)
    for key in broken:
        course = found.courses[key]
        course.when_gone = not course.at_once and bool(_restarted(engine.state.workloads.get(key)))
