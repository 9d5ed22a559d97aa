"""The filters: which nodes a class of pods may run on.

They stand in kube-scheduler's order, because a node is counted under the first filter that rules it out.
Texts: kube-scheduler 1.36, as autoscalers and users know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.taints import HARD_EFFECTS, Taint, untolerated
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement import selection
from tutti.placement.framework import Filter, Mask, Where

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """Cordoned nodes take only pods that tolerate it."""

    reason: str = "node(s) were unschedulable"

    def mask(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Mask:
        """Return bool[rows]: True where the node is not cordoned, or the pod does not mind."""
        tolerations = (*klass.spec.tolerations, *where.tolerations)
        if untolerated([CORDONED], tolerations, HARD_EFFECTS) is None:
            return nodes.present.copy()
        return nodes.present & ~nodes.unschedulable


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """Taints keep out pods that do not tolerate them."""

    reason: str = "node(s) had untolerated taint(s)"

    def mask(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Mask:
        """Return bool[rows]: True where every NoSchedule and NoExecute taint is tolerated."""
        tolerations = (*klass.spec.tolerations, *where.tolerations)
        welcome = np.fromiter(
            (untolerated(taints, tolerations, HARD_EFFECTS) is None for taints in nodes.taint_sets),
            dtype=np.bool_,
            count=len(nodes.taint_sets),
        )
        return welcome[nodes.taint_code]


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """`nodeSelector` and required node affinity must both match."""

    reason: str = "node(s) didn't match Pod's node affinity/selector"

    def mask(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Mask:  # noqa: ARG002 - a filter's signature
        """Return bool[rows]: True where the pod's own selectors match."""
        out = selection.node_selector(nodes, klass.spec.node_selector)
        affinity = klass.spec.affinity
        if affinity is not None and affinity.node_affinity is not None:
            required = affinity.node_affinity.required
            if required is not None:
                out &= selection.any_term(nodes, required)
        return out


@dataclass(frozen=True, slots=True)
class FlavorLabels:
    """A pod admitted into a flavor runs only on that flavor's nodes."""

    reason: str = "node(s) didn't belong to the assigned flavor"

    def mask(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Mask:  # noqa: ARG002 - a filter's signature
        """Return bool[rows]: True where the node carries the flavor's labels."""
        return selection.equals(nodes, where.node_labels)


DEFAULT_FILTERS: tuple[Filter, ...] = (NodeUnschedulable(), TaintToleration(), NodeAffinity(), FlavorLabels())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all filters say about one class.

    Attributes:
        mask: bool[rows], True where the class may run.
        first: int8[rows], the index of the first filter that ruled a node out, or the number of filters.
    """

    mask: Mask
    first: np.typing.NDArray[np.int8]


def judge(klass: PodClass, nodes: NodeColumns, where: Where, *, filters: Sequence[Filter] = DEFAULT_FILTERS) -> Verdict:
    """Return the verdict of all filters on a class, kept on the class while the columns they read are unchanged."""
    key = ("verdict", where)
    kept = klass.cache.get(key)
    if isinstance(kept, tuple) and kept[0] == (nodes.version, len(nodes)):
        verdict: Verdict = kept[1]
        return verdict
    first = np.full(len(nodes), len(filters), dtype=np.int8)
    mask = nodes.present.copy()
    for index, one in enumerate(filters):
        allowed = one.mask(klass, nodes, where)
        first[mask & ~allowed] = index
        mask &= allowed
    verdict = Verdict(mask, first)
    klass.cache[key] = ((nodes.version, len(nodes)), verdict)
    return verdict
