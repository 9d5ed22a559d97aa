"""Nodes are scored by what they were measured to use, and by what is expected of those who came since.

As the originals compute them (`docs/howto/load.md` says where ours differ): Trimaran's TargetLoadPacking,
LoadVariationRiskBalancing, LowRiskOverCommitment and Peaks (scheduler-plugins pkg/trimaran), koordinator's
LoadAwareScheduling, Volcano's usage. Each is asked for the 1st, 2nd, ... pod of a class on a node, so that a gang does
not herd to the node that was idle when it was measured. Of a node whose figures are missing or too old nobody has an
opinion: it counts as much as the average of the nodes that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.expected_use import CPU, MEMORY, NAMES, FreshColumn
from tutti.cluster.load import LoadColumns
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, Rows, Scores
from tutti.placement.plugins.load_risk import Commitment, MeasuredAmounts, overcommit_risk, variation_score

Floats = NDArray[np.float64]
Policy = Literal[
    "TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "LeastUsed", "Usage", "Peaks"
]

METRICS: Final = (("cpu", "cpu-deviation"), ("memory", "memory-deviation"))
"""What is measured of a resource, and by how much it varied; percent of what the machine has."""

_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class PowerModel:
    """What a machine draws at `x` percent of its cpu: k0 + k1 * e^(k2 * x), in watts (Peaks)."""

    k0: float
    k1: float
    k2: float


@dataclass(frozen=True, slots=True)
class LoadRules:
    """The numbers of all policies.

    Attributes:
        max_age: For how many seconds a measurement counts.
        target: TargetLoadPacking's percentage of cpu up to which a node is filled before others.
        margin, sensitivity: LoadVariationRiskBalancing's.
        window: Over how many measurements LowRiskOverCommitment takes a deviation to have been smoothed.
        limit_weights: What LowRiskOverCommitment gives the risk of limits: cpu and memory.
        weights: What LeastUsed and Usage give cpu and memory.
        dominant_weight: What LeastUsed gives the resource of which least is left.
        power: Peaks' models by flavor label value; under "" that of all other nodes.
        power_label: The node label whose value names the model.
    """

    max_age: float = 180.0
    target: int = 40
    margin: float = 1.0
    sensitivity: float = 1.0
    window: int = 5
    limit_weights: tuple[float, float] = (0.5, 0.5)
    weights: tuple[float, float] = (1.0, 1.0)
    dominant_weight: float = 0.0
    power: tuple[tuple[str, PowerModel], ...] = ()
    power_label: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The score.

    Attributes:
        policy: By whose rule.
        rules: Its numbers.
    """

    policy: Policy
    rules: LoadRules = LoadRules()
    name: str = "MeasuredLoad"
    weight: int = 1

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Return int64[m, k] in 0..MAX_SCORE, or None where no node has figures that count."""
        known = self._known(nodes)
        if known is None:
            return None
        if self.policy == "Peaks":
            return self._by_power(pod_class, nodes, rows, nth, known)
        points = self.points(pod_class, nodes, rows, nth)
        here = known[rows]
        if not here.all():
            usual = self._usual(pod_class, nodes, np.flatnonzero(known))
            points = np.where(here, points, usual)
        return points.astype(np.int64)

    def _known(self, nodes: NodeColumns) -> NDArray[np.bool_] | None:
        """Return bool[rows], which nodes have figures that count, for as long as that holds; None where none has."""

        def found() -> NDArray[np.bool_] | None:
            known = self.is_known(nodes)
            return known if known.any() else None

        return nodes.keep(("known load", self), (nodes.load.version, nodes.load.now, nodes.version), found)

    def is_known(self, nodes: NodeColumns) -> NDArray[np.bool_]:
        """Return bool[rows]: which nodes have figures that are young enough and that the policy goes by."""
        load, many = nodes.load, len(nodes)
        known = nodes.present & (load.ages()[:many] <= self.rules.max_age)
        if self.policy == "LowRiskOverCommitment":  # limits are a risk whatever was measured
            return known
        asked = METRICS[:1] if self.policy in ("TargetLoadPacking", "Peaks") else METRICS
        any_of = np.zeros(many, dtype=np.bool_)
        for names in asked:
            for name in names if self.policy == "LoadVariationRiskBalancing" else names[:1]:
                column = load.values(name)
                if column is not None:
                    any_of |= ~np.isnan(column[:many])
        return known & any_of

    def goes_on(self, nodes: NodeColumns) -> bool:
        """Whether the k-th pod more scores what the next one does once k-1 are there, whatever is on other nodes.

        Most policies estimate who comes otherwise than who has come, and nodes without figures go by all others.
        """
        if self.policy != "LeastUsed":
            return False
        known = self._known(nodes)
        return known is None or np.array_equal(known, nodes.present)

    def points(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Floats:
        """Return float64[m, k] in 0..MAX_SCORE: what the policy gives nodes that are known."""
        many = nth[:, None]
        if self.policy == "TargetLoadPacking":
            return self._by_target(pod_class, nodes.load, rows, many)
        if self.policy == "LoadVariationRiskBalancing":
            return self._by_variation(pod_class, nodes, rows, many)
        if self.policy == "LowRiskOverCommitment":
            return self._by_commitment(pod_class, nodes, rows, many)
        return self._by_use(pod_class, nodes, rows, many)

    def _usual(self, pod_class: PodClass, nodes: NodeColumns, known: Rows) -> int:
        """Return what the average node that is known gets for one more pod."""
        stamp = (nodes.load.version, nodes.load.now, len(nodes))

        def mean() -> int:
            first = np.ones(1, dtype=np.int64)
            return int(self.points(pod_class, nodes, known, first).mean())

        return pod_class.keep(("usual load", self), stamp, mean)

    def _by_target(self, pod_class: PodClass, load: LoadColumns, rows: Rows, many: Counts) -> Floats:
        capacity, target = load.capacity[rows, CPU].astype(np.float64), float(self.rules.target)
        more = load.use_of(pod_class).fresh[FreshColumn.PREDICTED] * many
        used = measured_of(load, "cpu", rows) / _PERCENT * capacity + load.fresh[rows, FreshColumn.PREDICTED]
        share = np.where(capacity > 0, _PERCENT * (used + more) / np.maximum(capacity, 1), 0.0)
        rising = half_up((_PERCENT - target) * share / target + target)
        falling = half_up(target * (_PERCENT - share) / (_PERCENT - target))
        return np.where(share > _PERCENT, 0.0, np.where(share <= target, rising, falling))

    def _by_variation(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, many: Counts) -> Floats:
        load, lowest = nodes.load, np.full((len(many), len(rows)), np.inf)
        for at in (CPU, MEMORY):
            used, deviation = self._used(nodes, at, rows)
            more = load.use_of(pod_class).requests[at] * many + _unmeasured(load, at, rows)
            offered = np.broadcast_to(offered_of(nodes, at, rows), lowest.shape)
            said = MeasuredAmounts(offered, more.astype(np.float64), np.nan_to_num(used), np.nan_to_num(deviation))
            score = variation_score(said, self.rules.margin, self.rules.sensitivity)
            lowest = np.where(np.isnan(used) & np.isnan(deviation), lowest, np.minimum(lowest, score))
        return half_up(np.where(np.isinf(lowest), 0.0, lowest))

    def _by_commitment(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, many: Counts) -> Floats:
        if nodes.load.use_of(pod_class).is_nothing:
            return np.zeros((len(many), len(rows)))
        worst = np.zeros((len(many), len(rows)))
        for at in (CPU, MEMORY):
            worst = np.maximum(worst, self.commitment_risk(pod_class, nodes, at, rows, many))
        return half_up(_PERCENT * (1 - worst))

    def commitment_risk(self, pod_class: PodClass, nodes: NodeColumns, at: int, rows: Rows, many: Counts) -> Floats:
        """Return float64[m, k]: LowRiskOverCommitment's risk of one resource, with the 1st, 2nd, ... pod more."""
        load = nodes.load
        use, offered = load.use_of(pod_class), offered_of(nodes, at, rows)
        used, deviation = self._used(nodes, at, rows)
        lone = np.isnan(used) & ~np.isnan(deviation)
        used = np.where(lone, 0.0, used)
        request = (load.requests[rows, at] + use.requests[at] * many).astype(np.float64)
        limit = (load.limits[rows, at] + use.limits[at] * many).astype(np.float64)
        shape = request.shape
        of = Commitment(
            np.broadcast_to(offered, shape), request, limit, request - use.requests[at], limit - use.limits[at]
        )
        return overcommit_risk(
            of,
            np.broadcast_to(used, shape),
            np.broadcast_to(deviation, shape),
            self.rules.window,
            self.rules.limit_weights[at],
        )

    def _by_use(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, many: Counts) -> Floats:
        left = [self._left(pod_class, nodes, at, rows, many) for at in (CPU, MEMORY)]
        if self.policy == "Usage":
            return half_up(weighted_mean(left, self.rules.weights))
        if not self.rules.dominant_weight:
            return np.floor(weighted_mean(left, self.rules.weights))
        least = np.minimum(*left)
        return np.floor(weighted_mean([*left, least], (*self.rules.weights, self.rules.dominant_weight)))

    def _left(self, pod_class: PodClass, nodes: NodeColumns, at: int, rows: Rows, many: Counts) -> Floats:
        """Return float64[m, k]: percent of a resource that would be left, by koordinator's or Volcano's estimates."""
        load = nodes.load
        if self.policy == "Usage":
            return MAX_SCORE * (1 - utilization(pod_class, nodes, at, rows, many - 1, self.rules.weights))
        offered, column = offered_of(nodes, at, rows), FreshColumn.SCALED + at
        used = load.measured_amounts(at)[rows] + load.fresh[rows, column]
        left: Floats = used + load.use_of(pod_class).fresh[column] * many
        np.maximum(np.subtract(offered, left, out=left), 0, out=left)
        left *= MAX_SCORE
        left /= np.maximum(offered, 1)
        np.floor(left, out=left)
        left[:, offered <= 0] = 0.0
        return left

    def _used(self, nodes: NodeColumns, at: int, rows: Rows) -> tuple[Floats, Floats]:
        """Return float64[k] twice: what was measured of a resource in its unit, and its deviation; NaN: neither."""
        offered = offered_of(nodes, at, rows) / _PERCENT
        mean, deviation = METRICS[at]
        return measured_of(nodes.load, mean, rows) * offered, measured_of(nodes.load, deviation, rows) * offered

    def _by_power(
        self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts, known: NDArray[np.bool_]
    ) -> Scores | None:
        """Return int64[m, k]: most where the next pod costs fewest watts, over all nodes that have figures and a model.

        What goes beyond what a machine has costs more than anything; who has no model counts as the average.
        """
        everywhere = np.flatnonzero(known)
        first = self.watts(pod_class, nodes, everywhere, np.ones((1, 1), dtype=np.int64))[0]
        told = np.isfinite(first)
        if not told.any():
            return None
        least, most = float(first[told].min()), float(first[told].max())
        usual = normalised_watts(np.array([first[told].mean()]), least, most)[0]
        raw = self.watts(pod_class, nodes, rows, nth[:, None])
        scores = normalised_watts(np.nan_to_num(raw, nan=least, posinf=most), least, most)
        scores = np.where(np.isposinf(raw), 0.0, scores)
        return np.where(np.isnan(raw) | ~known[rows], usual, scores).astype(np.int64)

    def watts(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, many: Counts) -> Floats:
        """Return float64[m, k]: what the `many`-th pod draws more; NaN without a model, inf beyond what there is."""
        load = nodes.load
        capacity = np.maximum(load.capacity[rows, CPU], 1).astype(np.float64)
        request = float(load.use_of(pod_class).drawing)
        before = measured_of(load, "cpu", rows) + _PERCENT * _unmeasured(load, CPU, rows) / capacity
        step = _PERCENT * request / capacity
        k1, k2 = self._models(nodes, rows)
        start, end = before + step * (many - 1), before + step * many
        return np.where(end > _PERCENT, np.where(np.isnan(k1), np.nan, np.inf), more_watts(k1, k2, start, end))

    def _models(self, nodes: NodeColumns, rows: Rows) -> tuple[Floats, Floats]:
        models = dict(self.rules.power)
        usual = models.get("")
        blank = (np.nan, np.nan) if usual is None else (usual.k1, usual.k2)
        found = np.tile(np.array(blank), (len(nodes), 1))
        if self.rules.power_label:
            column = nodes.label(self.rules.power_label)
            for code, value in enumerate(column.values):
                if value in models:
                    found[column.codes[: len(nodes)] == code] = (models[value].k1, models[value].k2)
        return found[rows, 0], found[rows, 1]


