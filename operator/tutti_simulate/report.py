"""What `tutti simulate` answers: the whole as JSON, or tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tutti.api.messages import counted
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, PageWidth, table
from tutti_simulate.comparison import Difference
from tutti_simulate.jobs import Trace
from tutti_simulate.measures import Figures, PartFigures

_SHOWN = 5
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


class TraceReport(msgspec.Struct, frozen=True, rename="camel"):
    """What was read of a trace: how many jobs and pods, which entries were left out, and what was filled in."""

    jobs: int
    pods: int
    left_out: int
    skipped: tuple[str, ...]
    filled: dict[str, int]


class Simulation(msgspec.Struct, frozen=True, rename="camel"):
    """The whole answer.

    Attributes:
        runs: By name: `first`, and `second` where there is something to compare with.
        differences: How much more the second has; none where there is only one.
        notes: What was taken for granted.
    """

    trace: TraceReport
    runs: dict[str, Figures]
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


def trace_report(trace: Trace) -> TraceReport:
    """Return what is said of a trace."""
    pods = sum(job.size for job in trace.jobs)
    filled = dict(sorted(trace.filled.items()))
    return TraceReport(len(trace.jobs), pods, trace.left_out, tuple(trace.skipped), filled)


def draw(found: Simulation, page: PageWidth) -> RenderableType:
    """Draw it: what was read, figures of each run by queue and size, and the differences."""
    trace = found.trace
    parts: list[RenderableType] = [Text(f"{counted(trace.jobs, 'job')} of {counted(trace.pods, 'pod')}")]
    parts += [
        Text(f"taken for granted: {what} ({counted(count, 'job')})", QUIET) for what, count in trace.filled.items()
    ]
    parts += [Text(f"taken for granted: {note}", QUIET) for note in found.notes]
    if trace.left_out:
        parts.append(Text(f"left out: {counted(trace.left_out, 'entry').replace('entrys', 'entries')}", WAITS))
        parts += [Text(f"  {one}", WAITS) for one in trace.skipped[:_SHOWN]]
    for name, figures in found.runs.items():
        parts += [Text(), Text(name, "bold") if len(found.runs) > 1 else Text("result", "bold"), *_run(figures, page)]
    if found.differences:
        parts += [Text(), _differences(found.differences, page)]
    return Group(*parts)


def _run(figures: Figures, page: PageWidth) -> list[RenderableType]:
    numbers = ("COUNT", "WAIT", "MEDIAN", "95 %", "SLOWDOWN", "PREEMPTED", "WORK LOST")
    rows = table("JOBS", *numbers, right=numbers, page=page)
    _row(rows, "all", figures.all)
    for prefix, parts in (("queue ", figures.queues), ("", figures.sizes)):
        for name, part in parts.items() if len(parts) > 1 else ():
            _row(rows, prefix + name, part)
    lines = [f"in use while work came: {_parts(figures.utilisation)}"]
    if figures.fragmentation:
        lines.append(f"free, and of no use to these pods: {_parts(figures.fragmentation)}")
    lines.append(f"fairness of queues: {figures.fairness:.3f}; all over after {seconds(figures.over)}")
    if figures.energy_kwh is not None:
        lines.append(f"energy while work came: {figures.energy_kwh:,.1f} kWh")
    out: list[RenderableType] = [rows, *map(Text, lines)]
    out += [Text(f"never started: {counted(count, 'job')}: {why}", BAD) for why, count in figures.never.items()]
    for what, count in figures.unplayed.items():
        out.append(Text(f"not played here: {count} {what}; whoever waits for what comes of them waits on", BAD))
    return out


def _row(rows: Table, name: str, part: PartFigures) -> None:
    wait = part.wait
    rows.add_row(
        Text(name), f"{part.jobs:,}", seconds(wait.mean), seconds(wait.median), seconds(wait.p95),
        f"{part.slowdown.mean:,.2f}", f"{part.preemptions:,}", f"{part.lost_part:.1%}",
    )  # fmt: skip


def _differences(found: Sequence[Difference], page: PageWidth) -> RenderableType:
    numbers = ("FIRST", "SECOND", "DIFFERENCE", "95 % OF DRAWS")
    rows = table("WHAT", *numbers, right=numbers, page=page)
    for one in found:
        within = "" if one.low is None or one.high is None else f"{one.low:+,.2f} to {one.high:+,.2f}"
        colour = "" if one.low is None else GOOD if one.sure else QUIET
        rows.add_row(
            one.what, f"{one.first:,.2f}", f"{one.second:,.2f}", Text(f"{one.difference:+,.2f}", colour), within
        )
    return rows


def _parts(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {part:.1%}" for name, part in values.items()) or "nothing"


def seconds(value: float) -> str:
    """Return a time as a person says it."""
    for size, unit in ((size, unit) for size, unit in _UNITS if value >= 2 * size):
        return f"{value / size:,.1f} {unit}"
    return f"{value:.0f} s"
