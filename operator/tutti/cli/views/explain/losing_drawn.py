"""What a degraded gang has lost, what is kept for it and what comes after, drawn."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tutti.api.conditions import timestamp
from tutti.api.messages import agreeing, counted
from tutti.cli.views.degraded import Degraded, Lost, NodeState, amounts
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, Page, ago, amount, table
from tutti.cli.views.explain.model import Explained, Successors


def draw_losing(found: Explained, lacks: Degraded, now: float, page: Page) -> RenderableType:
    """Draw it, in lines that each begin with what they are about."""
    since = f"for {ago(now - lacks.since)}, since {timestamp(lacks.since)}"
    head = Text.assemble(("DEGRADED ", "bold"), f"{lacks.has} of {lacks.required} required, {since}")
    rows = table("WHAT", "SAID", wraps=("SAID",), header=False, page=page)
    for what, said in _lines(found, lacks, now):
        rows.add_row(Text(what, QUIET), said)
    return Group(head, Padding(rows, (0, 0, 0, 2)))


def _lines(found: Explained, lacks: Degraded, now: float) -> Iterator[tuple[str, Text]]:
    for one in lacks.lost:
        yield "lost", Text(_lost(one))
    if lacks.kept:
        kept = amounts({(one.flavor, one.resource): one.amount for one in lacks.kept})
        text = f"{kept} of ClusterQueue {found.cluster_queue}: nobody of equal or lower priority may take it"
        yield "kept", Text(text)
    if found.leaves_now:
        yield "now", Text(f"it is taken out: {found.leaves_now}", BAD)
        return
    yield "now", Text(lacks.waits_for, WAITS)
    if found.successors is not None:
        yield "successors", _successors(found.successors, lacks)
    if lacks.restarts_at is None:
        yield "then", Text("it runs on with what is left, and its window has no end (onMemberLoss: Keep)")
        return
    if lacks.restarts_at <= now:
        yield "then", Text("its window is over: it is restarted whole as soon as it could start again", BAD)
        return
    at = f"in {ago(lacks.restarts_at - now)}, at {timestamp(lacks.restarts_at)} (onMemberLoss: Restart)"
    then = "what is left is taken out with reason MemberLost, and goes before others of its priority"
    yield "then", Text.assemble((f"unless it is whole before, it is restarted whole {at}", BAD), f": {then}")
    if found.early:
        yield "earlier", Text(f"at once, when it is clear that waiting cannot help: {'; or '.join(found.early)}")


def _lost(one: Lost) -> str:
    asks = ", ".join(f"{amount(name, units)} {name}" for name, units in one.asks.items() if units)
    what = f"{counted(one.count, 'member')} of {one.group}"
    match one.state:
        case NodeState.WORKS:
            return f"{what} on {one.node}, with {asks}: the node works, and the room is kept"
        case NodeState.DOWN:
            return f"{what} on {one.node}, with {asks}: the node does not work, so no room is kept"
        case NodeState.GONE:
            return f"{what} on {one.node}, with {asks}: the node is gone, so no room is kept"
        case NodeState.UNKNOWN:
            return f"{what}, with {asks}: nobody has seen where, so no room is kept"


def _successors(found: Successors, lacks: Degraded) -> Text:
    placed, number = sum(found.to.values()), lacks.missing + lacks.waiting
    they = agreeing(number, ("it", "they"))
    first = f"if {they} came now, " if lacks.missing else ""
    to = ", ".join(f"{node} ({pods})" if pods > 1 else node for node, pods in found.to.items())
    if placed >= number:
        return Text(f"{first}{they} would go to {to}", GOOD)
    who = f"{placed} of them would go to {to}, and the others" if placed else they
    return Text(f"{first}{who} would wait: {found.why}", WAITS)
