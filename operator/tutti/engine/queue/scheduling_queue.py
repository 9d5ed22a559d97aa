"""The scheduling queue: who is tried in this turn, and what wakes those that wait.

A workload that lacks something of its own, its members or a queue, is gated until that changes. The others stand in
the queue for quota and nodes; what failed there is parked, and woken by what can help it (`SchedulingQueue.update`):

| what happened | who sets it | who is woken |
|---|---|---|
| queues, flavors or cohorts are written otherwise | `catalog.version` | everybody |
| quota was given back | `ledger.changes.take_freed` | who lacks quota in that cohort tree |
| the same | `ledger.changes.take_freed` | of those whom only quota can help, who fits by now (`quota_bounds.py`) |
| a holdback ended | `quota_holdbacks` | whom it had refused |
| room may have appeared | `cluster.freed` | who lacks nodes |
| pods left nodes, and no other room came to be | `cluster.freed` | of those, who may fit there (`domain_bounds.py`) |
| pods came to nodes, or are seen otherwise there | `cluster.freed` | of those, who minds that and may fit by that |
| devices are free, or others | `cluster.freed` | of those, who claims devices and may find them where he fits |
| storage is otherwise, or a promised volume is free | `cluster.freed` | of those, who mounts volumes |
| the same | `backfill.heads_to_try` | for whom room is kept, was until now, or will be |
| the same, or quota was given back | `ledger.snapshot` | of those, who may take back what is lent to others |
| a disruption budget allows more | `budgets_eased` | who lacks nodes and may have others moved |
| a throttle lets more start | `throttles.take_helped` | who waits for one in that namespace |
| an extender has answered, a rest is over | `consultations`, `roused` | whose it is |
| past use counts less by now, somebody has waited long enough | `OrderedLines` | the lines that are ordered by it |

What is written of one namespace, a LocalQueue or labels, has its own workloads read again (`state.stale_namespaces`).
`state.touch` has a workload read again; that wakes a parked one only where it asks for something else than before, or
its last victim has left, or it may fit already (`nominations`). Nothing is polled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from tutti.engine.admission import batches, quota_holdback, usage_history
from tutti.engine.admission.queue_orders import StateFacts
from tutti.engine.admission.shortages import with_foreign_pods
from tutti.engine.backfill import backfill
from tutti.engine.lifecycle import reconciliation, reservation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.preemption import early_fits, nominations
from tutti.engine.queue import QueueState, predecessors
from tutti.engine.queue.behind_heads import explain_those_behind, explain_waiting
from tutti.engine.queue.bulkhead import Bulkheads
from tutti.engine.queue.equivalence import (
    DEGRADED_GANGS,
    class_of,
    fails_again,
    let_rest,
    may_block,
    queue_name_of,
    rests_on,
    shape_of,
    sort_key,
)
from tutti.engine.queue.heads import Batch, next_heads
from tutti.engine.queue.ordered_lines import OrderedLines
from tutti.engine.queue.parking import ParkedClasses, activate_after_victims, taken, tell_in_time
from tutti.engine.queue.turn_length import TurnLength
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import IN_LINE, Explanation, Gate
from tutti.engine.records.faults import Whose
from tutti.engine.records.line_order import LineOrder
from tutti.engine.records.never_admitted import never_admitted
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.queue_entries import EquivalenceClass, PendingQueue, QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.flavors import Queue
from tutti.quota.proportion import PendingRequests

_WAITING: Final = Phase.WAITING
NEXT = Explanation(Gate.QUEUE, IN_LINE, "it stands in line, and is looked at when those before it have been")

RESTING = Explanation(Gate.QUEUE, IN_LINE, "its last try took long; it is looked at again when it has rested")


class SchedulingQueue:
    """The workloads that want nodes: gated, or in the queue of a ClusterQueue.

    Attributes:
        evaluated: How many workloads have been looked at since the start, for tests and metrics.
        cut_short: Whether the last turn ended with some not tried who could be.
    """

    def __init__(self, bulkheads: Bulkheads, pending: PendingRequests) -> None:
        self._bulkheads = bulkheads
        self.evaluated, self.cut_short = 0, False
        self._gated: dict[WorkloadKey, Workload] = {}
        self._entries: dict[WorkloadKey, QueueEntry] = {}
        self._queues: dict[tuple[str, str], PendingQueue] = {}
        self._active: dict[tuple[str, str], None] = {}
        # What was active in this turn, and which queues these are.
        self._trying: tuple[dict[tuple[str, str], None], list[PendingQueue]] = ({}, [])
        self._parked = ParkedClasses()
        self._pending = pending
        self._seen = (0, 0, 0)
        self._orders = OrderedLines()
        self._length = TurnLength()

    def next_due(self, state: QueueState) -> float | None:
        """Return when to decide again though nothing is observed, Unix seconds.

        A deadline that has passed and still stands waits for an answer, and that will be observed.
        """
        if self._helped_meanwhile(state) or state.quota_holdbacks.activated:
            return state.now
        rested = (equals.rests_until for equals in self._parked.roused)
        times = (state.timers.next(state.now), *rested, *self._orders.next_due(state, self._queues))
        return min((time for time in times if time is not None), default=None)

    def sorting_of(self, queue: str) -> LineOrder[EquivalenceClass] | None:
        """Return what sorts those who wait at a ClusterQueue; None where it has no order, or nobody waits."""
        line = self._queues.get((queue, ""))
        return None if line is None else line.sorting

    def entry_of(self, key: WorkloadKey) -> QueueEntry | None:
        """Return the entry of a workload that stands in a queue."""
        return self._entries.get(key)

    def update(self, state: QueueState, changed: Iterable[Workload]) -> None:
        """Put those that something was observed about where they belong, and wake whom something may help."""
        catalog, room, eased = self._seen
        self._seen = (state.catalog.version, state.cluster.freed.count, state.budgets_eased)
        freed = state.ledger.changes.take_freed()
        if catalog != state.catalog.version:
            self._rebuild(state)
        for workload in changed:
            self.place(state, workload)
        self._activate(state, taken(self._parked.roused))
        for woken in self._parked.freed(freed):
            self._activate(state, woken)
        self._activate(state, self._parked.by_quota.ask(state, freed, self._entries))
        self._activate(state, self._parked.for_room.reaching(state, freed))
        if state.quota_holdbacks.of or state.quota_holdbacks.activated:
            self._follow_holdbacks(state)
        if room != state.cluster.freed.count:
            self._activate(state, taken(self._parked.for_nodes))
            self._follow_room(state)
        if eased != state.budgets_eased:
            self._activate(state, self._parked.for_moves(state.catalog.queues))
        for woken in self._parked.unthrottled(state.throttles.take_helped()):
            self._activate(state, woken)
        respecified = catalog != state.catalog.version  # so there may be more quota
        for workload in early_fits.fitting_by_now(state, state.cluster.freed.count - room + respecified):
            self._try_by_now(state, workload)
        if state.consultations.take_activated():
            self._activate(state, taken(self._parked.for_answers))
        if state.catalog.by_past_use or state.catalog.ordered:
            self._activate(state, self._orders.take_overdue(state.now))
            self._active.update(dict.fromkeys(self._orders.to_look_at(state, self._queues)))

    def batches(
        self, state: QueueState, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> Iterator[Batch]:
        """Yield whom to try now, the next one first; it must be admitted and dropped, or parked.

        The turn is cut short where it has had its length (`turn_length.py`), which `most` and `enough` bound, and where
        a pod of somebody in a queue has become of another class by what the last one got: where it can go now is not
        what it is down for. Those who are left compete anew in the next one.
        """
        names, self._active = self._active, {}
        known = [self._queues[name] for name in names if name in self._queues]
        queues = list(dict.fromkeys([*known, *self._parked.by_quota.lines_of_turns(state)]))
        self._trying = names, queues
        self._parked.by_quota.rouse_lines(queues)
        degraded, others = ([one for one in queues if (one.name == DEGRADED_GANGS) is so] for so in (True, False))
        aside = partial(self._put_aside, state)
        in_order = partial(next_heads, fails_again=partial(self._fails_again, state), shut_out=aside)
        before_all = in_order(state, degraded, self._pending)
        heads = chain(before_all, in_order(state, others, self._pending, parked=self._parked.by_quota))
        length, out_of_date = self._length, False
        length.begin(most, enough)
        while not (length.is_used_up or out_of_date) and (head := next(heads, None)) is not None:
            together = partial(batches.batch_of, state, head.entry, head.choice, head.followers(), length.most_together)
            entries = state.attempt_part("finding who is tried together", together, [head.entry])
            yield Batch(entries, head.choice)
            length.count([head.entry, *(one for one in entries[1:] if one.left)])
            out_of_date = self._has_reclassed(state)
        self.cut_short = next(heads, None) is not None
        length.end(cut_short=self.cut_short)

    def end_turn(self, state: QueueState) -> list[Workload]:
        """End what `batches` has begun; returns who is told something else of who is before it than until now."""
        names, queues = self._trying
        queues += self._parked.by_quota.take_roused()
        news: list[Workload] = []
        for queue in queues:
            queue.close()
            if queue.strict and not self.cut_short:
                news += explain_those_behind(state, queue)
            if not queue:
                self._queues.pop(queue.name, None)
        self._trying = {}, []
        if self.cut_short:
            self._active = {**names, **{one.name: None for one in queues}, **self._active}
            return news
        for equals in self._parked.by_quota.end():
            tell_in_time(state, equals)
        if state.quota_holdbacks.of:
            quota_holdback.lapse_holdbacks(state)
        return news

    def park(
        self, state: QueueState, entry: QueueEntry, why: Explanation, *, lacks_nodes: bool = False
    ) -> list[Workload]:
        """Let a workload that could not be admitted wait, together with those that are equal to it.

        Args:
            state: The engine's memory.
            entry: The workload.
            why: What it waits for.
            lacks_nodes: Whether it may be nodes that it lacks, whatever is told.

        Returns:
            Who is told another reason by that than until now.
        """
        equals, queue = entry.equivalence, entry.equivalence.line
        self._parked.park(equals, why)
        if let_rest(state, entry):
            self._parked.roused[equals] = None
        quota_holdback.note_holdback(state, entry, why)
        self._parked.note(state, entry, why, lacks_nodes=lacks_nodes)
        waiting = [entry.workload] if queue.strict else [one.workload for one in equals.entries()]
        return [workload for workload in waiting if explain_waiting(workload, why)]

    def park_for_victims(self, state: QueueState, entry: QueueEntry, why: Explanation) -> list[Workload]:
        """Let a workload wait for its victims: gated or, in a strict queue, in the way of those behind it.

        Returns:
            Who is told another reason by that than until now.
        """
        if entry.equivalence.line.strict:
            return self.park(state, entry, why)
        self._gate(entry.workload, why)
        return []

    def drop(self, workload: Workload) -> None:
        """Take a workload out, because it has been admitted or is gone."""
        self._gated.pop(workload.key, None)
        entry = self._entries.pop(workload.key, None)
        if entry is not None:
            equals = entry.equivalence
            self._parked.look_again(equals)
            equals.line.leave(entry)
            activate_after_victims(equals)  # those of another, which nobody left has been waiting for
            if equals.queue is not None:
                self._pending.go(equals.queue.name, equals.asks)
            self._active[equals.line.name] = None

    # where a workload belongs

    def _rebuild(self, state: QueueState) -> None:
        """Put everybody where they belong by what is written now: queues, flavors, priorities, namespaces."""
        everybody = [*self._gated.values(), *(one.workload for one in self._entries.values())]
        for workload in everybody:
            workload.rests_until = 0.0
        for queue in self._queues.values():
            queue.clear()
        for index in (self._gated, self._entries, self._queues, self._active):
            index.clear()
        self._parked.clear()
        self._orders.clear()
        self._pending.clear()
        state.quota_holdbacks.clear()
        for workload in everybody:
            self.place(state, workload)

    def place(self, state: QueueState, workload: Workload) -> None:
        """Put one workload where it belongs, or out of the queue where that cannot be found out."""
        if self._bulkheads.is_shut(state, workload):
            self._shut_out(workload)
            return
        try:
            self._place_by_rule(state, workload)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._put_aside(state, workload, error)

    def _put_aside(self, state: QueueState, workload: Workload, error: Exception) -> None:
        """Have a workload wait by itself of which it raised to look where it stands, and be told so."""
        self._bulkheads.set_aside(state, workload, error, "queueing")
        self._shut_out(workload)
        state.touch(workload.key)

    def _shut_out(self, workload: Workload) -> None:
        """Have a workload gated that has been set aside, whatever place it had."""
        self.drop(workload)
        self._gated[workload.key] = workload

    def _place_by_rule(self, state: QueueState, workload: Workload) -> None:
        if not reconciliation.wants_nodes(workload):
            self.drop(workload)
            workload.rests = 0
            return
        waits_for = predecessors.waits_for_others(state, workload)
        if workload.not_before > state.now:
            self.drop(workload)
            if workload.explanation in (None, NEXT) and workload.phase is Phase.WAITING:
                explain(workload, reservation.backing_off(workload))
            return
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        if waits_for is not None and not isinstance(queue, Explanation):
            queue = waits_for
        if isinstance(queue, Explanation):
            nominations.abandon_nomination(state, workload.key)  # it may not have it
            self._gate(workload, queue)
            return
        needs = pending_pod_sets(workload)
        if isinstance(needs, Explanation):
            self._gate(workload, with_foreign_pods(state, workload, needs))
            return
        never = never_admitted(queue, needs)
        nomination = state.nominations.ours.get(workload.key)
        waits = None if nomination is None else nominations.waits_for_victims(state, workload, needs)
        if never is not None:
            nominations.abandon_nomination(state, workload.key)
            self._gate(workload, never)
        elif waits is not None and not may_block(workload, queue):
            self._gate(workload, waits)
        else:
            entry = self._enqueue(state, workload, queue, needs)
            if waits is None:
                activate_after_victims(entry.equivalence)

    def _gate(self, workload: Workload, why: Explanation) -> None:
        """Have a workload wait for something of its own, so that it stands in nobody's way."""
        if workload.key not in self._gated:
            self.drop(workload)
            self._gated[workload.key] = workload
            self.evaluated += 1
        explain(workload, why)

    def _enqueue(
        self, state: QueueState, workload: Workload, queue: Queue | None, needs: list[PodSetRequest]
    ) -> QueueEntry:
        """Have a workload stand in a queue; one that stands there already as it is stays where it is."""
        name, key = queue_name_of(workload, queue, needs), sort_key(state, workload, queue, needs)
        shape = shape_of(state, workload, queue, needs)
        entry = self._entries.get(workload.key)
        if entry is not None and entry.is_at(name, key, shape):
            entry.needs = needs
            entry.equivalence.line.look_again(entry)
            self._parked.compare_again(entry)
        else:
            self.drop(workload)
            equals = class_of(state, self._line(state, name, queue, workload), shape, workload, queue, needs)
            entry = self._entries[workload.key] = QueueEntry(workload, needs, key, equals)
            self._parked.look_again(equals)
            self._parked.for_room.join(entry)
            equals.line.add(entry)
            self._orders.note(entry, state.now)
            if queue is not None:
                self._pending.come(queue.name, equals.asks)
            if rests_on(state, entry):
                self._parked.rest(entry, RESTING)
        equals = entry.equivalence
        if equals.stale and equals.first() is entry and workload.report_at is None:  # its numbers may be told by now
            equals.before, equals.stale, equals.looked_at = None, False, state.now
            self._parked.by_quota.drop(equals)
            equals.line.activate(equals)
        if workload.explanation is None and workload.phase is _WAITING:
            explain(workload, NEXT)
        if equals.why is not None and not equals.line.strict:
            explain(workload, equals.why)
        self._active[name] = None
        return entry

    def _line(self, state: QueueState, name: tuple[str, str], queue: Queue | None, workload: Workload) -> PendingQueue:
        """Return the queue of a name, begun for a workload where it is the first."""
        line = self._queues.get(name)
        if line is None:
            strict = may_block(workload, queue)
            used = partial(usage_history.usage_of_local_queue, state)
            fitting = partial(self._parked.for_room.fitting, state)
            line = self._queues[name] = PendingQueue(name, strict, used, fitting=fitting)
            if queue is not None and queue.order is not None and not name[1]:
                line.sort_by(queue.order, StateFacts(state))
        return line

    # who is tried again

    def _fails_again(self, state: QueueState, entry: QueueEntry) -> bool:
        """Whether one who is next would fail as before; then it stays parked until it may be told anew."""
        equals, again = entry.equivalence, partial(fails_again, state, entry)
        if equals.before is None or not state.attempt(Whose(*entry.workload.key), "comparing it", again, False):
            return False
        self._parked.park(equals, equals.before)
        quota_holdback.note_holdback(state, entry, equals.before)
        tell_in_time(state, equals)
        self._parked.for_more_quota(state, entry, equals.before)
        return True

    def _activate(self, state: QueueState, classes: Iterable[EquivalenceClass]) -> None:
        """Have parked workloads tried again."""
        for equals in classes:
            equals.called = False
            if equals.rests_until > state.now:
                if equals.size:
                    self._parked.roused[equals] = None
                continue
            self._parked.by_quota.drop(equals)
            equals.line.activate(equals)
            self._active[equals.line.name] = None

    def _follow_room(self, state: QueueState) -> None:
        """Have those tried again who may fit where pods have left, or everybody where there may be other room.

        For whom room is kept may come to start sooner wherever that is, and is tried as well.
        """
        fitting, others = self._parked.helped_by_room(state)
        self._activate(state, others)
        if state.catalog.reserving or state.backfill_reservations.given_up:
            heads = backfill.heads_to_try(state, self._queues.values(), self.entry_of)
            self._activate(state, [head.equivalence for head in heads])
        parked = [one for one in fitting if one.why is not None]
        self._activate(state, parked)
        self._parked.call(parked)

    def _follow_holdbacks(self, state: QueueState) -> None:
        """Hold nothing back for those who have left their queue, and wake who was refused because of them."""
        for owner in list(state.quota_holdbacks.of.values()):
            entry = self._entries.get(owner.workload)
            if entry is None or entry.equivalence.line.name != (owner.queue, ""):
                quota_holdback.drop_holdback(state, owner.workload, owner.queue)
        activated = (self._entries.get(key) for key in state.quota_holdbacks.take_activated())
        self._activate(state, dict.fromkeys(one.equivalence for one in activated if one is not None))

    def _try_by_now(self, state: QueueState, workload: Workload) -> None:
        """Have one tried that waits for its victims."""
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        needs = pending_pod_sets(workload)
        if isinstance(queue, Explanation) or isinstance(needs, Explanation):
            return
        if workload.key in self._gated:
            self._enqueue(state, workload, queue, needs)
        elif workload.key in self._entries:
            equals = self._entries[workload.key].equivalence
            activate_after_victims(equals)
            self._active[equals.line.name] = None

    def _helped_meanwhile(self, state: QueueState) -> bool:
        """Whether something that can help somebody who is parked has happened in this turn itself."""
        parked = self._parked
        room = bool(parked.for_nodes or parked.for_room) and self._seen[1] != state.cluster.freed.count
        room = room or state.throttles.has_helped(parked.for_throttles)
        return room or parked.is_helped(state)

    def _has_reclassed(self, state: QueueState) -> bool:
        """Whether anybody stands in a queue whose pods are of another class than they are down for."""
        homes = (state.pod_group_of.get(key) for key in state.cluster.reclassed)
        return any(address[0] in self._entries for address in homes if address is not None)
