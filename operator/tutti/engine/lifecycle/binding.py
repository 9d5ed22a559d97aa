"""Binds go out, their results come back, and a gang that cannot be completed is given up."""

from __future__ import annotations

from tutti.api.messages import IS, Forms, counted
from tutti.cluster.muster import Doing
from tutti.engine.lifecycle import eager, volumes
from tutti.engine.lifecycle.eviction import evict
from tutti.engine.lifecycle.reservation import give_back, held_seconds, permit_seconds
from tutti.engine.reading import admissions
from tutti.engine.records.decisions import Bind
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.milestones import Step
from tutti.engine.records.observations import BindAnswer, BindFinished
from tutti.engine.records.reasons import Reason
from tutti.engine.records.sayings import ADMISSION_ANNOTATION
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State


def send(state: State, workload: Workload) -> None:
    """Bind every member that has a reserved node and has not been sent there yet, as soon as its volumes are bound.

    A gang that is not bound in part is bound when the volumes of all its members are.
    """
    unready = volumes.prepare(state, workload)
    if unready is None:
        return
    name = workload.name
    annotations: dict[int, dict[str, str]] = {}  # members of one need share one charge
    for member in workload.members():
        pod = member.pod
        if pod.assumed and not member.sent and not pod.deleting and not (unready and pod.key in unready):
            member.sent, member.unknown = True, False
            said = annotations.get(id(member.charge)) if member.charge is not None else None
            if said is None:
                said = annotations[id(member.charge)] = _annotations(member)
            state.out.append(Bind(pod.namespace, pod.name, pod.uid, pod.assumed, name, said))
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
        begin(state, workload)
    workload.explanation = None


def begin(state: State, workload: Workload) -> None:
    """Open the bind window; members that have ended or were lost before are none of those that must be bound in it."""
    if workload.phase is Phase.RESERVED:
        state.reached(workload, Step.LET_GO, seconds=held_seconds(state, workload), pods=workload.tally().reserved)
    workload.phase = Phase.BINDING
    workload.running_since = workload.unready_since = None
    workload.window_told = False
    seconds = permit_seconds(state, workload) if eager.is_open(workload) else state.configuration.bind_window_seconds
    state.set_deadline(workload, seconds)
    tally = workload.tally()
    if tally.failed or tally.lost:
        for member in workload.members():
            member.over = member.pod.counted in (Doing.FAILED, Doing.LOST)
            member.pod.forgone = member.pod.counted is Doing.LOST


def finished(state: State, result: BindFinished) -> None:
    """Take in what became of a Bind.

    A bind that succeeded is done when the pod is seen on its node. One that failed gives its room and quota back,
    and the member is placed again together with what else its gang still needs.
    """
    member = state.members.get((result.namespace, result.name))
    if member is None or member.pod.uid != result.uid:
        return
    if result.outcome is BindAnswer.BOUND:
        member.sent = not member.pod.node  # until it is seen there, it must not be sent again
        return  # and nothing becomes of its workload before
    member.sent = False
    workload = state.workloads[state.home[member.pod.key][0]]
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
    workload.explanation = Explanation(Gate.PERMIT, "BindFailed", text, {"attempts": str(workload.attempts)})
    state.announce(workload, "Warning", "BindFailed", text)


def roll_back(state: State, workload: Workload) -> None:
    """Take out a gang that is bound in part and could not be completed within its bind window."""
    text = f"{_came_to(state, workload, IS)} evicted, so that the gang can start whole"
    evict(state, workload, Reason.BIND_WINDOW_OVER, text)


def keep_trying(state: State, workload: Workload) -> None:
    """Open another bind window for a gang that is bound in part and is to stay so until it can be completed."""
    state.set_deadline(workload, state.configuration.bind_window_seconds)
    if workload.window_told:
        return
    workload.window_told = True
    text = f"{_came_to(state, workload, ('stays', 'stay'))}, and the others are tried on (onBindFailure: Retry)"
    state.announce(workload, "Warning", Reason.BIND_WINDOW_OVER.value, text)


def _came_to(state: State, workload: Workload, verb: Forms) -> str:
    """Say how many required members are not bound in time, and, up to the verb, what becomes of those that are."""
    bound = sum(bool(m.pod.node) and not m.pod.terminated for m in workload.members())
    missing = sum(max(0, g.min_count - g.tally().placed) for g in workload.groups.values())
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
    return {ADMISSION_ANNOTATION: admissions.written(charge.queue, charge.flavors)}
