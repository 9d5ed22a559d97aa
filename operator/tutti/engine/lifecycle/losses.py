"""What a gang has lost with members that have failed, are gone or are on nodes that do not work, and still misses.

Of each is known in which group it was, where, what it had and in which queue and flavors that was counted. What becomes
of a gang that has lost some is decided in `member_loss.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tutti.api.messages import listed
from tutti.cluster.pods import PodPhase
from tutti.engine.lifecycle import LifecycleState, quota_usage
from tutti.engine.records.members import Charge, LostMember, Member, MemberGroup, amounts_of, devices_asked
from tutti.engine.records.successors import size_of_loss
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.flavors import usage_of

_RUNNING = (Phase.SCHEDULED, Phase.LEAVING)
"""Phases in which what members leave behind may be kept for their successors."""
MOST_NAMES = 3
"""How many of the members that have failed a message names."""
_ENDED = (PodPhase.FAILED, PodPhase.LOST)
"""What members do that are there and that nobody counts on any more."""


def note_loss(state: LifecycleState, member: Member) -> None:
    """Note what a member has that is about to be forgotten, where its gang runs and will miss it.

    What it was counted in and where it was is kept for its successor (`member_loss.py`). One that has
    succeeded is not missed.
    """
    (key, name), pod = state.pod_group_of[member.pod.key], member.pod
    workload = state.workloads[key]
    if key[0] == "Pod" or workload.phase not in _RUNNING or not pod.node or member.loss_noted:
        return
    if pod.phase == "Succeeded":
        workload.groups[name].ended += 1
        return
    member.loss_noted = True
    failed = name_of_ended(member) if pod.phase == "Failed" else ""
    devices = devices_asked(pod)
    for index, loss in enumerate(workload.losses):
        was_lost = pod.counted in _ENDED and loss.recalled
        if was_lost and (loss.group, loss.node) == (name, pod.node):
            # The status told of it; how much it had, the pod tells.
            amounts = amounts_of(member, member.charge)
            told = LostMember(name, pod.node, amounts, loss.flavors, loss.queue, failed=failed, devices=devices)
            workload.losses[index] = told
            return
    charge = member.charge or quota_usage.found_charge(state, workload, member)
    flavors, queue = ({}, "") if charge is None else (charge.flavors, charge.queue)
    amounts = amounts_of(member, charge)
    found = LostMember(name, pod.node, amounts, flavors, queue, failed=failed, devices=devices)
    if any(loss.recalled for loss in workload.losses):
        workload.losses.insert(0, found)  # before what was told last: it was not missed then, or is missed besides
    else:
        workload.losses.append(found)


def note_losses(state: LifecycleState, workload: Workload) -> None:
    """Note of the members that have failed, or are lost, what their gang will miss of them."""
    for member in workload.members():
        if member.pod.counted in _ENDED and not member.over:
            note_loss(state, member)


def name_of_ended(member: Member) -> str:
    """Return the name of a member that has ended, with the reason that its status gives."""
    return f"{member.pod.name} ({member.ended})" if member.ended else member.pod.name


def describe_failed(names: Sequence[str]) -> str:
    """Say which members have failed, as the end of a sentence; "" where none has."""
    return f"; failed: {listed(names, len(names), MOST_NAMES)}" if names else ""


def note_brought(state: LifecycleState, workload: Workload) -> None:
    """Note how many members a gang had that has just started, and what it has lost of them while it was bound.

    A kubelet may refuse some, as for what another scheduler has put there meanwhile, before the last one is bound.
    """
    for group in workload.groups.values():
        group.had = max(group.had, min(group.min_count, group.brought))
    note_losses(state, workload)


def recall_had(workload: Workload) -> None:
    """Take a gang that is found running to have had all that it needs, where its status does not say how many."""
    if not workload.had_in_all and not any(group.had for group in workload.groups.values()):
        for group in workload.groups.values():
            group.had = group.min_count


def losses_of(workload: Workload, group: MemberGroup) -> list[LostMember]:
    """Return what a group has lost, and the like of what it has for what nobody has seen it lose.

    No more than it has had in this run: that it needs more by now is no loss, and what it never had is not kept for it.
    """
    seen = [loss for loss in workload.losses if loss.group == group.name]
    like = next((m for m in group.members.values() if m.charge is not None), None)
    if like is None or like.charge is None:
        return seen
    unseen = min(group.lacking, group.had - group.counts().placed) - len(seen)
    return (
        seen
        + [LostMember(group.name, "", amounts_of(like, like.charge), like.charge.flavors, like.charge.queue)] * unseen
    )


def without_made_good(state: LifecycleState, workload: Workload) -> list[LostMember]:
    """Return what a gang has lost without what members that have their node have come in place of.

    For each of them one loss of that size is forgotten: rather what was on its node, or has no room any more. They are
    members like all others from then on.
    """
    there = [one for one in workload.members() if one.replaces is not None and one.pod.node]
    if not there:
        return workload.losses
    nodes = {one.pod.node for one in there}
    alike: dict[object, list[int]] = {}
    for at, loss in enumerate(workload.losses):
        alike.setdefault(_line_of(loss), []).append(at)
    gone: set[int] = set()
    for which, many in Counter(_line_of(one.replaces) for one in there if one.replaces is not None).items():
        mine = alike.get(which, [])
        mine.sort(key=lambda at: (workload.losses[at].node not in nodes, _has_room(state, workload.losses[at])))
        gone.update(mine[:many])
    for one in there:
        one.replaces = None
    return [loss for at, loss in enumerate(workload.losses) if at not in gone]


def _line_of(loss: LostMember) -> object:
    return loss.group, size_of_loss(loss).key


def still_missed(state: LifecycleState, workload: Workload, short: Iterable[MemberGroup]) -> list[LostMember]:
    """Return of each group as many losses as it lacks members; those with room that nobody has taken stay longest."""
    out: list[LostMember] = []
    for group in short:
        mine = [loss for loss in workload.losses if loss.group == group.name]
        stay = sorted(range(len(mine)), key=lambda at: (not _has_room(state, mine[at]), -at))[: group.lacking]
        out += [mine[at] for at in sorted(stay)]
    return out


def missed_of(workload: Workload, short: Iterable[MemberGroup]) -> Iterator[LostMember]:
    """Yield what some groups have lost of what is not on its way again."""
    for group in short:
        yield from losses_of(workload, group)[: group.missing]


def charge_of_loss(state: LifecycleState, workload: Workload, loss: LostMember) -> Charge | None:
    """Return what a loss is counted as: in the queue that its gang is admitted by, in flavors that this has now."""
    said = workload.cluster_queue or (loss.queue if _tells_queue(state, workload, loss) else "")
    queue = state.catalog.queues.get(said or state.leads_to(workload.key[1], workload.queue))
    if queue is None or not loss.flavors:
        return None
    # As those that are left are.
    found = quota_usage.flavors_of(state, queue.name, loss.flavors, loss.amounts, loss.node)
    flavors = {name: one for name, one in found.items() if (one, name) in queue.quotas and name in loss.flavors}
    return Charge(queue.name, flavors, usage_of(flavors, loss.amounts), workload.name) if flavors else None


def _has_room(state: LifecycleState, loss: LostMember) -> bool:
    """Whether the room that a lost member had is there, and as much is free."""
    nodes = state.cluster.nodes
    if not loss.node or not state.cluster.is_working(loss.node):
        return False
    row = nodes.rows[loss.node]
    free = dict(zip(nodes.resource_index.names, (nodes.allocatable[row] - nodes.requested[row]).tolist(), strict=False))
    asked = {name: amount for name, amount in loss.amounts.items() if name in free}  # devices that quota counts are not
    return all(amount <= free[name] for name, amount in asked.items() if amount > 0)


def _tells_queue(state: LifecycleState, workload: Workload, loss: LostMember) -> bool:
    since = state.now if workload.running_since is None else workload.running_since
    return not loss.recalled or quota_usage.is_believed(state, workload, loss.queue, since)
