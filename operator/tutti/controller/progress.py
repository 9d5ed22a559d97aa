"""What becomes of workloads, told to machines and people: a metric and a log line for each milestone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import structlog

from tutti.api.kinds import LocalQueue
from tutti.controller.gauges.degraded import degraded_since
from tutti.controller.metrics import Metrics
from tutti.controller.queue_metrics import drop_others
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.state import State

log = structlog.get_logger(__name__)

_EVENTS = {
    LifecycleStep.ADMITTED: "workload_admitted",
    LifecycleStep.LET_GO: "reservation_let_go",
    LifecycleStep.GIVEN_BACK: "reservation_given_back",
    LifecycleStep.SCHEDULED: "workload_scheduled",
    LifecycleStep.MAKES_ROOM: "victims_chosen",
    LifecycleStep.DEGRADED: "workload_degraded",
    LifecycleStep.RECOVERED: "workload_recovered",
    LifecycleStep.EVICTED: "eviction_begun",  # `pod_evicted` tells what has been done
    LifecycleStep.SPARED: "workload_spared",
    LifecycleStep.FINISHED: "workload_finished",
}
# Of a single pod without a queue one line is enough: that it was scheduled. There may be thousands in a second.
_QUIET = (LifecycleStep.ADMITTED, LifecycleStep.FINISHED)


class Progressing(Protocol):
    """An engine, as far as it is asked what has become of workloads."""

    @property
    def state(self) -> State:
        """What it knows."""

    @property
    def milestones(self) -> list[LifecycleEvent]:
        """What workloads came to in the last turn."""


class Progress:
    """Counts, times and logs the milestones of each turn."""

    def __init__(self, engine: Progressing, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._tried = 0
        self._catalog = 0

    def turned(self, seconds: float) -> None:
        """Tell what the last turn has brought, which took so many seconds."""
        state, milestones = self._engine.state, self._engine.milestones
        self._tell_tries(state, milestones, seconds)
        self._metrics.degraded_seconds.follow(queue for queue, _ in degraded_since(state))
        if milestones:
            self._count(state, milestones)
            for milestone in milestones:
                self._measure(milestone)
            tell(milestones)
        if self._catalog != state.catalog.version:
            self._catalog = state.catalog.version
            self._forget(state)

    def _count(self, state: State, milestones: Sequence[LifecycleEvent]) -> None:
        queues = state.holdings.tree.queues
        self._metrics.of_cluster_queues.count(milestones)
        if self._metrics.of_local_queues is not None:
            self._metrics.of_local_queues.count(milestones)

        def above(queue: str) -> list[str]:
            return [cohort.name for cohort in queues[queue].ancestors()] if queue in queues else []

        self._metrics.of_cohorts.count(milestones, above)

    def _forget(self, state: State) -> None:
        """Drop the series of queues and cohorts that are gone."""
        metrics, names = self._metrics, {(name,) for name in state.catalog.queues}
        metrics.of_cluster_queues.keep(names)
        metrics.degraded_seconds.keep(state.catalog.queues)
        drop_others(metrics.preempted, names, 1)
        metrics.of_cohorts.keep(state.holdings.tree.cohorts)
        if metrics.of_local_queues is not None:
            doors = (one.metadata for one in state.catalog.all(LocalQueue))
            metrics.of_local_queues.keep({(door.name, door.namespace) for door in doors})

    def _tell_tries(self, state: State, milestones: Sequence[LifecycleEvent], seconds: float) -> None:
        before, self._tried = self._tried, sum(state.tried.values())
        if self._tried == before:
            return
        admitted = any(one.step is LifecycleStep.ADMITTED for one in milestones)
        result = "success" if admitted else "inadmissible"
        self._metrics.admission_attempts.labels(result).inc()
        self._metrics.admission_attempt_seconds.labels(result).observe(seconds)

    def _measure(self, one: LifecycleEvent) -> None:
        metrics = self._metrics
        match one.step:
            case LifecycleStep.LET_GO:
                metrics.reservation_held_seconds.labels("bound").observe(one.seconds)
            case LifecycleStep.GIVEN_BACK:
                metrics.reservation_held_seconds.labels("given_back").observe(one.seconds)
            case LifecycleStep.MAKES_ROOM:
                metrics.preemption_attempts.inc()
                metrics.preemption_victims.observe(one.pods)
            case LifecycleStep.EVICTED if one.rule:
                metrics.preempted.labels(one.for_queue, one.rule).inc()
            case _:
                pass


def tell(milestones: Sequence[LifecycleEvent]) -> None:
    """Log what workloads have come to."""
    say = log.bind()  # once, because the lazy logger binds anew for each line
    for one in milestones:
        kind, namespace, name = one.workload
        more: dict[str, Any] = {"queue": one.queue} if one.queue else {}
        if one.reason:
            more["reason"] = one.reason
        if one.rule:
            more |= {"rule": one.rule, "for_queue": one.for_queue}
        put = say.debug if kind == "Pod" and not one.queue and one.step in _QUIET else say.info
        put(
            _EVENTS[one.step],
            kind=kind,
            namespace=namespace,
            name=name,
            pods=one.pods,
            seconds=round(one.seconds, 3),
            **more,
        )
