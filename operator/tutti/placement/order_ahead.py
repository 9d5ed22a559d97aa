"""The order in which more pods of a class would take nodes, kept for whoever asks for the same next.

To order a few hundred pods costs little more than to order ten, and most of what comes in a rush is gangs of one class,
one behind the other. Where the same class asks again, some more of its pods are ordered than are wanted, and the next
gang gets what is left of the order. That is where it would have gone: as k decisions one after the other are one choice
(`node_choice.py`), the next k are what follows in it.

It holds as long as everything that it was worked out of is as the last one left it. That is compared, not kept track
of: what nodes offer and have in use, and which of them have any room. An order is kept up to where it takes the last
room of a node, so that how much room there is decides nothing.

Pods that mind each other go one by one (`sequential.py`). Of those only what the next one is worth on each node by how
full it is can be kept; it is asked again of the nodes that have changed since. So it is for pods that are placed one at
a time, each for another workload: of those it is known for the next few on each node.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import AllocationScorer, Counts, Mask, Rows, Scores
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation

MOST_AHEAD = 512
"""So many pods are ordered at once."""

_ALL = slice(None)


@dataclass(slots=True)
class InUse:
    """What nodes had in use when it was last looked: copies of these columns.

    Attributes:
        requested: int64[rows, resources], without what is taken for nominated pods.
        scored: int64[rows, 2].
    """

    requested: NDArray[np.int64]
    scored: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: NodeColumns) -> Self:
        """Look."""
        return cls(nodes.all_in_use().copy("F"), nodes.scored.copy("F"))

    def is_so(self, nodes: NodeColumns) -> bool:
        """Whether they have the same in use now."""
        return np.array_equal(self.scored, nodes.scored) and np.array_equal(self.requested, nodes.all_in_use())

    def changed(self, nodes: NodeColumns) -> Rows:
        """Return int64[k]: the rows that have something else in use now."""
        return np.flatnonzero(_differs(self.requested, nodes.all_in_use()) | _differs(self.scored, nodes.scored))

    def look_again(self, nodes: NodeColumns, rows: int | Sequence[int] | Rows | slice = _ALL) -> None:
        """Take in what some rows have in use now."""
        self.requested[rows], self.scored[rows] = nodes.all_in_use()[rows], nodes.scored[rows]


@dataclass(slots=True)
class _Left:
    """What is left of an order, and of what it was worked out.

    Attributes:
        scoring: By what nodes were scored.
        supply: Tells what nodes offer.
        has_room: bool[rows].
        in_use: As those who were placed have left it.
        rows: int64[m], the row of each pod that comes next.
    """

    scoring: Hashable
    supply: Hashable
    has_room: Mask
    in_use: InUse
    rows: Rows


@dataclass(slots=True)
class OrderAhead:
    """Whose pods were placed last, and what is left of their order."""

    nodes: NodeColumns
    whose: weakref.ref[PodClass] | None = None
    left: _Left | None = None

    def following(self, pod_class: PodClass, scoring: Hashable, room: Counts, wanted: int) -> Rows | None:
        """Return int64[wanted], the row of each of the next pods of a class in turn; None where that is not known.

        Args:
            pod_class: The class.
            scoring: By what nodes are scored for it, which must go by nothing but what they offer and have in use.
            room: int64[rows], how many of it each node could take.
            wanted: How many.
        """
        left = self.left
        if left is None or len(left.rows) < wanted or not self._asked_last(pod_class):
            return None
        if (left.scoring, left.supply) != (scoring, _supply(self.nodes)):
            return None
        if not np.array_equal(left.has_room, room > 0) or not left.in_use.is_so(self.nodes):
            return None
        rows = left.rows[:wanted]
        return rows if (np.bincount(rows, minlength=len(room)) <= room).all() else None

    def worth_ordering(self, pod_class: PodClass, room: Counts, wanted: int) -> int:
        """Return how many pods of a class are to be ordered where so many are wanted: more where it asks again."""
        if not self._asked_last(pod_class) or wanted >= MOST_AHEAD:
            return wanted
        return max(wanted, min(MOST_AHEAD, int(room.sum()) // 2))  # more would use up what there is on some node

    def keep(self, pod_class: PodClass, scoring: Hashable, has_room: Mask, order: Rows) -> None:
        """Keep what of an order was not wanted, once the others have been placed.

        Args:
            pod_class: Whose it is.
            scoring: As for `following`.
            has_room: bool[rows], which nodes could take any of it before.
            order: int64[m], the row of each pod that is left.
        """
        again, self.whose, self.left = self._asked_last(pod_class), weakref.ref(pod_class), None
        if again and len(order):
            self.left = _Left(scoring, _supply(self.nodes), has_room, InUse.of(self.nodes), order)

    def go_on(self, placed: int) -> None:
        """Note that the next ones of the order have been placed."""
        left = self.left
        assert left is not None  # they were in it
        left.rows = left.rows[placed:]
        left.in_use.look_again(self.nodes)

    def _asked_last(self, pod_class: PodClass) -> bool:
        return self.whose is not None and self.whose() is pod_class


@dataclass(slots=True)
class _Scored:
    """Scores of all nodes, and what they were worked out of.

    Attributes:
        scoring: By what nodes were scored.
        supply: Tells what nodes offer.
        in_use: As it was scored.
        scores: int64[rows].
    """

    scoring: Hashable
    supply: Hashable
    in_use: InUse
    scores: Scores


@dataclass(slots=True)
class FirstScores:
    """What one more pod of the class that asked last is worth on each node by how full that is."""

    nodes: NodeColumns
    whose: weakref.ref[PodClass] | None = None
    kept: _Scored | None = None

    def of(self, pod_class: PodClass, scoring: Hashable, rows: Rows, ask: Callable[[Rows], Scores]) -> Scores:
        """Return int64[len(rows)]: what one more pod of a class is worth on some rows.

        Args:
            pod_class: The class.
            scoring: By what nodes are scored for it, which must go by nothing but what they offer and have in use.
            rows: Which rows.
            ask: Scores rows, int64[k], as they are now.
        """
        if not self._asked_last(pod_class):
            self.whose, self.kept = weakref.ref(pod_class), None
            return ask(rows)
        nodes, supply, kept = self.nodes, _supply(self.nodes), self.kept
        if kept is None or (kept.scoring, kept.supply) != (scoring, supply):
            kept = self.kept = _Scored(scoring, supply, InUse.of(nodes), ask(np.arange(len(nodes))))
        stale = kept.in_use.changed(nodes)
        if len(stale):
            kept.scores[stale] = ask(stale)
            kept.in_use.look_again(nodes, stale)
        return kept.scores[rows]

    def placed(self, pod_class: PodClass, following: Mapping[int, int]) -> None:
        """Take in what one more pod is worth now on rows where pods of a class were placed by these scores."""
        if self.kept is None or not self._asked_last(pod_class):
            return
        rows = list(following)
        self.kept.scores[rows] = list(following.values())
        self.kept.in_use.look_again(self.nodes, rows)

    def _asked_last(self, pod_class: PodClass) -> bool:
        return self.whose is not None and self.whose() is pod_class


AT_ONCE = np.arange(1, 5, dtype=np.int64)
"""Of so many pods on a node it is worked out at once what each is worth."""


@dataclass(slots=True)
class _NextFew:
    """What the next pods of a class are worth on each node, and what that was worked out of.

    Attributes:
        scoring: By what nodes were scored.
        supply: Tells what nodes offer.
        in_use: As it was scored, with those who were placed since.
        scores: int64[len(AT_ONCE), rows], of the nth pod from when a node was scored.
        placed: intp[rows], how many have been placed since.
        first: int64[rows], what one more pod is worth.
        used_up: The rows on which the one after the last that was scored is next.
    """

    scoring: Hashable
    supply: Hashable
    in_use: InUse
    scores: Scores
    placed: NDArray[np.intp]
    first: Scores
    used_up: list[int]


@dataclass(slots=True)
class SinglesAhead:
    """What the next pods of the class that asked last are worth on each node, where they are placed one at a time."""

    nodes: NodeColumns
    whose: weakref.ref[PodClass] | None = None
    kept: _NextFew | None = None

    def worth(self, pod_class: PodClass, scoring: Hashable, ask: Callable[[Rows, Counts], Scores]) -> Scores | None:
        """Return int64[rows]: what one more pod of a class is worth; None where another class asked before.

        Args:
            pod_class: The class.
            scoring: By what nodes are scored for it, which must go by nothing but what they offer and have in use.
            ask: Scores rows, int64[k], for the nth pods from now on, int64[m]: int64[m, k].
        """
        if self.whose is None or self.whose() is not pod_class:
            self.whose, self.kept = weakref.ref(pod_class), None
            return None
        nodes, supply, kept = self.nodes, _supply(self.nodes), self.kept
        if kept is None or (kept.scoring, kept.supply) != (scoring, supply):
            scores = ask(np.arange(len(nodes)), AT_ONCE)
            none = np.zeros(len(nodes), dtype=np.intp)
            kept = self.kept = _NextFew(scoring, supply, InUse.of(nodes), scores, none, scores[0].copy(), [])
            return kept.first
        if kept.used_up or not kept.in_use.is_so(nodes):
            stale = np.array(sorted({*kept.in_use.changed(nodes).tolist(), *kept.used_up}))  # as rows are scored
            kept.scores[:, stale] = scores = ask(stale, AT_ONCE)
            kept.placed[stale], kept.first[stale], kept.used_up = 0, scores[0], []
            kept.in_use.look_again(nodes, stale)
        return kept.first

    def place(self, row: int) -> None:
        """Take in that one has been placed on a row by what it was worth there."""
        kept = self.kept
        if kept is None:
            return
        kept.placed[row] += 1
        if kept.placed[row] < len(kept.scores):
            kept.first[row] = kept.scores[kept.placed[row], row]
        else:
            kept.used_up.append(row)
        kept.in_use.look_again(self.nodes, row)


def before_one_is_full(order: Rows, room: Counts) -> int:
    """Return how many pods of an order, int64[m], are placed before one takes the last room of a row, int64[rows]."""
    if (np.bincount(order, minlength=len(room))[order] < room[order]).all():
        return len(order)
    by_row = order.argsort(kind="stable")
    rows = order[by_row]
    nth = np.arange(1, len(order) + 1) - np.searchsorted(rows, rows)
    return int(by_row[nth == room[rows]].min())


def _differs(one: NDArray[np.int64], other: NDArray[np.int64]) -> Mask:
    """Return bool[rows]: which rows of two columns, int64[rows, k], are not the same."""
    out: Mask = one[:, 0] != other[:, 0]
    for column in range(1, one.shape[1]):
        out |= one[:, column] != other[:, column]
    return out


def _supply(nodes: NodeColumns) -> Hashable:
    return nodes.capacity_version, nodes.allocatable.shape


def goes_by_columns(scoring: Iterable[AllocationScorer]) -> bool:
    """Whether nothing but what nodes offer and have in use decides such scores."""
    return all(isinstance(one, AllocationScore | BalancedAllocation) for one in scoring)


def first_scores(nodes: NodeColumns) -> FirstScores:
    """Return what was scored last over these columns."""
    return nodes.keep("first scores", None, lambda: FirstScores(nodes))


def singles_ahead(nodes: NodeColumns) -> SinglesAhead:
    """Return what is known of the next single pods over these columns."""
    return nodes.keep("singles ahead", None, lambda: SinglesAhead(nodes))


def order_ahead(nodes: NodeColumns) -> OrderAhead:
    """Return what is left of the last order over these columns."""
    return nodes.keep("order ahead", None, lambda: OrderAhead(nodes))
