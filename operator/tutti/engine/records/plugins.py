"""What plugins of users are asked about workloads, and their host.

They are asked whose turn it is, and whether a complete reservation may bind. As with filters and scores, a plugin is
a pure function of what it is handed: a replay asks it again and compares. One that raises, or answers with something
else than its contract says, never stops the engine: the failure is noted for the shell to log and count, and whoever
asked goes on without the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, runtime_checkable

from tutti.cluster.class_book import ClassBook
from tutti.engine.records.decisions import NotePluginFault
from tutti.placement.extension import (
    FilterPlugin,
    PluginCall,
    Pods,
    PolicyPlugin,
    ReadsPodLabels,
    Rooms,
    ScorePlugin,
    Stopwatch,
)
from tutti.placement.framework import Rows
from tutti.placement.plugins.extensions import UserFilter, UserScore
from tutti.placement.plugins.policy_score import PolicyScore
from tutti.placement.policy_file import LearnedPolicy, UnreadPolicy
from tutti.placement.profile import Profile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload as sort and permit plugins see it.

    Attributes:
        kind: Workload, PodGroup, or Pod for a single pod.
        queue: Its LocalQueue, or "".
        priority: Of its object, or its pods.
        created: Unix seconds.
        annotations: Of its object and its first pod, the object's first; only keys named by `ReadsAnnotations`.
    """

    kind: str
    namespace: str
    name: str
    queue: str
    priority: int
    created: float
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods of one class and where room is reserved for them: int64[m], one row per pod."""

    pods: Pods
    rows: Rows


@dataclass(frozen=True, slots=True)
class Reservation:
    """A complete reservation: every required pod of a workload has its node.

    Attributes:
        held_seconds: How long this plugin has held it.
        joins: Whether these are members that join a gang that runs, or is being bound: they cannot be held, and what
            is not let go is given back.
    """

    workload: Waiting
    placed: Sequence[Placed]
    held_seconds: float = 0.0
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Go:
    """The reservation may bind."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The reservation is held.

    Attributes:
        reason: What it is held for, a sentence that says what would let it go.
        timeout_seconds: When it is given back, counted from when the plugin first held it.
        again_after_seconds: When to ask again though nothing has changed; 0: only when something has.
    """

    reason: str
    timeout_seconds: float = 300.0
    again_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """The reservation is given back at once, and the workload is tried again after its backoff."""

    reason: str


Verdict = Go | Wait | Refuse


@runtime_checkable
class SortPlugin(Protocol):
    """Puts waiting workloads in order, before priority and age; all profiles have the same one, or none."""

    def sort(self, workload: Waiting) -> float:
        """Return its place: less is sooner. Equals go by priority, then age, then name.

        It is asked when something about the workload was seen, so the place cannot go by the time of day.
        """
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Holds complete reservations until they may bind."""

    def permit(self, reservation: Reservation, rooms: Rooms, now: float) -> Verdict:
        """Decide on a reservation; what it takes is in `rooms` already.

        Asked once it is complete, and while it is held whenever room or quota was given back, something about the
        workload was seen, or `again_after_seconds` is over. Members that join a running gang are asked about too; they
        are not held, but given back and tried again later.

        Args:
            reservation: Who, and where.
            rooms: All nodes with what is taken there.
            now: Unix seconds.
        """
        ...


