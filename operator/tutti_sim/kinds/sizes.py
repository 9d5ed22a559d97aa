"""Validation of what containers, and pods as a whole, ask for: amounts and resource claims (core validation.go)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.kinds.resourcenames import container_resource_faults, is_extended, is_of_pods, resource_faults
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import NOT_NEGATIVE, check_text
from tutti_sim.meta.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_field,
    required,
    unsupported,
)

RESIZED = ("cpu", "memory")
RESIZES = ("NotRequired", "RestartContainer")

_encode = msgspec.json.Encoder().encode


def check_resize_policies(policies: Any, restart: str, at: str) -> list[FieldError]:
    """What is wrong with whether a container starts again with new sizes; `restart` is the pod's own policy."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(policies):
        name, policy = one.get("resourceName", ""), one.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{at}[{index}]", name))
        seen.add(name)
        for value, supported in ((name, RESIZED), (policy, RESIZES)):
            if not value:
                errors.append(required(at))
            elif value not in supported:
                errors.append(unsupported(at, value, supported))
        if restart == "Never" and policy != "NotRequired":
            errors.append(invalid(at, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


def check_claims(claims: Any, known: frozenset[str], at: str) -> list[FieldError]:
    """What is wrong with the resource claims that are used; `known` are those of the pod."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{at}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(where))
            continue
        key = f"{name}/{request}" if request else name
        if request and name not in seen:
            errors.extend(check_text(request, f"{where}.request", names.label_faults))
        if name in seen or key in seen:
            errors.append(duplicate(where, name if name in seen else key))
        else:
            parts = [one for one in seen if not request and one.startswith(f"{name}/")]
            errors.extend(duplicate(where, name) for _ in parts)
            seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(not_found_field(where, name, text))
    return errors


def check_pod_resources(spec: Json, known: frozenset[str], at: str) -> list[FieldError]:
    """What is wrong with requests and limits of a pod as a whole; `known` are its resource claims."""
    resources = spec.get("resources")
    if resources is None:
        return []
    if spec.get("os", {}).get("name") == "windows":
        return [forbidden_field(at, "may not be set for a windows pod")]
    errors: list[FieldError] = []
    if "claims" in resources:
        errors.append(forbidden_field(f"{at}.claims", "claims may not be set for Resources at pod-level"))
    errors.extend(_resource_errors(_encode(resources), at, whole=True))
    errors.extend(check_claims(resources.get("claims", ()), known, f"{at}.claims"))
    return errors


def check_resources(resources: Json, at: str) -> list[FieldError]:
    """What is wrong with requests and limits."""
    return list(_resource_errors(_encode(resources), at)) if resources else []


@lru_cache(maxsize=4096)
def _resource_errors(encoded: bytes, at: str, *, whole: bool = False) -> list[FieldError]:
    """The check itself, of a container's or of a whole pod's: few sizes are asked for by many pods."""
    resources: Json = msgspec.json.decode(encoded)
    errors: list[FieldError] = []
    limits = resources.get("limits", {})
    for field in ("limits", "requests"):
        for name, value in resources.get(field, {}).items():
            place = f"{at}.{field}[{name}]"
            errors.extend(
                _pod_resource_name(name, place) if whole else check_text(name, place, container_resource_faults)
            )
            if amount(value) < 0:
                errors.append(invalid(place, value, NOT_NEGATIVE))
            if is_extended(name) and amount(value).denominator != 1:
                errors.append(invalid(place, value, "must be an integer"))
            if field == "requests":
                errors.extend(_request(name, value, limits.get(name), at))
    return errors


def _pod_resource_name(name: str, at: str) -> list[FieldError]:
    faults = check_text(name, at, resource_faults)
    if faults or is_of_pods(name):
        return faults
    return [unsupported(at, name, ("cpu", "hugepages-", "memory"))]


def _request(name: str, request: str, limit: str | None, at: str) -> list[FieldError]:
    """What is wrong with a request beside its limit."""
    fixed = "/" in name or name.startswith("hugepages-")
    if fixed and limit is None:
        return [required(f"{at}.limits", "Limit must be set for non overcommitable resources")]
    if limit is not None and fixed and amount(request) != amount(limit):
        return [invalid(f"{at}.requests", request, f"must be equal to {name} limit of {limit}")]
    if limit is not None and amount(request) > amount(limit):
        return [invalid(f"{at}.requests", request, f"must be less than or equal to {name} limit of {limit}")]
    return []
