"""What the nodes of one kind offer together, and what of it is free: sums over columns, for quota and its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import Node
from tutti.api.quantity import MAX_UNITS
from tutti.api.selectors import Taint, Tolerance, Toleration
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.pods import readable_amounts
from tutti.cluster.requests import POD_LEVEL

UNSCHEDULABLE_TAINTS = frozenset(
    f"node.kubernetes.io/{state}"
    for state in ("not-ready", "unreachable", "unschedulable", "network-unavailable", "out-of-service")
)
"""Taints that Kubernetes puts on nodes that are not ready or take no pods, whatever pods tolerate."""

BROKEN_TAINTS = frozenset(f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "out-of-service")) | {
    "node.cloudprovider.kubernetes.io/shutdown"
}
"""Those by which Kubernetes, or whoever operates it, says that a node runs no pods now and tells nothing of them."""

LabelPairs = Sequence[tuple[str, str]]


_SAFE = 0.99 * MAX_UNITS
"""Up to where a sum of floats tells for sure that the same sum of int64 has not wrapped around."""


class FreeCapacity(NamedTuple):
    """What is free on nodes, per resource column: int64[resources] each, in scheduling units.

    `total` is the sum over the nodes, `most` the most that is free on any one of them.
    """

    total: NDArray[np.int64]
    most: NDArray[np.int64]


def is_working(node: Node) -> bool:
    """Whether a node runs pods and tells what becomes of them: it is ready, reachable and not out of service."""
    unready = any(one.type == "Ready" and one.status in ("False", "Unknown") for one in node.status.conditions)
    return not unready and not any(taint.key in BROKEN_TAINTS for taint in node.spec.taints)


def machine_capacity(node: Node) -> tuple[int, int]:
    """Return the cpu, in milli-cores, and memory of a machine; of what it does not say it has what it offers."""
    there = {**node.status.allocatable, **node.status.capacity}
    said, _ = readable_amounts({name: there[name] for name in POD_LEVEL if name in there})
    return min(said.get("cpu", 0), MOST_AMOUNT), min(said.get("memory", 0), MOST_AMOUNT)


def allocatable_of_nodes(nodes: NodeColumns, labels: LabelPairs) -> NDArray[np.int64]:
    """Return what all nodes with these labels offer that are ready and take pods: int64[resources]."""
    return sum_over_nodes(nodes.allocatable[taking_pods(nodes, labels)])


def free_capacity(
    nodes: NodeColumns, labels: LabelPairs, taints: Sequence[Taint], tolerations: Sequence[Toleration]
) -> FreeCapacity:
    """Return what is free on the nodes with these labels.

    Nodes that are not ready, are cordoned, or have a taint that is neither among `taints` nor tolerated do not count,
    and of a node on which more is taken than there is, nothing is free.
    """
    tolerance = Tolerance(tolerations)
    open_to = [
        tolerance.first_beyond(taint for taint in one if taint not in taints) is None for one in nodes.taint_sets
    ]
    rows = taking_pods(nodes, labels) & np.array(open_to, dtype=np.bool_)[nodes.taint_code]
    left = (nodes.allocatable[rows] - nodes.requested[rows]).clip(min=0)
    return FreeCapacity(sum_over_nodes(left), left.max(axis=0, initial=0))


def sum_over_nodes(amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sums over nodes, int64[resources] of int64[rows, resources], none negative; at most 2**63 - 1 each."""
    about = amounts.sum(axis=0, dtype=np.float64)
    total: NDArray[np.int64] = np.where(about < _SAFE, amounts.sum(axis=0), MAX_UNITS)
    return total


def free_per_node(nodes: NodeColumns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is free on each node, and what it offers: int64[rows, resources] each, in scheduling units.

    A node that is not ready or takes no pods has and offers nothing.
    """
    rows = taking_pods(nodes, ())[:, None]
    return np.where(rows, nodes.allocatable - nodes.requested, 0).clip(min=0), np.where(rows, nodes.allocatable, 0)


def taking_pods(nodes: NodeColumns, labels: LabelPairs) -> NDArray[np.bool_]:
    """Return which rows hold a node that has these labels, is ready and takes pods: bool[rows]."""
    fit = [not any(taint.key in UNSCHEDULABLE_TAINTS for taint in one) for one in nodes.taint_sets]
    rows = nodes.present & ~nodes.unschedulable & np.array(fit, dtype=np.bool_)[nodes.taint_code]
    for key, value in labels:
        column = nodes.label(key)
        code = column.code_of.get(value)
        rows = rows & (column.codes[: len(nodes)] == code) if code is not None else np.zeros_like(rows)
    return rows
