"""Strategies of limit ranges and resource quotas (core validation.go)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from tutti_sim.kinds.resource import Strategy
from tutti_sim.kinds.resourcenames import NATIVE, UNKNOWN, container_resource_faults
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import NOT_NEGATIVE, check_text
from tutti_sim.meta.errors import FieldError, duplicate, forbidden_field, invalid, required

TYPES = ("Pod", "Container", "PersistentVolumeClaim")
FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)  # fmt: skip
QUOTABLE = NATIVE - {"storage"}


class QuotaStrategy(Strategy):
    """Resource quotas."""

    has_status = True
    answers_object = True

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Json) -> None:
        """Nothing is counted yet."""
        obj["status"] = {}

    def validate(self, obj: Json) -> list[FieldError]:
        """Check what is limited, and of which pods."""
        spec, errors = obj.get("spec") or {}, list[FieldError]()
        for name, value in sorted((spec.get("hard") or {}).items()):
            at = f"spec.hard[{name}]"
            errors.extend(check_text(name, at, _quota_name_faults))
            errors.extend(_amount(value, at))
        scopes = spec.get("scopes") or []
        if any(one not in SCOPES for one in scopes):
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
            errors.extend(_scope(one, "spec.scopeSelector.matchExpressions"))
        return errors


class LimitRangeStrategy(Strategy):
    """Limit ranges."""

    create_on_update = True

    def prepare_create(self, obj: Json) -> None:
        """One without a name gets one of its own."""
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = str(uuid.uuid4())

    def default(self, obj: Json) -> None:
        """A container's default limit is its default request too, else the least that it may ask for."""
        for limit in obj.get("spec", {}).get("limits", ()):
            if limit.get("type") == "Container":
                for name, value in limit.get("max", {}).items():
                    limit.setdefault("default", {}).setdefault(name, value)
                for source in ("default", "min"):
                    for name, value in limit.get(source, {}).items():
                        limit.setdefault("defaultRequest", {}).setdefault(name, value)

    def validate(self, obj: Json) -> list[FieldError]:
        """Check that what is least, default and most are in that order."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            at, kind = f"spec.limits[{index}]", item.get("type", "")
            if kind not in TYPES:
                faults = names.qualified_faults(kind)
                faults = faults or ([] if "/" in kind else ["must be a standard limit type or fully qualified"])
                errors.extend(invalid(f"{at}.type", kind, fault) for fault in faults)
            if kind in seen:
                errors.append(duplicate(f"{at}.type", kind))
            seen.add(kind)
            errors.extend(_limits(item, at, kind))
        return errors


def _quota_name_faults(name: str) -> list[str]:
    """What keeps a name from being one of a resource that a quota can be about."""
    faults = names.qualified_faults(name)
    if "/" in name or name in QUOTABLE or name.startswith(("hugepages-", "requests.hugepages-")):
        return faults
    unknown = [] if faults or name in NATIVE else [UNKNOWN]
    return [*faults, *unknown, "must be a standard resource for quota"]


def _amount(value: str, at: str) -> list[FieldError]:
    return [invalid(at, value, NOT_NEGATIVE)] if amount(value) < 0 else []


def _scope(one: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, operator, values = one.get("scopeName", ""), one.get("operator", ""), one.get("values") or ()
    if name not in SCOPES:
        errors.append(invalid(f"{at}.scopeName", name, "unsupported scope"))
    if name in SCOPES and name not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(invalid(f"{at}.operator", operator, text))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{at}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{at}.values", list(values), text))
    else:
        errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    return errors


def _limit_name_faults(kind: str) -> Callable[[str], list[str]]:
    if kind in ("Pod", "Container"):
        return container_resource_faults

    def faults(name: str) -> list[str]:
        found = names.qualified_faults(name)
        known = "/" in name or name in NATIVE or name.startswith("hugepages-")
        return found or ([] if known else ["must be a standard resource type or fully qualified"])

    return faults


def _limits(item: Json, at: str, kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in FIELDS:
        for name in sorted(item.get(field, {})):
            errors.extend(check_text(name, f"{at}.{field}[{name}]", _limit_name_faults(kind)))
    if kind == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        errors.extend(
            forbidden_field(f"{at}.{field}", text) for field in ("default", "defaultRequest") if item.get(field)
        )
    if kind == "PersistentVolumeClaim" and not {"storage"} & {*item.get("min", {}), *item.get("max", {})}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{at}.limits", text))
    for name in sorted({name for field in FIELDS for name in item.get(field, {})}):
        errors.extend(_order({field: item.get(field, {}).get(name) for field in FIELDS}, name, at))
    return errors


def _order(told: Mapping[str, str | None], name: str, at: str) -> list[FieldError]:
    """What is wrong with the amounts of one resource beside each other."""
    errors: list[FieldError] = []
    least, most, usual, asked = (told[field] for field in ("min", "max", "default", "defaultRequest"))

    def above(field: str, value: str | None, title: str, bound: str | None, limit: str) -> None:
        if value is not None and bound is not None and amount(value) > amount(bound):
            text = f"{title} value {value} is greater than {limit} value {bound}"
            errors.append(invalid(f"{at}.{field}[{name}]", value, text))

    above("min", least, "min", most, "max")
    if asked is not None and least is not None and amount(least) > amount(asked):
        text = f"min value {least} is greater than default request value {asked}"
        errors.append(invalid(f"{at}.defaultRequest[{name}]", asked, text))
    above("defaultRequest", asked, "default request", most, "max")
    above("defaultRequest", asked, "default request", usual, "default limit")
    if usual is not None and least is not None and amount(least) > amount(usual):
        errors.append(
            invalid(f"{at}.default[{name}]", least, f"min value {least} is greater than default value {usual}")
        )
    above("default", usual, "default", most, "max")
    errors.extend(_ratio(told["maxLimitRequestRatio"], least, most, f"{at}.maxLimitRequestRatio[{name}]"))
    return errors


def _ratio(ratio: str | None, least: str | None, most: str | None, at: str) -> list[FieldError]:
    if ratio is None:
        return []
    errors: list[FieldError] = []
    if amount(ratio) < 1:
        errors.append(invalid(at, ratio, f"ratio {ratio} is less than 1"))
    if least is not None and most is not None and amount(least) and amount(ratio) > amount(most) / amount(least):
        bound = float(amount(most) / amount(least))
        errors.append(invalid(at, ratio, f"ratio {ratio} is greater than max/min = {bound:f}"))
    return errors
