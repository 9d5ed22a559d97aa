"""What the operator measures as it happens, as Prometheus metrics in a registry of its own.

A registry per process part, not the library's global one: two operators in one test process do not mix. Where a
metric means the same as one of kube-scheduler (1.36, pkg/scheduler/metrics) or Kueue (0.20, pkg/metrics), it has
that name, those labels as far as they are known here, and those buckets, so that dashboards and alerts made for them
go on working; ours begin with `tutti_`. What is read from the engine's state when asked for is in `gauges/`.

What is counted per ClusterQueue, Cohort and LocalQueue is counted once for the lifecycle events of a turn, so that a
series is looked up once per queue and not once per workload. The series of queues and cohorts that are gone are
dropped.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tutti.controller.gauges.waiting import DegradedSeconds
from tutti.controller.plugin_times import PluginTimes
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.kube.counter import PlainCounter
from tutti.kube.histogram import PlainHistogram

Labels = tuple[str, ...]
"""The values of the labels that name a queue, in their order."""

Whose = Callable[[LifecycleEvent], Labels | None]
"""Names the queue that a event counts for; None where it counts for none."""

# Kueue's (pkg/metrics): one second, then doubling from two and a half.
_BUCKETS = (1.0, *(2.5 * 2**i for i in range(13)))
# Between Kueue's reason of a workload that was set inactive and the cause.
_DUE_TO = "DueTo"


class QueueLives:
    """The metrics of one kind of queue.

    Args:
        registry: Serves them.
        prefix: Stands before their names.
        labels: Those that name a queue.
        whose: Names the queue of a event.
    """

    def __init__(self, registry: CollectorRegistry, prefix: str, labels: Sequence[str], *, whose: Whose) -> None:
        self._whose = whose
        self._admitted = Counter(
            f"kueue_{prefix}admitted_workloads", "Workloads admitted: quota and nodes reserved for them.",
            labels, registry=registry,
        )  # fmt: skip
        self._wait = Histogram(
            f"kueue_{prefix}admission_wait_time_seconds", "From creation, or being queued again, to admission.",
            labels, registry=registry, buckets=_BUCKETS,
        )  # fmt: skip
        self._evicted = Counter(
            f"kueue_{prefix}evicted_workloads",
            "Workloads taken out, by reason, and by the cause of being set inactive.",
            [*labels, "reason", "underlying_cause"], registry=registry,
        )  # fmt: skip
        self._finished = Counter(
            f"kueue_{prefix}finished_workloads", "Workloads whose members have ended.", labels, registry=registry
        )
        self._named_by = len(labels)

    def count(self, lifecycle_events: Iterable[LifecycleEvent]) -> None:
        """Count the lifecycle events of a turn."""
        waits: dict[Labels, list[float]] = {}
        evicted: Tally[Labels] = Tally()
        finished: Tally[Labels] = Tally()
        for one in lifecycle_events:
            labels = self._whose(one) if one.step in _COUNTED else None
            if labels is None:
                continue
            if one.step is LifecycleStep.EVICTED:
                reason, _, cause = one.reason.partition(_DUE_TO)
                evicted[*labels, reason, cause] += 1
            elif one.queue:
                if one.step is LifecycleStep.ADMITTED:
                    waits.setdefault(labels, []).append(max(0.0, one.seconds))
                else:
                    finished[labels] += 1
        self._admit(waits)
        for labels, times in evicted.items():
            self._evicted.labels(*labels).inc(times)
        for labels, times in finished.items():
            self._finished.labels(*labels).inc(times)

    def _admit(self, waits: dict[Labels, list[float]]) -> None:
        for labels, seconds in waits.items():
            self._admitted.labels(*labels).inc(len(seconds))
            observe = self._wait.labels(*labels).observe
            for one in seconds:
                observe(one)

    def keep(self, queues: Collection[Labels]) -> None:
        """Drop the series of all queues but these, and but those of workloads without a queue."""
        for metric in (self._admitted, self._wait, self._evicted, self._finished):
            drop_others(metric, queues, self._named_by)


_COUNTED = (LifecycleStep.ADMITTED, LifecycleStep.EVICTED, LifecycleStep.FINISHED)


class CohortLives:
    """How many workloads have been admitted by the queues below each Cohort."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._admitted = Counter(
            "kueue_cohort_subtree_admitted_workloads", "Workloads admitted by the ClusterQueues below a Cohort.",
            ["cohort"], registry=registry,
        )  # fmt: skip

    def count(self, lifecycle_events: Iterable[LifecycleEvent], above: Callable[[str], Iterable[str]]) -> None:
        """Count the lifecycle events of a turn; `above` returns the names of the cohorts above a ClusterQueue."""
        for queue, times in Tally(
            one.queue for one in lifecycle_events if one.step is LifecycleStep.ADMITTED and one.queue
        ).items():
            for cohort in above(queue):
                self._admitted.labels(cohort).inc(times)

    def keep(self, cohorts: Collection[str]) -> None:
        """Drop the series of all cohorts but these."""
        drop_others(self._admitted, {(name,) for name in cohorts}, 1)


