"""What the author of a plugin imports, and nothing else: these names stay when the rooms behind them change.

A plugin is a class with one or more of the methods `filter`, `score`, `sort` and `permit`, offered as an entry point of
the group `tutti.plugins` and enabled by name in a profile; see docs/plugins.md, and examples/ for one of each.
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
from tutti.placement.extension import ChangesWithTime, FilterPlugin, Nodes, Pods, ReadsPodLabels, Rooms, ScorePlugin
from tutti.placement.framework import Mask, Rows, Scores

__all__ = [
    "ChangesWithTime",
    "FilterPlugin",
    "Go",
    "Mask",
    "Nodes",
    "PermitPlugin",
    "Placed",
    "Pods",
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
