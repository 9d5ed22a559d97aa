"""The order in which more pods of a class would take nodes, kept for whoever asks for the same next.

To order a few hundred pods costs little more than to order ten, and most of what comes in a rush is gangs of one class,
one behind the other. Where the same class asks again, some more of its pods are ordered than are wanted, and the next
gang gets what is left of the order. That is where it would have gone: as k decisions one after the other are one choice
(`node_choice.py`), the next k are what follows in it.

It holds as long as everything that it was worked out of is as the last one left it. That is compared, not kept track
of: what nodes offer and have in use, and which of them have any room. An order is kept up to where it takes the last
room of a node, so that how much room there is decides nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import AllocationScorer, Counts, Mask, Rows
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation

MOST_AHEAD = 512
"""So many pods are ordered at once."""

_KEY = "order ahead"


@dataclass(slots=True)
class _Left:
    """What is left of an order, and of what it was worked out.

    Attributes:
        scoring: By what nodes were scored.
        supply: Tells what nodes offer.
        has_room: bool[rows].
        requested: int64[rows, resources], as those who were placed have left it; and so `scored`, int64[rows, 2].
        rows: int64[m], the row of each pod that comes next.
    """

    scoring: Hashable
    supply: Hashable
    has_room: Mask
    requested: NDArray[np.int64]
    scored: NDArray[np.int64]
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
        if (left.scoring, left.supply) != (scoring, self._supply) or not np.array_equal(left.has_room, room > 0):
            return None
        nodes = self.nodes
        if not (np.array_equal(left.scored, nodes.scored) and np.array_equal(left.requested, nodes.requested)):
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
            requested, scored = self.nodes.requested.copy("F"), self.nodes.scored.copy("F")
            self.left = _Left(scoring, self._supply, has_room, requested, scored, order)

    def go_on(self, placed: int) -> None:
        """Note that the next ones of the order have been placed."""
        left = self.left
        assert left is not None  # they were in it
        left.rows = left.rows[placed:]
        np.copyto(left.requested, self.nodes.requested)
        np.copyto(left.scored, self.nodes.scored)

    def _asked_last(self, pod_class: PodClass) -> bool:
        return self.whose is not None and self.whose() is pod_class

    @property
    def _supply(self) -> Hashable:
        return self.nodes.capacity_version, self.nodes.allocatable.shape


def before_one_is_full(order: Rows, room: Counts) -> int:
    """Return how many pods of an order, int64[m], are placed before one takes the last room of a row, int64[rows]."""
    if (np.bincount(order, minlength=len(room))[order] < room[order]).all():
        return len(order)
    by_row = order.argsort(kind="stable")
    rows = order[by_row]
    nth = np.arange(1, len(order) + 1) - np.searchsorted(rows, rows)
    return int(by_row[nth == room[rows]].min())


def goes_by_columns(scoring: Iterable[AllocationScorer]) -> bool:
    """Whether nothing but what nodes offer and have in use decides such scores."""
    return all(isinstance(one, AllocationScore | BalancedAllocation) for one in scoring)


def order_ahead(nodes: NodeColumns) -> OrderAhead:
    """Return what is left of the last order over these columns."""
    known = nodes.derived.get(_KEY)
    if not isinstance(known, OrderAhead):
        known = nodes.derived[_KEY] = OrderAhead(nodes)
    return known
