"""When the head of a queue will fit, and where: running pods are taken off in the order of their ends until it does.

Ends are those that `maximumExecutionTimeSeconds` promises. Where these do not make room, workloads whose end nobody
knows are taken to end, too, node by node; pods that belong to no workload are taken to stay. Where the quotas of a
window hold by then (`temporaryQuotas`), it is these that count; and so it is with the thresholds of throttles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature
from tutti.cluster.placed_pods import Slots
from tutti.engine.admission.attempt import Admitted
from tutti.engine.admission.dry_runs import look
from tutti.engine.admission.throttles_ahead import CountedPods, InForce, Loads, ThrottlesAhead, throttles_ahead
from tutti.engine.backfill import BackfillState, throttle_shadow
from tutti.engine.backfill.given_quota import Charges, both, given_back, in_use
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation
from tutti.placement.preemption.units import SimulatedRemoval
from tutti.quota.backfill import Departures, departures, earliest, withheld
from tutti.quota.flavors import VIRTUAL
from tutti.quota.tree import UNLIMITED, Usage, add_to
from tutti.quota.windows import Quotas

Room = tuple[NDArray[np.int64], NDArray[np.int64]]
"""int64[k] rows and int64[k, resources], how much of each."""


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """Where and when a workload would fit.

    Attributes:
        starts_at: When, at the latest, Unix seconds; None where nobody knows.
        rows: int64[k], on which nodes; none where its admission checks come before these.
        wanted: int64[k, resources], what it takes there.
        usage: What it uses of quota.
        throttled: What it is to throttles.
    """

    starts_at: float | None
    rows: NDArray[np.int64]
    wanted: NDArray[np.int64]
    usage: Usage
    throttled: Loads

    def of_throttles(self) -> StartEstimate:
        """Return the same without room and quota: what it is to throttles is all that is kept for it."""
        return StartEstimate(self.starts_at, self.rows[:0], self.wanted[:0], {}, self.throttled)


class _Turn(NamedTuple):
    """From when on queues have other quotas, throttles other thresholds than now, Unix seconds; None, {}: none has."""

    at: float
    quotas: Mapping[str, Quotas] | None = None
    limits: InForce = MappingProxyType({})


def estimate_start(
    state: BackfillState, entry: QueueEntry, beside: Sequence[BackfillReservation], *, of_throttles: bool = False
) -> StartEstimate | None:
    """Return when and where a workload fits, if nothing starts meanwhile that does not end by then.

    Args:
        state: The engine's memory; it is as before afterwards.
        entry: The workload.
        beside: What is kept for others who go before it.
        of_throttles: Whether it lacks nothing else: where nobody knows when it starts, it needs no room and quota yet.

    Returns:
        The earliest time at which it fits for certain; else, without a time, where it would fit soonest; None where it
        would not fit even if all workloads had ended.
    """
    found = _search(state, entry, beside, _known(state)) or _search(state, entry, beside, _all(state))
    return found.of_throttles() if of_throttles and found is not None and found.starts_at is None else found


def fits_before(
    state: BackfillState, entry: QueueEntry, beside: Sequence[BackfillReservation], reservation: BackfillReservation
) -> bool:
    """Whether a workload fits for certain sooner than it was to start."""
    slots, at = _known(state), math.inf if reservation.starts_at is None else reservation.starts_at
    if at <= state.now:
        return False
    ahead = throttles_ahead(state, entry.needs)
    held = _Turn(state.now)
    for turn in _turns(state, reservation.queue, ahead):
        if turn.at >= at:
            break
        if _fits_until(state, entry, beside, slots, turn.at, held, ahead):
            return True
        held = turn
    return _fits_until(state, entry, beside, slots, at, held, ahead)


def _fits_until(
    state: BackfillState,
    entry: QueueEntry,
    beside: Sequence[BackfillReservation],
    slots: Slots,
    at: float,
    held: _Turn,
    ahead: ThrottlesAhead | None,
) -> bool:
    """Whether a workload fits with what holds just before some time, without those who have gone by then."""
    gone = slots[_ends(state, slots) < at]
    given = given_back(state, entry.equivalence.line.name[0], at, sooner=True)
    counted = None if ahead is None else CountedPods.of(state.throttles, state.cluster.pod_columns.at(gone))
    then = _throttles_then(ahead, held.limits, counted, np.ones(len(gone), dtype=np.bool_), beside)
    with state.ledger.other_quotas(held.quotas), then:
        return _had(state, entry, _added_up(state, beside), gone, given) is not None


def _turns(state: BackfillState, queue: str, ahead: ThrottlesAhead | None) -> list[_Turn]:
    """Return when other quotas and thresholds hold, the first time first."""
    quotas = {step.at: step.quotas for step in state.quota_steps(queue)}
    limits = {} if ahead is None else {step.at: step.limits for step in ahead.steps}
    turns, last = list[_Turn](), _Turn(state.now)
    for at in sorted({*quotas, *limits}):
        last = _Turn(at, quotas.get(at, last.quotas), limits.get(at, last.limits))
        turns.append(last)
    return turns


def _throttles_then(
    ahead: ThrottlesAhead | None,
    limits: InForce,
    counted: CountedPods | None,
    gone: NDArray[np.bool_],
    beside: Sequence[BackfillReservation],
) -> AbstractContextManager[None]:
    """Have other thresholds in force, without those of the pods that have `gone`: bool[m], and with those beside."""
    if ahead is None or counted is None:
        return nullcontext()
    return ahead.then(limits, counted.total(gone), [one.throttled for one in beside])


def still_fits(state: BackfillState, reservation: BackfillReservation) -> bool:
    """Whether a head can still have what is kept for it when it was to have it; all of its nodes must be there."""
    if reservation.starts_at is None:
        return True
    nodes, node = state.cluster.nodes, state.ledger.tree.queues[reservation.queue]
    rows = np.array([nodes.rows[name] for name in reservation.nodes], dtype=np.int64)
    wanted = reservation.wanted
    free = (nodes.allocatable[rows] - nodes.requested[rows])[:, : wanted.shape[1]]
    lacks = {what: amount - node.available(what) for what, amount in reservation.usage.items()}
    is_there = not ((wanted > 0) & (free < wanted)).any() and all(lack <= 0 for lack in lacks.values())
    is_there = is_there and throttle_shadow.will_let(state, reservation.throttled, state.now)
    if is_there and reservation.starts_at <= state.now:
        return False  # it could have it now, but for something that was not foreseen
    short = (wanted > 0) & (free + _gone(state, reservation, rows) < wanted)
    given = quota_given(state, reservation)
    has_quota = all(lack <= given.get(what, 0) for what, lack in lacks.items())
    return (
        has_quota and not short.any() and throttle_shadow.will_let(state, reservation.throttled, reservation.starts_at)
    )


def kept_room(state: BackfillState, reservation: BackfillReservation) -> Room:
    """Return what of the room of nodes must be kept for a head now from those who do not end in time."""
    rows, wanted = _there(state, reservation)
    return rows, withheld(wanted, _gone(state, reservation, rows))


def kept_quota(state: BackfillState, reservation: BackfillReservation) -> Usage:
    """Return what of its queue's quota must be kept for a head now from those who do not end in time."""
    given = quota_given(state, reservation)
    kept = {what: amount - given.get(what, 0) for what, amount in reservation.usage.items()}
    return {what: amount for what, amount in kept.items() if amount > 0}


