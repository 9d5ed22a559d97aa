"""Which of the feasible nodes: k equal pods chosen at once, exactly as k sequential decisions would choose.

Where a pod changes nothing but its own node, each node is a sequence of scores: of its 1st, 2nd, ... pod. Choosing
the best node k times takes from these sequences as a merge does, and what comes out is the k best of all (node, nth)
pairs when each pair counts no more than those before it on its node. So running minima make it one selection,
whether scores fall (LeastAllocated), rise (MostAllocated) or do either (balance).

Scores that are scaled to the best feasible node change when the last best node is full: there the choice is cut, and
goes on with what is left. Pods with inter-pod constraints go one by one (`sequential.py`). Pods that are packed by
their accelerators take node after node whole (`plugins/accelerator_packing.py`).

Of nodes that are worth the same, pods that ask for nothing take the one with the fewest pods (`ties.py`), where a pair
counts with how many are there before it; of those, and all other pods, the lowest row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.by_kind import preferred_scores
from tutti.placement.choice_ahead import choice_ahead
from tutti.placement.framework import (
    Counts,
    NodeScorer,
    PreFilterState,
    PreScoreState,
    Rows,
    Scores,
)
from tutti.placement.order_ahead import (
    before_one_is_full,
    first_scores,
    goes_by_columns,
    order_ahead,
    singles_ahead,
)
from tutti.placement.plugins.accelerator_packing import Packing
from tutti.placement.plugins.device_links import linked_first
from tutti.placement.profile import Profile
from tutti.placement.sequential import SequentialChoice, ordered
from tutti.placement.ties import TieRule, best_first, fewest_pods, the_first

_FIRST_DEPTH = 4
_FEW_PAIRS = 4096
"""To weigh so many pairs of a node and the nth pod on it at once takes no longer than to come back for some of them."""
_FEW_OTHERS = 512
"""To weigh so many nodes that are not reached a few pods deep takes no longer than to find out which these are."""
_FIRST = np.ones(1, dtype=np.int64)


@dataclass(slots=True)
class NodeChoice:
    """One choice of nodes for pods of one class.

    Attributes:
        room: int64[rows], how many more pods each node could take; it falls as pods are placed.
        preferences: Raw points over all rows of the preferences that tell nodes apart.

    Of nodes that are worth the same, `ties.py` says which is taken; for a gang whose devices are linked, the first by
    the order of `linked_first`.
    """

    nodes: NodeColumns
    transaction: Transaction
    pod_class: PodClass
    profile: Profile
    room: Counts
    preferences: list[tuple[NodeScorer, Scores]]

    def worth(self, rows: Rows) -> Scores:
        """Return int64[len(rows)]: what one more pod is worth on each row, whoever is there."""
        worth: Scores = self._fill(rows, _FIRST)[0]
        if self.preferences:
            worth += self._preferred(rows)
        return worth

    def keys(self, rows: Rows) -> Scores:
        """Return int64[len(rows)]: higher for rows that are taken before others; of equal ones the first is."""
        return self._tie_rule().keys(self.worth(rows), rows)

    def by_fill(self, wanted: int) -> Counts:
        """Place pods that do not mind each other; returns int64[rows], how many on each row. All fit, or it is one."""
        packing = None if self.profile.packing is None else self.profile.packing_of(self.pod_class)
        if packing is not None:
            return self._by_packing(wanted, packing)
        ties = self._ties(wanted)
        return self._one(ties) if wanted == 1 else self._counted(self._merged(wanted, ties))

    def in_turn(self, wanted: int) -> Rows:
        """Place pods that do not mind each other, all of which fit; returns int64[wanted], the row of each in turn."""
        return self._merged(wanted, None)

    def in_shares(self, shares: Sequence[tuple[PodClass, int]]) -> list[Counts]:
        """Place pods of classes that nothing tells apart here, those of one after those of another; all of them fit.

        Args:
            shares: The classes, and how many pods of each.

        Returns:
            Per class int64[rows], how many on each row.
        """
        rows, wanted = np.flatnonzero(self.room), [many for _, many in shares]
        order = self._merge(rows, np.zeros(len(rows), dtype=np.int64), sum(wanted), self._tie_rule())
        each = [self._counted(share) for share in np.split(order, np.cumsum(wanted)[:-1])]
        for (pod_class, _), counts in zip(shares, each, strict=True):
            taken = np.flatnonzero(counts)
            self.transaction.put(taken, counts[taken], pod_class)
            self.room -= counts
        return each

    def _merged(self, wanted: int, ties: Rows | None) -> Rows:
        if wanted and ties is None and not self.preferences and self._is_kept:
            return self._in_known_order(wanted)
        rule = self._tie_rule(ties)
        return self._by_order(wanted, lambda rows, left: self._merge(rows, self._preferred(rows), left, rule), ties)

    def _in_known_order(self, wanted: int) -> Rows:
        """Place pods where nothing but what nodes have in use tells them apart; goes on where the last ones ended."""
        ahead, scoring = order_ahead(self.nodes), self.profile.fill
        order = ahead.following(self.pod_class, scoring, self.room, wanted)
        if order is not None:
            self._take(self._counted(order))
            ahead.go_on(wanted)
            return order
        rows, has_room = self.room.nonzero()[0], self.room > 0
        more = ahead.worth_ordering(self.pod_class, self.room, wanted)
        order = self._merge(rows, np.zeros(len(rows), dtype=np.int64), more, self._tie_rule())
        lasting = before_one_is_full(order, self.room) if more > wanted else 0
        self._take(self._counted(order[:wanted]))
        ahead.keep(self.pod_class, scoring, has_room, order[wanted:lasting])
        return order[:wanted]

    def _ties(self, wanted: int) -> Rows | None:
        """Return int64[rows], the places of the rows in the order that decides between those worth the same."""
        names = self.profile.links
        return linked_first(self.nodes, self.transaction, self.pod_class, self.room, wanted=wanted, names=names)

    def _by_packing(self, wanted: int, packing: Packing) -> Counts:
        """Place pods that ask for accelerators; returns int64[rows], how many on each row. All fit, or it is one."""
        if not self.room.any():
            return np.zeros(len(self.room), dtype=np.int64)
        gathering = packing.gathering(self.pod_class, self.nodes, self.room, wanted)
        return self._counted(
            self._by_order(
                wanted,
                lambda rows, left: gathering.order(rows, self.room[rows], self._preferred(rows), left),
                self._ties(wanted),
            )
        )

    def in_sequence(
        self,
        wanted: int,
        states: Sequence[PreFilterState],
        scorers: Sequence[PreScoreState | None],
        *,
        last: bool,
    ) -> Counts:
        """Place up to so many pods one after another; returns int64[rows], how many on each row.

        Args:
            wanted: How many.
            states: The filters whose answer changes with each pod.
            scorers: The inter-pod scores.
            last: Whether neither states nor scores are asked about any more pods, so that they need not be told of
                these.
        """
        packing = self.profile.packing_of(self.pod_class)
        if packing is None:
            return self._counted(self._in_sequence(wanted, states, scorers, self._ties(wanted), last=last))
        gathering = packing.gathering(self.pod_class, self.nodes, self.room, wanted)
        ties = self._ties(wanted)
        choice = self._sequential(states, scorers, ties)
        placed = self._counted(choice.by_row(wanted, gathering, ties))
        self._take(placed)
        return placed

    def in_turn_in_sequence(
        self, wanted: int, states: Sequence[PreFilterState], scorers: Sequence[PreScoreState | None]
    ) -> Rows:
        """Place up to so many pods as if each came by itself; returns int64[m], the row of each."""
        return self._in_sequence(wanted, states, scorers, None, last=True)

    def _in_sequence(
        self,
        wanted: int,
        states: Sequence[PreFilterState],
        scorers: Sequence[PreScoreState | None],
        ties: Rows | None,
        *,
        last: bool,
    ) -> Rows:
        choice = self._sequential(states, scorers, ties)
        if ties is not None:
            return self._taken(choice.by_row(wanted, None, ties))
        if wanted == 1:
            return self._taken(choice.alone())
        if not self._is_kept:
            begun = choice.by_kind(wanted)
            return self._taken(choice.by_row(wanted, None) if begun is None else begun.place(wanted, self._fill).order)
        return self._go_on(choice, wanted) if last else self._begin(choice, wanted, last=False)

    def _go_on(self, choice: SequentialChoice, wanted: int) -> Rows:
        """Place up to so many pods one after another where the last ones of their class ended, or else anew."""
        ahead = choice_ahead(self.nodes)
        begun = ahead.following(self.pod_class, self.profile, choice, wanted)
        if begun is None:
            return self._begin(choice, wanted, last=True)
        rows = self._taken(begun.choice.place(wanted, self._fill).order)
        ahead.take_back(begun, rows, self.room)
        return rows

    def _begin(self, choice: SequentialChoice, wanted: int, *, last: bool) -> Rows:
        """Place up to so many pods one after another, and keep the choice for more of them if they are the last."""
        ahead = choice_ahead(self.nodes)
        most = ahead.worth_beginning(self.pod_class, wanted) if last else wanted
        begun = choice.by_kind(most)
        if begun is None:
            return self._taken(choice.by_row(wanted, None))
        placed = begun.place(wanted, self._fill)
        rows = self._taken(placed.order)
        if placed.following:
            first_scores(self.nodes).placed(self.pod_class, placed.following)
        if last:
            ahead.keep(self.pod_class, self.profile, choice, begun, most - len(rows))
        return rows

    def _taken(self, order: list[int]) -> Rows:
        """Take room for pods, of which this is the row of each."""
        rows = np.array(order, dtype=np.int64)
        self._take(self._counted(rows))
        return rows

    def _sequential(
        self,
        states: Sequence[PreFilterState],
        scorers: Sequence[PreScoreState | None],
        ties: Rows | None,
    ) -> SequentialChoice:
        weighted = [(one, state) for one, state in zip(self.profile.neighbours, scorers, strict=True) if state]
        rule = self._tie_rule(ties)
        return SequentialChoice(self.room, self._fill, self._first, self.preferences, states, weighted, rule)

    def _by_order(self, wanted: int, order_of: Callable[[Rows, int], Rows], ties: Rows | None) -> Rows:
        """Place pods in an order, asked for anew whenever a preference must be scaled anew; returns the row of each.

        Args:
            wanted: How many; all of them fit.
            order_of: Gives int64[k], the row of each pod, for the rows that have room, int64[m], and k; of those that
                nothing tells apart, the first it was given.
            ties: int64[rows], the places of the rows in the order in which they are given; None: as they are.
        """
        placed: list[Rows] = []
        while wanted:
            rows = ordered(np.flatnonzero(self.room), ties)
            order = order_of(rows, wanted)
            taken = order[: self._cut(order, rows)]
            self._take(self._counted(taken))
            placed.append(taken)
            wanted -= len(taken)
        return np.concatenate(placed) if placed else np.zeros(0, dtype=np.int64)

    def _counted(self, order: Rows | list[int]) -> Counts:
        """Return int64[rows]: how many pods are on each, of the row of each pod."""
        return np.bincount(order, minlength=len(self.nodes)).astype(np.int64)

    def _one(self, ties: Rows | None) -> Counts:
        """Place one pod on the best node, if there is any: what `_by_order` comes to for one."""
        placed = np.zeros(len(self.room), dtype=np.int64)
        rows = ordered(self.room.nonzero()[0], ties)
        if len(rows):
            ahead = singles_ahead(self.nodes) if self._is_kept else None
            known = None if ahead is None else ahead.worth(self.pod_class, self.profile.fill, self._fill)
            worth = self._fill(rows, _FIRST)[0] if known is None else known[rows]
            if self.preferences:
                worth += self._preferred(rows)
            best = self._tie_rule(ties).first(worth, rows)
            row = rows[best : best + 1]
            self.transaction.put(row, _FIRST, self.pod_class)
            self.room[row] -= 1
            placed[row] = 1
            if ahead is not None:
                ahead.place(int(row[0]))
        return placed

    def _take(self, counts: Counts) -> None:
        rows = np.flatnonzero(counts)
        self.transaction.put(rows, counts[rows], self.pod_class)
        self.room -= counts

    def _fill(self, rows: Rows, nth: Counts) -> Scores:
        """Return int64[m, k]: the weighted scores by how full a node would be."""
        total = np.zeros((len(nth), len(rows)), dtype=np.int64)
        profile = self.profile
        for one in profile.fill if profile.packing is None else profile.fill_of(self.pod_class):
            scores = one.scores(self.pod_class, self.nodes, rows, nth)
            if scores is not None:
                total += scores if one.weight == 1 else scores * one.weight
        return total

    def _tie_rule(self, ties: Rows | None = None) -> TieRule:
        """Return which of nodes that are worth the same is taken, where `ties` are an order of their own or None."""
        first = ties is not None or self.profile.gathers(self.pod_class)
        return the_first(self.nodes) if first else fewest_pods(self.nodes)

    @property
    def _is_kept(self) -> bool:
        """Whether what one more pod is worth by how full a node is can be kept for whoever asks next."""
        return self.profile.packing is None and goes_by_columns(self.profile.fill)

    def _first(self, rows: Rows) -> Scores:
        """Return int64[len(rows)]: the weighted scores by how full a node would be with one more pod."""
        if self._is_kept:
            kept, fill = first_scores(self.nodes), self.profile.fill
            return kept.of(self.pod_class, fill, rows, lambda some: self._fill(some, _FIRST)[0])
        first: Scores = self._fill(rows, _FIRST)[0]
        return first

    def _preferred(self, rows: Rows) -> Scores:
        """Return int64[len(rows)]: the weighted scores by nodes alone, scaled over these rows."""
        return preferred_scores(self.preferences, rows)

    def _merge(self, rows: Rows, base: Scores, wanted: int, rule: TieRule) -> Rows:
        """Return int64[wanted]: the row of each pod, in the order of sequential decisions."""
        if len(rows) > wanted + _FEW_OTHERS:  # a node outside the best ones by their first pod is never reached
            first = base + self._fill(rows, _FIRST)[0]
            best = np.sort(best_first(rule.keys(first, rows))[:wanted])
            rows, base = rows[best], base[best]
        room = np.minimum(self.room[rows], wanted)
        deepest = int(room.max())
        depth = min(deepest, max(_FIRST_DEPTH, -(-2 * wanted // len(rows)), _FEW_PAIRS // len(rows)))
        reach, keys = np.minimum(room, depth), self._keys_down(rows, base, 1, depth, rule)
        while True:
            order = _best_pairs(keys, reach, wanted)
            # A node taken as deep as was looked might have been worth more pods; look deeper there until none is.
            taken = np.bincount(order, minlength=len(rows)) >= depth
            deeper = np.flatnonzero(room > depth if len(order) < wanted else taken & (room > depth))
            if not len(deeper):
                return rows[order]
            before, depth = depth, min(deepest, 4 * depth)
            keys = np.pad(keys, ((0, depth - before), (0, 0)))
            below = self._keys_down(rows[deeper], base[deeper], before + 1, depth, rule)
            keys[before:, deeper] = np.minimum(below, keys[before - 1, deeper])
            reach[deeper] = np.minimum(room[deeper], depth)

    def _keys_down(self, rows: Rows, base: Scores, first: int, last: int, rule: TieRule) -> Scores:
        """Return int64[last - first + 1, len(rows)]: the key of the nth pod on a row, or of one before it if less."""
        nth = np.arange(first, last + 1, dtype=np.int64)
        scores = self._fill(rows, nth)
        scores += base
        keys = rule.keys(scores, rows, nth[:, None] - 1)
        np.minimum.accumulate(keys, axis=0, out=keys)
        return keys

    def _cut(self, order: Rows, rows: Rows) -> int:
        """Return how many of the ordered pods are placed before a preference must be scaled anew."""
        cut = len(order)
        for one, points in self.preferences:
            mine = points[rows]
            top = int(mine.max())
            if not one.scaled or int(mine.min()) == top:
                continue
            best = rows[mine == top]
            if int(self.room[best].sum()) > cut:
                continue
            lasting = np.cumsum((points[order] == top).astype(np.int64))
            gone = int(np.searchsorted(lasting, int(self.room[best].sum())))
            cut = min(cut, gone + 1)
        return cut


def discriminating_scores(pod_class: PodClass, nodes: NodeColumns, profile: Profile) -> list[tuple[NodeScorer, Scores]]:
    """Return the preferences that tell nodes apart, with their points; kept while the columns read are unchanged."""
    stamp = (nodes.version, nodes.images.version, len(nodes.names))
    kept = pod_class.keep(("points", profile), stamp, lambda: _discriminating(profile.preferences, pod_class, nodes))
    return kept + _discriminating(profile.changing, pod_class, nodes) if profile.changing else kept


def _discriminating(
    preferences: Sequence[NodeScorer], pod_class: PodClass, nodes: NodeColumns
) -> list[tuple[NodeScorer, Scores]]:
    features = pod_class.features | (Feature.TAINTS if len(nodes.taint_sets) > 1 else 0)
    features |= Feature.IMAGES if nodes.images.version else 0
    features &= ~(Feature.NUMA_ZONES if not nodes.numa else 0)
    found = [(one, one.points(pod_class, nodes)) for one in preferences if one.concerns & features]
    return [(one, points) for one, points in found if points is not None and points.any()]


def _best_pairs(keys: Scores, reach: Counts, wanted: int) -> Counts:
    """Return int64[wanted at most]: the columns of the best pairs of a node and the nth pod on it, the best first.

    Args:
        keys: int64[depth, nodes], of the nth pod.
        reach: int64[nodes], how many pods of each are looked at.
        wanted: How many.
    """
    depth, many = keys.shape
    if int(reach.min()) >= depth:
        values, pair_row = keys.T.ravel(), np.repeat(np.arange(many), depth)
    else:
        pair_row, pair_nth = np.nonzero(np.arange(1, depth + 1)[None, :] <= reach[:, None])
        values = keys[pair_nth, pair_row]
    return pair_row[best_first(values)[:wanted]]
