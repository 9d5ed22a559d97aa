"""Time that passes for an engine: what it decides is done as a cluster would do it, and it is told what comes of that.

The engine is the operator's own, and is asked as the operator asks it. Around it there is nothing but pods, the objects
that describe them, and a clock that goes from one thing that happens to the next. Nothing here schedules, nothing is
random, and equal beginnings come to equal ends. Binds succeed, pods are ready at once, and whoever is told to leave
leaves after its grace; statuses and events are not shown to the engine again, as it remembers what it has written.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import msgspec

from tutti.api.core import Pod, PodCondition, PodStatus
from tutti.api.model import GROUP
from tutti.cluster.pods import PodKey
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter
from tutti.engine.records.decisions import (
    AnnotatePod,
    AnyDecision,
    Bind,
    CreatePodGroup,
    Deactivate,
    DeletePodGroup,
    EmitEvent,
    Evict,
    KeepAdmission,
    NoteFault,
    NotePluginFault,
    PatchStatus,
    SetPodCondition,
)
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.observations import (
    AnyObservation,
    BindAnswer,
    BindFinished,
    Deactivated,
    EvictFinished,
    ObjectGone,
    ObjectSeen,
    PodAnnotated,
    PodGone,
    PodGroupWritten,
    PodSeen,
)
from tutti.engine.records.workloads import Workload, WorkloadKey

MOST_TURNS = 1000
"""How often an engine may ask to be called again at one moment; more is a fault of ours, and ends the run."""
_SILENT = (EmitEvent, SetPodCondition, PatchStatus, KeepAdmission, NotePluginFault)
"""What an engine writes for people, and for the process after it: it remembers that it has."""
_replaced = msgspec.structs.replace
ObjectKey = tuple[str, str, str]


class StuckError(RuntimeError):
    """An engine that asks to be called again and again at one moment."""


class Pace(Protocol):
    """How fast work goes on."""

    def __call__(self, workload: Workload, /) -> float:
        """Return how many seconds of its run a workload gets done in one, with the members that it has now."""


class Lasting(Protocol):
    """How long work runs."""

    def __call__(self, workload: Workload, /) -> float | None:
        """Return how many seconds from now on a workload runs that has just started; None: for ever."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What a cluster does by itself.

    Attributes:
        lasts: How long work runs once its required members have a node.
        comes_again: Whether something makes another pod in place of one that was taken out.
        grace: How long a pod takes to end that is told to, seconds.
        step: What happens within so many seconds is seen at the end of them; 0: everything at its own time.
        keeps: Whether pods that have succeeded stay, and their objects; they are deleted at once where not.
        pace: How fast work goes on, asked again whenever members come or go; None: always as `lasts` says.
    """

    lasts: Lasting
    comes_again: Callable[[Pod], bool]
    grace: float = 0.0
    step: float = 0.0
    keeps: bool = False
    pace: Pace | None = None


@dataclass(slots=True)
class _PacedRun:
    """A run that goes on as fast as its members make it: the seconds that it has left at pace 1, as of when.

    Attributes:
        number: How often its pace has changed; an end that was worked out before does not count.
    """

    run: int
    left: float
    since: float
    pace: float = 0.0
    number: int = 0


class VirtualCluster:
    """What exists, and the engine that is shown it.

    Attributes:
        now: Virtual time, Unix seconds.
        turns: How often the engine was asked to decide.
        told: How many observations it was told.
        decisions: How many of each kind it made.
        unplayed: Those of them that are not played here: whoever waits for what comes of them waits on.
        heard: Is told of each lifecycle event, after the turn in which it came to be.
        ends: Is told of each workload that has come to its end, before its pods are gone.
        sized: Is told of each workload that has a member more with a node, or one less.
    """

    def __init__(self, engine: Engine, at: float, habits: Habits, journal: JournalWriter | None = None) -> None:
        self.engine, self.now, self.habits = engine, at, habits
        engine.state.tells_rooms = journal is not None  # who replays a journal tells it, and nobody else would read it
        self.turns = self.told = 0
        self.decisions: Counter[str] = Counter()
        self.unplayed: Counter[str] = Counter()
        self.heard: Callable[[LifecycleEvent], None] = lambda _: None
        self.ends: Callable[[WorkloadKey], None] = lambda _: None
        self.sized: Callable[[WorkloadKey], None] = lambda _: None
        self._journal = journal
        self._pods: dict[PodKey, Pod] = {}
        self._objects: dict[ObjectKey, dict[str, Any]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._runs: dict[WorkloadKey, int] = {}
        self._paced: dict[WorkloadKey, _PacedRun] = {}
        self._resized: dict[WorkloadKey, None] = {}
        self._fresh = False

    # what a cluster is told

    def tell(self, observation: AnyObservation) -> None:
        """Have something seen, by the engine as well."""
        self._keep(observation)
        self._show(observation)

    def adopt(self, seen: Iterable[AnyObservation]) -> None:
        """Take over what an engine was told before, without telling it again."""
        for one in seen:
            self._keep(one)

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Have something happen at a time, Unix seconds."""
        heapq.heappush(self._events, (when, next(self._numbers), what))

    def runs(self, key: WorkloadKey) -> None:
        """Have a workload come to its end as one that runs from now on."""
        workload = self.engine.state.workloads.get(key)
        lasts = None if workload is None else self.habits.lasts(workload)
        run = self._runs[key] = self._runs.get(key, 0) + 1
        if lasts is None:
            return
        if self.habits.pace is None:
            self.at(self.now + max(0.0, lasts), lambda: self._end(key, run))
        else:
            self._paced[key] = _PacedRun(run, max(0.0, lasts), self.now)
            self._resized[key] = None

    # how time passes

    def settle(self) -> None:
        """Have the engine decide, and what it decides carried out, until nothing more comes of it at this moment.

        Raises:
            StuckError: The engine asks for ever to be called again.
        """
        for _ in range(MOST_TURNS):
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self._turn()
            alarm = self.engine.wakeup()
            due = self._fresh or (alarm is not None and alarm <= self.now)
            if not due and not (self._events and self._events[0][0] <= self.now):
                return
        raise StuckError(f"the engine asked {MOST_TURNS} times at {self.now:.0f} to be called again")

    def next_at(self) -> float | None:
        """Return when something happens next, Unix seconds; None: nothing does any more."""
        alarm = self.engine.wakeup()
        times = [self._events[0][0]] if self._events else []
        times += [] if alarm is None else [alarm]
        if not times:
            return None
        step, when = self.habits.step, max(self.now, min(times))
        return math.ceil(when / step) * step if step else when

    def seen(self, before: Iterable[AnyObservation]) -> list[AnyObservation]:
        """Return what an engine that is made now would be listed: what there was, with pods and objects as they are.

        Args:
            before: What was taken over, for what never changes here.
        """
        kept = [one for one in before if not isinstance(one, PodSeen | ObjectSeen)]
        objects = [ObjectSeen(kind, raw) for (kind, _, _), raw in self._objects.items()]
        return [*kept, *objects, *map(PodSeen, self._pods.values())]

    @property
    def quiet(self) -> bool:
        """Whether nothing will happen but that the engine looks at its own times."""
        return not self._events

    def advance(self, until: float | None = None) -> bool:
        """Go on to the next time at which anything happens, and let it; returns whether anything did, by `until`."""
        when = self.next_at()
        if when is None or (until is not None and when > until):
            return False
        self.now = when
        self.settle()
        return True

    def _keep(self, observation: AnyObservation) -> None:
        if isinstance(observation, PodSeen):
            meta = observation.pod.metadata
            self._pods[meta.namespace, meta.name] = observation.pod
        elif isinstance(observation, ObjectSeen):
            said = observation.raw.get("metadata") or {}
            key = (observation.kind, str(said.get("namespace", "")), str(said.get("name", "")))
            self._objects[key] = observation.raw

    def _show(self, observation: AnyObservation) -> None:
        self._fresh = True
        self.told += 1
        if self._journal is not None:
            self._journal.saw(observation)
        self.engine.observe(observation)

    def _turn(self) -> None:
        self.turns += 1
        self._fresh = False
        decisions = self.engine.decide(self.now)
        if self._journal is not None:
            self._journal.decided(self.now, decisions)
        for event in self.engine.lifecycle_events:
            self._note(event)
        for decision in decisions:
            self.decisions[type(decision).__name__] += 1
            if not isinstance(decision, _SILENT):
                self._carry_out(decision)
        self._follow_paces()

    def _note(self, event: LifecycleEvent) -> None:
        self.heard(event)
        if event.step is LifecycleStep.SCHEDULED:
            self.runs(event.workload)
        elif event.step in (LifecycleStep.EVICTED, LifecycleStep.FINISHED):
            self._runs[event.workload] = self._runs.get(event.workload, 0) + 1

    def _follow_paces(self) -> None:
        """Work out anew when those runs end whose members have changed."""
        resized, self._resized = self._resized, {}
        for key in resized:
            workload, paced = self.engine.state.workloads.get(key), self._paced.get(key)
            if workload is None or paced is None or self._runs.get(key) != paced.run or self.habits.pace is None:
                self._paced.pop(key, None)
                continue
            paced.left -= (self.now - paced.since) * paced.pace
            paced.since, before, paced.pace = self.now, paced.pace, self.habits.pace(workload)
            if paced.pace != before:
                paced.number += 1
                if paced.pace > 0:
                    ends = self.now + max(0.0, paced.left) / paced.pace
                    self.at(ends, partial(self._end_paced, key, paced, paced.number))

    def _end_paced(self, key: WorkloadKey, paced: _PacedRun, number: int) -> None:
        if self._paced.get(key) is paced and paced.number == number:
            self._end(key, paced.run)

    def _note_size(self, pod: PodKey) -> None:
        """Note that the workload of a pod may have another number of members by now."""
        home = self.engine.state.pod_group_of.get(pod)
        if home is None:
            return
        self.sized(home[0])
        if home[0] in self._paced:
            self._resized[home[0]] = None

    # what is done with decisions

    def _carry_out(self, decision: AnyDecision) -> None:
        match decision:
            case Bind():
                self._bind(decision)
            case Evict():
                self._evict(decision)
            case AnnotatePod():
                self._annotate(decision)
            case Deactivate():
                self._deactivate(decision)
            case CreatePodGroup():
                self._create_group(decision)
            case DeletePodGroup():
                self._forget_object("PodGroup", decision.namespace, decision.name)
                self._show(PodGroupWritten(decision.namespace, decision.name, done=True))
            case NoteFault():
                self.unplayed["NoteFault"] += 1
            case _:
                self.unplayed[type(decision).__name__] += 1

    def _bind(self, bind: Bind) -> None:
        pod = self._pods.get((bind.namespace, bind.name))
        if pod is None or pod.metadata.uid != bind.uid or pod.metadata.deletion_timestamp is not None:
            self._show(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer.GONE))
            return
        meta = _replaced(
            pod.metadata,
            annotations={**pod.metadata.annotations, **bind.annotations},
            labels={**pod.metadata.labels, **bind.labels},
        )
        spec = _replaced(pod.spec, node_name=bind.node, tolerations=[*pod.spec.tolerations, *bind.tolerations])
        status = _replaced(
            pod.status, phase="Running", conditions=[PodCondition("Ready", "True")], start_time=_time(self.now)
        )
        self._show(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer.BOUND))
        self.tell(PodSeen(_replaced(pod, metadata=meta, spec=spec, status=status)))
        self._note_size((bind.namespace, bind.name))

    def _evict(self, evict: Evict) -> None:
        pod = self._pods.get((evict.namespace, evict.name))
        if pod is None or pod.metadata.uid != evict.uid or pod.terminated:
            self._show(EvictFinished(evict.namespace, evict.name, evict.uid, done=True))
            return
        if pod.metadata.deletion_timestamp is None:
            meta = _replaced(pod.metadata, deletion_timestamp=_time(self.now + self.habits.grace))
            self.tell(PodSeen(_replaced(pod, metadata=meta)))
            self.at(self.now + self.habits.grace, lambda: self._gone(evict))
        self._show(EvictFinished(evict.namespace, evict.name, evict.uid, done=True))

    def _gone(self, evict: Evict) -> None:
        """A pod that was told to leave has; whoever made it makes another."""
        pod = self._pods.pop((evict.namespace, evict.name))
        self._note_size((evict.namespace, evict.name))
        self._show(PodGone(evict.namespace, evict.name, evict.uid))
        if self.habits.comes_again(pod):
            self.tell(PodSeen(self._successor(pod)))

    def _successor(self, pod: Pod) -> Pod:
        """Return the pod that is made in place of one: of another name, without a node, and not begun."""
        number = next(self._numbers)
        base = pod.metadata.name.partition("+")[0]
        annotations = {name: said for name, said in pod.metadata.annotations.items() if GROUP not in name}
        meta = _replaced(
            pod.metadata, name=f"{base}+{number}", uid=f"{pod.metadata.uid.partition('+')[0]}+{number}",
            annotations=annotations, deletion_timestamp=None, creation_timestamp=_time(self.now),
        )  # fmt: skip
        return _replaced(pod, metadata=meta, spec=_replaced(pod.spec, node_name=""), status=PodStatus())

    def _end(self, key: WorkloadKey, run: int) -> None:
        """A run has come to its end: its pods succeed, and are deleted with their object where nobody keeps them."""
        workload = self.engine.state.workloads.get(key)
        if workload is None or self._runs.get(key) != run:
            return
        self.ends(key)
        catalog = self.engine.state.catalog
        learns = (catalog.by_run_time or catalog.by_speed) and not self.habits.keeps
        for pod in [self._pods[one.pod.key] for one in workload.members() if one.pod.key in self._pods]:
            if not (self.habits.keeps or learns):
                self._delete(pod)
            elif pod.spec.node_name and not pod.terminated:
                self.tell(PodSeen(_replaced(pod, status=_replaced(pod.status, phase="Succeeded", conditions=[]))))
        if learns:  # who learns how long work runs has to see that it has succeeded, before it is gone
            self.at(self.now + 2 * max(1.0, self.habits.step), lambda: self._clean_up(key, run))
        elif not self.habits.keeps:
            self._runs.pop(key, None)
            self._forget_object(*key)

    def _clean_up(self, key: WorkloadKey, run: int) -> None:
        """Delete what has succeeded, unless it has begun anew."""
        workload = self.engine.state.workloads.get(key)
        if self._runs.get(key) not in (run, run + 1):  # that it was seen to have ended counts as well
            return
        for pod in [] if workload is None else [self._pods.get(one.pod.key) for one in workload.members()]:
            if pod is not None:
                self._delete(pod)
        self._runs.pop(key, None)
        self._forget_object(*key)

    def _delete(self, pod: Pod) -> None:
        """Have a pod be gone at once."""
        del self._pods[pod.metadata.namespace, pod.metadata.name]
        self._show(PodGone(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))

    def _forget_object(self, kind: str, namespace: str, name: str) -> None:
        if self._objects.pop((kind, namespace, name), None) is not None:
            self._show(ObjectGone(kind, namespace, name))

    def _annotate(self, wanted: AnnotatePod) -> None:
        pod = self._pods.get((wanted.namespace, wanted.name))
        if pod is not None and pod.metadata.uid == wanted.uid:
            merged = {**pod.metadata.annotations, **wanted.annotations}
            kept = {name: said for name, said in merged.items() if said is not None}
            self.tell(PodSeen(_replaced(pod, metadata=_replaced(pod.metadata, annotations=kept))))
        self._show(PodAnnotated(wanted.namespace, wanted.name, wanted.uid, done=True))

    def _deactivate(self, wanted: Deactivate) -> None:
        raw, generation = self._objects.get(("Workload", wanted.namespace, wanted.name)), 0
        if raw is not None:
            generation = int(raw["metadata"].get("generation") or 0) + 1
            meta, spec = {**raw["metadata"], "generation": generation}, {**raw["spec"], "active": False}
            self.tell(ObjectSeen("Workload", {**raw, "metadata": meta, "spec": spec}))
        self._show(Deactivated(wanted.namespace, wanted.name, wanted.uid, generation=generation))

    def _create_group(self, wanted: CreatePodGroup) -> None:
        meta = {
            "name": wanted.name, "namespace": wanted.namespace, "uid": f"made-{wanted.namespace}-{wanted.name}",
            "generation": 1, "creationTimestamp": _time(self.now).isoformat(), "labels": wanted.labels,
        }  # fmt: skip
        self._show(PodGroupWritten(wanted.namespace, wanted.name, done=True))
        self.tell(ObjectSeen("PodGroup", {"metadata": meta, "spec": wanted.spec}))


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
