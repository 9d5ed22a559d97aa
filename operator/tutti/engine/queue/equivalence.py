"""Which workloads fare alike, in which queue they wait, and which of them would fail again.

Quota that is given back wakes everybody in its tree, and the first may take all of it. The others lack what they lacked
before, only by other numbers: they stay parked, and are tried again when these may be told anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from tutti.cluster.devices.asks import NO_DEVICES
from tutti.cluster.devices.programs import SearchLength
from tutti.engine.admission import usage_history
from tutti.engine.admission.growth import growth_step
from tutti.engine.admission.mending import goes_first
from tutti.engine.admission.patience import patience_shape
from tutti.engine.admission.queue_orders import traits_of
from tutti.engine.backfill import backfill, overdue_heads
from tutti.engine.lifecycle import permits
from tutti.engine.preemption import by_priority, moves
from tutti.engine.queue import QueueState
from tutti.engine.records.explanation import Gate
from tutti.engine.records.never_admitted import term_count_in_all
from tutti.engine.records.pod_sets import PodSetRequest, quota_pod_sets, requested_by
from tutti.engine.records.queue_entries import EquivalenceClass, PendingQueue, QueueEntry, QueueKey, Shape
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.assignment import AssignmentMode, NoFit
from tutti.quota.flavors import Queue
from tutti.quota.ordering import backoff_seconds, head_key
from tutti.quota.policy import NOBODY

DEGRADED_GANGS = ("", "degraded")
"""The queue of gangs that run with fewer members than they need, and of those that hold quota and lack nodes alone.

