"""Asks that must be near one another: a leader and its workers, or members of one gang that are not alike.

A leader (a single pod) and its workers go by the rules of the topology (`fitting`). Other parties are tried in one
domain after another, those that fit the largest ask most tightly first, level by level as far up as they may; in each
domain the hardest ask goes first, then the others, then once more in the opposite order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.gang import Ask, hardest_first, place, prospect
from tutti.placement.profile import Profile
from tutti.placement.topology.fitting import Spots, fit
from tutti.placement.topology.near import MOST_TRIED, Nearby, trimmed, whole
from tutti.placement.topology.nearness import Home, Nearness
from tutti.placement.topology.request import Together, TopologyRequest, Wish, wish
from tutti.placement.topology.room import in_domains, in_leaves


@dataclass(frozen=True, slots=True)
class Party:
    """Asks of one party, all with the same idea of where it goes.

    Attributes:
        asks: What is required; nothing extra.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile

    def place(self) -> list[Rows] | None:
        """Take room for all; returns per ask the rows of its pods; None, and nothing taken, where they do not fit."""
        main = max(range(len(self.asks)), key=lambda index: self.asks[index].required)
        near = self.asks[main].near
        assert near is not None  # they are of one party
        lead = [index for index in range(len(self.asks)) if index != main]
        if len(lead) == 1 and self.asks[lead[0]].required == 1 and not near.there:
            found = self._led(main, lead[0], near)
            if found is not None:
                return found
        for held in self._ways(main, near):
            placed = self._in(held)
            if placed is not None:
                return placed
        return None

    def _choice(self, main: int, near: Nearness) -> Nearby:
        look = partial(prospect, self.nodes, self.transaction, self.asks[main], self.profile)
        return Nearby.of(self.nodes, near, look)

    def _led(self, main: int, lead: int, near: Nearness) -> list[Rows] | None:
        """Place a leader and its workers by the rules."""
        workers, leader = self.asks[main], self.asks[lead]
        choice = self._choice(main, near)
        asked = choice.wish(workers.required)
        head = prospect(self.nodes, self.transaction, leader, self.profile)
        if isinstance(asked, str) or not (choice.seen.is_exact and head.is_exact):
            return None
        asked = replace(asked, leaders=1)
        leads = (head.room > 0) & choice.within
        beside = self._beside(workers, leader, leads)
        cost = np.where(leads, choice.seen.room - beside, np.iinfo(np.int64).max)
        spots = self._fit(choice, asked, leads, cost)
        if spots is None:
            return None
        inside = choice.tree.leaf_of == spots.leader
        mine = int(spots.pods[spots.leaves == spots.leader].sum())
        spare = int((choice.seen.room * choice.within * inside).sum()) - mine
        return self._seat(main, lead, choice, spots, inside & leads & (cost <= max(spare, int(cost[inside].min()))))

    def _fit(self, choice: Nearby, asked: Wish, leads: Mask, cost: Counts) -> Spots | None:
        tree = choice.tree
        pods = tree.sum(choice.seen.room * choice.within)
        least = np.full(len(pods), np.iinfo(np.int64).max)
        rows = np.flatnonzero(leads)
        np.minimum.at(least, tree.leaf_of[rows], cost[rows])
        able = tree.sum(leads.astype(np.int64)) > 0
        leaves = in_leaves(pods, able, np.where(able, pods - np.where(able, least, 0), pods))
        found = fit(tree, in_domains(tree, leaves, asked), whole(asked))
        return trimmed(tree, found, asked) if isinstance(found, Spots) else None

    def _beside(self, workers: Ask, leader: Ask, leads: Mask) -> Counts:
        """Return int64[rows]: how many workers each node has room for with the leader on it."""
        mark = self.transaction.mark()
        rows = np.flatnonzero(leads)
        self.transaction.put(rows, np.ones_like(rows), leader.klass)
        room = prospect(self.nodes, self.transaction, workers, self.profile).room
        self.transaction.rollback(mark)
        return room

    def _seat(self, main: int, lead: int, choice: Nearby, spots: Spots, seats: Mask) -> list[Rows] | None:
        """Place the leader on one of its seats, then the workers where they were told to go."""
        mark = self.transaction.mark()
        head = place(self.nodes, self.transaction, replace(self.asks[lead], near=None), self.profile, within=seats)
        if head is None:
            return None
        workers = self.asks[main]
        choice.seen = prospect(self.nodes, self.transaction, workers, self.profile)
        counts = choice.put(choice.within, spots)
        if int(counts.sum()) < workers.required:
            self.transaction.rollback(mark)
            return None
        placed = [head, head]
        placed[main] = np.repeat(np.arange(len(counts)), counts)
        return placed

    def _ways(self, main: int, near: Nearness) -> Iterator[Home | None]:
        """Yield domains to try; None for no particular one."""
        asked = wish(near.asked, near.levels, self.asks[main].required)
        if isinstance(asked, str):
            return
        if near.there or asked.loose:
            yield None
            return
        choice = Nearby.of(
            self.nodes, near, lambda: prospect(self.nodes, self.transaction, self.asks[main], self.profile)
        )
        rooms = choice.rooms(choice.within, asked)
        tried = 0
        for level in range(asked.level, max(asked.limit, 0) - 1, -1):
            units = rooms[level].slices
            able = np.flatnonzero(units >= asked.slices)
            samples = choice.tree.samples_of(level)
            for domain in islice(able[np.argsort(units[able], kind="stable")].tolist(), MOST_TRIED - tried):
                yield Home(near.levels, level, int(samples[domain]))
                tried += 1
        if asked.limit < 0:
            yield None

    def _in(self, home: Home | None) -> list[Rows] | None:
        """Place all in one domain, or anywhere."""
        order = hardest_first(self.nodes, self.asks)
        for one in (order, order[::-1]):
            placed = self._in_order(one, home)
            if placed is not None:
                return placed
        return None

    def _in_order(self, order: Sequence[int], home: Home | None) -> list[Rows] | None:
        mark = self.transaction.mark()
        placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(self.asks)
        others: list[int] = []
        for index in order:
            ask = self.asks[index]
            near = ask.near
            assert near is not None  # they are of one party
            near = near.joining(others, ()) if home is None else replace(near, asked=_inside(near.asked), home=home)
            rows = place(self.nodes, self.transaction, replace(ask, near=near), self.profile)
            if rows is None:
                self.transaction.rollback(mark)
                return None
            placed[index] = rows
            others += rows.tolist()
        return placed


