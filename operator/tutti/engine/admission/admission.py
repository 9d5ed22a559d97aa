"""The one decision: quota and a node for every required pod of a workload, together or not at all.

`reserve` is where a gang gets its nodes; `binding.send` is where they go out.

Flavors are chosen by quota first (`quota/assigner.py`). Where the nodes of the chosen flavors have no room, the choice
is made again without these, until both hold or no flavors are left: nothing is used of quota before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tutti.engine.admission import extenders, holding_back, partial, past_use
from tutti.engine.admission.attempt import Attempt, Taken, ask_for, charge_for, query_of, terms_of, ways_of
from tutti.engine.admission.choices import chooser, nominate
from tutti.engine.admission.shortages import (
    closest,
    gang_full,
    misfit,
    no_room_left,
    short_of_quota,
    short_of_resources,
)
from tutti.engine.lifecycle import holders
from tutti.engine.reading.queues import queue_of
from tutti.engine.records.explanation import ASKING, Explanation
from tutti.engine.records.lines import Standing
from tutti.engine.records.members import Hold
from tutti.engine.records.needs import Lacking, Need, hopeless, needs_of, pod_sets_of
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State
from tutti.placement.gang import place_ask
from tutti.placement.shared_claims import out_of_shared_reach
from tutti.placement.together import Diagnosis, place_together
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import FlavorByResource, PodSet
from tutti.quota.policy import NOBODY


def reserve(state: State, standing: Standing) -> Explanation | None:
    """Reserve quota and nodes for all required pods of a workload, and for more where there is room.

    Returns:
        None where it is done; otherwise why not, and nothing has changed.
    """
    extenders.begin_try(state, standing.workload.key)
    scarce = short_of_resources(state, standing.workload)
    if scarce is not None:
        standing.lacking = ()
        return scarce
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, standing.workload, standing.queue, transaction)
        try:
            why = _take(attempt, standing)
        except Exception:
            attempt.refund()
            raise
        if why is not None:
            return why
        if not attempt.taken and standing.needs:
            standing.lacking = _lacking_to_be_whole(state, standing)
            return why_surplus_waits(state, standing.workload)
        transaction.commit()
    _assign(state, attempt.taken)
    workload = standing.workload
    past_use.admitted(state, workload, [(one.charge, len(one.rows)) for one in attempt.taken if one.charge is not None])
    workload.cluster_queue = standing.queue.name if standing.queue else ""
    if workload.phase is Phase.WAITING:
        workload.reserved_at = state.now
    holders.describe(state, workload)
    return None


def _take(attempt: Attempt, standing: Standing) -> Explanation | None:
    """Take quota and nodes for all required pods, and for more where there is room; else return why there is not."""
    state, required = attempt.state, [need for need in standing.needs if need.required]
    why = _take_required(attempt, required, standing.bunch.pod_sets, nominate(state, standing))
    if why is not None:
        standing.lacking = attempt.lacking
        return past_use.explained(state, standing.workload, why)
    needs = _take_most(attempt, standing.needs) if required else standing.needs
    for one in attempt.taken:
        if one.charge is not None:
            attempt.charge(one.charge, len(one.rows))
    for need in needs:
        if need.extra:
            _take_extra(attempt, need)
    return None


def _lacking_to_be_whole(state: State, standing: Standing) -> Sequence[Lacking]:
    """Return what a gang that runs with fewer members than it needs lacks for those; nothing where it has them."""
    needs = _to_be_whole(standing)
    if not needs:
        return ()
    queue, pod_sets = standing.queue, pod_sets_of(needs)
    choice = None if queue is None else chooser(state, queue, standing.workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, standing.workload, queue, transaction)
        _take_required(attempt, needs, pod_sets, choice)
    return attempt.lacking


def _to_be_whole(standing: Standing) -> list[Need]:
    """Return the pods that a gang which runs with fewer members than it needs wants nodes for, as required ones."""
    needs: list[Need] = []
    missing = {id(group): group.min_count - group.tally().placed for group in standing.workload.groups.values()}
    for need in standing.needs:
        count = min(missing[id(need.group)], need.extra)
        if count > 0:
            missing[id(need.group)] -= count
            needs.append(replace(need, members=need.members[:count], required=count, extra=0, growth=0))
    return needs


def look(state: State, standing: Standing) -> list[Taken] | Explanation:
    """Return what would be reserved for the required pods of a workload, or why not; nothing changes.

    Of a gang that runs already these are the members that it has too few of.
    """
    workload, queue, pod_sets = standing.workload, standing.queue, standing.bunch.pod_sets
    needs = [need for need in standing.needs if need.required]
    if not needs:
        needs = _to_be_whole(standing)
        pod_sets = pod_sets_of(needs)
    choice = None if queue is None or not pod_sets else chooser(state, queue, workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, workload, queue, transaction)
        why = _take_required(attempt, needs, pod_sets, choice)
    return attempt.taken if why is None else why


def why_surplus_waits(state: State, workload: Workload) -> Explanation | None:
    """Return why the members that are still without a node, beyond the required ones, have none; None if none are."""
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    if isinstance(queue, Explanation):
        return queue
    if not workload.tally().waiting:
        return None
    needs = needs_of(workload)
    if isinstance(needs, Explanation):
        return needs
    wanting = {member.pod.key: need for need in needs for member in need.members}
    waiting = [m for m in workload.members() if m.pod.placeable]
    first = next((m for m in waiting if m.pod.key in wanting), None)
    if first is None:  # those that wait are more than may run at once
        return gang_full(workload.groups[state.home[waiting[0].pod.key][1]])
    never = hopeless(queue, first.pod.klass)
    if never is not None:
        return never
    need = replace(wanting[first.pod.key], members=[first], required=1, extra=0, growth=0)
    pod_sets = pod_sets_of([need])
    choice = None if queue is None else chooser(state, queue, workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        why = _take_required(Attempt(state, workload, queue, transaction), [need], pod_sets, choice)
    return why or no_room_left()


def _take_required(
    attempt: Attempt, needs: Sequence[Need], pod_sets: Sequence[PodSet], choice: WorkloadAssignment | None
) -> Explanation | None:
    """Take nodes for the required pods of all needs, in the first flavors that have both quota and nodes for them."""
    if not needs:
        return None
    if choice is None:
        unplaced = _place(attempt, needs, pod_sets, None)
        return None if unplaced is None else unplaced.why
    state, queue = attempt.state, attempt.queue
    assert queue is not None  # there is a choice of its flavors
    without: dict[str, list[frozenset[str]]] = {}
    whys: list[Explanation] = []
    while choice.mode is AssignmentMode.FIT:
        kept = holding_back.refused(state, attempt.workload, queue, choice.usage, away=choice.level)
        found = _place(attempt, needs, pod_sets, choice) if kept is None else _Unplaced(_borrowing(choice), kept)
        if found is None:
            return None
        if found.why.reason == ASKING:
            return found.why  # the next flavor is for when this one is refused
        whys.append(found.why)
        short = pod_sets[found.index].name
        without.setdefault(short, []).append(choice.group_of(short).flavors)
        choice = chooser(state, queue, attempt.workload).assign(pod_sets, without=without)
    whys += short_of_quota(state, queue, choice)
    while queue.policy != NOBODY and choice.mode is AssignmentMode.PREEMPT:
        terms = terms_of(attempt, needs, pod_sets, choice)
        attempt.lacking.append(terms.lacking(attempt, needs, choice.contested()))
        short = next(one.name for one in choice.pod_sets if one.mode is AssignmentMode.PREEMPT)
        without.setdefault(short, []).append(choice.group_of(short).flavors)
        choice = chooser(state, queue, attempt.workload).assign(pod_sets, without=without)
    return closest(whys)


def _borrowing(choice: WorkloadAssignment) -> int:
    """Return the index of the first pod set whose quota comes from furthest away."""
    levels = [max((one.rank.level for one in pods.flavors.values()), default=0) for pods in choice.pod_sets]
    return levels.index(max(levels))


@dataclass(frozen=True, slots=True)
class _Unplaced:
    """Which need found no nodes, and why; the first, where an extender has to be asked about any."""

    index: int
    why: Explanation


def _place(
    attempt: Attempt, needs: Sequence[Need], pod_sets: Sequence[PodSet], choice: WorkloadAssignment | None
) -> _Unplaced | None:
    """Take nodes for the required pods of all needs, under the flavors chosen for each; or none."""
    state, terms = attempt.state, terms_of(attempt, needs, pod_sets, choice)
    queries = [query_of(ask, need) for ask, need in zip(terms.asks, needs, strict=True)]
    waits = extenders.consult(state, queries, attempt.profile)
    if waits is not None:
        return _Unplaced(0, waits)
    found = place_together(state.cluster.nodes, attempt.transaction, terms.asks, attempt.profile, apart=attempt.apart)
    if isinstance(found, Diagnosis):
        again = None if attempt.probes else extenders.ask_again(state, queries, attempt.profile)
        if again is None:
            attempt.lacking.append(terms.lacking(attempt, needs))
        return _Unplaced(found.index, again or misfit(found.misfit, terms.given[found.index], tried=found.tried))
    attempt.taken = [
        Taken(need, 0, rows, charge) for need, rows, charge in zip(needs, found, terms.charges, strict=True)
    ]
    return None


def _take_most(attempt: Attempt, needs: Sequence[Need]) -> Sequence[Need]:
    """Take nodes for more pods than are required, in flavors that have room for all of them, where there are such.

    Args:
        attempt: Has taken nodes for the required pods of the needs, and nothing else.
        needs: All of them.

    Returns:
        The needs with those counted as required that have got their nodes now.
    """
    state, queue, taken = attempt.state, attempt.queue, attempt.taken
    least = [need for need in needs if need.required]
    attempt.apart = out_of_shared_reach(state.cluster.nodes, [one.need.klass for one in taken])
    attempt.probes = True  # an answer asked for again would be out when what has been found is taken once more

    def again(sized: Sequence[Need]) -> bool:
        attempt.transaction.rollback()
        required = [need for need in sized if need.required]
        pod_sets = pod_sets_of(required)
        choice = None if queue is None else chooser(state, queue, attempt.workload).assign(pod_sets)
        return _take_required(attempt, required, pod_sets, choice) is None

    found = partial.widest(needs, queue, again)
    if found is not None and again(found):
        return found
    if any(need.extra for need in needs):  # it was tried with others, and has nothing now
        attempt.taken = []
        again(least)
    assert len(attempt.taken) == len(taken)  # what could be had before can be had again
    return needs


def _take_extra(attempt: Attempt, need: Need) -> None:
    """Take quota and nodes for as many extra pods of a need as there is room for, in the flavors of those like them."""
    state, queue = attempt.state, attempt.queue
    if hopeless(queue, need.klass) is not None:
        return
    found: list[FlavorByResource] = [{}] if queue is None else ways_of(attempt, queue, need)
    left, start = need.extra, need.required
    for assignment in found:
        charge = charge_for(attempt, need, assignment)
        most = left
        if charge is not None and queue is not None:
            most = min(left, holding_back.room_for(state, queue, charge.usage, attempt.workload))
        ask = ask_for(state, need, assignment, extra=most, taken=attempt.taken)
        if extenders.consult(state, [query_of(ask, need)], attempt.profile) is not None:
            return
        rows = place_ask(state.cluster.nodes, attempt.transaction, ask, attempt.profile)
        if rows is None or not len(rows):
            continue
        if charge is not None:
            attempt.charge(charge, len(rows))
        attempt.taken.append(Taken(need, start, rows, charge))
        left, start = left - len(rows), start + len(rows)
        if not left:
            return


def _assign(state: State, taken: list[Taken]) -> None:
    """Hand the reserved rows to the members, and keep what is left for those that are only promised.

    All members are handed theirs at once: what one is promised changes the class of others that wait.
    """
    each = [(one, one.need.members[one.start : one.start + len(one.rows)], one.rows.tolist()) for one in taken]
    state.cluster.assume_all(
        [member.pod for _, members, _ in each for member in members],
        [row for _, members, rows in each for row in rows[: len(members)]],
    )
    for one, members, rows in each:
        for member in members if one.charge is not None else ():
            member.charge = one.charge
        for row in rows[len(members) :]:
            node, number = state.cluster.hold(one.need.klass, row)
            one.need.group.holds.append(Hold(one.need.klass, node, number, one.charge))
