"""The collector behind /metrics that reads the engine's state, and nothing while this process does not lead.

A standby knows as much of the cluster, but what it would tell is another's to tell: sums over all replicas are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tutti.controller.catalogue import Catalogue
from tutti.controller.gauges import nodes, queues, waiting
from tutti.controller.references import judge
from tutti.engine.state import State


class HasState(Protocol):
    """An engine, as far as it is read."""

    @property
    def state(self) -> State:
        """What it knows."""


class StateGauges(Collector):
    """Reads what queues, workloads and nodes are like, family by family, between two calls of the engine."""

    def __init__(
        self, engine: HasState, catalogue: Catalogue, registry: CollectorRegistry, *, leads: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._leads = leads
        self._statuses: tuple[int, dict[str, str]] = (-1, {})
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the families without values, so that registering reads no state."""
        return _families(None, {})

    def collect(self) -> Iterable[Metric]:
        """Return the families with their values as they are now; without any on a standby."""
        if self._leads():
            return _families(self._engine.state, self._queue_statuses())
        return _families(None, {})

    def _queue_statuses(self) -> dict[str, str]:
        """Return the status of each ClusterQueue, worked out anew only where objects have changed."""
        version, statuses = self._statuses
        if version != self._catalogue.version:
            version = self._catalogue.version
            statuses = {
                key[2]: "active" if verdict.active else _INACTIVE.get(verdict.reason, "pending")
                for key, verdict in judge(self._catalogue.specs)
                if key[0] == "ClusterQueue"
            }
            self._statuses = version, statuses
        return statuses


_INACTIVE = {"Terminating": "terminating"}


def _families(state: State | None, statuses: dict[str, str]) -> Iterator[Metric]:
    yield from queues.of_workloads(state)
    yield from queues.of_statuses(statuses)
    yield from queues.of_quota(state)
    yield from waiting.of_waiting(state)
    yield from waiting.of_tries(state)
    yield from waiting.of_partial_gangs(state)
    yield from waiting.of_cache(state)
    yield from nodes.of_nodes(state)
