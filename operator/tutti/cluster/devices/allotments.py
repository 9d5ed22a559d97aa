"""The devices that were found for claims on a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from tutti.api.selectors import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.cluster.devices.asks import ClaimAsk, WayAsk
from tutti.cluster.devices.extended import EXTENDED
from tutti.cluster.devices.ledger import HeldDevice
from tutti.cluster.devices.offers import Pick
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.published import PoolDevice
from tutti.cluster.devices.taint_rules import PoolKey

_NO_EXPRESSIONS: Final[list[NodeSelectorRequirement]] = []  # one for all nodes

ClaimPicks = Sequence[tuple[ClaimAsk, Sequence[Pick]]]
"""Claims of one pod, each with what was picked for it."""


class AllottedDevice(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A device that is chosen for a claim.

    Attributes:
        way: The way of its request that it is for.
        pool: Its driver and its pool.
        consumed: Of a share, how much of each capacity of the device, in milli-units; None where it is had whole.
        admin: Whether it is only looked at, however it is used, and nothing is taken.
    """

    way: WayAsk
    pool: PoolKey
    device: PoolDevice
    consumed: tuple[tuple[str, int], ...] | None
    admin: bool


# Nothing here leads back to itself, so the garbage collector need not look at it (gc=False): it is made for each claim.


class ClaimAllotment(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The devices that one claim is to get on a node: what was picked for it, of the pools of the node.

    What was picked is one object for all nodes that are in the same situation; what that is on the node is looked up
    when somebody asks.

    Attributes:
        ask: What it asks for.
        node: The name of the node.
    """

    ask: ClaimAsk
    node: str
    picks: Sequence[Pick]
    pools: Sequence[NodePool]

    @property
    def devices(self) -> list[AllottedDevice]:
        """What is chosen, in the order in which results list it."""
        requests, pools, out = self.ask.requests, self.pools, []
        for _, request, way, at, place, taken, admin in self.picks:
            pool = pools[at]
            device = pool.devices[place]
            part = None if taken is None else consumed(device, taken)
            out.append(AllottedDevice(requests[request].ways[way], pool.key, device, part, admin))
        return out

    @property
    def is_extended(self) -> bool:
        """Whether the claim is made for extended resources, when it is known where its pod goes."""
        return self.ask.name == EXTENDED

    @property
    def held(self) -> list[HeldDevice]:
        """What is taken with it; what is only looked at is not."""
        out = []
        for _, _, _, at, place, taken, admin in self.picks:
            if not admin:
                pool = self.pools[at]
                device = pool.devices[place]
                out.append(HeldDevice(pool.key, device.name, None if taken is None else consumed(device, taken)))
        return out

    def is_had(self, held: Iterable[HeldDevice]) -> bool:
        """Whether what a claim says that it has are these devices."""
        theirs, mine = ([(one.pool, one.name) for one in those] for those in (held, self.held))
        return theirs == mine or sorted(theirs) == sorted(mine)

    @property
    def selector(self) -> NodeSelector | None:
        """From which nodes the devices can be used; None: from all."""
        return selector_of([one.device for one in self.devices], self.node)


Allotments = tuple[ClaimAllotment, ...]
"""What the claims of one pod are to get."""


def allot_alike(picks: ClaimPicks, nodes: Sequence[str], pools_of: Sequence[Sequence[NodePool]]) -> list[Allotments]:
    """Return what was picked for the claims of a pod on each of some nodes that are in the same situation.

    Args:
        picks: What was picked.
        nodes: The names of the nodes.
        pools_of: The pools of each.
    """
    of_nodes = zip(nodes, pools_of, strict=True)
    if len(picks) == 1:
        ((ask, picked),) = picks
        return [(ClaimAllotment(ask, node, picked, pools),) for node, pools in of_nodes]
    return [tuple([ClaimAllotment(ask, node, picked, pools) for ask, picked in picks]) for node, pools in of_nodes]


def taken_alike(
    picks: ClaimPicks, pools_of: Sequence[Sequence[NodePool]]
) -> tuple[list[tuple[PoolKey, str]], list[HeldDevice]]:
    """Return what is taken with that: devices that are had whole, by pool and name, and shares of devices."""
    whole, shares = list[tuple[PoolKey, str]](), list[HeldDevice]()
    for _, picked in picks:
        for _, _, _, at, place, taken, admin in picked:
            if admin:
                continue
            chosen = [pools[at] for pools in pools_of]
            if taken is None:
                whole += [(pool.key, pool.devices[place].name) for pool in chosen]
                continue
            for pool in chosen:
                device = pool.devices[place]
                shares.append(HeldDevice(pool.key, device.name, consumed(device, taken)))
    return whole, shares


def selector_of(devices: Iterable[PoolDevice], node: str) -> NodeSelector | None:
    """Return from which nodes devices can be used that are chosen on a node; None: from all.

    Rule: kube-scheduler 1.36, incubating allocator, createNodeSelector.
    """
    places = []
    for device in devices:
        if isinstance(device.place, str) or device.binds:
            return _only(node)
        if device.place is not None:
            places.append(device.place)
    terms = [term for place in places for term in place.node_selector_terms]
    expressions = _each_once(said for term in terms for said in term.match_expressions)
    fields = _each_once(said for term in terms for said in term.match_fields)
    return NodeSelector([NodeSelectorTerm(expressions, fields)]) if expressions or fields else None


def consumed(device: PoolDevice, taken: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Return how much of each capacity of a device is taken, by name."""
    return tuple(zip([one.name for one in device.capacities], taken, strict=True))


def _each_once(said: Iterable[NodeSelectorRequirement]) -> list[NodeSelectorRequirement]:
    """Return requirements without those that say what one before them says."""
    found: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for one in said:
        found.setdefault((one.key, one.operator, frozenset(one.values)), one)
    return list(found.values())


@lru_cache(maxsize=4096)  # a node has many devices
def _only(node: str) -> NodeSelector:
    """Return what selects one node."""
    named = NodeSelectorRequirement(NAME_FIELD, "In", [node])
    return NodeSelector([NodeSelectorTerm(_NO_EXPRESSIONS, [named])])
