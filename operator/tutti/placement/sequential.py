"""Placing pods with inter-pod constraints: one after another, over kinds of nodes or over all of them.

Each placement changes what is said of many nodes: of a whole zone, for one. But it changes it for all nodes of that
zone alike. Rows that no inter-pod filter or score can tell apart, now or later, are of one kind; they differ only in
how full they are, and only the one that was chosen changes in that. So each kind keeps its rows sorted by that score,
and a step looks at one row of each kind: a handful of zones instead of thousands of nodes
(`by_kind.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.placement.by_kind import AllocationScores, ChoiceByKind, FillScorer, Points, preferred_scores
from tutti.placement.framework import (
    Counts,
    Features,
    InterPodScorer,
    Mask,
    PreFilterState,
    PreScoreState,
    Rows,
    Scores,
    is_narrowable_filter,
    is_narrowable_score,
)
from tutti.placement.node_kinds import NodeKinds
from tutti.placement.plugins.accelerator_packing import Gathering
from tutti.placement.ties import TieRule

WeightedScorers = Sequence[tuple[InterPodScorer, PreScoreState]]


@dataclass(slots=True)
class SequentialChoice:
    """One choice of nodes for pods that mind each other.

    Attributes:
        room: int64[rows], how many pods each row could take as far as these do not mind each other.
        fill: Gives scores by fill; `first`, of the first pod on each of some rows.
        points: Raw points over all rows of the preferences that tell nodes apart.
        states: The filters whose answer changes with each pod.
        weighted: The inter-pod scores, each with its state.
        rule: Which of rows that are worth the same is taken.
    """

    room: Counts
    fill: FillScorer
    first: Callable[[Rows], Scores]
    points: Points
    states: Sequence[PreFilterState]
    weighted: WeightedScorers
    rule: TieRule

    def by_kind(self, most: int) -> ChoiceByKind | None:
        """Begin a choice over kinds for no more pods than that; returns None where kinds are of no use."""
        filters = [one for one in self.states if is_narrowable_filter(one)]
        weighted = [(one, state) for one, state in self.weighted if is_narrowable_score(state)]
        if len(filters) + len(weighted) < len(self.states) + len(self.weighted):
            return None
        features: list[Features] = [column for one in filters for column in one.features()]
        features += [column for _, one in weighted for column in one.features()]
        features += [points for _, points in self.points]
        rows = np.flatnonzero(self.room)
        keys = self.rule.keys(self.first(rows), rows)
        kinds = NodeKinds.of(rows, keys, features, wanted=most, step=self.rule.step)
        if kinds is None:
            return None
        deepest = min(int(self.room.max(initial=0)), most)
        fill = AllocationScores.of(kinds.at_hand(), self.fill, most=deepest, later=kinds.at_hand)
        return ChoiceByKind.of(self.room.copy(), kinds, fill, self.points, filters, weighted)

    def alone(self) -> list[int]:
        """Place one pod; returns its row, or nothing where none is open to it."""
        rows = np.flatnonzero(feasible(self.room > 0, self.states))
        if not len(rows):
            return []
        worth = self._worth(rows)
        worth += self.first(rows)
        row = int(rows[self.rule.first(worth, rows)])
        self._add(row)
        return [row]

    def by_row(self, wanted: int, gathering: Gathering | None, ties: Rows | None = None) -> list[int]:
        """Place up to so many pods, packed by their accelerators where asked; returns the row of each in turn.

        Of rows that nothing tells apart, the first by `ties` is taken, int64[rows], where they are given.
        """
        order: list[int] = []
        placed = np.zeros(len(self.room), dtype=np.int64)
        rows = np.flatnonzero(self.room)
        most = min(int(self.room.max(initial=0)), wanted)
        levels = AllocationScores.of(rows, self.fill, most=most)
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
            row = int(rows[self.rule.first(worth, rows, placed[rows])])
            order.append(row)
            placed[row] += 1
            if placed[row] < self.room[row]:
                fill[row] = levels.of_next(row, int(placed[row]), self.fill)
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


def feasible(mask: Mask, states: Sequence[PreFilterState]) -> Mask:
    """Return bool[rows]: the mask without what the inter-pod filters rule out now."""
    for state in states:
        for rejection in state.rejections():
            mask = mask & ~rejection.rows
    return mask


def ordered(rows: Rows, ties: Rows | None) -> Rows:
    """Return rows in an order, given as the place of each; None: as they are."""
    return rows if ties is None else rows[np.argsort(ties[rows])]
