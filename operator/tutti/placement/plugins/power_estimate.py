"""What machines draw now, and which part of that is whose, by the power models of a profile (policy Peaks).

A machine draws k0 + k1 * e^(k2 * x) watts at x percent of its cpu: of what was measured, or, where nothing was or it is
too old, of what is requested there. All that a machine draws on which pods are counts as theirs, in the proportion of
the cpu that they request, so that the parts add up to what the machines in use draw. Those without pods are nobody's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.placed_pods import Slots
from tutti.placement.plugins.measured_load import MeasuredLoad
from tutti.placement.profile import Profile

Floats = NDArray[np.float64]

_PERCENT = 100.0


def power_rule(profile: Profile) -> MeasuredLoad | None:
    """Return the score of a profile that knows what machines draw; None where it has none."""
    rules = (one for one in profile.fill if isinstance(one, MeasuredLoad) and one.policy == "Peaks")
    return next(rules, None)


def node_watts(rule: MeasuredLoad, nodes: NodeColumns) -> Floats:
    """Return float64[rows]: what each node draws, in watts; NaN where no model is for it."""
    column = nodes.resource_index.column("cpu")
    offered = np.maximum(nodes.allocatable[:, column], 1)
    share = np.clip(_PERCENT * nodes.requested[:, column] / offered, 0, _PERCENT)
    measured = nodes.load.values("cpu")
    if measured is not None:
        young = nodes.load.ages()[: len(nodes)] <= rule.rules.max_age
        found = measured[: len(nodes)]
        share = np.where(young & ~np.isnan(found), np.clip(found, 0, _PERCENT), share)
    models = dict(rule.rules.power)
    usual = models.get("")
    k = np.full((len(nodes), 3), np.nan)
    if usual is not None:
        k[:] = (usual.k0, usual.k1, usual.k2)
    if rule.rules.power_label:
        kinds = nodes.label(rule.rules.power_label)
        for code, value in enumerate(kinds.values):
            if value in models:
                k[kinds.codes[: len(nodes)] == code] = (models[value].k0, models[value].k1, models[value].k2)
    with np.errstate(over="ignore"):
        watts: Floats = k[:, 0] + k[:, 1] * np.exp(k[:, 2] * share)
    return np.where(nodes.present & np.isfinite(watts), np.maximum(watts, 0.0), np.nan)


def watts_of(rule: MeasuredLoad, cluster: Cluster, slots: Slots) -> Floats:
    """Return float64[k]: the part of pods on nodes, in some slots, of what their nodes draw, in watts; NaN: unknown."""
    nodes, columns = cluster.nodes, cluster.pod_columns
    column = nodes.resource_index.column("cpu")
    rows = columns.row[slots].astype(np.int64)
    asked = columns.held(slots, nodes.resource_index)[:, column]
    together = np.maximum(nodes.requested[rows, column], 1)
    part: Floats = node_watts(rule, nodes)[rows] * (asked / together)
    return part
