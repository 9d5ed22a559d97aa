"""What each row of the node table offers of devices, and what is taken there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from tutti.cluster.columns import longer
from tutti.cluster.devices.ledger import DeviceLedger, LocalUse
from tutti.cluster.devices.pools import DeviceCatalog, NodePool
from tutti.cluster.devices.taint_rules import PoolKey


class DeviceRows:
    """What each row of the node table offers, and what is taken there.

    Attributes:
        pools: The pools of each row, in the order in which they are tried.
        uses: What is taken of each.
        stamps: int64[n], when one of these was last another, n being at least the rows; 0 for rows without pools.
        stamp: The last one given.
        version: Grows whenever any row has other pools.
    """

    def __init__(self, catalog: DeviceCatalog, ledger: DeviceLedger) -> None:
        self.pools: list[tuple[NodePool, ...]] = []
        self.uses: list[tuple[LocalUse, ...]] = []
        self.stamps = np.zeros(16, dtype=np.int64)
        self.stamp = 0
        self.version = 0
        self._catalog = catalog
        self._ledger = ledger
        self._names: list[str] = []
        self._labels: list[object] = []
        self._rows_of: dict[PoolKey, dict[int, None]] = {}
        self._seen: Hashable = None
        self._shared: tuple[int, tuple[NodePool, ...]] = (0, ())

    def refresh(self, names: Sequence[str], labels: Sequence[Mapping[str, str]], version: int) -> None:
        """Bring all rows up to date.

        Args:
            names: The node of each row, "" where there is none.
            labels: Their labels.
            version: Is another whenever one of these is.
        """
        changed = self._catalog.take_changed()
        seen = (version, len(names))
        if seen != self._seen or changed is None or changed:
            self._seen = seen
            self._follow_nodes(names, labels, changed)
        concerned = dict.fromkeys(row for key in self._ledger.take_changed() for row in self._rows_of.get(key, ()))
        counted: dict[int, tuple[LocalUse, ...]] = {}
        for row in concerned:
            self._recount(row, counted)

    def shared_pools(self) -> Sequence[NodePool]:
        """Return the pools of which other nodes may use the same devices, as any row sees them."""
        if self._shared[0] != self.version:
            found = {id(pool): pool for pools in self.pools for pool in pools if pool.shared}
            self._shared = (self.version, tuple(found.values()))
        return self._shared[1]

    def forget_projections(self) -> None:
        """Have no pool remember what was made of it for anybody."""
        for pools in self.pools:
            for pool in pools:
                pool.projected.clear()

    def _follow_nodes(
        self, names: Sequence[str], labels: Sequence[Mapping[str, str]], changed: set[str] | None
    ) -> None:
        while len(self._names) < len(names):
            self._names.append("")
            self._labels.append(None)
            self.pools.append(())
            self.uses.append(())
        if len(self.stamps) < len(names):
            self.stamps = longer(self.stamps, 2 * len(names))
        counted: dict[int, tuple[LocalUse, ...]] = {}
        for row, name in enumerate(names):
            same = name == self._names[row] and labels[row] is self._labels[row]
            if same and changed is not None and name not in changed:
                continue
            self._names[row], self._labels[row] = name, labels[row]
            self._put(row, self._catalog.pools_of(name, labels[row]) if name else (), counted)

    def _put(self, row: int, pools: tuple[NodePool, ...], counted: dict[int, tuple[LocalUse, ...]]) -> None:
        if not pools and not self.pools[row]:
            return
        for pool in self.pools[row]:
            rows = self._rows_of[pool.key]
            rows.pop(row, None)
            if not rows:
                del self._rows_of[pool.key]
        for pool in pools:
            self._rows_of.setdefault(pool.key, {})[row] = None
        self.pools[row] = pools
        self.version += 1
        self._recount(row, counted)

    def _recount(self, row: int, counted: dict[int, tuple[LocalUse, ...]]) -> None:
        """Look what is taken on a row; once for all that have the same pools, which are kept by them meanwhile."""
        uses = counted.get(id(self.pools[row]))
        if uses is None:
            uses = counted[id(self.pools[row])] = tuple([self._ledger.use(pool) for pool in self.pools[row]])
        self.uses[row] = uses
        self.stamp += 1
        self.stamps[row] = self.stamp
