"""An approval from outside: a complete reservation is held until an annotation is taken off.

The annotation may be on the workload's object, on a PodGroup that is a part of it, or on any of its pods; what it says
is told to whoever asks what the workload waits for. Members that join a gang which runs already need no approval.
Nobody is taken out for what is not approved: they would have left for nothing where it never is.
"""

from __future__ import annotations

import msgspec

from tutti.engine.lifecycle.reservation import break_up, permit_seconds
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.gang_membership import GATE_ANNOTATION
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State

REASON = "WaitingForApproval"


def is_given(state: State, workload: Workload) -> bool:
    """Whether nothing asks for an approval; where something does, the reservation is held, and says so."""
    asked = _asking(state, workload)
    if asked is None:
        return True
    who, what = asked
    if workload.phase is Phase.WAITING or workload.deadline is None:
        workload.phase = Phase.RESERVED
        state.set_deadline(workload, permit_seconds(state, workload))
    assert workload.deadline is not None  # it has just been set
    seconds = int(workload.deadline - state.now)
    text = f"quota and nodes are reserved; {who} asks for an approval"
    text += f" ({what})" if what else ""
    text += f": take annotation {GATE_ANNOTATION} off to let it go"
    said = workload.explanation
    if said is None or said.reason != REASON or not said.message.startswith(text):
        text += f" (given back after {seconds} s)"
        workload.explanation = Explanation(Gate.PERMIT, REASON, text, {"gate": what})
        state.announce(workload, "Normal", REASON, text)
    return False


def asks_first(state: State, workload: Workload) -> str:
    """Return who asks for an approval of a workload that has no reservation yet; "" where nobody does."""
    asked = _asking(state, workload) if workload.phase is Phase.WAITING else None
    return "" if asked is None else asked[0]


def unapproved(why: Explanation, who: str) -> Explanation:
    """Return why a workload waits, with that nobody is taken out for it before it is approved."""
    text = f"; nobody is taken out for it while {who} asks for an approval (annotation {GATE_ANNOTATION})"
    return msgspec.structs.replace(why, message=why.message + text)


def is_awaited(workload: Workload) -> bool:
    """Whether an approval is what a reservation is held for."""
    why = workload.explanation
    return workload.phase is Phase.RESERVED and why is not None and why.reason == REASON


def time_out(state: State, workload: Workload) -> None:
    """Give back a reservation that was not approved in time, and try again later."""
    text = f"it was not approved in time (annotation {GATE_ANNOTATION}); its reservation is given back"
    break_up(state, workload)
    state.back_off(workload)
    workload.explanation = Explanation(Gate.PERMIT, "PermitTimeout", text, {"attempts": str(workload.attempts)})
    state.announce(workload, "Warning", "PermitTimeout", text)


def _asking(state: State, workload: Workload) -> tuple[str, str] | None:
    """Return who asks for an approval, and what it says; None where nobody does."""
    kind, namespace, name = workload.key
    keys = [] if kind == "Pod" else [workload.key]
    if kind == "Workload":
        keys += [("PodGroup", namespace, part) for part in state.catalog.referring(namespace, name)]
    for key in keys:
        found = state.catalog.find(key)
        if found is not None and GATE_ANNOTATION in found.metadata.annotations:
            return f"{key[0]} {key[2]}", found.metadata.annotations[GATE_ANNOTATION]
    for member in workload.members():
        if member.gate is not None and not (member.pod.terminated or member.pod.deleting):
            return f"pod {member.pod.name}", member.gate
    return None
