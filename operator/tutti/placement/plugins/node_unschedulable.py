"""Cordoned nodes take only pods that tolerate it (kube-scheduler 1.36, plugins/nodeunschedulable)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.api.selectors import HARD_EFFECTS, Taint, untolerated
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Rejection, Where

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REASON = "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """The filter."""

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:
        """Rule out cordoned nodes, unless the pod does not mind."""
        if untolerated([CORDONED], (*klass.spec.tolerations, *where.tolerations), HARD_EFFECTS) is None:
            return ()
        return (Rejection(REASON, nodes.unschedulable.copy(), final=True),)
