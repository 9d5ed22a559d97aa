"""Gangs, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.console import RenderableType
from rich.text import Text

from tutti.cli.views.degraded import end, numbers
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, WIDE, Page, ago, table
from tutti.cli.views.gangs.model import Gang
from tutti.engine.records.workloads import Phase

_STYLES: Mapping[str, str] = MappingProxyType(
    {
        Phase.WAITING: WAITS,
        Phase.RESERVED: "cyan",
        Phase.BINDING: "cyan",
        Phase.SCHEDULED: GOOD,
        Phase.LEAVING: BAD,
        Phase.FINISHED: QUIET,
    }
)
_DOTS = 16


def draw_gangs(found: Sequence[Gang], now: float, page: Page = WIDE) -> RenderableType:
    """Draw gangs as a table."""
    if not found:
        return Text("There are no gangs to show.")
    right = ("NEEDS", "BOUND", "AGE")
    counts = () if page.narrow else right[:2]  # the dots tell them, and what it waits for tells where
    gate = () if page.narrow else ("AT",)
    drawn = table(
        *("NAMESPACE", "GANG", "QUEUE", "MEMBERS", *counts, "PHASE", "AGE", *gate, "WHY"),
        right=right,
        wraps=("WHY",),
        page=page,
    )
    for one in found:
        phase, style = ("Degraded", BAD) if one.degraded is not None else (one.phase, _STYLES.get(one.phase, ""))
        drawn.add_row(
            one.namespace,
            one.name,
            one.cluster_queue or one.queue or Text("-", QUIET),
            members(one.bound, one.members, one.required),
            *((str(one.required), str(one.bound)) if counts else ()),
            Text(phase, style),
            ago(now - one.since),
            *((one.gate,) if gate else ()),
            Text(_why(one, now), WAITS if one.gate or one.degraded else QUIET),
        )
    return drawn


def _why(one: Gang, now: float) -> str:
    lacks = one.degraded
    return one.why if lacks is None else f"{numbers(lacks, now)}; {lacks.waits_for}; {end(lacks, now)}"


def members(bound: int, there: int, required: int) -> Text:
    """Return a dot for each member: bound, waiting, or not there yet; one for several where there are many."""
    most = max(there, required, 1)
    scale = max(1, -(-most // _DOTS))
    full, some, missing = (-(-count // scale) for count in (bound, there - bound, most - there))
    return Text.assemble(("●" * full, GOOD), ("○" * some, WAITS), ("·" * missing, QUIET))
