"""What pages are answered of, carried on from picture to picture where asking an engine anew takes long.

Why somebody waits is then told in three steps, the best that is known: as the operator has written it, at once; as an
engine of one's own has found it when it tried everybody last; and what follows from the workload itself, which is
always of the picture.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from tutti.cli.views.explain.lookup import status_of_object, status_of_pod
from tutti.cli.views.explain.model import OperatorStatus
from tutti.cli.views.gangs import GangView, Why, gang_views, gangs_as_found
from tutti.cli.views.nodes import Top, devices, top
from tutti.cli.views.quota_tree import Branch, forest
from tutti.cli.views.what_if import ObservedCluster, waits_for
from tutti.engine.cycle.engine import Engine
from tutti.engine.cycle.state import State
from tutti.engine.records.explanation import IN_LINE, Explanation, Gate
from tutti.engine.records.observations import AnyObservation, ObjectSeen, PodSeen
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.status.start_estimates import estimated_starts

QUICK_SECONDS: Final = 0.4
"""What takes no more processor time is found out anew for each picture, however busy the machine is otherwise."""
REST: Final = 3.0
MOST_UNTOLD: Final = 20_000
"""An engine that is behind by more changes is made anew."""
_POD_GATES: Final[Mapping[str, Gate]] = MappingProxyType(
    {
        "Unschedulable": Gate.PLACEMENT,
        "Impossible": Gate.PLACEMENT,
        "WaitingForQuota": Gate.QUOTA,
        "BehindHead": Gate.QUEUE,
    }
)
"""Where a pod stands, by the reason of its condition, which does not say; of others it is found out."""


@dataclass(slots=True)
class Answers:
    """What an engine says of a state of the cluster.

    Attributes:
        asked: Who can be asked more.
        roots: Cohorts and queues.
        offer: What nodes offer.
        gangs: All of them.
        lines: What is known of queues, and who stands in line; read it only.
        decided: What was known once all had been tried, at `tried_at`; None before that, read it only.
        why: Tells why a workload waits, as far as that is known.
        told: What the operator has written of who waits.
    """

    asked: ObservedCluster
    roots: Sequence[Branch]
    offer: Top
    gangs: Sequence[GangView]
    lines: State
    decided: State | None
    tried_at: float
    why: Why = waits_for
    told: Mapping[WorkloadKey, OperatorStatus] = field(default_factory=dict)
    _untried: list[State] = field(default_factory=list)

    @property
    def untried(self) -> State:
        """What is known before anybody is tried; made when it is asked for first. Read it only."""
        if not self._untried:
            self._untried.append(self.asked.stock().state)
        return self._untried[0]

    @property
    def is_late(self) -> bool:
        """Whether all were tried at an earlier moment than that of the picture, or not yet."""
        return self.tried_at != self.asked.at

    def starts(self, queue: str) -> Mapping[WorkloadKey, float]:
        """Return when the first of a queue start, as far as anybody knew when all were tried, or as they were told."""
        if self.decided is None:
            said = {key: _seconds(one.estimated_start) for key, one in self.told.items()}
            return {key: at for key, at in said.items() if at is not None and at > self.asked.at}
        found = self.decided.catalog.queues.get(queue)
        return {} if found is None else estimated_starts(self.decided, found)


def engine_answers(asked: ObservedCluster, engine: Engine | None = None) -> Answers:
    """Ask an engine what the pages show; one that has just been made of the picture, where there is one."""
    engine = engine or asked.stock()
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


def told_statuses(seen: Iterable[AnyObservation]) -> dict[WorkloadKey, OperatorStatus]:
    """Return what the operator has written of why somebody waits, of Workloads, PodGroups and pods."""
    found: dict[WorkloadKey, OperatorStatus] = {}
    for one in seen:
        if isinstance(one, PodSeen):
            said = status_of_pod(one.pod) if not one.pod.spec.node_name else None
            key = ("Pod", one.pod.metadata.namespace, one.pod.metadata.name)
        elif isinstance(one, ObjectSeen) and one.kind in ("Workload", "PodGroup"):
            said, meta = status_of_object(one.kind, one.raw), one.raw.get("metadata") or {}
            key = (one.kind, str(meta.get("namespace") or ""), str(meta.get("name") or ""))
        else:
            continue
        if said is not None:
            found[key] = said
    return found


def why_lately(
    decided: State | None, told: Mapping[WorkloadKey, OperatorStatus], workload: Workload
) -> Explanation | None:
    """Return why a workload waits, of which more may have been observed since all were tried.

    What has nodes meanwhile waits for nothing, and what follows from itself alone is known at once. All else is as it
    was found when it was tried; of who came later, as the operator has told it; and who was not tried by anybody yet
    stands in line.
    """
    own = waits_for(workload)
    if own is None or own.reason != IN_LINE:
        return own
    then = None if decided is None else decided.workloads.get(workload.key)
    if then is not None:
        return waits_for(then)
    said = told.get(workload.key)
    gate = None if said is None else _gate_of(said)
    return own if said is None or gate is None else Explanation(gate, said.reason, said.message)


def _gate_of(said: OperatorStatus) -> Gate | None:
    try:
        return Gate(said.gate) if said.gate else _POD_GATES.get(said.reason)
    except ValueError:
        return None  # of another release, or nobody's gate


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None  # not as the operator writes it


class StandingAnswers:
    """The answers of one kind, carried on from picture to picture where asking anew takes long.

    To tell an engine of everything takes as long as there is much. Where that is more than `QUICK_SECONDS`, an engine
    that knows everything is kept and told what has changed: numbers, members and nodes are those of the picture. Why
    those wait who have no nodes is found out by another, which is told of everything and tries everybody, in a thread
    of its own and with rests `REST` times as long as that takes; what it comes to replaces both. So what an engine
    reads only when it starts, such as nominations in statuses, is at most so old as well. The first picture waits for
    nobody to be tried: it says what the operator has told.

    Args:
        found: Called, from any thread, when everybody has been tried: a new picture would tell more.
        clock: Seconds that go on.
    """

    def __init__(self, found: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._found = found
        self._clock = clock
        self._turn = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._at = 0.0
        self._decided: Answers | None = None
        self._standing: Engine | None = None
        self._untold: list[AnyObservation] = []
        self._anew: Future[tuple[Answers, Engine | None, float]] | None = None
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
                found, self._anew = self._anew, None  # also where it has failed: it is not asked again
                self._take(*found.result())
            if self._standing is None or asked.at != self._at:
                return self._whole(asked)
            if self._anew is None and self._clock() >= self._not_before:
                self._since = []
                self._begin(self._worked_out, asked, None)
            return self._carried_on(self._standing, asked)

    def _whole(self, asked: ObservedCluster) -> Answers:
        """Answer of a picture by an engine that is told of all of it, and keep on from there where that takes long."""
        begun = time.thread_time()
        engine = asked.stock()
        if asked.at == self._at and time.thread_time() - begun >= QUICK_SECONDS:
            self._standing, self._untold, self._since = engine, [], []
            self._begin(self._tried, asked)
            return self._carried_on(engine, asked)
        found = engine_answers(asked, engine)
        if asked.at == self._at and time.thread_time() - begun >= QUICK_SECONDS:
            self._since = []
            self._begin(self._worked_out, asked, found)
        return found

    def _begin(self, work: Callable[..., tuple[Answers, Engine | None, float]], *of: object) -> None:
        """Have something found out in the other thread."""
        try:
            self._anew = self._worker.submit(work, *of)
            self._anew.add_done_callback(lambda _: self._found())
        except RuntimeError:  # it was closed while this picture was made: there will be no other
            self._anew = None

    def _tried(self, asked: ObservedCluster) -> tuple[Answers, Engine | None, float]:
        """Try everybody for the first time; the engine that stands is as new."""
        begun = self._clock()
        return engine_answers(asked), None, self._clock() - begun

    def _worked_out(self, asked: ObservedCluster, found: Answers | None) -> tuple[Answers, Engine | None, float]:
        begun = self._clock()
        found, standing = found or engine_answers(asked), asked.stock()
        return found, standing, self._clock() - begun

    def _take(self, found: Answers, standing: Engine | None, took: float) -> None:
        self._decided = found
        if standing is not None:
            self._standing, self._untold = standing, self._since
        self._since = []
        self._not_before = self._clock() + REST * took

    def _carried_on(self, standing: Engine, asked: ObservedCluster) -> Answers:
        for one in self._untold:
            standing.observe(one)
        self._untold = []
        standing.decide(asked.at, most=0)
        state, told = standing.state, told_statuses(asked.listed.seen)
        decided, tried_at = (None, 0.0) if self._decided is None else (self._decided.decided, self._decided.tried_at)
        why = partial(why_lately, decided, told)
        asked = replace(asked, known=lambda key: why(state.workloads[key]) if key in state.workloads else None)
        views = gang_views(state, gangs_as_found(state), why=why)
        offer = top(state, devices(state))
        return Answers(asked, forest(state), offer, views, state, decided, tried_at, why, told, [state])

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

    def __init__(self, found: Callable[[], None] = lambda: None) -> None:
        self.open, self.discreet = StandingAnswers(found), StandingAnswers(found)

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
