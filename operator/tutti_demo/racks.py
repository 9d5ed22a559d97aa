"""The panel of nodes: a bar of GPUs per node, a block per rack, as many racks side by side as fit."""

from __future__ import annotations

import os.path
from collections.abc import Collection
from dataclasses import dataclass

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tutti.api.wording import counted
from tutti_demo.ink import BORDER, FREE, INKS, QUIET
from tutti_demo.picture import NodeView, Picture

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
