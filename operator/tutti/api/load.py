"""What is measured of nodes and where that is read, and how a profile goes by it, as an administrator writes it.

Names and defaults are those of the plugins whose rules are followed (scheduler-plugins' Trimaran, koordinator,
Volcano), so that settings move here one by one.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from tutti.api.model import LabelKey, Model, ValidationRule

MetricName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""The name of something that is measured: `cpu`, `memory`, their deviations, or one of your own."""

MOST_QUERIES: Final = 24
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Bound = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]

USUAL_QUERIES: Final = {
    "cpu": "100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode='idle'}[10m])))",
    "cpu-deviation": "100 * stddev_over_time((1 - avg by (instance) "
    "(rate(node_cpu_seconds_total{mode='idle'}[2m])))[10m:1m])",
    "memory": "100 * (1 - avg_over_time(node_memory_MemAvailable_bytes[10m]) / node_memory_MemTotal_bytes)",
    "memory-deviation": "100 * stddev_over_time(node_memory_MemAvailable_bytes[10m]) / node_memory_MemTotal_bytes",
}
"""What is asked of Prometheus where nothing else is said: node_exporter's figures, percent of the machine."""

WHOLE: Final = 100
"""Percent of the whole machine."""
SERVER_METRICS: Final = ("cpu", "memory")
"""What is measured where metrics.k8s.io is asked."""


def _are_different(values: Sequence[Hashable]) -> bool:
    return len(set(values)) == len(values)


class ResourceShares(Model):
    """A number for cpu and one for memory, each from 0 to 1."""

    cpu: Share = 0.5
    """That of cpu."""
    memory: Share = 0.5
    """That of memory."""


class ResourceAmounts(Model):
    """How much cpu and memory count."""

    cpu: Amount = 1.0
    """How much cpu does."""
    memory: Amount = 1.0
    """How much memory does."""


class ScalingFactors(Model):
    """How much of cpu and memory is used, in percent of the larger of limit and request."""

    cpu: Amount = 85
    """Of cpu."""
    memory: Amount = 70
    """Of memory."""


class LoadEstimates(Model):
    """What pods are expected to use that no measurement holds yet."""

    default_requests_multiplier: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.5
    """TargetLoadPacking: what a request of cpu without a limit is multiplied with."""
    default_requests_milli_cpu: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1000
    """TargetLoadPacking: what a container uses that says neither, in thousandths of a core."""
    estimated_scaling_factors: ScalingFactors = ScalingFactors()
    """LeastUsed: percent of the larger of limit and request; what is left out keeps its default (koordinator)."""
    request_ratio: Amount = 0.7
    """Usage: how much of a request is used, as a part of 1."""
    burst_ratio: Amount = 0.0
    """Usage: how much of what a limit is above the request is used."""
    risk_factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.2
    """Usage: by how much more on a node that is loaded already."""
    risk_load: Share = 0.6
    """Usage: from which load on it is, cpu and memory together, as a part of 1."""


class Measurements(Model):
    """Where it is read what nodes use; left out, nothing is measured."""

    source: Literal["MetricsServer", "Prometheus"] = "MetricsServer"
    """MetricsServer: metrics.k8s.io, cpu and memory without deviations. Prometheus: what queries say."""
    address: Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s]+$")] | None = None
    """Prometheus' address, `http://prometheus.monitoring:9090`."""
    node_label: Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=63)] = "instance"
    """The label of a result that names the node; a port after the name is left out."""
    queries: Annotated[
        dict[MetricName, Annotated[str, Field(min_length=1, max_length=4096)]], Field(max_length=MOST_QUERIES)
    ] = {}
    """What is asked for each metric; `cpu`, `memory`, `cpu-deviation` and `memory-deviation` are percent of the
    machine, and have usual queries unless they stand here. Others, such as `temperature`, are for thresholds."""
    interval_seconds: Annotated[int, Field(ge=5, le=3600)] = 30
    """How often it is read."""
    unmeasured_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """A pod that started less than so long before a measurement counts as not in it yet."""
    estimates: LoadEstimates = LoadEstimates()
    RULES: ClassVar = (
        ValidationRule(
            message="address is Prometheus' and goes with source Prometheus, which needs it",
            holds=lambda it: (it.address is not None) == (it.source == "Prometheus"),
        ),
        ValidationRule(
            message="queries go with source Prometheus only",
            holds=lambda it: not it.queries or it.source == "Prometheus",
        ),
    )

    @property
    def asked(self) -> dict[str, str]:
        """What is asked of Prometheus, by metric."""
        return {**USUAL_QUERIES, **self.queries}


