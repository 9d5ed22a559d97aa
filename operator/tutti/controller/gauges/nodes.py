"""Nodes: what of each resource is bound, reserved, free or shut away, and how far what is free lies scattered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import Metric

from tutti.api.resources import EPHEMERAL_STORAGE, PODS
from tutti.cluster.capacity import free_per_node
from tutti.controller.gauges.families import Row, gauges, in_units
from tutti.engine.state import State
from tutti.placement.topology import tree

_UNTOLD = (PODS, EPHEMERAL_STORAGE)
_NODE = "node"


Levels = Mapping[tuple[str, str], tree.Fragmentation]
"""By topology and level of it."""


def of_nodes(state: State | None) -> Iterator[Metric]:
    """Yield where each resource goes, and how far what is free lies scattered; no values where there is no state."""
    shares: Iterable[Row] = ()
    levels: Levels = {}
    told: list[tuple[int, str]] = []
    if state is not None:
        free, offered = free_per_node(state.cluster.nodes)
        told = _told(state)
        shares, levels = _shares(state, told, free.sum(axis=0)), _levels(state, free, offered)
    yield gauges(
        "tutti_node_resources",
        "What nodes offer, by what becomes of it: bound, reserved (for pods to be bound), free, "
        "or closed (free on nodes that are not ready or take no pods).",
        ("resource", "state"),
        shares,
    )
    yield from _of_fragmentation(levels, told)


def _shares(state: State, told: Iterable[tuple[int, str]], free: NDArray[np.int64]) -> Iterator[Row]:
    """Yield what becomes of each resource; `free` is int64[resources], what is free on nodes that take pods."""
    nodes, tenants = state.cluster.nodes, state.cluster.tenants
    taken = nodes.requested[nodes.present].sum(axis=0)
    reserved = tenants.held(np.flatnonzero((tenants.row >= 0) & ~tenants.bound), nodes.axis).sum(axis=0)
    left = (nodes.allocatable - nodes.requested)[nodes.present].clip(min=0).sum(axis=0)
    for column, name in told:
        yield (name, "bound"), in_units(name, int(taken[column] - reserved[column]))
        yield (name, "reserved"), in_units(name, int(reserved[column]))
        yield (name, "free"), in_units(name, int(free[column]))
        yield (name, "closed"), in_units(name, int(left[column] - free[column]))


def _of_fragmentation(levels: Levels, told: Sequence[tuple[int, str]]) -> Iterator[Metric]:
    """Yield it over nodes, and over the domains of each topology that flavors use."""
    labels = ("topology", "level", "resource")
    places = [((*at, name), one, column, name) for at, one in levels.items() for column, name in told]
    yield gauges(
        "tutti_fragmentation",
        "The part of what is free that lies in domains of a level of which less than nine tenths are free: "
        "0 where all that is free is whole domains, 1 where none is.",
        labels,
        ((values, float(one.scattered[column])) for values, one, column, _ in places),
    )
    yield gauges(
        "tutti_largest_free",
        "The most that is free in any one domain of a level.",
        labels,
        ((values, in_units(name, int(one.largest[column]))) for values, one, column, name in places),
    )


def _levels(state: State, free: NDArray[np.int64], offered: NDArray[np.int64]) -> Levels:
    """Return how far it lies scattered; `free` and `offered` are int64[rows, resources], per node."""
    found = {("", _NODE): tree.of_domains(free, offered)}
    for name, levels in state.catalog.topologies.items():
        scattered = tree.of_levels(state.cluster.nodes, levels, free, offered)
        found |= {(name, level): one for level, one in zip(levels, scattered, strict=True)}
    return found


def _told(state: State) -> list[tuple[int, str]]:
    """Return the resources that nodes offer, but for those that no queue is about, with their columns."""
    nodes = state.cluster.nodes
    offered = nodes.allocatable[nodes.present].sum(axis=0)
    names = enumerate(nodes.axis.names[: len(offered)])
    return [(column, name) for column, name in names if offered[column] and name not in _UNTOLD]
