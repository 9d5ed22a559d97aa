"""Which nodes are open again because less was measured there, or because nobody measures them any more."""

from __future__ import annotations

import math

import numpy as np

from tutti.engine.admission import AdmissionState
from tutti.placement.plugins.load_thresholds import LoadThresholds


def follow_load(state: AdmissionState) -> None:
    """Tell what was measured what time it is, and have those who wait tried again where a node is open that was not.

    A figure that grows too old rules nobody out any more, so that is due without anything being observed.
    """
    nodes = state.cluster.nodes
    load = nodes.load
    if not load:
        return
    load.now, due = state.now, math.inf
    for name, profile in state.profiles.items():
        for one in profile.inter_pod:
            if not isinstance(one, LoadThresholds):
                continue
            rows = np.flatnonzero(one.beyond(nodes))
            closed = frozenset(nodes.names[row] for row in rows)
            if state.closed_by_load.get(name, frozenset()) - closed:
                state.cluster.freed.anywhere()
            state.closed_by_load[name] = closed
            if one.expected:
                due = min(due, _follow_headroom(state, name, one))
            if len(rows):
                due = min(due, float(load.measured_at[rows].min()) + one.max_age + 1)
    state.load_due = due


def _follow_headroom(state: AdmissionState, profile: str, thresholds: LoadThresholds) -> float:
    """Have those who wait tried again where a node has come further below a bound; return when one is free of it."""
    nodes, left = state.cluster.nodes, thresholds.headroom(state.cluster.nodes)
    rows = np.flatnonzero(np.isfinite(left))
    now = {nodes.names[row]: float(left[row]) for row in rows}
    before = state.load_headroom.get(profile, {})
    if any(now.get(name, math.inf) > more for name, more in before.items()):
        state.cluster.freed.anywhere()
    state.load_headroom[profile] = now
    return float(nodes.load.measured_at[rows].min()) + thresholds.max_age + 1 if len(rows) else math.inf


def next_load_due(state: AdmissionState) -> float:
    """Return when the first figure that rules a node out is too old to do so, Unix seconds; inf: none does."""
    return state.load_due
