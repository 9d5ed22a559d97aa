"""Where nodes are: domains of a topology within one another, with what each has; and what drivers offer of devices.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tutti.api.kinds.flavors import HOSTNAME
from tutti.cli.views.nodes import NodeUse
from tutti.engine.core_state import CoreState

USUAL_LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
)
"""Labels of places that clouds and people use, the widest first; taken where there is no Topology."""
NOWHERE = "without this label"


class DomainBox(msgspec.Struct, frozen=True, rename="camel"):
    """A domain, and what is in it.

    Attributes:
        level: The node label whose value names it; "" for the whole cluster.
        nodes: How many nodes there are in it; `open` of them take pods, and only these count for what is free.
        largest: The most that is free on any one node.
        children: The domains within it; none in the lowest, which has its nodes as `members`.
    """

    level: str
    name: str
    nodes: int
    open: int
    allocatable: int
    used: int
    free: int
    largest: int
    children: tuple[DomainBox, ...] = ()
    members: tuple[NodeUse, ...] = ()


class DevicePoolUse(msgspec.Struct, frozen=True, rename="camel"):
    """A pool of devices (dynamic resource allocation).

    Attributes:
        node: The node that it is of, or "" where several may use it.
        devices: How many are published, as far as slices can be believed.
        held: How many of them claims have, or have a share of.
    """

    driver: str
    pool: str
    node: str
    devices: int
    held: int


def topologies_of(state: CoreState) -> Mapping[str, tuple[str, ...]]:
    """Return the levels of each Topology above nodes, the widest first, by its name; "" for usual labels.

    There are none but these where there is no Topology, and only where some node has any.
    """
    known = {
        name: tuple(level for level in levels if level != HOSTNAME)
        for name, levels in sorted(state.catalog.topologies.items())
    }
    found = {name: levels for name, levels in known.items() if levels}
    if found:
        return found
    there = tuple(level for level in USUAL_LEVELS if any(level in labels for labels in state.cluster.nodes.labels))
    return {"": there} if there else {}


def levels_of(state: CoreState) -> tuple[str, ...]:
    """Return the levels that places are told by where nobody says which: those of the first Topology."""
    return next(iter(topologies_of(state).values()), ())


def place_of(state: CoreState, node: str, levels: Sequence[str]) -> list[str]:
    """Return the domains that a node is in, the widest first; nothing for what is not known."""
    row = state.cluster.nodes.rows.get(node)
    labels = {} if row is None else state.cluster.nodes.labels[row]
    return [labels[level] for level in levels if level in labels]


def domain_boxes(state: CoreState, those: Sequence[NodeUse], levels: Sequence[str]) -> DomainBox:
    """Return nodes, one resource of each, in the boxes of some levels; the outermost is the whole cluster."""
    return _box(state, "", "", those, levels)


def _box(state: CoreState, level: str, name: str, those: Sequence[NodeUse], below: Sequence[str]) -> DomainBox:
    is_open = [one for one in those if one.open]
    inner: dict[str, list[NodeUse]] = {}
    if below:
        for one in those:
            row = state.cluster.nodes.rows[one.node]
            inner.setdefault(state.cluster.nodes.labels[row].get(below[0], NOWHERE), []).append(one)
    children = tuple(_box(state, below[0], key, inner[key], below[1:]) for key in sorted(inner))
    return DomainBox(
        level,
        name,
        len(those),
        len(is_open),
        sum(one.allocatable for one in those),
        sum(one.used for one in those),
        sum(one.free for one in is_open),
        max((one.free for one in is_open), default=0),
        children,
        () if children else tuple(those),
    )


def device_pools(state: CoreState) -> tuple[DevicePoolUse, ...]:
    """Return the pools of devices that drivers publish, by driver and name."""
    return tuple(_device_pools(state))


def _device_pools(state: CoreState) -> Iterator[DevicePoolUse]:
    devices = state.cluster.nodes.devices
    for key in sorted(devices.catalog.pools()):
        slices = devices.catalog.slices_of(key)
        newest = max((one.generation for one in slices), default=0)
        current = [one for one in slices if one.generation == newest and not one.problem]
        there = {device.name for one in current for device in one.devices}
        nodes = {one.spec.node_name for one in current}
        held = sum(name in there for name in devices.ledger.held_of(key))
        yield DevicePoolUse(*key, nodes.pop() if len(nodes) == 1 else "", len(there), held)
