"""A counter that is moved for every pod: plain integers, made into a metric when somebody asks.

The library's own asks what it may be asked, takes a lock and adds floating-point numbers, three times for each pod that
is bound. Two loops may move this one, each on its own thread: the engine's and the lease's. They add without a lock:
CPython 3.11 changes threads at calls and backward jumps alone, and an addition has none; elsewhere a count may be lost.
Who reads it may miss what is counted at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class Series:
    """What is counted under the same values of all labels.

    Attributes:
        count: How often until now.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> None:
        """Count one more."""
        self.count += 1


class PlainCounter(Collector):
    """A counter as Prometheus reads it.

    Args:
        name: That of the metric, without `_total`.
        documentation: What it counts.
        labels: The names of those that tell its series apart.
        registry: Serves it.
    """

    def __init__(self, name: str, documentation: str, labels: Sequence[str], *, registry: CollectorRegistry) -> None:
        self._family = name, documentation, tuple(labels)
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """Return the series of these values, in the order of the names; it is shown from now on."""
        series = self._series.get(values)
        if series is None:
            series = self._series.setdefault(values, Series())  # another thread may have been first
        return series

    def describe(self) -> Iterable[CounterMetricFamily]:
        """Tell the registry its name."""
        name, documentation, labels = self._family
        return [CounterMetricFamily(name, documentation, labels=labels)]

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Return it as it stands; of when series were made, which the operator serves of no counter, nothing."""
        name, documentation, labels = self._family
        family = CounterMetricFamily(name, documentation, labels=labels)
        for values, series in list(self._series.items()):
            family.add_metric(values, series.count)
        return [family]
