"""What nodes offer, as seen by those who look at some attributes of devices only.

Devices that differ in their serial numbers alone are of one kind to whoever does not ask for these, and nodes whose
devices are alike offer the same: they are in one situation. Of attributes that are only compared it is told which
devices of a node have the same, and not what that is: islands with names of their own are alike. Which situation each
row is in is worked out once for all claims that look at the same attributes, and again only for rows on which something
else is offered or taken since. Of rows that share pools, those that have the same beside these are looked at together.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.catalog import pool_order
from tutti.cluster.devices.common_view import CommonView, merged
from tutti.cluster.devices.expressions import DeviceContent
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import NEAR, DeviceKind, Offer, OfferedPool
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.published import PoolDevice
from tutti.cluster.devices.rows import CommonUse, DeviceRows
from tutti.cluster.devices.selections import Contents

_MOST_SITUATIONS: Final = 1 << 16
MANY: Final = 32
"""From so many rows on it is quicker to ask columns first whether all are alike."""


class _Plan(NamedTuple):
    """Which values count of the devices of pools that are alike: each is told of their values, and returns those.

    Attributes:
        read: Those that expressions may look at.
        compared: Those that are only compared.
        names: Of each of these the place of its device, and its name there.
        alike: Whether none of their values count, so that the pools are seen as one.
    """

    read: Callable[[Sequence[AttributeValue]], tuple[AttributeValue, ...]]
    compared: Callable[[Sequence[AttributeValue]], tuple[AttributeValue, ...]]
    names: tuple[tuple[int, str], ...]
    alike: bool


class _PoolView(msgspec.Struct, frozen=True, eq=False, gc=False):  # made for each pool, and leads nowhere
    """A pool as it is seen.

    Attributes:
        code: Equal for pools that differ in nothing but what is compared.
        values: What is compared, in the order of the plan.
        alone: The numbers of the pools of a node that has no other.
    """

    code: int
    values: tuple[AttributeValue, ...]
    alone: tuple[int]


class PoolKinds(NamedTuple):
    """What is seen of the devices of a pool, each by itself and compared with no other.

    Attributes:
        kinds: Of those that a node can use.
        numbers: int64[n], of what is seen of each.
        multiple: Those that several may have, as bits.
        tainted: The places of those that have taints.
    """

    kinds: tuple[DeviceKind, ...]
    numbers: NDArray[np.int64]
    multiple: int
    tainted: tuple[int, ...]


class _Standing(NamedTuple):
    """What a row has beside pools that it shares.

    Attributes:
        spots: Per pool of its own, how many of the shared ones come before it.
        whole: Whether all of the shared ones are to be looked at: its own are compared with them.
    """

    own: tuple[NodePool, ...]
    uses: tuple[LocalUse, ...]
    spots: tuple[int, ...]
    whole: bool


class DeviceProjection:
    """The situation of each row.

    Attributes:
        offers: What each situation offers.
        situation_of: int64[n], the situation of each row, n being at least the rows.
        stamp: Of the rows, when these were last looked at.
        epoch: Grows when situations get other numbers.
        contents: The different devices that are seen.
    """

    def __init__(
        self,
        number: int,
        reads: frozenset[str] | None,
        compares: frozenset[str],
        *,
        width: int = 0,
        contents: Contents | None = None,
    ) -> None:
        """Begin.

        Args:
            number: Tells it from other projections.
            reads: The names of attributes and capacities that are looked at; None: all.
            compares: Those that are only compared.
            width: Of pools that rows share and that are alike so many are looked at; 0: all.
            contents: The different devices that all see who look at the same.
        """
        self.contents = contents if contents is not None else Contents()
        self.offers: list[Offer] = []
        self.situation_of = np.zeros(16, dtype=np.int64)
        self.stamp = -1
        self.epoch = 0
        self._number = number
        self._reads = reads
        self._compares = compares
        self._width = width
        self._pools: list[OfferedPool] = []
        self._pool_numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._codes: dict[Hashable, int] = {}
        self._numbers_alone: dict[tuple[int, tuple[int, ...]], tuple[int]] = {}
        self._plans: dict[int, _Plan] = {}
        self._views_alike: dict[int, _PoolView] = {}  # of pools that are seen as one, by their likeness
        self._situations_alike: dict[tuple[int, tuple[LocalUse, ...]], int] = {}  # of rows with one of these pools
        self._kinds: dict[DeviceKind, DeviceKind] = {}
        self._seen_of: dict[int, PoolKinds] = {}
        self._shared: tuple[int, Sequence[DeviceKind]] = (-1, ())
        self._known: dict[tuple[tuple[int, ...], tuple[LocalUse, ...]], int] = {}
        self._pools_of: list[tuple[int, ...]] = []
        self._views: dict[int, CommonView] = {}
        self._standing_of = np.zeros(16, dtype=np.int64)
        self._standings: list[_Standing] = []
        self._numbers_of_standing: dict[Hashable, int] = {}

    def refresh(self, rows: DeviceRows, count: int) -> None:
        """Bring the situations of the first `count` rows up to date."""
        if self.stamp == rows.stamp and len(self.situation_of) >= count:
            return
        if max(len(self.offers), len(self._standings)) > _MOST_SITUATIONS:
            self._known.clear()
            self._situations_alike.clear()
            self._views.clear()
            self._numbers_of_standing.clear()
            self._pools_of, self.offers, self._standings = [], [], []
            self.epoch += 1
            self.stamp = -1
        if len(self.situation_of) < count or self.stamp < 0:
            self.situation_of = np.full(2 * count, self._situation((), ()), dtype=np.int64)
            self._standing_of = np.zeros(2 * count, dtype=np.int64)
            self.stamp = 0
        changed, commons = np.flatnonzero(rows.stamps[:count] > self.stamp), rows.commons()
        stood: dict[int, list[int]] = {}  # rows that share pools with others, by these pools
        if commons:
            for row in changed.tolist():
                common = rows.shared[row]
                if common.pools.pools:
                    self._standing_of[row] = self._standing(rows.own[row], rows.own_uses[row], self._view_of(common))
                    stood.setdefault(id(common), []).append(row)
            changed = np.setdiff1d(changed, [row for of_common in stood.values() for row in of_common])
        self.situation_of[changed] = self._all_alone(rows, changed)
        for common in commons:
            if common.stamp > self.stamp:
                self._place(self._view_of(common), common.rows[common.rows < count])
            elif id(common) in stood:
                self._place(self._view_of(common), np.array(stood[id(common)], dtype=np.int64))
        if len(self._views) > len(commons):
            here = {id(one) for one in commons}
            self._views = {at: view for at, view in self._views.items() if at in here}
        self.stamp = rows.stamp

    def pools_at(self, rows: DeviceRows, row: int) -> Sequence[NodePool]:
        """Return the pools of a row, as its situation offers them."""
        own, common = rows.own[row], rows.shared[row]
        if not common.pools.pools:
            return own
        standing, shared = self._standings[int(self._standing_of[row])], common.pools.pools
        places = self._view_of(common).everything if standing.whole else self._view_of(common).chosen
        return [shared[at] if at >= 0 else own[-1 - at] for at in merged(standing.spots, places)]

    def pools_of(self, rows: DeviceRows, those: Sequence[int]) -> list[Sequence[NodePool]]:
        """Return the pools of each of some rows, as its situation offers them."""
        if rows.commons():
            return [self.pools_at(rows, row) for row in those]
        own = rows.own
        return [own[row] for row in those]

    def _view_of(self, common: CommonUse) -> CommonView:
        """Return what is looked at of shared pools, as they are now."""
        view = self._views.get(id(common))
        if view is None or view.common is not common:
            seen = [self._view(pool) for pool in common.pools.pools]
            met = Counter(value for one in seen for value in set(one.values))
            likes = [(one.code, _told_apart(one.values, met)) for one in seen]
            view = self._views[id(common)] = CommonView(common, likes, frozenset(met), self._width)
        view.follow()
        return view

    def _standing(self, own: tuple[NodePool, ...], uses: tuple[LocalUse, ...], view: CommonView) -> int:
        """Return the number of what tells a row from others that share the same pools."""
        orders = view.common.pools.orders
        spots = tuple([bisect_left(orders, pool_order(pool)) for pool in own])
        values = [self._view(pool).values for pool in own]
        whole = any(value in view.values for one in values for value in one)
        what = (self._numbers_of(own), uses, spots, tuple(values) if whole else ())
        known = self._numbers_of_standing.get(what)
        if known is None:
            known = self._numbers_of_standing[what] = len(self._standings)
            self._standings.append(_Standing(own, uses, spots, whole))
        return known

    def _place(self, view: CommonView, rows: NDArray[np.int64]) -> None:
        """Work out the situations of rows that share pools."""
        if not len(rows):
            return
        numbers, inverse = np.unique(self._standing_of[rows], return_inverse=True)
        found = []
        for number in numbers.tolist():
            known = view.situations.get(number)
            if known is None:
                known = view.situations[number] = self._beside(view, self._standings[number])
            found.append(known)
        self.situation_of[rows] = np.array(found, dtype=np.int64)[inverse]

    def _beside(self, view: CommonView, standing: _Standing) -> int:
        """Return the situation of a row with these pools of its own beside those that it shares."""
        shared, used = view.common.pools.pools, view.common.uses
        order = merged(standing.spots, view.everything if standing.whole else view.chosen)
        pools = [shared[at] if at >= 0 else standing.own[-1 - at] for at in order]
        uses = tuple([used[at] if at >= 0 else standing.uses[-1 - at] for at in order])
        return self._situation(self._numbers_of(pools), uses)

    def settle(self, rows: DeviceRows, those: Sequence[int], situation: int, uses: tuple[LocalUse, ...]) -> None:
        """Note, for the rows as well, what is taken now on some that are up to date, apart, and in one situation."""
        is_current = self.stamp == rows.stamp
        rows.settle(those, uses)
        if is_current:
            self.situation_of[those] = self.next(situation, uses)
            self.stamp = rows.stamp

    def next(self, situation: int, uses: tuple[LocalUse, ...]) -> int:
        """Return the situation of a node of which something else is taken."""
        return self._situation(self._pools_of[situation], uses)

    def seen(self, pool: NodePool) -> PoolKinds:
        """Return what is seen of the devices of a pool, each by itself; of equal ones the same object."""
        code = self.code_of(pool)
        known = self._seen_of.get(code)
        if known is None:
            kinds = tuple([self._kind(device, ()) for device in pool.devices])
            multiple = sum(1 << at for at, one in enumerate(kinds) if one.multiple)
            tainted = tuple([at for at, one in enumerate(kinds) if one.taints])
            known = self._seen_of[code] = PoolKinds(kinds, _numbers(kinds), multiple, tainted)
        return known

    def shared(self, rows: DeviceRows) -> Sequence[DeviceKind]:
        """Return what is seen of devices that several rows can use, each different one once."""
        if self._shared[0] != rows.version:
            kinds = {one.number: one for pool in rows.shared_pools() for one in self.seen(pool).kinds}
            self._shared = (rows.version, tuple(kinds.values()))
        return self._shared[1]

    def code_of(self, pool: NodePool) -> int:
        """Return a number that is equal for pools whose devices are of the same kinds by themselves, place by place."""
        return self._view(pool).code

    def _all_alone(self, rows: DeviceRows, those: NDArray[np.int64]) -> list[int]:
        """Return the situations of rows that share no pools: one for those that are alike, if they are seen as one."""
        likes, used = rows.likes[those], rows.used[those]
        if len(those) >= MANY and bool((likes == likes[0]).all() and (used == used[0]).all()):  # as a gang leaves them
            first = self._alone(rows.own[those[0]], rows.own_uses[those[0]])
            if int(likes[0]) in self._views_alike:
                return [first] * len(those)
        alike = zip(likes.tolist(), used.tolist(), strict=True)
        found, out = dict[tuple[int, int], int](), list[int]()
        for row, what in zip(those.tolist(), alike, strict=True):
            known = found.get(what)
            if known is None:
                known = self._alone(rows.own[row], rows.own_uses[row])
                if what[0] in self._views_alike:
                    found[what] = known
            out.append(known)
        return out

    def _alone(self, own: tuple[NodePool, ...], uses: tuple[LocalUse, ...]) -> int:
        """Return the situation of a row that shares no pools."""
        if len(own) != 1:
            return self._situation(self._numbers_of(own), uses)
        met = own[0].likeness, uses
        known = self._situations_alike.get(met)
        if known is None:
            known = self._situation(self._numbers_of(own), uses)
            if own[0].likeness in self._views_alike:
                self._situations_alike[met] = known
        return known

    def _situation(self, pools: tuple[int, ...], uses: tuple[LocalUse, ...]) -> int:
        known = self._known.get((pools, uses))
        if known is None:
            known = self._known[pools, uses] = len(self.offers)
            self._pools_of.append(pools)
            self.offers.append(Offer(tuple(self._pools[number] for number in pools), uses))
        return known

    def _numbers_of(self, pools: Sequence[NodePool]) -> tuple[int, ...]:
        """Return the numbers of the pools of one node, beside one another."""
        if len(pools) == 1:
            return self._view(pools[0]).alone
        told: dict[AttributeValue, int] = {}
        views = [self._view(pool) for pool in pools]
        return tuple(
            [self._number_of(pool, view.code, view.values, told) for pool, view in zip(pools, views, strict=True)]
        )

    def _number_of(
        self, pool: NodePool, code: int, values: Sequence[AttributeValue], told: dict[AttributeValue, int]
    ) -> int:
        """Return the number of a pool, given which of its values have been met on its node, and in which order."""
        marks = tuple([told.setdefault(one, len(told)) for one in values])
        number = self._pool_numbers.get((code, marks))
        if number is None:
            number = self._pool_numbers[code, marks] = len(self._pools)
            self._pools.append(self._offered(pool, marks))
        return number

    def _numbers_alone_of(self, pool: NodePool, code: int, values: Sequence[AttributeValue]) -> tuple[int]:
        """Return the number of a pool where no other is on its node, as that of all pools of the node."""
        met: dict[AttributeValue, int] = {}
        same = (code, tuple(map(met.setdefault, values, itertools.count())))  # where each value has been met first
        numbers = self._numbers_alone.get(same)
        if numbers is None:
            numbers = self._numbers_alone[same] = (self._number_of(pool, code, values, {}),)
        return numbers

    def _view(self, pool: NodePool) -> _PoolView:
        alike = self._views_alike.get(pool.likeness)
        if alike is not None:
            return alike
        view = pool.projected.get(self._number)
        if view is None:
            view = self._look_at(pool)
            if self._plan(pool).alike:
                self._views_alike[pool.likeness] = view
            else:
                pool.projected[self._number] = view
        assert isinstance(view, _PoolView)
        return view

    def _look_at(self, pool: NodePool) -> _PoolView:
        plan = self._plan(pool)
        code = self._codes.setdefault((pool.likeness, plan.read(pool.values)), len(self._codes))
        values = plan.compared(pool.values)
        return _PoolView(code, values, self._numbers_alone_of(pool, code, values))

    def _offered(self, pool: NodePool, marks: Sequence[int]) -> OfferedPool:
        compared: list[list[tuple[str, AttributeValue]]] = [[] for _ in pool.listed]
        for (at, name), mark in zip(self._plan(pool).names, marks, strict=True):
            compared[at].append((name, ("int", mark)))
        kinds = tuple([self._kind(device, mine) for device, mine in zip(pool.listed, compared, strict=True)])
        counters = tuple(sorted(pool.counters.items()))
        own = len(pool.devices)
        return OfferedPool(pool.status, kinds, own, counters, pool.binds, _numbers(kinds[:own]))

    def _plan(self, pool: NodePool) -> _Plan:
        plan = self._plans.get(pool.likeness)
        if plan is None:
            read, compared, names = [], [], []
            each = [(at, name) for at, device in enumerate(pool.listed) for name in sorted(device.attributes)]
            for place, (at, name) in enumerate(each):
                last = name.rpartition("/")[2]
                if self._reads is None or last in self._reads:
                    read.append(place)
                elif last in self._compares:
                    compared.append(place)
                    names.append((at, name))
            alike = not (read or compared)
            plan = self._plans[pool.likeness] = _Plan(_those_at(read), _those_at(compared), tuple(names), alike)
        return plan

    def _kind(self, device: PoolDevice, compared: Sequence[tuple[str, AttributeValue]]) -> DeviceKind:
        content, attributes, reads = device.content, device.attributes, self._reads
        if reads is not None:
            content = DeviceContent(
                content.driver,
                tuple(one for one in content.attributes if one[0][1] in reads),
                tuple(one for one in content.capacity if one[0][1] in reads),
                content.multiple,
            )
            attributes = {name: one for name, one in attributes.items() if name.rpartition("/")[2] in reads}
        attributes = {**attributes, **dict(compared)}
        kind = DeviceKind(
            content,
            tuple(sorted(attributes.items())),
            device.capacities,
            device.consumes,
            device.taints,
            device.multiple,
            tuple(attributes.get(name) for name in NEAR),
            self.contents.number(content),
        )
        return self._kinds.setdefault(kind, kind)


def _numbers(kinds: Sequence[DeviceKind]) -> NDArray[np.int64]:
    return np.array([one.number for one in kinds], dtype=np.int64)


def _those_at(places: Sequence[int]) -> Callable[[Sequence[AttributeValue]], tuple[AttributeValue, ...]]:
    """Return what returns the values at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[at] for at in places])


def _told_apart(
    values: Sequence[AttributeValue], met: Mapping[AttributeValue, int]
) -> tuple[AttributeValue | int, ...]:
    """Return values that are compared, those that no other pool has as numbers in the order in which they come."""
    marks: dict[AttributeValue, int] = {}
    return tuple([one if met[one] > 1 else marks.setdefault(one, len(marks)) for one in values])
