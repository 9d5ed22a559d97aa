"""`tutti top`: what is used and free, and what plugins take."""

from __future__ import annotations

import time

import click

from tutti.cli.grouping import CommandGroup
from tutti.cli.views.command_line import NO, ViewOptions, fail, there_are, view
from tutti.cli.views.nodes import devices, draw_top, models_of, offered, top
from tutti.cli.views.plugin_costs import draw_costs, plugin_costs


@click.group("top", cls=CommandGroup)
def command() -> None:
    """Show what is used and what is free, or what plugins take."""


@command.command("nodes")
@click.option("-r", "--resource", "resources", multiple=True, help="Resource to show; may be given several times.")
@click.option("--label", help="Node label that tells models apart, in place of those of vendors and clouds.")
@click.option("--models", is_flag=True, help="Show models only, not each node.")
@view
def nodes(way: ViewOptions, *, resources: tuple[str, ...], label: str | None, models: bool) -> None:
    """Show devices used and free per model and node, the holes, and how many pods of each size fit."""
    asked = way.ask()
    way.require(asked)
    state = asked.stock().state
    found = top(state, resources or devices(state), label, lambda node: asked.shard_of("Node", node))
    known = offered(state)
    lacking = sorted({*resources} - {*known})
    if known and lacking and not found.unreadable:  # these may be what offers it, and the answer says what is wrong
        fail(f"no node offers {', '.join(lacking)}; there is: {there_are(known)}", NO)
    told = models_of(found) if models else found
    way.show(told, lambda page: draw_top(told, page))


@command.command("plugins")
@view
def plugins(way: ViewOptions) -> None:
    """Show what each filter and score takes for the pods of this cluster, measured here and not in the operator."""
    asked = way.ask()
    way.require(asked)
    with way.busy("asking every plugin ..."):
        found = plugin_costs(asked.stock().state, time.perf_counter)
    way.show(found, lambda page: draw_costs(found, page))
