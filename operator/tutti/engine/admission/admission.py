"""The one decision: quota and a node for every required pod of a workload, together or not at all.

`reserve` is where a gang gets its nodes; `binding.send_binds` is where they go out. Flavors are chosen by quota first
(`quota/assigner.py`). Where the nodes of the chosen flavors have no room, the choice is made again without these, until
both hold or no flavors are left: nothing is used of quota before.

Where admission checks come before nodes, or nodes are yet to be made, the quota is taken alone (`lifecycle/checks.py`,
`lifecycle/provisioning.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from tutti.cluster.pods import PodRecord
from tutti.engine.admission import AdmissionState, extenders, quota_holdback, throttling, usage_history, user_limits
from tutti.engine.admission.attempt import (
    AdmissionAttempt,
    Admitted,
    Refusal,
    Taken,
    flavor_chooser,
    query_of,
    terms_of,
    widest,
)
from tutti.engine.admission.earliest_finish import Widened, ending_first, why_it_awaits
from tutti.engine.admission.growth import as_it_starts, has_all, in_its_turn, take_extra, with_gain
from tutti.engine.admission.mending import goes_first, mend
from tutti.engine.admission.patience import Patience, place_near_data
from tutti.engine.admission.provisioning import asks_for_nodes
from tutti.engine.admission.shortages import (
    closest,
    gang_full,
    misfit,
    no_gain,
    no_object_for_checks,
    no_room_left,
    short_of_quota,
    short_of_resources,
)
from tutti.engine.lifecycle import checks, provisioning, quota_usage
from tutti.engine.lifecycle.devices import free_unavailable
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.consultation import ExtenderQuery
from tutti.engine.records.explanation import ASKING, PATIENT, WAITING_FOR_FLAVOR, Explanation
from tutti.engine.records.members import PromisedReservation
from tutti.engine.records.pod_sets import (
    PodSetRequest,
    PreemptionOption,
    class_never_admitted,
    pending_pod_sets,
    quota_pod_sets,
)
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.framework import KeptOff, Rows
from tutti.placement.gang import Ask
from tutti.placement.plugins.leaving_nodes import kept_off, some_are_candidates
from tutti.placement.shared_claims import out_of_shared_reach
from tutti.placement.together import Diagnosis, place_together
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import PodSet
from tutti.quota.policy import NOBODY


def reserve(state: AdmissionState, entry: QueueEntry, choice: WorkloadAssignment | None) -> Admitted | Refusal:
    """Reserve quota and nodes for all required pods of a workload, and for more where there is room.

    Args:
        state: The engine's memory.
        entry: The workload.
        choice: The flavors that its required pods could have by quota; None where none is needed.

    Returns:
        What it has got; or why it has nothing, and nothing has changed.
    """
    workload = entry.workload
    if state.configuration.extenders:
        extenders.begin_consulting(state, workload.key)
    scarce = short_of_resources(state, workload, entry.queue) if workload.min_resources else None
    scarce = scarce or throttling.throttled(state, entry.needs)
    scarce = scarce or user_limits.limited(state, workload, entry.queue, entry.needs)
    if scarce is not None:
        return Refusal(scarce)
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, workload, entry.queue, transaction, may_ask=True)
        try:
            found = _take(attempt, entry, choice)
        except Exception:
            attempt.refund()
            raise
        if isinstance(found, Refusal):
            transaction.rollback()
            free_unavailable(state, workload)
            return found
        if found.held and entry.queue is not None:
            checks.hold_quota(state, workload, entry.queue.name, found.held)
        if found.provisions is not None:
            provisioning.begin(state, workload, *found.provisions)
        if found.awaits:
            return found
        if not found.taken and entry.needs:
            options = _lacking_to_be_whole(state, entry)
            why = why_surplus_waits(state, workload)
            return found if why is None else Refusal(why, options)
        transaction.commit()
    _assign(state, found.taken)
    if state.catalog.by_past_use:
        charged = [(one.charge, len(one.rows)) for one in found.taken if one.charge is not None]
        usage_history.count_admission(state, workload, charged)
    workload.cluster_queue, workload.passed_up_since = entry.queue.name if entry.queue else "", None
    if workload.phase is Phase.WAITING and workload.held_since is None:
        workload.reserved_at = state.now
    if workload.flavor_seconds:  # which counts for those who are tried in this turn
        state.expected[workload.key] = workload
    quota_usage.describe_holder(state, workload)
    return found


def _take(attempt: AdmissionAttempt, entry: QueueEntry, choice: WorkloadAssignment | None) -> Admitted | Refusal:
    """Take quota and nodes for all required pods, and for more where there is room."""
    state, required = attempt.state, [need for need in entry.needs if need.required]
    found = _take_required(attempt, required, entry.equivalence.pod_sets, as_it_starts(state, entry, choice))
    if isinstance(found, Refusal):
        return msgspec.structs.replace(found, why=usage_history.explain_usage(state, entry.workload, found.why))
    if found.awaits:
        return found
    taken = list(found.taken)
    whole = _within_limits(state, entry)
    needs = in_its_turn(entry, whole)
    has_extra = any(need.extra for need in needs)
    is_mended = entry.workload.phase is Phase.SCHEDULED and goes_first(entry.workload, entry.needs)
    if required and has_extra and not is_mended:
        needs, taken = _take_most(attempt, needs, taken)
    for one in taken:
        if one.charge is not None:
            attempt.charge(one.charge, len(one.rows))
    if is_mended:
        return mend(attempt, needs, taken)
    for need in needs if has_extra else ():
        if need.extra:
            taken += take_extra(attempt, need, taken)
    has_more = needs is not whole and has_all(taken, needs)
    if has_more:
        state.touch(entry.workload.key)  # its others are looked at in the next turn, where they are not in this one
    return Admitted(taken, has_more=has_more)


def _within_limits(state: AdmissionState, entry: QueueEntry) -> Sequence[PodSetRequest]:
    """Return the pods of a workload that may start, with as few surplus pods as throttles and limits of users let."""
    needs = throttling.within_throttles(state, entry.needs)
    return user_limits.within_user_limits(state, entry.workload, entry.queue, needs)


def _lacking_to_be_whole(state: AdmissionState, entry: QueueEntry) -> Sequence[PreemptionOption]:
    """Return what a gang that runs with fewer members than it needs lacks for those; nothing where it has them.

    Nobody is to leave for such as may not start though there is room.
    """
    needs = _to_be_whole(entry.workload, _within_limits(state, entry))
    if not needs:
        return ()
    queue, pod_sets = entry.queue, quota_pod_sets(needs)
    choice = None if queue is None else flavor_chooser(state, queue, entry.workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, entry.workload, queue, transaction)
        found = _take_required(attempt, needs, pod_sets, choice)
    return found.options if isinstance(found, Refusal) else ()


def _to_be_whole(workload: Workload, needs: Sequence[PodSetRequest]) -> list[PodSetRequest]:
    """Return those of needs that a gang which runs with fewer members than it needs is short of, as required ones."""
    short: list[PodSetRequest] = []
    missing = {id(group): group.min_count - group.counts().placed for group in workload.groups.values()}
    for need in needs:
        count = min(missing[id(need.group)], need.extra)
        if count > 0:
            missing[id(need.group)] -= count
            short.append(msgspec.structs.replace(need, members=need.members[:count], required=count, extra=0, growth=0))
    return short


def look(state: AdmissionState, entry: QueueEntry) -> list[Taken] | Explanation:
    """Return what would be reserved for the required pods of a workload, or why not; nothing changes.

    Of a gang that runs already these are the members that it has too few of.
    """
    workload, queue, pod_sets = entry.workload, entry.queue, entry.equivalence.pod_sets
    needs = [need for need in entry.needs if need.required]
    if not needs:
        needs = _to_be_whole(workload, entry.needs)
        pod_sets = quota_pod_sets(needs)
    choice = None if queue is None or not pod_sets else flavor_chooser(state, queue, workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, workload, queue, transaction)
        why = throttling.throttled(state, needs) or user_limits.limited(state, workload, queue, needs)
        found = Refusal(why) if why is not None else _take_required(attempt, needs, pod_sets, choice)
    return found.why if isinstance(found, Refusal) else list(found.taken)


def why_surplus_waits(state: AdmissionState, workload: Workload) -> Explanation | None:
    """Return why the members that are still without a node, beyond the required ones, have none; None if none are."""
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    if isinstance(queue, Explanation):
        return queue
    if not workload.counts().waiting:
        return None
    needs = pending_pod_sets(workload)
    if isinstance(needs, Explanation):
        return needs
    wanting = {member.pod.key: need for need in needs for member in need.members}
    waiting = [m for m in workload.members() if m.pod.placeable]
    first = next((m for m in waiting if m.pod.key in wanting), None)
    if first is None:  # those that wait are more than may run at once, or than it gains from
        return no_gain(workload) or gang_full(workload.groups[state.pod_group_of[waiting[0].pod.key][1]])
    never = class_never_admitted(queue, first.pod.pod_class)
    if never is not None:
        return never
    need = msgspec.structs.replace(wanting[first.pod.key], members=[first], required=1, extra=0, growth=0)
    pod_sets = quota_pod_sets([need])
    choice = None if queue is None else flavor_chooser(state, queue, workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, workload, queue, transaction)
        why = throttling.throttled(state, [need]) or user_limits.limited(state, workload, queue, [need])
        found = Refusal(why) if why is not None else _take_required(attempt, [need], pod_sets, choice)
    return with_gain(workload, queue, found.why if isinstance(found, Refusal) else no_room_left())


def _take_required(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment | None,
) -> Admitted | Refusal:
    """Take nodes for the required pods of all needs, in the first flavors that have both quota and nodes for them."""
    if not needs:
        return Admitted()
    if choice is None:
        placed = _place(attempt, needs, pod_sets, None)
        return Refusal(placed.why, placed.options) if isinstance(placed, _Unplaced) else Admitted(placed)
    state, queue = attempt.state, attempt.queue
    assert queue is not None  # there is a choice of its flavors
    without: dict[str, list[frozenset[str]]] = {}
    whys: list[Explanation] = []
    options: list[PreemptionOption] = []
    while choice.mode is AssignmentMode.FIT:
        found = _take_in(attempt, needs, pod_sets, choice)
        if isinstance(found, Admitted):
            return found
        if found.why.reason == WAITING_FOR_FLAVOR:
            return Refusal(found.why)
        if found.why.reason == ASKING:
            return Refusal(found.why, options)  # the next flavor is for when this one is refused
        whys.append(found.why)
        options += found.options
        short = pod_sets[found.index].name
        without.setdefault(short, []).append(choice.group_of(short).flavors)
        choice = flavor_chooser(state, queue, attempt.workload).assign(pod_sets, without=without)
    patient = next((why for why in whys if why.reason in PATIENT), None)
    if patient is not None:
        return Refusal(patient)  # it could have something now, so nobody has to go
    whys += short_of_quota(state, queue, choice)
    while queue.policy != NOBODY and choice.mode is AssignmentMode.PREEMPT:
        terms = terms_of(attempt, needs, pod_sets, choice)
        options.append(terms.lacking(attempt, needs, choice.contested()))
        short = next(one.name for one in choice.pod_sets if one.mode is AssignmentMode.PREEMPT)
        without.setdefault(short, []).append(choice.group_of(short).flavors)
        choice = flavor_chooser(state, queue, attempt.workload).assign(pod_sets, without=without)
    return Refusal(closest(whys), options)


def _take_in(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment,
) -> Admitted | _Unplaced:
    """Take nodes for the required pods of all needs in flavors that have quota for them, or this quota alone."""
    state, queue = attempt.state, attempt.queue
    if queue is not None and choice.level and state.quota_holdbacks.of:
        kept = quota_holdback.refused_by_holdback(state, attempt.workload, queue, choice.usage, away=choice.level)
        if kept is not None:
            return _Unplaced(_borrowing(choice), kept)
    held = _hold_for_checks(attempt, needs, pod_sets, choice)
    if held is not None:
        return held
    waits = why_it_awaits(attempt, needs, choice, partial(_has_room, attempt))
    if waits is not None:
        return _Unplaced(0, waits)
    found = _place(attempt, needs, pod_sets, choice)
    if not isinstance(found, _Unplaced):
        return Admitted(found)
    if queue is None or not queue.checks.provisioning or found.why.reason == ASKING:
        return found
    asked = asks_for_nodes(attempt, needs, pod_sets, choice, found.why)
    return asked if isinstance(asked, Admitted) else replace(found, why=asked)


def _hold_for_checks(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment,
) -> Admitted | _Unplaced | None:
    """Return what is held of the quota of these flavors alone where admission checks come before nodes.

    Returns:
        Why it cannot be held, where nothing can tell what checks say of it; None where there are none.
    """
    if attempt.queue is None or not attempt.queue.checks.on_flavors:
        return None
    terms = terms_of(attempt, needs, pod_sets, choice)
    ahead = attempt.checks_ahead(terms)
    if not ahead:
        return None
    if attempt.workload.key[0] == "Pod":
        return _Unplaced(0, no_object_for_checks(attempt.queue, ahead))
    return Admitted(held=terms.to_hold(attempt.workload, needs))


def _borrowing(choice: WorkloadAssignment) -> int:
    """Return the index of the first pod set whose quota comes from furthest away."""
    levels = [max((one.rank.level for one in pods.flavors.values()), default=0) for pods in choice.pod_sets]
    return levels.index(max(levels))


@dataclass(frozen=True, slots=True)
class _Unplaced:
    """That the pods of needs found no nodes.

    Attributes:
        index: Which need found none; the first, where an extender has to be asked about any.
        why: What it waits for.
        options: What could be had if others were gone.
    """

    index: int
    why: Explanation
    options: Sequence[PreemptionOption] = ()


def _place(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment | None,
) -> list[Taken] | _Unplaced:
    """Take nodes for the required pods of all needs, under the flavors chosen for each; or none."""
    state, profile, terms = attempt.state, attempt.profile, terms_of(attempt, needs, pod_sets, choice)
    queries: list[ExtenderQuery] = []
    if state.configuration.extenders:
        queries = [query_of(ask, need) for ask, need in zip(terms.asks, needs, strict=True)]
        waits = extenders.consult(state, queries, profile)
        if waits is not None:
            return _Unplaced(0, waits)
    near = None if profile.data is None else place_near_data(attempt, needs, terms.asks)
    if isinstance(near, Patience):
        return _Unplaced(near.index, near.why)
    found = (
        near
        or _place_on_lasting(attempt, needs, terms.asks)
        or place_together(state.cluster.nodes, attempt.transaction, terms.asks, profile, apart=attempt.apart)
    )
    if isinstance(found, Diagnosis):
        again = None if attempt.probes or not queries else extenders.ask_again(state, queries, profile)
        if again is not None:
            return _Unplaced(found.index, again)
        beside = {"tried": found.tried, "of": sum([need.required for need in needs])}
        why = misfit(found.fit_error, terms.given[found.index], **beside)
        return _Unplaced(found.index, why, [terms.lacking(attempt, needs)])
    each = zip(needs, found, terms.charges, strict=True)
    return [Taken(need, 0, rows, charge) for need, rows, charge in each]


def _has_room(attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], choice: WorkloadAssignment) -> bool:
    """Whether there are nodes for the required pods of needs in the flavors chosen for them; none are taken."""
    mark = attempt.transaction.mark()
    found = _place(attempt, needs, quota_pod_sets(needs), choice)
    attempt.transaction.rollback(mark)
    return not isinstance(found, _Unplaced)


def _place_on_lasting(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], asks: Sequence[Ask]
) -> list[Rows] | None:
    """Place a gang on nodes that no autoscaler has its eye on, where there are others; None where it does not fit."""
    nodes = attempt.state.cluster.nodes
    if not (any(need.in_gang for need in needs) and some_are_candidates(nodes)):
        return None
    lasting = [replace(ask, where=kept_off(ask.where, KeptOff.CANDIDATES)) for ask in asks]
    found = place_together(nodes, attempt.transaction, lasting, attempt.profile, apart=attempt.apart)
    return None if isinstance(found, Diagnosis) else found


def _take_most(attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], taken: list[Taken]) -> Widened:
    """Take nodes for more pods than are required, in flavors that have room for all of them, where there are such.

    Args:
        attempt: Has taken nodes for the required pods of the needs, and nothing else.
        needs: All of them.
        taken: These nodes.

    Returns:
        The needs with those counted as required that have got their nodes now, and these nodes.
    """
    state, queue = attempt.state, attempt.queue
    probe = replace(
        attempt,
        apart=out_of_shared_reach(state.cluster.nodes, [one.need.pod_class for one in taken]),
        probes=True,  # an answer asked for again would be out when what has been found is taken once more
    )

    def take(sized: Sequence[PodSetRequest]) -> list[Taken] | None:
        attempt.transaction.rollback()
        required = [need for need in sized if need.required]
        pod_sets = quota_pod_sets(required)
        choice = None if queue is None else flavor_chooser(state, queue, attempt.workload).assign(pod_sets)
        found = _take_required(probe, required, pod_sets, choice)
        return None if isinstance(found, Refusal) or found.awaits else list(found.taken)  # it need not wait for more

    wider = widest(needs, queue, lambda tried: take(tried) is not None)
    most = None if wider is None else take(wider)
    if wider is not None and most is not None:
        best = ending_first(probe, taken, needs, Widened(wider, most), take)
        if best is not None:
            return best
    least = take([need for need in needs if need.required])  # it was tried with others, and has nothing now
    assert least is not None  # what could be had before can be had again
    assert len(least) == len(taken)
    return Widened(needs, least)


def _assign(state: AdmissionState, taken: Sequence[Taken]) -> None:
    """Hand the reserved rows to the members, and keep what is left for those that are only promised.

    All members are handed theirs at once: what one is promised changes the class of others that wait.
    """
    each = [(one, one.need.members[one.start : one.start + len(one.rows)], one.rows.tolist()) for one in taken]
    pods, where = list[PodRecord](), list[int]()
    for _, members, rows in each:
        pods += [member.pod for member in members]
        where += rows[: len(members)]
    state.cluster.assume_all(pods, where)
    for one, members, rows in each:
        for member in members if one.charge is not None else ():
            member.charge = one.charge
        for member, loss in zip(members, one.need.replaces[one.start :], strict=False):
            member.replaces = loss
        for row in rows[len(members) :]:
            node, number = state.cluster.held.hold(one.need.pod_class, row)
            one.need.group.holds.append(PromisedReservation(one.need.pod_class, node, number, one.charge))