def quota_given(state: BackfillState, reservation: BackfillReservation) -> Usage:
    """Return how much more of the quota that a head wants its queue will have when the head starts.

    It is less than nothing where a window gives it less then.
    """
    if reservation.starts_at is None:
        return {}
    node, snapshot = state.ledger.tree.queues[reservation.queue], state.ledger.snapshot
    before = {what: node.available(what) for what in reservation.usage}
    quotas = _quotas_at(state, reservation.queue, reservation.starts_at)
    with state.ledger.other_quotas(quotas), snapshot.trial():
        for queue, usage in given_back(state, reservation.queue, reservation.starts_at).items():
            snapshot.refund(queue, usage)
        least = 0 if quotas is None else -UNLIMITED
        return {what: max(least, node.available(what) - free) for what, free in before.items()}


def _quotas_at(state: BackfillState, queue: str, at: float) -> Mapping[str, Quotas] | None:
    """Return the quotas that hold at some time in the tree of a queue, of those that are others than now."""
    return next((step.quotas for step in reversed(state.quota_steps(queue)) if step.at <= at), None)


def _search(
    state: BackfillState, entry: QueueEntry, beside: Sequence[BackfillReservation], slots: Slots
) -> StartEstimate | None:
    columns, nodes = state.cluster.pod_columns, state.cluster.nodes
    row = columns.row[slots].astype(np.int64)
    held = columns.held(slots, nodes.resource_index)
    part = (held / np.maximum(nodes.allocatable[row, : held.shape[1]], 1)).max(axis=1, initial=0.0)
    head = "" if entry.queue is None else entry.queue.name
    throttles = throttles_ahead(state, entry.needs)
    ahead = _turns(state, head, throttles)
    order = departures(_ends(state, slots), row, part, state.now, [one.at for one in ahead])
    late = order.step > len(order.times)
    charges = Charges.of(state, slots[late])
    counted = None if throttles is None else CountedPods.of(state.throttles, columns.at(slots))
    others = _added_up(state, beside)

    def look_at(step: int, then: _Turn) -> Admitted | None:
        gone, given = order.step <= step, dict[str, Usage]()
        if step and len(order.times):
            given = given_back(state, head, float(order.times[min(step, len(order.times)) - 1]))
        given = both(given, charges.only(gone[late]).total())
        if step == order.steps > len(order.times):
            given = in_use(state, head)
        allowed = _throttles_then(throttles, then.limits, counted, gone, beside)
        with state.ledger.other_quotas(then.quotas), allowed:
            return _had(state, entry, others, slots[gone], given)

    for first, last, then in _stretches(order, [_Turn(state.now), *ahead]):
        found = earliest(first, last, partial(look_at, then=then))
        if found is not None:
            return _estimate(state, order, *found, {} if throttles is None else throttles.wanted)
    return None


