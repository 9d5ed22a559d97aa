"""Checks of fields that many kinds share: names, labels, selectors, numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tutti_sim.meta import Json, names
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required

NOT_NEGATIVE = "must be greater than or equal to 0"
VALUES_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
VALUES_BARRED = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def check_text(value: str, at: str, faults: Callable[[str], Iterable[str]]) -> list[FieldError]:
    """What is wrong with a text by a rule of names."""
    return [invalid(at, value, fault) for fault in faults(value)]


GC_FINALIZERS = ("foregroundDeletion", "orphan")
STANDARD_FINALIZERS = (*GC_FINALIZERS, "kubernetes")
NO_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"


def finalizer_faults(name: str) -> list[str]:
    """What keeps a name from being that of a finalizer: known, or qualified by a domain."""
    known = "/" in name or name in STANDARD_FINALIZERS
    return names.qualified_faults(name) + ([] if known else [NO_STANDARD])


def check_labels(labels: Json, at: str) -> tuple[FieldError, ...]:
    """What is wrong with labels."""
    return _labels(tuple(sorted(labels.items())), at)


@lru_cache(maxsize=1024)
def _labels(labels: tuple[tuple[str, str], ...], at: str) -> tuple[FieldError, ...]:
    """The check itself: the pods of a gang have the same."""
    errors: list[FieldError] = []
    for key, value in labels:
        errors.extend(check_text(key, at, names.qualified_faults))
        errors.extend(check_text(value, at, names.label_value_faults))
    return tuple(errors)


def check_least(value: Any, at: str, least: int = 0) -> list[FieldError]:
    """What is wrong with a number that may not be below another one; none is good."""
    if value is None or value >= least:
        return []
    text = NOT_NEGATIVE if least == 0 else f"must be greater than or equal to {least}"
    return [invalid(at, value, text)]


def check_label_selector(selector: Json | None, at: str) -> list[FieldError]:
    """What is wrong with a label selector."""
    if not selector:
        return []
    errors = list(check_labels(selector.get("matchLabels", {}), f"{at}.matchLabels"))
    for index, one in enumerate(selector.get("matchExpressions", ())):
        errors.extend(check_requirement(one, f"{at}.matchExpressions[{index}]"))
    return errors


def check_requirement(one: Json, at: str, *, compares: bool = False) -> list[FieldError]:
    """What is wrong with one requirement of a selector; `compares`: it may compare numbers, as those of nodes do."""
    errors: list[FieldError] = []
    operator, values, key = one.get("operator", ""), one.get("values", ()), one.get("key", "")
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{at}.values", VALUES_NEEDED))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden_field(f"{at}.values", VALUES_BARRED))
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    errors.extend(check_text(key, f"{at}.key", names.qualified_faults))
    for index, value in enumerate(values):
        errors.extend(check_text(value, f"{at}.values[{index}]", names.label_value_faults))
    return errors
