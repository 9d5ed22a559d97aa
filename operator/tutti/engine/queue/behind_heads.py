"""What those are told who wait behind the head of a strict line.

Only those who are next are told by name who is before them, and what can be done where that one can never start. A name
has to be told anew when another is the head, and must not stay when its bearer has gone; were it told to everybody, a
queue of thousands would be written to as often as its head changes. What the others are told holds for every head;
`tutti explain`, which writes nothing, names it to each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.queue_entries import PendingQueue, QueueEntry
from tutti.engine.records.workloads import workload_named
from tutti.engine.state import State
from tutti.quota.assignment import NoFit

BEHIND_HEAD = "BehindHead"
"""The reason of all of them."""

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


def told_by_name(state: State, line: PendingQueue, head: QueueEntry) -> dict[QueueEntry, None]:
    """Return who is told by name that this head is before it: in a view, which writes nothing, everybody."""
    if not state.discreet:
        return dict.fromkeys(line.next_behind(head, len(state.workloads)))
    near: dict[QueueEntry, None] = {}
    pods = 0
    for one in line.next_behind(head, MOST_NAMED):
        pods += sum(len(need.members) for need in one.needs)
        if pods > MOST_NAMED_PODS:
            break
        near[one] = None
    return near


def why(state: State, line: PendingQueue, head: QueueEntry, *, reader: str, near: bool) -> Explanation:
    """Return why somebody waits behind a head, as it is told in a namespace."""
    strict = f"ClusterQueue {line.name[0]} is {'StrictFIFO' if head.queue is None else head.queue.strategy}"
    if not near:
        return Explanation(Gate.QUEUE, BEHIND_HEAD, f"{strict} and others are before it")
    text = f"{strict} and {workload_named(head.workload, reader, discreet=state.discreet)} is before it"
    hopeless = HOPELESS.get(head.bunch.why.reason) if head.bunch.why is not None else None
    return Explanation(Gate.QUEUE, BEHIND_HEAD, f"{text}, which {hopeless}" if hopeless else text)
