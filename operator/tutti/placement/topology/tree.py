"""The domains of a topology as arrays: level by level, each in the order of its values; and how scattered free room is.

The children of a domain stand side by side, so that what is counted in them is summed up in one pass; and a domain
with a lower index has lesser values, which is what decides between equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.nodes import LabelColumn, NodeColumns
from tutti.placement.framework import Counts, Mask

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class DomainTree:
    """The domains of some places (nodes, or whatever has the labels).

    Attributes:
        levels: Label keys, the widest first.
        leaf_of: int64[places], each place's domain of the lowest level; -1 where it lacks a level.
        parents: Per level int64[domains], each domain's domain one level up; zeros for the widest.
        samples: int64[leaves], one place of each leaf.
        sizes: int64[leaves], how many places each has.
    """

    levels: tuple[str, ...]
    leaf_of: Index
    parents: tuple[Index, ...]
    samples: Index
    sizes: Counts

    @property
    def lowest(self) -> int:
        """Index of the lowest level."""
        return len(self.levels) - 1

    def starts(self, level: int) -> Index:
        """Return int64[domains of the level above]: where the children of each begin; each has some."""
        return np.flatnonzero(np.diff(self.parents[level], prepend=-1))

    def above(self, domains: Index, level: int, to: int) -> Index:
        """Return the domains of a wider level that some domains of a level are in."""
        for at in range(level, to, -1):
            domains = self.parents[at][domains]
        return domains

    def samples_of(self, level: int) -> Index:
        """Return int64[domains of a level]: one place of each."""
        _, first = np.unique(self.above(np.arange(len(self.samples)), self.lowest, level), return_index=True)
        return self.samples[first]

    def domains_at(self, places: Index, level: int) -> Index:
        """Return the domains of a level that some places are in, in order; places that lack a level are in none."""
        leaves = self.leaf_of[places]
        return np.unique(self.above(leaves[leaves >= 0], self.lowest, level))

    def rows_of(self, domains: Index, level: int) -> Mask:
        """Return bool[places]: those in some domains of a level."""
        return self.places_in(np.isin(self.above(np.arange(len(self.samples)), self.lowest, level), domains))

    def in_order(self, places: Index) -> Index:
        """Return some places, those of one domain side by side: neighbours in rank are then near one another."""
        return places[self.leaf_of[places].argsort(kind="stable")]

    def places_in(self, leaves: Mask) -> Mask:
        """Return bool[places]: those in some leaves."""
        return np.append(leaves, False)[self.leaf_of]

    def sum(self, amounts: Counts) -> Counts:
        """Return int64[leaves]: the sums of amounts int64[places] over the places of each leaf."""
        known = self.leaf_of >= 0
        out = np.zeros(len(self.samples), dtype=np.int64)
        np.add.at(out, self.leaf_of[known], amounts[known])
        return out


def domain_tree(nodes: NodeColumns, levels: Sequence[str]) -> DomainTree:
    """Return the tree of all nodes by these labels; kept while no node's label of them changes."""
    columns = [nodes.label(level) for level in levels]
    key, stamp = ("topology", *levels), (len(nodes), *(column.version for column in columns))
    return nodes.keep(key, stamp, lambda: grow_tree(levels, [_ranks(column, len(nodes)) for column in columns]))


def grow_tree(levels: Sequence[str], ranks: Sequence[Index]) -> DomainTree:
    """Build a tree.

    Args:
        levels: Label keys, the widest first.
        ranks: Per level int64[places], the rank of each place's value among the values of that label, -1 for none.
    """
    known = np.logical_and.reduce([rank >= 0 for rank in ranks])
    places = np.flatnonzero(known)
    at = np.zeros(len(places), dtype=np.int64)
    parents: list[Index] = []
    samples = places[:0]
    for rank in ranks:
        width = int(rank.max(initial=0)) + 1
        paths, first, at_next = np.unique(at * width + rank[places], return_index=True, return_inverse=True)
        parents.append(paths // width)
        at, samples = at_next.astype(np.int64), places[first]
    leaf_of = np.full(len(known), -1, dtype=np.int64)
    leaf_of[places] = at
    return DomainTree(tuple(levels), leaf_of, tuple(parents), samples, np.bincount(at, minlength=len(samples)))


def _ranks(column: LabelColumn, rows: int) -> Index:
    """Return int64[rows]: the codes of a label, renumbered in the order of the values."""
    order = sorted(range(len(column.values)), key=column.values.__getitem__)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[column.codes[:rows]]


WHOLE = 0.9


class Fragmentation(NamedTuple):
    """What is free in the domains of one level, per resource column.

    Attributes:
        scattered: float64[resources], the part of what is free that lies in domains which are not whole; 0 to 1.
        largest: int64[resources], the most that is free in any one domain, in scheduling units.
    """

    scattered: NDArray[np.float64]
    largest: NDArray[np.int64]


def of_domains(free: NDArray[np.int64], offered: NDArray[np.int64]) -> Fragmentation:
    """Return it for any domains, such as single nodes: of int64[domains, resources] twice, what is free and offered."""
    total = free.sum(axis=0)
    in_whole = np.where(free >= WHOLE * offered, free, 0).sum(axis=0)
    scattered = np.divide(total - in_whole, total, out=np.zeros(total.shape), where=total > 0)
    return Fragmentation(scattered, free.max(axis=0, initial=0))


def of_levels(
    nodes: NodeColumns, levels: tuple[str, ...], free: NDArray[np.int64], offered: NDArray[np.int64]
) -> list[Fragmentation]:
    """Return it for each level of a topology, the widest first; nodes that lack a label of it are in no domain.

    Args:
        nodes: All nodes.
        levels: The labels of the topology.
        free: int64[rows, resources], what is free on each node, in scheduling units.
        offered: int64[rows, resources], what each offers.
    """
    tree = domain_tree(nodes, levels)
    known = np.flatnonzero(tree.leaf_of >= 0)
    found: list[Fragmentation] = []
    for level in range(len(levels)):
        domains = tree.above(tree.leaf_of[known], tree.lowest, level)
        found.append(of_domains(_sum(free[known], domains), _sum(offered[known], domains)))
    return found


def _sum(amounts: NDArray[np.int64], domains: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[domains, resources]: sums of int64[places, resources] by the domain of each place."""
    out = np.zeros((int(domains.max(initial=-1)) + 1, amounts.shape[1]), dtype=np.int64)
    np.add.at(out, domains, amounts)
    return out
