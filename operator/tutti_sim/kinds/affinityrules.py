"""Validation of affinity, node selectors and label selectors (core and apimachinery validation.go)."""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import names
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required

Json = dict[str, Any]

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
HEAVIEST = 100


def check_affinity(affinity: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod's affinity."""
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity", {})
    if REQUIRED in node:
        errors.extend(check_node_selector(node[REQUIRED], f"{at}.nodeAffinity.{REQUIRED}"))
    for index, term in enumerate(node.get(PREFERRED, ())):
        where = f"{at}.nodeAffinity.{PREFERRED}[{index}]"
        errors.extend(_weight(term, where))
        errors.extend(_node_term(term.get("preference", {}), f"{where}.preference"))
    for kind in ("podAffinity", "podAntiAffinity"):
        own = affinity.get(kind, {})
        for index, term in enumerate(own.get(REQUIRED, ())):
            errors.extend(_pod_term(term, f"{at}.{kind}.{REQUIRED}[{index}]"))
        for index, term in enumerate(own.get(PREFERRED, ())):
            where = f"{at}.{kind}.{PREFERRED}[{index}]"
            errors.extend(_weight(term, where))
            errors.extend(_pod_term(term.get("podAffinityTerm", {}), f"{where}.podAffinityTerm"))
    return errors


def _weight(term: Json, at: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= HEAVIEST else [invalid(f"{at}.weight", weight, f"must be in the range 1-{HEAVIEST}")]


def check_node_selector(selector: Json, at: str) -> list[FieldError]:
    """What is wrong with a node selector, of a pod or of a volume."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")]
    return [error for index, term in enumerate(terms) for error in _node_term(term, f"{at}.nodeSelectorTerms[{index}]")]


def _node_term(term: Json, at: str) -> list[FieldError]:
    return [
        error
        for index, one in enumerate(term.get("matchExpressions", ()))
        for error in _expression(one, f"{at}.matchExpressions[{index}]", compares=True)
    ]


def _expression(expression: Json, at: str, *, compares: bool) -> list[FieldError]:
    """What is wrong with an expression of a selector; only those over nodes may compare with Gt and Lt."""
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{at}.values", text))
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{at}.values", text))
    else:
        errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    key = expression.get("key", "")
    errors.extend(invalid(f"{at}.key", key, fault) for fault in names.qualified_faults(key))
    return errors


def _pod_term(term: Json, at: str) -> list[FieldError]:
    errors = check_label_selector(term.get("labelSelector"), f"{at}.labelSelector")
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{at}.topologyKey", "can not be empty"))
    errors.extend(invalid(f"{at}.topologyKey", key, fault) for fault in names.qualified_faults(key))
    return errors


def check_label_selector(selector: Json | None, at: str) -> list[FieldError]:
    """What is wrong with a label selector."""
    errors: list[FieldError] = []
    for key, value in (selector or {}).get("matchLabels", {}).items():
        errors.extend(invalid(f"{at}.matchLabels", key, fault) for fault in names.qualified_faults(key))
        if fault := names.label_value(value):
            errors.append(invalid(f"{at}.matchLabels", value, fault))
    for index, one in enumerate((selector or {}).get("matchExpressions", ())):
        errors.extend(_expression(one, f"{at}.matchExpressions[{index}]", compares=False))
    return errors
