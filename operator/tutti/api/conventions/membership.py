"""What a pod says about its gang, whichever convention it says it in; and how such text is read, within bounds.

Whoever may make a pod writes labels and annotations, and one annotation may have 262,144 bytes. So text is measured
before it is parsed, by parsers that take time in proportion to it; what is nested has a depth, and every number a least
and a most.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME = 253
_MOST_SHOWN = 64


class ConventionError(ValueError):
    """A pod that says something which cannot be read; `where` is the label or annotation, the message what is right."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(f"{where}: {message}")
        self.message = message
        self.where = where


class PodTopologyRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """How near one another pods want to be."""

    mode: str = "Unconstrained"
    """Required, Preferred or Unconstrained."""
    level: str = ""
    """The node label that the mode speaks of."""
    slices: tuple[tuple[str, int], ...] = ()
    """Node label and size of the slices, the widest first."""
    group: str = ""
    """Pods of the same group go to one domain; empty: pods that are alike do."""


class GangMembership(msgspec.Struct, frozen=True, omit_defaults=True, weakref=True):
    """Which gang, workload and queue a pod belongs to; empty where it names none.

    `group` is the name of a PodGroup in the pod's namespace. It exists as an object, unless `implicit`: then it exists
    only as labels and annotations, and one with `min_count` is to be made for it.
    """

    convention: str = ""
    namespace: str = ""
    group: str = ""
    workload: str = ""
    queue: str = ""
    priority_class: str = ""
    min_count: int | None = None
    """How many members must be placed at once; None: the PodGroup object says."""
    count: int | None = None
    """How many members there will be; None: nobody has said."""
    timeout_seconds: int | None = None
    """How long a complete reservation may be held; None: the configured default."""
    timeout_jitter_seconds: int = 0
    """Up to how much longer, by chance, so that those that wait for one another do not give up together."""
    implicit: bool = False
    role: str = ""
    """Which part of the group it is, where a group is made of several; each of them is a pod group of its own."""
    roles: tuple[tuple[str, int], ...] = ()
    """The parts that the pod knows of, and how many members each must have; 0: members of that part say."""
    templates: dict[str, dict[str, Any]] = {}
    """What members of a part will be like, as a pod template; of parts that are not here nobody says."""
    style: str = ""
    """Soft or Hard: the gang starts when there is room for all of it, and so is placed one by one, or given up, when
    there is none for too long. Empty: it starts when all of it is there."""
    most: int | None = None
    """How many members may have a node at once; None: all there are."""
    object: str = ""
    """The name of the object that says how large the group is, where it is not that of the group."""
    task: str = ""
    """Which part of the group it is, where the object that says how large the group is counts by parts."""
    leaves_together: bool = False
    """Whether all members are deleted with the first that is."""
    topology: PodTopologyRequest | None = None
    """How near one another pods like this want to be; None: the PodGroup object says, or nobody."""
    after: tuple[tuple[str, str], ...] = ()
    """Names of what has to end before it starts, and whether that must have Succeeded or only Finished."""
    flavor_seconds: tuple[tuple[str, int], ...] = ()
    """How long it is expected to take in which flavor."""
    shared: bool = False
    """Whether the group is of several namespaces; `namespace`, whose queues it goes by, is one of them."""


def label_path(key: str) -> str:
    """How a label is named in messages."""
    return f"metadata.labels[{key}]"


def annotation_path(key: str) -> str:
    """How an annotation is named in messages."""
    return f"metadata.annotations[{key}]"


def quoted(text: str) -> str:
    """How text that is wrong stands in a message: quoted, and no longer than tells which it is."""
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}... ({len(text)} characters)"


def existing_name(text: str, where: str) -> str:
    """`text` as the name of an object that somebody has made; empty stays empty.

    Raises:
        ConventionError: no object can have this name.
    """
    if text and not is_name(text):
        raise ConventionError(
            f"{quoted(text)} cannot be the name of an object: use lower case letters, digits, '-' and '.'", where
        )
    return text


