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

from tutti.controller.catalogue import Catalogue
from tutti.controller.gauges import cohorts, degraded, local_queues, nodes, queues, waiting
from tutti.controller.references import judge
from tutti.engine.state import State


class HasState(Protocol):
    """An engine, as far as it is read."""

    @property
    def state(self) -> State:
        """What it knows."""


@dataclass(slots=True)
class _Statuses:
    """Which queues can be used, as it was when objects had changed so often."""

    version: int = -1
    queues: dict[str, str] = field(default_factory=dict)
    doors: dict[local_queues.Door, bool] = field(default_factory=dict)


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
        catalogue: Catalogue,
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
            for (kind, namespace, name), verdict in judge(self._catalogue.specs):
                if kind == "ClusterQueue":
                    found.queues[name] = "active" if verdict.active else _INACTIVE.get(verdict.reason, "pending")
                elif kind == "LocalQueue":
                    found.doors[name, namespace] = verdict.active
        return self._statuses

    def _families(self, state: State | None, statuses: _Statuses) -> Iterator[Metric]:
        yield from queues.of_workloads(state)
        yield from queues.of_statuses(statuses.queues)
        yield from queues.of_quota(state)
        yield from cohorts.of_cohorts(state)
        yield from cohorts.of_parents(state)
        yield from cohorts.of_shares(state)
        if self._local_queues:
            yield from local_queues.of_doors(state)
            yield from local_queues.of_door_statuses(statuses.doors)
        yield from waiting.of_waiting(state)
        yield from waiting.of_tries(state)
        yield from waiting.of_partial_gangs(state)
        yield from degraded.of_degraded(state)
        yield from waiting.of_cache(state)
        yield from nodes.of_nodes(state)


_INACTIVE = {"Terminating": "terminating"}
