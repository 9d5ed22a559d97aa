"""The users' plugins that profiles have enabled, and what the engine keeps for them.

A plugin that raises, or answers with something else than its contract says, never stops the engine: the failure is
noted for the shell to log and count, and whoever asked goes on without the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tutti.cluster.classes import ClassBook
from tutti.engine.records.decisions import NotePluginFault
from tutti.engine.records.extension import Enabled, PermitPlugin, ReadsAnnotations, SortPlugin, Waiting
from tutti.placement.extension import FilterPlugin, ReadsPodLabels, ScorePlugin
from tutti.placement.plugins.extensions import UserFilter, UserScore
from tutti.placement.profile import Profile

Plugins = Mapping[str, Sequence[Enabled]]
"""The plugins of each profile by its schedulerName, in the order in which they are asked."""

RETELL_SECONDS = 60.0
"""How long the same failure of a plugin is not told again."""

_MOST_TOLD = 1000

LAST = float("inf")
"""The place of a workload that the sort plugin could not answer for: behind all others."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit plugin of a profile."""

    name: str
    plugin: PermitPlugin


@dataclass(frozen=True, slots=True)
class Held:
    """A reservation that a plugin holds.

    Attributes:
        since: Unix seconds.
        reason: What it is held for.
    """

    plugin: str
    since: float
    reason: str = ""


class Hosting:
    """The plugins' host.

    Attributes:
        now: The time of this turn, Unix seconds.
        recheck_at: When those that wait for nodes, or are held, must be looked at again; None: no plugin wants it.
        reads: The annotations that plugins read.
    """

    def __init__(self, plugins: Plugins, classes: ClassBook) -> None:
        self.now = 0.0
        self.recheck_at: float | None = None
        self._plugins = plugins
        self._faults: list[NotePluginFault] = []
        self._told: dict[NotePluginFault, float] = {}
        every = [one for enabled in plugins.values() for one in enabled]
        self._sort = next(((one.name, one.plugin) for one in every if isinstance(one.plugin, SortPlugin)), None)
        readers = [one.plugin for one in every if isinstance(one.plugin, ReadsAnnotations)]
        self.reads = frozenset(key for plugin in readers for key in plugin.annotations)
        for one in every:
            if isinstance(one.plugin, ReadsPodLabels):
                classes.watch(one.plugin.pod_labels)

    def extended(self, scheduler: str, profile: Profile) -> Profile:
        """Return a profile with the filters and scores that users have added to it."""
        added = self._plugins.get(scheduler, ())
        filters = [UserFilter(one.name, one.plugin, self) for one in added if isinstance(one.plugin, FilterPlugin)]
        scores = [
            UserScore(one.name, one.weight, one.plugin, self) for one in added if isinstance(one.plugin, ScorePlugin)
        ]
        if not (filters or scores):
            return profile
        return replace(profile, company=(*profile.company, *filters), changing=(*profile.changing, *scores))

    def permits(self, scheduler: str) -> list[Permit]:
        """Return the permit plugins of a profile, in the order in which they are asked."""
        added = self._plugins.get(scheduler, ())
        return [Permit(one.name, one.plugin) for one in added if isinstance(one.plugin, PermitPlugin)]

    @property
    def sorts(self) -> bool:
        """Whether there is a sort plugin."""
        return self._sort is not None

    def noted(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Return those annotations that a plugin reads."""
        if not self.reads:
            return _NONE
        return {key: value for key, value in annotations.items() if key in self.reads}

    def rank(self, workload: Waiting) -> float:
        """Return the place that the sort plugin gives a workload; 0 for all where there is none."""
        if self._sort is None:
            return 0.0
        name, plugin = self._sort
        try:
            place = float(plugin.sort(workload))
        except Exception as error:  # noqa: BLE001 - foreign code; the workload goes behind the others
            self.fault(name, "sort", f"{type(error).__name__}: {error}")
            return LAST
        if place != place:  # noqa: PLR0124 - not a number, which has no place in an order
            self.fault(name, "sort", f"it gave {workload.namespace}/{workload.name} no number as its place")
            return LAST
        return place

    def fault(self, plugin: str, point: str, message: str) -> None:
        """Note that a plugin has failed at an extension point; equal failures are told once a minute."""
        fault = NotePluginFault(plugin, point, message)
        if self.now - self._told.get(fault, -RETELL_SECONDS) < RETELL_SECONDS:
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
