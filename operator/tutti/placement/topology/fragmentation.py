"""How far what is free lies scattered: by resource, and by level of a topology.

A large gang needs whole nodes or racks. A domain counts as whole where nine tenths of it are free, so that what the
daemons of every node take does not make every node a part of one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.nodes import NodeColumns
from tutti.placement.topology.tree import tree_of

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
    tree = tree_of(nodes, levels)
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
