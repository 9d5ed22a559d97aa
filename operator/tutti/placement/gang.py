"""Where a whole gang goes: k equal pods are one choice over all nodes, not k passes.

Capacity per node is one expression; the choice equals what k sequential decisions of kube-scheduler would give
(`node_choice`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import Amounts
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import UNCONSTRAINED
from tutti.cluster.transaction import Transaction
from tutti.placement.domains import means
from tutti.placement.feasible_capacity import FeasibleCapacity, limited_per_node
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints, Mask, Rows, limits_per_node, reserves
from tutti.placement.node_choice import NodeChoice, discriminating_scores
from tutti.placement.plugins.devices import has_faults
from tutti.placement.plugins.spread_constraints import default_selector
from tutti.placement.profile import Profile, filter_nodes, pre_filter, pre_score, static_filter_result
from tutti.placement.sequential import feasible
from tutti.placement.topology.assignment import TopologyChoice, place_by_topology
from tutti.placement.topology.request import TopologyPlacement
from tutti.placement.topology.tree import domain_tree

PLENTY = 1_000_000_000
"""More pods than any node takes; a sum over all nodes stays within int64."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods of one class that want nodes.

    Attributes:
        pod_class: Their class.
        required: How many must be placed, or nothing is.
        extra: How many more are placed where there is room.
        where: What their flavor adds to their own constraints.
        topology: How near one another they must be; None where that does not matter.
    """

    pod_class: PodClass
    required: int
    extra: int = 0
    where: FlavorConstraints = NO_FLAVOR
    topology: TopologyPlacement | None = None


def required_amounts(asks: Iterable[Ask], profile: Profile) -> Amounts:
    """Return what some asks require together of each resource that the profile looks at, in scheduling units."""
    wanted: Amounts = {}
    for ask in asks:
        for name, amount in ask.pod_class.requests.items():
            if amount and not profile.fit.is_ignored(name):
                wanted[name] = wanted.get(name, 0) + amount * ask.required
    return wanted


def has_room_together(nodes: NodeColumns, rows: Mask, asks: Iterable[Ask], profile: Profile) -> bool:
    """Whether some rows, bool[rows], have as much free of each resource as some asks require together.

    Where they have not, no choice of nodes among them is enough; where they have, one may still not be.
    """
    for name, amount in required_amounts(asks, profile).items():
        column = nodes.resource_index.column(name)
        free = nodes.allocatable[rows, column] - nodes.requested[rows, column]
        if int(np.maximum(free, 0).sum()) < amount:
            return False
    return True


def place_ask(
    nodes: NodeColumns,
    transaction: Transaction,
    ask: Ask,
    profile: Profile,
    *,
    within: Mask | None = None,
) -> Rows | None:
    """Take room for the pods of one ask; `within` holds them to some rows: bool[rows].

    Returns:
        int64[m], one row per pod placed, `required <= m <= required + extra`, pods of one node side by side;
        None, and nothing taken, where the required ones do not fit.
    """
    if ask.pod_class.refusal:
        return None
    if ask.required + ask.extra == 0:
        return np.zeros(0, dtype=np.int64)
    if transaction.unshown and looks_around(ask.pod_class, nodes, transaction):
        transaction.show()
    mark = transaction.mark()
    counts = _chosen(nodes, transaction, ask, profile, within)
    rows = counts.nonzero()[0]
    if ask.topology is not None:
        rows = domain_tree(nodes, ask.topology.levels).in_order(rows)
    placed = rows.repeat(counts[rows])
    if len(placed) < ask.required:
        transaction.rollback(mark)
        return None
    return placed


def place_in_turn(nodes: NodeColumns, transaction: Transaction, ask: Ask, profile: Profile, most: int) -> Rows:
    """Take room for up to `most` pods of which each asks for the same, as if it were placed by itself.

    What this transaction has placed before counts only by the room that it takes.

    Returns:
        int64[m], the row of each in turn.
    """
    assert ask.topology is None  # who is near whom is decided for all together
    if ask.pod_class.refusal:
        return np.zeros(0, dtype=np.int64)
    return feasible_capacity(nodes, transaction, ask, profile, most=most).in_turn(most)


def _chosen(
    nodes: NodeColumns, transaction: Transaction, ask: Ask, profile: Profile, within: Mask | None
) -> NDArray[np.int64]:
    """Place what can be placed of an ask; returns int64[rows], how many on each; too few where too few would fit."""
    if ask.topology is not None:
        look = partial(feasible_capacity, nodes, transaction, ask, profile, within=within, most=PLENTY)
        return place_by_topology(TopologyChoice.of(nodes, ask.topology, look), ask.required, ask.extra)
    wanted = ask.required + ask.extra
    seen = feasible_capacity(nodes, transaction, ask, profile, within=within, most=wanted)
    if int(seen.choice.room.sum()) < ask.required:
        return np.zeros_like(seen.choice.room)
    return seen.take(wanted)


def feasible_capacity(
    nodes: NodeColumns,
    transaction: Transaction,
    ask: Ask,
    profile: Profile,
    *,
    within: Mask | None = None,
    most: int = PLENTY,
) -> FeasibleCapacity:
    """Return what an ask can have now, on each node no more than `most`; `within` holds it to some rows."""
    pod_class = ask.pod_class
    filters = pre_filter(pod_class, nodes, ask.where, profile)
    moving = [one for one in filters if one.changes_on_add]
    mask = static_filter_result(pod_class, nodes, ask.where, profile).mask
    if filters:  # what is given away stays so
        mask = feasible(mask, [one for one in filters if not one.changes_on_add or reserves(one)])
    if within is not None:
        mask = mask & within
    scorers = pre_score(pod_class, nodes, profile)
    if any(one.one_per_node for one in filters):
        most = 1
    elif (moving or any(scorers)) and profile.packing is None and not any(map(limits_per_node, filters)):
        most = PLENTY  # who goes on with the choice compares what there is room for with what it left
    room = profile.fit.capacity(nodes, pod_class, mask, most=most)
    if filters:
        room = limited_per_node(room, filters)
        if has_faults(pod_class, nodes) and filter_nodes(pod_class, nodes, ask.where, profile).fault:
            room = np.zeros_like(room)
    choice = NodeChoice(nodes, transaction, pod_class, profile, room, discriminating_scores(pod_class, nodes, profile))
    return FeasibleCapacity(choice, moving, scorers)


def hardest_first(nodes: NodeColumns, asks: Sequence[Ask]) -> list[int]:
    """Return the order in which to place asks: the one whose pod takes the largest part of a node first.

    Those that want to be near others come last, since the others may be among the asks.
    """
    if len(asks) < 2:  # noqa: PLR2004 - one needs no order
        return list(range(len(asks)))
    largest = nodes.allocatable.max(axis=0, initial=1)

    def part(index: int) -> float:
        request = nodes.vector(asks[index].pod_class.requests)[: len(largest)]
        return float((request / np.maximum(largest, 1)).max(initial=0.0))

    return sorted(range(len(asks)), key=lambda i: (_wants_others(nodes, asks[i].pod_class), -part(i), i))


def _wants_others(nodes: NodeColumns, pod_class: PodClass) -> bool:
    return any(not means(term.query, pod_class, nodes) for term in pod_class.inter_pod.affinity)


def looks_around(pod_class: PodClass, nodes: NodeColumns, transaction: Transaction) -> bool:
    """Whether pods put in this transaction can matter to the class beyond the room they take."""
    return (
        pod_class.inter_pod != UNCONSTRAINED
        or bool(pod_class.features & (Feature.SPREAD | Feature.BEHAVIOUR) or nodes.label_index.with_terms)
        or transaction.brings_constraints
        or default_selector(pod_class, nodes) is not None
    )
