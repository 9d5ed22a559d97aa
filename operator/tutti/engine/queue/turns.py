"""Who is tried in this turn, and what wakes those that wait.

A workload that lacks something of its own, its members or a queue, stands aside until that changes. The others stand
in line for quota and nodes; what failed there sleeps until something happened that can help: quota that was given back
in its own cohort tree, or room that appeared where it lacked nodes. Nothing is polled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from math import inf

from tutti.api.conditions import timestamp
from tutti.engine.admission import holding_back, past_use, together
from tutti.engine.admission.shortages import with_strangers
from tutti.engine.backfill import backfill
from tutti.engine.lifecycle import approval, life
from tutti.engine.preemption import nominations, preemption
from tutti.engine.preemption.elsewhere import elsewhere
from tutti.engine.queue import behind_heads, repeats
from tutti.engine.queue.bulkhead import Bulkheads
from tutti.engine.queue.contest import Turn, contest
from tutti.engine.reading.queues import queue_of
from tutti.engine.records.explanation import ASKING, IN_LINE, Explanation, Gate
from tutti.engine.records.lines import Bunch, Line, LineKey, Shape, Standing
from tutti.engine.records.needs import Need, asked_by, needs_of, never_admitted, pod_sets_of
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.engine.state import State
from tutti.placement.spec_limits import term_count_in_all
from tutti.quota.flavors import Queue
from tutti.quota.ordering import backoff_seconds, head_key
from tutti.quota.policy import NOBODY
from tutti.quota.proportion import PendingRequests

Changed = dict[WorkloadKey, Workload]
NEXT = Explanation(Gate.QUEUE, IN_LINE, "it stands in line, and is looked at when those before it have been")
BROKEN = ("", "broken")
"""The line of gangs that run with fewer members than they need; it goes before all others."""
_PODS_PER_TRY = 16
"""To try a single pod takes as long as so many pods of a gang do."""
_TOGETHER_PER_TRY = 4
"""And as long as to admit so many more with it."""
_TERMS_PER_TRY = 32
"""And as long as to weigh so many terms of selectors, affinity and the like."""
_LIGHT_TERMS = 64
"""Who has more terms than that, and could not be admitted, rests before the next try."""
_REST_SECONDS = (1.0, 60.0)
"""For how long after the first of such tries, and at most; it doubles."""


class Candidates:
    """The workloads that want nodes: aside, or in line.

    Attributes:
        evaluated: How many workloads have been looked at since the start, for tests and metrics.
        cut_short: Whether the last contest ended with some not tried who could be.
    """

    def __init__(self, bulkheads: Bulkheads, pending: PendingRequests) -> None:
        self._bulkheads = bulkheads
        self.evaluated = 0
        self.cut_short = False
        self._aside: dict[WorkloadKey, Workload] = {}
        self._standing: dict[WorkloadKey, Standing] = {}
        self._lines: dict[tuple[str, str], Line] = {}
        self._active: dict[tuple[str, str], None] = {}
        self._by_root: dict[str, dict[Bunch, None]] = {}
        self._for_nodes: dict[Bunch, None] = {}
        self._for_answers: dict[Bunch, None] = {}
        self._roused: dict[Bunch, None] = {}  # woken while they rested
        self._pending = pending
        self._seen = (0, 0)
        self._ordered_at = 0.0
        self._tried: set[WorkloadKey] = set()
        self._stretch = 1

    def due(self, state: State) -> list[Workload]:
        """Return the workloads whose deadline has passed; look again at those with something else to do or tell."""
        out = []
        for workload in state.timed.take_due(state.now):
            if workload.deadline is not None and workload.deadline <= state.now:
                out.append(workload)
            if workload.tell_at is not None and workload.tell_at <= state.now:
                workload.tell_at = None
                state.touch(workload.key)
            if workload.alarm is not None and workload.alarm <= state.now:
                workload.alarm = None  # set anew where it is looked at
                state.touch(workload.key)
            if 0 < workload.not_before <= state.now:
                workload.not_before = 0.0
                state.touch(workload.key)
            state.timed.settle(workload, state.now)
        return out

    def next_due(self, state: State) -> float | None:
        """Return when to decide again though nothing is observed, Unix seconds.

        A deadline that has passed and still stands waits for an answer, and that will be observed.
        """
        if self._woken_meanwhile(state) or state.owners.roused:
            return state.now
        rested = (bunch.rests_until for bunch in self._roused)
        return min((time for time in (state.timed.next(state.now), *rested) if time is not None), default=None)

    def update(self, state: State, changed: Changed) -> None:
        """Put those that something was observed about where they belong, and wake whom something may help."""
        catalog, room = self._seen
        self._seen = (state.catalog.version, state.cluster.freed)
        freed = state.ledger.take_freed()
        if catalog != state.catalog.version:
            self._begin_anew(state)
        for workload in list(changed.values()):
            self._put(state, workload)
        woken, self._roused = self._roused, {}
        self._wake(state, woken)
        for root in freed:
            self._wake(state, self._by_root.pop(root, {}))
        self._follow_owners(state)
        if room != state.cluster.freed:
            woken, self._for_nodes = self._for_nodes, {}
            self._wake(state, woken)
        respecified = catalog != state.catalog.version  # so there may be more quota
        for workload in elsewhere(state, state.cluster.freed - room + respecified):
            self._look_elsewhere(state, workload)
        if state.consultations.take_roused():
            woken, self._for_answers = self._for_answers, {}
            self._wake(state, woken)
        self._follow_past_use(state)

    def _follow_owners(self, state: State) -> None:
        """Hold nothing back for those who have left their line, and wake who was refused because of them."""
        for owner in list(state.owners.of.values()):
            standing = self._standing.get(owner.workload)
            if standing is None or standing.bunch.line.name != (owner.queue, ""):
                holding_back.drop(state, owner.workload, owner.queue)
        roused = (self._standing.get(key) for key in state.owners.take_roused())
        self._wake(state, {one.bunch: None for one in roused if one is not None})

    def _follow_past_use(self, state: State) -> None:
        """Look once in a sampling interval whether past use has put another before the head that blocks a strict line.

        That changes by itself: what runs is used, and what has been used fades.
        """
        interval = state.configuration.admission_fair_sharing.usage_sampling_interval_seconds
        if not state.catalog.by_past_use or state.now < self._ordered_at + interval:
            return
        self._ordered_at = state.now
        for name, line in self._lines.items():
            queue = state.catalog.queues.get(name[0])
            if line.strict and queue is not None and queue.by_past_use:
                self._active[name] = None

    def standing_of(self, key: WorkloadKey) -> Standing | None:
        """Return the place of a workload that stands in line."""
        return self._standing.get(key)

    def contest(
        self, state: State, changed: Changed, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> Iterator[list[Standing]]:
        """Yield whom to try now, the next one first; it must be admitted and dropped, or reported as failed.

        Those that come with it are equal single pods that are next if all before them are admitted: some of them may
        be as well, the first ones.

        After `most`, or where the pods of those tried come to 16 times that, the contest is cut short: those who are
        left compete anew in the next one. Of pods that are admitted with another, four count as one that is tried,
        and 32 terms that are weighed count as one more. It is cut short as well after a try where it is `enough`.
        Where something woke some meanwhile that were tried already, each of the next tries twice as many as the one
        before, and at least so many of one, two, four ..., until nobody is left: in a busy cluster those who go first
        would be tried for ever, and the others never.

        It is cut short as well where a pod of somebody in line has become of another class by what the last one got:
        where it can go now is not what it is down for.
        """
        names, self._active = self._active, {}
        lines = [self._lines[name] for name in names if name in self._lines]
        broken, others = ([line for line in lines if (line.name == BROKEN) is wanted] for wanted in (True, False))
        heads = self._worth_trying(state, contest(state, broken, self._pending), contest(state, others, self._pending))
        again = False
        tries: float = inf if most is None else most * self._stretch
        pods = tries * _PODS_PER_TRY
        out_of_date = is_enough = False
        times = 0
        while tries > 0 and pods > 0 and not (out_of_date or is_enough) and (turn := next(heads, None)) is not None:
            run = together.run_of(state, turn.head, turn.followers(), min(1 + (tries - 1) * _TOGETHER_PER_TRY, pods))
            yield run
            tried = [turn.head, *(one for one in run[1:] if one.left)]
            tries -= 1 + (len(tried) - 1) / _TOGETHER_PER_TRY + _toil(turn.head) // _TERMS_PER_TRY
            pods -= sum(len(need.members) for one in tried for need in one.needs)
            keys = {one.workload.key for one in tried}
            again = again or not keys.isdisjoint(self._tried)
            self._tried |= keys
            out_of_date = self._has_reclassed(state)
            times += 1
            is_enough = enough is not None and times >= self._stretch and enough()
        self.cut_short = (most is not None or out_of_date or is_enough) and next(heads, None) is not None
        if not self.cut_short:
            self._tried, self._stretch = set(), 1
        elif again:
            self._stretch *= 2
        for line in lines:
            line.close()
            if not self.cut_short:
                self._tell_those_behind(state, line, changed)
            if not line:
                self._lines.pop(line.name, None)
        if self.cut_short:
            self._active = {**names, **self._active}
        else:
            holding_back.lapse(state)

    def _has_reclassed(self, state: State) -> bool:
        """Whether anybody stands in line whose pods are of another class than they are down for."""
        homes = (state.home.get(key) for key in state.cluster.reclassed)
        return any(address[0] in self._standing for address in homes if address is not None)

    def fail(self, state: State, standing: Standing, why: Explanation, changed: Changed) -> None:
        """Let a workload that could not be admitted sleep, together with those that are equal to it."""
        bunch, line = standing.bunch, standing.bunch.line
        line.sleep(bunch, why)
        if _toil(standing) > _LIGHT_TERMS and not line.strict:  # a head that blocks its line stands in its own way
            bunch.rests += 1
            base, longest = _REST_SECONDS
            bunch.rests_until = state.now + backoff_seconds(bunch.rests, state.random, base=base, most=longest)
        holding_back.note(state, standing, why)
        if bunch.root and why.gate is not Gate.VICTIMS:  # whoever waits for victims is tried when they are gone
            self._by_root.setdefault(bunch.root, {})[bunch] = None
        unlike = len(standing.needs) > 1 and not any(need.required for need in standing.needs)
        lacks_nodes = why.gate is Gate.PLACEMENT or why.reason == backfill.WOULD_DELAY or standing.needs_room
        if lacks_nodes or unlike:  # of unlike surplus members, only what the first lacks is told
            self._for_nodes[bunch] = None
        if why.reason == ASKING:
            self._for_answers[bunch] = None
        for one in [standing] if line.strict else bunch.standings():
            _explain(one.workload, why, changed)

    def _worth_trying(self, state: State, *contests: Iterator[Turn]) -> Iterator[Turn]:
        """Yield the turns of some contests but of those who would fail again; these sleep on until they may be told."""
        for turn in chain(*contests):
            standing = turn.head
            bunch = standing.bunch
            if not repeats.fails_again(state, standing):
                yield turn
                continue
            assert bunch.before is not None  # that is what it goes by
            bunch.line.sleep(bunch, bunch.before)
            holding_back.note(state, standing, bunch.before)
            bunch.stale = True
            self._by_root.setdefault(bunch.root, {})[bunch] = None
            state.tell_in_time(standing.workload, bunch.looked_at)

    def drop(self, workload: Workload) -> None:
        """Take a workload out, because it has been admitted or is gone."""
        self._aside.pop(workload.key, None)
        standing = self._standing.pop(workload.key, None)
        if standing is not None:
            standing.bunch.line.leave(standing)
            self._wake_from_victims(standing.bunch)  # those of another, which nobody left has been waiting for
            if standing.queue is not None:
                self._pending.go(standing.queue.name, standing.bunch.asks)
            self._active[standing.bunch.line.name] = None

    def _begin_anew(self, state: State) -> None:
        """Put everybody where they belong by what is written now: queues, flavors, priorities, namespaces."""
        everybody = [*self._aside.values(), *(one.workload for one in self._standing.values())]
        for line in self._lines.values():
            line.clear()
        for index in (self._aside, self._standing, self._lines, self._active, self._by_root):
            index.clear()
        for sleepers in (self._for_nodes, self._for_answers, self._roused):
            sleepers.clear()
        self._pending.clear()
        state.owners.clear()
        for workload in everybody:
            self._put(state, workload)

    def _put(self, state: State, workload: Workload) -> None:
        """Put one workload where it belongs, or aside where that cannot be found out."""
        if self._bulkheads.is_shut(state, workload):
            self._shut_out(workload)
            return
        try:
            self._find_place(state, workload)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._bulkheads.set_aside(state, workload, error, "queueing")
            self._shut_out(workload)

    def _shut_out(self, workload: Workload) -> None:
        """Have a workload aside that has been set aside, whatever place it had."""
        self.drop(workload)
        self._aside[workload.key] = workload

    def _find_place(self, state: State, workload: Workload) -> None:
        """Put one workload where it belongs."""
        if not life.wants_nodes(workload):
            self.drop(workload)
            return
        if workload.not_before > state.now:
            self.drop(workload)
            if workload.explanation in (None, NEXT) and workload.phase is Phase.WAITING:
                workload.explanation = _backing_off(workload)
            return
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        if isinstance(queue, Explanation):
            nominations.abandon(state, workload.key)  # it may not have it
            self.put_aside(workload, queue)
            return
        needs = needs_of(workload)
        if isinstance(needs, Explanation):
            self.put_aside(workload, with_strangers(state, workload, needs))
            return
        never = never_admitted(queue, needs)
        waits = nominations.waiting(state, workload, needs)
        if never is not None:
            nominations.abandon(state, workload.key)
            self.put_aside(workload, never)
        elif waits is not None and not (queue is not None and queue.strict and workload.phase is Phase.WAITING):
            self.put_aside(workload, waits)
        else:
            self._stand(state, workload, queue, needs)
            if waits is None:
                self._stand_up(workload)

    def put_aside(self, workload: Workload, why: Explanation) -> None:
        """Have a workload wait for something of its own, so that it stands in nobody's way."""
        if workload.key not in self._aside:
            self.drop(workload)
            self._aside[workload.key] = workload
            self.evaluated += 1
        workload.explanation = why

    def _stand(self, state: State, workload: Workload, queue: Queue | None, needs: list[Need]) -> None:
        """Have a workload stand in line; one that stands there already as it is stays where it is."""
        name, key, shape = _line_of(workload, queue), _key(workload), _shape(state, workload, queue, needs)
        standing = self._standing.get(workload.key)
        if standing is not None and standing.is_at(name, key, shape):
            standing.needs = needs
            standing.bunch.line.look_again(standing)
        else:
            self.drop(workload)
            bunch = self._bunch(state, workload, queue, needs, name, shape)
            standing = self._standing[workload.key] = Standing(workload, needs, key, bunch)
            bunch.line.add(standing)
            if queue is not None:
                self._pending.come(queue.name, bunch.asks)
        self._look_anew(state, standing)
        if workload.explanation is None and workload.phase is Phase.WAITING:
            workload.explanation = NEXT
        if standing.bunch.why is not None and not standing.bunch.line.strict:
            workload.explanation = standing.bunch.why
        self._active[name] = None

    def _look_anew(self, state: State, standing: Standing) -> None:
        """Have a bunch tried whose numbers may be told by now."""
        bunch = standing.bunch
        if bunch.stale and bunch.first() is standing and standing.workload.tell_at is None:
            bunch.before, bunch.stale, bunch.looked_at = None, False, state.now
            bunch.line.wake(bunch)

    def _stand_up(self, workload: Workload) -> None:
        """Have one tried again that blocked a strict line while its victims were leaving."""
        self._wake_from_victims(self._standing[workload.key].bunch)

    def _wake_from_victims(self, bunch: Bunch) -> None:
        """Have a bunch tried again that sleeps while victims of its first are leaving."""
        if bunch.why is not None and bunch.why.gate is Gate.VICTIMS:
            bunch.line.wake(bunch)

    def _look_elsewhere(self, state: State, workload: Workload) -> None:
        """Have one tried that waits for its victims."""
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        needs = needs_of(workload)
        if isinstance(queue, Explanation) or isinstance(needs, Explanation):
            return
        if workload.key in self._aside:
            self._stand(state, workload, queue, needs)
        elif workload.key in self._standing:
            self._stand_up(workload)
            self._active[self._standing[workload.key].bunch.line.name] = None

    def _bunch(
        self,
        state: State,
        workload: Workload,
        queue: Queue | None,
        needs: list[Need],
        name: tuple[str, str],
        shape: Shape,
    ) -> Bunch:
        """Return the bunch of a shape in the line of a name, begun for a workload where it is the first."""
        line = self._lines.get(name)
        if line is None:
            strict = queue is not None and queue.strict and workload.phase is Phase.WAITING
            line = self._lines[name] = Line(name, strict, partial(past_use.used_by, state))
        bunch = line.bunch(shape)
        if bunch is None:
            root = "" if queue is None else state.ledger.root_of(queue.name)
            required = [need for need in needs if need.required]
            door = past_use.door_of(state, workload)
            sets = [] if queue is None else pod_sets_of(required)
            bunch = Bunch(line, shape, queue, root, sets, asked_by(needs), door)
            line.open_bunch(bunch)
        return bunch

    def _woken_meanwhile(self, state: State) -> bool:
        """Whether something that can help somebody who sleeps has happened in this turn itself."""
        room = bool(self._for_nodes) and self._seen[1] != state.cluster.freed
        return room or state.ledger.has_freed(self._by_root.keys())

    def _wake(self, state: State, bunches: dict[Bunch, None]) -> None:
        for bunch in bunches:
            if bunch.rests_until > state.now:
                if bunch.size:
                    self._roused[bunch] = None
                continue
            bunch.line.wake(bunch)
            self._active[bunch.line.name] = None

    def _tell_those_behind(self, state: State, line: Line, changed: Changed) -> None:
        """Tell those behind a head that blocks its strict line; the head itself knows why it waits."""
        head, before = line.blocked, line.near
        behind = line.behind()
        if head is None:
            return
        assert head.bunch.why is not None  # it sleeps
        _explain(head.workload, head.bunch.why, changed)
        near = line.near = behind_heads.told_by_name(state, line, head)
        said: dict[tuple[str, bool], Explanation] = {}
        for one in dict.fromkeys(chain(near, before, behind)):
            if one.left or line.order(one) <= line.order(head):
                continue
            case = (one.workload.key[1], one in near)
            if case not in said:
                said[case] = behind_heads.why(state, line, head, reader=case[0], near=case[1])
            _explain(one.workload, said[case], changed, whole=True)


