"""Reservations: room and quota held in memory between admission and bind, and how they are given back.

A reservation is always complete: every required member has its node, or room is held for it. Whatever breaks it
gives all of it back.

Gangs that start before all their members exist are in `early_starts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tutti.api.cards import NO_CARDS
from tutti.api.conditions import timestamp
from tutti.api.hami import UNOFFERED
from tutti.api.messages import HAS, WAS, counted
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.device_release import free_claims_of_ended
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.promised_members import is_promised
from tutti.engine.records.explanation import RESERVED_TEXT, EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import Charge, Member, MemberGroup, PromisedReservation
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.plugins.leaving_nodes import is_leaving
from tutti.placement.plugins.node_state import is_closed
from tutti.quota.flavors import where_of

CLAIMS_NAMED = 3
"""How many of the claims that are waited for a message names."""


def give_back(state: LifecycleState, member: Member) -> None:
    """Give back the room and quota reserved for one member that is not bound."""
    member.unknown = False
    state.cluster.forget(member.pod)
    free_claims_of_ended(state)
    if member.charge is not None and not member.pod.node:
        state.refund(member.charge)
        member.charge = None


def lost_node(state: LifecycleState, stranded: Iterable[PodRecord]) -> None:
    """Take back the quota of pods whose reserved node is gone, and look again at all that is reserved."""
    for workload in state.timers:
        if workload.phase is Phase.RESERVED or workload.style is not None:
            state.touch(workload.key)
    for key in state.kept_for_successors:
        state.touch(key)  # it may be clear now that what they wait for cannot come
    for record in stranded:
        member = state.members.get(record.key)
        if member is None:
            continue
        if member.charge is not None and not record.node:
            state.refund(member.charge)
            member.charge = None
        state.touch(state.pod_group_of[record.key][0])


def give_back_leaving(state: LifecycleState, workload: Workload) -> None:
    """Give back what is reserved for members that are being deleted; one that was sent is answered for first."""
    for member in workload.members():
        if member.pod.deleting and member.pod.assumed and not member.sent:
            give_back(state, member)


def give_back_all(state: LifecycleState, workload: Workload) -> None:
    """Give back everything reserved for a workload that is not bound, and not, or perhaps not, on its way."""
    release_quota(state, workload)
    for group in workload.groups.values():
        _release_holds(state, group)
    for member in workload.members():
        if member.pod.assumed and not member.sent and not member.unknown:
            give_back(state, member)


def release_quota(state: LifecycleState, workload: Workload) -> None:
    """Give back the quota that is held for a workload without nodes, if any is."""
    if workload.held_since is None:
        return
    workload.held_since = None
    for group in workload.groups.values():
        if group.held is not None:
            state.refund(group.held.charge)
            group.held = None


def hand_over_holds(state: LifecycleState, workload: Workload) -> None:
    """Give held room to members that have come to exist and are of the class that was promised."""
    for group in workload.groups.values():
        if not group.holds:
            continue
        standing = [hold for hold in group.holds if _stands(state, hold)]
        promised = tuple(dict.fromkeys(hold.pod_class for hold in standing))
        handed: set[int] = set()
        unlike: set[PodClass] = set()
        for member in group.members.values():
            pod = member.pod
            if not pod.placeable or pod.pod_class in unlike:
                continue
            such = [one for one in promised if is_promised(state, one, pod.pod_class)]
            hold = next((h for h in standing if h.pod_class in such), None)
            if hold is None:
                unlike.add(pod.pod_class)  # nor is there any for others of its class: what is held only gets less
                continue
            standing.remove(hold)
            handed.add(id(hold))
            state.cluster.held.adopt((hold.node, hold.number), pod)
            member.charge = hold.charge
        if handed:
            group.holds[:] = [hold for hold in group.holds if id(hold) not in handed]


def release_all_holds(state: LifecycleState, workload: Workload) -> None:
    """Give back all room that is held for promised members, because nobody waits for these any more."""
    for group in workload.groups.values():
        if group.holds:
            _release_holds(state, group)


def release_holds(state: LifecycleState, group: MemberGroup, count: int) -> None:
    """Give back so much of the room that is held for a group, and what was lost with its node."""
    for hold in [*(hold for hold in group.holds if not _stands(state, hold)), *group.holds[:count]]:
        if hold in group.holds:
            _release(state, group, hold)


def trim_holds(state: LifecycleState, workload: Workload) -> None:
    """Give back what is held beyond the required members, because fewer are required than when it was reserved."""
    for group in workload.groups.values():
        tally = group.counts()
        excess = tally.placed + tally.reserved + len(group.holds) - group.min_count
        for hold in group.holds[: max(0, excess)]:
            _release(state, group, hold)


def is_whole(state: LifecycleState, workload: Workload) -> bool:
    """Whether a reservation still covers every required member.

    It does not where a member came that is not what was promised, or where a node has become too small meanwhile, or is
    being taken away, or takes no such pods any more: it was cordoned, or has a taint that it had not.
    """
    for group in workload.groups.values():
        tally = group.counts()
        if tally.placed + tally.reserved + len(group.holds) < group.min_count:
            return False
        if not all(_stands(state, hold) for hold in group.holds):
            return False
        if group.holds and tally.waiting > awaiting_claims(group):
            return False
        reserved = [(hold.pod_class, hold.node, hold.charge) for hold in group.holds]
        reserved += [(m.pod.pod_class, m.pod.assumed, m.charge) for m in group.members.values() if m.pod.assumed]
        of_class: dict[PodClass, list[str]] = {}
        for pod_class, node, _ in reserved:
            of_class.setdefault(pod_class, []).append(node)
        if any(_is_overfull(state, pod_class, where) for pod_class, where in of_class.items()):
            return False
        if workload.required > 1 and any(is_leaving(state.cluster.nodes, node) for _, node, _ in reserved):
            return False
        if any(_is_closed(state, group, *one) for one in reserved):
            return False
    return True


def all_there(workload: Workload) -> bool:
    """Whether every required member exists and has its node, so that binding may begin."""
    for group in workload.groups.values():
        tally = group.counts()
        if tally.placed + tally.reserved < group.min_count:
            return False
    return True


def awaiting_claims(group: MemberGroup) -> int:
    """Return how many members have come whose claims on devices are being made from templates: theirs is still held."""
    return sum(one.pod.placeable and one.pod.pod_class.devices.waits for one in group.members.values())


def claim_seconds(state: LifecycleState, workload: Workload) -> int:
    """Return for how many seconds a reservation is held for what its members claim: volumes and devices."""
    seconds = workload.permit_seconds
    return state.configuration.volume_binding_timeout_seconds if seconds is None else seconds


def wait_for_claims(state: LifecycleState, workload: Workload) -> None:
    """Give what members claim its time; a bind window that is open stands still meanwhile.

    It goes on with what is left of it, so that a member whose claims are made ready anew for each try, none of which
    succeeds, does not keep its gang bound in part for longer than others would.
    """
    left = workload.window_left
    if left is None and workload.deadline is not None:
        left = workload.deadline - state.now
    state.set_deadline(workload, claim_seconds(state, workload))
    workload.window_left = left if workload.phase is Phase.BINDING else None


def go_on_with_window(state: LifecycleState, workload: Workload, *, in_vain: bool = False) -> bool:
    """Have the bind window pass again, as claims are waited for no longer; returns whether anything is left of it.

    What was waited for in vain is taken off: claims that never get ready would keep it open for ever.
    """
    left = workload.window_left
    if left is None:
        return False
    left = max(0.0, left - (claim_seconds(state, workload) if in_vain else 0.0))
    state.set_deadline(workload, left)
    return left > 0


def permit_seconds(state: LifecycleState, workload: Workload) -> int:
    """Return how long a complete reservation is held: as its gang says, or its ClusterQueue, or the configuration."""
    seconds = workload.permit_seconds
    queue = state.catalog.queues.get(workload.cluster_queue)
    if seconds is None and queue is not None:
        seconds = queue.permit_seconds
    if seconds is None:
        seconds = state.configuration.permit_timeout_seconds
    return seconds + (state.random.randrange(workload.permit_jitter) if workload.permit_jitter else 0)


def await_members(state: LifecycleState, workload: Workload) -> None:
    """Begin to hold a complete reservation until the promised members exist."""
    seconds = permit_seconds(state, workload)
    held = sum(len(g.holds) for g in workload.groups.values())
    transit(workload, Transition.RESERVE)
    state.set_deadline(workload, seconds)
    text = f"{RESERVED_TEXT}; {counted(held, 'promised member', verb=HAS)} not been created yet "
    text += f"(given back after {seconds} s)"
    details = {"missing": str(held), "timeoutSeconds": str(seconds)}
    explain(workload, Explanation(Gate.PERMIT, "WaitingForMembers", text, details))


def time_out_members(state: LifecycleState, workload: Workload) -> None:
    """Give back a reservation whose permit has run out, and try again later."""
    held = sum(len(g.holds) for g in workload.groups.values())
    text = f"{counted(held, 'promised member', verb=WAS)} not created in time; its reservation is given back"
    break_up(state, workload)
    try_later(state, workload, "PermitTimeout", text)


BACKING_OFF = "BackingOff"
"""The reason of those who rest after a failure."""


def try_later(state: LifecycleState, workload: Workload, reason: str, text: str) -> None:
    """Have a workload whose reservation has been given back tried again after its backoff, and tell why."""
    state.back_off(workload)
    explain(workload, Explanation(Gate.PERMIT, reason, text, {"attempts": str(workload.attempts)}))
    state.announce(workload, "Warning", reason, text)


def backing_off(workload: Workload) -> Explanation:
    """Say that a workload rests after a failure, and until when; where a check had it taken out, as that was told."""
    evicted, again = workload.evicted, timestamp(workload.not_before)
    if evicted is not None and evicted.reason == EvictionReason.ADMISSION_CHECK:
        return Explanation(Gate.CHECKS, evicted.reason, evicted.message)
    text = f"its last attempt was given up; it is tried again at {again}"
    return Explanation(Gate.PERMIT, BACKING_OFF, text, {"attempts": str(workload.attempts), "at": again})


def break_up(state: LifecycleState, workload: Workload) -> None:
    """Give back a whole reservation; the workload waits as before."""
    note_given_back(state, workload)
    give_back_all(state, workload)
    state.plugin_holds.pop(workload.key, None)
    transit(workload, Transition.GIVE_BACK)
    workload.deadline = None


def note_given_back(state: LifecycleState, workload: Workload) -> None:
    """Note that a reservation is given back, if one is held."""
    if workload.phase is Phase.RESERVED:
        state.reached(workload, LifecycleStep.GIVEN_BACK, seconds=held_seconds(state, workload))


def held_seconds(state: LifecycleState, workload: Workload) -> float:
    """Return for how long a reservation has been held."""
    return 0.0 if workload.reserved_at is None else state.now - workload.reserved_at


def _is_overfull(state: LifecycleState, pod_class: PodClass, where: Sequence[str]) -> bool:
    """Whether one of some nodes has less than is taken of anything that pods of a class ask for."""
    nodes = state.cluster.nodes
    shares = pod_class.cards is not NO_CARDS  # what is asked of cards no node offers
    offered = {name: n for name, n in pod_class.requests.items() if not (shares and name in UNOFFERED)}
    asked, rows = nodes.vector(offered) > 0, [nodes.rows[node] for node in where]
    short = (nodes.requested[rows] > nodes.allocatable[rows]) & asked
    for one in pod_class.devices.extended:  # devices may stand in for what a node does not offer
        column = nodes.resource_index.column(one.resource)
        short[:, column] &= nodes.allocatable[rows, column] > 0
    return bool(short.any())


def _is_closed(
    state: LifecycleState, group: MemberGroup, pod_class: PodClass, node: str, charge: Charge | None
) -> bool:
    """Whether a node takes no new pods of a class any more, by what flavors and admission checks have them tolerate."""
    nodes, flavors = state.cluster.nodes, state.catalog.flavors
    row, tolerations = nodes.rows[node], pod_class.spec.tolerations
    if not is_closed(nodes, row, tolerations):
        return False
    known = {} if charge is None else {one: one for one in charge.flavors.values() if one in flavors}
    more = () if group.added is None else group.added.tolerations
    return is_closed(nodes, row, (*tolerations, *where_of(known, flavors).tolerations, *more))


def _stands(state: LifecycleState, hold: PromisedReservation) -> bool:
    return state.cluster.held.is_held((hold.node, hold.number))


def _release_holds(state: LifecycleState, group: MemberGroup) -> None:
    for hold in tuple(group.holds):
        _release(state, group, hold)


def _release(state: LifecycleState, group: MemberGroup, hold: PromisedReservation) -> None:
    group.holds.remove(hold)
    state.cluster.held.release((hold.node, hold.number))
    if hold.charge is not None:
        state.refund(hold.charge)