def more_watts(k1: Floats, k2: Floats, before: Floats, after: Floats) -> Floats:
    """Return what a machine draws more at `after` percent of its cpu than at `before`, in watts (Peaks)."""
    with np.errstate(over="ignore", invalid="ignore"):
        more: Floats = k1 * (np.exp(k2 * after) - np.exp(k2 * before))
    return more


def normalised_watts(raw: Floats, least: float, most: float) -> Floats:
    """Return 0..MAX_SCORE: most where least is drawn (Peaks, whose numbers are whole and 1e15 times as large)."""
    if most == least:
        return np.full(raw.shape, float(MAX_SCORE) if most else 0.0)
    return MAX_SCORE - np.trunc(np.clip(MAX_SCORE * (raw - least) / (most - least), 0, MAX_SCORE))


def utilization(
    pod_class: PodClass, nodes: NodeColumns, at: int, rows: Rows, more: Counts, weights: tuple[float, float]
) -> Floats:
    """Return float64[m, k]: what is used as a part of 1, by Volcano's estimates with so many pods more."""
    load, expected = nodes.load, nodes.load.use_of(pod_class).fresh
    capacity = load.capacity[rows].astype(np.float64)
    measured = [np.nan_to_num(measured_of(load, name, rows)) for name in NAMES]
    waiting = load.fresh[rows]
    calm = [used_part(measured[one], waiting[:, FreshColumn.CALM + one], capacity[:, one]) for one in (CPU, MEMORY)]
    together = composite_load(calm[CPU], calm[MEMORY], weights)
    hot = risk_factors(together, load.estimates.risk_load, load.estimates.risk_factor) > 1
    here = np.where(hot, waiting[:, FreshColumn.HOT + at], waiting[:, FreshColumn.CALM + at])
    each = np.where(hot, expected[FreshColumn.HOT + at], expected[FreshColumn.CALM + at])
    return used_part(measured[at], here + each * more, capacity[:, at])


