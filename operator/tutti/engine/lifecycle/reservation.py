"""Reservations: room and quota held in memory between admission and bind, and how they are given back.

A reservation is always complete: every required member has its node, or room is held for it. Whatever breaks it
gives all of it back.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tutti.api.messages import HAS, WAS, counted
from tutti.api.selectors import Toleration
from tutti.cluster.classes import PodClass
from tutti.cluster.muster import Doing
from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle import charges
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Group, Hold, Loss, Member
from tutti.engine.records.milestones import Step
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State

ADDED_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", effect="NoExecute", toleration_seconds=300)
    for state in ("not-ready", "unreachable")
)
"""What the API server adds to a pod that does not say otherwise (admission plugin DefaultTolerationSeconds)."""


_RUNNING = (Phase.SCHEDULED, Phase.LEAVING)
"""Phases in which what members leave behind may be kept for their successors."""
_ENDED = (Doing.FAILED, Doing.LOST)
"""What members do that are there and that nobody counts on any more."""


def give_back(state: State, member: Member) -> None:
    """Give back the room and quota reserved for one member that is not bound."""
    member.unknown = False
    state.cluster.forget(member.pod)
    if member.charge is not None and not member.pod.node:
        state.refund(member.charge)
        member.charge = None


def note_loss(state: State, member: Member) -> None:
    """Note what a member has that is about to be forgotten, where its gang runs and will miss it.

    What it was counted in and where it was is kept for its successor (`lifecycle/replacement.py`). One that has
    succeeded is not missed.
    """
    (key, name), pod = state.home[member.pod.key], member.pod
    workload = state.workloads[key]
    if key[0] == "Pod" or workload.phase not in _RUNNING or not pod.node or member.missed:
        return
    if pod.phase == "Succeeded":
        workload.groups[name].ended += 1
        return
    member.missed = True
    for index, loss in enumerate(workload.losses):
        was_lost = pod.counted in _ENDED and loss.recalled
        if was_lost and (loss.group, loss.node) == (name, pod.node):
            # The status told of it; how much it had, the pod tells.
            workload.losses[index] = Loss(name, pod.node, pod.klass.requests, loss.flavors, loss.queue)
            return
    charge = member.charge or charges.found_charge(state, workload, member)
    flavors, queue = ({}, "") if charge is None else (charge.flavors, charge.queue)
    found = Loss(name, pod.node, pod.klass.requests, flavors, queue)
    if any(loss.recalled for loss in workload.losses):
        workload.losses.insert(0, found)  # before what was told last: it was not missed then, or is missed besides
    else:
        workload.losses.append(found)


def note_losses(state: State, workload: Workload) -> None:
    """Note of the members that have failed, or are lost, what their gang will miss of them."""
    for member in workload.members():
        if member.pod.counted in _ENDED and not member.over:
            note_loss(state, member)


def lost_node(state: State, stranded: Iterable[PodRecord]) -> None:
    """Take back the quota of pods whose reserved node is gone, and look again at all that is reserved."""
    for workload in state.timed:
        if workload.phase is Phase.RESERVED or workload.style is not None:
            state.touch(workload.key)
    for key in state.kept:
        state.touch(key)  # it may be clear now that what they wait for cannot come
    for record in stranded:
        member = state.members.get(record.key)
        if member is None:
            continue
        if member.charge is not None and not record.node:
            state.refund(member.charge)
            member.charge = None
        state.touch(state.home[record.key][0])


def give_back_leaving(state: State, workload: Workload) -> None:
    """Give back what is reserved for members that are being deleted; one that was sent is answered for first."""
    for member in workload.members():
        if member.pod.deleting and member.pod.assumed and not member.sent:
            give_back(state, member)


def give_back_all(state: State, workload: Workload) -> None:
    """Give back everything reserved for a workload that is not bound, and not, or perhaps not, on its way."""
    for group in workload.groups.values():
        _release_holds(state, group)
    for member in workload.members():
        if member.pod.assumed and not member.sent and not member.unknown:
            give_back(state, member)


def hand_over_holds(state: State, workload: Workload) -> None:
    """Give held room to members that have come to exist and are of the class that was promised."""
    for group in workload.groups.values():
        for member in group.members.values():
            held = (h for h in group.holds if _stands(state, h) and _is_promised(h.klass, member.pod.klass))
            hold = next(held, None) if member.pod.placeable else None
            if hold is not None:
                group.holds.remove(hold)
                state.cluster.adopt((hold.node, hold.number), member.pod)
                member.charge = hold.charge


def release_holds(state: State, group: Group, count: int) -> None:
    """Give back so much of the room that is held for a group, and what was lost with its node."""
    for hold in [*(hold for hold in group.holds if not _stands(state, hold)), *group.holds[:count]]:
        if hold in group.holds:
            _release(state, group, hold)


def trim_holds(state: State, workload: Workload) -> None:
    """Give back what is held beyond the required members, because fewer are required than when it was reserved."""
    for group in workload.groups.values():
        tally = group.tally()
        excess = tally.placed + tally.reserved + len(group.holds) - group.min_count
        for hold in group.holds[: max(0, excess)]:
            _release(state, group, hold)


def is_whole(state: State, workload: Workload) -> bool:
    """Whether a reservation still covers every required member.

    It does not where a member came that is not what was promised, or where a node has become too small meanwhile.
    """
    for group in workload.groups.values():
        tally = group.tally()
        if tally.placed + tally.reserved + len(group.holds) < group.min_count:
            return False
        if not all(_stands(state, hold) for hold in group.holds):
            return False
        if group.holds and tally.waiting:
            return False
        reserved = [(hold.klass, hold.node) for hold in group.holds]
        reserved += [(m.pod.klass, m.pod.assumed) for m in group.members.values() if m.pod.assumed]
        if any(_is_overfull(state, klass, node) for klass, node in reserved):
            return False
    return True


def all_there(workload: Workload) -> bool:
    """Whether every required member exists and has its node, so that binding may begin."""
    for group in workload.groups.values():
        tally = group.tally()
        if tally.placed + tally.reserved < group.min_count:
            return False
    return True


def permit_seconds(state: State, workload: Workload) -> int:
    """Return how long a complete reservation is held: as its gang says, or its ClusterQueue, or the configuration."""
    seconds = workload.permit_seconds
    queue = state.catalog.queues.get(workload.cluster_queue)
    if seconds is None and queue is not None:
        seconds = queue.permit_seconds
    if seconds is None:
        seconds = state.configuration.permit_timeout_seconds
    return seconds + (state.random.randrange(workload.permit_jitter) if workload.permit_jitter else 0)


def await_members(state: State, workload: Workload) -> None:
    """Begin to hold a complete reservation until the promised members exist."""
    seconds = permit_seconds(state, workload)
    held = sum(len(g.holds) for g in workload.groups.values())
    workload.phase = Phase.RESERVED
    state.set_deadline(workload, seconds)
    workload.explanation = Explanation(
        Gate.PERMIT,
        "WaitingForMembers",
        f"quota and nodes are reserved; {counted(held, 'promised member', verb=HAS)} not been created yet "
        f"(given back after {seconds} s)",
        {"missing": str(held), "timeoutSeconds": str(seconds)},
    )


def time_out(state: State, workload: Workload) -> None:
    """Give back a reservation whose permit has run out, and try again later."""
    held = sum(len(g.holds) for g in workload.groups.values())
    text = f"{counted(held, 'promised member', verb=WAS)} not created in time; its reservation is given back"
    break_up(state, workload)
    state.back_off(workload)
    workload.explanation = Explanation(Gate.PERMIT, "PermitTimeout", text, {"attempts": str(workload.attempts)})
    state.announce(workload, "Warning", "PermitTimeout", text)


def break_up(state: State, workload: Workload) -> None:
    """Give back a whole reservation; the workload waits as before."""
    note_given_back(state, workload)
    give_back_all(state, workload)
    state.held.pop(workload.key, None)
    workload.phase, workload.deadline = Phase.WAITING, None


def note_given_back(state: State, workload: Workload) -> None:
    """Note that a reservation is given back, if one is held."""
    if workload.phase is Phase.RESERVED:
        state.reached(workload, Step.GIVEN_BACK, seconds=held_seconds(state, workload))


def held_seconds(state: State, workload: Workload) -> float:
    """Return for how long a reservation has been held."""
    return 0.0 if workload.reserved_at is None else state.now - workload.reserved_at


def _is_promised(promised: PodClass, klass: PodClass) -> bool:
    """Whether a member is what was promised, but for the tolerations that the API server adds to every pod."""
    if klass is promised:
        return True
    plain = [one for one in klass.spec.tolerations if one not in ADDED_TOLERATIONS]
    alike = (klass.namespace, klass.labels, klass.volumes) == (promised.namespace, promised.labels, promised.volumes)
    return alike and msgspec.structs.replace(klass.spec, tolerations=plain) == promised.spec


def _is_overfull(state: State, klass: PodClass, node: str) -> bool:
    """Whether a node has less than is taken of anything that pods of a class ask for."""
    nodes = state.cluster.nodes
    row = nodes.rows[node]
    asked = nodes.vector(klass.requests) > 0
    return bool((nodes.requested[row] > nodes.allocatable[row])[asked].any())


def _stands(state: State, hold: Hold) -> bool:
    return state.cluster.is_held((hold.node, hold.number))


def _release_holds(state: State, group: Group) -> None:
    for hold in tuple(group.holds):
        _release(state, group, hold)


def _release(state: State, group: Group, hold: Hold) -> None:
    group.holds.remove(hold)
    state.cluster.release((hold.node, hold.number))
    if hold.charge is not None:
        state.refund(hold.charge)
