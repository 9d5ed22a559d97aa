"""Placing the pods of one ask near one another: the domains by the rules of the topology, the nodes in them by score.

Where the lowest level is the node, the rules choose the nodes too. What each domain has room for is what its nodes
have by all filters. For pods with inter-pod constraints that is only the most it can be; then domains are tried one
after another, the tightest first, and the pods really placed, in at most `MOST_TRIED` of them.

Replacements of lost members and late ones join those that run. Members that must be together stay in the domain of
those. Where they only should be, the nearest level with room counts, pod by pod. A slice that has lost members gets
new ones in its own domain before a new slice is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from tutti.cluster.nodes import NodeColumns
from tutti.placement.feasible_capacity import FeasibleCapacity
from tutti.placement.framework import Counts, Mask
from tutti.placement.topology.fill import DomainCapacity, domain_capacity, leaf_capacity
from tutti.placement.topology.fitting import TopologyAssignment, assign_domains
from tutti.placement.topology.request import SizedRequest, TopologyPlacement, sized_request
from tutti.placement.topology.tree import DomainTree, domain_tree

MOST_TRIED = 32
"""How many domains are tried for pods with inter-pod constraints."""


@dataclass(slots=True)
class TopologyChoice:
    """One choice of domains and nodes.

    Attributes:
        topology: What was asked for.
        tree: The topology.
        within: bool[rows], where the pods may be as far as the topology and the others of their pod set group go.
        look: Says what the class can have as things are now.
        seen: What it said last; it changes as pods are placed.
    """

    topology: TopologyPlacement
    tree: DomainTree
    within: Mask
    look: Callable[[], FeasibleCapacity]
    seen: FeasibleCapacity

    @classmethod
    def of(
        cls, nodes: NodeColumns, topology: TopologyPlacement, look: Callable[[], FeasibleCapacity]
    ) -> TopologyChoice:
        """Begin a choice."""
        tree = domain_tree(nodes, topology.levels)
        within = tree.leaf_of >= 0
        if topology.home is not None:
            around, level = domain_tree(nodes, topology.home.levels), topology.home.level
            within &= around.rows_of(around.domains_at(np.array([topology.home.row]), level), level)
        return cls(topology, tree, within, look, look())

    def place(self, where: Mask, required: int, extra: int, growth: int = 0) -> Counts:
        """Place all that is required on some rows, and as much more as there is room for near it.

        Args:
            where: bool[rows].
            required: How many must be placed.
            extra: How many more may be.
            growth: How many more should find room in the same domain later.

        Returns:
            int64[rows], how many on each; fewer than required, where these do not fit.
        """
        nothing = np.zeros_like(self.seen.room)
        asked = self.wish(required + extra + growth)
        if isinstance(asked, str):
            return nothing
        found = self._most(where, asked, max(required, 1), asked.count)
        if found is None:
            return nothing
        assigned, most = found
        wanted = min(most, required + extra)
        if most > wanted:
            where = where & self._home_of(assigned, asked)
        asked = replace(asked, count=wanted)
        return self._put(where, asked) if self.seen.is_exact else self._try(where, asked, required)

    def wish(self, count: int) -> SizedRequest | str:
        """Return what is asked for so many pods, or why it cannot be met in this topology."""
        return sized_request(self.topology.asked, self.topology.levels, count)

    def fit(self, where: Mask, asked: SizedRequest) -> TopologyAssignment | None:
        """Choose leaves among some rows; a slice that is not full takes the room of a whole one."""
        found = assign_domains(self.tree, self.rooms(where, asked), with_whole_slices(asked))
        return without_surplus(self.tree, found, asked) if isinstance(found, TopologyAssignment) else None

    def rooms(self, where: Mask, asked: SizedRequest) -> list[DomainCapacity]:
        """Return what all domains have room for on some rows, per level."""
        return domain_capacity(self.tree, leaf_capacity(self.tree.sum(self.seen.room * where)), asked)

    def _most(self, where: Mask, asked: SizedRequest, least: int, most: int) -> tuple[TopologyAssignment, int] | None:
        """Return where the largest number of pods between two goes, and that number: by bisection."""
        rooms = self.rooms(where, asked)
        best: tuple[TopologyAssignment, int] | None = None
        at, low, high = most, least, most
        while low <= high:
            found = assign_domains(self.tree, rooms, with_whole_slices(replace(asked, count=at)))
            if isinstance(found, TopologyAssignment):
                best, low = (found, at), at + 1
            else:
                high = at - 1
            at = (low + high) // 2
        return best

    def _home_of(self, assigned: TopologyAssignment, asked: SizedRequest) -> Mask:
        """Return bool[rows]: the narrowest domain, as narrow as asked for, in which all of some leaves are."""
        for level in range(asked.level, -1, -1):
            domains = np.unique(self.tree.above(assigned.leaves, self.tree.lowest, level))
            if len(domains) == 1:
                return self.tree.rows_of(domains, level)
        return np.ones_like(self.within)

    def _put(self, where: Mask, asked: SizedRequest) -> Counts:
        """Place pods by the rules: all of a leaf where it is filled, by score where there is a choice."""
        assigned = self.fit(where, asked)
        return np.zeros_like(self.seen.room) if assigned is None else self.put(where, assigned)

    def put(self, where: Mask, assigned: TopologyAssignment) -> Counts:
        """Place pods in these leaves, on some rows; returns int64[rows], how many on each."""
        room = self.seen.room * where
        wanted = np.zeros(len(self.tree.samples), dtype=np.int64)
        wanted[assigned.leaves] = assigned.pods
        full = wanted == self.tree.sum(room)
        counts = room * self.tree.places_in(full & (wanted > 0))
        single = (self.tree.sizes == 1) & ~full & (wanted > 0)
        counts[self.tree.samples[single]] = wanted[single]
        self.seen.put(counts)
        for leaf in np.flatnonzero((wanted > 0) & ~full & ~single).tolist():
            counts = counts + self.seen.take(int(wanted[leaf]), where & (self.tree.leaf_of == leaf))
        return counts

    def _try(self, where: Mask, asked: SizedRequest, required: int) -> Counts:
        """Place pods with inter-pod constraints, in the first domain in which the required ones find room."""
        transaction = self.seen.choice.transaction
        mark = transaction.mark()
        for rows in islice(self._candidates(where, asked), MOST_TRIED):
            counts = self._take_sliced(rows, asked)
            if int(counts.sum()) >= required:
                return counts
            transaction.rollback(mark)
            self.seen = self.look()
        return np.zeros_like(self.seen.room)

    def _candidates(self, where: Mask, asked: SizedRequest) -> Iterator[Mask]:
        """Yield the rows of each domain that may do, the tightest first, level by level upwards."""
        if not asked.loose:
            rooms = self.rooms(where, asked)
            for level in range(asked.level, max(asked.limit, 0) - 1, -1):
                units = rooms[level].slices
                able = np.flatnonzero(units >= with_whole_slices(asked).slices)
                for domain in able[np.argsort(units[able], kind="stable")].tolist():
                    yield where & self.tree.rows_of(np.array([domain]), level)
        if asked.limit < 0:
            yield where

    def _take_sliced(self, where: Mask, asked: SizedRequest) -> Counts:
        """Place pods on some rows, each slice in one domain of its level."""
        if asked.size == 1:
            return self.seen.take(asked.count, where)
        counts = np.zeros_like(self.seen.room)
        assigned = self.fit(where, asked)
        if assigned is None:
            return counts
        domains = self.tree.above(assigned.leaves, self.tree.lowest, asked.slice_level)
        for domain in np.unique(domains):
            rows = where & self.tree.rows_of(np.array([domain]), asked.slice_level)
            counts = counts + self.seen.take(int(assigned.pods[domains == domain].sum()), rows)
        return counts


def with_whole_slices(asked: SizedRequest) -> SizedRequest:
    """Return the wish for as many pods as fill its slices."""
    return replace(asked, count=-(-asked.count // asked.size) * asked.size)


def without_surplus(tree: DomainTree, assigned: TopologyAssignment, asked: SizedRequest) -> TopologyAssignment:
    """Leave out the pods that only filled up a slice: all in one slice."""
    surplus = int(assigned.pods.sum()) - asked.count
    if surplus <= 0:
        return assigned
    domains = tree.above(assigned.leaves, tree.lowest, asked.slice_level)
    last = np.flatnonzero(domains == domains[-1])[::-1]
    pods = assigned.pods.copy()
    less = np.clip(surplus - (np.cumsum(pods[last]) - pods[last]), 0, pods[last])
    pods[last] -= less
    return TopologyAssignment(assigned.leaves, pods, assigned.leader)


def place_by_topology(choice: TopologyChoice, required: int, extra: int) -> Counts:
    """Place all that is required, and as much more as there is room for near it, or near those that are there.

    Returns:
        int64[rows], how many on each; fewer than required, where these do not fit.
    """
    if choice.topology.there:
        return _join(choice, required, extra)
    return choice.place(choice.within, required, extra, choice.topology.growth)


def _join(choice: TopologyChoice, required: int, extra: int) -> Counts:
    """Place pods near those that are there; returns int64[rows], how many on each."""
    wanted = required + extra
    counts = np.zeros_like(choice.seen.room)
    asked = choice.wish(wanted)
    if isinstance(asked, str):
        return counts
    where = domain_to_join(choice, asked)
    if where is None:
        return counts
    if choice.topology.asked.slices:
        chain = [(choice.tree.levels.index(one.level), one.size) for one in choice.topology.asked.slices]
        own = np.array([row for row in choice.topology.own if choice.tree.leaf_of[row] >= 0], dtype=np.int64)
        counts = _fill_gaps(choice, where, own, chain, wanted)
        done = int(counts.sum())
        if done < wanted:
            counts = counts + choice.place(where, max(0, required - done), wanted - max(done, required))
        return counts
    for level in range(asked.level, -1, -1) if not asked.loose else ():
        topology = where & choice.tree.rows_of(_domains(choice, level), level)
        counts = counts + choice.seen.take(wanted - int(counts.sum()), topology)
    return counts + choice.seen.take(wanted - int(counts.sum()), where)


def domain_to_join(choice: TopologyChoice, asked: SizedRequest) -> Mask | None:
    """Return bool[rows]: where pods may join those that are there; None where these are in several domains already."""
    if asked.limit < 0:
        return choice.within
    homes = _domains(choice, asked.limit)
    if len(homes) > 1:
        return None
    return choice.within & choice.tree.rows_of(homes, asked.limit) if len(homes) else choice.within


def _domains(choice: TopologyChoice, level: int) -> Counts:
    return choice.tree.domains_at(np.array(choice.topology.there, dtype=np.int64), level)


def _fill_gaps(choice: TopologyChoice, where: Mask, own: Counts, chain: Sequence[tuple[int, int]], most: int) -> Counts:
    """Place up to so many pods where a slice of `chain`, the widest first, has lost some of its own."""
    counts = np.zeros_like(choice.seen.room)
    level, size = chain[0]
    domains, there = np.unique(
        choice.tree.above(choice.tree.leaf_of[own], choice.tree.lowest, level), return_counts=True
    )
    for domain, count in zip(domains.tolist(), there.tolist(), strict=True):
        gap = min(-count % size, most - int(counts.sum()))
        if not gap:
            continue
        inside = where & choice.tree.rows_of(np.array([domain]), level)
        if len(chain) > 1:
            inner = _fill_gaps(choice, inside, own[inside[own]], chain[1:], gap)
            counts, gap = counts + inner, gap - int(inner.sum())
        counts = counts + choice.seen.take(gap, inside)
    return counts
