"""One state of the cluster, as an engine of one's own sees it; pages are made of it.

It is taken when something has changed and somebody looks: all that was listed is told to an engine, which decides as
the operator would, as for a view on the command line; where that takes long, an engine is kept and told what is new
(`StandingAnswers`). Whoever may not see everybody is answered by another engine,
one that is as discreet as the operator is in what it writes for all to read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.gangs import GangView, Why, gang_views, gangs_as_found
from tutti.cli.views.listing import Listed
from tutti.cli.views.nodes import Top, devices, top
from tutti.cli.views.queues import Branch, forest
from tutti.cli.views.what_if import ObservedCluster, waits_for
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.cycle.engine import Engine
from tutti.engine.cycle.state import State
from tutti.engine.records.explanation import IN_LINE, Explanation
from tutti.engine.records.observations import AnyObservation
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.status.start_estimates import estimated_starts
from tutti.web.told import ToldEvent

QUICK_SECONDS: Final = 0.4
"""What takes no longer is found out anew for each picture."""
REST: Final = 3.0
MOST_UNTOLD: Final = 20_000
"""An engine that is behind by more changes is made anew."""
NEEDED = ("pods", "nodes", *(one.label for one in OUR_RESOURCES.values()))
"""What has to be listed for numbers to be right, as for the views."""


@dataclass(slots=True)
class Answers:
    """What an engine says of a state of the cluster.

    Attributes:
        asked: Who can be asked more.
        roots: Cohorts and queues.
        offer: What nodes offer.
        gangs: All of them.
        lines: What is known of queues, and who stands in line; read it only.
        decided: What was known once all had been tried, at `tried_at`; read it only.
        why: Tells why a workload waits, as far as that was found out at `tried_at`.
    """

    asked: ObservedCluster
    roots: Sequence[Branch]
    offer: Top
    gangs: Sequence[GangView]
    lines: State
    decided: State
    tried_at: float
    why: Why = waits_for
    _untried: list[State] = field(default_factory=list)

    @property
    def untried(self) -> State:
        """What is known before anybody is tried; made when it is asked for first. Read it only."""
        if not self._untried:
            self._untried.append(self.asked.stock().state)
        return self._untried[0]

    @property
    def is_late(self) -> bool:
        """Whether all were tried at an earlier moment than that of the picture."""
        return self.tried_at != self.asked.at

    def starts(self, queue: str) -> Mapping[WorkloadKey, float]:
        """Return when the first of a queue start, as far as anybody knew when all were tried."""
        found = self.decided.catalog.queues.get(queue)
        return {} if found is None else estimated_starts(self.decided, found)


def engine_answers(asked: ObservedCluster) -> Answers:
    """Ask an engine what the pages show."""
    engine = asked.stock()
    roots = forest(engine.state)
    offer = top(engine.state, devices(engine.state))
    before = gangs_as_found(engine.state)
    engine.decide(asked.at)
    state = engine.state
    asked = replace(asked, known=partial(_as_decided, state))
    return Answers(asked, roots, offer, gang_views(state, before), state, state, asked.at)


def _as_decided(state: State, key: WorkloadKey) -> Explanation | None:
    workload = state.workloads.get(key)
    return None if workload is None else waits_for(workload)


def why_lately(decided: State, workload: Workload) -> Explanation | None:
    """Return why a workload waits, of which more may have been observed since all were tried.

    What has nodes meanwhile waits for nothing, and what follows from itself alone is known at once. All else is as it
    was found when it was tried; who came later stands in line.
    """
    own = waits_for(workload)
    if own is None or own.reason != IN_LINE:
        return own
    then = decided.workloads.get(workload.key)
    return own if then is None else waits_for(then)


class StandingAnswers:
    """The answers of one kind, carried on from picture to picture where asking anew takes long.

    To tell an engine of everything takes as long as there is much. Where that is more than `QUICK_SECONDS`, an engine
    that knows everything is kept and told what has changed: numbers, members and nodes are those of the picture. Why
    those wait who have no nodes is found out by another, which is told of everything and tries everybody, in a thread
    of its own and with rests `REST` times as long as that takes; what it comes to replaces both. So what an engine
    reads only when it starts, such as nominations in statuses, is at most so old as well.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._at = 0.0
        self._decided: Answers | None = None
        self._standing: Engine | None = None
        self._untold: list[AnyObservation] = []
        self._anew: Future[tuple[Answers, Engine, float]] | None = None
        self._since: list[AnyObservation] = []
        self._not_before = 0.0

    def follow(self, at: float, changes: Sequence[AnyObservation] | None) -> None:
        """Note what has changed until a new picture, of that moment; None: anything may have."""
        with self._turn:
            self._at = at
            if self._standing is None and self._anew is None:
                return
            if changes is None or max(len(self._untold), len(self._since)) + len(changes) > MOST_UNTOLD:
                self._forget()
                return
            if self._standing is not None:
                self._untold += changes
            if self._anew is not None:
                self._since += changes

    def answers(self, asked: ObservedCluster) -> Answers:
        """Return what is answered of a picture, from any thread."""
        with self._turn:
            if self._anew is not None and (self._standing is None or self._anew.done()):
                self._take(*self._anew.result())
            if self._standing is None or self._decided is None or asked.at != self._at:
                return self._whole(asked)
            if self._anew is None and self._clock() >= self._not_before:
                self._since = []
                self._anew = self._worker.submit(self._worked_out, asked, None)
            return self._carried_on(self._standing, self._decided.decided, asked)

    def _whole(self, asked: ObservedCluster) -> Answers:
        begun = self._clock()
        found = engine_answers(asked)
        if asked.at == self._at and self._clock() - begun >= QUICK_SECONDS:
            self._since = []
            self._anew = self._worker.submit(self._worked_out, asked, found)
        return found

    def _worked_out(self, asked: ObservedCluster, found: Answers | None) -> tuple[Answers, Engine, float]:
        begun = self._clock()
        found, standing = found or engine_answers(asked), asked.stock()
        return found, standing, self._clock() - begun

    def _take(self, found: Answers, standing: Engine, took: float) -> None:
        self._decided, self._standing = found, standing
        self._untold, self._since, self._anew = self._since, [], None
        self._not_before = self._clock() + REST * took

    def _carried_on(self, standing: Engine, decided: State, asked: ObservedCluster) -> Answers:
        for one in self._untold:
            standing.observe(one)
        self._untold = []
        standing.decide(asked.at, most=0)
        state, why = standing.state, partial(why_lately, decided)
        asked = replace(asked, known=lambda key: why(state.workloads[key]) if key in state.workloads else None)
        views = gang_views(state, gangs_as_found(state), why=why)
        offer = top(state, devices(state))
        return Answers(asked, forest(state), offer, views, state, decided, self._decided_at, why, [state])

    @property
    def _decided_at(self) -> float:
        return 0.0 if self._decided is None else self._decided.tried_at

    def forget(self) -> None:
        """Keep nothing: nobody looks."""
        with self._turn:
            self._forget()

    def _forget(self) -> None:
        self._decided = self._standing = self._anew = None
        self._untold, self._since = [], []

    def close(self) -> None:
        """End the thread; what it works on is waited for no longer."""
        self._worker.shutdown(wait=False, cancel_futures=True)


