"""Accelerators are kept in whole nodes: single pods fill holes, and a gang takes the fewest nodes.

Ours; kube-scheduler has no such score. Preferred Networks and KDDI pack by class of pod: a single pod goes where what
is requested then, by what there is, is largest, so that whole nodes stay free for large gangs; a gang's pods stay close
together, because they talk to each other. Plain MostAllocated does the first at the expense of the second: it scatters
a gang over the holes that others have left.

It stands in for the scores by how full a node is, for pods that ask for accelerators only: weighed together, free
cores would decide where devices are broken into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import MAX_SCORE, Counts, Rows, Scores, at_rows
from tutti.placement.plugins.node_resources import longest_match


class Packing(Protocol):
    """What keeps accelerators in whole nodes, and stands in for other scores by how full a node is."""

    @property
    def weight(self) -> int:
        """How much this counts against the other scores."""
        ...

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether pods of the class are packed."""
        ...

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Score as an `AllocationScorer`."""
        ...

    def in_use(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, more: Counts) -> Scores:
        """Return the percentage in use with so many more pods on each row, int64[k] or int64[m, k]."""
        ...

    def gathering(self, pod_class: PodClass, nodes: NodeColumns, room: Counts, wanted: int) -> Gathering:
        """Begin the choice of nodes for `wanted` pods, where int64[rows] `room` says how many each could take."""
        ...


@dataclass(frozen=True, slots=True)
class AcceleratorPacking:
    """The score: in percent, how much of a node's accelerators would be in use.

    Attributes:
        resources: Names, or wildcards, of accelerators.
    """

    resources: tuple[str, ...]
    name: str = "AcceleratorPacking"
    weight: int = 10

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether pods of the class ask for accelerators."""
        return bool(self.asked(pod_class.requests))

    def asked(self, requests: Mapping[str, int]) -> list[str]:
        """Return the accelerators among what is requested."""
        return [
            name
            for name, amount in requests.items()
            if amount > 0 and (name in self.resources or longest_match(name, self.resources))
        ]

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Return int64[m, k] in 0..MAX_SCORE, or None where the class asks for no accelerator."""
        if not self.concerns(pod_class):
            return None
        return self.in_use(pod_class, nodes, rows, nth[:, None])

    def in_use(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, more: Counts) -> Scores:
        """Return the percentage in use with so many more pods on each row, as a mean over the accelerators asked for.

        Args:
            pod_class: The class.
            nodes: All nodes.
            rows: int64[k].
            more: int64[k] or int64[m, 1].

        Returns:
            int64[k] or int64[m, k].
        """
        names = self.asked(pod_class.requests)
        total = np.zeros(np.broadcast_shapes(more.shape, rows.shape), dtype=np.int64)
        for name in names:
            column = nodes.resource_index.column(name)
            if column >= nodes.allocatable.shape[1]:
                continue
            offered = at_rows(nodes.allocatable[:, column], rows)
            used = at_rows(nodes.in_use(column), rows) + more * pod_class.requests[name]
            total += np.minimum(used, offered) * MAX_SCORE // np.maximum(offered, 1)
        return total // len(names)

    def gathering(self, pod_class: PodClass, nodes: NodeColumns, room: Counts, wanted: int) -> Gathering:
        """Begin the choice of nodes for `wanted` pods, where int64[rows] `room` says how many each could take."""
        return Gathering.begun(self, pod_class, nodes, room, wanted)


@dataclass(frozen=True, slots=True)
class Gathering:
    """The choice of nodes for the pods of one gang, of which a single pod is the smallest.

    Of the pods still to be placed, a node could take t. More pods on one node are better, by one share of `most` each;
    of nodes that could take the same number, the one that would be fuller is better. For a single pod that is the score
    itself. A node that has been begun keeps its worth while it is filled and others can only lose theirs, so deciding
    pod by pod would go on there until it is full: nodes can be taken whole.

    Attributes:
        most: The most pods that one node could take at the beginning.
    """

    packing: Packing
    pod_class: PodClass
    nodes: NodeColumns
    most: int

    @classmethod
    def begun(cls, packing: Packing, pod_class: PodClass, nodes: NodeColumns, room: Counts, wanted: int) -> Gathering:
        """Begin the choice of nodes for `wanted` pods, where int64[rows] `room` says how many each could take."""
        return cls(packing, pod_class, nodes, max(1, min(int(room.max(initial=0)), wanted)))

    def worth(self, rows: Rows, base: Scores, placed: Counts | int, takes: Counts) -> Scores:
        """Return int64[k]: what each row is worth to the next pod, in `most`ths of a point.

        Args:
            rows: int64[k].
            base: int64[k], what all other scores add up to.
            placed: int64[k], pods of this choice on each row that are not on the columns yet.
            takes: int64[k], how many more it could take of those still to be placed.
        """
        there = placed + takes
        used = self.packing.in_use(self.pod_class, self.nodes, rows, there)
        worth: Scores = base * self.most + self.packing.weight * (MAX_SCORE * (there - 1) + used)
        return worth

    def order(self, rows: Rows, room: Counts, base: Scores, wanted: int) -> Rows:
        """Return the rows of the next pods, node after node; at least one, at most `wanted`.

        Args:
            rows: int64[k], those with room.
            room: int64[k], theirs.
            base: int64[k], what all other scores add up to.
            wanted: How many pods are to be placed.
        """
        worth = self.worth(rows, base, 0, np.minimum(room, wanted))
        if wanted < int(room.max()):
            best = int(worth.argmax())
            return np.repeat(rows[best], min(int(room[best]), wanted))
        # As long as every node that is left could be filled, what is left to place changes nothing in their worth.
        best_first = np.argsort(-worth, kind="stable")
        sizes = room[best_first]
        left = wanted - (np.cumsum(sizes) - sizes)
        largest = np.maximum.accumulate(sizes[::-1])[::-1]
        full = np.flatnonzero(left < largest)
        count = int(full[0]) if len(full) else len(sizes)
        return np.repeat(rows[best_first[:count]], sizes[:count])