It goes before all others."""

_WAITING: Final = Phase.WAITING
_LIGHT_TERMS: Final = 64
"""Who has more terms than that, and could not be admitted, rests before the next try."""
_LIGHT_CLASSES: Final = 16
"""So does who has more unlike pods than that: each is placed by itself."""

_REST_SECONDS: Final = (1.0, 60.0)
_REST_AFTER_SEARCH: Final = (1.0, 600.0)
"""For how long after the first of such tries, and at most; it doubles. To look for devices may take a second."""


def queue_name_of(workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]) -> tuple[str, str]:
    """Return the name of the queue that a workload stands in; members beyond the required ones have their own."""
    if goes_first(workload, needs) or workload.held_since is not None:
        return DEGRADED_GANGS
    name = "" if queue is None else queue.name
    return name, "" if workload.phase is _WAITING else "surplus"


def may_block(workload: Workload, queue: Queue | None) -> bool:
    """Whether a workload blocks those behind it in a strict queue: one that has its quota already does not."""
    if queue is None or not queue.strict:
        return False
    return workload.phase is _WAITING and workload.held_since is None


def sort_key(state: QueueState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]) -> QueueKey:
    """Return what sorts a workload among those of its queue, the next one first."""
    less, since, place = workload.standing
    workload.traits = traits_of(state, workload, queue, needs)
    gain = growth_step(workload, queue, needs)
    return workload.rank, head_key(-less, since, workload.name, place=place, gain=gain), workload.traits


def shape_of(state: QueueState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]) -> Shape:
    """Return what decides whether a workload can be admitted: those of equal shape in one queue fare alike."""
    asked = tuple(need.shape for need in needs)
    important = (
        0 if queue is None or queue.policy == NOBODY else workload.preemption_priority
    )  # for whom it may preempt
    before = (*by_priority.preemption_shape(state, workload, needs), permits.asks_for_approval(state, workload))
    lasts = backfill.lasts(workload) if backfill.may_keep(state) else None  # who ends in time is let by
    local_queue = usage_history.local_queue_of(state, workload) if state.catalog.by_past_use else ""
    own = workload.key if holds_something(state, workload) else None  # what is held for it, nobody else has
    whom = (None if queue is None else queue.name, workload.phase, workload.scheduler, asked)
    least = tuple(sorted(workload.min_resources.items())) if workload.min_resources else ()
    asked_for: Hashable = ()  # nodes are asked for by whoever has an object, and is not given up
    if queue is not None and queue.checks.provisioning:
        asked_for = bool(workload.uid), state.requests.followed, tuple(one.shape for one in workload.provisioning)
    user = state.ledger.held_for.holders(workload.name) if queue is not None and queue.user_limits else ()
    patience = patience_shape(state, workload, needs)
    order = user, workload.traits
    return (*whom, important, before, lasts, local_queue, own, least, asked_for, patience, order)


def holds_something(state: QueueState, workload: Workload) -> bool:
    """Whether something is held for a workload that is not admitted yet: room, quota, or an answer."""
    if workload.key in state.nominations.ours or workload.key in state.kept_for_successors:
        return True
    if workload.held_since is not None or workload.checks or workload.provisioning:
        return True
    return moves.is_coming(state, workload)


def class_of(
    state: QueueState,
    line: PendingQueue,
    shape: Shape,
    workload: Workload,
    queue: Queue | None,
    needs: Sequence[PodSetRequest],
) -> EquivalenceClass:
    """Return the equivalence class of a shape in a queue, begun for a workload where it is the first."""
    equals = line.equivalence(shape)
    if equals is None:
        root = "" if queue is None else state.ledger.root_of(queue.name)
        sets = [] if queue is None else quota_pod_sets([need for need in needs if need.required])
        local_queue = usage_history.local_queue_of(state, workload) if state.catalog.by_past_use else ""
        equals = EquivalenceClass(line, shape, queue, root, sets, requested_by(needs), local_queue)
        line.open_equivalence(equals)
    return equals


def terms_of_entry(entry: QueueEntry) -> int:
    """Return how many terms of selectors, affinity and the like are weighed to try a workload."""
    return term_count_in_all(need.pod_class for need in entry.needs)


def classes_of_entry(entry: QueueEntry) -> int:
    """Return how many classes of pods a workload has, each of which is placed by itself."""
    return len({need.pod_class for need in entry.needs})


def let_rest(state: QueueState, entry: QueueEntry) -> bool:
    """Have those equal to one that could not be admitted rest, where a try costs much.

    A head that blocks its queue harms itself alone, unless it takes as long as devices may be looked for, or comes to
    ask for something else time and again (`rests_on`).

    Returns:
        Whether they are tried again after that whatever happens: devices have not been looked for everywhere yet.
    """
    equals, workload, length = entry.equivalence, entry.workload, _length_of_search(state, entry)
    is_long = length is not SearchLength.SHORT
    if is_long or _is_heavy(entry):
        workload.rests = max(equals.rests, workload.rests) + 1
        base, longest = _REST_AFTER_SEARCH if is_long else _REST_SECONDS
        workload.rests_until = state.now + backoff_seconds(workload.rests, state.random, base=base, most=longest)
        if is_long or not equals.line.strict:
            equals.rests, equals.rests_until = workload.rests, workload.rests_until
    return length is SearchLength.CUT_SHORT


def rests_on(state: QueueState, entry: QueueEntry) -> bool:
    """Whether one that asks for something else by now goes on resting after a try that has cost much.

    Whoever changes his pods all the time would else have as much tried each time. What is light by now is tried at
    once: others may be equal to it.
    """
    return entry.workload.rests_until > state.now and entry.equivalence.size == 1 and _is_heavy(entry)


def _is_heavy(entry: QueueEntry) -> bool:
    return terms_of_entry(entry) > _LIGHT_TERMS or classes_of_entry(entry) > _LIGHT_CLASSES


def _length_of_search(state: QueueState, entry: QueueEntry) -> SearchLength:
    """Return how long it took to look for devices for the pods of an entry."""
    nodes = state.cluster.nodes
    lengths = []
    for pod_class in dict.fromkeys(need.pod_class for need in entry.needs):
        needs = pod_class.devices
        if needs is not NO_DEVICES:
            lengths.append(nodes.devices.length_of_search(needs, nodes.devices_ahead(pod_class)))
    return max(lengths, default=SearchLength.SHORT)


def fails_again(state: QueueState, entry: QueueEntry) -> bool:
    """Whether a head that is next would only be told other numbers than those equal to it were told before."""
    equals, queue, why = entry.equivalence, entry.queue, entry.equivalence.before
    if entry.workload.key in state.kept_for_successors or moves.is_coming(state, entry.workload):
        return False  # what it lacks among all is kept for it
    if why is None or queue is None or equals.fresh or equals.choice is None or len(equals.pod_sets) != 1:
        return False
    if why.gate is not Gate.QUOTA or why.reason != NoFit.WAITING_FOR_QUOTA.reason or queue.reserves:
        return False
    if queue.name in state.backfill_reservations.of or overdue_heads.has_turn(state, queue.name, entry.workload.key):
        return False
    workload = entry.workload
    told = workload.reported[0] == why.reason and workload.key not in state.nominations.ours
    return told and queue.policy == NOBODY and equals.choice.mode is not AssignmentMode.FIT