class LoadThreshold(Model):
    """Nodes beyond a bound take no new pods."""

    metric: MetricName
    """What was measured; `cpu` and `memory` are whole percent of what a node offers to pods."""
    above: Bound | None = None
    """Nodes that are above it are ruled out."""
    below: Bound | None = None
    """Nodes that are below it are ruled out."""
    count_expected: bool = False
    """Whether cpu or memory counts with what is expected of pods that no measurement holds, and of the pod itself, so
    that a gang does not fill a node that was idle when it was measured (koordinator)."""

    @model_validator(mode="after")
    def check_bound(self) -> LoadThreshold:
        """A bound on one side."""
        if (self.above is None) == (self.below is None):
            raise ValueError(f"the threshold of {self.metric} needs either above or below")
        if self.count_expected and (self.above is None or self.metric not in SERVER_METRICS):
            raise ValueError(
                "countExpected goes with above, and with cpu or memory only: of others nothing is expected"
            )
        return self


class PowerModelSettings(Model):
    """What a kind of machine draws at x percent of its cpu: k0 + k1 * e^(k2 * x) watts."""

    value: Annotated[str, Field(max_length=63)] = ""
    """The value of the label that names this kind; left out, all nodes that have no other."""
    k0: Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)] = 0.0
    """What is drawn in any case, in watts."""
    k1: Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
    """By how much it grows, in watts."""
    k2: Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]
    """How fast it grows with the load."""


class Power(Model):
    """What machines draw."""

    node_label: LabelKey | None = None
    """The label whose values name kinds of machines."""
    models: Annotated[list[PowerModelSettings], Field(min_length=1, max_length=64)]
    """One for each kind of machine."""
    RULES: ClassVar = (
        ValidationRule(
            message="two models have the same value of the node label",
            holds=lambda it: _are_different([one.value for one in it.models]),
        ),
        ValidationRule(
            message="a model that names a value needs nodeLabel",
            holds=lambda it: it.node_label is not None or not any(one.value for one in it.models),
        ),
    )


class LoadArgs(Model):
    """Goes by what nodes were measured to use; needs `measurements`."""

    policy: (
        Literal[
            "TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "LeastUsed", "Usage", "Peaks"
        ]
        | None
    ) = None
    """Which nodes are better. TargetLoadPacking: those nearest below targetUtilization of cpu.
    LoadVariationRiskBalancing: those that are used little and evenly. LowRiskOverCommitment: those whose pods are
    least likely to need more than there is. LeastUsed: koordinator's rule. Usage: Volcano's. Peaks: those on which a
    pod draws fewest watts. Left out: none is."""
    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """Against the other scores, of which each has up to 100 points by its own weight."""
    max_age_seconds: Annotated[int, Field(ge=1, le=86400)] = 180
    """After how long a measurement says nothing any more."""
    target_utilization: Annotated[int, Field(ge=1, le=99)] = 40
    """TargetLoadPacking: percent of cpu up to which a node is filled before others."""
    safe_variance_margin: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """LoadVariationRiskBalancing: what deviations are multiplied with."""
    safe_variance_sensitivity: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """LoadVariationRiskBalancing: the root that is taken of deviations; 0: only what varies wholly counts."""
    smoothing_window_size: Annotated[int, Field(ge=1, le=1000)] = 5
    """LowRiskOverCommitment: over how many measurements a deviation was smoothed."""
    risk_limit_weights: ResourceShares = ResourceShares()
    """LowRiskOverCommitment: how much the risk of limits counts, the rest being that of the measured load."""
    resource_weights: ResourceAmounts = ResourceAmounts()
    """LeastUsed, Usage: how much cpu and memory count."""
    dominant_resource_weight: Amount = 0.0
    """LeastUsed: how much the resource counts once more of which least is left."""
    power: Power | None = None
    """Peaks: what machines draw."""
    thresholds: Annotated[list[LoadThreshold], Field(max_length=16)] = []
    """Nodes beyond any of these take no new pods; load falls, so nobody is taken out for it."""
    RULES: ClassVar = (
        ValidationRule(
            message="policy Peaks needs power, and power goes with it only",
            holds=lambda it: (it.power is not None) == (it.policy == "Peaks"),
        ),
        ValidationRule(
            message="load needs a policy, or thresholds",
            holds=lambda it: it.policy is not None or bool(it.thresholds),
        ),
    )


def load_problem(load: LoadArgs, measurements: Measurements) -> str:
    """Return what of a profile's load could never be as it says, by what is measured; "" where all of it can."""
    by_server = measurements.source == "MetricsServer"
    if by_server and load.policy == "LoadVariationRiskBalancing":
        return f"policy {load.policy} goes by deviations, which MetricsServer has not; name source Prometheus"
    measured = SERVER_METRICS if by_server else tuple(measurements.asked)
    for one in load.thresholds:
        if one.metric not in measured:
            near = difflib.get_close_matches(one.metric, measured, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            more = "others need source Prometheus" if by_server else "give others a query under measurements.queries"
            return f"nothing measures {one.metric}{hint}: measured are {', '.join(measured)}; {more}"
        if one.metric in USUAL_QUERIES and one.above is not None and not 0 <= one.above < WHOLE:
            return f"{one.metric} is percent of the machine: above must be at least 0 and less than 100"
        if one.metric in USUAL_QUERIES and one.below is not None and not 0 < one.below <= WHOLE:
            return f"{one.metric} is percent of the machine: below must be more than 0 and at most 100"
    return ""
