"""Topology: the levels at which nodes are near one another (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tutti.api.kinds.frame import AGE, Column, Object
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.model import ATOMIC, LabelKey, Model, Rule

HOSTNAME = "kubernetes.io/hostname"


class TopologyLevel(Model):
    """One level, by the node label whose value names the domain."""

    node_label: LabelKey
    """The node label whose value names the domain at this level."""


class TopologySpec(Model):
    """The levels, from coarse to fine."""

    levels: list[TopologyLevel] = Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)
    """The levels, from coarse to fine."""
    RULES: ClassVar = (
        Rule(
            message="levels cannot be changed: make another Topology and point the flavor at it",
            cel="self.levels == oldSelf.levels",
            path=".levels",
        ),
        Rule(
            message="each nodeLabel may stand in one level only",
            holds=lambda it: len({level.node_label for level in it.levels}) == len(it.levels),
            cel="self.levels.all(a, self.levels.exists_one(b, a.nodeLabel == b.nodeLabel))",
            path=".levels",
        ),
        Rule(
            message=f"{HOSTNAME} can only be the last level, since nothing is finer than a node",
            holds=lambda it: all(level.node_label != HOSTNAME for level in it.levels[:-1]),
            cel=f"self.levels.all(a, a.nodeLabel != '{HOSTNAME}' || a == self.levels[size(self.levels) - 1])",
            path=".levels",
        ),
    )


class Topology(Object):
    """How nodes are near one another."""

    KIND: ClassVar = "Topology"
    PLURAL: ClassVar = "topologies"
    COLUMNS: ClassVar = (Column("Levels", ".spec.levels[*].nodeLabel"), AGE)

    spec: TopologySpec
    status: ConditionsOnly = ConditionsOnly()