def _stretches(order: Departures, turns: Sequence[_Turn]) -> Iterator[tuple[int, int, _Turn]]:
    """Yield from which step to which the same holds; of `turns` the first is that of now.

    Nobody knows when the last steps are, so that what holds after any of the turns may hold then; that of now is looked
    at first.
    """
    if len(turns) == 1:
        yield 0, order.steps, turns[0]
        return
    firsts = [0, *(int(np.searchsorted(order.times, one.at)) + 1 for one in turns[1:])]
    lasts = [*(first - 1 for first in firsts[1:]), len(order.times)]
    yield from zip(firsts, lasts, turns, strict=True)
    looked_at: list[tuple[Mapping[str, Quotas] | None, InForce]] = []
    for turn in turns if order.steps > len(order.times) else []:
        if turn[1:] not in looked_at:
            looked_at.append(turn[1:])
            yield len(order.times) + 1, order.steps, turn


def _estimate(state: BackfillState, order: Departures, step: int, found: Admitted, throttled: Loads) -> StartEstimate:
    nodes = state.cluster.nodes
    rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(one.rows for one in found.taken)]))
    wanted = np.zeros((len(rows), len(nodes.resource_index)), dtype=np.int64)
    usage: Usage = {}
    for _, pods, charge in found.held:  # it asks for no nodes before its checks have answered
        add_to(usage, charge.usage, pods)
    for one in found.taken:
        where, counts = np.unique(one.rows, return_counts=True)
        request = nodes.vector(one.need.pod_class.requests)
        wanted[np.searchsorted(rows, where), : len(request)] += counts[:, None] * request[None, :]
        if one.charge:
            add_to(usage, one.charge.usage, len(one.rows))
    return StartEstimate(state.now if not step else order.at(step), rows, wanted, usage, throttled)


class _KeptForOthers(NamedTuple):
    """The room and the quota that are kept for some heads together, quota by their queues."""

    room: Room
    quota: Mapping[str, Usage]


