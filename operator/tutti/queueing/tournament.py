"""Fair sharing: in which order the heads of all queues are processed within one cycle.

Rule: Kueue, fair_sharing_iterator.go (0.20). In each cohort, its children compete with the one head that each puts
forward: first those that borrow nothing of what the head asks for, then the smaller share with the head admitted, then
higher priority, then longer wait. Who wins at the root is next; shares are computed anew for the one after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from tutti.quota.share import ShareKey, share
from tutti.quota.snapshot import Snapshot
from tutti.quota.tree import FlavorResource, QuotaNode


class Contender(Protocol):
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


C = TypeVar("C", bound=Contender)
Key = tuple[bool, ShareKey, int, float]


def in_fair_order(snapshot: Snapshot, heads: Mapping[str, C]) -> Iterator[C]:
    """Yield the heads in the order to process them; what is charged in between counts for those that follow.

    Trees are taken one after the other, in the order of the heads given.

    Args:
        snapshot: What is used.
        heads: One per ClusterQueue.
    """
    left = dict(heads)
    while left:
        first = next(iter(left))
        root = snapshot.queue(first).root()
        winner = first if root.leaf else _winner(root, _keys(snapshot, root, left), left)
        assert winner is not None  # the root is that of a queue which has a head
        yield left.pop(winner)


def _keys(snapshot: Snapshot, root: QuotaNode, heads: Mapping[str, C]) -> dict[tuple[int, str], Key]:
    """Return how each head ranks in each cohort above it: (identity of the cohort, queue) -> key."""
    keys: dict[tuple[int, str], Key] = {}
    for queue in root.leaves():
        head = heads.get(queue.name)
        if head is None:
            continue
        asked = [what for what, amount in head.usage.items() if amount > 0]
        with snapshot.trial():
            snapshot.charge(queue.name, head.usage)
            below = queue
            for cohort in queue.ancestors():
                mine = share(below)
                keys[id(cohort), queue.name] = (mine.borrows_any(asked), mine.key, -head.priority, head.queued_at)
                below = cohort
    return keys


def _winner(node: QuotaNode, keys: Mapping[tuple[int, str], Key], heads: Mapping[str, C]) -> str | None:
    """Return the queue whose head a node puts forward."""
    if node.leaf:
        return node.name if node.name in heads else None
    forward = (_winner(child, keys, heads) for child in sorted(node.children, key=lambda child: child.leaf))
    return min((name for name in forward if name is not None), key=lambda name: keys[id(node), name], default=None)