@runtime_checkable
class ReadsAnnotations(Protocol):
    """A sort or permit plugin that reads annotations of workloads."""

    @property
    def annotations(self) -> Sequence[str]:
        """The keys that it reads; no others are kept."""
        ...


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin that a profile has enabled.

    Attributes:
        name: Of its entry point.
        weight: Of its score.
    """

    name: str
    plugin: object
    weight: int = 1


Plugins = Mapping[str, Sequence[Enabled]]
"""The plugins of each profile by its schedulerName, in the order in which they are asked."""


def checksums(plugins: Plugins) -> dict[str, str]:
    """Return the checksum of the learned policy of each profile that has one; "" where its file cannot be used."""
    found = {}
    for scheduler, enabled in plugins.items():
        for one in enabled:
            if isinstance(one.plugin, LearnedPolicy | UnreadPolicy):
                found[scheduler] = one.plugin.checksum
    return found


FAULT_REFRESH_SECONDS = 60.0
"""How long the same failure of a plugin is not told again."""

_MOST_TOLD = 1000

LAST = float("inf")
"""The place of a workload that the sort plugin could not answer for: behind all others."""


@dataclass(frozen=True, slots=True)
class EnabledPermit:
    """A permit plugin of a profile, by its schedulerName."""

    name: str
    profile: str
    plugin: PermitPlugin


@dataclass(frozen=True, slots=True)
class PluginHold:
    """A reservation that a plugin holds.

    Attributes:
        since: Unix seconds.
        reason: What it is held for.
    """

    plugin: str
    since: float
    reason: str = ""


class PluginHost:
    """The plugins' host.

    Attributes:
        now: The time of this turn, Unix seconds.
        recheck_at: When those that wait for nodes, or are held, must be looked at again; None: no plugin wants it.
        reads: The annotations that plugins read.
    """

    def __init__(self, plugins: Plugins, classes: ClassBook, stopwatch: Stopwatch | None = None) -> None:
        self.now = 0.0
        self.recheck_at: float | None = None
        self._plugins, self._stopwatch = plugins, stopwatch
        self._faults: list[NotePluginFault] = []
        self._told: dict[NotePluginFault, float] = {}
        every = [one for enabled in plugins.values() for one in enabled]
        named = ((scheduler, one) for scheduler, enabled in plugins.items() for one in enabled)
        sorting = ((who, one.name, one.plugin) for who, one in named if isinstance(one.plugin, SortPlugin))
        self._sort = next(sorting, None)
        readers = [one.plugin for one in every if isinstance(one.plugin, ReadsAnnotations)]
        self.reads = frozenset(key for plugin in readers for key in plugin.annotations)
        for one in every:
            if isinstance(one.plugin, ReadsPodLabels):
                classes.watch(one.plugin.pod_labels)

    def extended(self, scheduler: str, profile: Profile) -> Profile:
        """Return a profile with the filters and scores that users have added to it."""
        added = self._plugins.get(scheduler, ())
        filters = [
            UserFilter(one.name, scheduler, one.plugin, self) for one in added if isinstance(one.plugin, FilterPlugin)
        ]
        scores = [
            UserScore(one.name, one.weight, scheduler, one.plugin, self)
            for one in added
            if isinstance(one.plugin, ScorePlugin)
        ]
        policies = [
            PolicyScore(one.name, one.weight, scheduler, one.plugin, self)
            for one in added
            if isinstance(one.plugin, PolicyPlugin)
        ]
        if not (filters or scores or policies):
            return profile
        return replace(
            profile,
            inter_pod=(*profile.inter_pod, *filters),
            fill=(*profile.fill, *policies),
            changing=(*profile.changing, *scores),
        )

    def permits(self, scheduler: str) -> list[EnabledPermit]:
        """Return the permit plugins of a profile, in the order in which they are asked."""
        added = self._plugins.get(scheduler, ())
        return [EnabledPermit(one.name, scheduler, one.plugin) for one in added if isinstance(one.plugin, PermitPlugin)]

    @property
    def sorts(self) -> bool:
        """Whether there is a sort plugin."""
        return self._sort is not None

    def annotations_read(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Return those annotations that a plugin reads."""
        if not self.reads:
            return _NONE
        return {key: value for key, value in annotations.items() if key in self.reads}

    def rank(self, workload: Waiting) -> float:
        """Return the place that the sort plugin gives a workload; 0 for all where there is none."""
        if self._sort is None:
            return 0.0
        profile, name, plugin = self._sort
        try:
            place = self.timed(PluginCall(profile, name, "sort"), lambda: float(plugin.sort(workload)))
        except Exception as error:  # noqa: BLE001 - foreign code; the workload goes behind the others
            self.fault(name, "sort", f"{type(error).__name__}: {error}")
            return LAST
        if place != place:  # noqa: PLR0124 - not a number, which has no place in an order
            self.fault(name, "sort", f"it gave {workload.namespace}/{workload.name} no number as its place")
            return LAST
        return place

    def timed(self, asked: PluginCall, call: Callable[[], T]) -> T:
        """Call a plugin; who runs the engine may measure it."""
        return call() if self._stopwatch is None else self._stopwatch(asked, call)

    def fault(self, plugin: str, point: str, message: str) -> None:
        """Note that a plugin has failed at an extension point; equal failures are told once a minute."""
        fault = NotePluginFault(plugin, point, message)
        if self.now - self._told.get(fault, -FAULT_REFRESH_SECONDS) < FAULT_REFRESH_SECONDS:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[fault] = self.now
        self._faults.append(fault)

    def take_faults(self) -> list[NotePluginFault]:
        """Return what has failed since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def recheck(self, at: float) -> None:
        """Have those that wait for nodes, or are held, looked at again at a time, Unix seconds."""
        self.recheck_at = at if self.recheck_at is None else min(self.recheck_at, at)


_NONE: Mapping[str, str] = {}
