"""The engine: observations in, decisions out.

A deterministic state machine without I/O, clock or threads. It is told the time; equal observations at equal times
with an equal seed give equal decisions, byte for byte, which is what `replay` verifies.

One turn of `decide`, in order:

    1 settle   every workload that something was observed about
    2 expire   deadlines that have passed nevertheless: permits and bind windows
    3 choose   who is tried now, and in which order
    4 reserve  quota and nodes for each in turn, all or nothing
    5 bind     what is reserved and complete
    6 report   statuses, conditions and events of what has changed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.admission import holding_back, past_use
from tutti.engine.admission.admission import look, reserve, why_surplus_waits
from tutti.engine.admission.together import reserve_in_turn
from tutti.engine.backfill import backfill, owing
from tutti.engine.ingest import promises
from tutti.engine.ingest.observing import observe
from tutti.engine.ingest.unobserved import unobserved
from tutti.engine.ingest.wishes import read_workload
from tutti.engine.lifecycle import approval, binding, eager, life, permits, replacement, reservation
from tutti.engine.lifecycle.holders import is_spared
from tutti.engine.preemption import nominations, preemption, reclaiming, respecting, sparing
from tutti.engine.preemption.precedence import precedence
from tutti.engine.queue.bulkhead import Bulkheads
from tutti.engine.queue.turns import Candidates
from tutti.engine.records.claims import Nomination
from tutti.engine.records.counting import NOWHERE
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.faults import fault_of
from tutti.engine.records.hosting import Plugins
from tutti.engine.records.lines import Standing
from tutti.engine.records.milestones import Milestone, Step
from tutti.engine.records.observations import AnyObservation, Synced
from tutti.engine.records.shadows import Shadow
from tutti.engine.records.workloads import ADMITTED, Phase, Workload, WorkloadKey
from tutti.engine.state import State
from tutti.engine.status import overuse, queue_statuses, retelling, statuses
from tutti.engine.status.reporting import report, tells_later

_MOST_FAILURES = 3
"""How many turns on end may raise at nobody in particular; then there is no use in going on with this engine."""


class Engine:
    """The whole of Tutti's deciding.

    Attributes:
        state: What it knows; read it for metrics and views, change it only through `observe` and `decide`.
        milestones: What workloads came to in the last turn.
    """

    def __init__(
        self, configuration: TuttiConfiguration, plugins: Plugins | None = None, *, discreet: bool = True
    ) -> None:
        seeded = Random(configuration.seed)  # noqa: S311 - jitter, not secrets
        self.state = State(configuration, seeded, plugins=plugins or {}, discreet=discreet)
        self.state.ledger.protected = partial(is_spared, self.state)
        self.state.places.used = partial(past_use.used_by, self.state)
        self.state.ledger.used_lately = partial(past_use.used_by_door_of, self.state)
        self.milestones: list[Milestone] = []
        self._bulkheads = Bulkheads()
        self._candidates = Candidates(self._bulkheads, self.state.debts.pending)
        self._failures = 0  # turns on end that raised at nobody in particular
        self._synced = False
        self._again = False
        self._taken_up = False
        self._awaiting: dict[WorkloadKey, None] = {}

    @property
    def evaluated(self) -> int:
        """How many workloads have been looked at since the start: tried, or found not to be ready to be."""
        return self._candidates.evaluated

    def observe(self, observation: AnyObservation) -> None:
        """Take in one thing that was seen. Nothing is decided yet."""
        if isinstance(observation, Synced):
            self._synced = True
            return
        try:
            observe(self.state, observation)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this object's
            unobserved(self.state, observation, error)
        self.state.follow_classes()
        if not self._taken_up:
            self._let_go()

    def decide(
        self, now: float, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> list[AnyDecision]:
        """Decide what is to be done now.

        Args:
            now: Unix seconds; never less than at the last call.
            most: How many workloads are tried at most, so that what is decided can be carried out meanwhile;
                where more could be, `wakeup` asks to be called again at once. None: all of them.
            enough: Asked after tries whether this turn has had its share of time; it ends with the first yes, and
                `wakeup` asks to be called again. It is all the engine is told of time that goes by meanwhile, so
                equal answers give equal decisions.

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
        state.out.extend(state.hosting.take_faults())
        self.milestones, state.milestones = state.milestones, []
        out, state.out = state.out, []
        return out

    def _begin_anew(self, error: Exception) -> None:
        """Go on after a turn has raised at nobody in particular: have everybody stand in line anew, and be looked at.

        What was decided before it did stands: it has been reserved and is on its way.
        """
        state = self.state
        state.out.append(fault_of(("Engine", "", ""), error, "deciding"))
        state.debts.pending.clear()
        self._candidates = Candidates(self._bulkheads, state.debts.pending)
        state.owners.clear()
        state.dirty.update(dict.fromkeys(state.workloads))
        self._again = True

    def _turn(self, most: int | None, enough: Callable[[], bool] | None) -> None:
        state = self.state
        state.renew()
        state.follow_nodes()
        permits.stir(state)
        nominations.stir(state)
        sparing.spare(state)
        changed: dict[WorkloadKey, Workload] = {}
        if self._awaiting:
            state.dirty, self._awaiting = {**self._awaiting, **state.dirty}, {}
        self._settle(changed)
        if not self._taken_up:
            self._taken_up = True
            state.milestones.clear()  # these were reached before
            for workload in list(changed.values()):
                with self._bulkheads.around(state, workload, "counting", changed):
                    preemption.take_up(state, workload)
                    statuses.count(state, workload)  # what is in use now has been since it was last written
        for workload in self._candidates.due(state):
            if not self._bulkheads.is_shut(state, workload):
                with self._bulkheads.around(state, workload, "timing", changed):
                    life.expire(state, workload)
        self._settle(changed)
        self._candidates.update(state, changed)
        backfill.stir(state, self._candidates.standing_of)
        for run in self._candidates.contest(state, changed, most=most, enough=enough):
            self._have_turn(run, changed)
        backfill.tell(state, changed)
        for workload in list(changed.values()):
            if not self._bulkheads.is_shut(state, workload):
                with self._bulkheads.around(state, workload, "timing", changed):
                    eager.lose_patience(state, workload)
        late: dict[WorkloadKey, Workload] = {}
        self._settle(late)  # whoever was taken out for one that was tried
        changed.update(late)
        report(state, changed, guard=self._bulkheads.around)
        retelling.retell(state)
        state.dirty.update(dict.fromkeys(late))
        self._again = bool(late) or self._candidates.cut_short  # those late stand in line from the next turn on

    def wakeup(self) -> float | None:
        """Return when `decide` must be called though nothing was observed, Unix seconds; None: not at all."""
        if not self._synced:
            return None
        if self._again:
            return self.state.now
        times = (
            self._candidates.next_due(self.state),
            permits.next_due(self.state),
            nominations.next_due(self.state),
            self.state.shadows.next_due(),
            owing.next_due(self.state),
            queue_statuses.next_due(self.state),
            retelling.next_due(self.state),
            overuse.next_due(self.state),
        )
        return min((time for time in times if time is not None), default=None)

    def _settle(self, changed: dict[WorkloadKey, Workload]) -> None:
        state = self.state
        state.follow_classes()
        while state.dirty:
            keys, state.dirty = list(state.dirty), {}
            for key in keys:
                workload = state.workloads.get(key)
                if workload is None:
                    continue
                if not self._bulkheads.is_shut(state, workload):
                    try:
                        read_workload(state, workload)
                        life.settle(state, workload)
                        backfill.note_end(state, workload)
                    except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
                        self._bulkheads.set_aside(state, workload, error, "settling")
                if life.is_over(state, workload):
                    self._forget(workload)
                    changed.pop(key, None)
                else:
                    changed[key] = workload
            state.follow_classes()

    def _let_go(self) -> None:
        """Forget what has gone before the first decision: a process may stand by for weeks."""
        state = self.state
        keys, state.dirty = state.dirty, {}
        for key in keys:
            workload = state.workloads.get(key)
            if workload is not None and not life.is_over(state, workload):
                self._awaiting[key] = None
                continue
            self._awaiting.pop(key, None)
            if workload is not None:
                self._forget(workload)

    def _forget(self, workload: Workload) -> None:
        """Remember nothing of a workload of which nothing is left."""
        state, key = self.state, workload.key
        del state.workloads[key]
        state.waiting.drop(key)
        state.timed.drop(key)
        state.ending.pop(key, None)
        state.held.pop(key, None)
        backfill.forget(state, key)
        promises.forget(state, key)
        self._bulkheads.forget(key)
        replacement.forget(state, workload)
        self._candidates.drop(workload)
        state.counts.move(workload, NOWHERE, {}, state.changed_queues)
        state.places.put(workload)

    def _have_turn(self, run: Sequence[Standing], changed: dict[WorkloadKey, Workload]) -> None:
        """Try a workload, or several equal single pods at once; the first is set aside where that raises."""
        state, standing, workload = self.state, run[0], run[0].workload
        try:
            if len(run) > 1 and self._admit_together(run, changed):
                return
            if self._try(standing, changed) or not (workload.key in changed or tells_later(state, workload)):
                changed[workload.key] = workload
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._candidates.drop(workload)
            self._bulkheads.set_aside(state, workload, error, "admitting")
            changed[workload.key] = workload

    def _try(self, standing: Standing, changed: dict[WorkloadKey, Workload]) -> bool:
        """Try to admit a workload; returns whether anything else became of it than that it still waits."""
        state, workload = self.state, standing.workload
        self._candidates.evaluated += 1
        priority = preemption.priority_of(state, workload, standing.needs)
        with (
            replacement.lent(state, workload),
            respecting.respected(state, workload, priority, precedence(state, standing)),
        ):
            waiting = state.nominations.ours.get(workload.key)
            if waiting is not None and waiting.victims and not self._fits_without(standing, waiting):
                self._go_on_waiting(standing, waiting.why, changed)
                return True
            before = nominations.end(state, workload.key)
            victims, asks = None, ""
            with backfill.respected(state, standing) as shadows:
                why = reserve(state, standing)
            if why is not None:
                asks = approval.asks_first(state, workload)
                if not asks and not backfill.lacks_what_is_owed(state, standing, shadows):
                    with backfill.keeping(state, standing, shadows):
                        victims = self._make_room(standing, why)
                why = approval.unapproved(why, asks) if asks else why
            _count_try(state, workload, admitted=why is None)
            if why is not None:
                self._wait(standing, why, victims, shadows, changed)
                state.cluster.freed += before is not None and workload.key not in state.nominations.ours
                return before is not None or victims is not None
        self._leave_line(workload)
        if before is not None:
            state.nominations.needless.append(before)
            sparing.spare(state)
        self._go_on(workload)
        return True

    def _admit_together(self, run: Sequence[Standing], changed: dict[WorkloadKey, Workload]) -> int:
        """Admit equal single pods that are next one after the other; returns how many, the first ones."""
        state, count = self.state, reserve_in_turn(self.state, run)
        for standing in run[:count]:
            workload = standing.workload
            self._candidates.evaluated += 1
            _count_try(state, workload, admitted=True)
            self._leave_line(workload)
            self._go_on(workload)
            changed[workload.key] = workload
        return count

    def _leave_line(self, workload: Workload) -> None:
        self._candidates.drop(workload)
        backfill.end(self.state, workload)
        holding_back.drop(self.state, workload.key, workload.cluster_queue)

    def _go_on(self, workload: Workload) -> None:
        """Have a workload bound that has just got quota and nodes, or held until it may be."""
        state, before = self.state, workload.phase
        self._let_start(workload)
        if before is Phase.WAITING and workload.phase in ADMITTED:
            pods = workload.tally().reserved + sum(len(group.holds) for group in workload.groups.values())
            state.reached(workload, Step.ADMITTED, seconds=state.now - workload.queued_at, pods=pods)
        backfill.note_end(state, workload)

    def _let_start(self, workload: Workload) -> None:
        state = self.state
        early = not reservation.all_there(workload)
        if workload.phase is Phase.WAITING and early and not eager.may_start(workload):
            reservation.await_members(state, workload)
            return
        if not permits.may_bind(state, workload):
            return
        binding.send(state, workload)
        if workload.phase not in (Phase.WAITING, Phase.RESERVED):  # else it waits for volumes, and says so
            workload.explanation = why_surplus_waits(state, workload)
            eager.explain(state, workload)

    def _wait(
        self,
        standing: Standing,
        why: Explanation,
        victims: Explanation | None,
        shadows: Sequence[Shadow],
        changed: dict[WorkloadKey, Workload],
    ) -> None:
        """Let a workload wait that could not be admitted: for its victims, where others were taken out for it.

        Args:
            standing: The workload.
            why: Why it could not be admitted.
            victims: What it waits for while these leave; None where nobody was taken out.
            shadows: Of the heads for whom something was kept from it.
            changed: Takes in who is told something.
        """
        if victims is not None:
            self._go_on_waiting(standing, victims, changed)
        else:
            why = backfill.why_kept_off(self.state, standing, why, shadows)
            self._candidates.fail(self.state, standing, why, changed)
            backfill.look_ahead(self.state, standing, why)
            if standing.workload.degraded_since is not None:
                self.state.touch(standing.workload.key)  # it may be clear by now that waiting is no use

    def _go_on_waiting(self, standing: Standing, why: Explanation, changed: dict[WorkloadKey, Workload]) -> None:
        """Let a workload wait for its victims: aside or, in a strict line, in the way of those behind it."""
        if standing.bunch.line.strict:
            self._candidates.fail(self.state, standing, why, changed)
        else:
            self._candidates.put_aside(standing.workload, why)

    def _fits_without(self, standing: Standing, nomination: Nomination) -> bool:
        """Whether a workload fits while victims are there that it has been waiting for."""
        with backfill.respected(self.state, standing), nominations.without(self.state, nomination):
            return isinstance(look(self.state, standing), list)

    def _make_room(self, standing: Standing, why: Explanation) -> Explanation | None:
        """Take others out for a workload, by the rules of its queue or else by the priority of its pods."""
        return reclaiming.reclaim(self.state, standing) or preemption.make_room(self.state, standing, why)


def _count_try(state: State, workload: Workload, *, admitted: bool) -> None:
    what = (workload.key[0] == "Pod", admitted, workload.scheduler)
    state.tried[what] = state.tried.get(what, 0) + 1
