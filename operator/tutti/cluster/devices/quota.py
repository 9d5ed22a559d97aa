"""What quota counts of devices: how many there are of some classes, or how much of a counter or capacity these take.

Rule: Kueue 0.20 (KEP-2941, `resources.deviceClassMappings`), which charges a workload before it is known where it goes.
Here a pod is charged for the most that any of the ways it asks by may take, as ResourceQuota counts them (Kubernetes
1.36, pkg/quota/v1/evaluator/core/resource_claims.go: the largest of several ways, 32 devices for all that match), and
for what its claims get as soon as that is decided. The claims tell it again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tutti.api.device_mappings import DeviceClassMapping, DeviceClassSource
from tutti.api.devices import MOST_RESULTS, AllocatedDevice, ResourceClaim
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.devices.asks import ClaimAsk, Counted, ExtendedAsk, WayAsk
from tutti.cluster.devices.catalog import DeviceCatalog
from tutti.cluster.devices.expression_values import SelectorError
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.published import PoolDevice

Amounts = dict[str, int]

_MILLI: Final = 1000


class DeviceQuota:
    """What quota counts of devices, under which names; nothing without mappings."""

    def __init__(
        self, catalog: DeviceCatalog, expressions: Expressions, mappings: Sequence[DeviceClassMapping] = ()
    ) -> None:
        self._catalog = catalog
        self._expressions = expressions
        self._of_class: dict[str, list[DeviceClassMapping]] = {}
        self._most: dict[tuple[WayAsk, str], int] = {}
        self._seen = catalog.version
        for mapping in mappings:
            for name in mapping.device_class_names:
                self._of_class.setdefault(name, []).append(mapping)

    def __bool__(self) -> bool:
        """Whether any class is counted."""
        return bool(self._of_class)

    @property
    def reads_devices(self) -> bool:
        """Whether what is counted goes by what drivers publish."""
        return any(mapping.sources for mappings in self._of_class.values() for mapping in mappings)

    def asked(
        self, asks: Iterable[ClaimAsk], held: Iterable[ResourceClaim], extended: Sequence[ExtendedAsk], uid: str
    ) -> Counted:
        """Return what quota counts of what a pod asks for that has no node yet.

        Args:
            asks: Its claims that have no devices yet.
            held: Those that have.
            extended: What it asks for as extended resources.
            uid: Its own.
        """
        asks, total = tuple(asks), Amounts()
        for ask in asks:
            _add(total, self._most_of(ask))
        for claim in held:
            _add(total, self.held(claim, uid))
        renamed = self.renamed(extended)
        return Counted(tuple(sorted(total.items())), tuple(sorted(renamed.items())), self._uncountable(asks, extended))

    def allotted(self, allotment: ClaimAllotment) -> Amounts:
        """Return what the devices take that a claim is to get."""
        total: Amounts = {}
        for one in allotment.devices:
            if not one.admin:
                _add(total, self._taken(one.way.device_class, one.device, dict(one.consumed or ())))
        return total

    def held(self, claim: ResourceClaim, uid: str) -> Amounts:
        """Return what the devices of a claim take that counts for a pod: of those that share it, for the first alone.

        What a device consumes of a counter is not known where its driver does not publish it any more.
        """
        allocation, users = claim.status.allocation, claim.status.reserved_for
        if allocation is None or (users and users[0].uid != uid):
            return {}
        classes = {
            label: way.device_class_name for request in claim.spec.devices.requests for label, way in request.ways
        }
        total: Amounts = {}
        for one in allocation.devices.results:
            if not one.admin_access and one.request in classes:
                device = self._catalog.find((one.driver, one.pool), one.device)
                _add(total, self._taken(classes[one.request], device, _consumed(one)))
        return total

    def renamed(self, extended: Iterable[ExtendedAsk]) -> dict[str, str]:
        """Return under which names extended resources are counted that devices of counted classes can stand in for."""
        return {
            one.resource: mapping.name for one in extended for mapping in self._of_class.get(one.device_class, ())[:1]
        }

    def _uncountable(self, asks: Iterable[ClaimAsk], extended: Iterable[ExtendedAsk]) -> str:
        """Return why it cannot be told before what a pod takes, or ""."""
        for ask in asks:
            for way in (way for request in ask.requests for way in request.ways):
                if ask.shared and not way.admin and way.device_class in self._of_class:
                    return (
                        f"claim {ask.shared} is used by several pods, and quota counts devices of class "
                        f"{way.device_class}; give each pod a claim of its own, by a ResourceClaimTemplate"
                    )
        for one in extended:
            if any(mapping.sources for mapping in self._of_class.get(one.device_class, ())):
                return (
                    f"quota counts what single devices of class {one.device_class} take, which extended resource "
                    f"{one.resource} does not tell; ask for them by a ResourceClaimTemplate"
                )
        return ""

    def _most_of(self, ask: ClaimAsk) -> Amounts:
        """Return the most that a claim without devices may take."""
        total: Amounts = {}
        for request in ask.requests:
            ways = [self._most_of_way(way) for way in request.ways if not way.admin]
            for name in dict.fromkeys(name for way in ways for name in way):
                total[name] = total.get(name, 0) + max(way.get(name, 0) for way in ways)
        return total

    def _most_of_way(self, way: WayAsk) -> Amounts:
        out: Amounts = {}
        for mapping in self._of_class.get(way.device_class, ()):
            out[mapping.name] = self._most_of_one(way, mapping) * (way.count or MOST_RESULTS)
        return out

    def _most_of_one(self, way: WayAsk, mapping: DeviceClassMapping) -> int:
        """Return the most that one device takes which a way may choose; 0 while there is none."""
        if not mapping.sources:
            return 1
        if self._seen != self._catalog.version:
            self._seen = self._catalog.version
            self._most.clear()
        known = self._most.get((way, mapping.name))
        if known is None:
            asked, selectors = dict(way.capacity), (*way.class_selectors, *way.selectors)
            fits = (one for one in self._catalog.devices() if self._selects(selectors, one))
            taken = (self._units(mapping, one, _demanded(one, asked)) for one in fits)
            known = self._most[way, mapping.name] = max(taken, default=0)
        return known

    def _taken(self, device_class: str, device: PoolDevice | None, consumed: Mapping[str, int]) -> Amounts:
        """Return what one device takes, or one share of it, in milli-units; of capacities that are not named, all."""
        return {
            mapping.name: self._units(mapping, device, consumed) for mapping in self._of_class.get(device_class, ())
        }

    def _units(self, mapping: DeviceClassMapping, device: PoolDevice | None, consumed: Mapping[str, int]) -> int:
        if not mapping.sources:
            return 1
        if device is None:
            return 0
        total = 0
        for source in mapping.sources:
            said = source.said
            if said.driver == device.content.driver and self._selects((said.device_selector.cel.expression,), device):
                total += _milli_units(source, device, consumed)
        return -(-total // _MILLI)

    def _selects(self, expressions: Iterable[str], device: PoolDevice) -> bool:
        try:
            return all(self._expressions.holds(one, device.content) for one in expressions)
        except SelectorError:
            return False  # nobody gets it by that


def _milli_units(source: DeviceClassSource, device: PoolDevice, consumed: Mapping[str, int]) -> int:
    if source.counter is not None:
        return sum(amount for (_, name), amount in device.consumes if name == source.counter.name)
    name, total = source.said.name, 0
    for one in device.capacities:
        if name in (one.name, f"{device.content.driver}/{one.name}"):
            total += consumed.get(one.name, one.value)
    return total


def _demanded(device: PoolDevice, asked: Mapping[str, int]) -> Mapping[str, int]:
    """Return how much of each capacity of a device that is shared who asks for so much takes; else it is had whole."""
    if not device.multiple:
        return {}
    demands = {one.name: one.demand(asked.get(one.name)) for one in device.capacities}
    return {name: amount for name, amount in demands.items() if amount is not None}


def _consumed(one: AllocatedDevice) -> Mapping[str, int]:
    out: Amounts = {}
    if not one.share_id:
        return out
    for name, amount in one.consumed_capacity.items():
        try:
            out[name] = parse_quantity(amount)
        except QuantityError:
            continue  # an API server lets nobody write it
    return out


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
