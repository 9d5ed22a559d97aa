"""Pods that may go, as columns by node: what removing them frees, and who can be reprieved on all nodes at once.

Reprieving is sequential on a node and independent between nodes: the first of every node is tried in one step, then
the second of every node, and so on. A cluster of thousands of nodes takes as many steps as its fullest node has pods.
Where units are reprieved one after another, a few integers of one node are faster than columns (`Remaining`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.placed_pods import Slots
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.preemption.device_wish import DeviceWish
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victim_cost import PRIORITY_OFFSET, Coverage
from tutti.placement.profile import Profile

_RANK_BITS = 33
_PLENTY = 1 << 32

Free = NDArray[np.int64]
"""int64[resources asked for, rows]: what is left on each node; may be below 0."""


@dataclass(frozen=True, slots=True)
class ResourceWish:
    """What pods of one class ask of a node, as far as room goes.

    Attributes:
        columns: The resources that count, as columns of the node table.
        request: int64[columns], what one pod takes of each; above 0.
        mask: bool[rows], the nodes that may take such pods at all.
        most: int64[rows], how many a node may take at most.
        barring: int64[m], pods by their slots without all of which their node takes none.
        devices: What else they ask for, as amounts of devices.
    """

    columns: NDArray[np.int64]
    request: Counts
    mask: Mask
    most: Counts
    barring: Slots = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    devices: DeviceWish | None = None

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        ask: Ask,
        profile: Profile,
        mask: Mask,
        *,
        most: int | Counts,
        barring: Slots | None = None,
        devices: DeviceWish | None = None,
    ) -> ResourceWish:
        """Return what the pods of an ask want, on the nodes of a mask."""
        nodes = cluster.nodes
        request = nodes.vector(ask.pod_class.requests)
        names = (name for name in ask.pod_class.requests if not profile.fit.is_ignored(name))
        columns = np.array([c for c in nodes.resource_index.columns(names) if request[c]], dtype=np.int64)
        wanted = request[columns]
        if devices is not None:
            wanted = np.append(wanted, devices.request)
        limit = np.broadcast_to(np.asarray(most, dtype=np.int64), mask.shape)
        if barring is None or not len(barring):
            return cls(columns, wanted, mask, limit, devices=devices)
        return cls(columns, np.append(wanted, 1), mask, limit, np.sort(barring), devices)

    def free(self, cluster: Cluster) -> Free:
        """Return what is free on every node now.

        Where pods bar their nodes, that is one more resource: a node has plenty, and each of them takes all of it.
        """
        nodes, columns = cluster.nodes, cluster.pod_columns
        left = (nodes.allocatable[:, self.columns] - nodes.requested[:, self.columns]).T
        if self.devices is not None:
            left = np.vstack((left, self.devices.free))
        if len(self.barring):
            barred = np.bincount(columns.row[self.barring], minlength=len(nodes))
            left = np.vstack((left, _PLENTY * (1 - barred)))
        return np.ascontiguousarray(left)

    def held(self, cluster: Cluster, slots: Slots) -> Free:
        """Return int64[resources asked for, m]: what each of these pods takes of them."""
        held = cluster.pod_columns.held(slots, cluster.nodes.resource_index)[:, self.columns].T
        if self.devices is not None:
            held = np.vstack((held, self.devices.held(slots)))
        if len(self.barring):
            held = np.vstack((held, _PLENTY * np.isin(slots, self.barring)))
        return np.ascontiguousarray(held)

    def capacity(self, free: Free, rows: Rows | None = None) -> Counts:
        """Return how many such pods fit on each row, or on some: int64[rows]."""
        fits = self.most.copy() if rows is None else self.most[rows]
        for column, request in zip(free, self.request, strict=True):
            np.minimum(fits, column // request, out=fits)
        np.maximum(fits, 0, out=fits)
        return fits * (self.mask if rows is None else self.mask[rows])


@dataclass(slots=True)
class VictimPool:
    """Some pods, those of one node side by side, in the order in which they are put back there.

    Attributes:
        slots: int64[m], which pods.
        row: int64[m], ascending.
        turn: int64[m], 0 for the first of each node, and so on.
        held: int64[columns, m], what each takes of what is asked for.
        violating: bool[m], those that no budget has room for; they are put back before the others of their node.
    """

    slots: Slots
    row: Rows
    turn: Counts
    held: Free
    violating: Mask

    @classmethod
    def of(
        cls, cluster: Cluster, slots: Slots, wish: ResourceWish, coverage: Coverage, harmless: Mask | None = None
    ) -> VictimPool:
        """Order pods: by node, those over budget first, then by priority, then by who has run longest.

        Args:
            cluster: Where they are.
            slots: Which pods.
            wish: What is asked for.
            coverage: The budgets.
            harmless: bool[slots], those that hurt nobody: they come last.
        """
        columns = cluster.pod_columns
        slots = slots[by_importance(cluster, slots, harmless)]
        row = columns.row[slots].astype(np.int64)
        violating = np.zeros(len(slots), dtype=np.bool_)
        if coverage.budgets:
            violating = coverage.violating(columns.at(slots), row)
            order = np.lexsort((~violating, row))
            slots, row, violating = slots[order], row[order], violating[order]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        turn = np.arange(len(row)) - np.repeat(starts, np.diff(starts, append=len(row)))
        return cls(slots, row, turn, wish.held(cluster, slots), violating)

    def remove(self, free: Free, which: Mask | None = None) -> Free:
        """Return what would be free without these pods, or without some of them."""
        out = free.copy()
        for column, held in zip(out, self.held, strict=True):
            if which is None:
                np.add.at(column, self.row, held)
            else:
                np.add.at(column, self.row[which], held[which])
        return out

    def reprieve(self, removed: Free, needed: Free, rows: Mask) -> Mask:
        """Put pods back as long as the node keeps what is needed there.

        Args:
            removed: What is free without any of them.
            needed: int64[columns, rows], what must stay free.
            rows: bool[rows], the nodes that count.

        Returns:
            bool[m], those that cannot be put back, on the nodes that count.
        """
        spare = removed - needed
        gone = np.zeros(len(self.row), dtype=np.bool_)
        for now in self._turns(rows):
            row, held = self.row[now], self.held[:, now]
            left = spare[:, row] - held
            fits = (left >= 0).all(axis=0)
            spare[:, row[fits]] = left[:, fits]
            gone[now[~fits]] = True
        return gone

    def _turns(self, rows: Mask) -> list[Rows]:
        """Return per turn which pods of nodes that count are up, as indices."""
        counting = np.flatnonzero(rows[self.row])
        order = counting[np.argsort(self.turn[counting], kind="stable")]
        ends = np.cumsum(np.bincount(self.turn[counting]))
        return np.split(order, ends[:-1]) if len(ends) else []


def by_importance(cluster: Cluster, slots: Slots, harmless: Mask | None = None) -> Rows:
    """Return the order of pods by node, then from the most important: by priority, then by who has run longest."""
    columns = cluster.pod_columns
    rank = columns.priority[slots] + PRIORITY_OFFSET + 1
    if harmless is not None:
        rank[harmless] = 0
    return np.lexsort((columns.started[slots], (columns.row[slots].astype(np.int64) << _RANK_BITS) - rank))


def least_by_amounts(cluster: Cluster, units: VictimUnits, order: Rows, asks: Sequence[Ask]) -> int:
    """Return how many units of an order must go at least for there to be as much of all as some asks take together."""
    nodes, columns = cluster.nodes, cluster.pod_columns
    total = np.sum([nodes.vector(ask.pod_class.requests) * ask.required for ask in asks], axis=0)
    wanted = np.flatnonzero(total)
    have = np.maximum((nodes.allocatable - nodes.requested)[:, wanted], 0).sum(axis=0)
    held = np.zeros((len(units), len(wanted)), dtype=np.int64)
    np.add.at(held, units.of, columns.held(units.slots, nodes.resource_index)[:, wanted])
    enough = (have + np.cumsum(held[order], axis=0) >= total[wanted]).all(axis=1)
    return 0 if (have >= total[wanted]).all() else int(np.argmax(enough)) + 1 if enough.any() else len(order)


def with_room_beside(
    cluster: Cluster, units: VictimUnits, gone: Mask, some: Rows, placed: Sequence[tuple[Ask, Rows]]
) -> Rows:
    """Return who of some units that are gone has room beside a gang where it has been placed without them.

    Args:
        cluster: Where they are.
        units: Everybody who may go.
        gone: bool[units], without whom the gang was placed.
        some: int64[k], who comes back as long as there is room, in order.
        placed: What was placed, and int64[m], the row of each pod of it.
    """
    nodes, columns = cluster.nodes, cluster.pod_columns
    vectors = [nodes.vector(ask.pod_class.requests) for ask, _ in placed]
    wanted = np.flatnonzero(np.logical_or.reduce([vector > 0 for vector in vectors]))
    free = (nodes.allocatable - nodes.requested)[:, wanted]
    for vector, (_, rows) in zip(vectors, placed, strict=True):
        np.subtract.at(free, rows, vector[wanted])
    row = columns.row[units.slots].astype(np.int64)
    held = columns.held(units.slots, nodes.resource_index)[:, wanted]
    leaves = gone[units.of]
    np.add.at(free, row[leaves], held[leaves])
    staying = []
    for unit in some.tolist():
        mine = slice(int(units.starts[unit]), int(units.starts[unit + 1]))
        np.subtract.at(free, row[mine], held[mine])
        if (free[row[mine]] >= 0).all():
            staying.append(unit)
        else:
            np.add.at(free, row[mine], held[mine])
    return np.array(staying, dtype=np.int64)


@dataclass(slots=True)
class Remaining:
    """The nodes that units were put back on or taken from, and all others as they were.

    Attributes:
        wish: What is wanted of the nodes.
        free: int64[columns, rows], what was free at first.
        units: Who may be put back and taken out.
        row, held: int64[m] and int64[columns, m], where their pods are and what each takes of what is wanted.
        spare: How many more pods fit now than are wanted; below 0 where they do not fit.
    """

    wish: ResourceWish
    free: Free
    units: VictimUnits
    row: Rows
    held: Free
    spare: int
    _left: dict[int, list[int]] = field(default_factory=dict)
    _request: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._request = self.wish.request.tolist()

    def reprieve(self, unit: int) -> None:
        """Let a unit stay after all."""
        self._move(unit, -1)

    def take_out(self, unit: int) -> None:
        """Let a unit go."""
        self._move(unit, 1)

    def gain(self, unit: int) -> int:
        """Return for how many more pods there would be room without a unit."""
        before = self.spare
        self.take_out(unit)
        gain = self.spare - before
        self.reprieve(unit)
        return gain

    def _move(self, unit: int, sign: int) -> None:
        begin, end = int(self.units.starts[unit]), int(self.units.starts[unit + 1])
        for row, held in zip(self.row[begin:end].tolist(), self.held[:, begin:end].T.tolist(), strict=True):
            if not self.wish.mask[row]:
                continue
            before = self._left.get(row) or self.free[:, row].tolist()
            after = [left + sign * amount for left, amount in zip(before, held, strict=True)]
            most = int(self.wish.most[row])
            self.spare += self._room(after, most) - self._room(before, most)
            self._left[row] = after

    def _room(self, left: list[int], most: int) -> int:
        """Return how many pods fit where so much is left."""
        fits = min((amount // request for amount, request in zip(left, self._request, strict=True)), default=0)
        return max(0, min(fits, most))
