"""What names, labels and finalizers must look like (apimachinery/pkg/util/validation, api/validation)."""

from __future__ import annotations

import random
import re
from functools import lru_cache

NAME_LIMIT = 253
LABEL_LIMIT = 63
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
UNDERSCORED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
UNDERSCORED_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{UNDERSCORED}')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
KEY_RULE = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


NO_DOTS = "must not contain dots"


def _dns(name: str, limit: int, pattern: re.Pattern[str], rule: str) -> list[str]:
    faults = [f"must be no more than {limit} characters"] if len(name.encode()) > limit else []
    if pattern.fullmatch(name):
        return faults
    dotted = limit == LABEL_LIMIT and SUBDOMAIN.fullmatch(name)
    return [*faults, NO_DOTS if dotted else rule]


def subdomain_faults(name: str) -> list[str]:
    """All that is wrong with a name as a DNS subdomain."""
    return _dns(name, NAME_LIMIT, SUBDOMAIN, SUBDOMAIN_RULE)


def underscored_faults(name: str) -> list[str]:
    """All that is wrong with a name as a DNS subdomain that may have underscores."""
    faults = [f"must be no more than {NAME_LIMIT} characters"] if len(name.encode()) > NAME_LIMIT else []
    return faults if re.fullmatch(UNDERSCORED, name) else [*faults, UNDERSCORED_RULE]


def label_faults(name: str) -> list[str]:
    """All that is wrong with a name as a DNS label."""
    return _dns(name, LABEL_LIMIT, LABEL, LABEL_RULE)


def label_1035_faults(name: str) -> list[str]:
    """All that is wrong with a name as a DNS-1035 label, as the names of kinds are held to."""
    faults = [f"must be no more than {LABEL_LIMIT} characters"] if len(name.encode()) > LABEL_LIMIT else []
    return faults if LABEL_1035.fullmatch(name) else [*faults, LABEL_1035_RULE]


def path_faults(name: str) -> list[str]:
    """All that is wrong with a name that only has to fit into a URL, as RBAC kinds have them."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def subdomain(name: str) -> str:
    """What is wrong with a name as a DNS subdomain, first of all; empty when nothing is."""
    return next(iter(subdomain_faults(name)), "")


def label(name: str) -> str:
    """What is wrong with a name as a DNS label, first of all."""
    return next(iter(label_faults(name)), "")


@lru_cache(maxsize=4096)
def qualified(key: str) -> str:
    """What is wrong with a label key, annotation key or finalizer, first of all."""
    faults = qualified_faults(key)
    return faults[0] if faults else ""


@lru_cache(maxsize=4096)
def qualified_faults(key: str) -> list[str]:
    """All that is wrong with a key: its prefix, its name, and the length of both (apimachinery's IsLabelKey)."""
    parts = key.split("/")
    if len(parts) > 2:  # noqa: PLR2004 - a prefix and a name
        return [KEY_RULE]
    faults, name = [], parts[-1]
    if len(parts) > 1:
        prefix = parts[0]
        if not prefix:
            faults.append("prefix part must be non-empty")
        else:
            faults.extend(f"prefix part {fault}" for fault in _prefix_faults(prefix))
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > LABEL_LIMIT:
        faults.append(f"name part must be no more than {LABEL_LIMIT} bytes")
    if not QUALIFIED.fullmatch(name):
        faults.append(QUALIFIED_RULE)
    return faults


def _prefix_faults(prefix: str) -> list[str]:
    faults = [f"must be no more than {NAME_LIMIT} bytes"] if len(prefix) > NAME_LIMIT else []
    return faults if SUBDOMAIN.fullmatch(prefix) else [*faults, SUBDOMAIN_RULE]


def label_value(value: str) -> str:
    """What is wrong with a label value, first of all."""
    return next(iter(label_value_faults(value)), "")


def label_value_faults(value: str) -> list[str]:
    """All that is wrong with a label value."""
    faults = [f"must be no more than {LABEL_LIMIT} bytes"] if len(value.encode()) > LABEL_LIMIT else []
    return faults if _is_label_value(value) else [*faults, VALUE_RULE]


@lru_cache(maxsize=4096)
def _is_label_value(value: str) -> bool:
    return LABEL_VALUE.fullmatch(value) is not None


def generated(prefix: str, draw: random.Random) -> str:
    """A name made of a prefix and five characters, as generateName asks for."""
    return prefix[: LABEL_LIMIT - 5] + "".join(draw.choice(ALPHABET) for _ in range(5))
