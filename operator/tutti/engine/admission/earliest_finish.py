"""In which flavor a workload ends first, waiting included (`flavorFungibility.preference: EarliestFinish`).

Flavors are looked at in the order of how long the workload takes in them, so that of those that it could have now it
takes the fastest. Where a faster one is taken, it is estimated when it could start there, from when running work ends
and who waits for the same before it, and when throttles, with their overrides by the clock, let it start then; and it
waits for that if it then ends sooner by a tenth of what the one at hand takes. It never waits longer than the other
flavor saves. Of a gang that says how fast it is with how many members it counts how many of them it would have in each;
what it says of seconds is with those that it requires. (AlloX, EuroSys 2020, chooses between CPU and GPU by where work
ends first; there all run times are known, and nobody has a queue or quota.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tutti.api.conditions import timestamp
from tutti.engine.admission import AdmissionState, AwaitedFlavor
from tutti.engine.admission.attempt import AdmissionAttempt, Taken, sized, terms_of, widest
from tutti.engine.admission.expected_starts import (
    Allows,
    finishing_seconds,
    known_ends,
    pending_workload,
    seconds_with,
    starts_of,
)
from tutti.engine.admission.patience import begin_waiting, waits_since
from tutti.engine.admission.throttles_ahead import Start, allowed_from
from tutti.engine.admission.throttling import wanted_of
from tutti.engine.records.explanation import WAITING_FOR_FLAVOR, Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets, quota_pod_sets
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.estimate import ExpectedEnd
from tutti.quota.flavors import FlavorByResource, Queue
from tutti.quota.tree import Usage, add_to

WORTH_WAITING = 0.1
"""By what part of what the flavor at hand takes another must end it sooner."""

MOST_BEFORE = 16
"""So many of those are looked at who wait for a flavor before another."""

HasRoom = Callable[[Sequence[PodSetRequest], WorkloadAssignment], bool]
"""Whether there are nodes for the required pods of needs in the flavors chosen for them; none are taken."""

Take = Callable[[Sequence[PodSetRequest]], list[Taken] | None]
"""Takes nodes for the required pods of needs, instead of what was taken before; returns None where there are none."""


class Widened(NamedTuple):
    """With which pods as required ones a gang is admitted, and what is taken for these."""

    needs: Sequence[PodSetRequest]
    taken: list[Taken]


def why_it_awaits(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    choice: WorkloadAssignment,
    has_room: HasRoom,
) -> Explanation | None:
    """Return why a workload waits for a faster flavor though these have room; None where it takes these.

    Args:
        attempt: The try at it; nothing is taken in it by this.
        needs: Its pods.
        choice: The flavors that it could have now by quota.
        has_room: Whether there are nodes for pods in such flavors.
    """
    state, workload = attempt.state, attempt.workload
    if not workload.flavor_seconds or not attempt.may_ask or attempt.probes:
        return None
    state.awaited_flavors.pop(workload.key, None)
    awaited = _flavor_to_await(attempt, needs, choice, has_room)
    if awaited is None or not has_room(needs, choice):
        return None
    state.awaited_flavors[workload.key] = awaited
    begin_waiting(state, workload)
    return _told(state, workload, choice, awaited)


def ending_first(
    attempt: AdmissionAttempt, before: Sequence[Taken], needs: Sequence[PodSetRequest], most: Widened, take: Take
) -> Widened | None:
    """Return with which of its pods as required ones a gang ends first; `most`, unless fewer of them end sooner.

    Args:
        attempt: The try at it; it has taken nodes for `most`, and then for what is returned.
        before: What it had taken for the required ones alone, in the flavors in which these end first.
        needs: Its pods.
        most: With as many of them required as fit, perhaps in others.
        take: Takes nodes for the required pods of such needs instead.

    Returns:
        None where what ends first could not be had again: nothing is taken then.
    """
    workload, queue = attempt.workload, attempt.queue
    if workload.speed is None or queue is None or not queue.fungibility.earliest_finish:
        return most
    here, there = _flavors_had(before), _flavors_had(most.taken)
    mine, others = finishing_seconds(workload, here), finishing_seconds(workload, there)
    if mine is None or not set(here.values()) - set(there.values()):
        return most

    def stays_here(tried: Sequence[PodSetRequest]) -> bool:
        found = take(tried)
        return found is not None and _flavors_had(found) == here

    best = widest(needs, queue, stays_here) or needs
    seconds = seconds_with(workload, mine, sum(need.required for need in best))
    if others is not None and seconds >= seconds_with(workload, others, sum(need.required for need in most.needs)):
        best = most.needs
    taken = take(best)
    return None if taken is None else Widened(best, taken)


def _flavors_had(taken: Sequence[Taken]) -> dict[str, str]:
    """Return in which flavors pods are counted that got their nodes, by need and resource."""
    charges = [one.charge for one in taken]
    return {f"{at}/{name}": flavor for at, one in enumerate(charges) if one for name, flavor in one.flavors.items()}


def _members_at_hand(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], choice: WorkloadAssignment, has_room: HasRoom
) -> int:
    """Return with how many members a workload would run in flavors that it could have now."""
    workload, queue = attempt.workload, attempt.queue
    if workload.speed is None or queue is None or not any(need.extra for need in needs):
        return workload.required
    node = attempt.state.ledger.tree.queues[queue.name]

    def fits(tried: Sequence[PodSetRequest]) -> bool:
        usage: Usage = {}
        charges = terms_of(attempt, tried, quota_pod_sets(tried), choice).charges
        for need, charge in zip(tried, charges, strict=True):
            add_to(usage, {} if charge is None else charge.usage, need.required)
        has_quota = all(amount <= node.available(what) for what, amount in usage.items())
        return has_quota and has_room(tried, choice)

    most = widest(needs, queue, fits)
    return workload.required if most is None else sum(need.required for need in most)


def _named(choice: WorkloadAssignment) -> dict[str, str]:
    return {f"{mine.name}/{name}": one.flavor for mine in choice.pod_sets for name, one in mine.flavors.items()}


def _sizes(
    workload: Workload, needs: Sequence[PodSetRequest], at_hand: int
) -> list[tuple[int, Sequence[PodSetRequest]]]:
    """Return with how many members it is asked when a workload could start elsewhere: least, as here, and most."""
    least = [need.required for need in needs]
    extra = sum(need.extra for need in needs) if workload.speed is not None else 0
    sizes = dict.fromkeys((workload.required, at_hand, workload.required + extra))
    found = []
    for size in sizes:
        left, counts = size - workload.required, []
        for need, required in zip(needs, least, strict=True):
            counts.append(required + min(left, need.extra))
            left -= min(left, need.extra)
        found.append((size, needs if counts == least else sized(needs, counts)))
    return found


def _flavor_to_await(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], choice: WorkloadAssignment, has_room: HasRoom
) -> AwaitedFlavor | None:
    """Return what a workload had better wait for than take the flavors that it could have now; None: it takes these."""
    state, workload, queue = attempt.state, attempt.workload, attempt.queue
    if queue is None or not queue.fungibility.earliest_finish or not workload.flavor_seconds:
        return None
    told = finishing_seconds(workload, _named(choice))
    if told is None:
        return None
    at_hand = _members_at_hand(attempt, needs, choice, has_room)
    here = seconds_with(workload, told, at_hand)
    worth = (1 - WORTH_WAITING) * here
    ways = [
        (seconds, seconds_with(workload, seconds, members), asked)
        for members, asked in _sizes(workload, needs, at_hand)
        for seconds in sorted({seconds for _, seconds in workload.flavor_seconds if seconds < told})
    ]
    faster = sorted((way for way in ways if way[1] < worth), key=lambda way: way[:2])
    since, best = waits_since(workload), None
    ends = known_ends(state) if faster else []
    for seconds, takes, asked in faster:
        if since is not None and state.now >= since + here - takes:
            continue  # it has waited for as long as that saves
        start = _start_within(state, queue, workload, asked, (seconds, takes), ends)
        if start is None or not state.now < start < state.now + worth - takes:
            continue
        if best is None or start + takes < best.starts_at + best.takes:
            best = AwaitedFlavor(seconds, takes, start, here - takes)
    return best


def _start_within(
    state: AdmissionState,
    queue: Queue,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    seconds: tuple[int, int],
    ends: Sequence[ExpectedEnd],
) -> float | None:
    """Return when a workload could start in flavors in which it takes so long at most, after those before it.

    Of the seconds the first are those that it says, by which flavors are told, the second what it takes with its pods.

    Throttles have to let it then as well: they do now, but an override that ends meanwhile may close them.
    """
    others = _before(state, queue, workload)
    line = [
        pending_workload(state, its, other, wanted, awaited.takes, _within(other, awaited.seconds))
        for other, its, wanted, awaited in others
    ]
    line.append(pending_workload(state, queue, workload, needs, seconds[1], _within(workload, seconds[0])))
    *starts, mine = starts_of(state, queue, line, ends, strict=False)
    if mine is None or not state.throttles:
        return mine
    before = [
        Start(at, at + awaited.takes, wanted_of(state, wanted))
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
    start, end = timestamp(awaited.starts_at), timestamp(awaited.starts_at + awaited.takes)
    now_end = timestamp(state.now + awaited.takes + awaited.saves)
    text = (
        f"There is room in flavor {at_hand}, where it would end at {now_end}; it waits for {faster}, where it is "
        f"expected to start at {start} and to end at {end}, for {awaited.saves} s at most"
    )
    details = {"flavor": faster, "atHand": at_hand, "expectedStart": start, "expectedEnd": end, "endAtHand": now_end}
    return Explanation(Gate.PLACEMENT, WAITING_FOR_FLAVOR, text, details)
