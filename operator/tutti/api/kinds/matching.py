"""Selectors, node affinity, taints and tolerations as users write them; kept as records that match (`tutti.api`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api import selectors
from tutti.api.model import ATOMIC, LabelKey, Model, Record, ValidationRule
from tutti.api.selectors import NAME_FIELD

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
LabelValue = Annotated[str, Field(max_length=63)]


def _has_right_values(operator: str, values: Sequence[str]) -> bool:
    match operator:
        case "In" | "NotIn":
            return bool(values)
        case "Gt" | "Lt":
            return len(values) == 1 and values[0].lstrip("+-").isdecimal()
        case _:
            return not values


class LabelRequirementText(Model):
    """A label expression as users write it."""

    key: LabelKey
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In, NotIn, Exists or DoesNotExist."""
    values: list[LabelValue] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    """The values for In and NotIn."""
    RULES: ClassVar = (
        ValidationRule(
            message="In and NotIn need at least one value; Exists and DoesNotExist take none",
            holds=lambda it: bool(it.values) == (it.operator in ("In", "NotIn")),
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        ),
    )


class LabelSelectorText(Model):
    """A label selector as users write it."""

    match_labels: dict[str, LabelValue] = Field(default={}, max_length=64)
    """Labels that must have exactly these values."""
    match_expressions: list[LabelRequirementText] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    """Expressions that must all hold."""


LabelSelector = Annotated[selectors.LabelSelector, Record(selectors.LabelSelector, LabelSelectorText)]


class TaintText(Model):
    """A taint as users write it."""

    key: LabelKey
    """The taint's key."""
    value: LabelValue = ""
    """The taint's value."""
    effect: Effect
    """PreferNoSchedule is not counted here."""
    time_added: str = Field(default="", max_length=64)
    """When the taint was added; not used."""


Taint = Annotated[selectors.Taint, Record(selectors.Taint, TaintText)]


class TolerationText(Model):
    """A toleration as users write it."""

    key: LabelKey = ""
    """The taint's key; empty, with Exists: every key."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal compares the value, Exists does not."""
    value: LabelValue = ""
    """The taint's value."""
    effect: Effect | None = None
    """The taint's effect; left out: every effect."""
    toleration_seconds: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    """How long a NoExecute taint is tolerated."""
    RULES: ClassVar = (
        ValidationRule(
            message="an empty key needs operator Exists: it tolerates every taint",
            holds=lambda it: bool(it.key) or it.operator == "Exists",
            cel="(has(self.key) && self.key != '') || self.operator == 'Exists'",
        ),
        ValidationRule(
            message="operator Exists takes no value: leave value out, or use Equal",
            holds=lambda it: it.operator != "Exists" or not it.value,
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
        ),
        ValidationRule(
            message="tolerationSeconds needs effect NoExecute: other effects never evict",
            holds=lambda it: it.toleration_seconds is None or it.effect == "NoExecute",
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        ),
    )


Toleration = Annotated[selectors.Toleration, Record(selectors.Toleration, TolerationText)]


class NodeRequirementText(Model):
    """An expression over node labels or fields, as users write it."""

    key: LabelKey
    """The label's key, or metadata.name."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """In, NotIn, Exists, DoesNotExist, or, on integers, Gt and Lt."""
    values: list[LabelValue] = []
    """What it compares with."""
    RULES: ClassVar = (
        ValidationRule(
            message="In and NotIn need a value at least, Gt and Lt one integer; Exists and DoesNotExist take none",
            holds=lambda it: _has_right_values(it.operator, it.values),
        ),
    )


class NodeTermText(Model):
    """Expressions that must all hold, as users write them."""

    match_expressions: list[NodeRequirementText] = []
    match_fields: list[NodeRequirementText] = []
    RULES: ClassVar = (
        ValidationRule(
            message="a term without matchExpressions and matchFields matches no node; give it at least one",
            holds=lambda it: bool(it.match_expressions or it.match_fields),
        ),
        ValidationRule(
            message=f"matchFields knows only {NAME_FIELD}, with In or NotIn and one value",
            holds=lambda it: all(
                one.key == NAME_FIELD and one.operator in ("In", "NotIn") and len(one.values) == 1
                for one in it.match_fields
            ),
        ),
    )


class NodeSelectorText(Model):
    """Terms of which one must match, as users write them."""

    node_selector_terms: Annotated[list[NodeTermText], Field(min_length=1)]


class PreferredTermText(Model):
    """A term with the weight it adds, as users write it."""

    weight: Annotated[int, Field(ge=1, le=100)]
    preference: NodeTermText


class NodeAffinityText(Model):
    """Node affinity as users write it."""

    required: NodeSelectorText | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTermText] = Field(default=[], alias="preferredDuringSchedulingIgnoredDuringExecution")
    RULES: ClassVar = (
        ValidationRule(
            message="must have required or preferred terms, or be left out",
            holds=lambda it: it.required is not None or bool(it.preferred),
        ),
    )
