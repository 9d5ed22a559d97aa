"""What names, labels and finalizers must look like (apimachinery/pkg/util/validation, api/validation)."""

from __future__ import annotations

import random
import re
from functools import lru_cache

NAME_LIMIT = 253
LABEL_LIMIT = 63
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def subdomain(name: str) -> str:
    """What is wrong with a name as a DNS subdomain; empty when nothing is."""
    if len(name) > NAME_LIMIT:
        return f"must be no more than {NAME_LIMIT} characters"
    return "" if SUBDOMAIN.fullmatch(name) else SUBDOMAIN_RULE


def label(name: str) -> str:
    """What is wrong with a name as a DNS label."""
    if len(name) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    return "" if LABEL.fullmatch(name) else LABEL_RULE


def label_1035(name: str) -> str:
    """What is wrong with a name as a DNS-1035 label, as Services need it."""
    if len(name) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    return "" if LABEL_1035.fullmatch(name) else LABEL_1035_RULE


def path_segment(name: str) -> str:
    """What is wrong with a name that only has to fit into a URL, as RBAC kinds have them."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for char in "/%":
        if char in name:
            return f"may not contain '{char}'"
    return ""


@lru_cache(maxsize=4096)
def qualified(key: str) -> str:
    """What is wrong with a label key, annotation key or finalizer."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or not SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {SUBDOMAIN_RULE}" if prefix else "prefix part must be non-empty"
    if not name:
        return "name part must be non-empty"
    if len(name) > LABEL_LIMIT:
        return f"name part must be no more than {LABEL_LIMIT} characters"
    return "" if QUALIFIED.fullmatch(name) else QUALIFIED_RULE


@lru_cache(maxsize=4096)
def qualified_faults(key: str) -> list[str]:
    """All that is wrong with a key: an empty name breaks two rules."""
    fault = qualified(key)
    if not fault:
        return []
    return [fault, QUALIFIED_RULE] if fault == "name part must be non-empty" else [fault]


def label_value(value: str) -> str:
    """What is wrong with a label value."""
    if len(value) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    return "" if _is_label_value(value) else VALUE_RULE


@lru_cache(maxsize=4096)
def _is_label_value(value: str) -> bool:
    return LABEL_VALUE.fullmatch(value) is not None


def generated(prefix: str, draw: random.Random) -> str:
    """A name made of a prefix and five characters, as generateName asks for."""
    return prefix[: LABEL_LIMIT - 5] + "".join(draw.choice(ALPHABET) for _ in range(5))
