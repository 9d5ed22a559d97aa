"""Placing pods with inter-pod constraints: one after another, over kinds of nodes or over all of them.

Each placement changes what is said of many nodes: of a whole zone, for one. But it changes it for all nodes of that
zone alike. Rows that no inter-pod filter or score can tell apart, now or later, are of one kind; they differ only in
how full they are, and only the one that was chosen changes in that. So each kind keeps its rows sorted by that score,
and a step looks at one row of each kind: a handful of zones instead of thousands of nodes. A kind is split where a
pod changes what is said of its own row alone: rows with one more pod become a kind of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

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
from tutti.placement.node_kinds import NodeKinds
from tutti.placement.plugins.accelerator_packing import Gathering

Points = Sequence[tuple[NodeScorer, Scores]]
WeightedScorers = Sequence[tuple[InterPodScorer, PreScoreState]]

_DEPTH = 4


@dataclass(slots=True)
class AllocationScores:
    """Scores by fill of the 1st, 2nd, ... pod on each row, before any of those placed are on the columns.

    Attributes:
        ask: Gives int64[m, k] for rows int64[k] and int64[m], which pods.
    """

    ask: Callable[[Rows, Counts], Scores]
    _nth: Counts
    _later: Callable[[], Rows] | None
    _known: Scores
    _where: dict[int, int]
    _deeper: dict[int, list[int]]

    @classmethod
    def of(
        cls,
        rows: Rows,
        ask: Callable[[Rows, Counts], Scores],
        *,
        most: int,
        later: Callable[[], Rows] | None = None,
    ) -> AllocationScores:
        """Ask for the first few of each row at once.

        Args:
            rows: int64[k], those that are likely to be reached.
            ask: As above.
            most: The most pods that any of them could take.
            later: Gives rows that may be reached now and were not asked for before; asked once one of them is.
        """
        nth = np.arange(1, min(_DEPTH, max(1, most)) + 1, dtype=np.int64)
        return cls(ask, nth, later, ask(rows, nth), _places(rows), {})

    @property
    def first(self) -> Scores:
        """int64[k], the scores of the first pod on each row."""
        first: Scores = self._known[0]
        return first

    def of_next(self, row: int, placed: int) -> int:
        """Return the score of the next pod on a row that has been given so many."""
        if placed < len(self._known):
            if row not in self._where and self._later is not None:
                rows, many = self._later(), self._known.shape[1]
                self._known = np.concatenate((self._known, self.ask(rows, self._nth)), axis=1)
                self._where.update(_places(rows, many))
            return int(self._known[placed, self._where[row]])
        known = self._deeper.get(row, [])
        if placed >= len(known):
            nth = np.arange(1, 2 * placed + 1, dtype=np.int64)
            known = self._deeper[row] = self.ask(np.array([row]), nth)[:, 0].tolist()
        return known[placed]


@dataclass(slots=True)
class _Ranking:
    """What kinds are worth, kept from one pod to the next while only that of the kind chosen changes.

    Attributes:
        lasting: Whether a kind's rows stay of that kind.
    """

    kinds: NodeKinds
    scorers: Sequence[NarrowableScoreState]
    weights: Sequence[int]
    preferred: Points
    lasting: bool
    _seen: Rows | None = None
    _base: Scores | None = None
    _said: Sequence[Scores | None] = ()
    _worth: Scores = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _best: int = 0

    def best(self, seen: Rows) -> int:
        """Return which of some kinds, int64[k] in order, has the row that is worth most; the lowest of several."""
        if len(seen) == 1:
            return int(seen[0])
        said = [one.scores(seen, self.kinds.sizes) for one in self.scorers]
        if self.lasting and seen is self._seen and all(map(is_, said, self._said)):
            self._worth[self._best] = self.kinds.worth_of(int(seen[self._best]), self._more_of(self._best))
        else:
            if seen is not self._seen:
                self._seen, self._base = seen, preferred_scores(self.preferred, seen) if self.preferred else None
            self._said = said
            self._worth = self.kinds.worth(seen, self._more())
        self._best = int(self._worth.argmax())
        return int(seen[self._best])

    def _more(self) -> Scores | None:
        """Return int64[k], what the kinds are worth beside the score by fill; None where nothing is said of any."""
        more = self._base
        for scores, weight in zip(self._said, self.weights, strict=True):
            if scores is not None:
                more = scores * weight if more is None else more + scores * weight
        return more

    def _more_of(self, at: int) -> int:
        more = 0 if self._base is None else int(self._base[at])
        for scores, weight in zip(self._said, self.weights, strict=True):
            if scores is not None:
                more += int(scores[at]) * weight
        return more


class PlacedInTurn(NamedTuple):
    """Where pods were placed one after another.

    Attributes:
        order: The row of each in turn.
        following: By row, the score by fill of one more pod there, of those of which it is known and that have room.
    """

    order: list[int]
    following: dict[int, int]


@dataclass(slots=True)
class SequentialChoice:
    """One choice of nodes for pods that mind each other.

    Attributes:
        room: int64[rows], how many pods each row could take as far as these do not mind each other.
        fill: Gives the scores by fill; `first`, of the first pod on each of some rows.
        points: Raw points over all rows of the preferences that tell nodes apart.
        states: The filters whose answer changes with each pod.
        weighted: The inter-pod scores, each with its state.
    """

    room: Counts
    fill: Callable[[Rows, Counts], Scores]
    first: Callable[[Rows], Scores]
    points: Points
    states: Sequence[PreFilterState]
    weighted: WeightedScorers

    def by_kind(self, wanted: int) -> PlacedInTurn | None:
        """Place up to so many pods; returns None where kinds are of no use."""
        if wanted == 1:
            return PlacedInTurn(self.alone(), {})
        filters = [one for one in self.states if is_narrowable_filter(one)]
        scorers = [one for _, one in self.weighted if is_narrowable_score(one)]
        if len(filters) + len(scorers) < len(self.states) + len(self.weighted):
            return None
        rows = np.flatnonzero(self.room)
        if not len(rows):
            return PlacedInTurn([], {})
        told = [*filters, *scorers]
        features: list[Features] = [column for one in told for column in one.features()]
        features += [points for _, points in self.points]
        kinds = NodeKinds.of(rows, self.first(rows), features, wanted=wanted)
        if kinds is None:
            return None
        levels = AllocationScores.of(kinds.at_hand(), self.fill, most=int(self.room.max()), later=kinds.at_hand)
        at = kinds.first
        return self._place(wanted, kinds, levels, [one.at(at) for one in filters], [one.at(at) for one in scorers])

    def alone(self) -> list[int]:
        """Place one pod; returns its row, or nothing where none is open to it."""
        rows = np.flatnonzero(feasible(self.room > 0, self.states))
        if not len(rows):
            return []
        row = int(rows[int((self._worth(rows) + self.first(rows)).argmax())])
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
    ) -> PlacedInTurn:
        order: list[int] = []
        placed: dict[int, int] = {}
        following: dict[int, int] = {}
        own = any(one.own for one in (*filters, *scorers))
        preferred = [(one, points[kinds.first]) for one, points in self.points]
        weights = [scorer.weight for scorer, _ in self.weighted]
        ranking = _Ranking(kinds, scorers, weights, preferred, lasting=not own)
        allowed, settled = _allowed(filters, len(kinds)), not filters
        seen = (allowed & kinds.there).nonzero()[0]
        while len(order) < wanted and len(seen):
            kind = ranking.best(seen)
            row = kinds.row(kind)
            order.append(row)
            there = placed[row] = placed.get(row, 0) + 1
            now, new = kinds.branch(kind) if own else (kind, False)
            if new:
                again = np.append(np.arange(len(kinds) - 1), kind)
                filters = [one.at(again) for one in filters]
                scorers = [one.at(again) for one in scorers]
                preferred = [(one, points[again]) for one, points in preferred]
                ranking = _Ranking(kinds, scorers, weights, preferred, lasting=False)
            add_pod(now, [*filters, *scorers], around=own and not new)
            fill = levels.of_next(row, there) if there < self.room[row] else None
            if fill is not None:
                following[row] = fill
            else:
                following.pop(row, None)
            changed = kinds.move(kind, now, fill)
            if new or not settled:
                allowed = _allowed(filters, len(kinds))
                settled = all(one.settled for one in filters)
                changed = True
            if changed:
                seen = (allowed & kinds.there).nonzero()[0]
        return PlacedInTurn(order, following)


def _places(rows: Rows, first: int = 0) -> dict[int, int]:
    """Return where in a sequence each of some rows is, of which the first is at `first`."""
    return {row: at for at, row in enumerate(rows.tolist(), first)}


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
