"""Nodes that pods could be given: old ones without their cordons and taints, and new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from tutti.api.core import Node
from tutti.api.resources import CPU, MEMORY
from tutti.api.taints import HARD_EFFECTS, Taint
from tutti.cli.views.changing import changed, like, node_of, with_nodes
from tutti.cli.views.drawing import count
from tutti.cli.views.explain.trials import Case, Idea
from tutti.cluster.supply import UNFIT
from tutti.engine.admitting.attempt import Attempt, ask_for
from tutti.engine.gathering.needs import Need
from tutti.placement.judging import standing
from tutti.placement.plugins.node_unschedulable import CORDONED
from tutti.quota.flavors import Assignment, assignments

_EACH = 4
"""How many cordoned nodes are tried one by one."""
_MORE = 2
"""By how many nodes more than should do it is tried."""
_NAMES = 3


def uncordoned(case: Case) -> Iterator[Idea]:
    """Yield that cordons are taken off: each by itself, then all."""
    nodes = case.state.cluster.nodes
    cordoned = sorted(name for name, row in nodes.rows.items() if nodes.unschedulable[row])
    for some in [*([one] for one in cordoned[:_EACH]), *([cordoned] if len(cordoned) > 1 else [])]:
        seen = with_nodes(case.seen, some, _uncordoned)
        yield Idea(f"{_names(some)} {'is' if len(some) == 1 else 'are'} uncordoned", seen)


def untainted(case: Case) -> Iterator[Idea]:
    """Yield, for each taint that a pod does not tolerate, that it is tolerated or taken off."""
    nodes = case.state.cluster.nodes
    tolerations = [one for need in case.needs for one in need.klass.spec.tolerations]
    sets = (nodes.taint_sets[nodes.taint_code[row]] for row in nodes.rows.values())
    for taint in dict.fromkeys(taint for taints in sets for taint in taints):
        if taint.effect not in HARD_EFFECTS or any(one.tolerates(taint) for one in tolerations):
            continue
        tainted = sorted(name for name, row in nodes.rows.items() if taint in nodes.taint_sets[nodes.taint_code[row]])
        seen = with_nodes(case.seen, tainted, partial(_without, taint=taint))
        if taint.key in UNFIT:
            yield Idea(f"{_names(tainted)} {'loses' if len(tainted) == 1 else 'lose'} taint {taint.key}", seen)
        else:
            value = f"={taint.value}" if taint.value else ""
            yield Idea(f"taint {taint.key}{value}:{taint.effect} is tolerated, or taken off {_names(tainted)}", seen)


def more(case: Case) -> Iterator[Idea]:
    """Yield that there are more nodes like one to which the pods that lack room could go if it were empty."""
    for need in case.needs:
        room = max((one.fits for one in case.rooms if one.group == need.group.name), default=0)
        if need.klass.refusal or (room >= need.required and need.near is None):
            continue  # others, or the pod itself, are in the way
        found = _model(case, need)
        if found is None:
            continue
        model, each = found
        least = max(1, -(-(need.required - room) // each))
        numbers = [*range(least, least + _MORE + 1), -(-need.required // each)]
        for number in dict.fromkeys(numbers):
            told = f"{count(number, 'more node')} like {model.metadata.name} ({_offers(model)})"
            yield Idea(f"{told} {'is' if number == 1 else 'are'} added", [*case.seen, *like(model, number)])


def _model(case: Case, need: Need) -> tuple[Node, int] | None:
    """Return a node that could take such pods if it were empty, and how many; None where none could."""
    state, nodes = case.state, case.state.cluster.nodes
    with state.cluster.transaction() as transaction:
        profile = Attempt(state, case.workload, case.queue, transaction).profile
    given: Assignment = {}
    if case.queue is not None:
        ways = assignments(case.queue, state.catalog.flavors, need.klass.requests, need.klass.spec.tolerations)
        given = next(ways, given)
    where = ask_for(state, need, given, required=need.required).where
    wanted = nodes.vector(need.klass.requests)
    fits = standing(need.klass, nodes, where, profile).mask & (nodes.allocatable >= wanted).all(axis=1)
    names = sorted(name for name, row in nodes.rows.items() if fits[row])
    if not names:
        return None
    offers = nodes.allocatable[nodes.rows[names[0]]]
    asked = wanted > 0
    each = int((offers[asked] // wanted[asked]).min(initial=np.iinfo(np.int64).max))
    return node_of(case.seen, names[0]), each


def _uncordoned(node: Node) -> Node:
    return _without(changed(node, spec=changed(node.spec, unschedulable=False)), CORDONED)


def _without(node: Node, taint: Taint) -> Node:
    return changed(node, spec=changed(node.spec, taints=[one for one in node.spec.taints if one != taint]))


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{'node' if len(names) == 1 else 'nodes'} {', '.join(names[:_NAMES])}{rest}"


def _offers(node: Node) -> str:
    """Return what a node offers of the most telling resources: of devices, where it has any."""
    offers = node.status.allocatable
    devices = [name for name in offers if "/" in name]
    return ", ".join(f"{offers[name]} {name}" for name in devices or (CPU, MEMORY) if name in offers)
