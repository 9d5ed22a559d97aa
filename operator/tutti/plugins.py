"""What the author of a plugin imports, and nothing else: these names stay when the rooms behind them change.

A plugin is a class with one or more of the methods `filter`, `score`, `policy`, `sort` and `permit`, offered as an
entry point of the group `tutti.plugins` and enabled by name in a profile; see docs/plugins.md, and examples/.
"""

from __future__ import annotations

from tutti.engine.records.plugins import (
    Go,
    PermitPlugin,
    Placed,
    ReadsAnnotations,
    Refuse,
    Reservation,
    SortPlugin,
    Verdict,
    Wait,
    Waiting,
)
from tutti.placement.extension import (
    ChangesWithTime,
    FilterPlugin,
    Nodes,
    Pods,
    PolicyPlugin,
    ReadsPodLabels,
    Rooms,
    ScorePlugin,
)
from tutti.placement.framework import Mask, Rows, Scores
from tutti.placement.policy_features import FEATURES_VERSION, POLICY_FEATURES, PolicyFeature

__all__ = [
    "FEATURES_VERSION",
    "POLICY_FEATURES",
    "ChangesWithTime",
    "FilterPlugin",
    "Go",
    "Mask",
    "Nodes",
    "PermitPlugin",
    "Placed",
    "Pods",
    "PolicyFeature",
    "PolicyPlugin",
    "ReadsAnnotations",
    "ReadsPodLabels",
    "Refuse",
    "Reservation",
    "Rooms",
    "Rows",
    "ScorePlugin",
    "Scores",
    "SortPlugin",
    "Verdict",
    "Wait",
    "Waiting",
]
