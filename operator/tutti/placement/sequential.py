"""Placing pods with inter-pod constraints: one after another, over kinds of nodes or over all of them.

Each placement changes what is said of many nodes: of a whole zone, for one. But it changes it for all nodes of that
zone alike. Rows that no inter-pod filter or score can tell apart, now or later, are of one kind; they differ only in
how full they are, and only the one that was chosen changes in that. So each kind keeps its rows sorted by that score,
and a step looks at one row of each kind: a handful of zones instead of thousands of nodes. A kind is split where a
pod changes what is said of its own row alone: rows with one more pod become a kind of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

import numpy as np

from tutti.placement.framework import (
    Counts,
    Features,
    InterPodScorer,
    Mask,
    NarrowableFilterState,
    NarrowableScoreState,
    NodeScorer,
    PreFilterState,
    PreScoreState,
    Rows,
    Scores,
    is_narrowable_filter,
    is_narrowable_score,
    scaled,
)
from tutti.placement.plugins.accelerator_packing import Gathering


@dataclass(slots=True)
class NodeKinds:
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
    def of(cls, rows: Rows, fill: Scores, features: Sequence[Features], *, wanted: int) -> NodeKinds | None:
        """Sort rows into kinds; None where there are more than are worth telling apart.

        Args:
            rows: int64[k], in order.
            fill: int64[k], their scores by how full they are.
            features: int64[rows] each, at least 0; rows that are equal in all of them are of one kind.
            wanted: How many rows will be taken out at most; of each kind so many of the best are kept.
        """
        at, kind, sizes = _told_apart(rows, features)
        if len(sizes) > MOST_KINDS:
            return None
        order = _by_kind_and_fill(kind, len(sizes), fill)
        ends, kept = np.cumsum(sizes).tolist(), np.minimum(sizes, wanted).tolist()
        spans = [(end - size, most) for end, size, most in zip(ends, sizes.tolist(), kept, strict=True)]
        if len(rows) > sum(kept):
            order = np.concatenate([order[begin : begin + most] for begin, most in spans])
        pairs = iter(zip((-fill[order]).tolist(), rows[order].tolist(), strict=True))
        heaps = [list(islice(pairs, most)) for most in kept]
        tops = np.array([heap[0] for heap in heaps], dtype=np.int64).reshape(-1, 2)
        origin = [(kind, 0) for kind in range(len(heaps))]
        branches = {one: kind for kind, one in enumerate(origin)}
        return cls(rows[at], sizes, -tops[:, 0], tops[:, 1], heaps, origin, branches)

    def kept(self) -> Rows:
        """Return int64[m]: the rows that may be taken out, in order."""
        return np.sort(np.array([row for heap in self._heaps for _, row in heap], dtype=np.int64))

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


def _told_apart(rows: Rows, features: Sequence[Features]) -> tuple[Rows, Counts, Counts]:
    """Return int64[kinds], where in `rows` each kind is first; int64[k], the kind of each; int64[kinds], how many."""
    code, bound = np.zeros(len(rows), dtype=np.int64), 1
    dense = _DENSE * len(rows) + MOST_KINDS
    for column in features:
        mine = column[rows]
        size = int(mine.max(initial=0)) + 1
        if size == 1:
            continue
        if bound * size > dense:
            values, code = np.unique(code, return_inverse=True)
            bound = len(values)
        code, bound = code * size + mine, bound * size
    if bound > dense:
        _, at, kind, sizes = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        return at, kind, sizes
    counts = np.bincount(code, minlength=bound)
    there = counts > 0
    kind = (np.cumsum(there) - 1)[code]
    at = np.empty(int(np.count_nonzero(there)), dtype=np.int64)
    at[kind[::-1]] = np.arange(len(rows) - 1, -1, -1)  # of several, the last that is written stays
    return at, kind, counts[there]


def _by_kind_and_fill(kind: Counts, kinds: int, fill: Scores) -> Rows:
    """Return int64[k], the order by kind, then by fill from the highest, then as they are."""
    least, most = int(fill.min(initial=0)), int(fill.max(initial=0))
    width = most - least + 1
    if kinds * width <= np.iinfo(np.uint16).max:  # small numbers are sorted by radix
        return np.argsort((kind * width + (most - fill)).astype(np.uint16), kind="stable")
    return np.lexsort((-fill, kind))


Points = Sequence[tuple[NodeScorer, Scores]]
WeightedScorers = Sequence[tuple[InterPodScorer, PreScoreState]]

MOST_KINDS = 1024
"""With more kinds than this a step over them costs as much as one over the nodes of a large cluster."""

_DEPTH = 4
_DENSE = 4
"""Features are numbered by counting where there are no more numbers than so many for each row."""
_FIRST = np.array([1], dtype=np.int64)


@dataclass(slots=True)
class AllocationScores:
    """Scores by fill of the 1st, 2nd, ... pod on each row, before any of those placed are on the columns.

    Attributes:
        ask: Gives int64[m, k] for rows int64[k] and int64[m], which pods.
    """

    ask: Callable[[Rows, Counts], Scores]
    _known: Scores
    _where: dict[int, int]
    _deeper: dict[int, list[int]]

    @classmethod
    def of(cls, rows: Rows, ask: Callable[[Rows, Counts], Scores], *, most: int) -> AllocationScores:
        """Ask for the first few of each row at once; `most` is the most pods that any of them could take."""
        nth = np.arange(1, min(_DEPTH, max(1, most)) + 1, dtype=np.int64)
        return cls(ask, ask(rows, nth), {row: at for at, row in enumerate(rows.tolist())}, {})

    @property
    def first(self) -> Scores:
        """int64[k], the scores of the first pod on each row."""
        first: Scores = self._known[0]
        return first

    def of_next(self, row: int, placed: int) -> int:
        """Return the score of the next pod on a row that has been given so many."""
        if placed < len(self._known):
            return int(self._known[placed, self._where[row]])
        known = self._deeper.get(row, [])
        if placed >= len(known):
            nth = np.arange(1, 2 * placed + 1, dtype=np.int64)
            known = self._deeper[row] = self.ask(np.array([row]), nth)[:, 0].tolist()
        return known[placed]


@dataclass(slots=True)
class SequentialChoice:
    """One choice of nodes for pods that mind each other.

    Attributes:
        room: int64[rows], how many pods each row could take as far as these do not mind each other.
        fill: Gives the scores by fill.
        points: Raw points over all rows of the preferences that tell nodes apart.
        states: The filters whose answer changes with each pod.
        weighted: The inter-pod scores, each with its state.
    """

    room: Counts
    fill: Callable[[Rows, Counts], Scores]
    points: Points
    states: Sequence[PreFilterState]
    weighted: WeightedScorers

    def by_kind(self, wanted: int) -> list[int] | None:
        """Place up to so many pods; returns the row of each in turn, or None where kinds are of no use."""
        if wanted == 1:
            return self.alone()
        filters = [one for one in self.states if is_narrowable_filter(one)]
        scorers = [one for _, one in self.weighted if is_narrowable_score(one)]
        if len(filters) + len(scorers) < len(self.states) + len(self.weighted):
            return None
        rows = np.flatnonzero(self.room)
        if not len(rows):
            return []
        told = [*filters, *scorers]
        features: list[Features] = [column for one in told for column in one.features()]
        features += [points for _, points in self.points]
        kinds = NodeKinds.of(rows, self.fill(rows, _FIRST)[0], features, wanted=wanted)
        if kinds is None:
            return None
        levels = AllocationScores.of(kinds.kept(), self.fill, most=int(self.room.max()))
        at = kinds.first
        return self._place(wanted, kinds, levels, [one.at(at) for one in filters], [one.at(at) for one in scorers])

    def alone(self) -> list[int]:
        """Place one pod; returns its row, or nothing where none is open to it."""
        rows = np.flatnonzero(feasible(self.room > 0, self.states))
        if not len(rows):
            return []
        row = int(rows[int((self._worth(rows) + self.fill(rows, _FIRST)[0]).argmax())])
        self._add(row)
        return [row]

    def by_row(self, wanted: int, gathering: Gathering | None, ties: Rows | None = None) -> list[int]:
        """Place up to so many pods, packed by their accelerators where asked; returns the row of each in turn.

        Of rows that are worth the same, the first by `ties` is taken, int64[rows], or else the first.
        """
        order: list[int] = []
        placed = np.zeros(len(self.room), dtype=np.int64)
        rows = np.flatnonzero(self.room)
        levels = AllocationScores.of(rows, self.fill, most=int(self.room.max(initial=0)))
        fill = np.zeros(len(self.room), dtype=np.int64)
        fill[rows] = levels.first
        for before in range(wanted):
            rows = ordered(np.flatnonzero(feasible(self.room > placed, self.states)), ties)
            if not len(rows):
                break
            worth = self._worth(rows)
            if gathering is None:
                worth += fill[rows]
            else:
                there = placed[rows]
                worth = gathering.worth(rows, worth, there, np.minimum(self.room[rows] - there, wanted - before))
            row = int(rows[int(worth.argmax())])
            order.append(row)
            placed[row] += 1
            if placed[row] < self.room[row]:
                fill[row] = levels.of_next(row, int(placed[row]))
            self._add(row)
        return order

    def _worth(self, rows: Rows) -> Scores:
        """Return int64[k], what rows are worth now, however full they are."""
        worth = preferred_scores(self.points, rows)
        for scorer, state in self.weighted:
            scores = state.scores(rows)
            if scores is not None:
                worth += scores * scorer.weight
        return worth

    def _add(self, row: int) -> None:
        """Tell all of one more pod on a row."""
        for one in self.states:
            one.add(row)
        for _, state in self.weighted:
            state.add(row)

    def _place(
        self,
        wanted: int,
        kinds: NodeKinds,
        levels: AllocationScores,
        filters: list[NarrowableFilterState],
        scorers: list[NarrowableScoreState],
    ) -> list[int]:
        order: list[int] = []
        placed = np.zeros(len(self.room), dtype=np.int64)
        own = any(one.own for one in (*filters, *scorers))
        preferred = [(one, points[kinds.first]) for one, points in self.points]
        weights = [scorer.weight for scorer, _ in self.weighted]
        allowed, settled = _allowed(filters, len(kinds)), False
        for _ in range(wanted):
            seen = (allowed & (kinds.sizes > 0)).nonzero()[0]
            if not len(seen):
                break
            if len(seen) == 1:
                kind = int(seen[0])
            else:
                worth = kinds.top[seen]
                if preferred:
                    worth = worth + preferred_scores(preferred, seen)
                for scorer, weight in zip(scorers, weights, strict=True):
                    scores = scorer.scores(seen, kinds.sizes[seen])
                    if scores is not None:
                        worth = worth + scores * weight
                kind = kinds.best(seen, worth)
            row = kinds.take(kind)
            order.append(row)
            placed[row] += 1
            now, new = kinds.branch(kind) if own else (kind, False)
            if new:
                again = np.append(np.arange(len(kinds) - 1), kind)
                filters = [one.at(again) for one in filters]
                scorers = [one.at(again) for one in scorers]
                preferred = [(one, points[again]) for one, points in preferred]
            add_pod(now, [*filters, *scorers], around=own and not new)
            if new or not settled:
                allowed = _allowed(filters, len(kinds))
                settled = len(seen) == 1 and all(one.settled for one in filters)
            if placed[row] < self.room[row]:
                kinds.put(now, row, levels.of_next(row, int(placed[row])))
        return order


def _allowed(filters: Sequence[NarrowableFilterState], count: int) -> Mask:
    """Return bool[count]: which kinds no filter refuses now."""
    if not filters:
        return np.ones(count, dtype=np.bool_)
    allowed = ~filters[0].refused()
    for one in filters[1:]:
        allowed &= ~one.refused()
    return allowed


def add_pod(row: int, states: Sequence[NarrowableFilterState | NarrowableScoreState], *, around: bool) -> None:
    """Tell states of one more pod, on a row or only around it."""
    for one in states:
        if around:
            one.add_around(row)
        else:
            one.add(row)


def feasible(mask: Mask, states: Sequence[PreFilterState]) -> Mask:
    """Return bool[rows]: the mask without what the inter-pod filters rule out now."""
    for state in states:
        for rejection in state.rejections():
            mask = mask & ~rejection.rows
    return mask


def ordered(rows: Rows, ties: Rows | None) -> Rows:
    """Return rows in an order, given as the place of each; None: as they are."""
    return rows if ties is None else rows[np.argsort(ties[rows])]


def preferred_scores(points: Points, rows: Rows) -> Scores:
    """Return int64[len(rows)]: the weighted scores by nodes alone, scaled over these rows."""
    total = np.zeros(len(rows), dtype=np.int64)
    for one, column in points:
        mine = column[rows]
        total += (scaled(mine, reverse=one.reverse) if one.scaled else mine) * one.weight
    return total
