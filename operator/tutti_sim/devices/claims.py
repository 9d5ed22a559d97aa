"""What is wrong with claims for devices, with the templates that claims are made from, and with device classes.

Rules: pkg/apis/resource/validation/validation.go, 1.36 (ValidateResourceClaim, ValidateDeviceClass).
"""

from __future__ import annotations

from typing import Any, Final

from tutti_sim.devices import expressions, fields
from tutti_sim.devices.fields import MOST_CONFIGURATIONS, MOST_REQUESTS, Faults, each, each_once
from tutti_sim.meta import Json, names
from tutti_sim.meta.errors import forbidden_field, invalid, required, unsupported

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_MOST_ALTERNATIVES, _MOST_SELECTORS, _MOST_CONSTRAINTS = 8, 32, 32
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NAMED: Final = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
ADMIN_RULE: Final = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"

Names = dict[str, frozenset[str]]
"""The requests of a claim, and what each can be satisfied by."""


def spec_faults(spec: Json, at: str) -> Faults:
    """What is wrong with the specification of a claim."""
    asked, where = spec.get("devices") or {}, f"{at}.devices"
    named = request_names(spec)
    faults = each_once(asked.get("requests") or (), f"{where}.requests", _request, key=_name, most=MOST_REQUESTS)
    faults += each(
        asked.get("constraints", ()),
        f"{where}.constraints",
        lambda one, place: _constraint(one, place, named),
        _MOST_CONSTRAINTS,
    )
    return faults + each(
        asked.get("config", ()),
        f"{where}.config",
        lambda one, place: references(one, place, named) + fields.configuration(one, place),
        MOST_CONFIGURATIONS,
    )


def class_faults(spec: Json, at: str) -> Faults:
    """What is wrong with the specification of a device class."""
    faults = each(spec.get("selectors", ()), f"{at}.selectors", _selector, _MOST_SELECTORS)
    faults += each(spec.get("config", ()), f"{at}.config", fields.configuration, MOST_CONFIGURATIONS)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        faults.append(invalid(f"{at}.extendedResourceName", name, "must be a valid extended resource name"))
    return faults


def admin_faults(spec: Json) -> Faults:
    """What asks for admin access in a namespace that does not give it; its place is said as that of older versions."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    return [
        forbidden_field(f"spec.devices.requests[{index}].adminAccess", ADMIN_RULE)
        for index, request in enumerate(requests)
        if (request.get("exactly") or {}).get("adminAccess")
    ]


def request_names(spec: Json) -> Names:
    """The requests of a claim by name."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    return {one.get("name", ""): frozenset(map(_name, one.get("firstAvailable", ()))) for one in requests}


def references(holder: Json, at: str, named: Names) -> Faults:
    """What is wrong with the requests that a constraint or configuration is about."""
    return each_once(
        holder.get("requests", ()),
        f"{at}.requests",
        lambda one, place: reference(one, place, named),
        key=lambda one: one,
        most=MOST_REQUESTS,
    )


def reference(name: str, at: str, named: Names) -> Faults:
    """What is wrong with a name that stands for a request, or for a part of one."""
    parts = name.split("/")
    if len(parts) > 2:  # noqa: PLR2004 - request and part
        return [invalid(at, name, _NAMED)]
    faults = [fault for part in parts for fault in fields.label(part, at)]
    found = named.get(parts[0])
    if found is None or (len(parts) > 1 and parts[1] not in found):
        faults.append(invalid(at, name, _NAMED))
    return faults


def _name(item: Json) -> str:
    return str(item.get("name", ""))


def _request(request: Json, at: str) -> Faults:
    faults = fields.label(_name(request), f"{at}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not alternatives:
        faults.append(required(at, _ONE_KIND))
    elif exactly is not None and alternatives:
        faults.append(invalid(at, None, f"{_ONE_KIND}, but multiple fields are set"))
    elif exactly is not None:
        faults += _asked(exactly, f"{at}.exactly")
    else:
        faults += each_once(
            alternatives or (), f"{at}.firstAvailable", _alternative, key=_name, most=_MOST_ALTERNATIVES
        )
    return faults


def _alternative(asked: Json, at: str) -> Faults:
    return fields.label(_name(asked), f"{at}.name") + _asked(asked, at)


def _asked(asked: Json, at: str) -> Faults:
    wanted = asked.get("deviceClassName", "")
    faults = fields.subdomain(wanted, f"{at}.deviceClassName") if wanted else [required(f"{at}.deviceClassName")]
    faults += each(asked.get("selectors", ()), f"{at}.selectors", _selector, _MOST_SELECTORS)
    mode, count = asked.get("allocationMode", ""), asked.get("count", 0)
    if mode not in ("All", "ExactCount"):
        faults.append(unsupported(f"{at}.allocationMode", mode, ("All", "ExactCount")))
    elif mode == "All" and count:
        faults.append(invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        faults.append(invalid(f"{at}.count", count, "must be greater than zero"))
    return faults + each(asked.get("tolerations", ()), f"{at}.tolerations", _toleration)


def _selector(selector: Json, at: str) -> Faults:
    asked = selector.get("cel")
    if asked is None:
        return [required(f"{at}.cel")]
    return expressions.faults(asked.get("expression", ""), f"{at}.cel.expression")


def _toleration(toleration: Json, at: str) -> Faults:
    key, value, operator = (toleration.get(name, "") for name in ("key", "value", "operator"))
    effect = toleration.get("effect", "")
    faults: Faults = fields.label_key(key, f"{at}.key") if key else []
    if operator == "Exists":
        if value:
            faults.append(invalid(f"{at}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        if fault := names.label_value(value):
            faults.append(invalid(f"{at}.value", value, fault))
    elif not operator:
        faults.append(required(f"{at}.operator"))
    else:
        faults.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        faults.append(unsupported(f"{at}.effect", effect, _EFFECTS))
    return faults


def _constraint(constraint: Json, at: str, named: Names) -> Faults:
    faults = references(constraint, at, named)
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            return faults + fields.fully_qualified(constraint[name], f"{at}.{name}")
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*faults, required(at, text)]


def _is_extended(name: str) -> bool:
    """Whether it is the name of an extended resource (pkg/apis/core/v1/helper, IsExtendedResourceName)."""
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.") and not names.qualified(f"requests.{name}")


def toleration_defaults(holder: Json) -> None:
    """Fill in what tolerations of devices leave out."""
    for one in holder.get("tolerations", ()):
        if not one.get("operator"):
            one["operator"] = "Equal"


def defaults(spec: Json) -> None:
    """Fill in how the devices of a claim are counted."""
    asked: Any = spec.setdefault("devices", {})
    asked.setdefault("requests", None)
    for request in asked["requests"] or ():
        for one in (request.get("exactly"), *request.get("firstAvailable", ())):
            if one is None:
                continue
            one["allocationMode"] = one.get("allocationMode") or "ExactCount"
            if one["allocationMode"] == "ExactCount":
                one["count"] = one.get("count") or 1
            toleration_defaults(one)
