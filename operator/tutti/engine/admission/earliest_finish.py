"""In which flavor a workload ends first, waiting included (`flavorFungibility.preference: EarliestFinish`).

Flavors are looked at in the order of how long the workload takes in them, so that of those that it could have now it
takes the fastest. Where a faster one is taken, it is estimated when it could start there, from when running work ends
and who waits for the same before it, and when throttles, with their overrides by the clock, let it start then; and it
waits for that if it then ends sooner by a tenth of what the one at hand takes. It never waits longer than the other
flavor saves. (AlloX, EuroSys 2020, chooses between CPU and GPU by where work ends first; there all run times are known,
and nobody has a queue or quota.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tutti.api.conditions import timestamp
from tutti.engine.admission import AdmissionState, AwaitedFlavor
from tutti.engine.admission.attempt import AdmissionAttempt
from tutti.engine.admission.expected_starts import Allows, finishing_seconds, known_ends, pending_workload, starts_of
from tutti.engine.admission.patience import begin_waiting, waits_since
from tutti.engine.admission.throttles_ahead import Start, allowed_from
from tutti.engine.admission.throttling import wanted_of
from tutti.engine.records.explanation import WAITING_FOR_FLAVOR, Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.estimate import ExpectedEnd
from tutti.quota.flavors import FlavorByResource, Queue

WORTH_WAITING = 0.1
"""By what part of what the flavor at hand takes another must end it sooner."""

MOST_BEFORE = 16
"""So many of those are looked at who wait for a flavor before another."""


def why_it_awaits(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    choice: WorkloadAssignment,
    place: Callable[[], object | None],
) -> Explanation | None:
    """Return why a workload waits for a faster flavor though these have room; None where it takes these.

    Args:
        attempt: The try at it; nothing is taken in it by this.
        needs: Its pods.
        choice: The flavors that it could have now by quota.
        place: Takes nodes in these, and returns None where there are some.
    """
    state, workload = attempt.state, attempt.workload
    if not workload.flavor_seconds or not attempt.may_ask or attempt.probes:
        return None
    state.awaited_flavors.pop(workload.key, None)
    awaited = _flavor_to_await(attempt, needs, choice)
    if awaited is None:
        return None
    mark, lacking = attempt.transaction.mark(), len(attempt.lacking)
    has_room = place() is None
    attempt.transaction.rollback(mark)
    attempt.taken = []
    del attempt.lacking[lacking:]
    if not has_room:
        return None
    attempt.lacking.clear()
    state.awaited_flavors[workload.key] = awaited
    begin_waiting(state, workload)
    return _told(state, workload, choice, awaited)


def _flavor_to_await(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], choice: WorkloadAssignment
) -> AwaitedFlavor | None:
    """Return what a workload had better wait for than take the flavors that it could have now; None: it takes these."""
    state, workload, queue = attempt.state, attempt.workload, attempt.queue
    if queue is None or not queue.fungibility.earliest_finish or not workload.flavor_seconds:
        return None
    flavors = {f"{mine.name}/{name}": one.flavor for mine in choice.pod_sets for name, one in mine.flavors.items()}
    here = finishing_seconds(workload, flavors)
    if here is None:
        return None
    worth = (1 - WORTH_WAITING) * here
    faster = sorted({seconds for _, seconds in workload.flavor_seconds if seconds < worth})
    since, best = waits_since(workload), None
    ends = known_ends(state) if faster else []
    for seconds in faster:
        if since is not None and state.now >= since + here - seconds:
            continue  # it has waited for as long as that saves
        start = _start_within(state, queue, workload, needs, seconds, ends)
        if start is None or not state.now < start < state.now + worth - seconds:
            continue
        if best is None or start + seconds < best.starts_at + best.seconds:
            best = AwaitedFlavor(seconds, start, here - seconds)
    return best


def _start_within(
    state: AdmissionState,
    queue: Queue,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    seconds: int,
    ends: Sequence[ExpectedEnd],
) -> float | None:
    """Return when a workload could start in flavors in which it takes so long at most, after those before it.

    Throttles have to let it then as well: they do now, but an override that ends meanwhile may close them.
    """
    others = _before(state, queue, workload)
    line = [
        pending_workload(state, its, other, wanted, awaited.seconds, _within(other, awaited.seconds))
        for other, its, wanted, awaited in others
    ]
    line.append(pending_workload(state, queue, workload, needs, seconds, _within(workload, seconds)))
    *starts, mine = starts_of(state, queue, line, ends, strict=False)
    if mine is None or not state.throttles:
        return mine
    before = [
        Start(at, at + awaited.seconds, wanted_of(state, wanted))
        for at, (_, _, wanted, awaited) in zip(starts, others, strict=True)
        if at is not None
    ]
    return allowed_from(state, needs, mine, before)


def _within(workload: Workload, seconds: int) -> Allows:
    def allows(flavors: FlavorByResource) -> bool:
        taken = finishing_seconds(workload, flavors)
        return taken is not None and taken <= seconds

    return allows


def _before(
    state: AdmissionState, queue: Queue, workload: Workload
) -> list[tuple[Workload, Queue, list[PodSetRequest], AwaitedFlavor]]:
    """Return who waits for a flavor in the tree of a queue and goes before a workload, the first one first."""
    root, found = state.ledger.root_of(queue.name), []
    for key, awaited in state.awaited_flavors.items():
        other = state.workloads.get(key)
        if other is None or other is workload or other.phase is not Phase.WAITING or not other.order < workload.order:
            continue
        its = state.catalog.queues.get(state.leads_to(key[1], other.queue))
        needs = pending_pod_sets(other)
        if its is not None and not isinstance(needs, Explanation) and state.ledger.root_of(its.name) == root:
            found.append((other, its, needs, awaited))
    return sorted(found, key=lambda one: one[0].order)[:MOST_BEFORE]


def _told(state: AdmissionState, workload: Workload, choice: WorkloadAssignment, awaited: AwaitedFlavor) -> Explanation:
    """Say for which flavor a workload waits, since when at most, and what it would have had."""
    here = sorted({one.flavor for mine in choice.pod_sets for one in mine.flavors.values()})
    named = dict(workload.flavor_seconds)
    at_hand = ", ".join(one for one in here if one in named)
    faster = " or ".join(sorted(name for name, seconds in named.items() if seconds <= awaited.seconds))
    start, end = timestamp(awaited.starts_at), timestamp(awaited.starts_at + awaited.seconds)
    now_end = timestamp(state.now + awaited.seconds + awaited.saves)
    text = (
        f"There is room in flavor {at_hand}, where it would end at {now_end}; it waits for {faster}, where it is "
        f"expected to start at {start} and to end at {end}, for {awaited.saves} s at most"
    )
    details = {"flavor": faster, "atHand": at_hand, "expectedStart": start, "expectedEnd": end, "endAtHand": now_end}
    return Explanation(Gate.PLACEMENT, WAITING_FOR_FLAVOR, text, details)
