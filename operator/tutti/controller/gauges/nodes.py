"""Nodes: what of each resource is bound, reserved, free or shut away, and how far what is free lies scattered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import Metric

from tutti.api.resources import EPHEMERAL_STORAGE, PODS
from tutti.cluster.supply import free_per_node
from tutti.controller.gauges.families import Row, gauges, in_units
from tutti.engine.state import State
from tutti.placement.topology import fragmentation

_UNTOLD = (PODS, EPHEMERAL_STORAGE)
_NODE = "node"


def of_resources(state: State | None) -> Iterator[Metric]:
    """Yield where each resource goes; families without values where there is no state."""
    yield gauges(
        "tutti_node_resources",
        "What nodes offer, by what becomes of it: bound, reserved (for pods to be bound), free, "
        "or closed (free on nodes that are not ready or take no pods).",
        ("resource", "state"),
        () if state is None else _shares(state),
    )


def _shares(state: State) -> Iterator[Row]:
    nodes, tenants = state.cluster.nodes, state.cluster.tenants
    offered, taken = nodes.allocatable[nodes.present].sum(axis=0), nodes.requested[nodes.present].sum(axis=0)
    reserved = tenants.held(np.flatnonzero((tenants.row >= 0) & ~tenants.bound), nodes.axis).sum(axis=0)
    free = free_per_node(nodes)[0].sum(axis=0)
    left = (nodes.allocatable - nodes.requested)[nodes.present].clip(min=0).sum(axis=0)
    for column, name in _told(state, offered):
        yield (name, "bound"), in_units(name, int(taken[column] - reserved[column]))
        yield (name, "reserved"), in_units(name, int(reserved[column]))
        yield (name, "free"), in_units(name, int(free[column]))
        yield (name, "closed"), in_units(name, int(left[column] - free[column]))


def of_fragmentation(state: State | None) -> Iterator[Metric]:
    """Yield how far what is free lies scattered, over nodes and over the domains of each topology that flavors use."""
    labels = ("topology", "level", "resource")
    found = {} if state is None else _levels(state)
    offered = None if state is None else state.cluster.nodes.allocatable.sum(axis=0)
    told = [] if state is None or offered is None else list(_told(state, offered))
    yield gauges(
        "tutti_fragmentation",
        "The part of what is free that lies in domains of a level of which less than nine tenths are free: "
        "0 where all that is free is whole domains, 1 where none is.",
        labels,
        (((*at, name), float(one.scattered[column])) for at, one in found.items() for column, name in told),
    )
    yield gauges(
        "tutti_largest_free",
        "The most that is free in any one domain of a level.",
        labels,
        (((*at, name), in_units(name, int(one.largest[column]))) for at, one in found.items() for column, name in told),
    )


def _levels(state: State) -> dict[tuple[str, str], fragmentation.Fragmentation]:
    nodes = state.cluster.nodes
    found = {("", _NODE): fragmentation.of_nodes(nodes)}
    for name, levels in state.catalog.topologies.items():
        for level, one in zip(levels, fragmentation.of_levels(nodes, levels), strict=True):
            found[name, level] = one
    return found


def _told(state: State, offered: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yield the resources that nodes offer, but for those that no queue is about, with their columns."""
    for column, name in enumerate(state.cluster.nodes.axis.names[: len(offered)]):
        if offered[column] and name not in _UNTOLD:
            yield column, name