def _inside(asked: TopologyRequest) -> TopologyRequest:
    """Return the request of an ask whose domain has been chosen: as near as asked for, as far as that goes there."""
    loose = asked.together is Together.ANYWHERE
    return asked if loose else replace(asked, together=Together.PREFERRED, within="")


def place_parties(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile
) -> list[Rows] | int:
    """Place what is required of several asks, those of one party together, the party of the hardest ask first.

    Returns:
        Per ask the rows of its pods; or the first ask of the party that did not fit, with nothing taken.
    """
    return place_in_order(nodes, transaction, asks, parties(asks, hardest_first(nodes, asks)), profile)


def place_in_order(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    order: Sequence[Sequence[int]],
    profile: Profile,
) -> list[Rows] | int:
    """Place what is required of several asks, one party of them after another.

    Returns:
        As `place_parties`.
    """
    mark = transaction.mark()
    placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
    for members in order:
        found = _place(nodes, transaction, [asks[index] for index in members], profile)
        if found is None:
            transaction.rollback(mark)
            return members[0]
        for index, rows in zip(members, found, strict=True):
            placed[index] = rows
    return placed


def parties(asks: Sequence[Ask], order: Sequence[int]) -> list[list[int]]:
    """Return the asks that want pods, those of one party side by side, in the order of the first of each."""
    out: dict[object, list[int]] = {}
    for index in order:
        near = asks[index].near
        if asks[index].required:
            out.setdefault(near.party if near is not None and near.party else index, []).append(index)
    return list(out.values())


def _place(nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile) -> list[Rows] | None:
    if len(asks) > 1:
        return Party(nodes, transaction, asks, profile).place()
    rows = place(nodes, transaction, asks[0], profile)
    return None if rows is None else [rows]


def expecting(ask: Ask) -> Ask:
    """Return what is required of an ask, which would rather be where what is extra has room too."""
    near = None if ask.near is None else replace(ask.near, growth=ask.near.growth + ask.extra)
    return replace(ask, extra=0, near=near)


def joining(asks: Sequence[Ask], index: int, placed: Sequence[Rows]) -> Ask:
    """Return what is extra of an ask, which joins those of its party that have just been placed."""
    ask = replace(asks[index], required=0)
    if ask.near is None:
        return ask
    there: list[int] = []
    own: list[int] = []
    for at, other in enumerate(asks):
        if other.near is None or (at != index and (not ask.near.party or other.near.party != ask.near.party)):
            continue
        rows = placed[at].tolist()
        there += rows
        own += rows if other.near.group == ask.near.group else []
    return replace(ask, near=ask.near.joining(there, own))
