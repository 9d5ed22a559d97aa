"""The one decision: quota and a node for every required pod of a workload, together or not at all.

`reserve` is where a gang gets its nodes; `binding.send_binds` is where they go out. The required pods come first
(`required_pods.py`), and then as many others as there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from tutti.cluster.pods import PodRecord
from tutti.engine.admission import AdmissionState, extenders, usage_history
from tutti.engine.admission.attempt import AdmissionAttempt, Admitted, Refusal, Taken, flavor_chooser, widest
from tutti.engine.admission.dry_runs import lacking_to_be_whole, why_surplus_waits
from tutti.engine.admission.earliest_finish import Widened, ending_first
from tutti.engine.admission.growth import as_it_starts, has_all, in_its_turn, take_extra
from tutti.engine.admission.mending import goes_first, mend
from tutti.engine.admission.required_pods import take_required, why_limited, within_limits
from tutti.engine.admission.shortages import short_of_resources
from tutti.engine.lifecycle import checks, provisioning, quota_usage
from tutti.engine.lifecycle.devices import free_unavailable
from tutti.engine.records.explanation import ASKING, PATIENT
from tutti.engine.records.members import Charge, PromisedReservation
from tutti.engine.records.pod_sets import PodSetRequest, quota_pod_sets
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase
from tutti.placement.shared_claims import out_of_shared_reach
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import PodSet


def reserve(state: AdmissionState, entry: QueueEntry, choice: WorkloadAssignment | None) -> Admitted | Refusal:
    """Reserve quota and nodes for all required pods of a workload, and for more where there is room.

    Args:
        state: The engine's memory.
        entry: The workload.
        choice: The flavors that its required pods could have by quota; None where none is needed.

    Returns:
        What it has got; or why it has nothing, and nothing has changed.
    """
    return _reserve(state, entry, _Asked(entry.needs, entry.equivalence.pod_sets, as_it_starts(state, entry, choice)))


def reserve_as_left(
    state: AdmissionState, entry: QueueEntry, left: Sequence[tuple[Charge, int]], refused: Refusal
) -> Admitted | Refusal:
    """Reserve in the flavors in which others have left for a workload that was refused in those that come first.

    Flavors are chosen for one pod set after the other, the first that will do. One that was full while its holders ran
    may do for the first pod set now, and leave too little of it for the next: they would have left in vain, and again
    and again where they come back.

    Args:
        state: The engine's memory.
        entry: The workload.
        left: What each of its required pods was to be charged, and for how many of them.
        refused: Why it was refused.

    Returns:
        What it has got; or that it is refused, and nothing has changed.
    """
    needs = _counted_in(entry.needs, [frozenset(charge.flavors.values()) for charge, _ in left])
    if entry.queue is None or not needs or refused.why.reason in (*PATIENT, ASKING):
        return refused
    pod_sets = quota_pod_sets([need for need in needs if need.required])
    choice = flavor_chooser(state, entry.queue, entry.workload).assign(pod_sets)
    if choice.mode is not AssignmentMode.FIT:
        return refused
    found = _reserve(state, entry, _Asked(needs, pod_sets, choice))
    return refused if isinstance(found, Refusal) else found


def _counted_in(needs: Sequence[PodSetRequest], flavors: Sequence[frozenset[str]]) -> list[PodSetRequest]:
    """Return needs of which each required one keeps to its flavors; nothing where those are not several."""
    if len(flavors) < 2 or len(flavors) != sum(need.required > 0 for need in needs):  # noqa: PLR2004 - several
        return []
    each = iter(flavors)
    return [msgspec.structs.replace(need, kept=next(each)) if need.required else need for need in needs]


class _Asked(NamedTuple):
    """What a workload asks for: all its pods, what the required ones ask of quota, and the flavors that these get."""

    needs: Sequence[PodSetRequest]
    pod_sets: Sequence[PodSet]
    choice: WorkloadAssignment | None


def _reserve(state: AdmissionState, entry: QueueEntry, asked: _Asked) -> Admitted | Refusal:
    """Reserve what is asked for."""
    workload = entry.workload
    if state.configuration.extenders:
        extenders.begin_consulting(state, workload.key)
    scarce = short_of_resources(state, workload, entry.queue) if workload.min_resources else None
    scarce = scarce or why_limited(state, workload, entry.queue, entry.needs)
    if scarce is not None:
        return Refusal(scarce)
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, workload, entry.queue, transaction, may_ask=True)
        try:
            found = _take(attempt, entry, asked)
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
            options = lacking_to_be_whole(state, entry)
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


def _take(attempt: AdmissionAttempt, entry: QueueEntry, asked: _Asked) -> Admitted | Refusal:
    """Take quota and nodes for all required pods, and for more where there is room."""
    state, required = attempt.state, [need for need in asked.needs if need.required]
    found = take_required(attempt, required, asked.pod_sets, asked.choice)
    if isinstance(found, Refusal):
        return msgspec.structs.replace(found, why=usage_history.explain_usage(state, entry.workload, found.why))
    if found.awaits:
        return found
    taken = list(found.taken)
    whole = within_limits(state, entry, asked.needs)
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
        found = take_required(probe, required, pod_sets, choice)
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
