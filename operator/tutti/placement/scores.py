"""The scorers: which of the feasible nodes a class prefers.

`Packing` depends on what is placed and so is asked for the 1st, 2nd, ... pod of a class on a node; the others are
constant per node. Rules: kube-scheduler 1.36, plugins/noderesources, nodeaffinity and tainttoleration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.api.taints import untolerated
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement import selection
from tutti.placement.framework import MAX_SCORE, Rows, Scorer, Scores


@dataclass(frozen=True, slots=True)
class Packing:
    """How full a node should be: LeastAllocated spreads load, MostAllocated keeps whole nodes free.

    Attributes:
        resources: Names and weights that count; one that a node does not offer is left out for that node, and an
            extended resource counts only for pods that ask for it.
        most: Whether fuller is better.
    """

    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    most: bool = False
    weight: int = 1

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows, nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Score each node as it would be with `nth` more pods of the class on it.

        Args:
            klass: The class.
            nodes: All nodes.
            rows: int64[k], the nodes to score.
            nth: int64[m], how many pods, at least 1 each.

        Returns:
            int64[k, m] in 0..MAX_SCORE: integer means over the weighted resources, as upstream computes them.
        """
        total = np.zeros((len(rows), len(nth)), dtype=np.int64)
        weights = np.zeros(len(rows), dtype=np.int64)
        for name, weight in self._that_count(klass):
            column = nodes.axis.column(name)
            if column >= nodes.allocatable.shape[1]:
                continue
            offered = nodes.allocatable[rows, column]
            used = nodes.requested[rows, column][:, None] + nth[None, :] * klass.requests.get(name, 0)
            has = offered > 0
            total += np.where(has[:, None], self._level(used, np.maximum(offered, 1)[:, None]), 0) * weight
            weights += has * weight
        mean: NDArray[np.int64] = total // np.maximum(weights, 1)[:, None]
        return mean

    def _that_count(self, klass: PodClass) -> list[tuple[str, int]]:
        return [
            (name, weight)
            for name, weight in self.resources
            if name in ("cpu", "memory") or klass.requests.get(name, 0) > 0
        ]

    def _level(self, used: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
        part: NDArray[np.int64] = np.minimum(used, offered) if self.most else np.maximum(offered - used, 0)
        return part * MAX_SCORE // offered


@dataclass(frozen=True, slots=True)
class PreferredNodeAffinity:
    """Sum of the weights of the preferred node affinity terms that match, scaled to the best node."""

    weight: int = 2

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows) -> Scores | None:
        """Return int64[len(rows)], or None where the class prefers nothing."""
        affinity = klass.spec.affinity
        if affinity is None or affinity.node_affinity is None or not affinity.node_affinity.preferred:
            return None
        raw = np.zeros(len(rows), dtype=np.int64)
        for preferred in affinity.node_affinity.preferred:
            raw += selection.term(nodes, preferred.preference)[rows] * preferred.weight
        return _scaled(raw)


@dataclass(frozen=True, slots=True)
class PreferUntainted:
    """The fewer PreferNoSchedule taints a pod does not tolerate, the better."""

    weight: int = 3

    def scores(self, klass: PodClass, nodes: NodeColumns, rows: Rows) -> Scores | None:
        """Return int64[len(rows)], or None where no node has such a taint."""
        soft = [[t for t in taints if t.effect == "PreferNoSchedule"] for taints in nodes.taint_sets]
        if not any(soft):
            return None
        counts = np.array(
            [
                sum(untolerated([t], klass.spec.tolerations, ("PreferNoSchedule",)) is not None for t in taints)
                for taints in soft
            ],
            dtype=np.int64,
        )
        return MAX_SCORE - _scaled(counts[nodes.taint_code[rows]])


CONSTANT_SCORERS: tuple[Scorer, ...] = (PreferUntainted(), PreferredNodeAffinity())


def constant_scores(
    klass: PodClass, nodes: NodeColumns, rows: Rows, *, scorers: Sequence[Scorer] = CONSTANT_SCORERS
) -> Scores:
    """Return int64[len(rows)]: the weighted sum of all scores that do not depend on what is placed."""
    total = np.zeros(len(rows), dtype=np.int64)
    for one in scorers:
        scores = one.scores(klass, nodes, rows)
        if scores is not None:
            total += scores * one.weight
    return total


def _scaled(raw: Scores) -> Scores:
    top = int(raw.max(initial=0))
    return raw * MAX_SCORE // top if top > 0 else raw
