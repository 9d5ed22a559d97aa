"""A drain, drawn: the verdict first, then pods, gangs and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tutti.api.wording import all_of, counted
from tutti.cli.views.drain.model import Drain, Fate, GangHit, Leaver
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, WIDE, Page, first_few, table

_STYLES: Mapping[Fate, str] = MappingProxyType(
    {Fate.STAYS: QUIET, Fate.ENDED: QUIET, Fate.MOVES: GOOD, Fate.WAITS: WAITS, Fate.LOST: BAD}
)


def draw_drain(found: Drain, page: Page = WIDE) -> RenderableType:
    """Draw what a drain would do."""
    return Group(*_parts(found, page))


def _parts(found: Drain, page: Page) -> Iterator[RenderableType]:
    leaving = sum(one.fate in (Fate.MOVES, Fate.WAITS, Fate.LOST) for one in found.pods)
    head = Text.assemble((f"Node {found.node}", "bold"), f"  {counted(leaving, 'pod')} would have to leave")
    yield head.append(" (it is cordoned already)" if found.cordoned else "", QUIET)
    if found.problems:
        yield Text("It should not be drained now:", BAD)
        for problem in found.problems:
            yield Padding(Text.assemble(("• ", BAD), problem), (0, 0, 0, 2))
    else:
        yield Text("It can be drained: every pod finds another node, and no budget is in the way.", GOOD)
        broken = [f"{one.namespace}/{one.name}" for one in found.gangs if one.breaks]
        if broken:
            gangs = counted(len(broken), "gang", verb=("runs", "run"))
            yield Text(f"Until then {gangs} with fewer members than needed: {first_few(broken)}", WAITS)
    if found.pods:
        yield Text()
        yield _pods(found, page)
    if found.gangs:
        yield Text()
        yield _gangs(found, page)
    if found.budgets:
        yield Text()
        yield _budgets(found, page)


def _pods(found: Drain, page: Page) -> RenderableType:
    whose = () if page.narrow else ("SCHEDULER", "GANG")  # gangs have a table of their own
    drawn = table("POD", "OWNER", *whose, "THEN", "", wraps=("",), page=page)
    for one in found.pods:
        drawn.add_row(
            f"{one.namespace}/{one.name}",
            one.owner or Text("none", WAITS),
            *((one.scheduler, one.gang or Text("-", QUIET)) if whose else ()),
            _then(one),
            Text(one.why, WAITS),
        )
    return drawn


def _then(one: Leaver) -> Text:
    match one.fate:
        case Fate.STAYS:
            said = "is not evicted"
        case Fate.ENDED:
            said = "is over already"
        case Fate.MOVES:
            said = f"to {one.to}"
        case Fate.WAITS:
            said = "finds no node"
        case Fate.LOST:
            said = "is gone for good"
    return Text(said, _STYLES[one.fate])


def _gangs(found: Drain, page: Page) -> RenderableType:
    numbers = ("BOUND", "LEAVE", "NEEDS")
    drawn = table("GANG", *numbers, "MEANWHILE", "THEN", right=numbers, wraps=("THEN",), page=page)
    for one in found.gangs:
        name = f"{one.namespace}/{one.name}"
        drawn.add_row(name, str(one.bound), str(one.leaving), str(one.required), _meanwhile(one), _afterwards(one))
    return drawn


def _meanwhile(one: GangHit) -> Text:
    if one.deleted:
        return Text(f"is deleted as a whole, {all_of(one.bound, 'pod')}", BAD)
    if one.breaks:
        return Text(f"breaks: {one.bound - one.leaving} of {one.required} left", BAD)
    return Text("goes on", GOOD)


def _afterwards(one: GangHit) -> Text:
    if one.whole:
        return Text("whole again", GOOD)
    patience = "" if one.patience is None else f"; taken out as a whole after {one.patience} s (readyTimeoutSeconds)"
    return Text(f"{one.why}{patience}", WAITS)


def _budgets(found: Drain, page: Page) -> RenderableType:
    drawn = table("BUDGET", "COVERS HERE", "ALLOWS", "", right=("COVERS HERE", "ALLOWS"), page=page)
    for one in found.budgets:
        said = Text(f"refuses {counted(one.short, 'eviction')}", BAD) if one.short else Text("is kept", GOOD)
        drawn.add_row(f"{one.namespace}/{one.name}", str(one.covered), str(one.allowed), said)
    return drawn