class KeptAnswers:
    """The answers that are carried on: of those who may see everybody, and of the others."""

    def __init__(self) -> None:
        self.open, self.discreet = StandingAnswers(), StandingAnswers()

    def follow(self, at: float, changes: Sequence[AnyObservation] | None) -> None:
        """Note what has changed until a new picture, of that moment; None: anything may have."""
        for one in (self.open, self.discreet):
            one.follow(at, changes)

    def forget(self) -> None:
        """Keep nothing: nobody looks."""
        for one in (self.open, self.discreet):
            one.forget()

    def close(self) -> None:
        """End their threads."""
        for one in (self.open, self.discreet):
            one.close()


@dataclass
class Picture:
    """The cluster at one moment.

    Attributes:
        generation: Grows with each picture.
        events: What the operator has told of late, the latest first.
        interruptions: Which streams do not flow, and why.
        kept: What answers are carried on from; None: each is found out anew.
    """

    generation: int
    listed: Listed
    at: float
    known: KnownConfiguration
    events: Sequence[ToldEvent]
    interruptions: Sequence[str] = ()
    kept: KeptAnswers | None = None

    def _asked(self, *, discreet: bool) -> ObservedCluster:
        configuration, plugins, assumed = self.known
        return ObservedCluster(self.listed, self.at, configuration, plugins, assumed, discreet)

    def _answers(self, *, discreet: bool) -> Answers:
        asked = self._asked(discreet=discreet)
        if self.kept is None:
            return engine_answers(asked)
        return (self.kept.discreet if discreet else self.kept.open).answers(asked)

    @cached_property
    def open(self) -> Answers:
        """What those are told who may see everybody."""
        return self._answers(discreet=False)

    @cached_property
    def discreet(self) -> Answers:
        """What the others are told."""
        return self._answers(discreet=True)

    @cached_property
    def lacks(self) -> str:
        """Return why there are no answers, or "": what could not be listed without which they would be wrong."""
        if self.listed.missing:
            some = (
                "any of Tutti's kinds"
                if len(self.listed.missing) == len(OUR_RESOURCES)
                else ", ".join(self.listed.missing)
            )
            return f"the server does not know {some}: install Tutti's CRDs (kubectl apply -k crds)"
        wanting = [label for label in NEEDED if label in self.listed.refused]
        if not wanting:
            return ""
        first = self.listed.refused[wanting[0]]
        return f"you may not list {', '.join(wanting)} in all namespaces ({first})"
