"""What becomes of workloads, told to machines and people: metrics and a log line for each event of a turn.

Measured besides: how long pods and gangs wait to be bound, and how far apart the binds of a gang finish.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tutti.api.core import Pod
from tutti.api.kinds import LocalQueue
from tutti.controller.gauges.waiting import degraded_since
from tutti.controller.logs import details_are_told, tell_together
from tutti.controller.metrics import Metrics, drop_others
from tutti.engine.records.decisions import Bind
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.status import StatusState

_NO_TIME: Final = float("inf")


@dataclass(slots=True)
class _Waits:
    """A pod without a node, in Unix seconds.

    Attributes:
        created: When it was made.
        queued: When it was first seen without scheduling gates; None while it has some.
    """

    created: float
    queued: float | None


@dataclass(slots=True)
class _Sent:
    """The binds of one gang that went out together."""

    unanswered: int
    first: float | None = None


class GangTimes:
    """Measures from pods as they are seen and binds as they are decided and answered."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.perf_counter,
    ) -> None:
        # Looked up once: these are moved for every pod that is bound.
        self._observe_wait = metrics.gang_wait_seconds.observe
        self._observe_whole = metrics.pod_scheduling_seconds.observe
        self._observe_spread = metrics.bind_spread_seconds.observe
        self._clock = clock
        self._ticks = ticks
        self._waiting: dict[tuple[str, str], _Waits] = {}
        self._queued: dict[tuple[str, str], float] = {}
        self._sent: dict[str, _Sent] = {}

    def seen(self, pod: Pod) -> None:
        """Note since when a pod waits; one that has a node or has ended waits no longer."""
        key = (pod.metadata.namespace, pod.metadata.name)
        if pod.spec.node_name or pod.terminated:
            self._waiting.pop(key, None)
            return
        known = self._waiting.get(key)
        if known is None or known.created != pod.metadata.created:
            known = self._waiting[key] = _Waits(pod.metadata.created, None)
        if known.queued is None and not pod.spec.scheduling_gates:
            known.queued = self._clock()

    def gone(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        self._waiting.pop((namespace, name), None)

    def decided(self, binds: Sequence[Bind]) -> None:
        """Measure how long each gang among these binds has waited since its first pod was made."""
        first_created: dict[str, float] = {}
        for bind in binds:
            gang, pod = bind.workload, (bind.namespace, bind.name)
            sent = self._sent.get(gang)
            if sent is None:
                sent = self._sent[gang] = _Sent(0)
            sent.unanswered += 1
            waits = self._waiting.get(pod)
            if waits is not None:
                created = waits.created
                self._queued[pod] = created if waits.queued is None else waits.queued
                if created < first_created.get(gang, _NO_TIME):
                    first_created[gang] = created
        now = self._clock()
        for created in first_created.values():
            self._observe_wait(max(0.0, now - created))

    def answered(self, bind: Bind, *, bound: bool) -> None:
        """Measure the whole way of a pod that is bound, and the spread of its gang's binds once all are answered."""
        queued = self._queued.pop((bind.namespace, bind.name), None)
        if bound and queued is not None:
            self._observe_whole(max(0.0, self._clock() - queued))
        sent = self._sent.get(bind.workload)
        if sent is None:
            return
        sent.unanswered -= 1
        now = self._ticks()
        sent.first = now if sent.first is None else sent.first
        if sent.unanswered == 0:
            self._observe_spread(now - sent.first)
            del self._sent[bind.workload]


_EVENTS = {
    LifecycleStep.QUOTA_RESERVED: "quota_reserved",
    LifecycleStep.CHECKED: "checks_passed",
    LifecycleStep.ADMITTED: "workload_admitted",
    LifecycleStep.LET_GO: "reservation_let_go",
    LifecycleStep.GIVEN_BACK: "reservation_given_back",
    LifecycleStep.SCHEDULED: "workload_scheduled",
    LifecycleStep.MAKES_ROOM: "victims_chosen",
    LifecycleStep.HAS_MOVED: "moves_decided",
    LifecycleStep.DEGRADED: "workload_degraded",
    LifecycleStep.RECOVERED: "workload_recovered",
    LifecycleStep.EVICTED: "eviction_begun",  # `pod_evicted` tells what has been done
    LifecycleStep.SPARED: "workload_spared",
    LifecycleStep.FINISHED: "workload_finished",
}
# Of a single pod without a queue one line is enough: that it was scheduled. There may be thousands in a second.
_QUIET = (LifecycleStep.ADMITTED, LifecycleStep.FINISHED)
# What every pod comes to, of which nothing is measured here: asked first, for a member of an enum takes long to find.
_UNMEASURED: Final = (LifecycleStep.ADMITTED, LifecycleStep.SCHEDULED)


class Progressing(Protocol):
    """An engine, as far as it is asked what has become of workloads."""

    @property
    def state(self) -> StatusState:
        """What it knows."""

    @property
    def lifecycle_events(self) -> list[LifecycleEvent]:
        """What workloads came to in the last turn."""


class ProgressReporter:
    """Counts, times and logs the lifecycle events of each turn."""

    def __init__(self, engine: Progressing, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._tried = 0
        self._catalog = (0, 0)

    def turned(self, seconds: float) -> None:
        """Tell what the last turn has brought, which took so many seconds."""
        state, lifecycle_events = self._engine.state, self._engine.lifecycle_events
        self._tell_tries(state, lifecycle_events, seconds)
        self._metrics.degraded_seconds.follow(queue for queue, _ in degraded_since(state))
        if lifecycle_events:
            self._count(state, lifecycle_events)
            for event in lifecycle_events:
                if event.step not in _UNMEASURED:
                    self._measure(event)
            log_lifecycle(lifecycle_events)
        catalog = state.catalog.version, state.catalog.local_version
        if self._catalog != catalog:
            self._catalog = catalog
            self._forget(state)

    def _count(self, state: StatusState, lifecycle_events: Sequence[LifecycleEvent]) -> None:
        queues = state.ledger.tree.queues
        self._metrics.of_cluster_queues.count(lifecycle_events)
        if self._metrics.of_local_queues is not None:
            self._metrics.of_local_queues.count(lifecycle_events)

        def above(queue: str) -> list[str]:
            return [cohort.name for cohort in queues[queue].ancestors()] if queue in queues else []

        self._metrics.of_cohorts.count(lifecycle_events, above)

    def _forget(self, state: StatusState) -> None:
        """Drop the series of queues and cohorts that are gone."""
        metrics, names = self._metrics, {(name,) for name in state.catalog.queues}
        metrics.of_cluster_queues.keep(names)
        metrics.degraded_seconds.keep(state.catalog.queues)
        drop_others(metrics.preempted, names, 1)
        drop_others(metrics.checks_seconds, names, 1)
        for counter in (metrics.moves, metrics.moved_pods):
            drop_others(counter, names, 1)
        metrics.of_cohorts.keep(state.ledger.tree.cohorts)
        if metrics.of_local_queues is not None:
            doors = (one.metadata for one in state.catalog.all(LocalQueue))
            metrics.of_local_queues.keep({(door.name, door.namespace) for door in doors})

    def _tell_tries(self, state: StatusState, lifecycle_events: Sequence[LifecycleEvent], seconds: float) -> None:
        before, self._tried = self._tried, sum(state.tries.values())
        if self._tried == before:
            return
        admitted = any(one.step is LifecycleStep.ADMITTED for one in lifecycle_events)
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
            case LifecycleStep.CHECKED:
                metrics.checks_seconds.labels(one.queue).observe(one.seconds)
            case LifecycleStep.MAKES_ROOM:
                metrics.preemption_attempts.inc()
                metrics.preemption_victims.observe(one.pods)
            case LifecycleStep.HAS_MOVED:
                metrics.moves.labels(one.queue).inc()
                metrics.moved_pods.labels(one.queue).inc(one.pods)
            case LifecycleStep.EVICTED if one.rule:
                metrics.preempted.labels(one.for_queue, one.rule).inc()
            case _:
                pass


def log_lifecycle(lifecycle_events: Sequence[LifecycleEvent]) -> None:
    """Log what workloads have come to."""
    loud, quiet = list[LifecycleEvent](), list[LifecycleEvent]()
    for one in lifecycle_events:
        is_quiet = one.step in _QUIET and one.workload[0] == "Pod" and not one.queue
        (quiet if is_quiet else loud).append(one)
    tell_together(map(_line, loud))
    if quiet and details_are_told():
        tell_together(map(_line, quiet), level="debug")


def _line(one: LifecycleEvent) -> dict[str, Any]:
    """Return the fields of a line about a lifecycle event."""
    kind, namespace, name = one.workload
    line: dict[str, Any] = {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "pods": one.pods,
        "seconds": round(one.seconds, 3),
    }
    if one.queue:
        line["queue"] = one.queue
    if one.reason:
        line["reason"] = one.reason
    if one.rule:
        line |= {"rule": one.rule, "for_queue": one.for_queue}
    line["event"] = _EVENTS[one.step]
    return line
