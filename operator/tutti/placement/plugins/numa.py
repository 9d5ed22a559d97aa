"""The filter of scheduler-plugins' NodeResourceTopologyMatch: no pod goes where the kubelet would refuse to align it.

A pod that the topology manager refuses is Failed, and whoever made it makes another for the same node. So nodes are
ruled out before that, by what their agents report of their zones and what is pending there (`cluster/numa.py`).
Source: scheduler-plugins, noderesourcetopology/filter.go; the policy `restricted`, which that lets pass, is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa_needs import is_native, zone_needs
from tutti.placement.framework import FlavorConstraints, Rejection
from tutti.placement.plugins.numa_fit import CONTAINER, INIT, PLENTY, SIDECAR, WHOLE
from tutti.placement.plugins.numa_room import ZoneRoom, zone_room

INVALID = "invalid node topology data"
REASONS = {
    WHOLE: "cannot align pod",
    INIT: "cannot align init container",
    SIDECAR: "cannot align sidecar container",
    CONTAINER: "cannot align container",
}
"""What is said of a node where something finds no zone; scheduler-plugins' words."""


@dataclass(slots=True)
class NumaState:
    """How many more pods of a class each node takes for its zones; this is told beforehand, so nothing changes.

    Attributes:
        found: What was counted.
        unusable: bool[rows], nodes whose report cannot be used.
    """

    found: ZoneRoom
    unusable: NDArray[np.bool_]
    changes_on_add: bool = False
    one_per_node: bool = False

    def room(self, most: int) -> NDArray[np.int64]:  # noqa: ARG002 - it knows all at once
        """Return int64[rows]: how many more pods of the class each node takes."""
        return np.where(self.unusable, 0, self.found.room)

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that take none; final where none would fit into zones that are empty."""
        closed = ~self.unusable & (self.found.room < 1)
        said = [Rejection(INVALID, self.unusable)] if self.unusable.any() else []
        for short, reason in REASONS.items():
            rows = closed & (self.found.short == short)
            if rows.any():
                said.append(Rejection(reason, rows, self.found.never))
        return said

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.found.room[row] -= 1


@dataclass(frozen=True, slots=True)
class NumaAlignment:
    """The filter."""

    concerns: int = field(default=Feature.NUMA_ZONES, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> NumaState | None:  # noqa: ARG002 - a filter's signature
        """Count by zones; None where no zone limits the class anywhere."""
        if pod_class.problem or not _is_aligned(pod_class):
            return None
        nodes.numa.sync()
        stamp = (nodes.numa.version, nodes.capacity_version, len(nodes))
        found = pod_class.keep(("zone room", None), stamp, lambda: zone_room(pod_class, nodes))
        unusable = nodes.numa.unusable
        if not unusable.any() and bool((found.room >= PLENTY).all()):
            return None
        return NumaState(ZoneRoom(found.room.copy(), found.short, found.never), unusable.copy())


def _is_aligned(pod_class: PodClass) -> bool:
    """Whether the kubelet may align pods of a class: not those that ask for no cpu or memory, and name no devices."""
    asked = zone_needs(pod_class)
    parts = (*(amounts for amounts, _ in asked.init), *asked.containers)
    return any(
        (amount and name in ("cpu", "memory")) or not is_native(name) for part in parts for name, amount in part.items()
    )
