"""What is read from the engine's state when somebody asks for metrics, and at no other time.

A family is built of a name, what it says, its labels, and its values as they are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tutti.api.resources import to_milli

Row = tuple[Sequence[str], float]
"""The values of the labels, in their order, and what is measured."""


def gauges(name: str, says: str, labels: Sequence[str] = (), rows: Iterable[Row] = ()) -> Metric:
    """Return a family of gauges."""
    family = GaugeMetricFamily(name, says, labels=labels)
    for values, amount in rows:
        family.add_metric(values, amount)
    return family


def counters(name: str, says: str, labels: Sequence[str], rows: Iterable[Row] = ()) -> Metric:
    """Return a family of counters; `name` goes without `_total`."""
    family = CounterMetricFamily(name, says, labels=labels)
    for values, amount in rows:
        family.add_metric(values, amount)
    return family


def in_units(resource: str, amount: int) -> float:
    """Return an amount in the units of metrics: cores, bytes, devices."""
    return to_milli(resource, amount) / 1000
