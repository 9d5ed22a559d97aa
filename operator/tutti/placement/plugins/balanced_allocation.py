"""Resources of a node should be used evenly (kube-scheduler 1.36, plugins/noderesources/balanced_allocation.go)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Rows, Scores, at_rows
from tutti.placement.offers import Offer, offer_of
from tutti.placement.wildcards import expand

_EVEN = MAX_SCORE // 2
_PAIR = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BalancedAllocation:
    """The score: how much more even the node would be with the pod than it is without; the same is 75.

    Attributes:
        resources: Names, or wildcards.
    """

    resources: tuple[str, ...] = ("cpu", "memory")
    name: str = "NodeResourcesBalancedAllocation"
    weight: int = 1

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> Scores | None:
        """Return int64[m, k], or None where the class asks for none of the resources."""
        names = tuple(name for name, _ in expand(tuple((one, 1) for one in self.resources), klass.requests))
        if not any(klass.requests.get(name, 0) for name in names):
            return None
        evenness = _evenness(klass, nodes, rows, np.concatenate((nth[:1] - 1, nth)), names=names)
        change = evenness[1:] - evenness[:-1]
        change += _EVEN
        change >>= 1
        change += _EVEN
        return change


def _evenness(
    klass: PodClass, nodes: NodeColumns, rows: Rows, counts: NDArray[np.int64], *, names: tuple[str, ...]
) -> Scores:
    """Return int64[m, k] in 0..MAX_SCORE with so many more pods: 100 less the deviation of the parts in use."""
    parts: list[Floats] = []
    offers: list[Offer] = []
    for name in names:
        asked, offer = klass.requests.get(name, 0), offer_of(nodes, name)
        if offer is None or ("/" in name and not asked):
            continue
        now = at_rows(nodes.requested[:, offer.column], rows)
        part = np.add(now[None, :], (counts * asked)[:, None]) / at_rows(offer.amounts, rows)
        parts.append(np.minimum(part, 1.0, out=part))
        offers.append(offer)
    even = _deviation(parts, offers, rows)
    np.subtract(1.0, even, out=even)
    even *= float(MAX_SCORE)
    scores: Scores = even.astype(np.int64)
    return scores


def _deviation(parts: list[Floats], offers: list[Offer], rows: Rows) -> Floats:
    """Return float64[m, k], a new array: how far the parts in use are from their mean, over what a node offers."""
    if len(parts) == _PAIR:
        gap: Floats = np.subtract(parts[0], parts[1], out=parts[0])
        np.abs(gap, out=gap)
        gap /= 2
        if not (offers[0].everywhere and offers[1].everywhere):
            gap[:, ~at_rows(offers[0].there & offers[1].there, rows)] = 0.0
        return gap
    stacked = np.stack(parts)
    has = np.stack([at_rows(offer.there, rows) for offer in offers])[:, None, :]
    count = has.sum(axis=0)
    mean = np.where(has, stacked, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(has, (stacked - mean) ** 2, 0.0).sum(axis=0)
    spread: Floats = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.where(has, stacked, -np.inf).max(axis=0) - np.where(has, stacked, np.inf).min(axis=0)
    return np.where(count > _PAIR, spread, np.where(count == _PAIR, of_two / 2, 0.0))
