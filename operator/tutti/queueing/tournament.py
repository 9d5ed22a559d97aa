"""Fair sharing: in which order the heads of all queues are processed within one cycle.

Rule: Kueue, fair_sharing_iterator.go (0.20). In each cohort, its children compete with the one head that each puts
forward: first those that borrow nothing of what the head asks for, then the smaller share with the head admitted, then
higher priority, then longer wait. Who wins at the root is next; shares are computed anew for the one after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Protocol

from tutti.quota.share import ShareKey, borrowed_share, share
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


Key = tuple[bool, ShareKey, int, float]


class Tournament:
    """The heads of one tree, asked again and again who is next while usage grows.

    How a head ranks in a cohort depends on what is used below it on the head's own side, so it is worked out anew only
    when something was used there.

    Args:
        snapshot: What is used.
        root: The top of the tree.
        measure: What is compared once nobody, or everybody, borrows what is asked for.
        stamp: Changes for a node whenever something was used of it; the default takes it that something always was.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        root: QuotaNode,
        stamp: Callable[[QuotaNode], int] | None = None,
        measure: Callable[[QuotaNode], ShareKey] = borrowed_share,
    ) -> None:
        self._snapshot = snapshot
        self._measure = measure
        self._root = root
        self._stamp = stamp
        self._known: dict[str, tuple[Contender, list[int], dict[int, Key]]] = {}

    def winner(self, heads: Mapping[str, Contender]) -> str:
        """Return the queue whose head is next; some head must be of this tree."""
        if self._root.leaf:
            return self._root.name
        keys = {
            queue.name: self._keys(queue, heads[queue.name]) for queue in self._root.leaves() if queue.name in heads
        }
        name = _forward(self._root, keys)
        assert name is not None  # there is a head
        return name

    def _keys(self, queue: QuotaNode, head: Contender) -> dict[int, Key]:
        """Return how a head ranks in each cohort above its queue, by the identity of the cohort."""
        path = [queue, *queue.ancestors()]
        stamps = [self._stamp(node) for node in path[:-1]] if self._stamp else []
        known = self._known.get(queue.name)
        if known is not None and self._stamp and known[0] == head and known[1] == stamps:
            return known[2]
        keys: dict[int, Key] = {}
        asked = [what for what, amount in head.usage.items() if amount > 0]
        with self._snapshot.trial():
            self._snapshot.charge(queue.name, head.usage)
            for below, cohort in itertools.pairwise(path):
                borrows = share(below).borrows_any(asked)
                keys[id(cohort)] = (borrows, self._measure(below), -head.priority, head.queued_at)
        self._known[queue.name] = (head, stamps, keys)
        return keys


def _forward(node: QuotaNode, keys: Mapping[str, Mapping[int, Key]]) -> str | None:
    """Return the queue whose head a node puts forward."""
    if node.leaf:
        return node.name if node.name in keys else None
    forward = (_forward(child, keys) for child in sorted(node.children, key=lambda child: child.leaf))
    return min((name for name in forward if name is not None), key=lambda name: keys[name][id(node)], default=None)
