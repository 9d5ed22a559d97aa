"""Fair sharing: the order in which queues give up workloads.

Rule: Kueue, preemption/fairsharing/ordering.go (0.20). From the root, go down into the child with the highest share
until it is a queue. A queue is out for good when it has no candidates left or does not borrow (the preemptor's own
may), a cohort when it does not borrow (those above the preemptor may) or all below it are out. Of equal shares, a
cohort goes before a queue, a later cohort before an earlier one, and the queue whose first candidate comes first in
the order of victims before the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tutti.quota.share import ShareKey, share
from tutti.quota.snapshot import Holder, Snapshot
from tutti.quota.tree import QuotaNode
from tutti.quota.victims import in_victim_order


class Contest:
    """Offers queues one after the other; whoever asks must `take` a candidate or `drop` the queue each time.

    Args:
        snapshot: What is used. Between two offers it may only change in the queue that was offered.
        queue: The preemptor's queue.
        candidates: In the order of victims.
    """

    def __init__(self, snapshot: Snapshot, queue: str, candidates: Iterable[Holder]) -> None:
        self._preemptor = snapshot.queue(queue)
        self._above = set(map(id, self._preemptor.ancestors()))
        self._left: dict[str, list[Holder]] = {}
        for holder in candidates:
            self._left.setdefault(holder.queue, []).append(holder)
        for mine in self._left.values():
            mine.reverse()
        self._out: set[int] = set()
        self._shares: dict[int, tuple[bool, ShareKey]] = {}

    def offers(self) -> Iterator[QuotaNode]:
        """Yield the queue to take from next, until none is left."""
        root = self._preemptor.root()
        while id(root) not in self._out:
            queue = self._pick(root)
            if queue is not None:
                yield queue
                for node in (queue, *queue.ancestors()):
                    self._shares.pop(id(node), None)

    def has(self, queue: QuotaNode) -> bool:
        """Whether a queue has candidates left."""
        return bool(self._left.get(queue.name))

    def take(self, queue: QuotaNode) -> Holder:
        """Return a queue's next candidate, and count it as dealt with."""
        return self._left[queue.name].pop()

    def drop(self, queue: QuotaNode) -> None:
        """Offer a queue no more."""
        self._out.add(id(queue))

    def sides(self, target: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """Return the children of the nearest common cohort: the preemptor's side, and the target's."""
        theirs = target
        while theirs.parent is not None and id(theirs.parent) not in self._above:
            theirs = theirs.parent
        mine = self._preemptor
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return mine, theirs

    def _pick(self, node: QuotaNode) -> QuotaNode | None:
        """Return the queue to take from below a node; None where a look at it put something out."""
        if node.leaf:
            if not self.has(node):
                self.drop(node)
                return None
            return node
        best: QuotaNode | None = None
        for child in node.children:
            if id(child) not in self._out and self._stays(child) and (best is None or self._beats(child, best)):
                best = child
        if best is None:
            self._out.add(id(node))
            return None
        return best if best.leaf else self._pick(best)

    def _stays(self, child: QuotaNode) -> bool:
        exempt = child is self._preemptor or id(child) in self._above
        if (exempt or self._share(child)[0]) and (not child.leaf or self.has(child)):
            return True
        self._out.add(id(child))
        return False

    def _share(self, node: QuotaNode) -> tuple[bool, ShareKey]:
        """Return whether a node borrows, and its share."""
        found = self._shares.get(id(node))
        if found is None:
            mine = share(node)
            found = self._shares[id(node)] = (bool(mine.borrowed), mine.key)
        return found

    def _beats(self, one: QuotaNode, best: QuotaNode) -> bool:
        mine, other = self._share(one)[1], self._share(best)[1]
        if mine != other or not one.leaf:
            return mine >= other
        if not best.leaf:
            return False
        first, second = self._left[one.name][-1], self._left[best.name][-1]
        return in_victim_order((second, first), self._preemptor.name)[0] is first
