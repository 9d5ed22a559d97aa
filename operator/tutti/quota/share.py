"""Fair share: how much of what a node could borrow it does borrow, in its dominant resource.

Rule: Kueue, pkg/cache/scheduler/fair_sharing.go (0.20), per node n with parent p, over resources r:

    borrowed[r] = sum over the flavors f known below n of worth(f, r) * max(0, usage - subtree)
    lendable[r] = sum over the flavors f of the tree of worth(f, r) * potential
    ratio       = max over r of borrowed[r] / p.lendable[r], where that is more than 0; equal ratios: the first by name
    share       = 0 at a root or where the ratio is 0, infinite where the weight is 0, else 1000 * ratio / weight

worth is 1 but where a ResourceFlavor says otherwise in its resourceWeights, so that a unit of one flavor can count more
than one of another (Kueue, KEP-8902). Two infinite shares compare by their ratio. Ratios are exact fractions: equal
shares are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from tutti.quota.tree import UNLIMITED, WEIGHT_OF_ONE, FlavorResource, QuotaNode

ShareKey = tuple[bool, Fraction]
"""Whether a share is infinite, then the share (or the ratio of an infinite one): compares as shares do."""


class Ordering(StrEnum):
    """By what the queues of a cohort are compared where it is asked who is next."""

    BORROWED_SHARE = "BorrowedShare"
    DOMINANT_SHARE = "DominantShare"
    PROPORTION = "Proportion"


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one node.

    Attributes:
        ratio: Borrowed to lendable in the dominant resource, before the weight.
        weight: In milli-units.
        resource: The dominant resource; "" where nothing is borrowed that can be lent.
        borrowed: What it uses more of than its own.
    """

    ratio: Fraction
    weight: int
    resource: str = ""
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def infinite(self) -> bool:
        """Whether it borrows with a weight of 0."""
        return not self.weight and self.ratio > 0

    @property
    def key(self) -> ShareKey:
        """What to compare shares by: the greater one has more than is fair."""
        if not self.weight or not self.ratio:
            return self.infinite, self.ratio
        return False, self.ratio * WEIGHT_OF_ONE / self.weight

    def rounded(self) -> int:
        """Return the share in thousandths, rounded up, as it is shown to users; UNLIMITED for an infinite one."""
        if self.infinite:
            return UNLIMITED
        return -(-self.key[1] * 1000 // 1)

    def borrows_any(self, whats: Iterable[FlavorResource]) -> bool:
        """Whether it borrows any of these."""
        return not self.borrowed.isdisjoint(whats)


def share(node: QuotaNode, more: Mapping[FlavorResource, int] | None = None) -> Share:
    """Return the share of a node, as if it used `more` in addition."""
    nothing = Fraction(0)
    if node.parent is None:
        return Share(nothing, node.weight)
    more = more or {}
    borrowed: dict[str, int] = {}
    pairs: list[FlavorResource] = []
    for what, own in node.subtree.items():
        over = node.usage.get(what, 0) + more.get(what, 0) - own
        if over > 0:
            borrowed[what[1]] = borrowed.get(what[1], 0) + node.worth_of(what, over)
            pairs.append(what)
    if not pairs:
        return Share(nothing, node.weight)
    lendable = node.parent.lendable_worth()
    ratios = {name: Fraction(over, lendable[name]) for name, over in borrowed.items() if lendable.get(name, 0) > 0}
    if not ratios:
        return Share(nothing, node.weight, borrowed=frozenset(pairs))
    dominant = min(ratios, key=lambda name: (-ratios[name], name))
    return Share(ratios[dominant], node.weight, dominant, frozenset(pairs))


def borrowed_share(node: QuotaNode) -> ShareKey:
    """Return the share of what a node could borrow, as Kueue compares it."""
    return share(node).key


def dominant_share(node: QuotaNode) -> ShareKey:
    """Return the share of all that there is that a node uses, its own included, in its dominant resource.

    Rule: dominant resource fairness (Ghodsi et al., NSDI 2011; Volcano's plugin drf): max over r of used[r] / total[r],
    by weight, where the total is what the node and its siblings have together; units count what they
    are worth, as above.
    """
    if node.parent is None:
        return False, Fraction(0)
    used: dict[str, int] = {}
    for leaf in node.leaves():
        for what, amount in leaf.usage.items():
            used[what[1]] = used.get(what[1], 0) + leaf.worth_of(what, amount)
    total = node.parent.lendable_worth()
    ratios = (Fraction(amount, total[name]) for name, amount in used.items() if total.get(name, 0) > 0)
    ratio = max(ratios, default=Fraction(0))
    if not node.weight or not ratio:
        return bool(ratio), ratio
    return False, ratio * WEIGHT_OF_ONE / node.weight
