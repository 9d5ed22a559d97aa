"""What is written on a claim that is given its devices.

Rules: kube-scheduler 1.36, incubating allocator (Allocate): results in the order in which devices were chosen, what
drivers are told by the classes before what they are told by the claim, and from which nodes all devices can be used.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from tutti.api.devices import (
    AllocatedDevice,
    Allocation,
    AllocationConfiguration,
    Amount,
    DeviceAllocation,
    DeviceClass,
    ResourceClaimSpec,
)
from tutti.api.quantity import shortest
from tutti.cluster.devices.allotments import ClaimAllotment, consumed, selector_of
from tutti.cluster.devices.asks import WayAsk

# One for all to whom nobody says anything, and one for all that are had whole.
_NO_CONFIGURATION: Final[list[AllocationConfiguration]] = []
_NOTHING_CONSUMED: Final[dict[str, Amount]] = {}
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(
    allotment: ClaimAllotment,
    spec: ResourceClaimSpec,
    classes: Mapping[str, DeviceClass],
    named_after: tuple[str, ...],
    now: datetime | None = None,
) -> Allocation:
    """Return the allocation of a claim.

    Args:
        allotment: What it is to get.
        spec: What it asks for.
        classes: All device classes, or those of them that tell drivers something.
        named_after: What its shares are called by: others than the claim has ever had before.
        now: When it gets it.
    """
    results, chosen = [], []
    requests, pools, shares = allotment.ask.requests, allotment.pools, 0
    for _, request, at, number, place, taken, admin in allotment.picks:
        way, pool = requests[request].ways[at], pools[number]
        device, (driver, name) = pool.devices[place], pool.key
        chosen.append(device)
        share, amounts = "", _NOTHING_CONSUMED
        if taken is not None:
            share = _share_id(named_after, shares)
            amounts = {capacity: shortest(milli) for capacity, milli in consumed(device, taken)}
            shares += 1
        found = AllocatedDevice(
            way.name,
            driver,
            name,
            device.name,
            admin,
            way.tolerations,
            device.binding_conditions,
            device.binding_failure_conditions,
            share,
            amounts,
        )
        results.append(found)
    config = _NO_CONFIGURATION
    if classes or spec.devices.config:
        ways = {one.way.name: one.way for one in allotment.devices}
        config = [*_from_classes(ways, classes), *_from_claim(ways, spec)]
    return Allocation(DeviceAllocation(results, config), selector_of(chosen, allotment.node), now)


def _share_id(named_after: tuple[str, ...], number: int) -> str:
    """Return the UUID of one of the shares of devices that a claim gets."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((*named_after, str(number)))))


def _from_classes(chosen: Mapping[str, WayAsk], classes: Mapping[str, DeviceClass]) -> list[AllocationConfiguration]:
    """Return what the classes of the chosen ways say, once for each class, for all requests of it."""
    out: list[AllocationConfiguration] = []
    for name in dict.fromkeys([way.device_class for way in chosen.values()]):
        found = classes.get(name)
        if found is not None and found.spec.config:
            requests = [one for one, way in chosen.items() if way.device_class == name]
            out += [AllocationConfiguration(FROM_CLASS, requests, config.opaque) for config in found.spec.config]
    return out


def _from_claim(chosen: Iterable[str], spec: ResourceClaimSpec) -> Iterator[AllocationConfiguration]:
    """Yield what the claim says: what is for all requests once, all else once for each request that it is for."""
    for config in spec.devices.config:
        if not config.requests:
            yield AllocationConfiguration(FROM_CLAIM, [], config.opaque)
            continue
        for one in chosen:
            if one in config.requests or one.partition("/")[0] in config.requests:
                yield AllocationConfiguration(FROM_CLAIM, list(config.requests), config.opaque)
