"""The one decision: quota and a node for every required pod of a workload, together or not at all.

`reserve` is where a gang gets its nodes; `binding.send` is where they go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tutti.cluster.classes import PodClass
from tutti.cluster.transaction import Transaction
from tutti.engine import extenders
from tutti.engine.consultation import Query
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.queues import queue_of
from tutti.engine.shortages import closest, gathering, misfit, short_of_quota, with_strangers
from tutti.engine.state import State
from tutti.engine.workloads import Charge, Group, Hold, Member, Phase, Workload
from tutti.placement.framework import Rows
from tutti.placement.gang import Ask, hardest_first, place
from tutti.placement.misfit import explain
from tutti.placement.profile import Profile
from tutti.placement.together import Shortfall, place_together
from tutti.placement.unsupported import unsupported
from tutti.quota.flavors import Assignment, Queue, assignments, uncovered, usage_of, where_of
from tutti.quota.tree import Usage


@dataclass(slots=True)
class Need:
    """Pods of one class, of one group, that want nodes.

    Attributes:
        members: Those that exist, in the order in which they get nodes.
        required: How many must be placed; more than there are members where some are only promised.
        extra: How many more may be.
    """

    group: Group
    klass: PodClass
    members: list[Member]
    required: int
    extra: int = 0


@dataclass(slots=True)
class Taken:
    """What has been reserved of one need, from member `start` on: one row per pod, and what each uses of quota."""

    need: Need
    start: int
    rows: Rows
    charge: Charge | None


@dataclass(slots=True)
class Attempt:
    """One try at one workload; leaving its transaction without commit gives everything back."""

    state: State
    queue: Queue | None
    profile: Profile
    transaction: Transaction
    taken: list[Taken] = field(default_factory=list)

    def usage(self) -> Usage:
        """Return the quota charged so far."""
        total: Usage = {}
        for one in self.taken:
            if one.charge is not None:
                for what, amount in _times(one.charge.usage, len(one.rows)).items():
                    total[what] = total.get(what, 0) + amount
        return total

    def undo_charges(self) -> None:
        """Take back the quota charged so far."""
        for one in self.taken:
            if one.charge is not None:
                self.state.ledger.undo(one.charge.queue, _times(one.charge.usage, len(one.rows)))


def reserve(state: State, workload: Workload) -> Explanation | None:
    """Reserve quota and nodes for all required pods of a workload, and for more where there is room.

    Returns:
        None where it is done; otherwise why not, and nothing has changed.
    """
    queue = queue_of(state, workload)
    if isinstance(queue, Explanation):
        return queue
    needs = needs_of(workload)
    if isinstance(needs, Explanation):
        return with_strangers(state, workload, needs)
    extenders.begin_try(state, workload.key)
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, queue, _profile(state, workload), transaction)
        why = _take_all(attempt, needs)
        if why is not None:
            attempt.undo_charges()
            return why
        transaction.commit()
    _assign(state, attempt.taken)
    workload.cluster_queue = queue.name if queue else ""
    return None


def why_surplus_waits(state: State, workload: Workload) -> Explanation | None:
    """Return why the members that are still without a node, beyond the required ones, have none; None if none are."""
    queue = queue_of(state, workload)
    if isinstance(queue, Explanation):
        return queue
    if not workload.tally().waiting:
        return None
    waiting = [m for m in workload.members() if m.pod.placeable]
    group = workload.groups[state.home[waiting[0].pod.key][1]]
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, queue, _profile(state, workload), transaction)
        why = _take_required(attempt, Need(group, waiting[0].pod.klass, waiting[:1], required=1))
        attempt.undo_charges()
    return why or Explanation(Gate.PLACEMENT, "Unschedulable", "no room was left for it in this turn")


def needs_of(workload: Workload) -> list[Need] | Explanation:
    """Return which pods want nodes now, or what is still missing before any may have one.

    A gang that has been running together before takes every new member as it comes; otherwise all that is missing
    to its minimum must be had at once.
    """
    if workload.problem is not None:
        return workload.problem
    needs: list[Need] = []
    for group in workload.groups.values():
        tally = group.tally()
        waiting = sorted((m for m in group.members.values() if m.pod.placeable), key=_by_rank)
        missing = max(0, group.min_count - tally.placed - tally.reserved - len(group.holds))
        if workload.phase is Phase.SCHEDULED:
            missing = 0
        holds_for_promised = group.promised is not None and workload.phase is Phase.WAITING
        promised = missing - len(waiting) if holds_for_promised else 0
        if missing > len(waiting) + max(0, promised):
            return gathering(group)
        needs.extend(_split(group, waiting, missing, max(0, promised)))
    return needs


def _split(group: Group, waiting: list[Member], missing: int, promised: int) -> Iterator[Need]:
    """Group the waiting members by class; the first `missing` of them are required, the others are extra."""
    by_class: dict[PodClass, Need] = {}
    for index, member in enumerate(waiting):
        klass = member.pod.klass
        need = by_class.get(klass)
        if need is None:
            need = by_class[klass] = Need(group, klass, [], 0)
        need.members.append(member)
        if index < missing:
            need.required += 1
        else:
            need.extra += 1
    if promised and group.promised is not None:
        need = by_class.setdefault(group.promised, Need(group, group.promised, [], 0))
        need.required += promised
    yield from by_class.values()


def _take_all(attempt: Attempt, needs: list[Need]) -> Explanation | None:
    """Take what every need requires, or say what is short; what is extra comes after all that is required."""
    if attempt.queue is None:
        return _take_together(attempt, needs)
    asks = [Ask(need.klass, need.required, need.extra) for need in needs]
    order = hardest_first(attempt.state.cluster.nodes, asks)
    for index in order:
        why = _take_required(attempt, needs[index])
        if why is not None:
            return why
    for index in order:
        _take_extra(attempt, needs[index])
    return None


def _take_together(attempt: Attempt, needs: list[Need]) -> Explanation | None:
    """Take nodes for needs that use no quota."""
    for need in needs:
        why = _unplaceable(need) if need.required else None
        if why is not None:
            return why
    wanted = [need for need in needs if _unplaceable(need) is None]
    asks = [Ask(need.klass, need.required, need.extra) for need in wanted]
    queries = [_query(ask, need) for ask, need in zip(asks, wanted, strict=True)]
    waits = extenders.consult(attempt.state, queries, attempt.profile)
    if waits is not None:
        return waits
    found = place_together(attempt.state.cluster.nodes, attempt.transaction, asks, attempt.profile)
    if isinstance(found, Shortfall):
        again = extenders.ask_again(attempt.state, queries, attempt.profile)
        return again or misfit(found.misfit, {}, tried=found.tried)
    attempt.taken += [Taken(need, 0, rows, None) for need, rows in zip(wanted, found, strict=True) if len(rows)]
    return None


def _take_required(attempt: Attempt, need: Need) -> Explanation | None:
    """Take quota and nodes for the required pods of a need: all of them in the first flavors that have both."""
    if not need.required:
        return None
    ways = _unplaceable(need) or _ways(attempt, need)
    if isinstance(ways, Explanation):
        return ways
    whys: list[Explanation] = []
    for assignment in ways:
        taken = _take_in(attempt, need, assignment, required=need.required)
        if not isinstance(taken, Explanation):
            return None
        if taken.reason == extenders.WAITING:
            return taken  # the next flavor is for when this one is refused
        whys.append(taken)
    return closest(whys, attempt.queue)


def _take_extra(attempt: Attempt, need: Need) -> None:
    """Take quota and nodes for as many of the extra pods of a need as there is room for, flavor by flavor."""
    ways = _unplaceable(need) or _ways(attempt, need)
    if isinstance(ways, Explanation):
        return
    taken = 0
    for assignment in ways:
        more = _take_in(attempt, need, assignment, extra=need.extra - taken, start=need.required + taken)
        if isinstance(more, Explanation):
            return  # nothing is required, so nothing can be short; an extender has to be asked first
        taken += more
        if taken == need.extra:
            return


def _unplaceable(need: Need) -> Explanation | None:
    """Return why pods of this class can never be placed, whatever room there is; None where they can."""
    if need.klass.problem:
        return Explanation(Gate.PLACEMENT, "InvalidPod", need.klass.problem)
    beyond = unsupported(need.klass.spec)
    if not beyond:
        return None
    text = f"Tutti cannot place by {', '.join(beyond)} yet; leave it out, or let another scheduler place the pod"
    return Explanation(Gate.PLACEMENT, "UnsupportedConstraint", text)


def _ways(attempt: Attempt, need: Need) -> Iterable[Assignment] | Explanation:
    """Return the ways to count a need in its queue's flavors; one empty way without a queue."""
    queue = attempt.queue
    if queue is None:
        return [{}]
    missing = uncovered(queue, need.klass.requests)
    if missing:
        return Explanation(
            Gate.QUOTA,
            "ResourceNotCovered",
            f"ClusterQueue {queue.name} has no quota of {', '.join(missing)}; add it to coveredResources, "
            "or do not request it",
        )
    return assignments(queue, attempt.state.catalog.flavors, need.klass.requests, need.klass.spec.tolerations)


