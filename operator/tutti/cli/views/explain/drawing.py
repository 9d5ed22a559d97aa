"""An explanation, drawn: the sentence first, then gate by gate, then the numbers, then what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, agreeing, counted, ruled_out_for
from tutti.api.resources import PODS
from tutti.cli.views.degraded import DegradedGang, LostMembers, NodeState, quota_amounts
from tutti.cli.views.drawing import (
    BAD,
    BORROWED,
    DENSE,
    FULL,
    GOOD,
    HATCHED,
    LENT,
    QUIET,
    WAITS,
    WIDE,
    PageWidth,
    ago,
    amount,
    bar,
    table,
)
from tutti.cli.views.explain.leaving import draw_leaving
from tutti.cli.views.explain.model import ExplainedWorkload, GateOutcome, NodeRoom, QuotaUse, Successors


def draw_losing(found: ExplainedWorkload, lacks: DegradedGang, now: float, page: PageWidth) -> RenderableType:
    """Draw it, in lines that each begin with what they are about."""
    since = f"for {ago(now - lacks.since)}, since {timestamp(lacks.since)}"
    head = Text.assemble(("DEGRADED ", "bold"), f"{lacks.has} of {lacks.required} required, {since}")
    rows = table("WHAT", "SAID", wraps=("SAID",), header=False, page=page)
    for what, said in _lines(found, lacks, now):
        rows.add_row(Text(what, QUIET), said)
    return Group(head, Padding(rows, (0, 0, 0, 2)))


def _lines(found: ExplainedWorkload, lacks: DegradedGang, now: float) -> Iterator[tuple[str, Text]]:
    for one in lacks.lost:
        yield "lost", Text(_lost(one))
    if lacks.kept:
        kept = f"{quota_amounts(lacks.kept)} of ClusterQueue {found.cluster_queue}"
        yield "kept", Text(f"{kept}: nobody of equal or lower priority may take it")
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


def _lost(one: LostMembers) -> str:
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


def _successors(found: Successors, lacks: DegradedGang) -> Text:
    placed, number = sum(found.to.values()), lacks.missing + lacks.waiting
    they = agreeing(number, ("it", "they"))
    first = f"if {they} came now, " if lacks.missing else ""
    to = ", ".join(f"{node} ({pods})" if pods > 1 else node for node, pods in found.to.items())
    if placed >= number:
        return Text(f"{first}{they} would go to {to}", GOOD)
    who = f"{placed} of them would go to {to}, and the others" if placed else they
    return Text(f"{first}{who} would wait: {found.why}", WAITS)


_SIGNS: Mapping[GateOutcome, tuple[str, str, str]] = MappingProxyType(
    {
        GateOutcome.PASSED: ("✓", GOOD, ""),
        GateOutcome.WAITS: ("✗", BAD, ""),
        GateOutcome.WOULD_PASS: ("✓", QUIET, "would pass: "),
        GateOutcome.WOULD_WAIT: ("✗", WAITS, "would wait: "),
        GateOutcome.UNKNOWN: ("?", QUIET, ""),
        GateOutcome.SHORT: ("!", WAITS, ""),
    }
)
"""Sign and style of a gate, and what is said before its message."""
_CELLS = 24


def draw_explained(found: ExplainedWorkload, now: float, page: PageWidth = WIDE) -> RenderableType:
    """Draw an explanation."""
    return Group(*_parts(found, now, page))


def _parts(found: ExplainedWorkload, now: float, page: PageWidth) -> Iterator[RenderableType]:
    verdicts = {step.verdict for step in found.steps}
    waits = GateOutcome.WAITS in verdicts
    style = WAITS if waits or GateOutcome.SHORT in verdicts else GOOD
    yield Text.assemble((f"{found.kind} {found.namespace}/{found.name}", "bold"), "  ", (found.summary, style))
    yield Text(_facts(found, now) + (f", scheduled by shard {found.shard}" if found.shard else ""), QUIET)
    yield Text()
    yield _gates(found, page)
    yield from draw_leaving(found.leaving, now, page)
    if found.degraded is not None:
        yield Text()
        yield draw_losing(found, found.degraded, now, page)
    if found.quota:
        yield Text()
        yield _quota(found.quota, found.cluster_queue, page)
    for room in found.rooms:
        yield Text()
        yield _room(room, page)
    if found.autoscaler:
        yield Text()
        yield from (Text.assemble(("! ", WAITS), one) for one in found.autoscaler)
    if found.watts is not None:
        used = f", and has used {found.kwh:.1f} kWh" if found.kwh else ""
        yield Text(f"It draws about {found.watts:,.0f} W by the power models of its profile{used}.")
    if found.notes:
        yield Text()
        yield from (Text(f"Note: {one}", QUIET) for one in found.notes)
    if found.placed or found.lost:
        yield Text()
        yield _placed(found.placed, found.lost)
    if found.remedies:
        yield Text()
        yield _remedies(found)
    if found.hopeless:
        yield Text()
        yield Text(found.hopeless, "bold")
    if found.limits:
        yield Text()
        yield Text(f"This is what the operator has said: {found.limits}", QUIET)
    told = found.told
    if told is not None and waits and told.message not in [step.message for step in found.steps]:
        yield Text()
        yield Text.assemble(("The operator said last:  ", "bold"), (told.message, QUIET))


def _facts(found: ExplainedWorkload, now: float) -> str:
    parts = [found.phase if found.since is None else f"{found.phase} for {ago(now - found.since)}"]
    if found.priority is not None:
        parts.append(f"priority {found.priority}")
    if found.kind != "Pod":
        parts.append(f"{found.bound} of {counted(found.members, 'member')} bound, {found.required} needed")
    if found.position is not None:
        of = f" of {found.line} in ClusterQueue {found.cluster_queue}" if found.line else ""
        parts.append(f"place {found.position}{of}")
    if found.told is not None and found.told.estimated_start:
        parts.append(f"expected to start {found.told.estimated_start}")
    return ", ".join(parts)


def _gates(found: ExplainedWorkload, page: PageWidth) -> RenderableType:
    drawn = table("SIGN", "GATE", "MESSAGE", wraps=("MESSAGE",), header=False, page=page)
    for step in found.steps:
        sign, style, would = _SIGNS[step.verdict]
        message = Text.assemble((would, QUIET), (step.message, "" if step.verdict is GateOutcome.WAITS else QUIET))
        drawn.add_row(Text(sign, style), Text(step.gate, QUIET if would else style), message)
    return drawn


def _quota(quota: Sequence[QuotaUse], queue: str, page: PageWidth) -> RenderableType:
    numbers = ("NEEDS", "FREE", "MISSING", "USED", "OWN", "MOST")
    title = "QUOTA" if page.narrow else f"QUOTA OF {queue}"
    drawn = table(title, "RESOURCE", "USE", *numbers, "LENT", right=numbers, wraps=("LENT",), page=page)
    for one in quota:
        whole = max(one.most, one.used, 1)
        own, borrowed = min(one.used, one.own), max(0, one.used - one.own)
        parts = [(FULL, GOOD, own), (DENSE, BORROWED, borrowed), (HATCHED, LENT, one.lent)]
        mark = one.own if one.own < whole else None
        lent = ", ".join(f"{amount(one.resource, units)} to {name}" for name, units in one.borrowers.items())
        drawn.add_row(
            one.flavor,
            one.resource,
            bar(parts, whole=whole, cells=page.cells(_CELLS), mark=mark),
            amount(one.resource, one.needs),
            amount(one.resource, one.free),
            Text(amount(one.resource, one.missing), BAD if one.missing else QUIET),
            *(amount(one.resource, units) for units in (one.used, one.own, one.most)),
            lent,
        )
    return drawn


def _room(room: NodeRoom, page: PageWidth) -> RenderableType:
    asks = ", ".join(f"{amount(name, units)} {name}" for name, units in room.asks.items() if units and name != PODS)
    flavor = f" in flavor {room.flavor}" if room.flavor else ""
    style = GOOD if room.fits >= room.pods else BAD
    head = Text.assemble(
        ("NODES ", "bold"),
        f"for {counted(room.pods, 'pod')} of {room.group}{f' with {asks}' if asks else ''}{flavor}: ",
        (f"room for {room.fits} of {room.pods}", style),
        f" on {room.open} of {counted(room.nodes, 'node')}",
    )
    rows = table("NODES", "REASON", "EXAMPLES", wraps=("REASON", "EXAMPLES"), header=False, page=page)
    if room.open:
        examples = [f"{name} ({units})" for name, units in room.examples.items()]
        rows.add_row(
            str(room.open), f"{agreeing(room.open, HAS)} room, for so many pods", Text(_some(examples, room.open), GOOD)
        )
    for one in room.ruled:
        rows.add_row(str(one.nodes), ruled_out_for(one.nodes, one.reason), Text(_some(one.examples, one.nodes), QUIET))
    parts: list[RenderableType] = [head, Padding(rows, (0, 0, 0, 2))]
    if room.level:
        best = ", ".join(f"{name} has room for {units}" for name, units in room.domains.items())
        parts.append(Padding(Text(f"all must share one {room.level}: {best or 'no node has it'}"), (0, 0, 0, 2)))
    return Group(*parts)


def _some(examples: Sequence[str], there: int) -> str:
    told = ", ".join(examples)
    return f"{told} and {there - len(examples)} more" if examples and there > len(examples) else told


def _placed(placed: Mapping[str, int], lost: Mapping[str, int]) -> RenderableType:
    drawn = table("NODE", "PODS", *([""] if lost else []), right=("PODS",))
    for node, pods in sorted(placed.items()):
        drawn.add_row(node, str(pods))
    for node, pods in sorted(lost.items()):
        drawn.add_row(node, str(pods), Text("lost: being deleted on a node that does not work", BAD))
    return drawn


def _remedies(found: ExplainedWorkload) -> RenderableType:
    helping = [one for one in found.remedies if not one.then]
    parts: list[RenderableType] = []
    if helping:
        placed = "placed" if found.degraded is None else "whole again"
        parts.append(Text(f"It would be {placed} if any of this were so (each was tried):", "bold"))
        parts += [Padding(Text.assemble(("• ", GOOD), one.what), (0, 0, 0, 2)) for one in helping]
    for one in found.remedies:
        if one.then:
            then = f"; then it would wait: {one.then}"
            parts.append(Text.assemble(("First step: ", "bold"), one.what, (then, WAITS)))
    return Group(*parts)
