"""Two pods cannot take the same port of a node (kube-scheduler 1.36, plugins/nodeports)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import FlavorConstraints, Mask, Rejection

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"


@dataclass(slots=True)
class PortState:
    """Where the ports of a class are taken; pods of one class always conflict with each other.

    Attributes:
        taken: bool[rows].
        conflicting: bool[codes], the residents that take one.
    """

    taken: Mask
    conflicting: Codes
    moves: bool = False
    alone: bool = True

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes where a port is taken."""
        return (Rejection(PORT_TAKEN, self.taken),)

    def in_the_way(self, nodes: NodeColumns) -> Codes:  # noqa: ARG002 - what every such tally is asked
        """Return bool[codes]: those that take a port."""
        return self.conflicting

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.taken[row] = True


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The filter."""

    def tally(self, klass: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> PortState | None:  # noqa: ARG002 - a filter's signature
        """Find where a port of the class is taken; None where the class takes none."""
        wanted = klass.company.ports
        if not wanted:
            return None
        residents = nodes.residents
        conflicting = np.zeros(residents.codes, dtype=np.bool_)
        for code, kin in residents.with_ports():
            conflicting[code] = any(port.conflicts(one) for port in kin.company.ports for one in wanted)
        taken = np.zeros(len(nodes), dtype=np.bool_)
        taken[residents.where(conflicting)[0]] = True
        return PortState(taken, conflicting)
