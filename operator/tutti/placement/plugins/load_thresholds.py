"""Nodes are ruled out by what they were measured to use, where it asks for that with what is expected of pods since.

The rule is koordinator's (pkg/scheduler/plugins/loadaware, `filterNodeUsage`): the rounded percentage of what a node
offers to pods. With estimates it counts what was measured, what is expected of each pod that no measurement holds, and
the pod itself; so a gang of equal pods is told beforehand how many of it a node takes. Where nothing was measured, or
too long ago, nobody is ruled out; nor where a node offers nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.expected_use import NAMES, FreshColumn
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, FixedRejections, FlavorConstraints, Mask, Rejection
from tutti.placement.plugins.measured_load import half_up, measured_of, offered_of

Floats = NDArray[np.float64]

_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """What nodes are expected to use of a resource, in its unit.

    Attributes:
        metric, bound: Of what, and how many whole percent of it nodes may use.
        offered: float64[rows], what they offer.
        used: float64[rows], what was measured and what is expected of pods since; NaN where nothing is known.
        each: What one more pod of the class is expected to use.
    """

    metric: str
    bound: float
    offered: Floats
    used: Floats
    each: float

    def percent(self, pods: Counts | int) -> Floats:
        """Return float64[rows]: the whole percentage with so many more pods there; -inf where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = half_up((self.used + self.each * pods) / self.offered * _PERCENT)
        return np.where(np.isfinite(share), share, -np.inf)

    def room(self, most: int) -> Counts:
        """Return int64[rows]: how many more pods of the class each node takes, up to `most`."""
        if not self.each:
            return np.where(self.percent(0) > self.bound, 0, most)
        highest = (np.floor(self.bound) + 0.5) / _PERCENT * self.offered
        guess = np.clip(np.nan_to_num((highest - self.used) / self.each, nan=most), 0, most).astype(np.int64)
        guess -= self.percent(guess) > self.bound  # it is rounded, so it may be one too many
        guess += self.percent(guess + 1) <= self.bound
        return np.where((self.offered > 0) & np.isfinite(self.used), np.clip(guess, 0, most), most)


@dataclass(slots=True)
class ExpectedLoadState:
    """How many more pods of a class each node takes; this is told beforehand, so nothing changes.

    Attributes:
        said: What is said of nodes beyond what was measured alone.
        expected: The resources of which estimates count as well.
    """

    said: Sequence[Rejection]
    expected: Sequence[ExpectedLoad]
    changes_on_add: bool = False
    one_per_node: bool = False

    def room(self, most: int) -> Counts:
        """Return int64[rows]: how many more pods of the class each node takes, up to `most`."""
        room = self.expected[0].room(most)
        for one in self.expected[1:]:
            room = np.minimum(room, one.room(most))
        for beyond in self.said:
            room[beyond.rows] = 0
        return room

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes beyond a threshold; never for good, for load falls."""
        each = ((one, one.percent(1) > one.bound) for one in self.expected)
        return [
            *self.said,
            *(Rejection(f"expected {one.metric} above {one.bound:g}", rows) for one, rows in each if rows.any()),
        ]

    def add(self, row: int) -> None:
        """Nothing: `room` has said how many there may be."""


@dataclass(frozen=True, slots=True)
class LoadThresholds:
    """The filter: nodes whose figures are above (or below) a bound take no new pods.

    Attributes:
        above, below: Bounds by metric.
        max_age: For how many seconds a measurement counts.
        expected: Bounds above of cpu and memory for which estimates count as well.
    """

    above: tuple[tuple[str, float], ...] = ()
    below: tuple[tuple[str, float], ...] = ()
    max_age: float = 180.0
    expected: tuple[tuple[str, float], ...] = ()
    concerns: int = field(default=Feature.ANY, init=False)

    def pre_filter(
        self,
        pod_class: PodClass,
        nodes: NodeColumns,
        where: FlavorConstraints,  # noqa: ARG002 - a filter's signature
    ) -> FixedRejections | ExpectedLoadState | None:
        """Compare what was measured; None where no node is beyond anything."""
        said = self._said(nodes)
        if not self.expected:
            return FixedRejections(said) if said else None  # no pod placed here and now changes what was measured
        use = nodes.load.use_of(pod_class).fresh
        return ExpectedLoadState(said, self._expected(nodes, [float(use[FreshColumn.SCALED + at]) for at in (0, 1)]))

    def beyond(self, nodes: NodeColumns) -> Mask:
        """Return bool[rows]: which nodes take no new pods, by what was measured alone."""
        out = np.zeros(len(nodes), dtype=np.bool_)
        for one in self._said(nodes):
            out |= one.rows
        return out

    def headroom(self, nodes: NodeColumns) -> Floats:
        """Return float64[rows]: how many percent nodes are below the bounds for which estimates count; inf: any."""
        left = np.full(len(nodes), np.inf)
        for one in self._expected(nodes, (0.0, 0.0)):
            left = np.minimum(left, one.bound - one.percent(0))
        return left

    def _young(self, nodes: NodeColumns) -> Mask:
        young: Mask = nodes.present & (nodes.load.ages()[: len(nodes)] <= self.max_age)
        return young

    def _expected(self, nodes: NodeColumns, each: Sequence[float]) -> list[ExpectedLoad]:
        load, rows, young = nodes.load, np.arange(len(nodes)), self._young(nodes)
        found = []
        for metric, bound in self.expected:
            at = NAMES.index(metric)
            used = np.round(measured_of(load, metric, rows) / _PERCENT * load.capacity[rows, at])
            used = np.where(young, used + load.fresh[rows, FreshColumn.SCALED + at], np.nan)
            found.append(ExpectedLoad(metric, bound, offered_of(nodes, at, rows), used, each[at]))
        return found

    def _said(self, nodes: NodeColumns) -> list[Rejection]:
        young, said = self._young(nodes), []
        for bounds, sign, word in ((self.above, 1, "above"), (self.below, -1, "below")):
            for metric, bound in bounds:
                found = self._column(nodes, metric)
                beyond = (
                    None if found is None else young & (sign * np.nan_to_num(found, nan=sign * -np.inf) > sign * bound)
                )
                if beyond is not None and beyond.any():
                    said.append(Rejection(f"measured {metric} {word} {bound:g}", beyond))
        return said

    def _column(self, nodes: NodeColumns, metric: str) -> Floats | None:
        """Return float64[rows]: a metric; cpu and memory as whole percent of what nodes offer, NaN where nothing."""
        column = nodes.load.values(metric)
        if column is None or metric not in NAMES:
            return None if column is None else column[: len(nodes)]
        at, rows = NAMES.index(metric), np.arange(len(nodes))
        offered = offered_of(nodes, at, rows)
        used = column[: len(nodes)] * nodes.load.capacity[: len(nodes), at]
        return np.where(offered > 0, half_up(used / np.maximum(offered, 1)), np.nan)
