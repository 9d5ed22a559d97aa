"""From how far away quota comes: the level at which a request is covered.

Rule: Kueue, preemption/classical/hierarchical_preemption.go `FindHeightOfLowestSubtreeThatFits` (0.20): 0 where the
queue stays within its own; else the height of the nearest cohort whose subtree has room for what is left of the
request after what each node below keeps to itself; the height of the whole tree where none has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tutti.quota.tree import FlavorResource, QuotaNode, Usage


class Level(NamedTuple):
    """Where a request is covered.

    Attributes:
        height: 0 for the queue itself; the more, the further away.
        partial: Whether the subtree that covers it is less than the whole tree, so that others outside it may be
            using what belongs to it.
    """

    height: int
    partial: bool


def level(queue: QuotaNode, what: FlavorResource, amount: int) -> Level:
    """Return from where a queue would have `amount` more."""
    if queue.parent is None or not queue.borrows(what, amount):
        return Level(0, queue.parent is not None)
    left = amount - queue.unused(what)
    top = queue.parent
    for cohort in queue.ancestors():
        if not cohort.borrows(what, left):
            return Level(cohort.height(), cohort.parent is not None)
        left -= cohort.unused(what)
        top = cohort
    return Level(top.height(), partial=False)


def covers(node: QuotaNode, request: Mapping[FlavorResource, int]) -> tuple[bool, Usage]:
    """Return whether a subtree has all of this, and what is left to ask of its parent."""
    fits = not any(node.borrows(what, amount) for what, amount in request.items())
    return fits, {what: max(0, amount - node.unused(what)) for what, amount in request.items()}
