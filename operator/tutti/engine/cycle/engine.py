"""The engine: observations in, decisions out.

A deterministic state machine without I/O, clock or threads. It is told the time; equal observations at equal times
with an equal seed give equal decisions, byte for byte, which is what `replay` verifies.

One turn of `decide` (`Engine._turn`) goes through six steps, in this order:

    1 settle   every workload that something was observed about
    2 expire   deadlines that have passed nevertheless: permits and bind windows
    3 choose   who is tried now, and in which order
    4 reserve  quota and nodes for each in turn, all or nothing (`admit`); or take others out for it, or have it wait
    5 bind     what is reserved and complete (the end of `admit`)
    6 report   statuses, conditions and events of what has changed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.admission import usage_history
from tutti.engine.admission.attempt import assign_flavors
from tutti.engine.backfill import backfill, restored_heads
from tutti.engine.cycle import turn_parts
from tutti.engine.cycle.admitting import admit
from tutti.engine.cycle.reserved_before import reserved_before
from tutti.engine.cycle.scheduling_cycle import SchedulingCycle
from tutti.engine.cycle.settling import bring_up_to_date, follow_binds
from tutti.engine.cycle.state import State
from tutti.engine.ingest import promises, volcano_jobs
from tutti.engine.ingest.handlers import observe
from tutti.engine.ingest.setting_aside import unobserved
from tutti.engine.lifecycle import early_starts, reconciliation
from tutti.engine.lifecycle.quota_usage import without_protected
from tutti.engine.preemption import moves, restored_waits
from tutti.engine.preemption.restored_quota import LeavingTree, who_is_leaving
from tutti.engine.queue import predecessors
from tutti.engine.queue.applications import follow_applications
from tutti.engine.queue.heads import Batch
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.explanation import LifecycleEvent
from tutti.engine.records.observations import AnyObservation, Synced
from tutti.engine.records.plugins import Plugins
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.status import reporting, statuses, throttle_statuses
from tutti.placement.extension import Stopwatch

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
        state.ledger.unprotected = partial(without_protected, state)
        state.queue_positions.used = partial(usage_history.usage_of_local_queue, state)
        state.ledger.used_lately = partial(usage_history.usage_of_holder, state)
        self.lifecycle_events: list[LifecycleEvent] = []
        self._cycle = SchedulingCycle(state)
        self._synced = self._restored = self._again = False
        self._failures = 0  # turns on end that raised
        self._awaiting: dict[WorkloadKey, bool] = {}  # whom the first turn settles; whether only its binds changed

    @property
    def evaluated(self) -> int:
        """How many workloads have been looked at since the start: tried, or found not to be ready to be."""
        return self._cycle.queue.evaluated

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
            self._cycle.begin_anew(error)
            self._again = True
        state.out.extend(state.plugin_host.take_faults())
        self.lifecycle_events, state.lifecycle_events = state.lifecycle_events, []
        out, state.out = state.out, []
        return out

    def wakeup(self) -> float | None:
        """Return when `decide` must be called though nothing was observed, Unix seconds; None: not at all."""
        if not self._synced or self._again:
            return self.state.now if self._synced else None
        times = (self._cycle.queue.next_due(self.state), turn_parts.next_due(self.state))
        return min((time for time in times if time is not None), default=None)

    def _turn(self, most: int | None, enough: Callable[[], bool] | None) -> None:
        self._cycle.changed = {}
        self._settle()
        self._expire()
        for batch in self._choose(most, enough):
            admit(self._cycle, batch)
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
            for workload in list(self._cycle.changed.values()):
                self._cycle.guard(workload, "counting", partial(_restore, leaving=leaving))
            anew = partial(restored_waits.choose_anew_where_short, state)
            state.attempt_part("looking who has not been asked to leave", anew, None)

    def _reconcile(self) -> list[WorkloadKey]:
        """Bring all workloads up to date of which something was observed or decided; returns which, those that are."""
        state, cycle, seen = self.state, self._cycle, dict[WorkloadKey, None]()
        state.follow_classes()
        state.attempt_part("looking at who is not paid for", partial(promises.look_at_unpaid, state), None)
        while state.dirty or state.raised or turn_parts.is_more_due(state):
            cycle.set_aside_raised()
            dirty, state.dirty = state.dirty, {}
            for key, only_bound in dirty.items():
                workload = state.workloads.get(key)
                if workload is None:
                    continue
                cycle.guard_open(workload, "settling", follow_binds if only_bound else bring_up_to_date)
                if reconciliation.is_gone(state, workload):
                    cycle.forget(workload)
                else:
                    cycle.changed[key], seen[key] = workload, None
                    if state.followers.told:
                        cycle.guard(workload, "telling its followers", turn_parts.tell_followers)
            state.attempt_part(turn_parts.RINGS, partial(predecessors.follow_rings, state), None)
            state.follow_classes()
        return [key for key in seen if key in state.workloads]

    # 2 expire

    def _expire(self) -> None:
        """Do what is due about workloads whose deadline has passed."""
        due = reconciliation.take_due(self.state)
        for workload in due:
            self._cycle.guard_open(workload, "timing", reconciliation.expire)
        if due or self.state.dirty:
            self._reconcile()

    # 3 choose

    def _choose(self, most: int | None, enough: Callable[[], bool] | None) -> Iterator[Batch]:
        """Yield who is tried now, the next one as things are after the one before."""
        state, cycle = self.state, self._cycle
        changed = list(cycle.changed.values())
        ordering = partial(follow_applications, state, changed)
        cycle.note(state.attempt_part("ordering the parts of applications", ordering, []))
        cycle.queue.update(state, list(cycle.changed.values()))
        if not state.backfill_reservations.restored:
            for entry in reserved_before(state, cycle.queue.entry_of):
                yield Batch([entry], assign_flavors(state, entry))
        again = partial(restored_heads.restore_reservations, state, cycle.queue.entry_of)
        state.attempt_part("keeping again what was kept", again, None)
        kept = partial(backfill.refresh_reservations, state, cycle.queue.entry_of)
        state.attempt_part("following what is kept", kept, None)
        yield from cycle.queue.batches(state, most=most, enough=enough)
        cycle.note(cycle.queue.end_turn(state))

    # 6 report

    def _report(self) -> None:
        """Report what has become of workloads and queues, after those are up to date that were taken out for others."""
        state, cycle = self.state, self._cycle
        if state.backfill_reservations.of or state.backfill_reservations.pauses:
            explained = partial(backfill.explain_reservations, state)
            cycle.note(state.attempt_part("telling what is kept", explained, []))
        for workload in [one for one in cycle.changed.values() if one.style is not None]:
            cycle.guard_open(workload, "timing", early_starts.end_patience)
        late = self._reconcile()
        living = [workload for workload in cycle.changed.values() if workload.key in state.workloads]
        uncounted = [one for one in living if not cycle.guard(one, "counting", reporting.count)]
        unreported = [one for one in living if not cycle.guard(one, "telling", reporting.report_workload)]
        volcano_jobs.report_phases(state, living)
        if uncounted or unreported:
            reporting.report_set_aside(state, dict.fromkeys([*uncounted, *unreported]))
        state.attempt_part("telling queues", partial(reporting.report_objects, state), None)
        state.attempt_part(turn_parts.POSITIONS, partial(reporting.refresh_positions, state), None)
        state.attempt_part(turn_parts.THROTTLES_TOLD, partial(throttle_statuses.report_throttles, state), None)
        state.dirty.update(dict.fromkeys(late, False))  # they stand in line from the next turn on
        self._again = bool(late or state.raised) or cycle.queue.cut_short

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
                self._cycle.forget(workload)


def _restore(state: State, workload: Workload, leaving: Mapping[str, LeavingTree]) -> None:
    """Go on with what an earlier process has begun; what is in use now has been since it was last written."""
    restored_waits.restore_nomination(state, workload, leaving)
    statuses.count_in_queues(state, workload)
