"""A histogram that is moved for every pod: counted in plain integers, and made into a metric when somebody asks.

The library's own takes two locks and looks through its buckets one by one, several times for each pod that is bound.
This one is moved without any, by whichever thread: CPython 3.11 changes threads at calls and backward jumps alone, and
an addition has none; elsewhere a value may be lost. Who reads it may miss what is counted at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class PlainHistogram(Collector):
    """A histogram as Prometheus reads it.

    Args:
        name: That of the metric.
        documentation: What it measures.
        registry: Serves it.
        buckets: Their upper bounds, rising; everything above the last is counted too.
        labels: The names and values of its one series.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        *,
        registry: CollectorRegistry,
        buckets: Sequence[float],
        labels: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._family = name, documentation, tuple(label for label, _ in labels)
        self._labels = tuple(value for _, value in labels)
        self._bounds = [float(bound) for bound in buckets]
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, value: float) -> None:
        """Count a value; one that is a bound belongs below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Tell the registry its name."""
        name, documentation, labels = self._family
        return [HistogramMetricFamily(name, documentation, labels=labels)]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return it as it stands."""
        name, documentation, labels = self._family
        family = HistogramMetricFamily(name, documentation, labels=labels)
        below, buckets = 0, []
        for bound, count in zip([*self._bounds, float("inf")], self._counts, strict=True):
            below += count
            buckets.append((floatToGoString(bound), below))  # type: ignore[no-untyped-call]  # it has no types
        family.add_metric(self._labels, buckets, self._sum)
        return [family]
