"""How messages are worded: within the lengths that an object may have, with control characters shown, numbers agreeing.

An API server takes objects of 1.5 MiB and conditions of 32,768 characters (apimachinery, meta/v1 Condition); a gang's
reason is written on each of its pods, so what is allowed here counts as often as it has members.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

LONGEST_TEXT: Final = 4_096
"""Characters of one message."""
MOST_ENTRIES: Final = 32
"""Entries of one list of reasons or problems."""


def shortened(text: str) -> str:
    """The text within `LONGEST_TEXT`; of one that is cut, the end says how much is left out."""
    if len(text) <= LONGEST_TEXT:
        return text
    end = f"... ({len(text) - LONGEST_TEXT} more characters)"
    return text[: LONGEST_TEXT - len(end)] + end


def shortened_details(details: Mapping[str, str]) -> dict[str, str]:
    """The first `MOST_ENTRIES` of named numbers, in their order; `more` says how many are left out."""
    kept = {shortened(name): shortened(value) for name, value in list(details.items())[:MOST_ENTRIES]}
    left = len(details) - len(kept)
    return {**kept, "more": str(left)} if left > 0 else kept


def join_listed(entries: Sequence[object]) -> str:
    """The first `MOST_ENTRIES` of several sentences in one text, and how many more there are."""
    left = len(entries) - MOST_ENTRIES
    said = [str(entry) for entry in entries[:MOST_ENTRIES]]
    return shortened("; ".join([*said, f"and {left} more"] if left > 0 else said))


_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 without tab and line feed, and what turns the direction of the text that follows."""


def escape_controls(text: str) -> str:
    r"""Return a text with its control characters as they are written in code: `\x1b`, `\u202e`."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def followed_by(sentence: str, more: str) -> str:
    """Return a sentence and what is said of it besides, in one: the full stop that it may end with is left out."""
    return f"{sentence.removesuffix('.')}; {more}"


Forms = tuple[str, str]
"""A word as it is with one, and as it is with any other number."""

IS: Final[Forms] = ("is", "are")
HAS: Final[Forms] = ("has", "have")
WAS: Final[Forms] = ("was", "were")


def agreeing(number: int, forms: Forms) -> str:
    """Return the form of a word that agrees with a number."""
    return forms[0] if number == 1 else forms[1]


def counted(number: int, noun: str, *, verb: Forms | None = None) -> str:
    """Return a number with its noun, and with a verb where one is given: `1 pod`, `2 pods`, `0 pods are`."""
    words = f"{number} {noun}{'' if number == 1 else 's'}"
    return words if verb is None else f"{words} {agreeing(number, verb)}"


def all_of(number: int, noun: str) -> str:
    """Return what names all of so many: `the pod`, `all 3 pods`."""
    return f"the {noun}" if number == 1 else f"all {counted(number, noun)}"
