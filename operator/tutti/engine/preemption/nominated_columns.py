"""What is nominated and what its victims still use, as columns that grow with the nominations.

Many preemptors are tried against nearly the same nominations: each against one more than the one before, or against all
but its own. What was read of a nomination is kept for as long as there is no news of it, so that a try reads only what
has come since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.nominated_pods import NominatedClass, NominatedRoom
from tutti.cluster.pods import PodKey
from tutti.engine.records.nominations import Nomination, VictimOverlap

Column = NDArray[np.int64]
_NONE: Column = np.zeros(0, dtype=np.int64)
_SPARE = 64
"""So many more than twice the nominations there are may be kept that there are no more."""


class _ClassColumns:
    """Classes by number, and what a pod of each takes, as rows of a matrix that grows with them."""

    def __init__(self) -> None:
        self.codes: dict[PodClass, int] = {}
        self._amounts = np.zeros((0, 0), dtype=np.int64)

    def code(self, pod_class: PodClass) -> int:
        """Return the number of a class."""
        return self.codes.setdefault(pod_class, len(self.codes))

    def amounts(self, cluster: Cluster) -> NDArray[np.int64]:
        """Return int64[classes, resources]: what a pod of each takes."""
        known, width = self._amounts, len(cluster.nodes.resource_index)
        if known.shape[1] != width:  # what had no column may have one now
            known = np.zeros((0, width), dtype=np.int64)
        if len(known) < len(self.codes):
            new = [cluster.nodes.vector(one.requests) for one in islice(self.codes, len(known), None)]
            known = np.concatenate((known, np.stack(new)))
        self._amounts = known
        return known


class NominatedColumns:
    """The nominations that somebody was tried against, and those among them that somebody is tried against now.

    What is known of one is valid until there is news of it or of its victims: `read_anew` then. That nodes are others,
    and that a victim has left its slot within a turn, is seen here.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again."""
        self._stamp = (-1, -1)
        self._known: list[Nomination] = []  # held, so that no other gets the id of one
        self._number: dict[int, int] = {}
        self._place = _NONE  # by number, which one it is of those that count now; -1 for others
        self._wanting, self._leaving = _ClassColumns(), _ClassColumns()
        self._spot_of = self._spot_row = self._spot_code = self._spot_waits = self._spot_moves = _NONE
        self._victims: list[PodKey] = []
        self._victim_of = self._slot = self._tenancy = self._victim_code = _NONE

    def read_anew(self, news: Iterable[Nomination], current: Collection[Nomination]) -> None:
        """Keep what is known of the `current` ones of which there is no news; nothing where most of it is of no use."""
        if len(self._known) > 2 * len(current) + _SPARE:
            self.forget()
            return
        changed, known = {id(one) for one in news}, self._number
        ids = (id(one) for one in current)
        self._number = {one: known[one] for one in ids if one in known and one not in changed}

    def follow(self, nominations: Sequence[Nomination], cluster: Cluster) -> None:
        """Have these nominations, in this order, and no others."""
        stamp = cluster.pod_columns.version, cluster.nodes.version
        if stamp[1] != self._stamp[1]:
            self.forget()
        elif stamp[0] != self._stamp[0]:
            self._look_for_moved(cluster)
        self._stamp = stamp
        new = [one for one in nominations if id(one) not in self._number]
        if new:
            first = len(self._known)
            self._known.extend(new)
            self._number.update((id(one), first + index) for index, one in enumerate(new))
            self._add_spots(new, first, cluster)
            self._add_victims(new, first, cluster)
        self._place = np.full(len(self._known), -1, dtype=np.int64)
        self._place[[self._number[id(one)] for one in nominations]] = np.arange(len(nominations))

    def nominated(
        self, cluster: Cluster, *, moves: bool, others: Iterable[tuple[PodClass, int]] = ()
    ) -> tuple[list[NominatedClass], NominatedRoom]:
        """Return who is nominated where, the classes as they came first, and what they take together.

        Args:
            cluster: Where they are.
            moves: Those for whom others are moved, and who are moved, or those that wait for victims.
            others: Pods of nobody's nomination here that count as well, by class and row.
        """
        place = np.where(self._spot_moves == moves, self._place[self._spot_of], -1)
        order = np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]
        codes, rows = self._spot_code[order], self._spot_row[order]
        classes, amounts = list(self._wanting.codes), self._wanting.amounts(cluster)
        foreign = _ClassColumns()
        beside = [(len(classes) + foreign.code(pod_class), row) for pod_class, row in others]
        if beside:
            more, where = np.array(beside, dtype=np.int64).T
            codes, rows = np.concatenate((codes, more)), np.concatenate((rows, where))
            classes += foreign.codes
            amounts = np.concatenate((amounts, foreign.amounts(cluster)))
        return _by_class(classes, codes, rows), _summed(rows, amounts[codes])

    def overlap(self, cluster: Cluster) -> VictimOverlap | None:
        """Return what of the nominated room its victims still use; None where they are on no such node."""
        mine = (self._place[self._victim_of] >= 0) & (self._slot >= 0)
        slots, first = np.unique(self._slot[mine], return_index=True)  # each once however many wait for it
        row = cluster.pod_columns.row[slots].astype(np.int64)
        rows, where = np.unique(row, return_inverse=True)
        if not len(rows):
            return None
        at = np.searchsorted(rows, self._spot_row).clip(max=len(rows) - 1)
        there = (rows[at] == self._spot_row) & (self._spot_waits > 0) & (self._place[self._spot_of] >= 0)
        if self._spot_moves.any():  # who is moved goes where there is room, unless others of his plan leave that
            count = len(cluster.nodes)
            left = self._victim_of[mine] * count + cluster.pod_columns.row[self._slot[mine]]
            there &= (self._spot_moves == 0) | np.isin(self._spot_of * count + self._spot_row, left)
        if not there.any():
            return None
        wanted, used = self._wanting.amounts(cluster), self._leaving.amounts(cluster)
        nominated = np.zeros((len(rows), wanted.shape[1]), dtype=np.int64)
        np.add.at(nominated, at[there], wanted[self._spot_code[there]])
        return VictimOverlap(rows, nominated, slots, where, used[self._victim_code[mine][first]])

    def _add_spots(self, new: Sequence[Nomination], first: int, cluster: Cluster) -> None:
        found = [
            (first + index, row, self._wanting.code(spot.pod_class), bool(one.victims), one.moves)
            for index, one in enumerate(new)
            for spot in one.spots
            if (row := cluster.nodes.rows.get(spot.node)) is not None
        ]
        numbers, rows, codes, waits, moves = np.array(found, dtype=np.int64).reshape(-1, 5).T
        self._spot_of = np.concatenate((self._spot_of, numbers))
        self._spot_row = np.concatenate((self._spot_row, rows))
        self._spot_code = np.concatenate((self._spot_code, codes))
        self._spot_waits = np.concatenate((self._spot_waits, waits))
        self._spot_moves = np.concatenate((self._spot_moves, moves))

    def _add_victims(self, new: Sequence[Nomination], first: int, cluster: Cluster) -> None:
        pairs = [(first + index, victim) for index, one in enumerate(new) for victim in one.victims]
        self._victims.extend(victim for _, victim in pairs)
        slots, codes = self._seen([victim for _, victim in pairs], cluster)
        self._victim_of = np.concatenate((self._victim_of, np.array([one for one, _ in pairs], dtype=np.int64)))
        self._slot = np.concatenate((self._slot, slots))
        self._tenancy = np.concatenate((self._tenancy, _tenancy_of(slots, cluster)))
        self._victim_code = np.concatenate((self._victim_code, codes))

    def _look_for_moved(self, cluster: Cluster) -> None:
        """Look again where those are who are not in their slots any more, or were in none."""
        known = np.zeros(len(self._known), dtype=np.bool_)
        known[list(self._number.values())] = True
        moved = (self._slot < 0) | (_tenancy_of(self._slot, cluster) != self._tenancy)
        which = np.flatnonzero(moved & known[self._victim_of])
        if len(which):
            slots, codes = self._seen([self._victims[index] for index in which.tolist()], cluster)
            self._slot[which], self._victim_code[which] = slots, codes
            self._tenancy[which] = _tenancy_of(slots, cluster)

    def _seen(self, victims: Sequence[PodKey], cluster: Cluster) -> tuple[Column, Column]:
        """Return int64[k] twice: the slots of some victims, -1 for who is on no node, and codes of their classes."""
        records = [cluster.pods.get(victim) for victim in victims]
        slots = [-1 if one is None else one.slot for one in records]
        codes = [0 if one is None else self._leaving.code(one.pod_class) for one in records]
        return np.array(slots, dtype=np.int64), np.array(codes, dtype=np.int64)


def _tenancy_of(slots: Column, cluster: Cluster) -> Column:
    """Return int64[k]: the tenancy of some slots, -1 where there is none."""
    tenancy = cluster.pod_columns.tenancy
    return np.where(slots < 0, -1, tenancy[slots]) if len(tenancy) else np.full(len(slots), -1, dtype=np.int64)


def _by_class(classes: Sequence[PodClass], codes: Column, rows: Column) -> list[NominatedClass]:
    """Return the pods of each class, these as they come first, on distinct rows; `codes` and `rows` are int64[pods]."""
    if not len(codes):
        return []
    known, first, of = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    width = int(rows.max()) + 1
    keys, counts = np.unique(rank[of] * width + rows, return_counts=True)
    starts = np.searchsorted(keys // width, np.arange(len(known) + 1)).tolist()
    where = keys % width
    return [
        (classes[code], where[start:end], counts[start:end])
        for code, start, end in zip(known[order].tolist(), starts[:-1], starts[1:], strict=True)
    ]


def _summed(rows: Column, amounts: NDArray[np.int64]) -> NominatedRoom:
    """Return what is taken of each row by all of some pods: int64[pods] and int64[pods, resources]."""
    distinct, which = np.unique(rows, return_inverse=True)
    total = np.zeros((len(distinct), amounts.shape[1]), dtype=np.int64)
    np.add.at(total, which, amounts)
    return NominatedRoom(distinct, total)
