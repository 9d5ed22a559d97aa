"""Label, node and field selectors, taints and tolerations, with exactly the matching that the API documents.

Rules: Kubernetes 1.36, apimachinery/pkg/labels, component-helpers/scheduling/corev1/nodeaffinity and helpers.go, and
core/v1/toleration.go. A requirement that the API server would have refused (an unknown operator, `Gt` on text) matches
nothing, so that an object written past the server's checks is never placed by accident. The operators Lt and Gt of a
toleration are behind a gate that is off in 1.36, so one that uses them tolerates nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST_DIGITS = 4096
_LEAST, _MOST = -(2**63), 2**63 - 1
NAME_FIELD = "metadata.name"
"""The only field that a node selector term may match."""


class LabelSelectorRequirement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One expression over labels: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: list[str] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; NotIn and DoesNotExist are satisfied by an absent key."""
        return _matches(self.operator, self.values, labels.get(self.key))


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Labels that must be equal, and expressions that must all hold."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; an empty selector matches everything."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            expression.matches(labels) for expression in self.match_expressions
        )


class NodeSelectorRequirement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One expression over node labels or fields: the label operators, and Gt and Lt on integers."""

    key: str = ""
    operator: str = ""
    values: list[str] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; Gt and Lt need an integer on both sides."""
        if self.operator in ("Gt", "Lt"):
            return _compares(self.operator, self.values, labels.get(self.key))
        return _matches(self.operator, self.values, labels.get(self.key))


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Expressions over a node's labels and fields that must all hold."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name satisfies it; an empty term matches nothing."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {NAME_FIELD: name}
        return all(expression.matches(labels) for expression in self.match_expressions) and all(
            field.key == NAME_FIELD and field.matches(fields) for field in self.match_fields
        )


class NodeSelector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Terms of which one must match."""

    node_selector_terms: list[NodeSelectorTerm] = []

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name satisfies any term; no terms match nothing."""
        return any(term.matches(labels, name) for term in self.node_selector_terms)


def _matches(operator: str, values: list[str], value: str | None) -> bool:
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def parse_integer(text: str) -> int | None:
    """Return the integer that Gt and Lt read in a value; None where it is none, or more than 64 bits hold.

    Source: kubernetes apimachinery/pkg/labels/selector.go (1.36), Requirement.Matches (strconv.ParseInt).
    """
    if len(text) > _MOST_DIGITS or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _LEAST <= number <= _MOST else None


def _compares(operator: str, values: list[str], value: str | None) -> bool:
    if value is None or len(values) != 1:
        return False
    mine, bound = parse_integer(value), parse_integer(values[0])
    if mine is None or bound is None:
        return False
    return mine > bound if operator == "Gt" else mine < bound


NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that keep a pod off a node."""


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node repels pods with."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a pod puts up with: an empty effect means all effects, an empty key with Exists all keys."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may be on a node with this taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case _:
                return False


class Tolerance:
    """What some tolerations put up with together; asking about a taint takes as long however many they are."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._any_value: set[tuple[str, str]] = set()
        self._values: set[tuple[str, str, str]] = set()
        for one in tolerations:
            match one.operator:
                case "" | "Equal":
                    self._values.add((one.key, one.effect, one.value))
                case "Exists":
                    self._any_value.add((one.key, one.effect))
                case _:
                    continue  # it tolerates nothing

    def covers(self, taint: Taint) -> bool:
        """Whether any of them tolerates a taint."""
        return any(
            (key, effect) in self._any_value or (key, effect, taint.value) in self._values
            for key in (taint.key, "")
            for effect in (taint.effect, "")
        )

    def first_beyond(self, taints: Iterable[Taint], effects: Collection[str] = HARD_EFFECTS) -> Taint | None:
        """The first taint with one of `effects` that none of them covers; None if all are covered."""
        return next((taint for taint in taints if taint.effect in effects and not self.covers(taint)), None)


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of `effects` that no toleration covers; None if all are covered.

    For a few taints: most flavors and nodes have none, and `Tolerance` has to be made first.
    """
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
