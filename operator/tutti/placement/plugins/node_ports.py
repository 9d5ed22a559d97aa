"""Two pods cannot take the same port of a node (kube-scheduler 1.36, plugins/nodeports)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import HostPort, PodSignature
from tutti.placement.framework import FlavorConstraints, Mask, Rejection

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"


@dataclass(slots=True)
class PortState:
    """Where the ports of a class are taken; pods of one class always conflict with each other.

    Attributes:
        taken: bool[rows].
        conflicting: bool[codes], the pods on nodes that take one.
    """

    taken: Mask
    conflicting: Codes
    changes_on_add: bool = False
    one_per_node: bool = True

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes where a port is taken."""
        return (Rejection(PORT_TAKEN, self.taken),)

    def in_the_way(self, nodes: NodeColumns) -> Codes:  # noqa: ARG002 - what every such state is asked
        """Return bool[codes]: those that take a port."""
        return self.conflicting

    def add(self, row: int) -> None:
        """Count one more pod of the class on a row."""
        self.taken[row] = True


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The filter."""

    concerns: int = field(default=Feature.HOST_PORTS, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> PortState | None:  # noqa: ARG002 - a filter's signature
        """Find where a port of the class is taken; None where the class takes none."""
        wanted = pod_class.inter_pod.ports
        if not wanted:
            return None
        index = nodes.label_index
        conflicting = np.zeros(index.codes, dtype=np.bool_)
        for code, pod_signature in index.with_ports.items():
            conflicting[code] = _conflict(wanted, pod_signature)
        taken = np.zeros(len(nodes), dtype=np.bool_)
        taken[index.where(conflicting)[0]] = True
        if nodes.nominated is not None:
            taken |= nodes.nominated.count(len(nodes), partial(_conflict, wanted)) > 0
        return PortState(taken, conflicting)


def _conflict(wanted: Sequence[HostPort], other: PodSignature | PodClass) -> bool:
    """Whether pods that want some ports cannot be where another is."""
    return any(port.conflicts(one) for port in other.inter_pod.ports for one in wanted)
