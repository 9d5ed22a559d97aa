"""Resource claims: pods that have some are not placed yet; for all others this score is there and 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Scores


@dataclass(frozen=True, slots=True)
class DynamicResources:
    """The score of pods without claims (kube-scheduler 1.36, plugins/dynamicresources)."""

    name: str = "DynamicResources"
    weight: int = 2
    scaled: bool = True
    reverse: bool = False

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores:  # noqa: ARG002 - a preference's signature
        """Return int64[rows] of 0."""
        return np.zeros(len(nodes), dtype=np.int64)
