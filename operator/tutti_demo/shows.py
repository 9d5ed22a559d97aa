"""The two ways in which the play is shown while it goes on, and the table at its end.

Lines are for logs and pipes; the live screen is redrawn in place when something has changed, and for the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tutti.api.messages import counted
from tutti_demo.panels import KINDS, QUIET, Racks, gangs_panel, nodes_panel, queues_panel, seconds
from tutti_demo.picture import Happening, Kind, Picture, pair_of
from tutti_demo.summary import Row, Summary
from tutti_demo.watching import Observer

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


def summary_table(summary: Summary) -> Table:
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


def verdict_line(summary: Summary) -> Text:
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


_HEADER_LINES = 3
_FRAME = 2
_LEAST_NEWS = 3
_OPERATOR_SECONDS = 4.0


def render(
    picture: Picture, *, at: float, started_at: float, width: int, height: int, pages: str = ""
) -> RenderableType:
    """The whole screen.

    Args:
        picture: What was observed.
        at: Now, by the picture's clock.
        started_at: When the first act began, by the same clock.
        width: Columns of the terminal.
        height: Lines of the terminal.
        pages: Where the same is shown in a browser; "" for nowhere.
    """
    racks = Racks.of(picture, width=width)
    queues_height = len(picture.scenario.teams) + _FRAME
    left = height - _HEADER_LINES - bool(pages) - racks.height - queues_height
    gangs = sum(len(act.gangs) for act in picture.scenario.acts) + 1 + _FRAME
    gangs_height = min(left, gangs)
    marked = pair_of(picture) if picture.act is not None and any(job.pinned for job in picture.act.jobs) else ()
    parts = [
        Layout(_header(picture, at=at, started_at=started_at, width=width), size=_HEADER_LINES),
        Layout(_address(pages, width), size=bool(pages)),
        Layout(nodes_panel(picture, racks, marked=marked), size=racks.height),
        Layout(queues_panel(picture, width=width), size=queues_height),
        Layout(gangs_panel(picture, at=at, width=width, rows=gangs_height - _FRAME), size=gangs_height),
    ]
    lines = left - gangs_height
    parts.append(Layout(_news(picture, started_at=started_at, lines=lines if lines >= _LEAST_NEWS else 0)))
    screen = Layout()
    screen.split_column(*(part for part in parts if part.size is None or part.size > 0))
    return screen


def _header(picture: Picture, *, at: float, started_at: float, width: int) -> RenderableType:
    """The act and what to look at; for a while after something was done to the operator, that."""
    act = picture.act
    title = f"Act {act.number}: {act.title}" if act else "The stage is being set"
    clock = f"{max(0.0, at - started_at):4.0f} s"
    first = Text(f" {title}", style="bold", no_wrap=True, overflow="ellipsis")
    first.truncate(max(0, width - len(clock) - 2), overflow="ellipsis", pad=True)
    first.append(clock, style=QUIET)
    hint = Text(act.hint if act else "", style=QUIET)
    for happening in reversed(picture.happenings):
        if happening.kind is Kind.OPERATOR and at - happening.at < _OPERATOR_SECONDS:
            hint = Text(f"The operator was {happening.text}", style=KINDS[Kind.OPERATOR])
            break
    return Group(first, Padding(hint, (0, 1)))


def _address(pages: str, width: int) -> Text:
    """Where the pages are, on one line and not cut: it is to be clicked, or copied."""
    before = " In a browser: "
    return Text.assemble((before if len(before) + len(pages) <= width else " ", QUIET), pages)


def _news(picture: Picture, *, started_at: float, lines: int) -> RenderableType:
    """The last things that have happened, the newest at the bottom."""
    told = [happening for happening in picture.happenings[-3 * lines :] if worth_telling(happening)]
    news = [line(happening, started_at=started_at, brief=True) for happening in told[-lines:]] if lines else []
    for one in news:
        one.no_wrap, one.overflow = True, "ellipsis"
    return Group(*news)


LEAST_WIDTH = 80
LEAST_HEIGHT = 22

_TICK_SECONDS = 0.25
_CALM_SECONDS = 0.1
"""At most so often the screen is drawn, however much happens."""


class Show(Protocol):
    """Shows the play while it goes on."""

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""

    def tell_pages(self, address: str) -> None:
        """Tell where the play can be seen in a browser, before it begins."""

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:
        """Show what is observed until cancelled."""


def show_on(console: Console, *, plain: bool = False) -> Show:
    """Return a live show where there is a terminal large enough for it, else lines."""
    width, height = console.size
    live = console.is_terminal and not console.is_dumb_terminal and width >= LEAST_WIDTH and height >= LEAST_HEIGHT
    return LiveShow(console) if live and not plain else PlainShow(console)


class PlainShow:
    """Prints each thing as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)

    def tell_pages(self, address: str) -> None:
        """Tell where the play can be seen in a browser, before it begins."""
        self.say(f"See it in a browser, while it runs: {address}")

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:  # noqa: ARG002 - as the live show
        """Print what happens until cancelled, and then what is left."""
        teller = Teller(self._console, observer.picture, started_at=started_at)
        try:
            while True:
                teller.catch_up()
                await observer.changed()
        finally:
            teller.catch_up()


class LiveShow:
    """Keeps one screen up to date, and leaves the terminal as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pages = ""

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""
        self._console.print(text, soft_wrap=True, markup=False, highlight=False, style="bright_black")

    def tell_pages(self, address: str) -> None:
        """Tell where the play can be seen in a browser, before it begins, and on the screen while it goes on."""
        self._pages = address
        self.say(f"See it in a browser, while it runs: {address}")

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:
        """Draw the screen with each change, and for the clock, until cancelled."""
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while True:
                width, height = self._console.size
                sizes = {"width": width, "height": height}
                screen = render(observer.picture, at=clock(), started_at=started_at, pages=self._pages, **sizes)
                live.update(screen, refresh=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_SECONDS):
                        await observer.changed()
                await asyncio.sleep(_CALM_SECONDS)
