"""Quotas as ClusterQueues and Cohorts state them (Kueue v1beta2 fields)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tutti.api import quantity
from tutti.api.model import (
    ATOMIC,
    QUANTITY_SCHEMA,
    Model,
    Name,
    Quantity,
    ResourceName,
    ValidationRule,
    list_map,
)
from tutti.api.quantity import Percentage

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


def _nominal(value: Any) -> int | Percentage:
    if isinstance(value, Percentage):
        return value
    if isinstance(value, str) and value.endswith("%"):
        return quantity.parse_percentage(value)
    milli = quantity.parse_quantity(value)
    if milli < 0:
        raise PydanticCustomError("greater_than_equal", "Input should be greater than or equal to 0")
    return milli


def _nominal_text(value: int | Percentage) -> str:
    return str(value) if isinstance(value, Percentage) else quantity.shortest(value)


_QUANTITY = str(QUANTITY_SCHEMA["pattern"]).removeprefix("^").removesuffix("$")
Nominal = Annotated[
    int | Percentage,
    PlainValidator(_nominal),
    PlainSerializer(_nominal_text),
    WithJsonSchema(QUANTITY_SCHEMA | {"minimum": 0, "pattern": f"^(({_QUANTITY})|({quantity.PERCENTAGE_PATTERN}))$"}),
]
"""An amount in milli-units, or a part of what the nodes of a flavor offer."""


class FlavorResourceQuota(Model):
    """How much of one resource of one flavor."""

    name: ResourceName
    """The resource: cpu, memory, nvidia.com/gpu."""
    nominal_quota: Nominal
    """How much is its own: an amount, or a percentage of what the ready nodes of the flavor that take pods offer."""
    borrowing_limit: Quantity | None = None
    """How much more it may use of what others in the cohort leave idle; left out: no limit."""
    lending_limit: Quantity | None = None
    """How much of its own it lends when idle; left out: all of it."""


class FlavorQuotas(Model):
    """The quota in one flavor."""

    name: Name
    """The ResourceFlavor."""
    resources: list[FlavorResourceQuota] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    """The quota of each covered resource, in the order of coveredResources."""


class ResourceGroup(Model):
    """Resources that a pod gets in the same flavor, and the flavors, in the order in which they are tried."""

    covered_resources: list[ResourceName] = Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)
    """The resources whose quota stands here; each in one group only."""
    flavors: list[FlavorQuotas] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    """The flavors, in the order in which they are tried."""
    RULES: ClassVar = (
        ValidationRule(
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


def limits_need(field: str, given: Callable[[Any], str]) -> ValidationRule:
    """The rule that limits on borrowing and lending need somebody to borrow from: the object that `field` names."""
    return ValidationRule(
        message=f"borrowingLimit and lendingLimit need a {field}: there is nobody to borrow from or lend to",
        holds=lambda it: bool(given(it)) or not has_limit(it),
        cel=f"has(self.{field}) || !has(self.resourceGroups) || self.resourceGroups.all(g, g.flavors.all(f, "
        "f.resources.all(r, !has(r.borrowingLimit) && !has(r.lendingLimit))))",
        path=".resourceGroups",
    )


APPEAR_ONCE = ValidationRule(
    message="a resource and a flavor may stand in one resource group only, and once: merge the groups",
    holds=appear_once,
)


class FairSharing(Model):
    """The share of unused quota this one gets, relative to its siblings."""

    weight: Quantity = Field(default=1000, json_schema_extra={"default": 1})
    """The share relative to siblings; one of 0 gives way to all others as soon as it borrows."""