def drop_others(metric: Counter | Histogram, known: Collection[Labels], named_by: int) -> None:
    """Drop the series of a metric whose first so many labels are not known, unless the first of them is empty."""
    for labels in _series(metric):
        if labels[0] and labels[:named_by] not in known:
            metric.remove(*labels)


def _series(metric: Counter | Histogram) -> set[Labels]:
    """Return the values of the labels of each series of a metric, in the order they were declared."""
    found = set()
    for family in metric.collect():
        for sample in family.samples:
            found.add(tuple(value for name, value in sample.labels.items() if name != "le"))
    return found


# kube-scheduler's own spacing (1.36, pkg/scheduler/metrics): doubling from a millisecond, here from a quarter of one.
_DECIDE_BUCKETS = tuple(0.00025 * 2**i for i in range(16))
_SPREAD_BUCKETS = tuple(0.001 * 2**i for i in range(16))
_WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
# kube-scheduler's for the whole way of a pod, and for victims.
_SLI_BUCKETS = tuple(0.01 * 2**i for i in range(20))
_VICTIM_BUCKETS = tuple(float(2**i) for i in range(7))
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The metric objects; each is moved by the one part of the shell that knows its value.

    Args:
        local_queues: Whether there are some per LocalQueue, of which a cluster may have thousands.
        clock: Seconds, by which it is measured how long something lasts that is still going on.
    """

    def __init__(self, *, local_queues: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self.observations = Counter(
            "tutti_observations", "What the engine was told, by kind of observation.",
            ["kind"], registry=self.registry,
        )  # fmt: skip
        self.decisions = Counter(
            "tutti_decisions", "What the engine decided, by kind of decision.",
            ["kind"], registry=self.registry,
        )  # fmt: skip
        self.decide_seconds = Histogram(
            "tutti_decide_duration_seconds", "Time one call of the engine took.",
            registry=self.registry, buckets=_DECIDE_BUCKETS,
        )  # fmt: skip
        self.journal_failures = Counter(
            "tutti_journal_failures", "How often the journal has ended because it could not be written.",
            registry=self.registry,
        )  # fmt: skip
        self.part_failures = Counter(
            "tutti_part_failures", "How often a part failed and was begun again; the engine is one.",
            ["part"], registry=self.registry,
        )  # fmt: skip
        self.binds = PlainCounter(
            "tutti_binds", "What became of bind requests, by outcome.",
            ["outcome"], registry=self.registry,
        )  # fmt: skip
        self.evictions = Counter(
            "tutti_evictions", "What became of evictions, by whether they were done.",
            ["done"], registry=self.registry,
        )  # fmt: skip
        self.extender_asks = Counter(
            "tutti_extender_asks", "Calls of HTTP extenders, by what came of them.",
            ["extender", "verb", "outcome"], registry=self.registry,
        )  # fmt: skip
        self.measurements = Counter(
            "tutti_measurements", "Readings of what nodes use, by what came of them.",
            ["outcome"], registry=self.registry,
        )  # fmt: skip
        self.measured_nodes = Gauge(
            "tutti_measured_nodes", "Nodes of which the last reading had figures.", registry=self.registry
        )
        self.plugin_faults = Counter(
            "tutti_plugin_faults", "Failures of users' plugins, each told once a minute.",
            ["plugin", "point"], registry=self.registry,
        )  # fmt: skip
        self.plugin_times = PluginTimes(self.registry)
        self.set_aside = Counter(
            "tutti_set_aside", "Objects set aside because they made the engine raise, each time that one did.",
            ["kind", "during"], registry=self.registry,
        )  # fmt: skip
        self.gang_wait_seconds = PlainHistogram(
            "tutti_gang_wait_seconds", "From the creation of a gang's first pod to the decision to bind it.",
            registry=self.registry, buckets=_WAIT_BUCKETS,
        )  # fmt: skip
        self.bind_spread_seconds = PlainHistogram(
            "tutti_bind_spread_seconds", "From the first to the last finished bind of one gang.",
            registry=self.registry, buckets=_SPREAD_BUCKETS,
        )  # fmt: skip
        self.loop_lag_seconds = Histogram(
            "tutti_event_loop_lag_seconds", "How late the event loop ran a timer.",
            registry=self.registry, buckets=_LAG_BUCKETS,
        )  # fmt: skip
        self.loop_longest_stall_seconds = Gauge(
            "tutti_event_loop_longest_stall_seconds", "Its longest stall in the last minute or two.",
            registry=self.registry,
        )  # fmt: skip
        self.reservation_held_seconds = Histogram(
            "tutti_reservation_held_seconds", "How long a complete reservation was held, by what became of it.",
            ["outcome"], registry=self.registry, buckets=_WAIT_BUCKETS,
        )  # fmt: skip
        self.checks_seconds = Histogram(
            "kueue_admission_checks_wait_time_seconds", "From the reservation of quota to the last Ready check.",
            ["cluster_queue"], registry=self.registry, buckets=_WAIT_BUCKETS,
        )  # fmt: skip
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Workloads for which others had to leave.", registry=self.registry
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims", "Pods that had to leave for one workload.",
            registry=self.registry, buckets=_VICTIM_BUCKETS,
        )  # fmt: skip
        self.pod_scheduling_seconds = PlainHistogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the moment that a pod was first seen without scheduling gates to its bind.",
            registry=self.registry, buckets=_SLI_BUCKETS,
        )  # fmt: skip
        self.admission_attempts = Counter(
            "kueue_admission_attempts", "Turns in which workloads were tried, by whether any was admitted.",
            ["result"], registry=self.registry,
        )  # fmt: skip
        self.admission_attempt_seconds = Histogram(
            "kueue_admission_attempt_duration_seconds", "How long a turn took in which workloads were tried.",
            ["result"], registry=self.registry, buckets=_DECIDE_BUCKETS,
        )  # fmt: skip
        self.preempted = Counter(
            "kueue_preempted_workloads", "Workloads taken out for one of that ClusterQueue, by rule.",
            ["preempting_cluster_queue", "reason"], registry=self.registry,
        )  # fmt: skip
        self.moves = Counter(
            "tutti_consolidations", "Workloads of that ClusterQueue for which pods were to be moved.", ["queue"],
            registry=self.registry,
        )  # fmt: skip
        self.moved_pods = Counter(
            "tutti_consolidation_pods", "Running pods that were to be moved for workloads of that ClusterQueue.",
            ["queue"], registry=self.registry,
        )  # fmt: skip
        self.shard_holdings = Gauge(
            "tutti_shard_holdings", "Nodes, Namespaces, ClusterQueues and Cohorts that this process's shard uses.",
            ["shard", "kind"], registry=self.registry,
        )  # fmt: skip
        self.shard_leaving = Gauge(
            "tutti_shard_leaving", "How many of them are to go to another shard, and have not gone yet.",
            ["shard"], registry=self.registry,
        )  # fmt: skip
        self.of_cluster_queues = QueueLives(self.registry, "", ["cluster_queue"], whose=lambda one: (one.queue,))
        self.of_local_queues = _of_local_queues(self.registry) if local_queues else None
        self.of_cohorts = CohortLives(self.registry)
        self.degraded_seconds = DegradedSeconds(self.registry, clock)


def _of_local_queues(registry: CollectorRegistry) -> QueueLives:
    """Return those per LocalQueue; a workload that names none, or has no ClusterQueue, counts for none."""
    return QueueLives(
        registry,
        "local_queue_",
        ["name", "namespace"],
        whose=lambda one: (one.local_queue, one.workload[1]) if one.queue and one.local_queue else None,
    )
