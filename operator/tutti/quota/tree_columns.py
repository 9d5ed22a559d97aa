"""What may still be used at many places of one quota tree, as columns: asked of thousands of queues at once.

A spot is a node of the tree and a (flavor, resource). The rules are those of `tree.py`, over arrays; what a spot has by
itself is read again only where somebody used more or less below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.columns import longer
from tutti.quota.tree import FlavorResource, QuotaNode

MOST: Final = 2**60
"""As much as columns tell apart: sums of these stay within int64, and more than this counts as this."""

NOWHERE: Final = 0
"""The spot above a root, and of whoever asks for nothing."""

_UNUSED, _CAP, _OWN, _HEIGHT = range(4)

Ints = NDArray[np.int64]


def clipped(amount: int) -> int:
    """Return an amount as columns hold it."""
    return max(-MOST, min(amount, MOST))


class TreeColumns:
    """The spots of one tree that anybody asks about, and those above them."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, FlavorResource], int] = {}
        self._at: list[tuple[QuotaNode, FlavorResource] | None] = [None]
        self._of_node: dict[int, list[int]] = {}
        self._terms = np.zeros((64, 4), dtype=np.int64, order="F")
        self._up = np.zeros(64, dtype=np.intp)
        self._depths: list[list[int]] = []
        self._by_depth: list[NDArray[np.intp]] = []
        self._stale: dict[int, None] = {}
        self._left: Ints = np.zeros(1, dtype=np.int64)

    def spot(self, node: QuotaNode, what: FlavorResource) -> int:
        """Return the spot of a node, made with those above it where nobody has asked about it before."""
        found = self._slots.get((id(node), what))
        if found is not None:
            return found
        above = NOWHERE if node.parent is None else self.spot(node.parent, what)
        slot = self._slots[id(node), what] = len(self._at)
        self._at.append((node, what))
        self._of_node.setdefault(id(node), []).append(slot)
        if slot == len(self._up):
            self._up, self._terms = longer(self._up, 2 * slot), longer(self._terms, 2 * slot)
        self._up[slot] = above
        depth = len(node.path) - 1
        while len(self._depths) <= depth:
            self._depths.append([])
        self._depths[depth].append(slot)
        self._by_depth = []
        self._stale[slot] = None
        return slot

    def has_moved(self, nodes: Iterable[QuotaNode]) -> None:
        """Note that more or less is used of some nodes."""
        for node in nodes:
            self._stale.update(dict.fromkeys(self._of_node.get(id(node), ())))

    def available(self) -> Ints:
        """Return int64[spots]: how much more may be used at each (`QuotaNode.available`), up to MOST."""
        if not self._stale:
            return self._left
        for slot in self._stale:
            self._read(slot)
        self._stale = {}
        if not self._by_depth:
            self._by_depth = [np.array(slots, dtype=np.intp) for slots in self._depths]
        left = np.full(len(self._at), MOST, dtype=np.int64)
        for some in self._by_depth:
            unused, cap = self._terms[some, _UNUSED], self._terms[some, _CAP]
            left[some] = np.maximum(np.minimum(unused + np.minimum(left[self._up[some]], cap), MOST), -MOST)
        self._left = left
        return left

    def own_left(self, spots: NDArray[np.intp]) -> Ints:
        """Return int64[n]: how much more may be used at some spots before it is borrowed; negative where it is."""
        self.available()
        own: Ints = self._terms[spots, _OWN]
        return own

    def levels(self, spots: NDArray[np.intp], amounts: Ints) -> Ints:
        """Return int64[n]: from how far away each amount would come at its spot (`borrowing_level`).

        Args:
            spots: intp[n], of ClusterQueues.
            amounts: int64[n], not negative.
        """
        self.available()
        at, left, height = self._up[spots], amounts - self._terms[spots, _UNUSED], np.zeros(len(spots), dtype=np.int64)
        is_open = amounts > self._terms[spots, _OWN]
        while (is_open := is_open & (at != NOWHERE)).any():
            height[is_open] = self._terms[at[is_open], _HEIGHT]
            is_open &= left > self._terms[at, _OWN]
            left = left - self._terms[at, _UNUSED]
            at = self._up[at]
        return height

    def _read(self, slot: int) -> None:
        about = self._at[slot]
        assert about is not None  # nobody asks about NOWHERE
        node, what = about
        unused, cap = (0, node.available(what)) if node.parent is None else node.terms_of_available(what)
        self._terms[slot] = clipped(unused), clipped(cap), clipped(node.own_left(what)), node.height()
