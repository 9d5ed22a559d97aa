"""A pod admitted into a flavor runs only on that flavor's nodes. Ours; kube-scheduler knows no flavors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement import selection
from tutti.placement.framework import Rejection, Where

REASON = "node(s) didn't belong to the assigned flavor"


@dataclass(frozen=True, slots=True)
class FlavorLabels:
    """The filter."""

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes without the flavor's labels."""
        if not where.node_labels:
            return ()
        return (Rejection(REASON, ~selection.equals(nodes, where.node_labels), final=True),)
