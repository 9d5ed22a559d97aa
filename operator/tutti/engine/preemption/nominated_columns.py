"""What is nominated and what its victims still use, as columns that grow with the nominations of a turn.

Many preemptors of one turn are tried against the same nominations, each against one more than the one before. What was
read of those is kept, so that a try reads only what has come since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import is_

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.engine.records.reservations import Nomination, VictimOverlap

Column = NDArray[np.int64]
_NONE: Column = np.zeros(0, dtype=np.int64)


class NominatedColumns:
    """The nominations that somebody was tried against last.

    Valid for one turn: `forget` it when victims may have left, or nominations have changed otherwise than by coming and
    going. Where pods or nodes have changed since, all of them are read again.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again."""
        self._stamp = (-1, -1)
        self._known: list[Nomination] = []
        self._wanting: dict[PodClass, int] = {}
        self._leaving: dict[PodClass, int] = {}
        self._spot_row = self._spot_code = self._spot_waits = _NONE
        self._victims: dict[int, None] = {}
        self._slot = self._victim_row = self._victim_code = _NONE

    def follow(self, nominations: Sequence[Nomination], cluster: Cluster) -> None:
        """Have these nominations, in this order, and no others."""
        known = self._known
        stamp = cluster.pod_columns.version, cluster.nodes.version
        same = len(nominations) >= len(known) and all(map(is_, known, nominations))
        if stamp != self._stamp or not same:
            self.forget()
            self._stamp = stamp
        new = nominations[len(self._known) :]
        if new:
            self._known.extend(new)
            self._add_spots(new, cluster)
            self._add_victims(new, cluster)

    def rows(self) -> Iterator[tuple[PodClass, Column]]:
        """Yield the classes that are nominated, as they came first, and int64[k], the row of each of their pods."""
        for pod_class, code in self._wanting.items():
            yield pod_class, self._spot_row[self._spot_code == code]

    def overlap(self, cluster: Cluster) -> VictimOverlap | None:
        """Return what of the nominated room its victims still use; None where they are on no such node."""
        rows, where = np.unique(self._victim_row, return_inverse=True)
        if not len(rows):
            return None
        at = np.searchsorted(rows, self._spot_row).clip(max=len(rows) - 1)
        there = (rows[at] == self._spot_row) & (self._spot_waits > 0)
        if not there.any():
            return None
        wanted, used = _amounts(self._wanting, cluster), _amounts(self._leaving, cluster)
        nominated = np.zeros((len(rows), wanted.shape[1]), dtype=np.int64)
        np.add.at(nominated, at[there], wanted[self._spot_code[there]])
        return VictimOverlap(rows, nominated, self._slot, where, used[self._victim_code])

    def _add_spots(self, new: Sequence[Nomination], cluster: Cluster) -> None:
        found = [
            (row, _code(self._wanting, spot.pod_class), bool(one.victims))
            for one in new
            for spot in one.spots
            if (row := cluster.nodes.rows.get(spot.node)) is not None
        ]
        rows, codes, waits = np.array(found, dtype=np.int64).reshape(-1, 3).T
        self._spot_row = np.concatenate((self._spot_row, rows))
        self._spot_code = np.concatenate((self._spot_code, codes))
        self._spot_waits = np.concatenate((self._spot_waits, waits))

    def _add_victims(self, new: Sequence[Nomination], cluster: Cluster) -> None:
        """Add who is there still, each once however many wait for it."""
        found: list[tuple[int, int, int]] = []
        for victim in (victim for one in new for victim in one.victims):
            record = cluster.pods.get(victim)
            row = None if record is None else cluster.nodes.rows.get(record.place)
            if record is not None and row is not None and record.slot >= 0 and record.slot not in self._victims:
                self._victims[record.slot] = None
                found.append((record.slot, row, _code(self._leaving, record.pod_class)))
        slots, rows, codes = np.array(found, dtype=np.int64).reshape(-1, 3).T
        self._slot = np.concatenate((self._slot, slots))
        self._victim_row = np.concatenate((self._victim_row, rows))
        self._victim_code = np.concatenate((self._victim_code, codes))


def _code(codes: dict[PodClass, int], pod_class: PodClass) -> int:
    return codes.setdefault(pod_class, len(codes))


def _amounts(codes: Mapping[PodClass, int], cluster: Cluster) -> NDArray[np.int64]:
    """Return int64[classes, resources]: what a pod of each takes."""
    out = np.zeros((len(codes), len(cluster.nodes.resource_index)), dtype=np.int64)
    for pod_class, code in codes.items():
        vector = cluster.nodes.vector(pod_class.requests)
        out[code, : len(vector)] = vector
    return out
