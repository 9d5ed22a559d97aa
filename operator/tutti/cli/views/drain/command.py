"""`tutti drain-check`: what would break if a node were drained."""

from __future__ import annotations

import difflib

import click

from tutti.cli.views.completing import names
from tutti.cli.views.drain.checking import checked
from tutti.cli.views.drain.drawing import draw_drain
from tutti.cli.views.viewing import NO, Way, fail, view


@click.command("drain-check")
@click.argument("node", shell_complete=names("Node"))
@view
def command(way: Way, *, node: str) -> None:
    """Say what a drain of NODE would do: where its pods go, which gangs break, which budgets forbid it.

    Nothing is evicted. Exits 0 where the node can be drained, 1 where it should not be now.
    """
    asked = way.ask()
    way.require(asked)
    state = asked.stock().state
    if node not in state.cluster.nodes.rows:
        near = difflib.get_close_matches(node, state.cluster.nodes.rows, n=3)
        fail(f"there is no node {node}{'; there is ' + ', '.join(near) if near else ''}", NO)
    found = checked(asked, state, node)
    way.show(found, lambda page: draw_drain(found, page))
    click.get_current_context().exit(NO if found.problems else 0)
