"""How messages are worded: within the lengths that an object may have, with control characters shown, numbers agreeing.

An API server takes objects of 1.5 MiB and conditions of 32,768 characters (apimachinery, meta/v1 Condition); a gang's
reason is written on each of its pods, so what is allowed here counts as often as it has members.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
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


def listed(names: Iterable[str], count: int, most: int) -> str:
    """The first of so many names, and how many more there are than are given at most."""
    more = f" and {count - most} more" if count > most else ""
    return ", ".join(islice(names, most)) + more


_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 without tab and line feed, and what turns the direction of the text that follows."""


def escape_controls(text: str) -> str:
    r"""Return a text with its control characters as they are written in code: `\x1b`, `\u202e`."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


_OF_NODES: Final = re.compile(
    r"\b(\d+) (?:node\(s\)(?: (were|exceed)\b)?|(cannot allocate all claims|resourceclaim not available))"
)
_KUBE_WORDS: Final = {
    "untolerated taint(s)": "untolerated taints",
    "plugin(s) [NodeAffinity]": "plugin NodeAffinity",
    "pvc(s) bound to non-existent pv(s)": "claims bound to volumes that do not exist",
}
_VERBS: Final = {"were": ("was", "were"), "exceed": ("exceeds", "exceed")}
_NODES: Final = "node(s) "
_AVAILABLE: Final = "nodes are available"


def in_plain_words(text: str) -> str:
    """Return a message for people of one in the words of kube-scheduler, which leaves open how many nodes it means.

    Conditions of pods have its own words (framework/types.go, FitError), as people search for these, and scripts.
    """
    if _AVAILABLE not in text:
        return text
    for theirs, ours in _KUBE_WORDS.items():
        text = text.replace(theirs, ours)
    return _OF_NODES.sub(_with_its_number, text)


def _with_its_number(found: re.Match[str]) -> str:
    number, verb, claims = int(found[1]), found[2], found[3]
    said = counted(number, "node")
    if claims:
        return f"{said} that cannot allocate all claims" if claims[0] == "c" else f"{said} with a claim not available"
    return f"{said} {agreeing(number, _VERBS[verb])}" if verb else said


def ruled_out_for(number: int, reason: str) -> str:
    """Return for what so many nodes are ruled out, to stand behind their number: `was unschedulable`."""
    if not reason.startswith(_NODES):
        return reason
    return in_plain_words(f"{_AVAILABLE} {number} {reason}").partition(" node")[2].removeprefix("s").lstrip()


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
