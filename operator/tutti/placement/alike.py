"""Rows that stay alike while the pods of a class are placed, taken together as kinds.

Pods that mind each other's company are placed one after another, and each placement changes what is said of many nodes:
of a whole zone, for one. But it changes it for all nodes of that zone alike. Rows that no filter or score by company
can tell apart, now or later, are of one kind; they differ only in how full they are, and only the one that was chosen
changes in that. So each kind keeps its rows sorted by that score, and a step looks at one row of each kind: a handful
of zones instead of thousands of nodes.

A kind is split where a pod changes what is said of its own row alone: rows with one more pod become a kind of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tutti.placement.framework import Counts, Features, Rows, Scores


@dataclass(slots=True)
class Kinds:
    """The rows where pods of a class may go, by kind.

    Attributes:
        first: int64[kinds], the row that stands for each kind.
        sizes: int64[kinds], how many rows of each still have room.
        top: int64[kinds], the best score by fill of each.
        row: int64[kinds], the lowest row that has it.
    """

    first: Rows
    sizes: Counts
    top: Scores
    row: Rows
    _heaps: list[list[tuple[int, int]]]
    _origin: list[tuple[int, int]]
    _branches: dict[tuple[int, int], int]

    @classmethod
    def of(cls, rows: Rows, fill: Scores, features: Sequence[Features]) -> Kinds:
        """Sort rows into kinds.

        Args:
            rows: int64[k], in order.
            fill: int64[k], their scores by how full they are.
            features: int64[rows] each, at least 0; rows that are equal in all of them are of one kind.
        """
        code = np.zeros(len(rows), dtype=np.int64)
        for column in features:
            mine = column[rows]
            size = int(mine.max(initial=0)) + 1
            if size > 1:
                _, code = np.unique(code * size + mine, return_inverse=True)
        _, at, kind, sizes = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        order = np.lexsort((-fill, kind))
        pairs = list(zip((-fill[order]).tolist(), rows[order].tolist(), strict=True))
        ends = np.cumsum(sizes).tolist()
        heaps = [pairs[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
        tops = np.array([heap[0] for heap in heaps], dtype=np.int64).reshape(-1, 2)
        origin = [(kind, 0) for kind in range(len(heaps))]
        branches = {one: kind for kind, one in enumerate(origin)}
        return cls(rows[at], sizes, -tops[:, 0], tops[:, 1], heaps, origin, branches)

    def __len__(self) -> int:
        return len(self._heaps)

    def best(self, kinds: Rows, worth: Scores) -> int:
        """Return which of some kinds has the row that is worth most; the lowest row of several."""
        first = worth.argmax()
        tied = worth == worth[first]
        if np.count_nonzero(tied) == 1:
            return int(kinds[first])
        same = kinds[tied]
        return int(same[self.row[same].argmin()])

    def take(self, kind: int) -> int:
        """Take out the best row of a kind, for as long as it changes."""
        _, row = heappop(self._heaps[kind])
        self.sizes[kind] -= 1
        self._renew(kind)
        return row

    def put(self, kind: int, row: int, fill: int) -> None:
        """Put a row into a kind, with its score by fill."""
        heappush(self._heaps[kind], (-fill, row))
        self.sizes[kind] += 1
        self._renew(kind)

    def branch(self, kind: int) -> tuple[int, bool]:
        """Return the kind of rows like those of a kind with one pod more on them, and whether it is new."""
        origin, more = self._origin[kind]
        known = self._branches.get((origin, more + 1))
        if known is not None:
            return known, False
        new = len(self)
        self._branches[origin, more + 1] = new
        self._origin.append((origin, more + 1))
        self._heaps.append([])
        self.first = np.append(self.first, self.first[kind])
        self.sizes = np.append(self.sizes, 0)
        self.top, self.row = np.append(self.top, 0), np.append(self.row, 0)
        return new, True

    def _renew(self, kind: int) -> None:
        heap = self._heaps[kind]
        if heap:
            fill, self.row[kind] = heap[0]
            self.top[kind] = -fill
