"""`tutti explain workload`: why it waits, gate by gate, and what would unblock it."""

from __future__ import annotations

import click

from tutti.cli.grouping import Group
from tutti.cli.views.completing import names
from tutti.cli.views.explain.answer import explained
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.naming import named
from tutti.cli.views.viewing import NO, Way, fail, view


@click.group("explain", cls=Group)
def command() -> None:
    """Say why something is as it is."""


@command.command("workload")
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=names("Workload", "PodGroup"))
@click.option("-n", "--namespace", help="Its namespace, where NAME has none; that of the context if not given.")
@click.option("--what-if/--no-what-if", default=True, help="Whether to try out what would unblock it.")
@view
def workload(way: Way, *, name: str, namespace: str | None, what_if: bool) -> None:
    """Say gate by gate, with numbers, why a Workload, gang or pod waits, and what would unblock it."""
    asked = way.ask()
    way.require(asked, "nodes", "pods")
    space, _, own = name.rpartition("/")
    state = asked.stock().state
    key = named(state, asked.listed, space or namespace or asked.listed.namespace, own)
    if isinstance(key, str):
        fail(key, NO)
    found = explained(asked, state, key, trying=what_if)
    way.show(found, lambda: draw_explained(found, asked.at))
