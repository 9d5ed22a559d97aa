"""The collector behind /metrics that reads the engine's state, and nothing while this process does not lead.

A standby knows as much of the cluster, but what it would tell is another's to tell: sums over all replicas are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tutti.controller.gauges import nodes, queues, throttles, waiting
from tutti.controller.gauges import queues as queues__
from tutti.controller.object_cache import ObjectCache
from tutti.controller.references import active_conditions
from tutti.engine.status import StatusState


class HasState(Protocol):
    """An engine, as far as it is read."""

    @property
    def state(self) -> StatusState:
        """What it knows."""


@dataclass(slots=True)
class _Statuses:
    """Which queues can be used, as it was when objects had changed so often."""

    version: int = -1
    queues: dict[str, str] = field(default_factory=dict)
    doors: dict[queues__.LocalQueueName, bool] = field(default_factory=dict)


class StateGauges(Collector):
    """Reads what queues, workloads and nodes are like, family by family, between two calls of the engine.

    Args:
        engine: Its state is read.
        catalogue: Tells which queues can be used.
        registry: Serves the families.
        leads: Whether this process leads.
        failed: Told what a reading has raised; the families before it are served, and so is everything else measured.
        local_queues: Whether there are families per LocalQueue.
    """

    def __init__(
        self,
        engine: HasState,
        catalogue: ObjectCache,
        registry: CollectorRegistry,
        *,
        leads: Callable[[], bool],
        failed: Callable[[Exception], None],
        local_queues: bool = False,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._leads = leads
        self._failed = failed
        self._local_queues = local_queues
        self._statuses = _Statuses()
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the families without values, so that registering reads no state."""
        return self._families(None, _Statuses())

    def collect(self) -> Iterable[Metric]:
        """Return the families with their values as they are now; without any on a standby."""
        if not self._leads():
            yield from self._families(None, _Statuses())
            return
        try:
            yield from self._families(self._engine.state, self._judged())
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is what is told that is wrong
            self._failed(error)

    def _judged(self) -> _Statuses:
        """Return the status of each queue, worked out anew only where objects have changed."""
        if self._statuses.version != self._catalogue.version:
            found = self._statuses = _Statuses(self._catalogue.version)
            for (kind, namespace, name), verdict in active_conditions(self._catalogue.specs):
                if kind == "ClusterQueue":
                    found.queues[name] = "active" if verdict.active else _INACTIVE.get(verdict.reason, "pending")
                elif kind == "LocalQueue":
                    found.doors[name, namespace] = verdict.active
        return self._statuses

    def _families(self, state: StatusState | None, statuses: _Statuses) -> Iterator[Metric]:
        yield from queues.cluster_queue_families(state)
        yield from queues.cluster_queue_statuses(statuses.queues)
        yield from queues.quota_families(state)
        yield from queues.cohort_families(state)
        yield from queues.parent_families(state)
        yield from queues.share_families(state)
        yield from queues.user_families(state)
        yield from throttles.throttle_families(state)
        yield from queues.power_families(state)
        if self._local_queues:
            yield from queues.local_queue_families(state)
            yield from queues.local_queue_statuses(statuses.doors)
        yield from waiting.waiting_families(state)
        yield from waiting.attempt_families(state)
        yield from waiting.partial_gangs(state)
        yield from waiting.degraded_gangs(state)
        yield from waiting.reservation_families(state)
        yield from waiting.cache_sizes(state)
        yield from nodes.node_families(state)


_INACTIVE = {"Terminating": "terminating"}
