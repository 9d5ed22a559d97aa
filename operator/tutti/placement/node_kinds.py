"""Nodes that no filter or score between pods can tell apart, kept together with the best of each kind at hand.

Rows of one kind differ only in how full they are. So each kind keeps its rows sorted by that, by the score and by which
of equal ones is taken (`ties.py`), and a step of a choice (`sequential.py`) looks at one row of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

import numpy as np

from tutti.placement.framework import Counts, Features, Mask, Rows, Scores
from tutti.placement.ties import ascending

MOST_KINDS = 1024
"""With more kinds than this a step over them costs as much as one over the nodes of a large cluster."""

_AT_LEAST = 8
"""So many rows of each kind are at hand from the beginning, so that few kinds have to be asked for more."""

_DENSE = 4
"""Features are numbered by counting where there are no more numbers than so many for each row."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """What of a kind is not in its heap yet.

    Attributes:
        last: The last row of the first few with its key, as it is in the heap: before all of the rest.
        rows: int64[k], the rest from the best on.
        keys: int64[k], theirs by how full they are.
    """

    last: tuple[int, int]
    rows: Rows
    keys: Scores


@dataclass(slots=True)
class NodeKinds:
    """The rows where pods of a class may go, by kind.

    Attributes:
        first: int64[kinds], the row that stands for each kind.
        sizes: int64[kinds], how many rows of each still have room.
        there: bool[kinds], which have any.
        step: What one point is in a key.
    """

    first: Rows
    sizes: Counts
    there: Mask
    step: int
    _by_fill: Scores
    _span: int
    _spans: Counts
    _heaps: list[list[tuple[int, int]]]
    _rest: dict[int, _Rest]
    _unasked: list[Rows]
    _origin: list[tuple[int, int]]
    _branches: dict[tuple[int, int], int]

    @classmethod
    def of(
        cls, rows: Rows, keys: Scores, features: Sequence[Features], *, wanted: int, step: int = 1
    ) -> NodeKinds | None:
        """Sort rows into kinds; None where there are more than are worth telling apart.

        Args:
            rows: int64[k], in order.
            keys: int64[k], of their scores by how full they are, as `TieRule.keys` gives them.
            features: int64[rows] each, at least 0; rows that are equal in all of them are of one kind.
            wanted: How many rows will be taken out at most; of each kind so many of the best are kept.
            step: What one point is in a key.
        """
        at, kind, sizes = _told_apart(rows, features)
        if len(sizes) > MOST_KINDS:
            return None
        order = _by_kind_and_key(kind, keys)
        kept, few = np.minimum(sizes, wanted), max(_AT_LEAST, 2 * (1 + wanted // max(1, len(sizes))))
        begins, first = (np.cumsum(sizes) - sizes).tolist(), np.where(kept > 2 * few, few, kept).tolist()
        spans = list(zip(begins, first, kept.tolist(), strict=True))
        best = order if len(order) == sum(first) else np.concatenate([order[at : at + now] for at, now, _ in spans])
        pairs = iter(zip((-keys[best]).tolist(), rows[best].tolist(), strict=True))
        heaps = [list(islice(pairs, now)) for now in first]
        beyond = {kind: order[at + now : at + most] for kind, (at, now, most) in enumerate(spans) if most > now}
        rest = {kind: _Rest(heaps[kind][-1], rows[more], keys[more]) for kind, more in beyond.items()}
        there, span = sizes > 0, int(rows.max(initial=0)) + 1
        worth = np.array([_worth_by_fill(heap, span) for heap in heaps], dtype=np.int64)
        origin = [(kind, 0) for kind in range(len(heaps))]
        branches = {one: kind for kind, one in enumerate(origin)}
        return cls(
            rows[at],
            sizes,
            there,
            step,
            worth,
            span,
            np.array(span * step),
            heaps,
            rest,
            [rows[best]],
            origin,
            branches,
        )

    def at_hand(self) -> Rows:
        """Return int64[m]: the rows that may be the best of their kind now or soon, without those returned before."""
        rows = np.sort(np.concatenate(self._unasked))
        self._unasked = []
        return rows

    def __len__(self) -> int:
        return len(self._heaps)

    def worth(self, kinds: Rows, more: Scores | None) -> Scores:
        """Return int64[k]: numbers that are higher for kinds whose best row is taken before that of others.

        Args:
            kinds: int64[k], those that have rows.
            more: int64[k], what they are worth beside the score by fill; None where all are worth the same.
        """
        worth: Scores = self._by_fill[kinds]
        if more is not None:
            worth += more * self._spans
        return worth

    def worth_of(self, kind: int, more: int) -> int:
        """Return what `worth` does, of one kind."""
        return int(self._by_fill[kind]) + more * self.step * self._span

    def row(self, kind: int) -> int:
        """Return the row of a kind that is taken first."""
        return self._heaps[kind][0][1]

    def move(self, kind: int, now: int, fill: int | None) -> bool:
        """Take the best row of a kind for one of another, or of the same, with one pod more and another score by fill.

        Args:
            kind: Which kind it is of.
            now: Which it is of from now on.
            fill: Its score; None where it has no room left.

        Returns:
            Whether any kind has its first row by that, or has lost its last.
        """
        heap = self._heaps[kind]
        if now == kind and fill is not None:
            heapreplace(heap, self._with_one_more(heap[0], fill))
            self._reach(kind, heap)
            self._by_fill[kind] = _worth_by_fill(heap, self._span)
            return False
        best = heappop(heap)
        self._reach(kind, heap)
        self.sizes[kind] -= 1
        changed = not self.sizes[kind]
        if heap:
            self._by_fill[kind] = _worth_by_fill(heap, self._span)
        if fill is not None:
            heappush(self._heaps[now], self._with_one_more(best, fill))
            self.sizes[now] += 1
            changed = changed or self.sizes[now] == 1
            self._by_fill[now] = _worth_by_fill(self._heaps[now], self._span)
        if changed:
            self.there = self.sizes > 0
        return bool(changed)

    def _with_one_more(self, entry: tuple[int, int], fill: int) -> tuple[int, int]:
        """Return what stands in a heap for a row that has one pod more than before, and another score by fill."""
        below, row = entry[0] % self.step, entry[1]  # a key is so many points less the pods that are there
        return min(below + 1, self.step - 1) - fill * self.step, row

    def _reach(self, kind: int, heap: list[tuple[int, int]]) -> None:
        """Have all rows of a kind in its heap once the last of the first few is the best."""
        rest = self._rest.get(kind)
        if rest is None or heap[0] is not rest.last:
            return
        del self._rest[kind]
        heap += zip((-rest.keys).tolist(), rest.rows.tolist(), strict=True)
        heapify(heap)
        self._unasked.append(rest.rows)

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
        self.sizes, self.there = np.append(self.sizes, 0), np.append(self.there, [False])
        self._by_fill = np.append(self._by_fill, 0)
        return new, True


def _worth_by_fill(heap: list[tuple[int, int]], span: int) -> int:
    """Return what the first row of a kind is worth by its fill: more for a higher key, and the lower of two alike.

    Keys and rows are small enough for this to fit into 64 bits (`ties.MOST_PODS`).
    """
    key, row = heap[0]
    return -key * span - row


def _told_apart(rows: Rows, features: Sequence[Features]) -> tuple[Rows, Counts, Counts]:
    """Return int64[kinds], where in `rows` each kind is first; int64[k], the kind of each; int64[kinds], how many."""
    code, bound = np.zeros(len(rows), dtype=np.int64), 1
    dense = _DENSE * len(rows) + MOST_KINDS
    for column in features:
        mine = column if len(column) == len(rows) else column[rows]
        size = int(mine.max(initial=0)) + 1
        if size == 1 or (mine.dtype == np.bool_ and mine.all()):
            continue
        if bound * size > dense:
            values, code = np.unique(code, return_inverse=True)
            bound = len(values)
        code, bound = mine.astype(np.int64) if bound == 1 else code * size + mine, bound * size
    if bound > dense:
        _, at, kind, sizes = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        return at, kind, sizes
    counts = np.bincount(code, minlength=bound)
    there = counts > 0
    kind = (np.cumsum(there) - 1)[code]
    at = np.empty(int(np.count_nonzero(there)), dtype=np.int64)
    at[kind[::-1]] = np.arange(len(rows) - 1, -1, -1)  # of several, the last that is written stays
    return at, kind, counts[there]


def _by_kind_and_key(kind: Counts, keys: Scores) -> Rows:
    """Return int64[k], the order by kind, then by key from the highest, then as they are."""
    least, most = int(keys.min(initial=0)), int(keys.max(initial=0))
    return ascending(kind * (most - least + 1) + (most - keys))
