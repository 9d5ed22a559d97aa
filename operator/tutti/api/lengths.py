"""How much is told of one object: what users write is repeated in statuses, conditions and events, and may be long.

An API server takes objects of 1.5 MiB and conditions of 32,768 characters (apimachinery, meta/v1 Condition); a gang's
reason is written on each of its pods, so what is allowed here counts as often as it has members.
"""

from __future__ import annotations

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


def listed(entries: Sequence[object]) -> str:
    """The first `MOST_ENTRIES` of several sentences in one text, and how many more there are."""
    left = len(entries) - MOST_ENTRIES
    said = [str(entry) for entry in entries[:MOST_ENTRIES]]
    return shortened("; ".join([*said, f"and {left} more"] if left > 0 else said))
