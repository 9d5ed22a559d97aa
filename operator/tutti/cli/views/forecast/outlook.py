"""What becomes of everybody from now on: the engine that operators run decides, and time passes as fast as it can.

It is known when work ends whose run time is limited, by that limit; other work runs on, unless the caller says how
long. Nobody comes who is not there yet. So a start that is told is one at the latest as far as limits are kept, and one
that is not told may come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutti.api.core import Pod
from tutti.api.messages import counted
from tutti.api.owners import controller_of
from tutti.cli.views.forecast.changes import AskedChange
from tutti.cli.views.forecast.model import Course, Forecast, ForecastCourse, ForecastWorkload
from tutti.cli.views.forecast.sentences import summary_of
from tutti.cli.views.what_if import ObservedCluster, waits_for
from tutti.engine.lifecycle.limits import ends_at
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.workloads import ADMITTED, Phase, Workload, WorkloadKey
from tutti.virtual_time.cluster import Habits, VirtualCluster

MOST_TURNS = 20_000
"""How often the engine may decide in one outlook."""
_IDLE_WAKEUPS = 300
"""How often an engine that nothing happens to may look at its own times before that counts as the end."""
_JUST_NOW = 2.0
"""Seconds within which a start counts as one at once."""
_STARTED = (Phase.BINDING, Phase.SCHEDULED)
_ENDED = (Phase.FINISHED,)


@dataclass(slots=True)
class _Fate:
    """What was seen of one workload."""

    pods: int
    cluster_queue: str
    ran: bool = False
    starts_at: float | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    members: int = 0
    members_at: float | None = None
    displaced_at: float | None = None
    displaced_for: str = ""
    waits: tuple[str, str, str] = ("", "", "")


@dataclass(slots=True)
class Outlook:
    """How everybody fares.

    Attributes:
        fates: By workload.
        until: How far it was looked, Unix seconds.
        notes: What is left out of it.
    """

    fates: dict[WorkloadKey, _Fate]
    until: float
    notes: list[str]


def outlook(
    asked: ObservedCluster, changes: Sequence[AskedChange], *, horizon: float, run_seconds: float | None
) -> Outlook:
    """Return how everybody fares once some changes were made.

    Args:
        asked: The cluster, and when it was listed.
        changes: Made at once, in this order.
        horizon: How many seconds from then on are looked at.
        run_seconds: How long work runs of which that is not known; None: for ever.

    Raises:
        StuckError: The engine asks for ever to be called again (a fault of ours).
    """
    return _Looking(asked, horizon, run_seconds).look(changes)


class _Looking:
    """One outlook."""

    def __init__(self, asked: ObservedCluster, horizon: float, run_seconds: float | None) -> None:
        self._asked, self._end, self._run_seconds = asked, asked.at + horizon, run_seconds
        self._engine = asked.stock()
        habits = Habits(self._lasts, _comes_again, keeps=True)
        self._cluster = VirtualCluster(self._engine, asked.at, habits)
        self._cluster.heard = self._hear
        self._sized: dict[WorkloadKey, None] = {}
        self._cluster.sized = self._resized
        self._fates: dict[WorkloadKey, _Fate] = {}
        self._unlimited: set[WorkloadKey] = set()
        self._broken: dict[WorkloadKey, int] = {}

    def look(self, changes: Sequence[AskedChange]) -> Outlook:
        cluster, state = self._cluster, self._engine.state
        cluster.adopt(self._asked.listed.seen)
        for key, workload in list(state.workloads.items()):
            fate = self._fate(workload)
            fate.ran, fate.members = workload.phase in _STARTED, sum(_places_of(workload).values())
            if workload.phase in _STARTED:
                cluster.runs(key)
        for change in changes:
            self._hit(change)
            for one in change.seen:
                cluster.tell(one)
        cluster.settle()
        self._look_around()
        idle = 0
        while cluster.turns < MOST_TURNS and idle < _IDLE_WAKEUPS and cluster.advance(self._end):
            self._look_around()
            idle = idle + 1 if cluster.quiet else 0
        cut = cluster.turns >= MOST_TURNS
        for workload in state.workloads.values():
            self._last(workload)
        self._join_single()
        return Outlook(self._fates, cluster.now if cut else self._end, self._notes(cut=cut))

    def _fate(self, workload: Workload) -> _Fate:
        found = self._fates.get(workload.key)
        if found is None:
            found = self._fates[workload.key] = _Fate(workload.counts().live, workload.cluster_queue)
        return found

    def _lasts(self, workload: Workload) -> float | None:
        end = ends_at(self._engine.state, workload)
        if end is not None:
            return end - self._cluster.now
        self._unlimited.add(workload.key)
        return self._run_seconds

    def _hear(self, event: LifecycleEvent) -> None:
        workload = self._engine.state.workloads.get(event.workload)
        if workload is None:
            return
        fate, now = self._fate(workload), self._cluster.now
        starts = event.step is LifecycleStep.SCHEDULED
        if event.step is LifecycleStep.ADMITTED and workload.managed is not None:
            starts = True  # its pods are made by somebody who is not here
        if event.workload in self._broken:
            return
        if starts and fate.starts_at is None and (not fate.ran or fate.displaced_at is not None):
            self._note_start(workload)
        elif event.step is LifecycleStep.EVICTED and fate.displaced_at is None and fate.ran:
            fate.displaced_at = now
            fate.displaced_for = "" if workload.evicted is None else workload.evicted.message

    def _hit(self, change: AskedChange) -> None:
        """Note whose pods lose their node by a change itself."""
        groups = self._engine.state.pod_group_of
        for key in {groups[pod][0] for pod in change.leave if pod in groups}:
            workload = self._engine.state.workloads[key]
            fate = self._fate(workload)
            fate.displaced_at, fate.displaced_for = self._cluster.now, change.what
            self._broken[key] = workload.counts().live

    def _look_around(self) -> None:
        """Note what the last moment has brought, once all that belongs to it has happened."""
        self._mend()
        self._measure()

    def _resized(self, key: WorkloadKey) -> None:
        self._sized[key] = None

    def _measure(self) -> None:
        """Note how many members those have whose members have changed, and where those stand that have just started."""
        sized, self._sized = self._sized, {}
        for key in sized:
            workload = self._engine.state.workloads.get(key)
            if workload is None:
                continue
            fate, places = self._fate(workload), _places_of(workload)
            if sum(places.values()) > fate.members:
                fate.members, fate.members_at = sum(places.values()), self._cluster.now
            if fate.starts_at == self._cluster.now:
                fate.nodes = places  # a gang may have grown since its first members had their nodes

    def _mend(self) -> None:
        """Note which of those are whole again: with as many members as before, all of them bound."""
        for key, before in list(self._broken.items()):
            workload = self._engine.state.workloads.get(key)
            if workload is None or workload.phase is not Phase.SCHEDULED or workload.degraded_since is not None:
                continue
            tally = workload.counts()
            if tally.live >= before and not tally.waiting:
                del self._broken[key]
                self._note_start(workload)

    def _join_single(self) -> None:
        """Tell of a single pod that is made again as one workload, though another pod has another name."""
        for key in [key for key in self._broken if key[0] == "Pod"]:
            again = self._fates.pop((key[0], key[1], f"{key[2]}+1"), None)
            if again is not None:
                fate = self._fates[key]
                fate.starts_at, fate.nodes, fate.waits = again.starts_at, again.nodes, again.waits
                fate.members = max(fate.members, again.members)

    def _note_start(self, workload: Workload) -> None:
        fate = self._fate(workload)
        fate.starts_at, fate.nodes = self._cluster.now, _places_of(workload)

    def _last(self, workload: Workload) -> None:
        """Note what a workload still waits for when nobody looks any further."""
        fate = self._fate(workload)
        fate.pods = fate.pods or workload.counts().live
        fate.cluster_queue = fate.cluster_queue or workload.cluster_queue
        why = None if workload.phase in (*ADMITTED, *_ENDED) else waits_for(workload)
        if why is not None and fate.starts_at is None:
            fate.waits = (why.gate.value, why.reason, why.plain)

    def _notes(self, *, cut: bool) -> list[str]:
        notes = []
        if self._unlimited and self._run_seconds is None:
            named = counted(len(self._unlimited), "workload")
            notes.append(
                f"nobody knows when {named} will end: no limit is set, so they run on (--run-time says otherwise)"
            )
        for what, count in sorted(self._cluster.unplayed.items()):
            notes.append(f"{count} {what} is decided and not played here: who waits for what comes of it waits on")
        if cut:
            notes.append(f"it was looked no further than {MOST_TURNS} turns of the engine")
        return notes


def _places_of(workload: Workload) -> dict[str, int]:
    """Return how many of its pods that have not ended are on, or on their way to, which node."""
    placed = (one.pod.place for one in workload.members() if one.pod.place and not one.pod.terminated)
    return dict(sorted(Counter(placed).items()))


def _comes_again(pod: Pod) -> bool:
    return controller_of(pod.metadata.owner_references) is not None


def forecast(
    asked: ObservedCluster, changes: Sequence[AskedChange], *, horizon: float, run_seconds: float | None
) -> Forecast:
    """Return what some changes would do, beside how it goes on without them.

    Args:
        asked: The cluster.
        changes: What is asked about.
        horizon: How many seconds are looked at.
        run_seconds: How long work runs of which that is not known; None: for ever.

    Raises:
        StuckError: As `outlook`.
    """
    before = outlook(asked, (), horizon=horizon, run_seconds=run_seconds)
    after = outlook(asked, changes, horizon=horizon, run_seconds=run_seconds)
    submitted = {key for change in changes for key in change.submits}
    told: list[ForecastWorkload] = []
    same = 0
    for key in sorted({*before.fates, *after.fates}):
        one = _beside(key, before.fates, after.fates, asked.at, asked=key in submitted)
        if one.asked or not _alike(one.before, one.after):
            told.append(one)
        else:
            same += 1
    told.sort(key=lambda one: (not one.asked, _RANK[one.after.course], one.namespace, one.name))
    notes = [note for change in changes for note in change.notes] + after.notes
    return Forecast(
        changes=tuple(change.what for change in changes),
        summary=tuple(summary_of(told, asked.at)),
        workloads=tuple(told),
        same=same,
        at=asked.at,
        until=after.until,
        notes=tuple(dict.fromkeys(notes)),
    )


_RANK = {
    course: rank
    for rank, course in enumerate(
        (Course.DISPLACED, Course.WAITS, Course.LATER, Course.NOW, Course.RUNS, Course.ABSENT)
    )
}


def _beside(
    key: WorkloadKey,
    before: Mapping[WorkloadKey, _Fate],
    after: Mapping[WorkloadKey, _Fate],
    now: float,
    *,
    asked: bool,
) -> ForecastWorkload:
    known = after.get(key) or before[key]
    kind, namespace, name = key
    return ForecastWorkload(
        kind=kind,
        namespace=namespace,
        name=name,
        cluster_queue=known.cluster_queue,
        pods=known.pods,
        asked=asked,
        before=_course(before.get(key), now),
        after=_course(after.get(key), now),
    )


def _course(fate: _Fate | None, now: float) -> ForecastCourse:
    if fate is None:
        return ForecastCourse(course=Course.ABSENT)
    gate, reason, message = fate.waits
    if fate.displaced_at is not None:
        course = Course.DISPLACED
    elif fate.ran:
        course = Course.RUNS
    elif fate.starts_at is None:
        course = Course.WAITS
    else:
        course = Course.NOW if fate.starts_at - now <= _JUST_NOW else Course.LATER
    return ForecastCourse(
        course=course,
        starts_at=fate.starts_at,
        nodes=fate.nodes if fate.starts_at is not None else {},
        members=fate.members,
        members_at=fate.members_at,
        displaced_at=fate.displaced_at,
        displaced_for=fate.displaced_for,
        gate=gate,
        reason=reason,
        message=message,
    )


def _alike(before: ForecastCourse, after: ForecastCourse) -> bool:
    """Whether a workload fares the same; on which nodes, and in which words, makes no difference."""
    if (before.course, before.reason, before.members) != (after.course, after.reason, after.members):
        return False
    times = (
        (before.starts_at, after.starts_at),
        (before.displaced_at, after.displaced_at),
        (before.members_at, after.members_at),
    )
    return all(
        (one is None) == (other is None) and abs((one or 0.0) - (other or 0.0)) < _JUST_NOW for one, other in times
    )
