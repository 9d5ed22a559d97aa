"""ResourceFlavor and Topology: the kinds of nodes that quota is counted in, and how near these are to one another.

Fields are those of Kueue v1beta2.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tutti.api.kinds.matching import LabelValue, Taint, Toleration
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.model import (
    ACTIVE_COLUMN,
    AGE_COLUMN,
    ATOMIC,
    LabelKey,
    Model,
    Name,
    Object,
    PrinterColumn,
    Quantity,
    ResourceName,
    ValidationRule,
)


class ResourceFlavorSpec(Model):
    """The labels and taints its nodes have, and the tolerations that its pods are given."""

    node_labels: dict[str, LabelValue] = Field(
        default={}, max_length=8, json_schema_extra={"x-kubernetes-map-type": "atomic"}
    )
    """The labels that nodes of this flavor have."""
    node_taints: list[Taint] = Field(default=[], max_length=8, json_schema_extra=ATOMIC)
    """The taints that nodes of this flavor have; pods must tolerate them to get it."""
    tolerations: list[Toleration] = Field(default=[], max_length=8, json_schema_extra=ATOMIC)
    """Tolerations that pods of this flavor are treated as having."""
    topology_name: Name = ""
    """The Topology of these nodes, by which pods counted in this flavor can be kept near one another."""
    resource_weights: Annotated[dict[ResourceName, Quantity], Field(max_length=16)] = {}
    """What one unit of a resource counts in this flavor where queues are compared by their shares of what they borrow,
    or use: a device of 8 counts as much as eight of 1. What is not named counts 1. (Kueue, KEP-8902.)"""
    RULES: ClassVar = (
        ValidationRule(
            message="resourceWeights must be above 0: what should not count has no place in fair sharing",
            holds=lambda it: all(weight > 0 for weight in it.resource_weights.values()),
            cel="!has(self.resourceWeights)"
            " || self.resourceWeights.all(r, string(self.resourceWeights[r]).matches('^[^eE]*[1-9]'))",
        ),
    )


class ResourceFlavor(Object):
    """A kind of node."""

    KIND: ClassVar = "ResourceFlavor"
    PLURAL: ClassVar = "resourceflavors"
    SHORT_NAMES: ClassVar = ("rf", "flavor", "flavors")
    COLUMNS: ClassVar = (
        PrinterColumn("Topology", ".spec.topologyName", priority=1),
        ACTIVE_COLUMN,
        AGE_COLUMN,
    )

    spec: ResourceFlavorSpec = ResourceFlavorSpec()
    status: ConditionsOnly = ConditionsOnly()


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
        ValidationRule(
            message="levels cannot be changed: make another Topology and point the flavor at it",
            cel="self.levels == oldSelf.levels",
            path=".levels",
        ),
        ValidationRule(
            message="each nodeLabel may stand in one level only",
            holds=lambda it: len({level.node_label for level in it.levels}) == len(it.levels),
            cel="self.levels.all(a, self.levels.exists_one(b, a.nodeLabel == b.nodeLabel))",
            path=".levels",
        ),
        ValidationRule(
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
    COLUMNS: ClassVar = (PrinterColumn("Levels", ".spec.levels[*].nodeLabel"), AGE_COLUMN)

    spec: TopologySpec
    status: ConditionsOnly = ConditionsOnly()