def _take_in(
    attempt: Attempt, need: Need, assignment: Assignment, *, required: int = 0, extra: int = 0, start: int = 0
) -> Explanation | int:
    """Take from a need's member `start` on, under one assignment: all that is required, or nothing.

    Returns:
        How many pods were taken, or why the required ones could not be.
    """
    state, queue = attempt.state, attempt.queue
    per_pod = usage_of(assignment, need.klass.requests)
    if queue is not None:
        room = state.ledger.room_for(queue.name, per_pod)
        if room < required:
            return short_of_quota(state, queue, per_pod, required, attempt.usage())
        extra = min(extra, room - required)
    ask = Ask(need.klass, required, extra, where_of(assignment, state.catalog.flavors))
    queries = [_query(ask, need)]
    waits = extenders.consult(state, queries, attempt.profile)
    if waits is not None:
        return waits
    rows = place(state.cluster.nodes, attempt.transaction, ask, attempt.profile)
    if rows is None:
        again = extenders.ask_again(state, queries, attempt.profile)
        return again or misfit(explain(state.cluster.nodes, ask, attempt.profile), assignment)
    if len(rows):
        charge = None
        if queue is not None:
            charge = Charge(queue.name, assignment, per_pod)
            state.ledger.charge(queue.name, _times(per_pod, len(rows)))
        attempt.taken.append(Taken(need, start, rows, charge))
    return len(rows)


