"""What `tutti simulate --learn` answers: what was learned, how it does on what it has not seen, and where it stands."""

from __future__ import annotations

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.api.messages import counted
from tutti.cli.views.drawing import BAD, GOOD, QUIET, PageWidth, table
from tutti_simulate.learning import Judged, Learned
from tutti_simulate.report import TraceReport, seconds

_UNITS = {"wait": "wait", "slowdown": "bounded slowdown"}


class Lessons(msgspec.Struct, frozen=True, rename="camel"):
    """The whole answer: what was read, and what came of it."""

    trace: TraceReport
    learned: Learned
    scheduler: str


def draw_learned(found: Lessons, page: PageWidth) -> RenderableType:
    """Draw it: what was learned from, the judgement, and whether and where the policy stands now."""
    learned, what = found.learned, _UNITS[found.learned.goal]
    seen = learned.seen
    parts: list[RenderableType] = [
        Text(f"learned from {counted(seen.jobs, 'job')}, played {counted(learned.plays, 'time')}"),
        Text(
            f"on these: mean {what} {_figure(seen.before, learned.goal)} before, "
            f"{_figure(seen.learned, learned.goal)} with what was learned"
        ),
        Text(),
    ]
    numbers = ("COUNT", "BEFORE", "LEARNED", "GAIN", "95 % OF DRAWS")
    rows = table(f"NOT SEEN: MEAN {what.upper()}", *numbers, right=numbers, page=page)
    for one in (*learned.unseen, *((learned.all,) if len(learned.unseen) > 1 else ())):
        rows.add_row(*_row(one, learned.goal))
    parts += [rows, Text()]
    if learned.installed:
        parts.append(Text(f"installed: {learned.installed} ({learned.policy.checksum})", GOOD))
        settings = f"{{file: {learned.installed}, weight: {learned.policy.trained['weight']}}}"
        parts.append(Text(f"use it by profiles: [{{schedulerName: {found.scheduler}, learnedScore: {settings}}}]"))
    else:
        parts.append(Text("not installed: on what it had not seen, the interval of the gain is not above 0", BAD))
    return Group(*parts, *(Text(f"note: {note}", QUIET) for note in learned.notes))


def _row(one: Judged, goal: str) -> list[RenderableType]:
    sign = GOOD if one.low > 0 else BAD if one.high < 0 else QUIET
    within = f"{one.low:+,.2f} to {one.high:+,.2f}"
    means = (Text(_figure(value, goal)) for value in (one.before, one.learned))
    return [Text(one.trace or "all"), Text(f"{one.jobs:,}"), *means, Text(f"{one.gain:+,.2f}", sign), Text(within)]


def _figure(value: float, goal: str) -> str:
    return seconds(value) if goal == "wait" else f"{value:,.2f}"
