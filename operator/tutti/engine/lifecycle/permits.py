"""Permits: a complete reservation is held until an annotation is taken off it, and users' plugins let it go.

The annotation that asks for an approval may be on the workload's object, on a PodGroup that is a part of it, or on any
of its pods; what it says is told to whoever asks what the workload waits for. Nobody is taken out for what is not
approved: they would have left for nothing where it never is.

Members that join a gang which runs already, or is being bound, need no approval, and no plugin holds them: they would
hold room that the gang has no use for yet. They give theirs back and are tried again later.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import numpy as np

from tutti.cluster.classes import PodClass
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import break_up, give_back, permit_seconds, try_later
from tutti.engine.records.explanation import RESERVED_TEXT, Explanation, Gate
from tutti.engine.records.gang_membership import GATE_ANNOTATION
from tutti.engine.records.members import Member
from tutti.engine.records.plugins import (
    EnabledPermit,
    Go,
    Placed,
    PluginHold,
    Refuse,
    Reservation,
    Verdict,
    Wait,
    Waiting,
)
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.extension import PluginCall, Pods, Rooms

WAITING_FOR_APPROVAL = "WaitingForApproval"
_WAITING: Final = Phase.WAITING


def is_approved(state: LifecycleState, workload: Workload) -> bool:
    """Whether nothing asks for an approval; where something does, the reservation is held, and says so."""
    asked = approval_asked(state, workload)
    if asked is None:
        return True
    who, what = asked
    if workload.phase is Phase.WAITING or workload.deadline is None:
        transit(workload, Transition.RESERVE)
        state.set_deadline(workload, permit_seconds(state, workload))
    assert workload.deadline is not None  # it has just been set
    seconds = int(workload.deadline - state.now)
    text = f"{RESERVED_TEXT}; {who} asks for an approval"
    text += f" ({what})" if what else ""
    text += f": take annotation {GATE_ANNOTATION} off to let it go"
    said = workload.explanation
    if said is None or said.reason != WAITING_FOR_APPROVAL or not said.message.startswith(text):
        text += f" (given back after {seconds} s)"
        explain(workload, Explanation(Gate.PERMIT, WAITING_FOR_APPROVAL, text, {"gate": what}))
        state.announce(workload, "Normal", WAITING_FOR_APPROVAL, text)
    return False


def asks_for_approval(state: LifecycleState, workload: Workload) -> str:
    """Return who asks for an approval of a workload that has no reservation yet; "" where nobody does."""
    asked = approval_asked(state, workload) if workload.phase is _WAITING else None
    return "" if asked is None else asked[0]


def unapproved(why: Explanation, who: str) -> Explanation:
    """Return why a workload waits, with that nobody is taken out for it before it is approved."""
    text = f"; nobody is taken out for it while {who} asks for an approval (annotation {GATE_ANNOTATION})"
    return msgspec.structs.replace(why, message=why.message + text)


def awaits_approval(workload: Workload) -> bool:
    """Whether an approval is what a reservation is held for."""
    why = workload.explanation
    return workload.phase is Phase.RESERVED and why is not None and why.reason == WAITING_FOR_APPROVAL


def time_out_approval(state: LifecycleState, workload: Workload) -> None:
    """Give back a reservation that was not approved in time, and try again later."""
    text = f"it was not approved in time (annotation {GATE_ANNOTATION}); its reservation is given back"
    break_up(state, workload)
    try_later(state, workload, "PermitTimeout", text)


def approval_asked(state: LifecycleState, workload: Workload) -> tuple[str, str] | None:
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


STARTING = (Phase.WAITING, Phase.RESERVED)
"""The phases in which none of a reservation has been sent."""


def waiting_view(state: LifecycleState, workload: Workload) -> Waiting:
    """Return a workload as plugins see it."""
    kind, namespace, name = workload.key
    found = state.catalog.find(workload.key)
    first = next((member.plugin_annotations for member in workload.members()), {})
    own = state.plugin_host.annotations_read(found.metadata.annotations) if found is not None else {}
    return Waiting(kind, namespace, name, workload.queue, workload.priority, workload.created, {**first, **own})


def sort_rank(state: LifecycleState, workload: Workload) -> float:
    """Return the place of a workload by the sort plugin, which there is."""
    return state.plugin_host.rank(waiting_view(state, workload))


def may_bind(state: LifecycleState, workload: Workload) -> bool:
    """Whether a reservation is approved and permit plugins let it go; else it is held or given back, and says so."""
    if workload.phase in STARTING and not is_approved(state, workload):
        return False
    permits = state.plugin_host.permits(workload.scheduler)
    if not permits:
        return True
    starts = workload.phase in STARTING
    if workload.phase is not Phase.RESERVED:
        state.plugin_holds.pop(workload.key, None)
    members = [m for m in workload.members() if m.pod.assumed and not m.sent and not m.pod.deleting]
    for permit in permits:
        verdict = _ask_plugin(state, permit, workload, members)
        match verdict:
            case Go():
                continue
            case Wait() if starts:
                _hold_for_plugin(state, workload, permit.name, verdict)
            case Wait(reason=reason) | Refuse(reason=reason):
                _refuse(state, workload, members, f"plugin {permit.name}: {reason}")
        return False
    state.plugin_holds.pop(workload.key, None)
    return True


def time_out_permit(state: LifecycleState, workload: Workload) -> None:
    """Give back a reservation that a plugin has held for too long, and try again later."""
    held = state.plugin_holds.pop(workload.key)
    text = f"plugin {held.plugin} has held its reservation for too long, and it is given back: {held.reason}"
    break_up(state, workload)
    try_later(state, workload, "PermitTimeout", text)


def hold_no_longer(state: LifecycleState, workload: Workload, until: float) -> None:
    """Hold a reservation no longer than an earlier process was going to, Unix seconds."""
    late = 0.0 if workload.deadline is None else workload.deadline - until
    if late <= 0:
        return
    state.set_deadline(workload, max(0.0, until - state.now))
    held = state.plugin_holds.get(workload.key)
    if held is not None:  # its plugin is asked again, and says how long from when it began
        state.plugin_holds[workload.key] = replace(held, since=held.since - late)


def recheck_held(state: LifecycleState) -> None:
    """Look again at what is held, where room or quota was given back or a plugin wants it."""
    hosting = state.plugin_host
    hosting.now = state.now
    due = hosting.recheck_at is not None and hosting.recheck_at <= state.now
    if due:
        hosting.recheck_at = None
        state.cluster.freed.anywhere()
    if due or _freed(state) != state.returned_seen:
        for key in state.plugin_holds:
            state.touch(key)
    state.returned_seen = _freed(state)


def next_permit_due(state: LifecycleState) -> float | None:
    """Return when a turn is needed for what is held or waits for a plugin, Unix seconds; None: not at all."""
    if state.plugin_holds and _freed(state) != state.returned_seen:
        return state.now
    return state.plugin_host.recheck_at


def _freed(state: LifecycleState) -> tuple[int, int]:
    return state.cluster.freed.count, state.ledger.changes.frees


def _ask_plugin(state: LifecycleState, permit: EnabledPermit, workload: Workload, members: list[Member]) -> Verdict:
    held = state.plugin_holds.get(workload.key)
    since = held.since if held is not None and held.plugin == permit.name else state.now
    nodes = state.cluster.nodes
    rows: dict[PodClass, list[int]] = {}
    for member in members:
        rows.setdefault(member.pod.pod_class, []).append(nodes.rows[member.pod.assumed])
    placed = [Placed(Pods.of(pod_class), np.array(at, dtype=np.int64)) for pod_class, at in rows.items()]
    joins = workload.phase not in STARTING
    reservation = Reservation(waiting_view(state, workload), placed, state.now - since, joins)
    try:
        asked = PluginCall(permit.profile, permit.name, "permit")
        call = partial(permit.plugin.permit, reservation, Rooms(nodes), state.now)
        verdict = state.plugin_host.timed(asked, call)
    except Exception as error:  # noqa: BLE001 - foreign code; the reservation is given back and says so
        return _plugin_failed(state, permit, f"{type(error).__name__}: {error}")
    if not isinstance(verdict, Go | Wait | Refuse):
        return _plugin_failed(
            state, permit, f"permit answered with {type(verdict).__name__}, not with Go, Wait or Refuse"
        )
    return verdict


def _plugin_failed(state: LifecycleState, permit: EnabledPermit, message: str) -> Refuse:
    state.plugin_host.fault(permit.name, "permit", message)
    return Refuse(f"it failed ({message})")


def _hold_for_plugin(state: LifecycleState, workload: Workload, plugin: str, wait: Wait) -> None:
    held = state.plugin_holds.get(workload.key)
    since = held.since if held is not None and held.plugin == plugin else state.now
    news = held is None or (held.plugin, held.reason) != (plugin, wait.reason)
    state.plugin_holds[workload.key] = PluginHold(plugin, since, wait.reason)
    transit(workload, Transition.RESERVE)
    state.set_deadline(workload, max(0.0, since + wait.timeout_seconds - state.now))
    if wait.again_after_seconds > 0:
        state.plugin_host.recheck(state.now + wait.again_after_seconds)
    text = f"{RESERVED_TEXT}, and held by plugin {plugin}: {wait.reason}"
    text += f" (given back after {wait.timeout_seconds:g} s)"
    explain(workload, Explanation(Gate.PERMIT, "HeldByPlugin", text, {"plugin": plugin}))
    if news:
        state.announce(workload, "Normal", "HeldByPlugin", text)


def _refuse(state: LifecycleState, workload: Workload, members: list[Member], why: str) -> None:
    """Give back what has not been sent: the whole reservation, or what would join a running gang."""
    state.plugin_holds.pop(workload.key, None)
    if workload.phase in STARTING:
        break_up(state, workload)
    for member in members:
        if member.pod.assumed:
            give_back(state, member)
    try_later(state, workload, "RefusedByPlugin", f"its reservation is given back by {why}")
