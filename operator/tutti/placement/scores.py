"""How full a node should be (kube-scheduler 1.36, plugins/noderesources: least, most, requested to capacity ratio).

A container that does not say what it asks for counts a little (`requests.UNSAID`), or a node could be filled with
such pods and still look empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Rows, at_rows
from tutti.placement.offers import Offer, offer_of
from tutti.placement.wildcards import expand

Point = tuple[int, int]
"""Utilization in percent and the score it has, 0 to 10."""

_SHAPE_SCALE = 10


@dataclass(frozen=True, slots=True)
class Packing:
    """The score: LeastAllocated spreads load, MostAllocated keeps whole nodes free, a shape says which use is best.

    Attributes:
        resources: Names, or wildcards, and weights that count; one that a node does not offer is left out for that
            node, and an extended resource counts only for pods that ask for it.
        most: Whether fuller is better.
        shape: If given, what each utilization scores instead, rising in utilization; straight lines between.
    """

    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    most: bool = False
    shape: tuple[Point, ...] = ()
    weight: int = 1
    name: str = "NodeResourcesFit"

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Score each node as it would be with the `nth` more pod of the class on it.

        Args:
            klass: The class.
            nodes: All nodes.
            rows: int64[k], the nodes to score.
            nth: int64[m], which pod, from 1.

        Returns:
            int64[m, k] in 0..MAX_SCORE: integer means over the weighted resources, as upstream computes them.
        """
        total = np.zeros((len(nth), len(rows)), dtype=np.int64)
        if self.shape:
            return self._by_shape(klass, nodes, rows, nth, total)
        weights: NDArray[np.int64] | int = 0
        for name, weight in self._that_count(klass):
            offer = offer_of(nodes, name)
            if offer is None:
                continue
            level = self._level(_used(klass, nodes, rows, nth, name=name, offer=offer), at_rows(offer.amounts, rows))
            if offer.everywhere:
                total += level if weight == 1 else np.multiply(level, weight, out=level)
                weights = weights + weight
            else:
                counts = at_rows(offer.there, rows) * np.int64(weight)
                total += np.multiply(level, counts, out=level)
                weights = weights + counts
        return np.floor_divide(total, np.maximum(weights, 1), out=total)

    def _by_shape(
        self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64], total: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[m, k]: the rounded means by the shape, of the resources that score anything."""
        weights = np.zeros_like(total)
        for name, weight in self._that_count(klass):
            offer = offer_of(nodes, name)
            if offer is None:
                continue
            offered, used = at_rows(offer.amounts, rows), _used(klass, nodes, rows, nth, name=name, offer=offer)
            level = _on_shape(self.shape, np.where(used > offered, MAX_SCORE, used * MAX_SCORE // offered))
            counts = at_rows(offer.there, rows) * np.int64(weight) * (level > 0)
            total += np.multiply(level, counts, out=level)
            weights += counts
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)

    def _that_count(self, klass: PodClass) -> list[tuple[str, int]]:
        return klass.keep(("count", self), None, lambda: self._counted(klass))

    def _counted(self, klass: PodClass) -> list[tuple[str, int]]:
        return [
            (name, weight)
            for name, weight in expand(self.resources, klass.requests)
            if name in ("cpu", "memory") or klass.requests.get(name, 0) > 0 or "/" not in name
        ]

    def _level(self, used: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.most:
            np.minimum(used, offered, out=used)
        else:
            np.maximum(np.subtract(offered, used, out=used), 0, out=used)
        part: NDArray[np.int64] = np.multiply(used, MAX_SCORE, out=used)
        return np.floor_divide(part, offered, out=part)


def _used(
    klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64], *, name: str, offer: Offer
) -> NDArray[np.int64]:
    """Return int64[m, k]: what would be used of a resource; the pod to place may count otherwise than those placed."""
    if name in ("cpu", "memory"):
        which = ("cpu", "memory").index(name)
        more = (nth - 1) * klass.weight[which] + klass.scored[which]
        now = at_rows(nodes.scored[:, which], rows)
    else:
        more = nth * klass.requests.get(name, 0)
        now = at_rows(nodes.requested[:, offer.column], rows)
    return np.add(now[None, :], more[:, None])


def _on_shape(shape: Sequence[Point], utilization: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the score at each utilization in percent: integers, with the division truncated toward zero."""
    points = [(at, score * (MAX_SCORE // _SHAPE_SCALE)) for at, score in shape]
    out = np.full_like(utilization, points[-1][1])
    for (left, low), (right, high) in reversed(list(pairwise(points))):
        rise = (high - low) * (utilization - left)
        between = low + np.sign(rise) * (np.abs(rise) // (right - left))
        out = np.where(utilization <= right, between, out)
    return np.where(utilization <= points[0][0], points[0][1], out)
