"""What people see of a benchmark: how far it has come, and what came of it, as tables.

That is figures by scheduler, thresholds missed, and workloads that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tutti.cli.terminal import Terminal
from tutti_bench.measuring import CPU, LATENCY, OVERALL, THROUGHPUT
from tutti_bench.results import ComparedRow, DataItem, ThresholdVerdict, change_of, figure_text, with_label
from tutti_bench.run import Reporter

SCHEDULER = "Scheduler"
"""The label that tells whose figures they are, where there is more than one scheduler."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Throughput over all the time of one workload, by two schedulers."""

    name: str
    first: str
    second: str
    mine: float | None
    theirs: float | None

    @property
    def ratio(self) -> float | None:
        """The first's throughput as a multiple of the second's; None where one has none."""
        return self.mine / self.theirs if self.mine and self.theirs else None


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        items: What was found, by the label of the scheduler.
        verdicts: How figures stand to their thresholds.
        failures: Why workloads could not be run to their end.
    """

    items: dict[str, list[DataItem]] = field(default_factory=dict)
    verdicts: list[ThresholdVerdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all was run and no threshold was missed."""
        return not self.failures and all(verdict.is_met for verdict in self.verdicts)

    def all_items(self) -> list[DataItem]:
        """Return all items, each with the label of its scheduler where there is more than one."""
        if len(self.items) == 1:
            return [one for items in self.items.values() for one in items]
        return [with_label(one, SCHEDULER, label) for label, items in self.items.items() for one in items]

    def ratios(self) -> list[Ratio]:
        """Return how the first scheduler stands to each other one, workload by workload."""
        first, *others = self.items
        return [
            Ratio(name, first, other, mine, _overall(self.items[other]).get(name))
            for other in others
            for name, mine in _overall(self.items[first]).items()
        ]


def _overall(items: Sequence[DataItem]) -> dict[str, float]:
    return {one.name: one.data["Average"] for one in items if one.metric == OVERALL and "Average" in one.data}


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
            table.add_row(name, scheduler, *map(figure_text, (sampled, overall, *waits, cpu)))
    return table


def ratios(rows: Sequence[Ratio]) -> Table:
    """The throughput of the first scheduler as a multiple of the other's."""
    table = _table("workload", right=(rows[0].first, rows[0].second, "ratio"))
    for row in rows:
        table.add_row(
            row.name, figure_text(row.mine), figure_text(row.theirs), f"{row.ratio:.2f}" if row.ratio else "-"
        )
    return table


def comparison_table(rows: Sequence[ComparedRow]) -> Table:
    """Previous, current, difference."""
    table = _table("workload", "metric", right=("previous", "current", "difference"))
    for row in rows:
        metric = f"{row.metric} {row.bucket}, {row.unit}"
        table.add_row(row.name, metric, figure_text(row.previous), figure_text(row.current), Text(change_of(row)))
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


class ProgressView(Reporter, Protocol):
    """A reporter that is entered and left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress_on(console: Console, *, plain: bool) -> ProgressView:
    """Return bars where there is a terminal, else lines."""
    return Bars(console) if console.is_terminal and not console.is_dumb_terminal and not plain else Lines(console)


class Lines:
    """A line for each workload and each of its operations."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._operations = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to be cleared."""

    def begin(self, name: str, operations: int) -> None:
        """Print the workload's name."""
        self._operations = operations
        self._console.print(name, soft_wrap=True, markup=False)

    def operation(self, number: int, what: str) -> None:
        """Print the operation."""
        self._console.print(f"  {number + 1}/{self._operations} {what}", soft_wrap=True, markup=False)

    def progress(self, done: int, total: int) -> None:
        """Print nothing: a log is not the place for it."""

    def note(self, text: str) -> None:
        """Print it."""
        self._console.print(f"note: {text}", soft_wrap=True, markup=False)


class Bars:
    """A bar for the operation that goes on, below the lines of what is done."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._name = ""
        self._operations = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str, operations: int) -> None:
        """Begin a bar."""
        self._name, self._operations = name, operations

    def operation(self, number: int, what: str) -> None:
        """Put a bar for this operation in the place of the last one's."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        title = f"{self._name} {number + 1}/{self._operations} {what}"
        self._task = self._progress.add_task(title, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def note(self, text: str) -> None:
        """Print it above the bar."""
        self._progress.console.print(f"note: {text}", soft_wrap=True, markup=False)
