"""What a node offers to those who ask for devices, and what they find there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.devices import AttributeValue
from tutti.api.selectors import Taint
from tutti.cluster.devices.capacities import Capacity
from tutti.cluster.devices.expressions import DeviceContent
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.pools import PoolStatus
from tutti.cluster.devices.published import CounterKey

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
INVALID_POOLS: Final = "invalid resource pools were encountered"
TOO_MANY_WAYS: Final = "too many ways to allocate all claims"


NEAR: Final = ("resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot")
"""The attributes that devices near one another have in common, the wider first (Kubernetes' standard attributes)."""


class DeviceKind(NamedTuple):
    """What matters of a device to those who ask: devices that are alike in all of it are of one kind.

    Attributes:
        attributes: By name as the driver writes it, as far as anybody asks for them; of those that are only compared,
            what tells different values of one node apart.
        near: Where it is on its node, for each of NEAR; None where it does not say.
        number: Of its content, among those of all that look at the same.
    """

    content: DeviceContent
    attributes: tuple[tuple[str, AttributeValue], ...]
    capacities: tuple[Capacity, ...]
    consumes: tuple[tuple[CounterKey, int], ...]
    taints: tuple[Taint, ...]
    multiple: bool
    near: tuple[AttributeValue | None, ...] = ()
    number: int = 0

    def attribute(self, name: str) -> AttributeValue | None:
        """Return an attribute by its full name: as it is written, or as one of the driver's own domain."""
        own = ""
        domain, slash, last = name.partition("/")
        if slash and domain == self.content.driver:
            own = last
        found = None
        for written, value in self.attributes:
            if written == name:
                return value
            if own and written == own:
                found = value
        return found


@dataclass(frozen=True, slots=True, eq=False)
class OfferedPool:
    """A pool as those who ask see it; equal ones are one object, and so are equal kinds.

    Attributes:
        kinds: Of the devices that the node can use, and of the others behind them.
        own: How many of them the node can use.
        counters: What there is of each, in milli-units.
        binds: Whether a device of it is ready only when its driver says so.
        numbers: int64[own], those of what is seen of each.
    """

    status: PoolStatus
    kinds: tuple[DeviceKind, ...]
    own: int
    counters: tuple[tuple[CounterKey, int], ...]
    binds: bool = False
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Offer(NamedTuple):
    """What a node offers: its pools, and what is taken of each.

    Attributes:
        zone: The NUMA zone from which the pod gets its cores there, where that matters and is known.
    """

    pools: tuple[OfferedPool, ...]
    uses: tuple[LocalUse, ...]
    zone: int | None = None


class Pick(NamedTuple):
    """A device that is chosen.

    Attributes:
        claim: The place of the claim among those that ask.
        way: What the request is called in results.
        pool: The place of the pool in the offer.
        device: The place of the device in the pool.
        consumed: Of a device that is shared, how much of each of its capacities; None of one that is had whole.
    """

    claim: int
    request: int
    way: int
    pool: int
    device: int
    consumed: tuple[int, ...] | None
    admin: bool


class DeviceFault(NamedTuple):
    """What makes it impossible to tell: the claim, what is the matter, and which pool or device it is about.

    Attributes:
        text: With {pool} for the pool, and {device} for the device, as the node has them.
    """

    text: str
    pool: int = -1
    device: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What was found.

    Attributes:
        picks: The devices, in the order in which results list them.
        after: What is taken of each pool with them.
        reason: Why there are none, or "".
        fault: What makes it impossible to tell; the pod has no node then.
        rank: What the chosen ways count in the score of the node.
        steps: How many devices were tried.
        tightness: How much of their pools is used with the devices, and how near they are to one another and to the
            cores of the pod: 0 to 100.
    """

    picks: tuple[Pick, ...] = ()
    after: tuple[LocalUse, ...] = ()
    reason: str = ""
    fault: DeviceFault | None = None
    rank: int = 0
    steps: int = 0
    tightness: int = 0

    @property
    def fits(self) -> bool:
        """Whether all claims can be fulfilled."""
        return not self.reason and self.fault is None
