"""The panels of the live screen: nodes in their racks, queues with usage against quota, gangs and what they wait for.

A team has a glyph and a colour, so that what is drawn can be read without colours, too.
"""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tutti.api.messages import counted
from tutti_demo.picture import Kind, NodeView, Picture, QueueView, State, Track
from tutti_demo.scenario import PLATFORM, Act, Job, Team

BORDER = "bright_black"
QUIET = "bright_black"
FREE = "·"
WIDE = 100
"""Terminals at least so wide are given more words."""
_TENTH = 100


class Ink(NamedTuple):
    """How a team is drawn."""

    glyph: str
    style: str


INKS: Mapping[str, Ink] = MappingProxyType(
    {"vision": Ink("█", "cyan"), "speech": Ink("▓", "magenta"), PLATFORM: Ink("▒", "yellow")}
)

STATES: Mapping[State, str] = MappingProxyType(
    {
        State.EXPECTED: QUIET,
        State.WAITING: "yellow",
        State.BINDING: "bold green",
        State.RUNNING: "green",
        State.FINISHED: QUIET,
        State.FAILED: "bold red",
    }
)

KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.ACT: "bold",
        Kind.ARRIVED: "dim",
        Kind.WAITS: "yellow",
        Kind.PLACED: "green",
        Kind.FINISHED: "dim",
        Kind.FAILED: "bold red",
        Kind.OPERATOR: "bold magenta",
    }
)


def seconds(value: float | None) -> str:
    """A duration for people: in milliseconds below a tenth of a second."""
    if value is None:
        return "-"
    milliseconds = round(value * 1000)
    if milliseconds < 1:
        return "< 1 ms"
    return f"{milliseconds} ms" if milliseconds < _TENTH else f"{value:.1f} s"


_GAP = 3
_FRAME = 4


@dataclass(frozen=True, slots=True)
class Racks:
    """The nodes as they are laid out on a terminal of a given width."""

    blocks: dict[str, list[NodeView]]
    labels: dict[str, str]
    cell: int
    per_row: int

    @classmethod
    def of(cls, picture: Picture, *, width: int) -> Racks:
        """Lay out what has been observed."""
        blocks: dict[str, list[NodeView]] = {}
        for node in sorted(picture.nodes.values(), key=lambda one: (one.rack, one.name)):
            blocks.setdefault(node.rack, []).append(node)
        labels = short_names(picture.nodes)
        longest = max(map(len, labels.values()), default=0)
        cell = 2 if _side_by_side(2, picture, longest, width) >= len(blocks) else 1
        return cls(blocks, labels, cell, max(1, _side_by_side(cell, picture, longest, width)))

    @property
    def height(self) -> int:
        """How many lines the panel takes, its border included."""
        names = list(self.blocks)
        rows = [names[start : start + self.per_row] for start in range(0, len(names), self.per_row)]
        return 2 + sum(1 + max(len(self.blocks[name]) for name in row) for row in rows)


def _side_by_side(cell: int, picture: Picture, longest_label: int, width: int) -> int:
    """How many racks fit beside each other with so many columns per GPU."""
    block = 1 + longest_label + 1 + cell * picture.scenario.gpus_per_node
    return (width - _FRAME + _GAP) // (block + _GAP)


def short_names(names: Collection[str]) -> dict[str, str]:
    """The names without what they all begin with, but at least their last character."""
    shared = len(os.path.commonprefix(list(names)))  # noqa: RUF071 - character by character is what is meant
    return {name: name[min(shared, len(name) - 1) :] for name in names}


def nodes_panel(picture: Picture, racks: Racks, *, marked: Collection[str] = ()) -> Panel:
    """Draw the nodes.

    Args:
        picture: What was observed.
        racks: Its layout.
        marked: Host names of the nodes that the act is about.
    """
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    names = list(racks.blocks)
    for start in range(0, len(names), racks.per_row):
        row = names[start : start + racks.per_row]
        grid.add_row(*(_block(picture, racks, name, marked) for name in row))
    used = sum(sum(picture.used_on(name).values()) for name in picture.nodes)
    total = sum(node.gpus for node in picture.nodes.values())
    title = Text.assemble(("Nodes", "bold"), (f"  {used} of {counted(total, 'GPU')} in use", QUIET))
    return Panel(grid, title=title, title_align="left", subtitle=_legend(), subtitle_align="right", border_style=BORDER)


def _block(picture: Picture, racks: Racks, name: str, marked: Collection[str]) -> Text:
    lines = [Text(name or "no rack", style=QUIET)]
    for node in racks.blocks[name]:
        mark = node.hostname in marked
        label = Text(("▸" if mark else " ") + racks.labels[node.name] + " ", style="bold" if mark else QUIET)
        lines.append(label + _bar(picture, node, racks.cell))
    return Text("\n").join(lines)


def _bar(picture: Picture, node: NodeView, cell: int) -> Text:
    bar = Text()
    used = picture.used_on(node.name)
    for team, ink in INKS.items():
        bar.append(ink.glyph * cell * used.get(team, 0), style=ink.style)
    bar.append(FREE * cell * max(0, node.gpus - sum(used.values())), style=QUIET)
    return bar


def _legend() -> Text:
    parts = [Text.assemble((ink.glyph * 2, ink.style), (f" {team}", QUIET)) for team, ink in INKS.items()]
    return Text("  ").join([*parts, Text(f"{FREE * 2} free", style=QUIET)])


_BAR_SHARE = 0.36
_LONGEST_BAR = 64
_MARK = "│"
_TIMES = "\N{MULTIPLICATION SIGN}"


