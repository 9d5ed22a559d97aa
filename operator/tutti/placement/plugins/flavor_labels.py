"""A pod admitted into a flavor runs only on that flavor's nodes. Ours; kube-scheduler knows no flavors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import ABSENT, NodeColumns
from tutti.placement import selection
from tutti.placement.framework import Mask, Rejection, Where

MOST_VALUES = 3
"""How many values of a label are named that nodes have instead."""

REASON = "node(s) didn't belong to the assigned flavor"


@dataclass(frozen=True, slots=True)
class FlavorLabels:
    """The filter."""

    def rejections(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Sequence[Rejection]:  # noqa: ARG002 - a filter's signature
        """Rule out nodes without the flavor's labels."""
        if not where.node_labels:
            return ()
        return (Rejection(REASON, ~selection.equals(nodes, where.node_labels), final=True),)


def lacking(nodes: NodeColumns, where: Where) -> str:
    """Say which labels the flavor asks for that nodes lack, and what these have instead; "" where all have them."""
    parts = []
    for key, value in where.node_labels:
        lack = nodes.present & ~selection.equals(nodes, ((key, value),))
        if lack.any():
            parts.append(f"{key}={value} ({_instead(nodes, key, lack)})")
    return f"The assigned flavor asks for nodes with {' and '.join(parts)}" if parts else ""


def _instead(nodes: NodeColumns, key: str, lack: Mask) -> str:
    """Say what some nodes have of a label: the values that most of them have first."""
    column = nodes.label(key)
    codes = column.codes[: len(nodes)][lack]
    counts = np.bincount(codes[codes != ABSENT], minlength=len(column.values))
    values = [column.values[code] for code in np.flatnonzero(counts).tolist()]
    values.sort(key=lambda value: (-int(counts[column.code_of[value]]), value))
    more = [f"{len(values) - MOST_VALUES} more values"] if len(values) > MOST_VALUES else []
    none = ["no such label"] if (codes == ABSENT).any() else []
    *first, last = [*values[:MOST_VALUES], *more, *none]
    return f"the others have {', '.join(first)} or {last}" if first else f"the others have {last}"
