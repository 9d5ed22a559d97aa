"""A node must have left what a pod asks for (kube-scheduler 1.36, plugins/noderesources/fit.go)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.axis import NOWHERE
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Mask, Rejection, Where

TOO_MANY_PODS = "Too many pods"


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """The filter; a node counts once for each resource that it lacks.

    Attributes:
        ignored: Extended resources that are not looked at, and groups of them ("example.com" stands for all of it).
    """

    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> FitTally:  # noqa: ARG002 - a filter's signature
        """Return what answers from the columns as they are when asked."""
        return FitTally(self, klass, nodes)

    def capacity(
        self, nodes: NodeColumns, klass: PodClass, mask: Mask, *, most: int | None = None
    ) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class fit on each node by resources; 0 where masked out.

        A resource that the class does not ask for never limits it. With `most` it is no more than that.
        """
        asked = self._asked(klass, nodes)
        if most == 1:
            fits_one = mask.copy()
            for column, amount in asked:
                fits_one &= nodes.requested[:, column] + amount <= nodes.allocatable[:, column]
            return fits_one.astype(np.int64)
        fits = np.full(len(mask), np.iinfo(np.int64).max if most is None else most, dtype=np.int64)
        for column, amount in asked:
            free = np.subtract(nodes.allocatable[:, column], nodes.requested[:, column])
            np.minimum(fits, np.floor_divide(free, amount, out=free), out=fits)
        np.maximum(fits, 0, out=fits)
        return np.multiply(fits, mask, out=fits)

    def _asked(self, klass: PodClass, nodes: NodeColumns) -> list[tuple[int, int]]:
        """Return the columns of what the class asks for and must have, with how much of it."""
        return klass.keep(("asked", self), len(nodes.axis), lambda: self._looked_at(klass, nodes))

    def _looked_at(self, klass: PodClass, nodes: NodeColumns) -> list[tuple[int, int]]:
        request = nodes.vector(klass.requests)
        columns = nodes.axis.columns(name for name in klass.requests if not self.is_ignored(name))
        return [(column, int(request[column])) for column in columns if request[column]]

    def is_ignored(self, name: str) -> bool:
        """Whether a resource is not looked at."""
        return name in self.ignored or ("/" in name and name.split("/", 1)[0] in self.ignored_groups)


@dataclass(frozen=True, slots=True)
class FitTally:
    """What nodes lack for one more pod of a class; it needs no telling, since the columns change with each pod."""

    fit: NodeResourcesFit
    klass: PodClass
    nodes: NodeColumns
    moves: bool = False
    alone: bool = False

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that lack a resource; final where they do not even offer enough of it."""
        nodes, requests = self.nodes, self.klass.requests
        request = nodes.vector(requests)
        out: list[Rejection] = []
        for name in requests:
            column = nodes.axis.column(name)
            if not requests[name] or self.fit.is_ignored(name):
                continue
            if column == NOWHERE:
                out.append(Rejection(lacking(name), nodes.present, True))
                continue
            offered = nodes.allocatable[:, column]
            short = nodes.requested[:, column] + request[column] > offered
            out.append(Rejection(lacking(name), short, name != "pods" and request[column] > offered))
        return out

    def add(self, row: int) -> None:
        """Nothing to count."""


def lacking(name: str) -> str:
    """Return how kube-scheduler says that a node has too little of a resource left."""
    return TOO_MANY_PODS if name == "pods" else f"Insufficient {name}"
