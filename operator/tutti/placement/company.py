"""Placing pods that mind each other's company: one after another, over kinds of nodes or over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.placement.alike import Kinds
from tutti.placement.framework import (
    CompanyScorer,
    Counts,
    Features,
    Mask,
    Narrowing,
    NarrowingScore,
    Preference,
    Rows,
    Scores,
    ScoreTally,
    Tally,
    scaled,
)
from tutti.placement.plugins.accelerator_packing import Gathering

Points = Sequence[tuple[Preference, Scores]]
Weighted = Sequence[tuple[CompanyScorer, ScoreTally]]

MOST_KINDS = 1024
"""With more kinds than this a step over them costs as much as one over the nodes of a large cluster."""

_DEPTH = 4


@dataclass(slots=True)
class Levels:
    """Scores by fill of the 1st, 2nd, ... pod on each row, before any of those placed are on the columns.

    Attributes:
        ask: Gives int64[m, k] for rows int64[k] and int64[m], which pods.
    """

    ask: Callable[[Rows, Counts], Scores]
    _known: Scores
    _where: dict[int, int]
    _deeper: dict[int, list[int]]

    @classmethod
    def of(cls, rows: Rows, ask: Callable[[Rows, Counts], Scores], *, most: int) -> Levels:
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
class CompanyChoice:
    """One choice of nodes for pods that mind each other.

    Attributes:
        room: int64[rows], how many pods each row could take as far as these do not mind each other.
        fill: Gives the scores by fill.
        points: Raw points over all rows of the preferences that tell nodes apart.
        tallies: The filters that move.
        weighted: The scores by company, each with its tally.
    """

    room: Counts
    fill: Callable[[Rows, Counts], Scores]
    points: Points
    tallies: Sequence[Tally]
    weighted: Weighted

    def by_kind(self, wanted: int) -> list[int] | None:
        """Place up to so many pods; returns the row of each in turn, or None where kinds are of no use."""
        told: list[Narrowing | NarrowingScore] = []
        for tally in (*self.tallies, *(tally for _, tally in self.weighted)):
            if not isinstance(tally, Narrowing | NarrowingScore):
                return None
            told.append(tally)
        rows = np.flatnonzero(self.room)
        if not len(rows):
            return []
        levels = Levels.of(rows, self.fill, most=int(self.room.max()))
        features: list[Features] = [column for one in told for column in one.features()]
        kinds = Kinds.of(rows, levels.first, [*features, *(points for _, points in self.points)])
        if len(kinds) > MOST_KINDS:
            return None
        return self._place(wanted, kinds, levels, [one.at(kinds.first) for one in told])

    def by_row(self, wanted: int, gathering: Gathering | None) -> list[int]:
        """Place up to so many pods, packed by their accelerators where asked; returns the row of each in turn."""
        order: list[int] = []
        placed = np.zeros(len(self.room), dtype=np.int64)
        rows = np.flatnonzero(self.room)
        levels = Levels.of(rows, self.fill, most=int(self.room.max(initial=0)))
        fill = np.zeros(len(self.room), dtype=np.int64)
        fill[rows] = levels.first
        for before in range(wanted):
            rows = np.flatnonzero(allowed(self.room > placed, self.tallies))
            if not len(rows):
                break
            worth = preferred_scores(self.points, rows)
            for scorer, tally in self.weighted:
                scores = tally.scores(rows)
                if scores is not None:
                    worth += scores * scorer.weight
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
            for one in self.tallies:
                one.add(row)
            for _, tally in self.weighted:
                tally.add(row)
        return order

    def _place(self, wanted: int, kinds: Kinds, levels: Levels, told: list[Narrowing | NarrowingScore]) -> list[int]:
        order: list[int] = []
        placed = np.zeros(len(self.room), dtype=np.int64)
        own = any(one.own for one in told)
        preferred = [(one, points[kinds.first]) for one, points in self.points]
        filters = [one for one in told if isinstance(one, Narrowing)]
        scorers = [one for one in told if isinstance(one, NarrowingScore)]
        weights = [scorer.weight for scorer, _ in self.weighted]
        for _ in range(wanted):
            open_ = kinds.sizes > 0
            for one in filters:
                open_ &= ~one.refused()
            seen = open_.nonzero()[0]
            if not len(seen):
                break
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
            count(now, [*filters, *scorers], around=own and not new)
            if placed[row] < self.room[row]:
                kinds.put(now, row, levels.of_next(row, int(placed[row])))
        return order


def count(row: int, tallies: Sequence[Narrowing | NarrowingScore], *, around: bool) -> None:
    """Tell tallies of one more pod, on a row or only around it."""
    for one in tallies:
        if around:
            one.add_around(row)
        else:
            one.add(row)


def allowed(mask: Mask, tallies: Sequence[Tally]) -> Mask:
    """Return bool[rows]: the mask without what the company filters rule out now."""
    for tally in tallies:
        for rejection in tally.rejections():
            mask = mask & ~rejection.rows
    return mask


def preferred_scores(points: Points, rows: Rows) -> Scores:
    """Return int64[len(rows)]: the weighted scores by nodes alone, scaled over these rows."""
    total = np.zeros(len(rows), dtype=np.int64)
    for one, column in points:
        mine = column[rows]
        total += (scaled(mine, reverse=one.reverse) if one.scaled else mine) * one.weight
    return total
