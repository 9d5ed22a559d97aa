"""What is wrong with what drivers publish: slices of pools, their devices, counters, attributes and capacities.

Rules: pkg/apis/resource/validation/validation.go, 1.36 (ValidateResourceSlice).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final

from tutti_sim.devices import fields
from tutti_sim.devices.fields import Faults, each, each_entry, each_once
from tutti_sim.kinds.affinity import check_node_selector
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import duplicate, forbidden_field, invalid, required, unsupported

_MOST_DEVICES, _MOST_WITH_MORE = 128, 64
_MOST_SETS, _MOST_COUNTERS, _MOST_CONSUMED = 8, 32, 2
_MOST_NAMES, _LONGEST_VALUE, _MOST_TAINTS, _MOST_VALUES = 32, 64, 16, 10
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_KINDS: Final = ("bool", "int", "string", "version", *_LISTS)
_GO_KINDS: Final = {
    "IntValue": "int", "BoolValue": "bool", "StringValue": "string", "VersionValue": "version",
    "IntValues": "ints", "BoolValues": "bools", "StringValues": "strings", "VersionValues": "versions",
}  # fmt: skip
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
_WHERE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_WHERE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required "
    "when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NOT_PER_DEVICE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set "
    "if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def slice_faults(spec: Json, at: str, old: Json | None = None) -> Faults:
    """What is wrong with the specification of a slice, or with a change of it."""
    pool = spec.get("pool") or {}
    faults = fields.driver(spec.get("driver", ""), f"{at}.driver") + fields.pool(
        pool.get("name", ""), f"{at}.pool.name"
    )
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        faults.append(invalid(f"{at}.pool.resourceSliceCount", count, "must be greater than zero"))
    if pool.get("generation", 0) < 0:
        faults.append(invalid(f"{at}.pool.generation", pool["generation"], "must be greater than or equal to zero"))
    if old is not None:
        faults += _moved(spec, old, at)
    faults += _nodes(spec, at)
    if "sharedCounters" in spec and "devices" in spec:
        faults.append(invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = spec.get("devices", ())
    known = {one.get("name"): one for one in (old or {}).get("devices", ())}
    faults += each_once(
        devices,
        f"{at}.devices",
        lambda one, place: _device(one, place, spec, known.get(one.get("name"))),
        key=_name,
        most=_MOST_WITH_MORE if any(map(_has_more, devices)) else _MOST_DEVICES,
    )
    counters = spec.get("sharedCounters", ())
    return faults + each_once(counters, f"{at}.sharedCounters", _counter_set, key=_name, most=_MOST_SETS)


def _name(item: Json) -> str:
    return str(item.get("name", ""))


def _moved(spec: Json, old: Json, at: str) -> Faults:
    faults = [] if spec["pool"].get("name") == old["pool"].get("name") else [
        invalid(f"{at}.pool.name", spec["pool"].get("name"), "field is immutable")
    ]  # fmt: skip
    return faults + [
        invalid(f"{at}.{name}", spec.get(name), "field is immutable")
        for name in ("driver", "nodeName")
        if spec.get(name) != old.get(name)
    ]


def _nodes(spec: Json, at: str) -> Faults:
    """What is wrong with where the devices of a slice can be used."""
    chosen, faults = [], []
    if (node := spec.get("nodeName")) is not None:
        if node:
            chosen.append("`nodeName`")
            faults += fields.subdomain(node, f"{at}.nodeName")
        else:
            faults.append(invalid(f"{at}.nodeName", "", "must be either unset or set to a non-empty string"))
    if (selector := spec.get("nodeSelector")) is not None:
        chosen.append("`nodeSelector`")
        faults += check_node_selector(selector, f"{at}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            faults.append(invalid(f"{at}.nodeSelector.nodeSelectorTerms", [_go_term(one) for one in terms], text))
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name):
            chosen.append(f"`{name}`")
        elif name in spec:
            faults.append(invalid(f"{at}.{name}", False, "must be either unset or set to true"))
    return faults + _one_of(chosen, at, _WHERE)


def _one_of(chosen: Sequence[str], at: str, rule: str) -> Faults:
    if not chosen:
        return [required(at, rule)]
    if len(chosen) == 1:
        return []
    more = f"{rule}, but multiple fields are set" if rule is _WHERE else rule
    return [invalid(at, f"{{{', '.join(chosen)}}}", more)]


def _go_term(term: Json) -> Json:
    """A term of a node selector as messages show it."""
    return {
        part: [{"Key": one.get("key"), "Operator": one.get("operator"), "Values": one.get("values")} for one in found]
        if (found := term.get(name))
        else None
        for part, name in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
    }


def _has_more(device: Json) -> bool:
    lists = any(attribute.keys() & set(_LISTS) for attribute in device.get("attributes", {}).values())
    return lists or bool(device.get("taints") or device.get("consumesCounters"))


def _counter_set(given: Json, at: str) -> Faults:
    faults = fields.label(_name(given), f"{at}.name") if _name(given) else [required(f"{at}.name")]
    return faults + _counters(given, at)


def _counters(holder: Json, at: str) -> Faults:
    counters = holder.get("counters")
    if not counters:
        return [required(f"{at}.counters")]
    if len(counters) > _MOST_COUNTERS:
        return [fields.too_many(f"{at}.counters", len(counters), _MOST_COUNTERS)]
    return each_entry(counters, f"{at}.counters", name=fields.label, value=lambda _, __: [])


def _device(device: Json, at: str, spec: Json, old: Json | None) -> Faults:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    faults = fields.label(_name(device), f"{at}.name")
    if len(attributes) + len(capacity) > _MOST_NAMES:
        text = f"the total number of attributes and capacities must not exceed {_MOST_NAMES}"
        faults.append(invalid(at, len(attributes) + len(capacity), text))
    faults += each_entry(attributes, f"{at}.attributes", name=fields.qualified, value=_attribute)
    shared = bool(device.get("allowMultipleAllocations"))
    faults += each_entry(
        capacity,
        f"{at}.capacity",
        name=fields.qualified,
        value=lambda one, place: _capacity(one, place, shared=shared),
    )
    if old is None or old.get("taints") != device.get("taints"):
        faults += each(device.get("taints", ()), f"{at}.taints", _taint, _MOST_TAINTS)
    consumed = device.get("consumesCounters", ())
    set_of = lambda one: one.get("counterSet", "")  # noqa: E731 - a key
    faults += each_once(consumed, f"{at}.consumesCounters", _consumption, key=set_of, most=_MOST_CONSUMED)
    faults += _own_nodes(device, at, chosen_here=bool(spec.get("perDeviceNodeSelection")))
    return faults + fields.bindings(device, at)


def _own_nodes(device: Json, at: str, *, chosen_here: bool) -> Faults:
    """What is wrong with where one device can be used."""
    if not chosen_here:
        names_nodes = any(name in device for name in ("nodeName", "nodeSelector", "allNodes"))
        return [invalid(at, None, _NOT_PER_DEVICE)] if names_nodes else []
    chosen, faults = [], []
    if (node := device.get("nodeName")) is not None:
        if node:
            chosen.append("`nodeName`")
            faults += fields.subdomain(node, f"{at}.nodeName")
        else:
            faults.append(invalid(f"{at}.nodeName", "", "must not be empty"))
    if (selector := device.get("nodeSelector")) is not None:
        chosen.append("`nodeSelector`")
        faults += check_node_selector(selector, f"{at}.nodeSelector")
    if device.get("allNodes"):
        chosen.append("`allNodes`")
    elif "allNodes" in device:
        faults.append(invalid(f"{at}.allNodes", False, "must be either unset or set to true"))
    return faults + _one_of(chosen, at, _DEVICE_WHERE)


def _consumption(given: Json, at: str) -> Faults:
    name = given.get("counterSet", "")
    faults = fields.label(name, f"{at}.counterSet") if name else [required(f"{at}.counterSet")]
    return faults + _counters(given, at)


def _attribute(attribute: Json, at: str) -> Faults:
    faults: Faults = []
    for kind in ("string", "version"):
        if kind in attribute:
            faults += _value(attribute[kind], f"{at}.{kind}", kind=kind)
    for kind in ("strings", "versions"):
        faults += each(attribute.get(kind, ()), f"{at}.{kind}", partial(_value, kind=kind[:-1]))
    given = [kind for kind in _KINDS if kind in attribute]
    if len(given) != 1:
        shown: Any = {go: attribute.get(kind) for go, kind in _GO_KINDS.items()} if given else ""
        faults.append(invalid(at, shown, "exactly one value must be specified"))
    return faults


def _value(text: str, at: str, *, kind: str) -> Faults:
    faults: Faults = []
    if kind == "version" and _SEMVER.fullmatch(text) is None:
        faults.append(invalid(at, text, "must be a string compatible with semver.org spec 2.0.0"))
    return [*faults, fields.too_long(at, _LONGEST_VALUE)] if len(text.encode()) > _LONGEST_VALUE else faults


def _taint(taint: Json, at: str) -> Faults:
    faults = fields.label_key(taint.get("key", ""), f"{at}.key")
    if fault := names.label_value(taint.get("value", "")):
        faults.append(invalid(f"{at}.value", taint["value"], fault))
    effect = taint.get("effect", "")
    if not effect:
        faults.append(required(f"{at}.effect"))
    elif effect not in _EFFECTS:
        faults.append(unsupported(f"{at}.effect", effect, _EFFECTS))
    return faults


def taint_rule_faults(spec: Json, at: str) -> Faults:
    """What is wrong with the specification of a DeviceTaintRule (ValidateDeviceTaintRule)."""
    selector, where = spec.get("deviceSelector") or {}, f"{at}.deviceSelector"
    faults = fields.driver(selector["driver"], f"{where}.driver") if selector.get("driver") is not None else []
    if selector.get("pool") is not None:
        faults += fields.pool(selector["pool"], f"{where}.pool")
    if selector.get("device") is not None:
        faults += fields.label(selector["device"], f"{where}.device")
    return faults + _taint(spec.get("taint") or {}, f"{at}.taint")


def _capacity(capacity: Json, at: str, *, shared: bool) -> Faults:
    policy, where = capacity.get("requestPolicy"), f"{at}.requestPolicy"
    if policy is None:
        return []
    if not shared:
        return [forbidden_field(where, "allowMultipleAllocations must be true")]
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(where, text)]
    named = "validValues" if values else "validRange" if span is not None else ""
    if named and policy.get("default") is None:
        return [required(f"{where}.default", f"required when {named} is defined")]
    if values:
        return _values(values, policy["default"], f"{where}.validValues", capacity["value"])
    return _range(span, policy["default"], f"{where}.validRange", capacity["value"]) if span is not None else []


def _values(values: list[str], default: str, at: str, most: str) -> Faults:
    sizes = [amount(one) for one in values]
    text = "values must be sorted in ascending order"
    faults = [
        invalid(f"{at}[{index}]", values[index], text)
        for index in range(1, len(sizes))
        if sizes[index] < sizes[index - 1]
    ]
    if len(values) > _MOST_VALUES:
        faults.append(fields.too_many(at, len(values), _MOST_VALUES))
        return [*faults, invalid(at, default, "default value is not valid according to the requestPolicy")]
    text = f"option is larger than capacity value: {most}"
    faults += [invalid(f"{at}[{i}]", values[i], text) for i, size in enumerate(sizes) if size > amount(most)]
    whole = [_whole(size) for size in sizes]
    faults += [duplicate(f"{at}[{i}]", str(whole[i])) for i in range(len(whole)) if whole[i] in whole[:i]]
    if amount(default) not in sizes:
        faults.append(invalid(at, default, "default value is not valid according to the requestPolicy"))
    return faults


def _range(span: Json, default: str, at: str, most: str) -> Faults:
    low, high, step = (span.get(name) for name in ("min", "max", "step"))
    if not low:
        return [required(f"{at}.min", "required when validRange is defined")]
    faults: Faults = []
    if amount(low) > amount(most):
        faults.append(invalid(f"{at}.min", low, f"min is larger than capacity value: {most}"))
    if amount(default) < amount(low):
        faults.append(invalid(f"{at}.min", default, f"default is less than min: {low}"))
    if high is not None:
        if amount(low) > amount(high):
            faults.append(invalid(f"{at}.max", low, f"min is larger than max: {high}"))
        if amount(high) > amount(most):
            faults.append(invalid(f"{at}.max", high, f"max is larger than capacity value: {most}"))
        if amount(default) > amount(high):
            faults.append(invalid(f"{at}.max", default, f"default is more than max: {high}"))
    if step is not None:
        faults += _steps(low, high, step, default, at=f"{at}.step", most=most)
    return faults


def _steps(low: str, high: str | None, step: str, default: str, *, at: str, most: str) -> Faults:
    first = amount(low) + amount(step)
    faults: Faults = []
    if first > amount(most):
        shown = str(first) if first.denominator == 1 else low
        faults.append(invalid(at, step, f"one step {shown} is larger than capacity value: {most}"))
    text = f"value is not a multiple of a given step ({step}) from ({low})"
    for value in filter(None, (default, high)):
        size = _whole(amount(step))
        if size and (_whole(amount(value)) - _whole(amount(low))) % size:
            faults.append(invalid(at, value, text))
    return faults


def _whole(size: Fraction) -> int:
    """A quantity as a whole number, rounded up (Quantity.Value)."""
    return -(-size.numerator // size.denominator)
