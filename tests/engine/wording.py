"""What anybody is told by an engine, message by message, and which forms a message may have.

Every decision that an engine of a test comes to is read: statuses, conditions of pods and objects, events, evictions. So
what is said is held to one form wherever it is made, by the stories that have it said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tutti.api.messages import LONGEST_TEXT
from tutti.engine.records.decisions import AnyDecision, EmitEvent, Evict, PatchStatus, SetPodCondition


class Told(NamedTuple):
    """A message: of which gate and for which reason, and whether it is on a pod, which has kube-scheduler's words."""

    gate: str
    reason: str
    text: str
    on_pod: bool = False


def told_by(decisions: Iterable[AnyDecision]) -> Iterator[Told]:
    """Yield all messages that decisions have written."""
    for one in decisions:
        if isinstance(one, PatchStatus):
            yield from _in_status(one.status)
        elif isinstance(one, SetPodCondition):
            yield Told("", one.reason, one.message, on_pod=True)
        elif isinstance(one, EmitEvent):
            yield Told("", one.reason, one.note)
        elif isinstance(one, Evict):
            yield Told("", one.reason, one.message)


def _in_status(status: Any) -> Iterator[Told]:
    if isinstance(status, dict):
        if isinstance(status.get("message"), str):
            yield Told(str(status.get("gate", "")), str(status.get("reason", "")), status["message"])
        for value in status.values():
            yield from _in_status(value)
    elif isinstance(status, list):
        for value in status:
            yield from _in_status(value)


_NOUNS = "pod|node|member|workload|claim|device|successor|slice|check|time|unit"
_FORMS = {
    "a plural that leaves open how many": re.compile(r"\w\(e?s\)"),
    "one of several": re.compile(
        rf"(?<![\d./:-])(?<!needs )1 (?:more |other |required |promised |bound |unbound )*(?:{_NOUNS})s\b"
    ),
    "several of one": re.compile(
        rf"(?<![\d./:-])(?:0|[2-9]|[1-9]\d+) (?:more |other |required |bound )*(?:{_NOUNS})\b(?! (?:group|set|/))"
    ),
    "a flavor or a queue behind the end": re.compile(r"\.? \((?:flavor|queue) [^)]*\)$"),
    "a mark that ends nothing": re.compile(r"[;:,(|]\s*$|\.\.$| \| |;;|::|\(\)|\. \."),
    "a value of the program": re.compile(r"(?<!backfill )(?<!to )(?<!')\bNone\b|<\w+\.\w+|\bTrue\b"),
}
_CLAUSES = re.compile(r"; |\. |: | \| ")
_WORDS_OF_USERS = ("Preempted", "Failed", "AdmissionCheck", "UserLimit")
"""Reasons that are words of the API, too."""
_LEAST = 8
"""Words between clauses are shorter: `or`, `and`."""
AROUND = 256
"""So much may stand around a text of somebody else's that was cut."""


def faults_of(one: Told) -> list[str]:
    """Return what is wrong with how a message is worded."""
    text = one.text.removeprefix("Previously: ")
    found = [] if len(one.text) <= LONGEST_TEXT + AROUND else [f"it has {len(one.text)} characters"]
    if not one.on_pod:
        found += [what for what, form in _FORMS.items() if form.search(text)]
    if one.gate and re.search(rf"\b{re.escape(one.reason)}\b", text) and one.reason not in _WORDS_OF_USERS:
        found.append("its reason once more")
    # Figures may be alike, and so may be what is wrong with several fields.
    clauses = (
        []
        if "spec" in text
        else [one for one in _CLAUSES.split(text) if len(one) >= _LEAST and not re.search(r"\d", one)]
    )
    return found + [f"said twice: {one}" for one in dict.fromkeys(clauses) if clauses.count(one) > 1]
