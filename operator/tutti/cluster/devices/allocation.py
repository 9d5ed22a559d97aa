"""What is written on a claim that is given its devices.

Rules: kube-scheduler 1.36, incubating allocator (Allocate): results in the order in which devices were chosen, what
drivers are told by the classes before what they are told by the claim, and from which nodes all devices can be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from tutti.api.devices import (
    AllocatedDevice,
    Allocation,
    AllocationConfiguration,
    DeviceAllocation,
    DeviceClass,
    ResourceClaimSpec,
)
from tutti.api.quantity import shortest
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.devices.asks import WayAsk

_NO_CONFIGURATION: Final[list[AllocationConfiguration]] = []  # one for all to whom nobody says anything
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(
    allotment: ClaimAllotment,
    spec: ResourceClaimSpec,
    classes: Mapping[str, DeviceClass],
    share_ids: Iterator[str],
    now: datetime | None = None,
) -> Allocation:
    """Return the allocation of a claim.

    Args:
        allotment: What it is to get.
        spec: What it asks for.
        classes: All device classes, or those of them that tell drivers something.
        share_ids: Gives a new one, a UUID, for each share of a device.
        now: When it gets it.
    """
    results = []
    for one in allotment.devices:
        way, device, held = one.way, one.device, one.held
        driver, pool = held.pool
        conditions, failures = device.binding_conditions, device.binding_failure_conditions
        found = AllocatedDevice(way.name, driver, pool, held.name, one.admin, way.tolerations, conditions, failures)
        results.append(found if held.consumed is None else _share(found, held.consumed, next(share_ids)))
    config = _NO_CONFIGURATION
    if classes or spec.devices.config:
        ways = {one.way.name: one.way for one in allotment.devices}
        config = [*_from_classes(ways, classes), *_from_claim(ways, spec)]
    return Allocation(DeviceAllocation(results, config), allotment.selector, now)


def _share(found: AllocatedDevice, consumed: Iterable[tuple[str, int]], share_id: str) -> AllocatedDevice:
    amounts = {name: shortest(milli) for name, milli in consumed}
    return msgspec.structs.replace(found, share_id=share_id, consumed_capacity=amounts)


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
