"""The page of metrics: every family that the operator serves, as it declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.gauges.collector import StateGauges
from tutti.controller.metrics import Metrics
from tutti.controller.object_cache import ObjectCache
from tutti.engine.cycle.engine import Engine
from tutti.kube.metrics import WireMetrics

INTRODUCTION = """# Metrics

Served at `/metrics` of the port in `metrics.secureBindAddress` ([to whom](../security.md#who-reads-metrics)), or
without it in `metrics.bindAddress`, in Prometheus' text format.

![The dashboard](../screens/dashboard.svg)

*`manifests/overlays/monitoring` has this dashboard for Grafana, and [alerts](alerts.md).*

**Names.** Where a metric means the same as one of kube-scheduler (1.36) or Kueue (0.20), it has that name, prefix
included, so that dashboards and alerts made for them show Tutti, too; series are told apart by their `job`. Its labels
are theirs as far as they are known here: `priority_class`, `replica_role` and `attempts` are not. Everything else
begins with `tutti_`. A turn of Tutti's engine is what Kueue calls an admission attempt; quota is reserved and a
workload admitted in one step, so there is one wait for both.

**Not served under their names:** `scheduler_scheduling_attempt_duration_seconds`, since one turn tries many workloads
together (`tutti_decide_duration_seconds` is the time of a turn).

**Per LocalQueue.** `kueue_local_queue_*` is served where the [configuration](configuration.md#metrics) asks for it with
`metrics.localQueues: true`: a cluster may have thousands of them, each with as many series as a ClusterQueue.

**Shares.** `kueue_cluster_queue_weighted_share` and `kueue_cohort_weighted_share` are served where fair sharing is on.

**Units.** Seconds; cores, bytes and devices.

**Replicas.** What is read from the state of queues, workloads and nodes is told by the leader only, so that sums over
all replicas are right. What a process counts as it goes on begins at 0 when it starts.

**Cardinality.** Labels are names of ClusterQueues, cohorts, flavors, resources, Topologies and their levels, profiles,
throttles, words of a fixed set, and users whom a queue limits, 32 of each queue; no pod, workload or node is one, and a
namespace only of throttles and where metrics per LocalQueue are asked for. The series of a queue or cohort end with it.

"""


@dataclass(frozen=True, slots=True)
class Measure:
    """One family of metrics.

    Attributes:
        name: As it is declared, for a counter with `_total`.
        kind: counter, gauge or histogram.
        labels: Its own; `le` and what Prometheus adds are not among them.
        says: What it measures.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that its series have."""
        return tuple(f"{self.name}_{part}" for part in _PARTS) if self.kind == "histogram" else (self.name,)


_PARTS = ("bucket", "sum", "count")


def measures() -> list[Measure]:
    """Return every family, sorted by name."""
    metrics = Metrics(local_queues=True)
    registry = metrics.registry
    WireMetrics(registry)
    engine = Engine(TuttiConfiguration())
    gauges = StateGauges(engine, ObjectCache(), registry, leads=lambda: False, failed=lambda _: None, local_queues=True)
    # The library declares labels, and lists what is registered, in private only.
    declared: list[Any] = [one for one in registry._collector_to_names if one is not gauges]  # noqa: SLF001
    found: list[tuple[Metric, Any]] = [(family, family) for family in gauges.describe()]
    for one in declared:
        found += [(family, one if isinstance(one, MetricWrapperBase) else family) for family in one.describe()]
    return sorted((_measure(*one) for one in found), key=lambda one: one.name)


def _measure(family: Metric, labelled: Any) -> Measure:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Measure(name, family.type, tuple(labelled._labelnames), family.documentation)  # noqa: SLF001


_GROUPS = {
    "kueue_": "ClusterQueues, under Kueue's names",
    "kueue_cohort_": "Cohorts, under Kueue's names",
    "kueue_local_queue_": "LocalQueues, under Kueue's names, where they are asked for",
    "scheduler_": "Pods, under kube-scheduler's names",
    "tutti_kube_": "The wire: writes",
    "tutti_informer_": "The wire: what is listed and watched",
    "tutti_": "Tutti's own",
    "throttle_": "Throttles, under kube-throttler's names",
    "clusterthrottle_": "ClusterThrottles, under kube-throttler's names",
}


def page() -> str:
    """The whole page, in Markdown."""
    found: dict[str, list[Measure]] = {prefix: [] for prefix in _GROUPS}
    for one in measures():
        found[max((prefix for prefix in _GROUPS if one.name.startswith(prefix)), key=len)].append(one)
    parts = [INTRODUCTION]
    for prefix, title in _GROUPS.items():
        parts.append(f"## {title}\n\n| | | labels | |\n|---|---|---|---|\n")
        parts += [_row(one) for one in found[prefix]]
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def _row(one: Measure) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels)
    return f"| `{one.name}` | {one.kind} | {labels} | {one.says} |\n"
