"""Looking for domains for all parties of a gang where placing one party after another has failed.

Each party takes the domain that suits it best, which may be the one that another had to have; and of a gang of which
some must be near one another the others take room wherever they like. Two ways:

    orders    the parties in every order, if they are few
    domains   each party that must stay in one domain is held to one after another; with that settled, nearness is gone
              from the question, and arrangements are looked for as for any other gang (`arranging`)

Parties that would only like to be near one another are not held to anything by the second way. It goes as far as the
search for an arrangement does: all ways together try about as many placements as one of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, product

import msgspec
import numpy as np

from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.arranging import Search, most_steps
from tutti.placement.framework import Rows
from tutti.placement.gang import Ask, hardest_first, place
from tutti.placement.profile import Profile
from tutti.placement.roominess import room_alone
from tutti.placement.topology.parties import parties, place_in_order
from tutti.placement.topology.request import wish
from tutti.placement.topology.tree import Tree, tree_of

Labels = tuple[tuple[str, str], ...]
"""The labels that the nodes of a domain have in common; none for all nodes."""

_ALL_ORDERS_OF = 4
_STEPS_OF_A_WAY = 8


@dataclass(frozen=True, slots=True)
class DomainSearch:
    """One search for one gang; everything it takes is given back unless it finds something.

    Attributes:
        asks: What is required; nothing extra.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile

    def run(self) -> list[Rows] | None:
        """Return per ask the rows of its pods; None where no arrangement is found."""
        order = hardest_first(self.nodes, self.asks)
        groups = parties(self.asks, order)
        if len(self.asks) == 1 or any(ask.klass.refusal for ask in self.asks):
            return None
        return self._by_order(groups) or self._by_domain(groups, order)

    def _by_order(self, groups: list[list[int]]) -> list[Rows] | None:
        if len(groups) > _ALL_ORDERS_OF:
            return None
        for one in islice(permutations(groups), 1, None):
            placed = place_in_order(self.nodes, self.transaction, self.asks, one, self.profile)
            if not isinstance(placed, int):
                return placed
        return None

    def _by_domain(self, groups: list[list[int]], order: Sequence[int]) -> list[Rows] | None:
        if not all(map(_is_plain, self.asks)):
            return None
        self.transaction.show()
        steps = most_steps(self.nodes)
        most = max(1, steps // _STEPS_OF_A_WAY)
        ways = list(islice(product(*(list(islice(self._domains(group), most)) for group in groups)), most))
        for chosen in ways:
            held = list(self.asks)
            for group, labels in zip(groups, chosen, strict=True):
                for index in group:
                    held[index] = _held(self.asks[index], labels)
            found = self._arranged(held, [index for index in order if held[index].required], steps // len(ways))
            if found is not None:
                return found
        return None

    def _arranged(self, asks: Sequence[Ask], order: Sequence[int], steps: int) -> list[Rows] | None:
        mark = self.transaction.mark()
        placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
        failed = None
        for index in order:
            rows = place(self.nodes, self.transaction, asks[index], self.profile)
            if rows is None:
                failed = index
                break
            placed[index] = rows
        if failed is not None:
            self.transaction.rollback(mark)
            found = Search(self.nodes, self.transaction, asks, self.profile, steps=steps).run(order, failed)
            if found is None:
                return None
            placed = found
        if not all(self._is_known(ask, rows) for ask, rows in zip(self.asks, placed, strict=True)):
            self.transaction.rollback(mark)
            return None
        return placed

    def _is_known(self, ask: Ask, rows: Rows) -> bool:
        """Whether the nodes of an ask have all labels of its topology."""
        return ask.near is None or bool((tree_of(self.nodes, ask.near.levels).leaf_of[rows] >= 0).all())

    def _domains(self, group: Sequence[int]) -> Iterator[Labels]:
        """Yield the domains that a party may be held to, the tightest first; one without labels where there is none."""
        near = next((self.asks[index].near for index in group if self.asks[index].near is not None), None)
        asked = None if near is None else wish(near.asked, near.levels, 1)
        if near is None or asked is None or isinstance(asked, str) or asked.limit < 0:
            yield ()
            return
        tree = tree_of(self.nodes, near.levels)
        samples = tree.samples_of(asked.limit)
        enough, total = np.ones(len(samples), dtype=np.bool_), np.zeros(len(samples), dtype=np.int64)
        for index in group:
            room = self._room(index, tree, asked.limit, len(samples))
            enough &= room >= self.asks[index].required
            total += room
        for domain in np.argsort(total, kind="stable").tolist():
            if enough[domain]:
                yield self._labels(int(samples[domain]), near.levels[: asked.limit + 1])

    def _room(self, index: int, tree: Tree, level: int, count: int) -> Rows:
        """Return int64[domains of a level]: how many pods of an ask each has room for, whoever else is there."""
        room = room_alone(self.nodes, self.asks[index], [ask.klass for ask in self.asks], self.profile)
        known = np.flatnonzero(tree.leaf_of >= 0)
        domains = tree.above(tree.leaf_of[known], tree.lowest, level)
        return np.bincount(domains, room[known], count).astype(np.int64)

    def _labels(self, row: int, levels: Sequence[str]) -> Labels:
        columns = [self.nodes.label(level) for level in levels]
        return tuple((level, one.values[one.codes[row]]) for level, one in zip(levels, columns, strict=True))


def _is_plain(ask: Ask) -> bool:
    """Whether nearness means no more than one domain, for pods that are the first."""
    near = ask.near
    return near is None or not (near.there or near.own or near.home is not None or near.asked.slices)


def _held(ask: Ask, labels: Labels) -> Ask:
    """Return an ask that is held to the nodes with some labels, and minds nearness no more."""
    where = msgspec.structs.replace(ask.where, node_labels=(*ask.where.node_labels, *labels)) if labels else ask.where
    return replace(ask, near=None, where=where)
