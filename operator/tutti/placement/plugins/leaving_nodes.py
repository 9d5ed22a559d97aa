"""Nodes that are about to be taken away by an autoscaler: no gang is put on them.

cluster-autoscaler marks a node that it removes with the taint `ToBeDeletedByClusterAutoscaler:NoSchedule`, and one that
it would remove after a while with `DeletionCandidateOfClusterAutoscaler:PreferNoSchedule` (1.36, utils/taints);
Karpenter marks one that it drains with `karpenter.sh/disrupted:NoSchedule` (`karpenter.sh/disruption` before 1.0).

A node that is being removed is ruled out for gangs whatever their pods tolerate: a gang that loses a member is broken.
Single pods go by their tolerations, as everywhere. A candidate is not ruled out: a pod on it makes it needed, and the
autoscaler, which counts on its room, adds no other in its place. It is the last resort: a gang is placed on it where it
finds no room without.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import FlavorConstraints, KeptOff, Mask, Rejection

GOING = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""Taints of nodes that are being taken away."""

CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
"""The taint of nodes that will be, unless they are needed."""

LEAVING = "node(s) were leaving the cluster"
"""Why a gang cannot go to a node that is ruled out by that."""

NEEDLESS = "node(s) were to be removed unless they are needed"
"""Why it is looked first whether a gang fits elsewhere than on a candidate."""


def with_taint(nodes: NodeColumns, keys: Collection[str]) -> Mask | None:
    """Return bool[rows]: which nodes have a taint of one of these keys; None where none can have."""
    if len(nodes.taint_sets) == 1:
        return None
    marked = [any(taint.key in keys for taint in taints) for taints in nodes.taint_sets]
    return np.array(marked, dtype=np.bool_)[nodes.taint_code] & nodes.present if any(marked) else None


def some_leave(nodes: NodeColumns) -> bool:
    """Whether there may be nodes that are being taken away."""
    return any(taint.key in GOING for taints in nodes.taint_sets for taint in taints)


def some_are_candidates(nodes: NodeColumns) -> bool:
    """Whether there are nodes that would be taken away after a while."""
    marked = with_taint(nodes, (CANDIDATE,))
    return marked is not None and bool(marked.any())


def is_leaving(nodes: NodeColumns, name: str) -> bool:
    """Whether a node is being taken away."""
    row = nodes.rows.get(name)
    return row is not None and any(taint.key in GOING for taint in nodes.taint_sets[nodes.taint_code[row]])


def kept_off(where: FlavorConstraints, which: KeptOff) -> FlavorConstraints:
    """Return the same constraints for pods that are kept off such nodes."""
    return msgspec.structs.replace(where, kept_off=which)


@dataclass(frozen=True, slots=True)
class LeavingNodes:
    """The filter."""

    concerns: int = field(default=Feature.TAINTS, init=False)

    def rejections(
        self,
        pod_class: PodClass,  # noqa: ARG002 - the contract's; it is not a matter of the pod
        nodes: NodeColumns,
        where: FlavorConstraints,
    ) -> Sequence[Rejection]:
        """Rule out nodes that leave, and candidates as well, where the pods are kept off these."""
        if where.kept_off is KeptOff.NOTHING:
            return ()
        leaving = with_taint(nodes, GOING)
        out = [] if leaving is None else [Rejection(LEAVING, leaving, final=True)]
        candidates = with_taint(nodes, (CANDIDATE,)) if where.kept_off is KeptOff.CANDIDATES else None
        return out if candidates is None else [*out, Rejection(NEEDLESS, candidates, final=True)]
