"""Nodes that take or offer less than they did: what is reserved on them is looked at again.

Whether it still stands, `reservation.is_whole` says; what does not is given back, and made elsewhere if it can be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.selectors import Taint
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.workloads import Phase


class NodeOffer(NamedTuple):
    """What a node offers, and to whom."""

    amounts: NDArray[np.int64]
    taints: tuple[Taint, ...]
    cordoned: bool


def offer_of(state: LifecycleState, node: str) -> NodeOffer | None:
    """Return what a node offers now; None where it is not known."""
    nodes = state.cluster.nodes
    row = nodes.rows.get(node)
    if row is None:
        return None
    taints = nodes.taint_sets[nodes.taint_code[row]]
    return NodeOffer(nodes.allocatable[row].copy(), taints, bool(nodes.unschedulable[row]))


def node_changed(state: LifecycleState, node: str, before: NodeOffer | None) -> None:
    """Look again at what is reserved on a node that has been seen, if it is worse than before."""
    now = offer_of(state, node)
    if before is None or now is None or not _is_worse(before, now):
        return
    for record in state.cluster.on_node(node):
        if record.assumed and record.key in state.pod_group_of:
            state.touch(state.pod_group_of[record.key][0])
    if not state.cluster.held.on_node(node):
        return
    for workload in state.timers:
        if workload.phase is Phase.RESERVED:
            state.touch(workload.key)  # that of promised members may be among it


def _is_worse(before: NodeOffer, now: NodeOffer) -> bool:
    if now.cordoned > before.cordoned or not set(now.taints) <= set(before.taints):
        return True
    return bool((now.amounts[: len(before.amounts)] < before.amounts).any())