def _added_up(state: BackfillState, beside: Sequence[BackfillReservation]) -> _KeptForOthers:
    """Add up what is kept for some heads."""
    nodes, quota = state.cluster.nodes, dict[str, Usage]()
    wanted, some = (
        np.zeros((len(nodes), len(nodes.resource_index)), dtype=np.int64),
        np.zeros(len(nodes), dtype=np.bool_),
    )
    for one in beside:
        rows, amounts = _there(state, one)
        wanted[rows, : amounts.shape[1]] += amounts
        some[rows] = True
        add_to(quota.setdefault(one.queue, {}), one.usage)
    rows = np.flatnonzero(some)
    return _KeptForOthers((rows, wanted[rows]), quota)


def _had(
    state: BackfillState,
    entry: QueueEntry,
    others: _KeptForOthers,
    gone: Slots,
    given: Mapping[str, Usage],
) -> Admitted | None:
    """Return what a workload could have if some pods had ended, some quota were given back, and others had theirs."""
    cluster, snapshot = state.cluster, state.ledger.snapshot
    behaves = any(need.pod_class.features & Feature.BEHAVIOUR for need in entry.needs)
    with ExitStack() as stack:
        stack.enter_context(SimulatedRemoval(cluster, gone, seen=bool(cluster.classes.minding) or behaves))
        kept = stack.enter_context(cluster.transaction())
        stack.enter_context(snapshot.trial())
        for queue, usage in given.items():
            snapshot.refund(queue, usage)
        kept.withhold(*others.room)
        for queue, usage in others.quota.items():
            snapshot.charge(queue, usage)
        found = look(state, entry) if _may_have_quota(state, entry) else None
    return found if isinstance(found, Admitted) else None


def _may_have_quota(state: BackfillState, entry: QueueEntry) -> bool:
    """Whether quota may do, as it is: else a look would ask of everybody in the tree whether he could be taken out."""
    queue, required = entry.queue, [need for need in entry.needs if need.required]
    node = None if queue is None else state.ledger.tree.queues.get(queue.name)
    if queue is None or node is None or len(required) != 1:
        return True
    (need,) = required
    wanted = {name: n * need.required for name, n in need.pod_class.charged.items() if n and name != VIRTUAL}
    for group in queue.groups:
        asked = {name: amount for name, amount in wanted.items() if name in group.covered}
        free = ([node.available((flavor, name)) - amount for name, amount in asked.items()] for flavor in group.flavors)
        if asked and not any(min(left) >= 0 for left in free):
            return False
    return True


def _there(state: BackfillState, reservation: BackfillReservation) -> Room:
    """Return what is kept for a head on those of its nodes that are there still."""
    known = state.cluster.nodes.rows
    there = np.array([name in known for name in reservation.nodes], dtype=np.bool_)
    return np.array([known[name] for name in reservation.nodes if name in known], dtype=np.int64), reservation.wanted[
        there
    ]


def _ends(state: BackfillState, slots: Slots) -> NDArray[np.float64]:
    """Return float64[len(slots)]: when the pods in some slots end; those that are being deleted, now."""
    columns = state.cluster.pod_columns
    return np.where(columns.leaving[slots], state.now, columns.until[slots])


def _gone(state: BackfillState, reservation: BackfillReservation, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[len(rows), resources]: what those take on some nodes now who have gone when a head starts."""
    cluster = state.cluster
    columns, width = cluster.pod_columns, reservation.wanted.shape[1]
    out = np.zeros((len(rows), width), dtype=np.int64)
    if reservation.starts_at is None or not len(rows):
        return out
    place = np.full(len(cluster.nodes) + 1, -1, dtype=np.int64)  # the last one is for free slots
    place[rows] = np.arange(len(rows))
    at = place[columns.row]
    slots = np.flatnonzero((at >= 0) & ((columns.until <= reservation.starts_at) | columns.leaving))
    np.add.at(out, at[slots], columns.held(slots, cluster.nodes.resource_index)[:, :width])
    return out


def _known(state: BackfillState) -> Slots:
    """Return the pods of which it is known when they end."""
    columns = state.cluster.pod_columns
    return np.flatnonzero((columns.row >= 0) & (np.isfinite(columns.until) | columns.leaving))


def _all(state: BackfillState) -> Slots:
    """Return the pods that will end some time: these, and those of all workloads."""
    slots = [member.pod.slot for member in state.members.values() if member.pod.slot >= 0]
    return np.unique(np.concatenate([_known(state), np.array(slots, dtype=np.int64)]))
