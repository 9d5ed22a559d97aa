"""Taints keep out, or put off, pods that do not tolerate them (kube-scheduler 1.36, plugins/tainttoleration)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.selectors import HARD_EFFECTS, PREFER_NO_SCHEDULE, Toleration, untolerated
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Mask, Rejection, Scores, Where

REASON = "node(s) had untolerated taint(s)"


def welcome(nodes: NodeColumns, tolerations: Sequence[Toleration]) -> Mask:
    """Return bool[rows]: True where every NoSchedule and NoExecute taint is tolerated."""
    answers = np.fromiter(
        (untolerated(taints, tolerations, HARD_EFFECTS) is None for taints in nodes.taint_sets),
        dtype=np.bool_,
        count=len(nodes.taint_sets),
    )
    return answers[nodes.taint_code]


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """The filter."""

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:
        """Rule out nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        if len(nodes.taint_sets) == 1:
            return ()
        allowed = welcome(nodes, (*klass.spec.tolerations, *where.tolerations))
        return () if allowed.all() else (Rejection(REASON, ~allowed, final=True),)


@dataclass(frozen=True, slots=True)
class PreferUntainted:
    """The score: the fewer PreferNoSchedule taints a pod does not tolerate, the better."""

    name: str = "TaintToleration"
    weight: int = 3
    scaled: bool = True
    reverse: bool = True

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows]: how many such taints each node has."""
        counts = [
            sum(
                taint.effect == PREFER_NO_SCHEDULE
                and not any(toleration.tolerates(taint) for toleration in klass.spec.tolerations)
                for taint in taints
            )
            for taints in nodes.taint_sets
        ]
        if not any(counts):
            return np.zeros(len(nodes), dtype=np.int64)
        return np.array(counts, dtype=np.int64)[nodes.taint_code]