def _explain(workload: Workload, why: Explanation, changed: Changed, *, whole: bool = False) -> None:
    """Say why a workload waits; numbers alone are told when something else is, but a `whole` text is told as it is."""
    before = workload.explanation
    news = whole and workload.told[1] != why.message
    if news or workload.told[0] != why.reason or (before is not None and before.reason != why.reason):
        changed[workload.key] = workload  # what was not told yet is counted all the same
    workload.explanation = why


def _toil(standing: Standing) -> int:
    """Return how many terms are weighed to try a workload."""
    return term_count_in_all(need.klass for need in standing.needs)


def _backing_off(workload: Workload) -> Explanation:
    again = timestamp(workload.not_before)
    text = f"its last attempt was given up; it is tried again at {again}"
    return Explanation(Gate.PERMIT, "BackingOff", text, {"attempts": str(workload.attempts), "at": again})


def _line_of(workload: Workload, queue: Queue | None) -> tuple[str, str]:
    """Return the name of the line that a workload stands in; members beyond the required ones have their own."""
    if life.is_broken(workload):
        return BROKEN
    name = "" if queue is None else queue.name
    return name, "" if workload.phase is Phase.WAITING else "surplus"


def _key(workload: Workload) -> LineKey:
    return workload.rank, head_key(workload.priority, workload.stands_since, workload.name)


def _shape(state: State, workload: Workload, queue: Queue | None, needs: list[Need]) -> Shape:
    """Return what decides whether a workload can be admitted: equal shapes of one line fare alike."""
    asked = tuple(need.shape for need in needs)
    important = 0 if queue is None or queue.policy == NOBODY else workload.reach  # for whom it may preempt
    before = (*preemption.standing_of(state, workload, needs), approval.asks_first(state, workload))
    lasts = backfill.lasts(workload) if backfill.may_keep(state) else None  # who ends in time is let by
    door = past_use.door_of(state, workload)
    holds = workload.key in state.nominations.ours or workload.key in state.kept
    own = workload.key if holds else None  # what is held for it, nobody else has
    whom = (None if queue is None else queue.name, workload.phase, workload.scheduler, asked)
    least = tuple(sorted(workload.min_resources.items())) if workload.min_resources else ()
    return (*whom, important, before, lasts, door, own, least)
