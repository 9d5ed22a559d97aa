"""What each row of the node table offers of devices, and what is taken there.

What is taken of pools that several nodes share is counted once for all of them: whoever looks at these rows is told
which of the pools have changed (`CommonUse`), and does not look at all of them again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.columns import longer
from tutti.cluster.devices.catalog import NO_POOLS, CommonPools, DeviceCatalog
from tutti.cluster.devices.ledger import DeviceLedger, LocalUse
from tutti.cluster.devices.pools import LikenessCodes, NodePool
from tutti.cluster.devices.taint_rules import PoolKey

_MOST_CHANGES: Final = 4096


class CommonUse:
    """What is taken of pools that several rows share.

    Attributes:
        pools: The pools.
        uses: What is taken of each.
        stamp: When one of these was last another, on the scale of the stamps of rows.
        begin: How many changes there have been before those that are remembered.
    """

    __slots__ = ("_array", "_changes", "_rows", "begin", "pools", "stamp", "uses")

    def __init__(self, pools: CommonPools, uses: list[LocalUse]) -> None:
        self.pools = pools
        self.uses = uses
        self.stamp = 0
        self.begin = 0
        self._changes: list[int] = []
        self._rows: dict[int, None] = {}
        self._array: NDArray[np.int64] | None = None

    @property
    def end(self) -> int:
        """How many changes there have been."""
        return self.begin + len(self._changes)

    @property
    def rows(self) -> NDArray[np.int64]:
        """int64[k]: the rows, in no order."""
        if self._array is None:
            self._array = np.fromiter(self._rows, dtype=np.int64, count=len(self._rows))
        return self._array

    def changed_since(self, number: int) -> Sequence[int]:
        """Return the places of the pools of which something else is taken since there were so many changes."""
        return self._changes[number - self.begin :]

    def change(self, place: int, use: LocalUse) -> None:
        """Note what is taken of the pool at a place."""
        self.uses[place] = use
        if len(self._changes) >= _MOST_CHANGES:
            self.begin += len(self._changes)
            self._changes = []
        self._changes.append(place)

    def join(self, row: int) -> None:
        """Note that a row has these pools."""
        self._rows[row] = None
        self._array = None

    def leave(self, row: int) -> bool:
        """Note that a row has these pools no more; returns whether any has."""
        del self._rows[row]
        self._array = None
        return bool(self._rows)


class DeviceRows:
    """What each row of the node table offers, and what is taken there.

    Attributes:
        own: The pools of each row that are not the same to others, in the order in which they are tried.
        own_uses: What is taken of each.
        shared: The pools that each row has in common with others, with what is taken of these.
        likes: int64[n], the likeness of the only pool of its own that a row has; -1 where it has none, or several.
        used: int64[n], equal for rows of which the same is taken (`own_uses`).
        stamps: int64[n], when `own` or `own_uses` were last others, or `shared` was, n being at least the rows; 0 for
            rows without pools.
        stamp: The last one given, to a row or a CommonUse.
        version: Grows whenever any row has other pools.
    """

    def __init__(self, catalog: DeviceCatalog, ledger: DeviceLedger) -> None:
        self.own: list[tuple[NodePool, ...]] = []
        self.own_uses: list[tuple[LocalUse, ...]] = []
        self.shared: list[CommonUse] = []
        self.likes = np.full(16, -1, dtype=np.int64)
        self.used = np.zeros(16, dtype=np.int64)
        self.stamps = np.zeros(16, dtype=np.int64)
        self.stamp = 0
        self.version = 0
        self._catalog = catalog
        self._ledger = ledger
        self._names: list[str] = []
        self._labels: list[object] = []
        self._rows_of: dict[PoolKey, dict[int, None]] = {}
        self._of_several: set[PoolKey] = set()
        self._codes = LikenessCodes()
        self._nothing = CommonUse(NO_POOLS.common, [])
        self._uses: dict[int, CommonUse] = {}
        self._uses_of: dict[PoolKey, dict[int, CommonUse]] = {}
        self._seen: Hashable = None
        self._row_of: dict[str, int] = {}
        self._shared_pools: tuple[int, tuple[NodePool, ...]] = (0, ())
        self._sharing: dict[int, None] = {}  # rows with pools of their own of which other nodes may use the devices

    def refresh(self, names: Sequence[str], labels: Sequence[Mapping[str, str]], version: int) -> None:
        """Bring all rows up to date.

        Args:
            names: The node of each row, "" where there is none.
            labels: Their labels.
            version: Is another whenever one of these is.
        """
        seen = (version, len(names))
        changed = self._catalog.changed
        if seen == self._seen and changed is not None and not (changed or self._ledger.changed):
            return
        changed = self._catalog.take_changed()
        if seen != self._seen:
            self._seen = seen
            self._row_of = {name: row for row, name in enumerate(names) if name}
            self._follow_nodes(names, labels, range(len(names)), changed)
        elif changed is None:
            self._follow_nodes(names, labels, range(len(names)), None)
        elif changed:
            rows = sorted([self._row_of[name] for name in changed if name in self._row_of])
            self._follow_nodes(names, labels, rows, changed)
        counted = self._ledger.take_changed()
        self._recount(list(dict.fromkeys([row for key in counted for row in self._rows_of.get(key, ())])))
        for key in counted if self._uses_of else ():
            for common in self._uses_of.get(key, {}).values():
                place = common.pools.places[key]
                common.change(place, self._ledger.use(common.pools.pools[place]))
                self.stamp += 1
                common.stamp = self.stamp

    def pools_of(self, row: int) -> Iterator[tuple[NodePool, LocalUse]]:
        """Yield the pools of a row, in no order, and what is taken of each."""
        yield from zip(self.own[row], self.own_uses[row], strict=True)
        common = self.shared[row]
        yield from zip(common.pools.pools, common.uses, strict=True)

    def commons(self) -> Sequence[CommonUse]:
        """Return all that is shared by any rows."""
        return tuple(self._uses.values())

    def shared_pools(self) -> Sequence[NodePool]:
        """Return the pools of which other nodes may use the same devices, as any row sees them."""
        if self._shared_pools[0] != self.version:
            found = {id(pool): pool for row in sorted(self._sharing) for pool in self.own[row] if pool.shared}
            found.update((id(pool), pool) for common in self._uses.values() for pool in common.pools.pools)
            self._shared_pools = (self.version, tuple(found.values()))
        return self._shared_pools[1]

    def sharing(self, count: int) -> NDArray[np.bool_]:
        """Return bool[count]: the rows that have pools of which other nodes may use the same devices."""
        out = np.zeros(count, dtype=np.bool_)
        for common in self._uses.values():
            out[common.rows[common.rows < count]] = True
        out[[row for row in self._sharing if row < count]] = True
        return out

    @property
    def are_apart(self) -> bool:
        """Whether no two rows have the same pool."""
        return not (self._uses or self._of_several)

    def settle(self, rows: Sequence[int], uses: tuple[LocalUse, ...]) -> None:
        """Note what is taken on rows that are up to date and apart, as it is found by whoever has just taken it."""
        for row in rows:
            self.own_uses[row] = uses
        self.stamp += 1
        self.used[rows], self.stamps[rows] = self._codes.of(uses), self.stamp

    def forget_projections(self) -> None:
        """Have no pool remember what was made of it for anybody."""
        for pools in (*self.own, *(common.pools.pools for common in self._uses.values())):
            for pool in pools:
                pool.projected.clear()

    def _follow_nodes(
        self,
        names: Sequence[str],
        labels: Sequence[Mapping[str, str]],
        rows: Iterable[int],
        changed: set[str] | None,
    ) -> None:
        """Find out what some rows offer now: those whose pools have `changed` (None: all), or whose node is another."""
        more = len(names) - len(self._names)
        if more > 0:
            self._names += [""] * more
            self._labels += [None] * more
            self.own += [()] * more
            self.own_uses += [()] * more
            self.shared += [self._nothing] * more
        if len(self.stamps) < len(names):
            self.stamps, self.used = longer(self.stamps, 2 * len(names)), longer(self.used, 2 * len(names))
            self.likes = longer(self.likes, 2 * len(names))
        others = list[int]()
        for row in rows:
            name = names[row]
            same = name == self._names[row] and labels[row] is self._labels[row]
            if same and changed is not None and name not in changed:
                continue
            self._names[row], self._labels[row] = name, labels[row]
            pools = self._catalog.pools_of(name, labels[row]) if name else NO_POOLS
            if pools.common is not self.shared[row].pools:
                self._share(row, pools.common)
            if pools.own or self.own[row]:
                self._put(row, pools.own)
                others.append(row)
        self._recount(others)

    def _put(self, row: int, pools: tuple[NodePool, ...]) -> None:
        """Have a row offer pools of its own; what is taken of these is looked up afterwards."""
        for pool in self.own[row]:
            rows = self._rows_of[pool.key]
            rows.pop(row, None)
            if len(rows) < 2:  # noqa: PLR2004 - one row is not several
                self._of_several.discard(pool.key)
            if not rows:
                del self._rows_of[pool.key]
        for pool in pools:
            rows = self._rows_of.setdefault(pool.key, {})
            rows[row] = None
            if len(rows) > 1:
                self._of_several.add(pool.key)
        self.own[row] = pools
        if any(pool.shared for pool in pools):
            self._sharing[row] = None
        else:
            self._sharing.pop(row, None)
        self.likes[row] = pools[0].likeness if len(pools) == 1 else -1
        self.version += 1

    def _share(self, row: int, pools: CommonPools) -> None:
        """Have a row share pools with all others that have the same."""
        before = self.shared[row]
        if before is not self._nothing and not before.leave(row):
            del self._uses[id(before.pools)]
            for key in before.pools.places:
                self._uses_of[key].pop(id(before.pools), None)
                if not self._uses_of[key]:
                    del self._uses_of[key]
        self.version += 1
        self.stamp += 1
        self.stamps[row] = self.stamp
        if pools is NO_POOLS.common:
            self.shared[row] = self._nothing
            return
        common = self._uses.get(id(pools))
        if common is None:
            common = self._uses[id(pools)] = CommonUse(pools, [self._ledger.use(one) for one in pools.pools])
            for key in pools.places:
                self._uses_of.setdefault(key, {})[id(pools)] = common
        common.join(row)
        self.shared[row] = common

    def _recount(self, rows: list[int]) -> None:
        """Look what is taken on some rows."""
        if not rows:
            return
        use, codes = self._ledger.use, []
        for row in rows:
            own = self.own[row]
            uses = self.own_uses[row] = (use(own[0]),) if len(own) == 1 else tuple([use(pool) for pool in own])
            codes.append(self._codes.of(uses))
        self.stamp += 1
        self.used[rows], self.stamps[rows] = codes, self.stamp
