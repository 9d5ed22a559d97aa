"""Parts that several kinds share: selectors, taints and quotas as users write them, explanations, usage."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field

from tutti.api import labels, taints
from tutti.api.conditions import Condition
from tutti.api.model import (
    ATOMIC,
    STRICT,
    Count,
    LabelKey,
    Lenient,
    Metadata,
    Model,
    Name,
    Quantity,
    QuantityText,
    Record,
    ResourceName,
    Rule,
    list_map,
)

CONDITIONS: dict[str, Any] = list_map("type")
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
LabelValue = Annotated[str, Field(max_length=63)]


class Column(NamedTuple):
    """A column of `kubectl get`; one of priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


AGE = Column("Age", ".metadata.creationTimestamp", "date")


class Object(BaseModel):
    """The frame of a kind: what it is called, whether it lives in a namespace, how `kubectl get` shows it."""

    model_config = STRICT
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    NAMESPACED: ClassVar[bool] = False
    COLUMNS: ClassVar[tuple[Column, ...]] = (AGE,)

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()


class LabelRequirementText(Model):
    """A label expression as users write it."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    RULES: ClassVar = (
        Rule(
            message="In and NotIn need at least one value; Exists and DoesNotExist take none",
            holds=lambda it: bool(it.values) == (it.operator in ("In", "NotIn")),
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        ),
    )


class LabelSelectorText(Model):
    """A label selector as users write it."""

    match_labels: dict[str, LabelValue] = Field(default={}, max_length=64)
    match_expressions: list[LabelRequirementText] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)


LabelSelector = Annotated[labels.LabelSelector, Record(labels.LabelSelector, LabelSelectorText)]


class TaintText(Model):
    """A taint as users write it."""

    key: LabelKey
    value: LabelValue = ""
    effect: Effect
    time_added: str = Field(default="", max_length=64)


Taint = Annotated[taints.Taint, Record(taints.Taint, TaintText)]


class TolerationText(Model):
    """A toleration as users write it."""

    key: LabelKey = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue = ""
    effect: Effect | None = None
    toleration_seconds: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    RULES: ClassVar = (
        Rule(
            message="an empty key needs operator Exists: it tolerates every taint",
            holds=lambda it: bool(it.key) or it.operator == "Exists",
            cel="(has(self.key) && self.key != '') || self.operator == 'Exists'",
        ),
        Rule(
            message="operator Exists takes no value: leave value out, or use Equal",
            holds=lambda it: it.operator != "Exists" or not it.value,
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
        ),
        Rule(
            message="tolerationSeconds needs effect NoExecute: other effects never evict",
            holds=lambda it: it.toleration_seconds is None or it.effect == "NoExecute",
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        ),
    )


Toleration = Annotated[taints.Toleration, Record(taints.Toleration, TolerationText)]


class ResourceQuota(Model):
    """How much of one resource of one flavor; amounts are milli-units."""

    name: ResourceName
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Model):
    """The quota in one flavor."""

    name: Name
    resources: list[ResourceQuota] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))


class ResourceGroup(Model):
    """Resources that a pod gets in the same flavor, and the flavors, in the order in which they are tried."""

    covered_resources: list[ResourceName] = Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)
    flavors: list[FlavorQuotas] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    RULES: ClassVar = (
        Rule(
            message="every flavor must list exactly the coveredResources, in the same order",
            holds=lambda it: all([r.name for r in f.resources] == it.covered_resources for f in it.flavors),
            cel="self.flavors.all(f, f.resources.map(r, r.name) == self.coveredResources)",
        ),
    )


ResourceGroups = Annotated[list[ResourceGroup], Field(max_length=16, json_schema_extra=ATOMIC)]


def appear_once(spec: Any) -> bool:
    """Whether each resource and each flavor of a spec's resource groups stands in one place only."""
    resources = [name for group in spec.resource_groups for name in group.covered_resources]
    flavors = [flavor.name for group in spec.resource_groups for flavor in group.flavors]
    return len(resources) == len(set(resources)) and len(flavors) == len(set(flavors))


def has_limit(spec: Any) -> bool:
    """Whether any quota of a spec's resource groups limits borrowing or lending."""
    return any(
        quota.borrowing_limit is not None or quota.lending_limit is not None
        for group in spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    )


APPEAR_ONCE = Rule(
    message="a resource and a flavor may stand in one resource group only, and once: merge the groups",
    holds=appear_once,
)


class FairSharing(Model):
    """The share of unused quota this one gets, relative to its siblings."""

    weight: Quantity = Field(default=1000, json_schema_extra={"default": 1})


class FlavorUsage(Lenient):
    """How much of one flavor is used."""

    class Resource(Lenient):
        """How much of one resource is used: quantities as text."""

        name: str
        total: QuantityText = "0"
        borrowed: QuantityText = "0"

    name: str
    resources: list[Resource] = Field(default=[], max_length=64, json_schema_extra=list_map("name"))


Gate = Literal["Gather", "Queue", "Quota", "Placement", "Permit", "Victims"]


class Reason(Lenient):
    """One thing that keeps a workload waiting: at which gate, why, and the figures."""

    gate: Gate
    reason: str = Field(max_length=256)
    message: str = Field(default="", max_length=32768)
    details: dict[str, str] = Field(default={}, max_length=64)


class Pending(Lenient):
    """The one current explanation of why something waits, the most telling reason first."""

    position: int | None = None
    since: str = Field(default="", json_schema_extra={"format": "date-time"})
    reasons: list[Reason] = Field(default=[], max_length=16, json_schema_extra=ATOMIC)


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=CONDITIONS)]
Usage = Annotated[list[FlavorUsage], Field(max_length=64, json_schema_extra=list_map("name"))]


class ConditionsOnly(Lenient):
    """The status of a kind that counts nothing."""

    conditions: Conditions = []


class QueueStatus(Lenient):
    """The status of both kinds of queue: how many workloads wait and run, and what they use."""

    conditions: Conditions = []
    pending_workloads: Count = 0
    reserving_workloads: Count = 0
    admitted_workloads: Count = 0
    flavors_reservation: Usage = []
    flavors_usage: Usage = []
