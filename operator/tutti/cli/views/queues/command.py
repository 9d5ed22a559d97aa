"""`tutti queue`: the tree of cohorts and queues, or one queue and who waits in it."""

from __future__ import annotations

import click

from tutti.cli.views.completing import names
from tutti.cli.views.queues.drawing import draw_details, draw_forest
from tutti.cli.views.queues.model import accelerators, details, forest
from tutti.cli.views.viewing import NO, Way, fail, view


@click.command("queue")
@click.argument("name", required=False, shell_complete=names("ClusterQueue"))
@click.option("-r", "--resource", "resources", multiple=True, help="Resource to show; may be given several times.")
@click.option("--all", "everything", is_flag=True, help="Show all resources; else devices only, where there are any.")
@view
def command(way: Way, *, name: str | None, resources: tuple[str, ...], everything: bool) -> None:
    """Show cohorts and queues: quota, use, borrowing, and how many wait; with NAME, one queue and who waits in it."""
    asked = way.ask()
    way.require(asked)
    engine = asked.stock()
    roots = forest(engine.state)
    known = {use.resource for root in roots for use in root.uses}
    if known and not known.issuperset(resources):
        lacking = ", ".join(sorted(set(resources) - known))
        fail(f"no queue has quota of {lacking}; there is: {', '.join(sorted(known))}", NO)
    chosen = set(resources) or (not everything and set(accelerators(roots)))
    chosen = chosen or known
    if name is None:
        way.show(list(roots), lambda page: draw_forest(roots, chosen, page))
        return
    engine.decide(asked.at)
    found = details(engine.state, name)
    if found is None:
        there = ", ".join(sorted(engine.state.holdings.tree.queues)) or "none"
        fail(f"there is no ClusterQueue {name}; there are: {there}", NO)
    way.show(found, lambda page: draw_details(found, chosen, asked.at, page))
