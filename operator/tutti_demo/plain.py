"""The play in lines, for logs and pipes; and the table at its end."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tutti.api.wording import counted
from tutti_demo.ink import KINDS, seconds
from tutti_demo.picture import Happening, Kind, Picture
from tutti_demo.summary import Row, Summary

_SUBJECT_WIDTH = 16
_KIND_WIDTH = 8


def line(happening: Happening, *, started_at: float, brief: bool = False) -> Text:
    """One thing that has happened, on one line."""
    at = f"{max(0.0, happening.at - started_at):6.1f}s  "
    if happening.kind is Kind.ACT:
        return Text.assemble((at, "dim"), (f"{happening.subject}: {happening.text}", KINDS[Kind.ACT]))
    text = happening.brief if brief and happening.brief else happening.text
    subject = f"{happening.subject:<{_SUBJECT_WIDTH}}  "
    kind = "" if happening.kind is Kind.OPERATOR else f"{happening.kind:<{_KIND_WIDTH}}  "
    return Text.assemble((at, "dim"), subject, (f"{kind}{text}".rstrip(), KINDS[happening.kind]))


def worth_telling(happening: Happening) -> bool:
    """Whether it makes a line of its own; the arrival of a single pod does not, for the next line is about it too."""
    return happening.kind is not Kind.ARRIVED or (happening.job is not None and happening.job.is_gang)


class Teller:
    """Prints what has happened since it was last asked."""

    def __init__(self, console: Console, picture: Picture, *, started_at: float) -> None:
        self._console = console
        self._picture = picture
        self._started_at = started_at
        self._told = 0

    def catch_up(self) -> None:
        """Print what is new."""
        news = self._picture.happenings[self._told :]
        self._told += len(news)
        for happening in filter(worth_telling, news):
            self._console.print(line(happening, started_at=self._started_at), soft_wrap=True)


def table(summary: Summary) -> Table:
    """The outcome per gang, and of the single pods together."""
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    out.add_column("act", justify="right")
    out.add_column("gang", no_wrap=True)
    for heading in ("bound", "placed at", "waited", "spread"):
        out.add_column(heading, justify="right")
    out.add_column("waited for", no_wrap=True)
    out.add_column("outcome")
    for row in summary.gangs:
        out.add_row(*_cells(row))
    return out


def verdict(summary: Summary) -> Text:
    """The last lines: how single pods fared, and whether every promise was kept."""
    done = sum(row.state == "finished" for row in summary.singles)
    wait = summary.median_single_wait_seconds
    waited = f", median wait {seconds(wait)}" if wait is not None else ""
    half, nearly_all = summary.bind_spread_seconds(50), summary.bind_spread_seconds(99)
    spread = ""
    if half is not None and nearly_all is not None:
        spread = f" Gangs were bound within {seconds(half)} (p50) and {seconds(nearly_all)} (p99)."
    lines = [Text(f"{done} of {counted(len(summary.singles), 'single pod')} finished{waited}.{spread}")]
    if summary.operator_restarts:
        lines.append(Text(f"The operator was killed and started again {_times(summary.operator_restarts)}."))
    if summary.ok:
        moment = seconds(max((row.partly_bound_seconds for row in summary.gangs), default=0.0))
        lines.append(
            Text(f"All work finished in {summary.seconds:.0f} s, and no gang was left partly bound", "bold green")
        )
        lines[-1].append(f" (longest moment: {moment}).")
    else:
        lines.extend(Text(f"Promise broken: {problem}", style="bold red") for problem in summary.problems)
    return Text("\n").join(lines)


def _cells(row: Row) -> tuple[str | Text, ...]:
    good = row.state == "finished"
    return (
        str(row.act),
        f"{row.namespace}/{row.name}",
        f"{row.bound} of {row.members}",
        "-" if row.placed_at is None else f"{row.placed_at:.1f} s",
        seconds(row.waited_seconds),
        seconds(row.spread_seconds),
        ", ".join(gate.lower() for gate in row.waited_for) or "-",
        Text(row.state, style="green" if good else "bold red"),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