def _query(ask: Ask, need: Need) -> Query:
    return Query(ask, need.members[0].pod if need.members else None)


def _assign(state: State, taken: list[Taken]) -> None:
    """Hand the reserved rows to the members, and keep what is left for those that are only promised."""
    for one in taken:
        rows = one.rows.tolist()
        members = one.need.members[one.start : one.start + len(rows)]
        state.cluster.assume_all([member.pod for member in members], rows[: len(members)])
        for member in members:
            member.charge = one.charge
        for row in rows[len(members) :]:
            node, number = state.cluster.hold(one.need.klass, row)
            one.need.group.holds.append(Hold(one.need.klass, node, number, one.charge))


def _profile(state: State, workload: Workload) -> Profile:
    """Return the profile that the members name; a gang without members yet takes the first."""
    scheduler = next((member.scheduler for member in workload.members()), "")
    return state.profiles.get(scheduler) or next(iter(state.profiles.values()))


def _by_rank(member: Member) -> tuple[int, str]:
    """Order p-2 before p-10, so that neighbouring ranks come to neighbouring places."""
    return len(member.pod.name), member.pod.name


def _times(usage: dict[tuple[str, str], int], count: int) -> dict[tuple[str, str], int]:
    return {what: amount * count for what, amount in usage.items()}