def queues_panel(picture: Picture, *, width: int) -> Panel:
    """Each team's ClusterQueue: what it uses, with a mark where its own quota ends and borrowing begins."""
    cells = min(_LONGEST_BAR, int(width * _BAR_SHARE))
    teams = picture.scenario.teams
    scale = max((team.nominal + team.borrowing_limit for team in teams), default=1)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for fixed in (max((len(team.name) for team in teams), default=1), cells + 1, 22 if width >= WIDE else 9):
        grid.add_column(no_wrap=True, width=fixed)
    grid.add_column(no_wrap=True)
    for team in teams:
        queue = picture.queues.get(team.name, QueueView(team.name))
        name = Text(team.name, style=INKS[team.name].style)
        grid.add_row(
            name, quota_bar(team, queue, cells=cells, scale=scale), _amount(team, queue, width=width), _counts(queue)
        )
    title = Text.assemble(("Queues", "bold"), (f"  GPUs in use; {_MARK} is where a queue's own quota ends", QUIET))
    return Panel(grid, title=title, title_align="left", border_style=BORDER)


def quota_bar(team: Team, queue: QueueView, *, cells: int, scale: int) -> Text:
    """Usage and the most a queue may use, of `scale` GPUs on `cells` columns, and one column for the mark."""
    ink = INKS[team.name]
    own = team.nominal * cells // scale
    most = (team.nominal + team.borrowing_limit) * cells // scale
    filled = -(-queue.used * cells // scale)
    glyphs = [(ink.glyph, ink.style) if at < filled else (FREE if at < most else " ", QUIET) for at in range(cells)]
    return Text.assemble(*glyphs[:own], (_MARK, "bold"), *glyphs[own:])


def gangs_panel(picture: Picture, *, at: float, width: int, rows: int) -> Panel:
    """All gangs where they fit into so many rows, else those of the act that is on; then the single pods."""
    acts = picture.scenario.acts
    if sum(len(act.gangs) for act in acts) + 1 > rows:
        acts = (picture.act or acts[0],)
    tracks = [picture.tracks[gang.team, gang.name] for act in acts for gang in act.gangs][: max(0, rows - 1)]
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    longest = max((track.job.members for track in tracks), default=1)
    sizes = (7,) if width >= WIDE else ()
    for fixed in (max((len(track.job.path) for track in tracks), default=1), *sizes, longest, 8):
        grid.add_column(no_wrap=True, width=fixed)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for track in tracks:
        grid.add_row(*_gang(track, at=at, width=width))
    title = Text.assemble(("Gangs", "bold"), ("  ● bound  ○ waiting, all or none", QUIET))
    return Panel(Group(grid, _singles(picture, acts)), title=title, title_align="left", border_style=BORDER)


def _amount(team: Team, queue: QueueView, *, width: int) -> Text:
    own = queue.used - queue.borrowed
    if width < WIDE:
        return Text(f"{own:>2}/{team.nominal}" + (f" +{queue.borrowed}" if queue.borrowed else ""))
    return Text(f"{own:>2} of {team.nominal}" + (f" + {queue.borrowed} borrowed" if queue.borrowed else ""))


def _counts(queue: QueueView) -> Text:
    admitted = (f"{queue.admitted} admitted", "" if queue.admitted else QUIET)
    return Text.assemble(admitted, "  ", (f"{queue.pending} waiting", "yellow" if queue.pending else QUIET))


def _gang(track: Track, *, at: float, width: int) -> Iterable[Text]:
    job, state = track.job, track.state
    style = QUIET if state in (State.EXPECTED, State.FINISHED) else INKS[job.team].style
    yield Text(job.path, style=style)
    if width >= WIDE:
        yield Text(f"{job.members:>2} {_TIMES} {job.gpus}", style=QUIET)
    yield _members(track, style)
    yield Text(state.value, style=STATES[state])
    yield _remark(track, at=at, wide=width >= WIDE)


def _members(track: Track, style: str) -> Text:
    here = len(track.pods)
    return Text.assemble(
        ("●" * track.bound, style), ("○" * (here - track.bound), "yellow"), (FREE * (track.job.members - here), QUIET)
    )


def _remark(track: Track, *, at: float, wide: bool) -> Text:
    """Why it waits and since when, or where it runs and how it came there."""
    match track.state:
        case State.EXPECTED:
            return Text("")
        case State.WAITING | State.BINDING:
            why = "" if track.why is None else track.why.brief if wide else track.why.numbers
            return Text(f"{at - (track.arrived_at or at):.0f} s  {why}", style="yellow")
        case State.RUNNING | State.FINISHED:
            nodes = len({pod.node for pod in track.pods.values()})
            text = f"{nodes} node{'s' * (nodes > 1)}, waited {seconds(track.waited_seconds)}"
            within = f", bound within {seconds(track.spread_seconds)}" if wide else ""
            return Text(text + within, style=QUIET if track.state is State.FINISHED else "")
        case State.FAILED:
            return Text("a pod of it failed", style="bold red")


def _singles(picture: Picture, acts: Iterable[Act]) -> Text:
    jobs: Sequence[Job] = [job for act in acts for job in act.jobs if not job.is_gang]
    states = [picture.tracks[job.team, job.name].state for job in jobs]
    parts = [Text("single pods")]
    for state in (State.EXPECTED, State.WAITING, State.RUNNING, State.FINISHED, State.FAILED):
        count = states.count(state)
        if count:
            parts.append(Text(f"{count} {state}", style=STATES[state]))
    return Text("  ").join(parts if jobs else [*parts, Text("none in this act", style=QUIET)])
