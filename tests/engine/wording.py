"""What anybody is told by an engine, message by message, and which forms a message may have.

Every decision that an engine of a test comes to is read: statuses, conditions of pods and objects, events, evictions. So
what is said is held to one form wherever it is made, by the stories that have it said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tutti.api.messages import LONGEST_TEXT
from tutti.engine.cycle.state import State
from tutti.engine.records.decisions import AnyDecision, EmitEvent, Evict, PatchStatus, SetPodCondition
from tutti.engine.records.explanation import ASKING


class Told(NamedTuple):
    """A message: of which gate and for which reason, whether it is on a pod, which has kube-scheduler's words, and where."""

    gate: str
    reason: str
    text: str
    on_pod: bool = False
    namespace: str = ""


def told_by(decisions: Iterable[AnyDecision]) -> Iterator[Told]:
    """Yield all messages that decisions have written."""
    for one in decisions:
        if isinstance(one, PatchStatus):
            yield from _in_status(one.status, one.namespace)
        elif isinstance(one, SetPodCondition):
            yield Told("", one.reason, one.message, on_pod=True, namespace=one.namespace)
        elif isinstance(one, EmitEvent):
            yield Told("", one.reason, one.note, namespace=one.namespace)
        elif isinstance(one, Evict):
            yield Told("", one.reason, one.message, namespace=one.namespace)


def asking_in(state: State) -> Iterator[Told]:
    """Yield what views tell of those about whom an extender is asked, which is over before a status would say it."""
    if not state.configuration.extenders:
        return
    for key, one in state.workloads.items():
        if one.explanation is not None and one.explanation.reason == ASKING:
            yield Told(one.explanation.gate.value, ASKING, one.explanation.plain, namespace=key[1])


def _in_status(status: Any, namespace: str) -> Iterator[Told]:
    if isinstance(status, dict):
        if isinstance(status.get("message"), str):
            gate, reason = str(status.get("gate", "")), str(status.get("reason", ""))
            yield Told(gate, reason, status["message"], namespace=namespace)
        for value in status.values():
            yield from _in_status(value, namespace)
    elif isinstance(status, list):
        for value in status:
            yield from _in_status(value, namespace)


_PATH = re.compile(r"(?<![a-z0-9.-])([a-z0-9.-]++)/([a-z0-9.-]*[a-z0-9])")  # each character is looked at once


def strangers_in(one: Told, state: State) -> list[str]:
    """Return who of other namespaces is named in what is told in one, where that is to be told of nobody."""
    if not one.namespace or not state.discreet:
        return []
    known = {(namespace, name) for _, namespace, name in state.workloads}
    named = [(found[1], found[2]) for found in _PATH.finditer(one.text)]
    return ["/".join(key) for key in named if key[0] != one.namespace and (key in known or key in state.cluster.pods)]


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
