"""The devices that were found for claims on a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from tutti.api.selectors import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.cluster.devices.asks import ClaimAsk, WayAsk
from tutti.cluster.devices.extended import EXTENDED
from tutti.cluster.devices.ledger import HeldDevice
from tutti.cluster.devices.offers import Pick
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.published import PoolDevice

ClaimPicks = Sequence[tuple[ClaimAsk, Sequence[Pick]]]
"""Claims of one pod, each with what was picked for it."""


# Nothing here leads back to itself, so the garbage collector need not look at it (gc=False): it is made for each claim.


class AllottedDevice(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A device that is chosen for a claim.

    Attributes:
        way: The way of its request that it is for.
        held: What is taken with it.
        admin: Whether it is only looked at, however it is used, and nothing is taken.
    """

    way: WayAsk
    device: PoolDevice
    held: HeldDevice
    admin: bool


class ClaimAllotment(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The devices that one claim is to get on a node.

    Attributes:
        ask: What it asks for.
        node: The name of the node.
    """

    ask: ClaimAsk
    node: str
    devices: tuple[AllottedDevice, ...]

    @property
    def is_extended(self) -> bool:
        """Whether the claim is made for extended resources, when it is known where its pod goes."""
        return self.ask.name == EXTENDED

    @property
    def held(self) -> list[HeldDevice]:
        """What is taken with it; what is only looked at is not."""
        return [one.held for one in self.devices if not one.admin]

    def is_had(self, held: Iterable[HeldDevice]) -> bool:
        """Whether what a claim says that it has are these devices."""
        theirs, mine = [(one.pool, one.name) for one in held], [(one.pool, one.name) for one in self.held]
        return theirs == mine or sorted(theirs) == sorted(mine)

    @property
    def selector(self) -> NodeSelector | None:
        """From which nodes the devices can be used; None: from all.

        Rule: kube-scheduler 1.36, incubating allocator, createNodeSelector.
        """
        places = []
        for one in self.devices:
            place = one.device.place
            if isinstance(place, str) or one.device.binds:
                return _only(self.node)
            if place is not None:
                places.append(place)
        terms = [term for place in places for term in place.node_selector_terms]
        expressions = _each_once(said for term in terms for said in term.match_expressions)
        fields = _each_once(said for term in terms for said in term.match_fields)
        return NodeSelector([NodeSelectorTerm(expressions, fields)]) if expressions or fields else None


Allotments = tuple[ClaimAllotment, ...]
"""What the claims of one pod are to get."""


def allotments_of(several: Sequence[ClaimPicks], node: str, pools: Sequence[NodePool]) -> list[Allotments]:
    """Return what was picked for the claims of several pods, of the pools of a node."""
    out: list[Allotments] = []
    for picks in several:
        allotments = []
        for ask, picked in picks:
            devices = []
            for _, request, way, pool, place, taken, admin in picked:
                at = pools[pool]
                device = at.devices[place]
                held = HeldDevice(at.key, device.name, None if taken is None else _consumed(device, taken))
                devices.append(AllottedDevice(ask.requests[request].ways[way], device, held, admin))
            allotments.append(ClaimAllotment(ask, node, tuple(devices)))
        out.append(tuple(allotments))
    return out


def _consumed(device: PoolDevice, taken: Sequence[int]) -> tuple[tuple[str, int], ...]:
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
    return NodeSelector([NodeSelectorTerm(match_fields=[named])])
