"""`tutti top plugins`: what each filter and score takes to answer for the pods of this cluster, on these nodes.

Measured here, on an engine that was told what was listed, so it costs the operator nothing; of our own plugins as well
as of users' and learned ones. A plugin is asked once for a class of equal pods with all nodes, and its answer is
often kept: what stands here is what it costs when it has to be asked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.api.messages import counted
from tutti.cli.views.drawing import BAD, QUIET, PageWidth, table
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.engine.core_state import CoreState
from tutti.engine.records.workloads import ADMITTED
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.extensions import UserFilter, UserScore
from tutti.placement.plugins.policy_score import PolicyScore
from tutti.placement.profile import Profile, features_of

MOST_CLASSES = 20
"""Classes of pods that are asked about in each profile."""
_TIMES = 5
_SLOW_PART = 0.5
_FOREIGN = (UserFilter, UserScore, PolicyScore)
_FIRST = np.ones(1, dtype=np.int64)


class PluginCost(msgspec.Struct, frozen=True, rename="camel"):
    """What one plugin takes at one extension point.

    Attributes:
        own: Whether it is Tutti's; else a user's, or learned.
        classes: Of how many classes of pods it was asked.
        seconds: What a call takes, the mean over these classes.
        part: Of what all plugins of the profile take for all classes, of 1.
    """

    profile: str
    plugin: str
    point: str
    own: bool
    classes: int
    seconds: float
    part: float


class PluginCosts(msgspec.Struct, frozen=True, rename="camel"):
    """What all of them take, the most first; `left_out` classes of pods were not asked about."""

    plugins: tuple[PluginCost, ...]
    nodes: int
    classes: int
    left_out: int


@dataclass(frozen=True, slots=True)
class _Call:
    """One question to a plugin."""

    plugin: object
    point: str
    ask: Callable[[], object]

    @property
    def name(self) -> str:
        """What it is called."""
        return str(getattr(self.plugin, "name", type(self.plugin).__name__))


def plugin_costs(state: CoreState, clock: Callable[[], float]) -> PluginCosts:
    """Return what plugins take, measured.

    Args:
        state: Of an engine that was told of the cluster.
        clock: Seconds.
    """
    by_profile = _classes(state)
    found: list[PluginCost] = []
    asked = left_out = 0
    for scheduler, classes in by_profile.items():
        profile = state.profiles[scheduler]
        took: dict[tuple[str, str, bool], list[float]] = {}
        for pod_class in classes[:MOST_CLASSES]:
            for call in _calls(profile, pod_class, state.cluster.nodes):
                key = (call.name, call.point, not isinstance(call.plugin, _FOREIGN))
                took.setdefault(key, []).append(_seconds(call, pod_class, clock))
        whole = sum(map(sum, took.values()))
        for (name, point, own), times in took.items():
            part = sum(times) / whole if whole else 0.0
            found.append(PluginCost(scheduler, name, point, own, len(times), statistics.fmean(times), part))
        asked += min(len(classes), MOST_CLASSES)
        left_out += max(0, len(classes) - MOST_CLASSES)
    found.sort(key=lambda one: (one.profile, -one.part, one.plugin, one.point))
    return PluginCosts(tuple(found), state.cluster.nodes.count, asked, left_out)


def _classes(state: CoreState) -> dict[str, list[PodClass]]:
    """Return the classes of pods of each profile: of workloads that wait, before those of others."""
    found: dict[str, dict[PodClass, None]] = {name: {} for name in state.profiles}
    for workload in sorted(state.workloads.values(), key=lambda one: (one.phase in ADMITTED, one.key)):
        if workload.scheduler in found:
            found[workload.scheduler].update(dict.fromkeys(one.pod.pod_class for one in workload.members()))
    return {name: list(classes) for name, classes in found.items()}


def _calls(profile: Profile, pod_class: PodClass, nodes: NodeColumns) -> Iterator[_Call]:
    """Yield what is asked of each plugin that the class concerns."""
    features = features_of(pod_class, nodes) | Feature.TAINTS | Feature.CORDONS
    rows = np.flatnonzero(nodes.present)
    for alone in (*profile.filters, *profile.late):
        if alone.concerns & features:
            yield _Call(alone, "filter", lambda one=alone: one.rejections(pod_class, nodes, NO_FLAVOR))  # type: ignore[misc]
    around = (profile.ports, profile.fit, *profile.volumes, *profile.inter_pod, profile.devices)
    for among in around:
        if among.concerns & features:
            yield _Call(among, "filter", lambda one=among: _rejections(one.pre_filter(pod_class, nodes, NO_FLAVOR)))  # type: ignore[misc]
    for fill in profile.fill_of(pod_class):
        yield _Call(fill, "score", lambda one=fill: one.scores(pod_class, nodes, rows, _FIRST))  # type: ignore[misc]
    for preference in (*profile.preferences, *profile.changing):
        if preference.concerns & features:
            yield _Call(preference, "score", lambda one=preference: one.points(pod_class, nodes))  # type: ignore[misc]
    for near in profile.neighbours:
        if near.concerns & features:
            yield _Call(near, "score", lambda one=near: _neighbours(one.pre_score(pod_class, nodes), rows))  # type: ignore[misc]


def _rejections(found: object) -> object:
    return None if found is None else found.rejections()  # type: ignore[attr-defined]


def _neighbours(found: object, rows: object) -> object:
    return None if found is None else found.scores(rows)  # type: ignore[attr-defined]


def _seconds(call: _Call, pod_class: PodClass, clock: Callable[[], float]) -> float:
    """Return the median of several calls, of which none finds what another has kept."""
    times = []
    for _ in range(_TIMES):
        pod_class.cache.clear()
        began = clock()
        call.ask()
        times.append(clock() - began)
    return statistics.median(times)


def draw_costs(found: PluginCosts, page: PageWidth) -> RenderableType:
    """Draw it: a line for each plugin and extension point, those of others marked."""
    if not found.plugins:
        return Text("There are no pods to ask the plugins about.")
    numbers = ("ASKED", "EACH ms", "PART")
    rows = table("PROFILE", "PLUGIN", "POINT", *numbers, "", right=numbers, page=page)
    for one in found.plugins:
        slow = not one.own and one.part >= _SLOW_PART
        colour = BAD if slow else ""
        rows.add_row(
            Text(one.profile), Text(one.plugin, colour), one.point, str(one.classes), f"{1000 * one.seconds:,.3f}",
            Text(f"{one.part:.0%}", colour), Text("" if one.own else "not Tutti's own", QUIET),
        )  # fmt: skip
    many = "1 class" if found.classes == 1 else f"{found.classes} classes"
    said = f"asked about {many} of equal pods on "
    lines = [f"{said}{counted(found.nodes, 'node')}; an answer is kept while nothing changed that it depends on"]
    lines += [f"{found.left_out} more classes were not asked about"] if found.left_out else []
    return Group(rows, Text(), *(Text(line, QUIET) for line in lines))
