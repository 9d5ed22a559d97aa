"""What some claims find on each node: worked out once for all nodes that offer them the same.

A program is what the claims of a class of pods ask for. It sees of a device only what these look at, so that devices
which differ in their serial numbers alone are of one kind, and nodes whose devices are alike offer the same. Its
answers are kept, and only the rows of nodes are looked at again on which something else is offered or taken since.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.columns import longer
from tutti.cluster.devices.asks import ClaimAsk, WayAsk
from tutti.cluster.devices.expressions import DeviceContent, Expressions, SelectorError, names_read
from tutti.cluster.devices.ledger import DeviceLedger, LocalUse
from tutti.cluster.devices.offers import DeviceKind, Offer, OfferedPool, Verdict
from tutti.cluster.devices.pools import DeviceCatalog, NodePool, PoolDevice, PoolKey
from tutti.cluster.devices.search import search

UNLIMITED: Final = 1 << 30
"""So many pods: as many as anybody may ask for."""

_MOST_VERDICTS: Final = 1 << 16


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
        for key in self._ledger.take_changed():
            for row in self._rows_of.get(key, ()):
                self._recount(row)

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
        for row, name in enumerate(names):
            same = name == self._names[row] and labels[row] is self._labels[row]
            if same and changed is not None and name not in changed:
                continue
            self._names[row], self._labels[row] = name, labels[row]
            self._put(row, self._catalog.pools_of(name, labels[row]) if name else ())

    def _put(self, row: int, pools: tuple[NodePool, ...]) -> None:
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
        self._recount(row)

    def _recount(self, row: int) -> None:
        self.uses[row] = tuple(self._ledger.use(pool) for pool in self.pools[row])
        self.stamp += 1
        self.stamps[row] = self.stamp


class DeviceProgram:
    """What some claims find on each row.

    Attributes:
        claims: Those that ask.
        verdicts: What was found, each once.
        verdict_of: int64[n], which of `verdicts` each row has.
    """

    def __init__(self, number: int, claims: tuple[ClaimAsk, ...], expressions: Expressions) -> None:
        self.claims = claims
        self.verdicts: list[Verdict] = []
        self.verdict_of = np.zeros(16, dtype=np.int64)
        self._number = number
        self._expressions = expressions
        self._reads = _names_read(claims)
        self._seen = -1
        self._pools: list[OfferedPool] = []
        self._pool_numbers: dict[Hashable, int] = {}
        self._kinds: dict[DeviceKind, DeviceKind] = {}
        self._selected: dict[tuple[int, int], bool | str] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[LocalUse, ...]], int] = {}
        self._columns: tuple[int, NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]] | None = None
        self._moves: tuple[int, bool] | None = None

    def refresh(self, rows: DeviceRows, count: int) -> None:
        """Bring the answers for the first `count` rows up to date."""
        if self._seen == rows.stamp and len(self.verdict_of) >= count:
            return
        if len(self._known) > _MOST_VERDICTS:
            self._known.clear()
            self.verdicts = []
            self._seen = -1
            self._columns = None
        if len(self.verdict_of) < count or self._seen < 0:
            self.verdict_of = np.full(2 * count, self._number_of((), ()), dtype=np.int64)
            self._seen = 0
        for row in np.flatnonzero(rows.stamps[:count] > self._seen).tolist():
            kinds = tuple(self._number_of_pool(pool) for pool in rows.pools[row])
            self.verdict_of[row] = self._number_of(kinds, rows.uses[row])
        self._seen = rows.stamp

    def at(self, row: int) -> Verdict:
        """Return what was found on a row."""
        return self.verdicts[int(self.verdict_of[row])]

    def fits(self, count: int) -> NDArray[np.bool_]:
        """Return bool[count]: on which rows the claims can be fulfilled."""
        return self._tables()[1][self.verdict_of[:count]]

    def ranks(self, count: int) -> NDArray[np.int64]:
        """Return int64[count]: what the chosen ways count in the score of each row."""
        return self._tables()[2][self.verdict_of[:count]]

    def faulty(self, count: int) -> NDArray[np.bool_]:
        """Return bool[count]: of which rows it cannot be told."""
        return self._tables()[3][self.verdict_of[:count]]

    def room(self, rows: DeviceRows, count: int) -> NDArray[np.int64]:
        """Return int64[count]: for how many pods one after another the claims can be fulfilled on each row."""
        used, where = np.unique(self.verdict_of[:count], return_inverse=True)
        sample = {int(number): row for row, number in reversed(list(enumerate(self.verdict_of[:count].tolist())))}
        most = [self._room(rows, sample[number]) for number in used.tolist()]
        out: NDArray[np.int64] = np.array(most, dtype=np.int64)[where.reshape(-1)]
        return out

    def moves(self, rows: DeviceRows) -> bool:
        """Whether what one node gives may be missing on another: devices that several can use may be chosen."""
        if self._moves is None or self._moves[0] != rows.version:
            self._moves = (rows.version, self._can_share(rows))
        return self._moves[1]

    def _room(self, rows: DeviceRows, row: int) -> int:
        kinds = tuple(self._number_of_pool(pool) for pool in rows.pools[row])
        uses, verdict, found = rows.uses[row], self.at(row), 0
        while verdict.fits:
            if verdict.after == uses:
                return UNLIMITED
            found, uses = found + 1, verdict.after
            verdict = self.verdicts[self._number_of(kinds, uses)]
        return found

    def _can_share(self, rows: DeviceRows) -> bool:
        shared = {id(pool): pool for pools in rows.pools for pool in pools if pool.shared}
        ways = [way for claim in self.claims for request in claim.requests for way in request.ways]
        kinds = {self._kind(device) for pool in shared.values() for device in pool.devices}
        return any(self.selects(way, kind) is not False for kind in kinds for way in ways)

    def _tables(self) -> tuple[int, NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
        if self._columns is None or self._columns[0] != len(self.verdicts):
            fits = np.array([one.fits for one in self.verdicts], dtype=np.bool_)
            ranks = np.array([one.rank for one in self.verdicts], dtype=np.int64)
            faulty = np.array([one.fault is not None for one in self.verdicts], dtype=np.bool_)
            self._columns = (len(self.verdicts), fits, ranks, faulty)
        return self._columns

    def _number_of(self, kinds: tuple[int, ...], uses: tuple[LocalUse, ...]) -> int:
        known = self._known.get((kinds, uses))
        if known is None:
            offer = Offer(tuple(self._pools[number] for number in kinds), uses)
            known = self._known[kinds, uses] = len(self.verdicts)
            self.verdicts.append(search(self.claims, offer, self.selects))
        return known

    def _number_of_pool(self, pool: NodePool) -> int:
        number = pool.projected.get(self._number)
        if number is None:
            number = pool.projected[self._number] = self._project(pool)
        return number

    def _project(self, pool: NodePool) -> int:
        kinds = tuple(self._kind(device) for device in (*pool.devices, *pool.others))
        key = (pool.status, tuple(map(id, kinds)), len(pool.devices), tuple(sorted(pool.counters.items())))
        number = self._pool_numbers.get(key)
        if number is None:
            number = self._pool_numbers[key] = len(self._pools)
            self._pools.append(OfferedPool(pool.status, kinds, len(pool.devices), key[3]))
        return number

    def _kind(self, device: PoolDevice) -> DeviceKind:
        content, attributes = device.content, device.attributes
        if self._reads is not None:
            reads = self._reads
            content = DeviceContent(
                content.driver,
                tuple(one for one in content.attributes if one[0][1] in reads),
                tuple(one for one in content.capacity if one[0][1] in reads),
                content.multiple,
            )
            attributes = {name: one for name, one in attributes.items() if name.rpartition("/")[2] in reads}
        kind = DeviceKind(
            content,
            tuple(sorted(attributes.items())),
            device.capacities,
            device.consumes,
            device.taints,
            device.multiple,
        )
        return self._kinds.setdefault(kind, kind)

    def selects(self, way: WayAsk, kind: DeviceKind) -> bool | str:
        """Whether a way selects a device; text, with {claim} for the claim, where that cannot be told."""
        key = (id(way), id(kind))  # both are kept as long as the program
        known = self._selected.get(key)
        if known is None:
            known = self._selected[key] = self._selects(way, kind)
        return known

    def _selects(self, way: WayAsk, kind: DeviceKind) -> bool | str:
        own = f"class {way.device_class}"
        for who, expressions in ((own, way.class_selectors), ("claim {claim}", way.selectors)):
            for at, expression in enumerate(expressions):
                try:
                    if not self._expressions.holds(expression, kind.content):
                        return False
                except SelectorError as error:
                    text = str(error).replace("{", "(").replace("}", ")")
                    return f"{who}: selector #{at}: {text}"
        return True


def _names_read(claims: Iterable[ClaimAsk]) -> frozenset[str] | None:
    """Return the names of the attributes and capacities that claims look at; None where that may be all of them."""
    names: set[str] = set()
    for claim in claims:
        names |= {one.attribute.rpartition("/")[2] for one in claim.constraints}
        for request in claim.requests:
            for way in request.ways:
                for expression in (*way.class_selectors, *way.selectors):
                    read = names_read(expression)
                    if read is None:
                        return None
                    names |= read
    return frozenset(names)
