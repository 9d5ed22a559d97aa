"""Nodes that hold a pod's images start it sooner (kube-scheduler 1.36, plugins/imagelocality)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.images import normalised
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Scores

_MIB = 1024 * 1024
LEAST = 23 * _MIB
MOST_PER_CONTAINER = 1000 * _MIB


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """The score: the bytes that need not be pulled, less for an image that few nodes hold."""

    name: str = "ImageLocality"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows] in 0..MAX_SCORE."""
        containers = (*klass.spec.init_containers, *klass.spec.containers)
        total = np.zeros(len(nodes), dtype=np.int64)
        found = False
        for container in containers:
            name = normalised(container.image)
            holders = nodes.images.holders(name)
            if holders:
                part = len(holders) / nodes.count
                total += (nodes.images.sizes(name, len(nodes)) * part).astype(np.int64)
                found = True
        if not found:
            return total
        most = MOST_PER_CONTAINER * len(containers)
        return (np.clip(total, LEAST, most) - LEAST) * MAX_SCORE // (most - LEAST)
