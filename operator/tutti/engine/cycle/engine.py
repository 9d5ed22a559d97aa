"""The engine: observations in, decisions out.

A deterministic state machine without I/O, clock or threads. It is told the time; equal observations at equal times
with an equal seed give equal decisions, byte for byte, which is what `replay` verifies.

One turn of `decide` goes through six steps, each a method of `Engine`, in this order:

    1 settle   every workload that something was observed about
    2 expire   deadlines that have passed nevertheless: permits and bind windows
    3 choose   who is tried now, and in which order (`_choose`)
    4 reserve  quota and nodes for each in turn, all or nothing (`_try_one`); or take others out for it, or have it wait
    5 bind     what is reserved and complete (`_bind`)
    6 report   statuses, conditions and events of what has changed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Final

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.admission import quota_holdback, usage_history
from tutti.engine.admission.admission import reserve, reserve_as_left
from tutti.engine.admission.attempt import Admitted, Refusal, assign_flavors
from tutti.engine.admission.batches import reserve_batch
from tutti.engine.admission.dry_runs import look, why_surplus_waits
from tutti.engine.backfill import backfill, letting_by, restored_heads
from tutti.engine.cycle import turn_parts
from tutti.engine.cycle.reserved_before import reserved_before
from tutti.engine.cycle.settling import bring_up_to_date, follow_binds
from tutti.engine.cycle.state import State
from tutti.engine.ingest import promises, volcano_jobs
from tutti.engine.ingest.handlers import observe
from tutti.engine.ingest.setting_aside import unobserved
from tutti.engine.lifecycle import checks, early_starts, member_loss, permits, reconciliation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.lifecycle.quota_usage import is_protected
from tutti.engine.preemption import by_priority, moves, nominated_room, nominations, restored_waits
from tutti.engine.preemption.by_quota import NOBODY_LEAVES, preempt
from tutti.engine.preemption.restored_quota import LeavingTree, who_is_leaving
from tutti.engine.queue import predecessors
from tutti.engine.queue.applications import follow_applications
from tutti.engine.queue.bulkhead import Bulkheads
from tutti.engine.queue.heads import Batch
from tutti.engine.queue.scheduling_queue import SchedulingQueue
from tutti.engine.records.decisions import AnyDecision, fault_of
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.observations import AnyObservation, Synced
from tutti.engine.records.plugins import Plugins
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation
from tutti.engine.records.workloads import ADMITTED, Phase, Workload, WorkloadKey
from tutti.engine.status import reporting, statuses, throttle_statuses
from tutti.placement.extension import Stopwatch
from tutti.quota.assignment import WorkloadAssignment

# Looked up once: to reach a member through its enum takes ten times as long (Python 3.11), and this runs for each pod.
_CHECKING: Final = Phase.CHECKING
_WAITING: Final = Phase.WAITING
_ADMITTED: Final = LifecycleStep.ADMITTED
_MOST_FAILURES = 3
"""How many turns on end may raise at nobody in particular; then there is no use in going on with this engine."""


class Engine:
    """The whole of Tutti's deciding.

    Attributes:
        state: What it knows; read it for metrics and views, change it only through `observe` and `decide`.
        lifecycle_events: What workloads came to in the last turn.
    """

    def __init__(
        self,
        configuration: TuttiConfiguration,
        plugins: Plugins | None = None,
        *,
        discreet: bool = True,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        seeded = Random(configuration.seed)  # noqa: S311 - jitter, not secrets
        self.state = state = State(configuration, seeded, plugins=plugins or {}, discreet=discreet, stopwatch=stopwatch)
        state.ledger.protected = partial(is_protected, state)
        state.queue_positions.used = partial(usage_history.usage_of_local_queue, state)
        state.ledger.used_lately = partial(usage_history.usage_of_holder, state)
        self.lifecycle_events: list[LifecycleEvent] = []
        self._bulkheads = Bulkheads()
        self._queue = SchedulingQueue(self._bulkheads, self.state.share_debts.pending)
        state.queue_positions.sorting = self._queue.sorting_of
        self._changed: dict[WorkloadKey, Workload] = {}  # whom something is reported of at the end of this turn
        self._failures, self._synced, self._again, self._restored = 0, False, False, False  # turns on end that raised
        self._awaiting: dict[WorkloadKey, bool] = {}

    @property
    def evaluated(self) -> int:
        """How many workloads have been looked at since the start: tried, or found not to be ready to be."""
        return self._queue.evaluated

    def observe(self, observation: AnyObservation) -> None:
        """Take in one thing that was seen. Nothing is decided yet."""
        if isinstance(observation, Synced):
            self._synced = True
            return
        try:
            observe(self.state, observation)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this object's
            unobserved(self.state, observation, error)
        if self.state.cluster.reclassed:
            self.state.follow_classes()
        if not self._restored:
            self._forget_gone()

    def decide(
        self, now: float, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> list[AnyDecision]:
        """Decide what is to be done now.

        Args:
            now: Unix seconds; never less than at the last call.
            most: How many workloads are tried at most, so that what is decided can be carried out meanwhile;
                where more could be, `wakeup` asks to be called again at once. None: all of them.
            enough: Asked after tries whether this turn has had its share of time; it ends with the first yes. It is
                all that the engine is told of time that goes by, so equal answers give equal decisions.

        Returns:
            What to write, in order; empty before everything has been listed once.
        """
        if not self._synced:
            return []
        state = self.state
        state.now = now
        try:
            self._turn(most, enough)
            self._failures = 0
        except Exception as error:
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            self._begin_anew(error)
        state.out.extend(state.plugin_host.take_faults())
        self.lifecycle_events, state.lifecycle_events = state.lifecycle_events, []
        out, state.out = state.out, []
        return out

    def wakeup(self) -> float | None:
        """Return when `decide` must be called though nothing was observed, Unix seconds; None: not at all."""
        if not self._synced or self._again:
            return self.state.now if self._synced else None
        times = (self._queue.next_due(self.state), turn_parts.next_due(self.state))
        return min((time for time in times if time is not None), default=None)

    def _turn(self, most: int | None, enough: Callable[[], bool] | None) -> None:
        self._changed = {}
        self._settle()
        self._expire()
        for batch in self._choose(most, enough):
            self._try(batch)
        self._report()

    # 1 settle

    def _settle(self) -> None:
        """Follow what many workloads refer to, then reconcile each of which something was observed."""
        state = self.state
        turn_parts.follow(state)
        if self._awaiting:
            state.dirty, self._awaiting = {**self._awaiting, **state.dirty}, {}
        self._reconcile()
        if not self._restored:
            self._restored = True
            state.attempt_part("going on with moves", partial(moves.restore_moves, state), None)
            state.lifecycle_events = []  # these were reached before
            nobody: dict[str, LeavingTree] = {}
            leaving = state.attempt_part("looking who is leaving", partial(who_is_leaving, state), nobody)
            for workload in list(self._changed.values()):
                self._guard(workload, "counting", partial(_restore, leaving=leaving))
            anew = partial(restored_waits.choose_anew_where_short, state)
            state.attempt_part("looking who has not been asked to leave", anew, None)

    def _reconcile(self) -> list[WorkloadKey]:
        """Bring all workloads up to date of which something was observed or decided; returns which, those that are."""
        state, seen = self.state, dict[WorkloadKey, None]()
        state.follow_classes()
        state.attempt_part("looking at who is not paid for", partial(promises.look_at_unpaid, state), None)
        while state.dirty or state.raised or turn_parts.is_more_due(state):
            self._set_aside_raised()
            dirty, state.dirty = state.dirty, {}
            for key, only_bound in dirty.items():
                workload = state.workloads.get(key)
                if workload is None:
                    continue
                self._guard_open(workload, "settling", follow_binds if only_bound else bring_up_to_date)
                if reconciliation.is_gone(state, workload):
                    self._forget(workload)
                else:
                    self._changed[key], seen[key] = workload, None
                    if state.followers.told:
                        self._guard(workload, "telling its followers", turn_parts.tell_followers)
            state.attempt_part(turn_parts.RINGS, partial(predecessors.follow_rings, state), None)
            state.follow_classes()
        return [key for key in seen if key in state.workloads]

    # 2 expire

    def _expire(self) -> None:
        """Do what is due about workloads whose deadline has passed."""
        due = reconciliation.take_due(self.state)
        for workload in due:
            self._guard_open(workload, "timing", reconciliation.expire)
        if due or self.state.dirty:
            self._reconcile()

    # 3 choose

    def _choose(self, most: int | None, enough: Callable[[], bool] | None) -> Iterator[Batch]:
        """Yield who is tried now, the next one as things are after the one before."""
        state = self.state
        changed = list(self._changed.values())
        ordering = partial(follow_applications, state, changed)
        self._note(state.attempt_part("ordering the parts of applications", ordering, []))
        self._queue.update(state, list(self._changed.values()))
        if not state.backfill_reservations.restored:
            for entry in reserved_before(state, self._queue.entry_of):
                yield Batch([entry], assign_flavors(state, entry))
        again = partial(restored_heads.restore_reservations, state, self._queue.entry_of)
        state.attempt_part("keeping again what was kept", again, None)
        kept = partial(backfill.refresh_reservations, state, self._queue.entry_of)
        state.attempt_part("following what is kept", kept, None)
        yield from self._queue.batches(state, most=most, enough=enough)
        self._note(self._queue.end_turn(state))

    # 4 reserve

    def _try(self, batch: Batch) -> None:
        """Try a workload, or several equal single pods at once; the first is set aside where that raises."""
        first = batch.entries[0]
        try:
            if len(batch.entries) == 1 or not self._try_together(batch):
                self._try_one(first, batch.choice)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._queue.drop(first.workload)
            self._set_aside(first.workload, error, "admitting")

    def _try_one(self, entry: QueueEntry, choice: WorkloadAssignment | None) -> None:
        """Admit a workload: reserve quota and nodes for it and have it bound; or else let it wait."""
        state, workload = self.state, entry.workload
        self._queue.evaluated += 1
        if promises.taken_by_others(state, workload):
            self._queue.drop(workload)
            return  # it is read again in this turn, and stands in line again in the next
        has_kept = moves.has_kept(state, workload) or workload.held_since is not None
        nomination = state.nominations.ours.get(workload.key)
        priority = by_priority.priority_of(state, workload, entry.needs)
        with (
            moves.lending_own(state, workload),
            checks.lending_held(state, workload),
            nominated_room.respecting_nominations(state, entry, priority),
        ):
            if nomination is not None:
                waits = nomination.victims and not nomination.anew
                if waits and not self._fits_beside_victims(entry, nomination):
                    self._note([*self._queue.park_for_victims(state, entry, nomination.why), workload])
                    return
                nominations.end_nomination(state, workload.key)
            with letting_by.respecting_reservations(state, entry) as against:
                if has_kept or nomination is not None or against:  # so there is other quota than when it was chosen
                    choice = assign_flavors(state, entry)
                found = self._reserve(entry, choice, nomination)
            state.count_try(workload, admitted=not isinstance(found, Refusal))
            if isinstance(found, Refusal):
                self._wait(entry, found, priority, against, nomination)
                return
        self._leave_queue(workload)
        if nomination is not None:
            state.nominations.needless.append(nomination)
            nominations.spare_victims(state)
            nominations.leave_spots(state, workload.key, nomination)
        self._bind(workload)
        if found.has_more:
            self._queue.place(state, workload)

    def _reserve(
        self, entry: QueueEntry, choice: WorkloadAssignment | None, nomination: Nomination | None
    ) -> Admitted | Refusal:
        """Reserve quota and nodes for a workload; where others have left for it, at the least what they have left."""
        if nomination is None:
            return reserve(self.state, entry, choice)
        with quota_holdback.sparing(self.state, nomination.charges):
            found = reserve(self.state, entry, choice)
            if isinstance(found, Refusal):
                found = reserve_as_left(self.state, entry, nomination.charges, found)
        return found

    def _try_together(self, batch: Batch) -> bool:
        """Admit equal single pods that are next one after the other; returns whether the first of them was."""
        state, first = self.state, batch.entries[0]
        priority = by_priority.priority_of(state, first.workload, first.needs)
        with nominated_room.respecting_nominations(state, first, priority):
            admitted = batch.entries[: reserve_batch(state, batch.entries, batch.choice)]
        for workload in (entry.workload for entry in admitted):
            self._queue.evaluated += 1
            state.count_try(workload, admitted=True)
            self._leave_queue(workload)
            self._bind(workload)
        return bool(admitted)

    def _fits_beside_victims(self, entry: QueueEntry, nomination: Nomination) -> bool:
        """Whether a workload fits while victims are there that it has been waiting for."""
        with (
            letting_by.respecting_reservations(self.state, entry),
            nominations.without_nomination(self.state, nomination),
        ):
            return isinstance(look(self.state, entry), Admitted)

    def _wait(
        self,
        entry: QueueEntry,
        refusal: Refusal,
        priority: int,
        against: list[BackfillReservation],
        nomination: Nomination | None,
    ) -> None:
        """Let a workload wait that could not be admitted: for its victims, where others are taken out for it.

        Args:
            entry: The workload.
            refusal: Why it could not be admitted, and what it could have if others were gone.
            priority: That of its pods.
            against: What is kept from it for the heads of queues.
            nomination: What was held for it until now, if anything was.
        """
        state, workload, why, preemption = self.state, entry.workload, refusal.why, NOBODY_LEAVES
        approver = permits.asks_for_approval(state, workload)
        if approver:
            why = permits.unapproved(why, approver)
        elif not letting_by.lacks_only_overdue(state, entry, against):
            with letting_by.withholding(state, entry, against):
                held_back = partial(quota_holdback.is_held_back, state, entry)
                moving = state.may_move
                preemption = preempt(
                    state, entry, why, refusal.options, priority=priority, moving=moving, held_back=held_back
                )
        if preemption.waits is not None:
            self._note(self._queue.park_for_victims(state, entry, preemption.waits))
            backfill.look_for_next(state, entry.queue)
        else:
            why = checks.with_quota_held(workload, letting_by.why_kept_off(state, entry, why, against))
            self._note(self._queue.park(state, entry, why, lacks_nodes=preemption.lacks_nodes))
            backfill.reserve_for_head(state, entry, why)
            if workload.degraded_since is not None:
                state.touch(workload.key)  # it may be clear by now that waiting is no use
        if nomination is not None and workload.key in state.nominations.ours:
            nominations.leave_spots(state, workload.key, nomination)
        elif nomination is not None:
            state.cluster.freed.anywhere()
        is_news = nomination is not None or preemption.waits is not None
        if is_news or not (workload.key in self._changed or reporting.is_reported_later(state, workload)):
            self._note([workload])

    def _leave_queue(self, workload: Workload) -> None:
        """Take a workload out of its queue that has been admitted, and keep nothing for it any more."""
        self._queue.drop(workload)
        self.state.nominations.chose_again.pop(workload.key, None)
        backfill.end_reservation(self.state, workload)
        backfill.look_for_next(self.state, self.state.catalog.queues.get(workload.cluster_queue))
        quota_holdback.drop_holdback(self.state, workload.key, workload.cluster_queue)

    # 5 bind

    def _bind(self, workload: Workload) -> None:
        """Have a workload bound that has just got quota and nodes, or held until it may be."""
        state, before = self.state, workload.phase
        if before is _CHECKING:
            self._changed[workload.key] = workload
            return
        is_bound = reconciliation.start(state, workload)
        tally = workload.counts()
        if is_bound and (workload.style is not None or tally.waiting):
            explain(workload, why_surplus_waits(state, workload))
            early_starts.explain_kept_nodes(state, workload)
        if before is _WAITING and workload.phase in ADMITTED:
            pods = tally.reserved + sum(len(group.holds) for group in workload.groups.values())
            state.reached(workload, _ADMITTED, seconds=state.now - workload.queued_at, pods=pods)
        backfill.note_expected_end(state, workload)
        self._changed[workload.key] = workload

    # 6 report

    def _report(self) -> None:
        """Report what has become of workloads and queues, after those are up to date that were taken out for others."""
        state = self.state
        if state.backfill_reservations.of or state.backfill_reservations.pauses:
            explained = partial(backfill.explain_reservations, state)
            self._note(state.attempt_part("telling what is kept", explained, []))
        for workload in [one for one in self._changed.values() if one.style is not None]:
            self._guard_open(workload, "timing", early_starts.end_patience)
        late = self._reconcile()
        living = [workload for workload in self._changed.values() if workload.key in state.workloads]
        uncounted = [one for one in living if not self._guard(one, "counting", reporting.count)]
        unreported = [one for one in living if not self._guard(one, "telling", reporting.report_workload)]
        volcano_jobs.report_phases(state, living)
        if uncounted or unreported:
            reporting.report_set_aside(state, dict.fromkeys([*uncounted, *unreported]))
        state.attempt_part("telling queues", partial(reporting.report_objects, state), None)
        state.attempt_part(turn_parts.POSITIONS, partial(reporting.refresh_positions, state), None)
        state.attempt_part(turn_parts.THROTTLES_TOLD, partial(throttle_statuses.report_throttles, state), None)
        state.dirty.update(dict.fromkeys(late, False))  # they stand in line from the next turn on
        self._again = bool(late or state.raised) or self._queue.cut_short

    # what the steps share

    def _note(self, workloads: Iterable[Workload]) -> None:
        """Have something reported of these workloads at the end of the turn."""
        self._changed.update((workload.key, workload) for workload in workloads)

    def _guard_open(self, workload: Workload, during: str, act: Callable[[State, Workload], object]) -> None:
        """Do something for a workload unless it is set aside."""
        if not self._bulkheads.is_shut(self.state, workload):
            self._guard(workload, during, act)

    def _guard(self, workload: Workload, during: str, act: Callable[[State, Workload], object]) -> bool:
        """Do something for a workload, and set it aside where that raises; returns whether it was done."""
        try:
            act(self.state, workload)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._set_aside(workload, error, during)
            return False
        return True

    def _set_aside(self, workload: Workload, error: Exception, during: str) -> None:
        self._bulkheads.set_aside(self.state, workload, error, during)
        self._note([workload])

    def _set_aside_raised(self) -> None:
        """Set those aside for whom something raised that is done for many at once."""
        raised, self.state.raised = self.state.raised, {}
        for key, (error, during) in raised.items():
            workload = self.state.workloads.get(key)
            if workload is not None:
                self._queue.drop(workload)
                self._set_aside(workload, error, during)

    def _begin_anew(self, error: Exception) -> None:
        """Go on after a turn has raised at nobody in particular: have everybody stand in line anew, and be looked at.

        What was decided before it did stands: it has been reserved and is on its way.
        """
        state = self.state
        state.out.append(fault_of(("Engine", "", ""), error, "deciding"))
        state.share_debts.pending.clear()
        self._queue = SchedulingQueue(self._bulkheads, state.share_debts.pending)
        state.queue_positions.sorting = self._queue.sorting_of
        state.quota_holdbacks.clear()
        state.dirty.update(dict.fromkeys(state.workloads, False))
        self._again = True

    def _forget_gone(self) -> None:
        """Forget what has gone before the first decision: a process may stand by for weeks."""
        state = self.state
        keys, state.dirty = state.dirty, {}
        for key in keys:
            workload = state.workloads.get(key)
            if workload is not None and not reconciliation.is_gone(state, workload):
                self._awaiting[key] = False
                continue
            self._awaiting.pop(key, None)
            if workload is not None:
                self._forget(workload)

    def _forget(self, workload: Workload) -> None:
        """Remember nothing of a workload of which nothing is left."""
        state, key = self.state, workload.key
        self._changed.pop(key, None)
        backfill.forget_expected_end(state, key)
        promises.forget_promises(state, key)
        self._bulkheads.forget(key)
        member_loss.forget_losses(state, workload)
        self._queue.drop(workload)
        state.forget(workload)
        predecessors.forget(state, key)


def _restore(state: State, workload: Workload, leaving: Mapping[str, LeavingTree]) -> None:
    """Go on with what an earlier process has begun; what is in use now has been since it was last written."""
    restored_waits.restore_nomination(state, workload, leaving)
    statuses.count_in_queues(state, workload)
