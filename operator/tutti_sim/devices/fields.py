"""What several kinds of resource.k8s.io check alike: names, lists with a limit, configurations of drivers.

Rules and limits: pkg/apis/resource/validation/validation.go and staging/src/k8s.io/api/resource/v1/types.go, 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, duplicate, invalid, required

MOST_REQUESTS: Final = 32
MOST_CONFIGURATIONS: Final = 32
_LONGEST_DRIVER, _LONGEST_POOL, _LONGEST_ID = 63, 253, 32
_LONGEST_PARAMETERS: Final = 10 * 1024
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_UID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UID_RULE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
    "with lowercase hexadecimal characters"
)

Faults = list[FieldError]


def too_long(at: str, most: int) -> FieldError:
    """A text of more bytes than it may have."""
    return FieldError("FieldValueTooLong", at, f"Too long: may not be more than {most} bytes")


def too_many(at: str, count: int, most: int) -> FieldError:
    """A list or map of more entries than it may have."""
    return FieldError("FieldValueTooMany", at, f"Too many: {count}: must have at most {most} items")


def each(items: Sequence[Any], at: str, check: Callable[[Any, str], Faults], most: int | None = None) -> Faults:
    """What is wrong with the items of a list; if there are too many, nothing else is said."""
    if most is not None and len(items) > most:
        return [too_many(at, len(items), most)]
    return [fault for index, item in enumerate(items) for fault in check(item, f"{at}[{index}]")]


def each_once(
    items: Sequence[Any],
    at: str,
    check: Callable[[Any, str], Faults],
    *,
    key: Callable[[Any], Any],
    most: int | None = None,
) -> Faults:
    """What is wrong with the items of a list in which none may come twice."""
    if most is not None and len(items) > most:
        return [too_many(at, len(items), most)]
    faults = each(items, at, check)
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        own = key(item)
        mark = msgspec.json.encode(own)
        if mark in seen:
            faults.append(duplicate(f"{at}[{index}]", own))
        seen.add(mark)
    return faults


def each_entry(
    entries: Mapping[str, Any], at: str, *, name: Callable[[str, str], Faults], value: Callable[[Any, str], Faults]
) -> Faults:
    """What is wrong with the names and values of a map."""
    return [fault for key, one in entries.items() for fault in (*name(key, at), *value(one, f"{at}[{key}]"))]


def label(name: str, at: str) -> Faults:
    """What is wrong with the name of a request, device or counter."""
    fault = names.label(name)
    return [invalid(at, name, fault)] if fault else []


def subdomain(name: str, at: str) -> Faults:
    """What is wrong with the name of a class or node."""
    fault = names.subdomain(name)
    return [invalid(at, name, fault)] if fault else []


def driver(name: str, at: str) -> Faults:
    """What is wrong with the name of a driver."""
    if not name:
        return [required(at)]
    faults = [too_long(at, _LONGEST_DRIVER)] if len(name) > _LONGEST_DRIVER else []
    return faults + check_text(name, at, lambda text: names.subdomain_faults(text.lower()))


def pool(name: str, at: str) -> Faults:
    """What is wrong with the name of a pool."""
    if not name:
        return [required(at)]
    faults = [too_long(at, _LONGEST_POOL)] if len(name) > _LONGEST_POOL else []
    return faults + [fault for part in name.split("/") for fault in subdomain(part, at)]


def qualified(name: str, at: str) -> Faults:
    """What is wrong with the name of an attribute or capacity, with a domain or without.

    More than one slash is let pass, as the API server does.
    """
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, at)
    if len(parts) > 2:  # noqa: PLR2004 - domain and name
        return []
    domain, own = parts
    faults = driver(domain, at) if domain else [invalid(at, "", "the domain must not be empty")]
    return faults + (_identifier(own, at) if own else [invalid(at, "", "the name must not be empty")])


def fully_qualified(name: str, at: str) -> Faults:
    """What is wrong with the name of an attribute that must have a domain."""
    faults = qualified(name, at)
    if "/" not in name:
        faults.append(invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash"))
    return faults


def _identifier(name: str, at: str) -> Faults:
    faults = [too_long(at, _LONGEST_ID)] if len(name) > _LONGEST_ID else []
    return faults if _IDENTIFIER.fullmatch(name) else [*faults, invalid(at, name, _IDENTIFIER_RULE)]


def uid(text: str, at: str) -> Faults:
    """What is wrong with the identity of a share."""
    if _UID.fullmatch(text) is None:
        size = len(text)
        why = f"invalid UUID length: {size}" if size not in (32, 36, 38, 41, 45) else "invalid UUID format"
        return [invalid(at, text, f"error validating uid: {why}")]
    return [] if text == text.lower() else [invalid(at, text, _UID_RULE)]


def configuration(config: Json, at: str) -> Faults:
    """What is wrong with what is handed to a driver."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{at}.opaque")]
    faults = driver(opaque.get("driver", ""), f"{at}.opaque.driver")
    return faults + document(opaque.get("parameters"), f"{at}.opaque.parameters", _LONGEST_PARAMETERS)


def document(given: Any, at: str, most: int) -> Faults:
    """What is wrong with a JSON object that only a driver understands."""
    if given is None:
        return [required(at)]
    if len(msgspec.json.encode(given)) > most:
        return [too_long(at, most)]
    return [] if isinstance(given, dict) else [invalid(at, "<value omitted>", "must be a valid JSON object")]


_FAILURE_NEEDED: Final = "bindingFailureConditions are required to use bindingConditions"
_BINDING_NEEDED: Final = "bindingConditions are required to use bindingFailureConditions"
_MOST_BINDING: Final = 4


def bindings(device: Json, at: str) -> Faults:
    """What is wrong with the conditions that a device is waited for."""
    wanted, failed = device.get("bindingConditions", []), device.get("bindingFailureConditions", [])
    faults = _conditions(wanted, f"{at}.bindingConditions")
    faults += _conditions(failed, f"{at}.bindingFailureConditions")
    if failed and not wanted:
        faults.append(invalid(f"{at}.bindingConditions", None, _BINDING_NEEDED))
    if wanted and not failed:
        faults.append(invalid(f"{at}.bindingFailureConditions", None, _FAILURE_NEEDED))
    text = "bindingFailureConditions must not overlap with bindingConditions"
    faults += [
        invalid(f"{at}.bindingFailureConditions[{index}]", name, text)
        for index, name in enumerate(failed)
        if name in wanted
    ]
    return faults


def _conditions(found: Sequence[str], at: str) -> Faults:
    return each_once(found, at, label_key, key=lambda one: one, most=_MOST_BINDING)


def label_key(key: str, at: str) -> Faults:
    """What is wrong with a key that is written as those of labels are."""
    return [invalid(at, key, fault) for fault in names.qualified_faults(key)]
