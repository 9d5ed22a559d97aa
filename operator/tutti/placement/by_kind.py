"""One choice over kinds of nodes: a step looks at one row of each kind, and more pods go on where the last ended.

A kind is split where a pod changes what is said of its own row alone: rows with one more pod become a kind of their
own (`NodeKinds.branch`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

import numpy as np

from tutti.placement.framework import (
    Counts,
    InterPodScorer,
    Mask,
    NarrowableFilterState,
    NarrowableScoreState,
    NodeScorer,
    PreFilterState,
    PreScoreState,
    Rows,
    Scores,
    scaled,
)
from tutti.placement.node_kinds import NodeKinds

Points = Sequence[tuple[NodeScorer, Scores]]
FillScorer = Callable[[Rows, Counts], Scores]
"""Gives scores by fill, int64[m, k], for rows int64[k] and int64[m], which more pod there."""

_State = NarrowableFilterState | NarrowableScoreState
_DEPTH = 4


@dataclass(slots=True)
class AllocationScores:
    """Scores by fill of the 1st, 2nd, ... pod of a choice on each row.

    Attributes:
        on_columns: By row, how many pods of the choice its columns count by now.
    """

    on_columns: dict[int, int]
    _nth: Counts
    _later: Callable[[], Rows] | None
    _known: Scores
    _where: dict[int, int]
    _deeper: dict[int, tuple[int, list[int]]]

    @classmethod
    def of(cls, rows: Rows, ask: FillScorer, *, most: int, later: Callable[[], Rows] | None = None) -> AllocationScores:
        """Ask for the first few of each row at once.

        Args:
            rows: int64[k], those that are likely to be reached.
            ask: Gives the scores.
            most: The most pods that any of them could be given.
            later: Gives rows that may be reached now and were not asked for before; asked once one of them is.
        """
        nth = np.arange(1, min(_DEPTH, max(1, most)) + 1, dtype=np.int64)
        return cls({}, nth, later, ask(rows, nth), _places(rows), {})

    @property
    def first(self) -> Scores:
        """int64[k], the scores of the first pod on each row."""
        first: Scores = self._known[0]
        return first

    def of_next(self, row: int, placed: int, ask: FillScorer) -> int:
        """Return the score of the next pod on a row that has been given so many; `ask` gives those not known yet."""
        if placed < len(self._known):
            if row not in self._where and self._later is not None:
                rows, many = self._later(), self._known.shape[1]  # no pod has been placed on any of them
                self._known = np.concatenate((self._known, ask(rows, self._nth)), axis=1)
                self._where.update(_places(rows, many))
            return int(self._known[placed, self._where[row]])
        before, known = self._deeper.get(row, (0, []))
        if placed >= before + len(known):
            before = self.on_columns.get(row, 0)
            nth = np.arange(1, 2 * placed + 1 - before, dtype=np.int64)
            known = ask(np.array([row]), nth)[:, 0].tolist()
            self._deeper[row] = before, known
        return known[placed - before]


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
class ChoiceByKind:
    """Pods that are placed one after another over kinds of nodes.

    Attributes:
        room: int64[rows], how many pods each row could take before any was placed.
        kinds: The rows by kind.
        fill: Their scores by fill.
        filters, scorers: What is said of each kind.
        weights: How much each of the scorers counts.
        preferred: Raw points over the kinds of the preferences that tell nodes apart.
        placed: By row, how many pods have been placed.
    """

    room: Counts
    kinds: NodeKinds
    fill: AllocationScores
    filters: list[NarrowableFilterState]
    scorers: list[NarrowableScoreState]
    weights: list[int]
    preferred: list[tuple[NodeScorer, Scores]]
    placed: dict[int, int]
    _ranking: _Ranking
    _allowed: Mask
    _seen: Rows

    @classmethod
    def of(
        cls,
        room: Counts,
        kinds: NodeKinds,
        fill: AllocationScores,
        points: Points,
        filters: Sequence[NarrowableFilterState],
        weighted: Sequence[tuple[InterPodScorer, NarrowableScoreState]],
    ) -> ChoiceByKind:
        """Begin with states and points over all rows; the states count with those of this choice."""
        at = kinds.first
        told, said = [one.at(at) for one in filters], [one.at(at) for _, one in weighted]
        weights, preferred = [one.weight for one, _ in weighted], [(one, column[at]) for one, column in points]
        ranking = _Ranking(kinds, said, weights, preferred, lasting=not any(one.own for one in (*told, *said)))
        allowed = _allowed(told, len(kinds))
        seen = (allowed & kinds.there).nonzero()[0]
        return cls(room, kinds, fill, told, said, weights, preferred, {}, ranking, allowed, seen)

    def has_counted(
        self, filters: Sequence[PreFilterState], weighted: Sequence[tuple[InterPodScorer, PreScoreState]]
    ) -> bool:
        """Whether states of the class that are asked now, all of them, have counted what those of this choice have."""
        now: list[object] = [*filters, *(one for _, one in weighted)]
        mine = [*self.filters, *self.scorers]
        return (
            len(now) == len(mine)
            and [one.weight for one, _ in weighted] == self.weights
            and all(type(one) is type(other) and one.counts_as(other) for one, other in zip(mine, now, strict=True))
        )

    @property
    def own(self) -> bool:
        """Whether a pod changes what is said of its own row otherwise than of rows alike."""
        return not self._ranking.lasting

    def place(self, wanted: int, ask: FillScorer) -> PlacedInTurn:
        """Place up to so many pods more; `ask` gives scores by fill, by columns that count all those placed before."""
        kinds, placed, own, fill_of_next = self.kinds, self.placed, self.own, self.fill.of_next
        filters, ranking = self.filters, self._ranking
        told: list[_State] = [*filters, *self.scorers]
        allowed, settled, seen = self._allowed, all(one.settled for one in filters), self._seen
        order: list[int] = []
        following: dict[int, int] = {}
        self.fill.on_columns = dict(placed)
        while len(order) < wanted and len(seen):
            kind = ranking.best(seen)
            row = kinds.row(kind)
            order.append(row)
            there = placed[row] = placed.get(row, 0) + 1
            now, new = kinds.branch(kind) if own else (kind, False)
            if new:
                ranking = self._split(kind)
                filters, told = self.filters, [*self.filters, *self.scorers]
            _add_pod(now, told, around=own and not new)
            fill = fill_of_next(row, there, ask) if there < self.room[row] else None
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
        self._allowed, self._seen = allowed, seen
        return PlacedInTurn(order, following)

    def _split(self, kind: int) -> _Ranking:
        """Have the kind that came last said and worth what another is; returns the ranking with it."""
        again = np.append(np.arange(len(self.kinds) - 1), kind)
        self.filters = [one.at(again) for one in self.filters]
        self.scorers = [one.at(again) for one in self.scorers]
        self.preferred = [(one, points[again]) for one, points in self.preferred]
        self._ranking = _Ranking(self.kinds, self.scorers, self.weights, self.preferred, lasting=False)
        return self._ranking


def preferred_scores(points: Points, rows: Rows) -> Scores:
    """Return int64[len(rows)]: the weighted scores by nodes alone, scaled over these rows."""
    total = np.zeros(len(rows), dtype=np.int64)
    for one, column in points:
        mine = column[rows]
        total += (scaled(mine, reverse=one.reverse) if one.scaled else mine) * one.weight
    return total


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


def _add_pod(row: int, states: Sequence[_State], *, around: bool) -> None:
    """Tell states of one more pod, on a row or only around it."""
    for one in states:
        if around:
            one.add_around(row)
        else:
            one.add(row)
