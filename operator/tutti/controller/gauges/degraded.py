"""Gangs that run with fewer members than they need: how many, since when, and how much time passes that way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tutti.controller.gauges.families import counters, gauges
from tutti.engine.state import State

_QUEUE = ("cluster_queue",)


def degraded_since(state: State) -> Iterator[tuple[str, float]]:
    """Yield the ClusterQueue of each gang that is degraded, "" where it has none, and since when it is, Unix seconds.

    Something is kept for the successors of each of them, so that those without are not walked through.
    """
    for key in state.kept:
        workload = state.workloads.get(key)
        if workload is not None and workload.degraded_since is not None:
            yield workload.cluster_queue, workload.degraded_since


def of_degraded(state: State | None) -> Iterator[Metric]:
    """Yield how many gangs are degraded, and since when; families without values where there is no state."""
    found = [] if state is None else list(degraded_since(state))
    counts = Counter(queue for queue, _ in found)
    known = [] if state is None else ["", *state.catalog.queues]
    yield gauges(
        "tutti_gangs_degraded",
        "Gangs that run with fewer members than they need; the label is empty for those without a queue.",
        _QUEUE,
        (((queue,), counts[queue]) for queue in dict.fromkeys([*known, *counts])),
    )
    first: dict[str, float] = {}
    for queue, since in found:
        first[queue] = min(since, first.get(queue, since))
    yield gauges(
        "tutti_gang_degraded_since_timestamp_seconds",
        "Since when the gang of a queue is degraded that has been for longest; no series where none is.",
        _QUEUE,
        (((queue,), since) for queue, since in first.items()),
    )


class DegradedSeconds(Collector):
    """Sums up how long gangs are degraded, gang by gang, while it happens: also where one goes on for a month.

    What has passed is added whenever it is asked for or the number of gangs changes, so that it never shrinks, whatever
    becomes of a gang. It begins at 0 with the process.

    Args:
        registry: Serves it.
        clock: Seconds; what it is set back by counts as no time.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = 0.0
        self._gangs: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        registry.register(self)

    def follow(self, queues: Iterable[str]) -> None:
        """Take over which queues the gangs are of that are degraded from now on, one entry for each gang."""
        self._add_up()
        self._gangs = Counter(queues)

    def keep(self, queues: Collection[str]) -> None:
        """Drop the series of all queues but these, and but that of gangs without a queue."""
        self._seconds = {queue: seconds for queue, seconds in self._seconds.items() if not queue or queue in queues}

    def describe(self) -> Iterable[Metric]:
        """Return the family without values."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Return the family with what has passed until now."""
        self._add_up()
        return [self._family()]

    def _add_up(self) -> None:
        before, self._at = self._at, self._clock()
        passed = max(0.0, self._at - before)
        for queue, gangs in self._gangs.items():
            self._seconds[queue] = self._seconds.get(queue, 0.0) + gangs * passed

    def _family(self) -> Metric:
        return counters(
            "tutti_gang_degraded_seconds",
            "Time that gangs have run with fewer members than they need, of all gangs together.",
            _QUEUE,
            (((queue,), seconds) for queue, seconds in self._seconds.items()),
        )
