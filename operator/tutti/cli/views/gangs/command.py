"""`tutti gangs`: every gang, how far it has come, and why it waits."""

from __future__ import annotations

import click

from tutti.cli.views.gangs.drawing import draw_gangs
from tutti.cli.views.gangs.model import gangs
from tutti.cli.views.viewing import Way, view


@click.command("gangs")
@click.option("-n", "--namespace", help="Those of one namespace; all of them if not given.")
@click.option("--waiting", is_flag=True, help="Only those that wait for nodes.")
@click.option("--degraded", is_flag=True, help="Only those that run with fewer members than they need.")
@view
def command(way: Way, *, namespace: str | None, waiting: bool, degraded: bool) -> None:
    """Show every gang: its members, where it is in its life, and what it waits for."""
    asked = way.ask()
    way.require(asked)
    found = gangs(asked, namespace=namespace, waiting=waiting, degraded=degraded)
    way.show(list(found), lambda page: draw_gangs(found, asked.at, page))
