"""Nodes and models, drawn."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tutti.cli.views.drawing import BAD, FULL, GOOD, QUIET, amount, bar, table
from tutti.cli.views.nodes.model import ModelUse, NodeUse, Top

_CELLS = 16


def draw_top(found: Top, *, by_node: bool) -> RenderableType:
    """Draw what models offer, then, where that is wanted, each node."""
    if not found.models:
        return Text("No node offers any of that.")
    parts: list[RenderableType] = [_models(found)]
    if by_node:
        parts += [Text(), _nodes(found)]
    return Group(*parts)


def _models(found: Top) -> RenderableType:
    sizes = sorted({size for one in found.models for size in one.fits})
    fits = [f"FIT OF {size}" for size in sizes]
    numbers = ("NODES", "USED", "OF", "FREE", "LARGEST", *fits)
    drawn = table("MODEL", "RESOURCE", "NODES", "USE", *numbers[1:], "HOLES", right=numbers)
    for one in found.models:
        drawn.add_row(
            one.model or "-",
            one.resource,
            str(one.open) if one.open == one.nodes else f"{one.open} of {one.nodes}",
            _bar(one.used, one.allocatable),
            *(amount(one.resource, units) for units in (one.used, one.allocatable, one.free, one.largest)),
            *(str(one.fits[size]) if size in one.fits else "" for size in sizes),
            _holes(one),
        )
    return drawn


def _nodes(found: Top) -> RenderableType:
    drawn = table("NODE", "MODEL", "RESOURCE", "USE", "USED", "OF", "FREE", "", right=("USED", "OF", "FREE"))
    for one in found.nodes:
        style = "" if one.open else QUIET
        drawn.add_row(
            Text(one.node, style),
            Text(one.model or "-", style),
            Text(one.resource, style),
            _bar(one.used, one.allocatable),
            *(Text(amount(one.resource, units), style) for units in (one.used, one.allocatable, one.free)),
            _notes(one),
        )
    return drawn


def _bar(used: int, whole: int) -> Text:
    """One column for each device, where there are few."""
    cells = whole if 1 < whole <= _CELLS else _CELLS
    return bar([(FULL, GOOD if used <= whole else BAD, used)], whole=whole, cells=cells)


def _holes(one: ModelUse) -> str:
    return ", ".join(f"{nodes} with {amount(one.resource, free)}" for free, nodes in one.holes.items()) or "none"


def _notes(one: NodeUse) -> Text:
    return Text(", ".join(one.notes), BAD if not one.open else QUIET)
