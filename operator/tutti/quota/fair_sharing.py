"""Fair sharing: what part of what it could borrow a node does borrow, and whose head is next by that.

Rule: Kueue, pkg/cache/scheduler/fair_sharing.go (0.20), per node n with parent p, over resources r:

    borrowed[r] = sum over the flavors f known below n of worth(f, r) * max(0, usage - subtree)
    lendable[r] = sum over the flavors f of the tree of worth(f, r) * potential
    ratio       = max over r of borrowed[r] / p.lendable[r], where that is more than 0; equal ratios: the first by name
    share       = 0 at a root or where the ratio is 0, infinite where the weight is 0, else 1000 * ratio / weight

worth is 1 but where a ResourceFlavor says otherwise in its resourceWeights, so that a unit of one flavor can count more
than one of another (Kueue, KEP-8902). Two infinite shares compare by their ratio. Ratios are exact fractions: equal
shares are equal.

The heads of all queues are processed within one cycle in the order of a tournament (fair_sharing_iterator.go): in each
cohort, its children compete with the one head that each puts forward: first those that borrow nothing of what the head
asks for, then the smaller share with the head admitted, then higher priority, then longer wait. Who wins at the root is
next; shares are computed anew for the one after it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from tutti.quota.snapshot import Snapshot
from tutti.quota.tree import UNLIMITED, WEIGHT_OF_ONE, FlavorResource, QuotaNode

ShareKey = tuple[bool, Fraction]
"""Whether a share is infinite, then the share (or the ratio of an infinite one): compares as shares do."""


class QueueOrdering(StrEnum):
    """By what the queues of a cohort are compared where it is asked who is next."""

    BORROWED_SHARE = "BorrowedShare"
    DOMINANT_SHARE = "DominantShare"
    PROPORTION = "Proportion"


@dataclass(frozen=True, slots=True)
class FairShare:
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


def fair_share(node: QuotaNode, more: Mapping[FlavorResource, int] | None = None) -> FairShare:
    """Return the share of a node, as if it used `more` in addition."""
    nothing = Fraction(0)
    if node.parent is None:
        return FairShare(nothing, node.weight)
    more = more or {}
    borrowed: dict[str, int] = {}
    pairs: list[FlavorResource] = []
    for what, own in node.subtree.items():
        over = node.usage.get(what, 0) + more.get(what, 0) - own
        if over > 0:
            borrowed[what[1]] = borrowed.get(what[1], 0) + node.worth_of(what, over)
            pairs.append(what)
    if not pairs:
        return FairShare(nothing, node.weight)
    lendable = node.parent.lendable_worth()
    ratios = {name: Fraction(over, lendable[name]) for name, over in borrowed.items() if lendable.get(name, 0) > 0}
    if not ratios:
        return FairShare(nothing, node.weight, borrowed=frozenset(pairs))
    dominant = min(ratios, key=lambda name: (-ratios[name], name))
    return FairShare(ratios[dominant], node.weight, dominant, frozenset(pairs))


def borrowed_share(node: QuotaNode) -> ShareKey:
    """Return the share of what a node could borrow, as Kueue compares it."""
    return fair_share(node).key


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


class QueueHead(Protocol):
    """The head of a queue, with the flavors chosen for it."""

    @property
    def priority(self) -> int:
        """The higher, the more important."""

    @property
    def queued_at(self) -> float:
        """Since when it waits, Unix seconds."""

    @property
    def usage(self) -> Mapping[FlavorResource, int]:
        """What it would use."""


Key = tuple[bool, ShareKey, int, float]
"""How a head ranks: whether its queue would borrow, its share, less importance, and since when it waits."""


class Tournament:
    """The heads of one tree, asked again and again who is next while usage grows.

    How a head ranks in a cohort depends on what is used below it on the head's own side. So where something was used,
    or another head stands, only the path from there to the top is played again; whoever asks has to say where that is.

    Args:
        snapshot: What is used.
        root: The top of the tree.
        measure: What is compared once nobody, or everybody, borrows what is asked for.
    """

    def __init__(
        self, snapshot: Snapshot, root: QuotaNode, measure: Callable[[QuotaNode], ShareKey] = borrowed_share
    ) -> None:
        self._snapshot = snapshot
        self._measure = measure
        self._root = root
        self._heads: dict[str, QueueHead] = {}
        self._keys: dict[str, tuple[int, dict[int, Key]]] = {}
        self._moves: dict[int, int] = {}
        self._contests: dict[int, _Contest] = {}
        self._stale: dict[str, None] = {}

    def put(self, queue: str, head: QueueHead | None) -> None:
        """Have a queue of the tree put forward a head, or nobody."""
        if head is not None:
            self._heads[queue] = head
        else:
            self._heads.pop(queue, None)
        self._stale[queue] = None

    def has_moved(self, queue: str) -> None:
        """Note that more or less is used of a queue of the tree, whether it has a head or not."""
        self._stale[queue] = None

    def winner(self) -> str | None:
        """Return the queue whose head is next; None where there is no head."""
        if self._root.leaf:
            return self._root.name if self._heads else None
        self._play()
        return self._forward(self._root)

    def key(self, queue: str) -> Key:
        """Return how the head of a queue, which has one and is in a cohort, ranks at the top of the tree."""
        self._play()
        return self._ranked(queue)[id(self._root)]

    def _play(self) -> None:
        """Play again what may end otherwise by now: from the lowest nodes up, each once."""
        nodes: dict[int, QuotaNode] = {}
        for queue in self._stale:
            nodes.update({id(node): node for node in self._snapshot.queue(queue).path})
        self._stale = {}
        for moved in nodes:
            self._moves[moved] = self._moves.get(moved, 0) + 1
        for node in sorted(nodes.values(), key=QuotaNode.height):
            if node.parent is not None:
                name = self._forward(node)
                contest = self._contest(node.parent)
                contest.put(id(node), None if name is None else self._ranked(name)[id(node.parent)], name)

    def _forward(self, node: QuotaNode) -> str | None:
        """Return the queue whose head a node puts forward."""
        if node.leaf:
            return node.name if node.name in self._heads else None
        return self._contest(node).first()

    def _contest(self, cohort: QuotaNode) -> _Contest:
        found = self._contests.get(id(cohort))
        if found is None:
            found = self._contests[id(cohort)] = _Contest(cohort)
        return found

    def _ranked(self, queue: str) -> dict[int, Key]:
        """Return how the head of a queue ranks in each cohort above it, by the identity of the cohort."""
        path = self._snapshot.queue(queue).path
        moves = sum(self._moves.get(id(node), 0) for node in path[:-1])
        known = self._keys.get(queue)
        if known is not None and known[0] == moves:
            return known[1]
        head, keys = self._heads[queue], dict[int, Key]()
        self._keys[queue] = moves, keys
        asked = [what for what, amount in head.usage.items() if amount > 0]
        with self._snapshot.trial():
            self._snapshot.charge(queue, head.usage)
            for below, cohort in itertools.pairwise(path):
                borrows = fair_share(below).borrows_any(asked)
                keys[id(cohort)] = (borrows, self._measure(below), -head.priority, head.queued_at)
        return keys


class _Contest:
    """The children of one cohort, each with whom it puts forward; cohorts win ties against queues, then the first."""

    def __init__(self, cohort: QuotaNode) -> None:
        self._places = cohort.places()
        self._heap: list[tuple[Key, int, int, str]] = []
        self._numbers = [0] * len(self._places)

    def put(self, child: int, key: Key | None, name: str | None) -> None:
        """Have a child, by its identity, put forward the head of a queue, which ranks so; or nobody."""
        place = self._places[child]
        self._numbers[place] += 1
        if key is not None and name is not None:
            heapq.heappush(self._heap, (key, place, self._numbers[place], name))

    def first(self) -> str | None:
        """Return the queue whose head is next here; None where nobody puts one forward."""
        heap = self._heap
        while heap and heap[0][2] != self._numbers[heap[0][1]]:  # the child puts forward another by now
            heapq.heappop(heap)
        return heap[0][3] if heap else None
