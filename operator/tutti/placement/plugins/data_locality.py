"""Pods go where their data is: to nodes that hold it, or near these.

Nodes say by labels which datasets they hold, as Fluid's do (`fluid.io/s-<namespace>-<dataset>`), or whatever else
fills a cache. How far a node is from data is one small number: 0 where it holds it, 1 in the same domain of the nearest
level as a node that does, and so on. It is worth half as much with each step, about as node, zone and region are with
Fluid's webhook (100, 50, 20). Of several datasets of a pod the mean counts, and the farthest where nodes are kept to.
How long a workload keeps to near ones is decided at its admission (`engine/admission/patience.py`): delay scheduling
(Zaharia et al., EuroSys 2010), for whole gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.data_locality import DATASET_LABEL, datasets_in
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import ABSENT, NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, FlavorConstraints, Mask, Rejection, Scores

TOO_FAR = "node(s) not near enough to the data"
"""Why a node is ruled out while a workload keeps to those near its data."""


@dataclass(frozen=True, slots=True)
class DataRules:
    """Where data is, and what is near it.

    Attributes:
        labels: Keys of node labels, with {namespace} and {dataset} in them.
        levels: Labels of domains, the smallest first.
        wait: How many seconds a workload keeps to each distance before it goes farther.
    """

    labels: tuple[str, ...]
    levels: tuple[str, ...] = ()
    wait: float = 0.0

    @property
    def anywhere(self) -> int:
        """The distance of nodes that are near by no level."""
        return len(self.levels) + 1

    def distances(self, pod_class: PodClass, nodes: NodeColumns) -> Counts | None:
        """Return int64[datasets, rows]: how far from each dataset of a class; None where no node holds any of them.

        Those that no node holds are left out. Kept while labels are unchanged.
        """
        return pod_class.keep(("data", self), (nodes.version, len(nodes)), lambda: self._look(pod_class, nodes))

    def _look(self, pod_class: PodClass, nodes: NodeColumns) -> Counts | None:
        found = []
        for name in datasets_in(pod_class.labels.get(DATASET_LABEL, "")):
            there = self._holders(pod_class.namespace, name, nodes)
            if there.any():
                found.append(self._distance(there, nodes))
        return np.array(found) if found else None

    def _holders(self, namespace: str, dataset: str, nodes: NodeColumns) -> Mask:
        """Return bool[rows]: which nodes say that they hold a dataset."""
        out = np.zeros(len(nodes), dtype=np.bool_)
        for template in self.labels:
            column = nodes.label(template.replace("{namespace}", namespace).replace("{dataset}", dataset))
            codes = column.codes[: len(nodes)]
            says_no = column.code_of.get("false", ABSENT)
            out |= (codes != ABSENT) & (codes != says_no)
        return out & nodes.present

    def _distance(self, there: Mask, nodes: NodeColumns) -> Counts:
        out = np.full(len(nodes), self.anywhere, dtype=np.int64)
        for distance, level in reversed(list(enumerate(self.levels, start=1))):
            codes = nodes.label(level).codes[: len(nodes)]
            homes = np.unique(codes[there])
            out[np.isin(codes, homes[homes != ABSENT])] = distance
        out[there] = 0
        return out


@dataclass(frozen=True, slots=True)
class NearData:
    """The filter: keeps those to near nodes who wait for these."""

    rules: DataRules
    concerns: int = field(default=Feature.DATASETS, init=False)

    def rejections(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> Sequence[Rejection]:
        """Rule out nodes that are farther from any of the data than the pods may be by now."""
        distances = None if where.data_within is None else self.rules.distances(pod_class, nodes)
        if distances is None:
            return ()
        return (Rejection(TOO_FAR, distances.max(axis=0) > where.data_within),)


@dataclass(frozen=True, slots=True)
class DataLocality:
    """The score: MAX_SCORE on nodes that hold the data, half of that in their smallest domains, and so on."""

    rules: DataRules
    name: str = "DataLocality"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.DATASETS, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return int64[rows] in 0..MAX_SCORE, or None where no node holds any of the data."""
        distances = self.rules.distances(pod_class, nodes)
        if distances is None:
            return None
        worth = np.array([MAX_SCORE >> step for step in range(self.rules.anywhere)] + [0], dtype=np.int64)
        points: Scores = worth[distances].sum(axis=0) // len(distances)
        return points
