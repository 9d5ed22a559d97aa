"""`tutti drain-check`: what would break if a node were drained; the verdict first, then pods, gangs and budgets."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tutti.api.messages import all_of, counted
from tutti.cli.views.command_line import NO, ViewOptions, fail, names, view
from tutti.cli.views.degraded import quota_amounts
from tutti.cli.views.drain.checking import check_drain
from tutti.cli.views.drain.trial import NOBODY_MAKES_THEM, AffectedGang, Drain, DrainedPod, PodFate
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, WIDE, PageWidth, first_few, table

_STYLES: Mapping[PodFate, str] = MappingProxyType(
    {PodFate.STAYS: QUIET, PodFate.ENDED: QUIET, PodFate.MOVES: GOOD, PodFate.WAITS: WAITS, PodFate.LOST: BAD}
)


_HOW = (
    "kubectl drain evicts pods one by one, whatever disruptionMode a PodGroup has: that binds Tutti only, which takes "
    "members beyond the minimum first, else the whole gang."
)


def draw_drain(found: Drain, page: PageWidth = WIDE) -> RenderableType:
    """Draw what a drain would do."""
    return Group(*_parts(found, page))


def _parts(found: Drain, page: PageWidth) -> Iterator[RenderableType]:
    leaving = sum(one.fate in (PodFate.MOVES, PodFate.WAITS, PodFate.LOST) for one in found.pods)
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
    if found.protected:
        pods = counted(len(found.protected), "pod", verb=("keeps", "keep"))
        yield Text(f"{pods} autoscalers from taking it away: {first_few(found.protected)}", WAITS)
    if found.pods:
        yield Text()
        yield _pods(found, page)
    if found.gangs:
        yield Text()
        yield _gangs(found, page)
    if any(one.breaks for one in found.gangs):
        yield Text(_HOW, QUIET)
    if found.budgets:
        yield Text()
        yield _budgets(found, page)


def _pods(found: Drain, page: PageWidth) -> RenderableType:
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


def _then(one: DrainedPod) -> Text:
    match one.fate:
        case PodFate.STAYS:
            said = "is not evicted"
        case PodFate.ENDED:
            said = "is over already"
        case PodFate.MOVES:
            said = f"to {one.to}"
        case PodFate.WAITS:
            said = "finds no node"
        case PodFate.LOST:
            said = "is gone for good"
    return Text(said, _STYLES[one.fate])


def _gangs(found: Drain, page: PageWidth) -> RenderableType:
    numbers = ("BOUND", "LEAVE", "NEEDS")
    drawn = table("GANG", *numbers, "MEANWHILE", "THEN", right=numbers, wraps=("MEANWHILE", "THEN"), page=page)
    for one in found.gangs:
        name = f"{one.namespace}/{one.name}"
        drawn.add_row(name, str(one.bound), str(one.leaving), str(one.required), _meanwhile(one), _afterwards(one))
    return drawn


def _meanwhile(one: AffectedGang) -> Text:
    if one.deleted:
        return Text(f"is deleted as a whole, {all_of(one.bound, 'pod')}", BAD)
    if not one.breaks:
        return Text("goes on", GOOD)
    if one.bound == one.leaving:
        return Text("all of it leaves", BAD)
    left = f"degraded: {one.bound - one.leaving} of {one.required} left"
    if not one.action:
        return Text(left, BAD)
    devices = [part for part in one.kept if "/" in part.resource]
    kept = quota_amounts(devices or one.kept)
    if not kept:
        return Text(
            f"{left} {'until it has its members' if one.window is None else f'for at most {one.window} s'}", BAD
        )
    how_long = "until it has its members" if one.window is None else f"for {one.window} s"
    return Text(f"{left}; quota is kept for successors {how_long}: {kept}", BAD)


def _afterwards(one: AffectedGang) -> Text:
    if one.whole:
        return Text("whole again", GOOD)
    parts = [] if one.at_once else [one.why.rstrip(".")]
    if one.breaks:
        parts.append(_end(one))
    if one.patience is not None and (one.window is None or one.patience < one.window):
        parts.append(f"taken out as a whole after {one.patience} s (readyTimeoutSeconds)")
    return Text("; ".join(part for part in parts if part), WAITS)


def _end(one: AffectedGang) -> str:
    """Say what becomes of a gang that does not get its members again in time."""
    if one.at_once:
        return f"the gang is restarted whole at once: {one.at_once}; {_again(one)}"
    if one.bound == one.leaving:
        return "it starts again whole when there is room"
    if one.action != "Restart":
        said = " (onMemberLoss: Keep)" if one.action else ""
        return f"it runs on with {one.bound - one.leaving} of {one.required}{said}"
    sooner = ", or at once when the Node is deleted," if one.when_gone else ""
    after = f"after {one.window} s{sooner}"
    if one.why == NOBODY_MAKES_THEM:
        return f"{after} what is left is taken out too (onMemberLoss), and nothing makes it again"
    return f"{after} the gang is restarted whole (onMemberLoss): {_again(one)}"


def _again(one: AffectedGang) -> str:
    if not one.again:
        return f"then it waits: {one.again_why}"
    return f"then it goes to {', '.join(f'{node} ({pods})' if pods > 1 else node for node, pods in one.again.items())}"


def _budgets(found: Drain, page: PageWidth) -> RenderableType:
    drawn = table("BUDGET", "COVERS HERE", "ALLOWS", "", right=("COVERS HERE", "ALLOWS"), page=page)
    for one in found.budgets:
        said = Text(f"refuses {counted(one.short, 'eviction')}", BAD) if one.short else Text("is kept", GOOD)
        drawn.add_row(f"{one.namespace}/{one.name}", str(one.covered), str(one.allowed), said)
    return drawn


@click.command("drain-check")
@click.argument("node", shell_complete=names("Node"))
@view
def command(way: ViewOptions, *, node: str) -> None:
    """Say what a drain of NODE would do: where its pods go, which gangs break, which budgets forbid it.

    Nothing is evicted. Exits 0 where the node can be drained, 1 where it should not be now.
    """
    asked = way.ask()
    way.require(asked)
    asked = asked.around("Node", node)
    state = asked.stock().state
    if node not in state.cluster.nodes.rows:
        near = difflib.get_close_matches(node, state.cluster.nodes.rows, n=3)
        fail(f"there is no node {node}{'; there is ' + ', '.join(near) if near else ''}", NO)
    found = check_drain(asked, state, node)
    way.show(found, lambda page: draw_drain(found, page))
    click.get_current_context().exit(NO if found.problems else 0)
