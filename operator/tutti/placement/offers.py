"""What nodes offer of a resource, as scores divide by it: worked out once for as long as no node offers anything else.

What is used changes with every pod, and what is offered hardly ever; most of a score's arithmetic is about the latter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.nodes import NodeColumns


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource on all nodes.

    Attributes:
        column: Where it stands in the columns.
        amounts: int64[rows], what there is, in scheduling units; at least 1, so that one can divide by it.
        there: bool[rows], which nodes offer any.
        everywhere: Whether all of them do.
    """

    column: int
    amounts: NDArray[np.int64]
    there: NDArray[np.bool_]
    everywhere: bool


def offer_of(nodes: NodeColumns, name: str) -> Offer | None:
    """Return what nodes offer of a resource; None where no node has ever said anything of it."""
    if name not in nodes.axis:
        return None
    width = nodes.allocatable.shape[1]
    key, stamp = ("offer", name), (nodes.supply, len(nodes), width)
    kept = nodes.derived.get(key)
    if isinstance(kept, tuple) and kept[0] == stamp:
        known: Offer | None = kept[1]
        return known
    column = nodes.axis.column(name)
    found = None
    if column < width:
        offered = nodes.allocatable[:, column]
        there = offered > 0
        found = Offer(column, np.maximum(offered, 1), there, bool(there.all()))
    nodes.derived[key] = (stamp, found)
    return found
