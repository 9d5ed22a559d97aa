"""`tutti explain workload`: why it waits, gate by gate, and what would unblock it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click
from msgspec.structs import replace

from tutti.cli.grouping import Group
from tutti.cli.views.asking import Asked
from tutti.cli.views.completing import names
from tutti.cli.views.explain.answer import explained
from tutti.cli.views.explain.as_told import as_told
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.naming import named
from tutti.cli.views.viewing import NO, Way, fail, view

_WORKLOADS = ("workloads", "wl", "podgroup", "podgroups", "pg", "gang", "gangs", "pod", "pods", "po", "job", "jobs")
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_WORKLOADS, ""),
        **dict.fromkeys(("clusterqueue", "clusterqueues", "cq", "queue", "queues"), "queue {}"),
        **dict.fromkeys(("node", "nodes", "no"), "drain-check {}"),
    }
)
"""What is called for a kind that somebody may name after `explain`; "" where that is `explain workload` itself."""


def _advice(called: str, words: Sequence[str]) -> str:
    """Say how to ask for what somebody may have meant who gave a kind or a name in place of `workload`."""
    rest = [word for word in words[1:] if not word.startswith("-")]
    kind, _, joined = words[0].lower().partition("/")
    kind = kind.partition(".")[0]
    name = joined or (rest[0] if rest else "NAME") if kind in _INSTEAD else words[0]
    if _INSTEAD.get(kind):
        return f"say `{called.rpartition(' ')[0]} {_INSTEAD[kind].format(name)}` for that: {called} is about workloads"
    return f"say `{called} workload {name}`: it explains a Workload, a gang and a pod, whichever has that name"


@click.group("explain", cls=Group, advice=_advice)
def command() -> None:
    """Say why something is as it is."""


@command.command("workload")
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=names("Workload", "PodGroup"))
@click.option("-n", "--namespace", help="Its namespace, where NAME has none; that of the context if not given.")
@click.option("--what-if/--no-what-if", default=True, help="Whether to try out what would unblock it.")
@view
def workload(way: Way, *, name: str, namespace: str | None, what_if: bool) -> None:
    """Say gate by gate, with numbers, why a Workload, gang or pod waits, and what would unblock it."""
    space, _, own = name.rpartition("/")
    asked = way.ask(space or namespace)
    space = space or namespace or asked.listed.namespace
    missing = way.lacks(asked)
    if missing:
        _tell(way, asked, space, own, missing)
        return
    state = asked.stock().state
    key = named(state, asked.listed, space, own)
    if isinstance(key, str):
        fail(key, NO)
    with way.busy("trying what would help ..."):
        found = explained(asked, state, key, trying=what_if)
    way.show(found, lambda page: draw_explained(found, asked.at, page))


def _tell(way: Way, asked: Asked, namespace: str, name: str, missing: str) -> None:
    """Answer with what the operator has written, since there is no answer of one's own."""
    found = as_told(asked.listed, namespace, name)
    if found is None:
        fail(f"there is no Workload, PodGroup or pod {namespace}/{name} that you may see, and {missing}", NO)
    told = replace(found, limits=missing)
    way.show(told, lambda page: draw_explained(told, asked.at, page))
