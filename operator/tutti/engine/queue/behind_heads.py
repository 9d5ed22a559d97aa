"""What those are told who wait behind the head of a strict queue.

Only those who are next are told by name who is before them, and what can be done where that one can never start. A name
has to be told anew when another is the head, and must not stay when its bearer has gone; were it told to everybody, a
queue of thousands would be written to as often as its head changes. What the others are told holds for every head;
`tutti explain`, which writes nothing, names it to each.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from tutti.engine.lifecycle.phases import explain
from tutti.engine.queue import QueueState
from tutti.engine.records.discretion import workload_named
from tutti.engine.records.explanation import BEHIND_HEAD, Explanation, Gate
from tutti.engine.records.queue_entries import PendingQueue, QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.quota.assignment import NoFit

MOST_NAMED: Final = 10
"""How many workloads behind a head are told its name."""

MOST_NAMED_PODS: Final = 100
"""And how many pods they may have together, each of which is told; as many as positions are written at once."""

HOPELESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NoFit.EXCEEDS_MAX_QUOTA.reason: "asks for more than it can ever have there: take it back, or raise the quota",
        NoFit.NO_MATCHING_FLAVOR.reason: "suits no flavor there: take it back, or mend what it asks for",
        "Impossible": "fits no node that there is, however empty: take it back, or add such nodes",
    }
)
"""What is said of a head that cannot start however much others give back, by the reason why it waits."""


def told_by_name(state: QueueState, line: PendingQueue, head: QueueEntry) -> dict[QueueEntry, None]:
    """Return who is told by name that this head is before it: in a view, which writes nothing, everybody."""
    if not state.discreet:
        return dict.fromkeys(line.next_behind(head, len(state.workloads)))
    told: dict[QueueEntry, None] = {}
    pods = 0
    for one in line.next_behind(head, MOST_NAMED):
        pods += sum(len(need.members) for need in one.needs)
        if pods > MOST_NAMED_PODS:
            break
        told[one] = None
    return told


def explain_behind(
    state: QueueState, line: PendingQueue, head: QueueEntry, *, reader: str, by_name: bool
) -> Explanation:
    """Return why somebody waits behind a head, as it is told in a namespace."""
    strict = f"ClusterQueue {line.name[0]} is {'StrictFIFO' if head.queue is None else head.queue.strategy}"
    if not by_name:
        return Explanation(Gate.QUEUE, BEHIND_HEAD, f"{strict} and others are before it")
    text = f"{strict} and {workload_named(head.workload, reader, discreet=state.discreet)} is before it"
    hopeless = HOPELESS.get(head.equivalence.why.reason) if head.equivalence.why is not None else None
    return Explanation(Gate.QUEUE, BEHIND_HEAD, f"{text}, which {hopeless}" if hopeless else text)


def explain_those_behind(state: QueueState, line: PendingQueue) -> list[Workload]:
    """Tell those behind a head that blocks its strict queue, and return whom that is news for, the head among them."""
    head, before = line.blocked, line.told_head
    behind = line.behind()
    if head is None:
        return []
    assert head.equivalence.why is not None  # it is parked
    news = [head.workload] if explain_waiting(head.workload, head.equivalence.why) else []
    told = line.told_head = told_by_name(state, line, head)
    said: dict[tuple[str, bool], Explanation] = {}
    for one in dict.fromkeys(chain(told, before, behind)):
        if one.left or not line.is_behind(one, head):
            continue
        case = (one.workload.key[1], one in told)
        if case not in said:
            said[case] = explain_behind(state, line, head, reader=case[0], by_name=case[1])
        if explain_waiting(one.workload, said[case], whole=True):
            news.append(one.workload)
    return news


def explain_waiting(workload: Workload, why: Explanation, *, whole: bool = False) -> bool:
    """Say why a workload waits; returns whether that is news.

    Numbers alone are told when something else is, but a `whole` text is told as it is.
    """
    before = workload.explanation
    news = whole and workload.reported[1] != why.message
    explain(workload, why)
    # What was not told yet is counted all the same.
    return news or workload.reported[0] != why.reason or (before is not None and before.reason != why.reason)
