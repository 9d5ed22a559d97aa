"""Permits by users' plugins: a complete reservation is held until they let it go, or its time is over.

Members that join a gang that runs, or is being bound, are not held: they would hold room that the gang has no use for
yet. They give theirs back and are tried again later.
"""

from __future__ import annotations

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.engine.lifecycle import approval
from tutti.engine.lifecycle.reservation import break_up, give_back
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.extension import Go, Placed, Refuse, Reservation, Verdict, Wait, Waiting
from tutti.engine.records.hosting import Held, Permit
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State
from tutti.placement.extension import Pods, Rooms

STARTING = (Phase.WAITING, Phase.RESERVED)
"""The phases in which none of a reservation has been sent."""


def waiting_view(state: State, workload: Workload) -> Waiting:
    """Return a workload as plugins see it."""
    kind, namespace, name = workload.key
    found = state.catalog.find(workload.key)
    first = next((member.noted for member in workload.members()), {})
    own = state.hosting.noted(found.metadata.annotations) if found is not None else {}
    return Waiting(kind, namespace, name, workload.queue, workload.priority, workload.created, {**first, **own})


def rank(state: State, workload: Workload) -> float:
    """Return the place of a workload by the sort plugin; 0 for all where there is none."""
    return state.hosting.rank(waiting_view(state, workload)) if state.hosting.sorts else 0.0


def may_bind(state: State, workload: Workload) -> bool:
    """Whether a reservation is approved and permit plugins let it go; else it is held or given back, and says so."""
    if workload.phase in STARTING and not approval.is_given(state, workload):
        return False
    permits = state.hosting.permits(workload.scheduler)
    if not permits:
        return True
    starts = workload.phase in STARTING
    if workload.phase is not Phase.RESERVED:
        state.held.pop(workload.key, None)
    members = [m for m in workload.members() if m.pod.assumed and not m.sent and not m.pod.deleting]
    for permit in permits:
        verdict = _ask(state, permit, workload, members)
        match verdict:
            case Go():
                continue
            case Wait() if starts:
                _hold(state, workload, permit.name, verdict)
            case Wait(reason=reason) | Refuse(reason=reason):
                _refuse(state, workload, members, f"plugin {permit.name}: {reason}")
        return False
    state.held.pop(workload.key, None)
    return True


def time_out(state: State, workload: Workload) -> None:
    """Give back a reservation that a plugin has held for too long, and try again later."""
    held = state.held.pop(workload.key)
    text = f"plugin {held.plugin} has held its reservation for too long, and it is given back: {held.reason}"
    break_up(state, workload)
    _tell(state, workload, "PermitTimeout", text)


def stir(state: State) -> None:
    """Look again at what is held, where room or quota was given back or a plugin wants it."""
    hosting = state.hosting
    hosting.now = state.now
    due = hosting.recheck_at is not None and hosting.recheck_at <= state.now
    if due:
        hosting.recheck_at = None
        state.cluster.freed += 1
    if due or _freed(state) != state.held_seen:
        for key in state.held:
            state.touch(key)
    state.held_seen = _freed(state)


def next_due(state: State) -> float | None:
    """Return when a turn is needed for what is held or waits for a plugin, Unix seconds; None: not at all."""
    if state.held and _freed(state) != state.held_seen:
        return state.now
    return state.hosting.recheck_at


def _freed(state: State) -> tuple[int, int]:
    return state.cluster.freed, state.ledger.frees


def _ask(state: State, permit: Permit, workload: Workload, members: list[Member]) -> Verdict:
    held = state.held.get(workload.key)
    since = held.since if held is not None and held.plugin == permit.name else state.now
    nodes = state.cluster.nodes
    rows: dict[PodClass, list[int]] = {}
    for member in members:
        rows.setdefault(member.pod.klass, []).append(nodes.rows[member.pod.assumed])
    placed = [Placed(Pods.of(klass), np.array(at, dtype=np.int64)) for klass, at in rows.items()]
    joins = workload.phase not in STARTING
    reservation = Reservation(waiting_view(state, workload), placed, state.now - since, joins)
    try:
        verdict = permit.plugin.permit(reservation, Rooms(nodes), state.now)
    except Exception as error:  # noqa: BLE001 - foreign code; the reservation is given back and says so
        return _failed(state, permit, f"{type(error).__name__}: {error}")
    if not isinstance(verdict, Go | Wait | Refuse):
        return _failed(state, permit, f"permit answered with {type(verdict).__name__}, not with Go, Wait or Refuse")
    return verdict


def _failed(state: State, permit: Permit, message: str) -> Refuse:
    state.hosting.fault(permit.name, "permit", message)
    return Refuse(f"it failed ({message})")


def _hold(state: State, workload: Workload, plugin: str, wait: Wait) -> None:
    held = state.held.get(workload.key)
    since = held.since if held is not None and held.plugin == plugin else state.now
    news = held is None or (held.plugin, held.reason) != (plugin, wait.reason)
    state.held[workload.key] = Held(plugin, since, wait.reason)
    workload.phase = Phase.RESERVED
    state.set_deadline(workload, max(0.0, since + wait.timeout_seconds - state.now))
    if wait.again_after_seconds > 0:
        state.hosting.recheck(state.now + wait.again_after_seconds)
    text = f"quota and nodes are reserved, and held by plugin {plugin}: {wait.reason}"
    text += f" (given back after {wait.timeout_seconds:g} s)"
    workload.explanation = Explanation(Gate.PERMIT, "HeldByPlugin", text, {"plugin": plugin})
    if news:
        state.announce(workload, "Normal", "HeldByPlugin", text)


def _refuse(state: State, workload: Workload, members: list[Member], why: str) -> None:
    """Give back what has not been sent: the whole reservation, or what would join a running gang."""
    state.held.pop(workload.key, None)
    if workload.phase in STARTING:
        break_up(state, workload)
    for member in members:
        if member.pod.assumed:
            give_back(state, member)
    _tell(state, workload, "RefusedByPlugin", f"its reservation is given back by {why}")


def _tell(state: State, workload: Workload, reason: str, text: str) -> None:
    state.back_off(workload)
    workload.explanation = Explanation(Gate.PERMIT, reason, text, {"attempts": str(workload.attempts)})
    state.announce(workload, "Warning", reason, text)
