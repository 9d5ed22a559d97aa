"""ResourceFlavor: a kind of node that quota is counted in (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tutti.api.kinds.frame import AGE, Column, Object
from tutti.api.kinds.matching import LabelValue, Taint, Toleration
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.model import ATOMIC, Model, Name, Quantity, ResourceName, Rule


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
        Rule(
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
        Column("Topology", ".spec.topologyName", priority=1),
        Column("Active", '.status.conditions[?(@.type=="Active")].status'),
        AGE,
    )

    spec: ResourceFlavorSpec = ResourceFlavorSpec()
    status: ConditionsOnly = ConditionsOnly()
