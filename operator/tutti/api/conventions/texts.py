"""What users write into labels and annotations, read within bounds: the one place where such text is parsed.

Whoever may make a pod writes them, and one annotation may have 262,144 bytes. So text is measured before it is parsed,
by parsers that take time in proportion to it; what is nested has a depth, and every number a least and a most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from tutti.api.conventions.claim import ConventionError, shown

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
        raise ConventionError(f"{shown(text)} is no name: write at most {LONGEST_NAME} printable characters", where)
    return text


def integer(texts: Mapping[str, str], key: str, where: str, *, least: int, most: int = MOST_MEMBERS) -> int | None:
    """The whole number under `key`; None if the key is absent.

    Raises:
        ConventionError: the text is no whole number, below `least` or above `most`.
    """
    text = texts.get(key)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
        right = f"of at least {least} and at most {most}: write one, such as 4"
        raise ConventionError(f"{shown(text)} is not a whole number {right}", where)
    return int(text)


def duration(text: str, where: str) -> int:
    """Whole seconds, rounded up, of a duration as Go writes it: `30s`, `5m`, `1h30m`.

    Raises:
        ConventionError: the text is no duration above zero, or one of more than `MOST_SECONDS`.
    """
    seconds = 0.0
    if len(text) <= LONGEST_NUMBER and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    if not 0 < seconds <= MOST_SECONDS:
        right = f"of at most {MOST_SECONDS}s: write one, such as 30s, 5m or 1h30m"
        raise ConventionError(f"{shown(text)} is not a duration above zero and {right}", where)
    return int(-(-seconds // 1))


def decoded(text: str, decoder: msgspec.json.Decoder[T], where: str, right: str) -> T:
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
