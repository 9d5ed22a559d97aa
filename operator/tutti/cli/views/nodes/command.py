"""`tutti top nodes`: devices used and free, per model and node, and how large the holes are."""

from __future__ import annotations

import click

from tutti.cli.grouping import Group
from tutti.cli.views.nodes.drawing import draw_top
from tutti.cli.views.nodes.model import devices, top
from tutti.cli.views.viewing import Way, view


@click.group("top", cls=Group)
def command() -> None:
    """Show what is used and what is free."""


@command.command("nodes")
@click.option("-r", "--resource", "resources", multiple=True, help="Resource to show; may be given several times.")
@click.option("--label", help="Node label that tells models apart, in place of those of vendors and clouds.")
@click.option("--models", is_flag=True, help="Show models only, not each node.")
@view
def nodes(way: Way, *, resources: tuple[str, ...], label: str | None, models: bool) -> None:
    """Show devices used and free per model and node, the holes, and how many pods of each size fit."""
    asked = way.ask()
    way.require(asked)
    state = asked.stock().state
    found = top(state, resources or devices(state), label)
    way.show(found, lambda page: draw_top(found, by_node=not models, page=page))
