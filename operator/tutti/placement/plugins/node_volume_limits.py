"""A node takes so many volumes of a CSI driver (kube-scheduler 1.36, plugins/nodevolumelimits/csi.go)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.attachments import UNLIMITED
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Rejection, Where

REASON = "node(s) exceed max volume count"


@dataclass(slots=True)
class LimitTally:
    """How many more pods of a class each node takes for its volumes; this is told beforehand, so nothing moves."""

    left: NDArray[np.int64]
    moves: bool = False
    alone: bool = False

    def room(self) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class each node takes."""
        return self.left

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that take none."""
        return (Rejection(REASON, self.left < 1),)

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.left[row] -= 1


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    """The filter."""

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> LimitTally | None:  # noqa: ARG002 - a filter's signature
        """Count volumes and limits; None where no node limits the drivers of the class."""
        left: NDArray[np.int64] | None = None
        for driver in dict.fromkeys(one.driver for one in klass.volumes.attached):
            mine = _left(klass, nodes, driver)
            if mine is not None:
                left = mine if left is None else np.minimum(left, mine)
        return LimitTally(left) if left is not None else None


def _left(klass: PodClass, nodes: NodeColumns, driver: str) -> NDArray[np.int64] | None:
    """Return int64[rows]: how many more pods of a class fit by one driver's limits; None without any.

    A volume that several pods use counts with the first pod on a node, and not where a pod has it already.
    """
    attachments = nodes.volumes.attachments
    columns = attachments.columns(driver, nodes.rows, (nodes.version, len(nodes)))
    if columns is None:
        return None
    used, most = columns
    own = sum(one.driver == driver and not one.handle for one in klass.volumes.attached)
    shared = np.zeros(len(nodes), dtype=np.int64)
    for one in klass.volumes.attached:
        if one.driver == driver and one.handle:
            shared += 1
            there = [nodes.rows[name] for name in attachments.where((driver, one.handle)) if name in nodes.rows]
            shared[there] -= 1
    free = most - used - shared
    if own:
        free //= own
        return free.clip(min=0)
    return np.where((free >= 0) | (shared == 0), np.int64(UNLIMITED), np.int64(0))