def object_name(text: str) -> str:
    """A name for the object that is made for `text`: itself if it may be one, else a likeness with a hash of it."""
    if is_name(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    likeness = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:200].strip("-")
    return f"{likeness}-{digest}" if likeness else f"group-{digest}"


def is_name(text: str) -> bool:
    """Whether an object can have this name (RFC 1123 subdomain)."""
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None


T = TypeVar("T")

LONGEST_TEXT: Final = 64 * 1024
"""Characters of one label or annotation that is read."""
LONGEST_NUMBER: Final = 64
"""Characters of a duration or a whole number."""
LONGEST_NAME: Final = 253
"""Characters of the name of a part, as of the name of an object."""
DEEPEST: Final = 32
"""How deep JSON may be nested; the affinity of a task group needs 12."""
MOST_MEMBERS: Final = 100_000
"""Of one gang, as `spec.schedulingPolicy.gang.minCount` of a PodGroup has it."""
MOST_GANGS: Final = 256
"""That are placed together: gangs that list one another, or task groups of an application."""
MOST_SECONDS: Final = 2**31 - 1
"""Of a duration, as the fields of our kinds have it."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# A string, closed or not, or a bracket: each character is looked at once.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)


def check_length(text: str, where: str) -> None:
    """Refuse text that is longer than anybody needs.

    Raises:
        ConventionError: it has more than `LONGEST_TEXT` characters.
    """
    if len(text) > LONGEST_TEXT:
        raise ConventionError(f"it has {len(text)} characters: write at most {LONGEST_TEXT}", where)


def part_name(text: str, where: str) -> str:
    """`text` as the name of a part of a gang; empty stays empty.

    Raises:
        ConventionError: it is too long, or holds what cannot be shown.
    """
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ConventionError(f"{quoted(text)} is no name: write at most {LONGEST_NAME} printable characters", where)
    return text


def whole_number(texts: Mapping[str, str], key: str, where: str, *, least: int, most: int = MOST_MEMBERS) -> int | None:
    """The whole number under `key`; None if the key is absent.

    Raises:
        ConventionError: the text is no whole number, below `least` or above `most`.
    """
    text = texts.get(key)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
        right = f"of at least {least} and at most {most}: write one, such as 4"
        raise ConventionError(f"{quoted(text)} is not a whole number {right}", where)
    return int(text)


def whole_seconds(text: str, where: str) -> int:
    """Whole seconds, rounded up, of a duration as Go writes it: `30s`, `5m`, `1h30m`.

    Raises:
        ConventionError: the text is no duration above zero, or one of more than `MOST_SECONDS`.
    """
    seconds = 0.0
    if len(text) <= LONGEST_NUMBER and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    if not 0 < seconds <= MOST_SECONDS:
        right = f"of at most {MOST_SECONDS}s: write one, such as 30s, 5m or 1h30m"
        raise ConventionError(f"{quoted(text)} is not a duration above zero and {right}", where)
    return int(-(-seconds // 1))


def decode_json(text: str, decoder: msgspec.json.Decoder[T], where: str, right: str) -> T:
    """Return what the JSON in an annotation says, as the decoder's type has it; `right` says what that is.

    Raises:
        ConventionError: it is no JSON, not of that type, or nested deeper than `DEEPEST`.
    """
    if is_too_deep(text):
        raise ConventionError(f"this is nested deeper than {DEEPEST} levels: {right}", where)
    try:
        msgspec.json.decode(text)  # else text that breaks off is told to be of the wrong type
    except msgspec.DecodeError as error:
        raise ConventionError(f"this is no JSON ({error}): {right}", where) from error
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise ConventionError(f"{right} ({error})", where) from error


def within_bounds(text: str) -> str:
    """JSON that was written here and can be written by others: "" where it is longer or deeper than is ever written."""
    return "" if len(text) > LONGEST_TEXT or is_too_deep(text) else text


def is_too_deep(text: str) -> bool:
    """Whether JSON is nested deeper than `DEEPEST`; a decoder would use up the stack on it."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1
            if depth > DEEPEST:
                return True
        elif found[2]:
            depth -= 1
    return False
