"""The panels of queues and gangs: usage against quota, and every gang with its members and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tutti_demo.ink import BORDER, FREE, INKS, QUIET, STATES, WIDE, seconds
from tutti_demo.picture import Picture, QueueView
from tutti_demo.scenario import Act, Job, Team
from tutti_demo.track import State, Track

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
