"""Nodes and models, drawn."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tutti.cli.views.drawing import BAD, FULL, GOOD, QUIET, WIDE, Page, amount, bar, table
from tutti.cli.views.nodes.model import ModelUse, NodeUse, Top

_CELLS = 16


def draw_top(found: Top, *, by_node: bool, page: Page = WIDE) -> RenderableType:
    """Draw what models offer, then, where that is wanted, each node."""
    if not found.models:
        return Text("No node offers any of that.")
    parts: list[RenderableType] = [_models(found, page)]
    if by_node:
        parts += [Text(), _nodes(found, page)]
    return Group(*parts)


def _models(found: Top, page: Page) -> RenderableType:
    numbers = ("NODES", "USED", "OF", "FREE", "LARGEST")
    texts = ("PODS THAT FIT", "HOLES")
    drawn = table("MODEL", "RESOURCE", "NODES", "USE", *numbers[1:], *texts, right=numbers, wraps=texts, page=page)
    for one in found.models:
        drawn.add_row(
            one.model or "-",
            one.resource,
            str(one.open) if one.open == one.nodes else f"{one.open} of {one.nodes}",
            _bar(one.used, one.allocatable, page),
            *(amount(one.resource, units) for units in (one.used, one.allocatable, one.free, one.largest)),
            ", ".join(f"{pods} of {size}" for size, pods in one.fits.items()) or "-",
            _holes(one),
        )
    return drawn


def _nodes(found: Top, page: Page) -> RenderableType:
    numbers = ("USED", "OF", "FREE")
    drawn = table("NODE", "MODEL", "RESOURCE", "USE", *numbers, "", right=numbers, wraps=("",), page=page)
    for one in found.nodes:
        style = "" if one.open else QUIET
        drawn.add_row(
            Text(one.node, style),
            Text(one.model or "-", style),
            Text(one.resource, style),
            _bar(one.used, one.allocatable, page),
            *(Text(amount(one.resource, units), style) for units in (one.used, one.allocatable, one.free)),
            _notes(one),
        )
    return drawn


def _bar(used: int, whole: int, page: Page) -> Text:
    """One column for each device, where there are few."""
    most = page.cells(_CELLS)
    cells = whole if 1 < whole <= most else most
    return bar([(FULL, GOOD if used <= whole else BAD, used)], whole=whole, cells=cells)


def _holes(one: ModelUse) -> str:
    return ", ".join(f"{nodes} with {amount(one.resource, free)}" for free, nodes in one.holes.items()) or "-"


def _notes(one: NodeUse) -> Text:
    return Text(", ".join(one.notes), BAD if not one.open else QUIET)
