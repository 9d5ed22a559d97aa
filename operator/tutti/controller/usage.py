"""What the engine's state says to the rest of the shell: who uses a queue, and how much waits in each.

The state is only read, and only between two calls of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tutti.controller.specs import ObjectKey
from tutti.engine.state import State
from tutti.engine.workloads import Workload


class HasState(Protocol):
    """An engine, as far as it is read."""

    @property
    def state(self) -> State:
        """What it knows."""


def charged(state: State) -> dict[ObjectKey, str]:
    """Return the ClusterQueue whose quota each workload holds, for those that hold any: reserved, bound or leaving."""
    return {workload.key: queue for workload in state.workloads.values() for queue in _queues(workload)}


def _queues(workload: Workload) -> Iterator[str]:
    for group in workload.groups.values():
        for member in group.members.values():
            if member.charge is not None:
                yield member.charge.queue
        for hold in group.holds:
            if hold.charge is not None:
                yield hold.charge.queue


class QueueGauges(Collector):
    """Counts of workloads by queue, read from the state when somebody asks for them and at no other time."""

    def __init__(self, engine: HasState, registry: CollectorRegistry) -> None:
        self._engine = engine
        registry.register(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the families without values, so that registering reads no state."""
        return _families()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the counts as they are now."""
        pending, admitted = families = _families()
        state = self._engine.state
        for name in state.catalog.queues:
            count = state.counts.of(name)
            pending.add_metric([name], count.pending)
            admitted.add_metric([name], count.admitted)
        return families


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    labels = ["cluster_queue"]
    return (
        GaugeMetricFamily("tutti_pending_workloads", "Workloads that wait for admission, by queue.", labels=labels),
        GaugeMetricFamily("tutti_admitted_workloads", "Workloads that are admitted, by queue.", labels=labels),
    )
