"""Where more quota is used than there is: because it was lowered, or nodes that it is a part of have gone.

Nobody is taken out for that alone, and nobody is given more of it; this is only to tell whom it concerns.
"""

from __future__ import annotations

from typing import NamedTuple

from tutti.quota.tree import FlavorResource, QuotaNode


class Overuse(NamedTuple):
    """What is used of one flavor and resource, and what there is, in scheduling units.

    Attributes:
        used: What is used of the node: of a Cohort, what its queues do not keep to themselves.
        given: What it and everything below it may use before borrowing.
        borrowable: Its borrowing limit; None where it has none, or nobody to borrow from.
    """

    used: int
    given: int
    borrowable: int | None


def overused(node: QuotaNode) -> dict[FlavorResource, Overuse]:
    """Return what a node uses more of than it is given, while nothing of that is left for it to borrow either.

    A queue of a cohort that is used up concerns this as far as it borrows; one that keeps to its own does not.
    """
    found = {}
    for what, used in node.usage.items():
        given = node.subtree.get(what, 0)
        if used > given and node.available(what) < 0:
            quota = node.quotas.get(what)
            limit = None if node.parent is None or quota is None else quota.borrowing_limit
            found[what] = Overuse(used, given, limit)
    return found
