"""Binds go out, their results come back, and a gang that cannot be completed is given up.

Before a gang is bound, the volumes, devices and cards of all its members are there; until then its reservation is held.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tutti.api.messages import IS, Forms, counted
from tutti.api.selectors import Toleration
from tutti.cluster.pods import PodKey, PodPhase
from tutti.engine.lifecycle import LifecycleState, early_starts
from tutti.engine.lifecycle.card_binds import card_annotations, prepare_cards
from tutti.engine.lifecycle.devices import prepare_devices
from tutti.engine.lifecycle.eviction import evict
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import (
    give_back,
    held_seconds,
    permit_seconds,
)
from tutti.engine.lifecycle.scale_down import annotations_at_bind, protects
from tutti.engine.lifecycle.volumes import prepare_volumes
from tutti.engine.records.decisions import Bind, CardLock
from tutti.engine.records.explanation import EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import Member
from tutti.engine.records.observations import BindAnswer, BindFinished
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION, admission_text
from tutti.engine.records.workloads import Phase, Workload

_WAITING: Final = Phase.WAITING
_RESERVED: Final = Phase.RESERVED
_BIND: Final = Transition.BIND
_BOUND: Final = BindAnswer.BOUND
_NO_CARDS: tuple[dict[str, str], CardLock | None] = ({}, None)


def send_binds(state: LifecycleState, workload: Workload) -> None:
    """Bind every member that has a reserved node and has not been sent there yet, as soon as its claims are bound.

    A gang that is not bound in part is bound when the volumes and devices of all its members are there.
    """
    volumes = prepare_volumes(state, workload)
    if volumes is None and workload.phase is _WAITING:
        return  # it has given back what it had
    devices = prepare_devices(state, workload)
    if volumes is None or devices is None:
        return
    cards = prepare_cards(state, workload)
    if cards is None:
        return
    _send_ready(state, workload, {**volumes, **devices, **cards})
    if workload.phase in (_WAITING, _RESERVED):
        open_bind_window(state, workload)
    explain(workload, None)


def _send_ready(state: LifecycleState, workload: Workload, unready: Collection[PodKey]) -> None:
    """Bind the members that have a reserved node and are not waited for, and say what their pods get with it.

    That is the admission, what admission checks add, what keeps autoscalers off, and the parts of cards.
    """
    protecting, sharing = protects(state, workload), bool(state.cluster.nodes.cards)
    adds = bool(workload.checks or workload.provisioning)
    nothing = dict[str, str](), list[Toleration]()  # one for all: to make them takes as long as the rest
    annotations, before = dict[str, str](), None  # members of one need share one charge
    told_cards, lock = _NO_CARDS
    for member in workload.members():
        pod = member.pod
        if pod.assumed and not member.sent and not pod.deleting and not (unready and pod.key in unready):
            if sharing:
                told_cards, lock = card_annotations(state, workload, member)
            again, member.sent, member.unknown = member.unknown, True, False
            if before is None or member.charge is not before.charge or member.annotation != before.annotation:
                annotations, before = _annotations(member), member
            said, more = annotations, nothing
            added = workload.groups[state.pod_group_of[pod.key][1]].added if adds else None
            if added is not None:
                said, more = {**added.annotations, **said}, (dict(added.labels), list(added.tolerations))
            if protecting:
                said = {**said, **annotations_at_bind(workload, member)}
            if lock is not None:
                said = {**said, **told_cards}
            about = pod.namespace, pod.name, pod.uid
            state.out.append(Bind(*about, pod.assumed, workload.name, said, *more, lock, again))


def open_bind_window(state: LifecycleState, workload: Workload) -> None:
    """Open the bind window; members that have ended or were lost before are none of those that must be bound in it."""
    if workload.phase is _RESERVED:
        state.reached(
            workload, LifecycleStep.LET_GO, seconds=held_seconds(state, workload), pods=workload.counts().reserved
        )
    transit(workload, _BIND)
    workload.running_since = workload.unready_since = None
    workload.window_told = workload.window_earned = False
    seconds = (
        permit_seconds(state, workload)
        if early_starts.awaits_late_members(workload)
        else state.configuration.bind_window_seconds
    )
    state.set_deadline(workload, seconds)
    tally = workload.counts()
    if tally.failed or tally.lost:
        for member in workload.members():
            member.over = member.pod.counted in (PodPhase.FAILED, PodPhase.LOST)
            member.pod.forgone = member.pod.counted is PodPhase.LOST


def bind_finished(state: LifecycleState, result: BindFinished) -> None:
    """Take in what became of a Bind.

    A bind that succeeded is done when the pod is seen on its node. One that failed gives its room and quota back,
    and the member is placed again together with what else its gang still needs.
    """
    member = state.members.get((result.namespace, result.name))
    if member is None or member.pod.uid != result.uid:
        return
    if result.outcome is _BOUND:
        member.sent = not member.pod.node  # until it is seen there, it must not be sent again
        if state.cluster.nodes.cards:
            state.workloads[state.pod_group_of[member.pod.key][0]].window_earned = True
        return  # and nothing becomes of its workload before
    member.sent = False
    workload = state.workloads[state.pod_group_of[member.pod.key][0]]
    state.touch(workload.key)
    if member.pod.node:
        return  # it is bound after all, and was seen so before the answer came
    # Not where its room was lost with its node.
    unknown = member.unknown = result.outcome is BindAnswer.UNKNOWN and member.pod.assumed == result.node
    if not unknown:
        give_back(state, member)
    if workload.phase is Phase.LEAVING or workload.not_before > state.now:
        return  # it is not wanted any more; or several binds failed together, which is one failure
    state.back_off(workload)
    if unknown:
        return  # the same bind is sent again after the backoff, which is safe: the server knows the pod's uid
    text = f"pod {result.name} was not bound to {result.node}: {result.message}"
    explain(workload, Explanation(Gate.PERMIT, "BindFailed", text, {"attempts": str(workload.attempts)}))
    state.announce(workload, "Warning", "BindFailed", text)


def roll_back(state: LifecycleState, workload: Workload) -> None:
    """Take out a gang that is bound in part and could not be completed within its bind window."""
    text = f"{_came_to(state, workload, IS)} evicted, so that the gang can start whole"
    evict(state, workload, EvictionReason.BIND_WINDOW_OVER, text)


def keep_trying(state: LifecycleState, workload: Workload) -> None:
    """Open another bind window for a gang that is bound in part and is to stay so until it can be completed."""
    state.set_deadline(workload, state.configuration.bind_window_seconds)
    if workload.window_told:
        return
    workload.window_told = True
    text = f"{_came_to(state, workload, ('stays', 'stay'))}, and the others are tried on (onBindFailure: Retry)"
    state.announce(workload, "Warning", EvictionReason.BIND_WINDOW_OVER.value, text)


def _came_to(state: LifecycleState, workload: Workload, verb: Forms) -> str:
    """Say how many required members are not bound in time, and, up to the verb, what becomes of those that are."""
    bound = sum(bool(m.pod.node) and not m.pod.terminated for m in workload.members())
    missing = sum(max(0, g.min_count - g.counts().placed) for g in workload.groups.values())
    seconds = state.configuration.bind_window_seconds
    return (
        f"{counted(missing, 'required member')} could not be bound within {seconds} s of the others; "
        f"the {counted(bound, 'bound member', verb=verb)}"
    )


def _annotations(member: Member) -> dict[str, str]:
    """Carry the admission in the Binding, so that a restart finds the flavors that a pod was admitted in.

    What a pod without quota says of itself is written over: it was not admitted to anything.
    """
    charge = member.charge
    if charge is None:
        return {ADMISSION_ANNOTATION: ""} if member.annotation else {}
    return {ADMISSION_ANNOTATION: admission_text(charge.queue, charge.flavors)}
