"""How much a device has of something, and how what is asked for of it is rounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tutti.api.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from tutti.api.quantity import parse_quantity


class Capacity(NamedTuple):
    """How much a device has of something, in milli-units, and how what is asked for of it is rounded.

    Attributes:
        name: As the driver writes it.
        default: What is had by who does not say; None: all of it.
        ruled: Whether there is a policy; without one any amount can be had.
    """

    name: str
    value: int
    ruled: bool = False
    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int | None = None

    def demand(self, asked: int | None) -> int | None:
        """Return how much of it who asks for so much, or does not say, takes; None where that cannot be had.

        Rule: structured/internal/incubating, consumable capacity: what is asked for is rounded up to what is valid.
        """
        wanted = self.value if asked is None and self.default is None else asked if asked is not None else self.default
        assert wanted is not None
        if not self.ruled:
            return wanted
        if self.values:
            return next((one for one in sorted(self.values) if one >= wanted), None)
        least = self.least or 0
        wanted = max(wanted, least)
        if self.step:
            wanted = least - (least - wanted) // self.step * self.step
        return None if self.most is not None and wanted > self.most else wanted


def demands_of(
    capacities: Sequence[Capacity], asked: Collection[tuple[str, int]], used: Sequence[int] | None
) -> tuple[int, ...] | None:
    """Return how much who asks takes of each capacity of a device; None where it has not what is asked left.

    Args:
        capacities: Those of the device.
        asked: Names, and how much is asked of each.
        used: What is taken of each, None where nothing is. All in milli-units.
    """
    if not capacities and not asked:
        return ()
    wanted = dict(asked)
    out = []
    for capacity, taken in zip(capacities, used or (0,) * len(capacities), strict=True):
        demand = capacity.demand(wanted.pop(capacity.name, None))
        if demand is None or taken + demand > capacity.value:
            return None
        out.append(demand)
    return None if wanted else tuple(out)


def capacity_of(name: str, one: DeviceCapacity) -> Capacity:
    """Return a capacity as a driver writes it."""
    policy = one.request_policy
    value = parse_quantity(one.value)
    if policy is None:
        return Capacity(name, value)
    bounds = policy.valid_range or CapacityRange()
    return Capacity(
        name,
        value,
        True,
        None if policy.default is None else parse_quantity(policy.default),
        _values(policy),
        *(None if said is None else parse_quantity(said) for said in (bounds.min, bounds.max, bounds.step)),
    )


def _values(policy: CapacityPolicy) -> tuple[int, ...]:
    return tuple(parse_quantity(one) for one in policy.valid_values)
