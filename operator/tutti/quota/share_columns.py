"""What the queues of one cohort would borrow, or use, as columns: how thousands of heads rank in its tournament.

The rules are those of `fair_sharing.py`, over arrays, for a cohort without cohorts below it: how a head ranks there
depends on its own queue alone. Shares are float64 here, where `fair_sharing.py` has exact fractions; two that differ by
less than one part in 10^12 count as equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.columns import longer
from tutti.quota.fair_sharing import Key, QueueOrdering
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, QuotaNode

ORDERINGS: Final = frozenset({QueueOrdering.BORROWED_SHARE, QueueOrdering.DOMINANT_SHARE})
"""By which queues can be compared here: by what each of them has, not by what others wait for."""

_NEAR: Final = 1e-12


class Ranks(NamedTuple):
    """How requests rank, each an array[n]; the smaller goes first, what is compared first stands first.

    Attributes:
        borrows: bool: whether the queue would borrow any of what is asked for.
        is_infinite: bool: whether its share would be, by a weight of 0.
        share: float64: its share; the ratio of an infinite one.
    """

    borrows: NDArray[np.bool_]
    is_infinite: NDArray[np.bool_]
    share: NDArray[np.float64]


def is_before(borrows: bool, share: tuple[bool, float], rest: tuple[int, float, int], key: Key, child: int) -> bool:
    """Whether a request goes before a head, or may do so.

    Args:
        borrows: Whether its queue would borrow any of what it asks for.
        share: As `Ranks` tells it: whether it is infinite, and how large.
        rest: What is compared after that: less importance, since when it waits, and the place of its queue.
        key: How the head ranks (`Tournament.key`).
        child: The place of the head's queue.
    """
    if (borrows, share[0]) != (key[0], key[1][0]):
        return (borrows, share[0]) < (key[0], key[1][0])
    other = float(key[1][1])
    if abs(share[1] - other) > _NEAR * max(abs(other), abs(share[1])):
        return share[1] < other
    return rest < (key[2], key[3], child)


class ShareColumns:
    """The queues of one cohort of which anybody asks; one without a cohort has no share.

    Args:
        root: The cohort, or the queue that is in none.
        ordering: By what they are compared, one of `ORDERINGS`.
    """

    def __init__(self, root: QuotaNode, ordering: QueueOrdering) -> None:
        self._root = root
        self._counts_own = ordering is QueueOrdering.DOMINANT_SHARE
        self._resources = {name: i for i, name in enumerate(dict.fromkeys(name for _, name in root.subtree))}
        self._children = {id(child): place for place, child in enumerate(root.children)}
        self._numbers: dict[int, int] = {}
        self._nodes: list[QuotaNode] = []
        self._base = np.zeros((0, len(self._resources)))
        self._weight = np.zeros(0)
        self._stale: dict[int, None] = {}

    def queue(self, node: QuotaNode) -> int:
        """Return the number of a queue, given to it where it has none."""
        number = self._numbers.get(id(node))
        if number is None:
            number = self._numbers[id(node)] = len(self._nodes)
            self._nodes.append(node)
            self._stale[number] = None
        return number

    def place(self, node: QuotaNode) -> int:
        """Return the place of a queue among those of its cohort, by which equals are told apart."""
        return self._children.get(id(node), 0)

    def resource(self, what: FlavorResource) -> int:
        """Return the number of a resource."""
        return self._resources[what[1]]

    def has_moved(self, node: QuotaNode) -> None:
        """Note that more or less is used of a queue."""
        if id(node) in self._numbers:
            self._stale[self._numbers[id(node)]] = None

    def ranks(
        self,
        queue: NDArray[np.intp],
        request: NDArray[np.intp],
        resource: NDArray[np.intp],
        amount: NDArray[np.int64],
        worth: NDArray[np.float64],
        own_left: NDArray[np.int64],
    ) -> Ranks:
        """Return how requests would rank if each were admitted.

        Args:
            queue: intp[n], the number of the queue of each request.
            request: intp[m], of each amount: whose it is.
            resource: intp[m], the number of what it is of.
            amount: int64[m], not negative.
            worth: float64[m], what one unit counts, in thousandths.
            own_left: int64[m], how much more the queue may use of it before it borrows; negative where it does.
        """
        if self._root.leaf:
            none = np.zeros(len(queue), dtype=np.bool_)
            return Ranks(none, none, np.zeros(len(queue)))
        self._refresh()
        over = np.maximum(amount - own_left, 0)
        more = amount if self._counts_own else over - np.maximum(-own_left, 0)
        used = self._base[queue]
        np.add.at(used, (request, resource), more * worth)
        borrows = np.zeros(len(queue), dtype=np.bool_)
        borrows[request[(over > 0) & (amount > 0)]] = True
        total = _floats(self._root.lendable_worth(), self._resources)
        there = total > 0
        ratio = (used[:, there] / total[there]).max(axis=1, initial=0.0)
        weight = self._weight[queue]
        is_infinite = (weight == 0) & (ratio > 0)
        share = np.divide(ratio * WEIGHT_OF_ONE, weight, out=ratio.copy(), where=weight > 0)
        return Ranks(borrows, is_infinite, share)

    def _refresh(self) -> None:
        """Read what queues use of which more or less is used by now."""
        if len(self._nodes) > len(self._base):
            rows = 2 * len(self._nodes)
            self._base, self._weight = longer(self._base, rows), longer(self._weight, rows)
        for number in self._stale:
            node = self._nodes[number]
            self._weight[number] = node.weight
            counted = node.usage if self._counts_own else {what: node.borrowed(what) for what in node.subtree}
            sums: dict[str, int] = {}
            for what, amount in counted.items():
                sums[what[1]] = sums.get(what[1], 0) + node.worth_of(what, amount)
            self._base[number] = _floats(sums, self._resources)
        self._stale = {}


def _floats(amounts: Mapping[str, int], resources: Mapping[str, int]) -> NDArray[np.float64]:
    """Return float64[resources] of amounts by name."""
    return np.array([float(amounts.get(name, 0)) for name in resources])
