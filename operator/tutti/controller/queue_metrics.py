"""What is counted of the lives of workloads, per ClusterQueue, Cohort and LocalQueue, under Kueue's names (0.20).

The milestones of a turn are counted together, so that a series is looked up once per queue and not once per workload.
The series of queues and cohorts that are gone are dropped.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep

Labels = tuple[str, ...]
"""The values of the labels that name a queue, in their order."""

Whose = Callable[[LifecycleEvent], Labels | None]
"""Names the queue that a milestone counts for; None where it counts for none."""

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
        whose: Names the queue of a milestone.
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

    def count(self, milestones: Iterable[LifecycleEvent]) -> None:
        """Count the milestones of a turn."""
        waits: dict[Labels, list[float]] = {}
        evicted: Tally[Labels] = Tally()
        finished: Tally[Labels] = Tally()
        for one in milestones:
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

    def count(self, milestones: Iterable[LifecycleEvent], above: Callable[[str], Iterable[str]]) -> None:
        """Count the milestones of a turn; `above` returns the names of the cohorts above a ClusterQueue."""
        for queue, times in Tally(
            one.queue for one in milestones if one.step is LifecycleStep.ADMITTED and one.queue
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
