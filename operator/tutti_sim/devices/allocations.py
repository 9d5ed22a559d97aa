"""What is wrong with the status of a claim: what it got, who uses it, and what drivers say of its devices.

Rules: pkg/apis/resource/validation/validation.go, 1.36 (ValidateResourceClaimStatusUpdate).
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from tutti_sim.devices import claims, fields
from tutti_sim.devices.fields import MOST_CONFIGURATIONS, Faults, each, each_once
from tutti_sim.kinds.affinity import check_node_selector
from tutti_sim.meta import Json
from tutti_sim.meta.errors import forbidden_field, invalid, required, unsupported

_MOST_RESULTS: Final = 32
_MOST_USERS: Final = 256
_MOST_CONDITIONS: Final = 8
_LONGEST_DATA: Final = 10 * 1024
_SOURCES: Final = ("FromClaim", "FromClass")
_CIDR: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_LEAVING: Final = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def status_faults(new: Json, old: Json) -> Faults:
    """What is wrong with a change of a claim's status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    users, allocation = status.get("reservedFor", ()), status.get("allocation")
    faults = each_once(users, "status.reservedFor", _user, key=lambda one: one.get("uid", ""), most=_MOST_USERS)
    taken = {_identity(one) for one in _results(status)}
    faults += each_once(
        status.get("devices", ()),
        "status.devices",
        lambda one, at: _device(one, at, taken),
        key=_shown,
    )
    if users and allocation is None:
        faults.append(forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif new["metadata"].get("deletionTimestamp") and any(one not in before.get("reservedFor", ()) for one in users):
        faults.append(forbidden_field("status.reservedFor", _LEAVING))
    if allocation is not None and before.get("allocation") is not None:
        if allocation != before["allocation"]:
            faults.append(invalid("status.allocation", allocation, "field is immutable"))
    elif allocation is not None:
        faults += _allocation(allocation, "status.allocation", claims.request_names(new["spec"]))
    return faults


def admin_faults(new: Json, old: Json) -> Faults:
    """What a claim newly gets by admin access, in a namespace that does not give it."""
    before = [one for one in _results(old.get("status") or {}) if one.get("adminAccess")]
    if before:
        return []
    return [
        forbidden_field(f"status.allocation.devices.results[{index}].adminAccess", claims.ADMIN_RULE)
        for index, one in enumerate(_results(new.get("status") or {}))
        if one.get("adminAccess")
    ]


def forget_devices(new: Json, old: Json) -> None:
    """Take away what drivers said of devices that the claim has lost (dropDeallocatedStatusDevices)."""
    status = new.get("status") or {}
    lost = {_identity(one) for one in _results(old.get("status") or {})} - {_identity(one) for one in _results(status)}
    kept = [one for one in status.get("devices", ()) if _identity(one) not in lost]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)


def _results(status: Json) -> list[Json]:
    found: list[Json] = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return found


def _identity(device: Json) -> tuple[str, ...]:
    return tuple(str(device.get(name) or "") for name in ("driver", "pool", "device", "shareID"))


def _shown(device: Json) -> Json:
    """A device as messages name it."""
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), _identity(device), strict=True))


def _user(user: Json, at: str) -> Faults:
    return [required(f"{at}.{name}") for name in ("resource", "name", "uid") if not user.get(name)]


def _allocation(allocation: Json, at: str, named: claims.Names) -> Faults:
    devices, where = allocation.get("devices") or {}, f"{at}.devices"
    faults = each(
        devices.get("results", ()), f"{where}.results", lambda one, place: _result(one, place, named), _MOST_RESULTS
    )
    faults += each(
        devices.get("config", ()),
        f"{where}.config",
        lambda one, place: _configuration(one, place, named),
        2 * MOST_CONFIGURATIONS,
    )
    selector = allocation.get("nodeSelector")
    return faults + (check_node_selector(selector, f"{at}.nodeSelector") if selector is not None else [])


def _result(result: Json, at: str, named: claims.Names) -> Faults:
    faults = claims.reference(result.get("request", ""), f"{at}.request", named)
    faults += _place(result, at)
    faults += fields.bindings(result, at)
    share = result.get("shareID")
    return faults + (fields.uid(share, f"{at}.shareID") if share is not None else [])


def _place(device: Json, at: str) -> Faults:
    faults = fields.driver(device.get("driver", ""), f"{at}.driver")
    faults += fields.pool(device.get("pool", ""), f"{at}.pool")
    return faults + fields.label(device.get("device", ""), f"{at}.device")


def _configuration(config: Json, at: str, named: claims.Names) -> Faults:
    source = config.get("source", "")
    faults: Faults = []
    if not source:
        faults.append(required(f"{at}.source"))
    elif source not in _SOURCES:
        faults.append(unsupported(f"{at}.source", source, _SOURCES))
    return faults + claims.references(config, at, named) + fields.configuration(config, at)


def _device(device: Json, at: str, taken: set[tuple[str, ...]]) -> Faults:
    faults = _place(device, at)
    if device.get("shareID") is not None:
        faults += fields.uid(device["shareID"], f"{at}.shareID")
    if _identity(device) not in taken:
        faults.append(invalid(at, _shown(device), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or ()
    if len(conditions) > _MOST_CONDITIONS:
        faults.append(fields.too_many(f"{at}.conditions", len(conditions), _MOST_CONDITIONS))
    faults += each(conditions, f"{at}.conditions", _condition)
    if device.get("data") is not None:
        faults += fields.document(device["data"], f"{at}.data", _LONGEST_DATA)
    return faults + _network(device.get("networkData") or {}, f"{at}.networkData")


def _condition(condition: Json, at: str) -> Faults:
    faults: Faults = [] if condition.get("type") else [required(f"{at}.type")]
    if not condition.get("lastTransitionTime"):
        faults.append(required(f"{at}.lastTransitionTime"))
    if not condition.get("reason"):
        faults.append(required(f"{at}.reason"))
    return faults


def _network(data: Json, at: str) -> Faults:
    faults = [
        fields.too_long(f"{at}.{name}", most)
        for name, most in (("interfaceName", 256), ("hardwareAddress", 128))
        if len(data.get(name, "")) > most
    ]
    return faults + each_once(data.get("ips", ()), f"{at}.ips", _address, key=lambda one: one, most=16)


def _address(address: Any, at: str) -> Faults:
    try:
        ipaddress.ip_interface(address)
    except ValueError:
        return [invalid(at, address, _CIDR)]
    return [] if "/" in address else [invalid(at, address, _CIDR)]
