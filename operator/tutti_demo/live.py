"""The play on a terminal: one screen, redrawn in place when something has changed, and for the clock."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.padding import Padding
from rich.text import Text

from tutti_demo.ink import KINDS, QUIET
from tutti_demo.panels import gangs_panel, queues_panel
from tutti_demo.picture import Kind, Picture
from tutti_demo.plain import line, worth_telling
from tutti_demo.playing import pair_of
from tutti_demo.racks import Racks, nodes_panel

_HEADER_LINES = 3
_FRAME = 2
_LEAST_NEWS = 3
_OPERATOR_SECONDS = 4.0


def render(picture: Picture, *, at: float, started_at: float, width: int, height: int) -> RenderableType:
    """The whole screen.

    Args:
        picture: What was observed.
        at: Now, by the picture's clock.
        started_at: When the first act began, by the same clock.
        width: Columns of the terminal.
        height: Lines of the terminal.
    """
    racks = Racks.of(picture, width=width)
    queues_height = len(picture.scenario.teams) + _FRAME
    left = height - _HEADER_LINES - racks.height - queues_height
    gangs = sum(len(act.gangs) for act in picture.scenario.acts) + 1 + _FRAME
    gangs_height = min(left, gangs)
    marked = pair_of(picture) if picture.act is not None and any(job.pinned for job in picture.act.jobs) else ()
    parts = [
        Layout(_header(picture, at=at, started_at=started_at, width=width), size=_HEADER_LINES),
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


def _news(picture: Picture, *, started_at: float, lines: int) -> RenderableType:
    """The last things that have happened, the newest at the bottom."""
    told = [happening for happening in picture.happenings[-3 * lines :] if worth_telling(happening)]
    news = [line(happening, started_at=started_at, brief=True) for happening in told[-lines:]] if lines else []
    for one in news:
        one.no_wrap, one.overflow = True, "ellipsis"
    return Group(*news)
