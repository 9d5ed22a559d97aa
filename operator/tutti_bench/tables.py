"""What a benchmark has found, and two of its files side by side, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tutti.cli.terminal import Terminal
from tutti_bench.compare import Row, change, written
from tutti_bench.dataitems import DataItem
from tutti_bench.measuring import CPU, LATENCY, OVERALL, THROUGHPUT
from tutti_bench.outcome import Outcome, Ratio

_WIDE = 200
"""Columns where nobody says how many there are: a log cuts nothing off."""


def console() -> Console:
    """Return where tables are printed."""
    out = Terminal(highlight=False)
    return out if out.is_terminal else Terminal(highlight=False, width=_WIDE)


def found(outcome: Outcome) -> Table:
    """A line for each measurement: throughput as sampled and over all the time, waits, and work."""
    table = _table(
        "workload",
        "scheduler",
        right=("sampled, pods/s", "overall, pods/s", "bind p50, ms", "bind p99, ms", "CPU, ms/pod"),
    )
    for scheduler, items in outcome.items.items():
        for name in dict.fromkeys(one.name for one in items):
            overall = _figure(items, name, OVERALL, "Average")
            waits = (_figure(items, name, LATENCY, bucket) for bucket in ("Perc50", "Perc99"))
            sampled = _figure(items, name, THROUGHPUT, "Average")
            cpu = _figure(items, name, CPU, "Average")
            table.add_row(name, scheduler, *map(written, (sampled, overall, *waits, cpu)))
    return table


def ratios(rows: Sequence[Ratio]) -> Table:
    """The throughput of the first scheduler as a multiple of the other's."""
    table = _table("workload", right=(rows[0].first, rows[0].second, "ratio"))
    for row in rows:
        table.add_row(row.name, written(row.mine), written(row.theirs), f"{row.ratio:.2f}" if row.ratio else "-")
    return table


def compared(rows: Sequence[Row]) -> Table:
    """Previous, current, difference."""
    table = _table("workload", "metric", right=("previous", "current", "difference"))
    for row in rows:
        metric = f"{row.metric} {row.bucket}, {row.unit}"
        table.add_row(row.name, metric, written(row.previous), written(row.current), Text(change(row)))
    return table


def _table(*columns: str, right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in columns:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def _figure(items: Sequence[DataItem], name: str, metric: str, bucket: str) -> float | None:
    return next((one.data.get(bucket) for one in items if one.name == name and one.metric == metric), None)
