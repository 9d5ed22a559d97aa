"""Quota and nodes for the required pods of a workload: in the first flavors that have both, or why in none.

Flavors are chosen by quota first (`quota/assigner.py`). Where the nodes of the chosen ones have no room, the choice is
made again without these, until both hold or no flavors are left: nothing is used of quota before.

Where admission checks come before nodes, or nodes are yet to be made, it is the quota alone (`lifecycle/checks.py`,
`lifecycle/provisioning.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tutti.engine.admission import AdmissionState, extenders, quota_holdback, throttling, user_limits
from tutti.engine.admission.attempt import (
    AdmissionAttempt,
    Admitted,
    Refusal,
    Taken,
    Terms,
    flavor_chooser,
    query_of,
    terms_of,
)
from tutti.engine.admission.earliest_finish import why_it_awaits
from tutti.engine.admission.patience import Patience, place_near_data
from tutti.engine.admission.provisioning import asks_for_nodes
from tutti.engine.admission.shortages import closest, misfit, no_object_for_checks, short_of_quota
from tutti.engine.records.consultation import ExtenderQuery
from tutti.engine.records.explanation import ASKING, PATIENT, WAITING_FOR_FLAVOR, Explanation
from tutti.engine.records.pod_sets import PodSetRequest, PreemptionOption, quota_pod_sets
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.placement.framework import KeptOff, Rows
from tutti.placement.gang import Ask
from tutti.placement.plugins.leaving_nodes import kept_off, some_are_candidates
from tutti.placement.together import Diagnosis, place_together
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import PodSet, Queue
from tutti.quota.policy import NOBODY


def why_limited(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Explanation | None:
    """Return which throttle, or limit of its user, keeps the required pods of a workload from starting, if any does."""
    return throttling.throttled(state, needs) or user_limits.limited(state, workload, queue, needs)


def within_limits(state: AdmissionState, entry: QueueEntry, needs: Sequence[PodSetRequest]) -> Sequence[PodSetRequest]:
    """Return the pods of a workload that may start, with as few surplus pods as throttles and limits of users let."""
    needs = throttling.within_throttles(state, needs)
    return user_limits.within_user_limits(state, entry.workload, entry.queue, needs)


def take_required(
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
        unanswered = _unanswerable(attempt, terms)
        if unanswered is None:
            options.append(terms.lacking(attempt, needs, choice.contested()))
        else:
            whys.append(unanswered)  # nobody has to go for quota that would be no use to it
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
    if not attempt.checks_ahead(terms):
        return None
    unanswered = _unanswerable(attempt, terms)
    return Admitted(held=terms.to_hold(attempt.workload, needs)) if unanswered is None else _Unplaced(0, unanswered)


def _unanswerable(attempt: AdmissionAttempt, terms: Terms) -> Explanation | None:
    """Return why a workload can never have these terms, where it has no object on which checks could answer."""
    ahead = attempt.checks_ahead(terms) if attempt.workload.key[0] == "Pod" else []
    return no_object_for_checks(attempt.queue, ahead) if attempt.queue is not None and ahead else None


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