def used_part(percent: Floats, waiting: Floats, capacity: Floats) -> Floats:
    """Return what is used of a resource as a part of 1: what was measured, in percent, and what nobody has measured."""
    used = percent / _PERCENT * capacity + waiting
    return np.where(capacity > 0, np.clip(used / np.maximum(capacity, 1), 0, 1), 0.0)


def risk_factors(load: Floats, threshold: float, factor: float) -> Floats:
    """Return by how much more pods are expected to use where a node is loaded already, never less (Volcano)."""
    return np.where(load >= threshold, max(factor, 1.0), 1.0)


def weighted_mean(values: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """Return the mean of several arrays by weight; 0 where none has any."""
    total, mean = sum(weights), np.zeros(values[0].shape)
    if not total:
        return mean
    for weight, one in zip(weights, values, strict=True):
        mean += weight * one
    mean /= total
    return mean


def composite_load(cpu: Floats, memory: Floats, weights: tuple[float, float] = (1.0, 1.0)) -> Floats:
    """Return the load of both together as a part of 1 (Volcano); 0 where neither has any weight."""
    total = sum(weights)
    return (weights[0] * cpu + weights[1] * memory) / total if total else np.zeros_like(cpu)


def offered_of(nodes: NodeColumns, at: int, rows: Rows) -> Floats:
    """Return float64[k]: what nodes offer to pods of cpu or memory."""
    offered: Floats = nodes.allocatable[rows, nodes.resource_index.column(NAMES[at])].astype(np.float64)
    return offered


def measured_of(load: LoadColumns, metric: str, rows: Rows) -> Floats:
    """Return float64[k]: percent; NaN where nothing was measured."""
    column = load.values(metric)
    return np.full(len(rows), np.nan) if column is None else column[rows]


def _unmeasured(load: LoadColumns, at: int, rows: Rows) -> Floats:
    """Return float64[k]: what is expected of those that no measurement holds, in the unit of the resource."""
    expected: Floats = load.fresh[rows, FreshColumn.PREDICTED if at == CPU else FreshColumn.SCALED + MEMORY]
    return expected


def half_up(values: Floats) -> Floats:
    """Return numbers rounded, halves away from zero, as Go's math.Round does."""
    return np.copysign(np.floor(np.abs(values) + 0.5), values)
