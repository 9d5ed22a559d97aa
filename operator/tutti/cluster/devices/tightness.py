"""Which of several devices that would do is chosen: the one that leaves most for others.

kube-scheduler takes the first that drivers list. Here the smallest that will do comes first; then those of a GPU that
is in use already, the fuller the better; then those near what the pod has been given, or else in the NUMA node that its
cores are of, if that holds enough, or else of the NUMA node and PCIe root that hold the fewest free ones of those that
hold enough. What is alike in all of it comes in the drivers' order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import NEAR, DeviceKind, Offer, Pick
from tutti.cluster.devices.published import CounterKey

DevicePlace = tuple[int, int]
"""A pool of an offer, and a device in it."""

DeviceSpot = tuple[int, AttributeValue]
"""A NUMA node or a PCIe root: which attribute of NEAR, and its value."""

_ZONE: Final = 0
"""Which attribute of NEAR says the NUMA node."""
_WHOLE: Final = 1000
_MOST_POINTS: Final = 100
_USE_COUNTS, _NEARNESS_COUNTS = 3, 2


def tightest_first(
    free: Sequence[DevicePlace],
    wanted: int,
    offer: Offer,
    picks: Sequence[Pick],
    left: Sequence[Mapping[CounterKey, int]],
    consumed: Sequence[Mapping[int, tuple[int, ...]]],
) -> list[DevicePlace]:
    """Return devices in the order in which they are to be tried.

    Args:
        free: Those that match and that nobody has, in the order of their drivers.
        wanted: How many more of them are asked for.
        offer: What the node offers.
        picks: What the pod has been given so far.
        left: Per pool, what is left of each counter, in milli-units.
        consumed: Per pool, what is consumed of each capacity of shared devices, in milli-units.
    """
    kinds = [offer.pools[number].kinds for number in range(len(offer.pools))]
    room = Counter(spot for number, device in free for spot in _spots(kinds[number][device]))
    given = {spot for pick in picks for spot in _spots(kinds[pick.pool][pick.device])}
    wide = {at for at, _ in given}
    totals = [dict(pool.counters) for pool in offer.pools]
    home: AttributeValue | None = None if offer.zone is None else ("int", offer.zone)
    if home is not None and room[_ZONE, home] < wanted:
        home = None  # apart from one another, devices are worse off than all of them apart from cores

    def key(place: DevicePlace) -> tuple[object, ...]:
        number, device = place
        kind = kinds[number][device]
        far = [at in wide and (at, value) not in given for at, value in enumerate(kind.near)]
        fits = [_fit(room, (at, value), wanted) for at, value in enumerate(kind.near) if value is not None]
        return (
            offer.pools[number].binds,
            _size(kind, totals[number]),
            _left(kind, totals[number], left[number], consumed[number].get(device)),
            far,
            home is not None and kind.near[_ZONE] != home,
            fits,
        )

    return sorted(free, key=key)


def tightness_of(picks: Sequence[Pick], offer: Offer, after: Sequence[LocalUse]) -> int:
    """Return how tight devices fit, 0 to 100: how much of their pools is used with them, and how near they are.

    To one another, and to the cores of the pod where it is known which zone these are of.
    """
    mine = [pick for pick in picks if not pick.admin]
    if not mine:
        return 0
    pools = sorted({pick.pool for pick in mine})
    use = sum(_used(offer, number, after[number]) for number in pools) // len(pools)
    near = [_MOST_POINTS * _are_near(mine, offer, at) for at in range(len(NEAR))]
    if offer.zone is not None:
        near.append(_MOST_POINTS * (_places(mine, offer, _ZONE) <= {("int", offer.zone)}))
    points = _USE_COUNTS * use + _NEARNESS_COUNTS * sum(near) // len(near)
    return points // (_USE_COUNTS + _NEARNESS_COUNTS)


def _spots(kind: DeviceKind) -> list[DeviceSpot]:
    return [(at, value) for at, value in enumerate(kind.near) if value is not None]


def _fit(room: Mapping[DeviceSpot, int], spot: DeviceSpot, wanted: int) -> tuple[bool, int]:
    """Return what orders places that hold so many free devices: the fewest that are enough, or else the most."""
    count = room[spot]
    return (False, count) if count >= wanted else (True, -count)


def _size(kind: DeviceKind, totals: Mapping[CounterKey, int]) -> tuple[int, ...]:
    """Return how large a device is: the part of its counters that it takes, then its capacities."""
    part = sum(amount * _WHOLE // max(totals.get(name, 0), 1) for name, amount in kind.consumes)
    return (part, *(() if kind.multiple else (capacity.value for capacity in kind.capacities)))


def _left(
    kind: DeviceKind,
    totals: Mapping[CounterKey, int],
    left: Mapping[CounterKey, int],
    consumed: tuple[int, ...] | None,
) -> int:
    """Return how much is left of the GPU that a partition is of, or of a device that is shared, in thousandths."""
    parts = [left.get(name, 0) * _WHOLE // max(totals.get(name, 0), 1) for name, _ in kind.consumes]
    if kind.multiple:
        used = consumed or (0,) * len(kind.capacities)
        parts += [
            (one.value - taken) * _WHOLE // max(one.value, 1) for one, taken in zip(kind.capacities, used, strict=True)
        ]
    return sum(parts)


def _used(offer: Offer, number: int, use: LocalUse) -> int:
    """Return how much of a pool is used, in hundredths: of its counters, where it has some, else of its devices."""
    pool, (taken, shares) = offer.pools[number], use
    shared = dict(shares)
    if pool.counters:
        used = Counter[CounterKey]()
        for at, kind in enumerate(pool.kinds):
            if taken >> at & 1 or at in shared:
                used.update(dict(kind.consumes))
        total = dict(pool.counters)
        parts = [min(used[name], amount) * _MOST_POINTS // amount for name, amount in total.items() if amount > 0]
        return sum(parts) // max(len(parts), 1)
    points = 0
    for at in range(pool.own):
        if taken >> at & 1:
            points += _MOST_POINTS
        elif at in shared:
            parts = [
                min(took, one.value) * _MOST_POINTS // max(one.value, 1)
                for one, took in zip(pool.kinds[at].capacities, shared[at], strict=True)
            ]
            points += max(parts, default=_MOST_POINTS)
    return points // max(pool.own, 1)


def _are_near(picks: Sequence[Pick], offer: Offer, at: int) -> bool:
    """Whether all chosen devices that say where they are by one attribute of NEAR say the same."""
    return len(_places(picks, offer, at)) <= 1


def _places(picks: Sequence[Pick], offer: Offer, at: int) -> set[AttributeValue | None]:
    """Return where chosen devices say that they are, by one attribute of NEAR."""
    return {offer.pools[one.pool].kinds[one.device].near[at] for one in picks} - {None}
