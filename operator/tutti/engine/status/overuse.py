"""Tells ClusterQueues and Cohorts that they use more quota than there is: an event once, a condition while it lasts.

All of them are looked at when quota has been written anew, and those in which something has happened after each turn.
Figures under the same heading are told anew every `RETELL_SECONDS` at most, as with everything else. The engine says
what is to be told; the conditions of these kinds are written by whoever keeps the others of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tutti.api.conditions import is_true
from tutti.api.kinds import ClusterQueue, Cohort
from tutti.api.model import API_VERSION
from tutti.api.resources import format_amount
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.explanation import RETELL_SECONDS
from tutti.engine.records.overuses import Told
from tutti.engine.records.spoilt import ObjectKey
from tutti.engine.state import State
from tutti.quota.overuse import Overuse, overused
from tutti.quota.tree import FlavorResource, QuotaNode

QUOTA_EXCEEDED = "QuotaExceeded"
"""The type of the condition, and the reason of the event."""

_NAMED = 5
"""How many flavors and resources a message names; the rest is counted."""


def next_due(state: State) -> float | None:
    """Return when to look for the sake of newer figures though nothing is observed, Unix seconds."""
    return state.overuses.look_at


def tell(state: State, moved: Iterable[str]) -> None:
    """Find who uses more than there is, and who does not any more.

    Args:
        state: The engine's memory.
        moved: The ClusterQueues whose usage may have changed.
    """
    over, tree = state.overuses, state.holdings.tree
    nodes: dict[ObjectKey, QuotaNode] = {}
    if over.tree is not tree:
        over.tree = tree
        nodes = {_key(node): node for node in (*tree.cohorts.values(), *tree.queues.values())}
        moved = ()
        for key in [key for key in over.told if key not in nodes]:
            _forget(state, key)
    queues = [tree.queues[name] for name in moved if name in tree.queues]
    nodes.update((_key(one), one) for one in _concerned(state, queues))
    if over.look_at is not None and over.look_at <= state.now:
        over.look_at = None
        nodes = {_key(node): node for node in _all_told(state)} | nodes
    for key, node in nodes.items():
        _look(state, key, overused(node))


def _concerned(state: State, queues: Iterable[QuotaNode]) -> Iterator[QuotaNode]:
    """Yield whose overuse may begin or end with what queues use: their own, and that of those that borrow beside them.

    Whoever borrows from a cohort has nothing left to borrow only where that, or one above it, is used beyond what it
    is given; so nobody else is looked at while no cohort above the queue is, or was.
    """
    seen: set[str] = set()
    for queue in queues:
        yield queue
        for cohort in queue.ancestors():
            if cohort.name in seen:
                break  # and so are those above it
            seen.add(cohort.name)
            yield cohort
            if _key(cohort) in state.overuses.told or overused(cohort):
                yield from cohort.below()


def _key(node: QuotaNode) -> ObjectKey:
    return (ClusterQueue.KIND if node.leaf else Cohort.KIND, "", node.name)


def _all_told(state: State) -> Iterable[QuotaNode]:
    tree = state.holdings.tree
    for kind, _, name in state.overuses.told:
        yield (tree.queues if kind == ClusterQueue.KIND else tree.cohorts)[name]


def _look(state: State, key: ObjectKey, found: Mapping[FlavorResource, Overuse]) -> None:
    over, before = state.overuses, state.overuses.told.get(key)
    if not found:
        if before is not None:
            _forget(state, key)
        return
    message = _message(found)
    if before is not None and message == before.message:
        return
    if before is not None and state.now < before.at + RETELL_SECONDS:
        again = before.at + RETELL_SECONDS
        over.look_at = again if over.look_at is None else min(again, over.look_at)
        return
    over.told[key] = Told(message, state.now)
    over.version += 1
    if before is None:
        _announce(state, key, message)


def _forget(state: State, key: ObjectKey) -> None:
    del state.overuses.told[key]
    state.overuses.version += 1


def _announce(state: State, key: ObjectKey, message: str) -> None:
    """Record an event, unless the object says so already: this process may have started only now."""
    found = state.catalog.find(key)
    if not isinstance(found, ClusterQueue | Cohort):
        return  # a cohort that is only named: its queues are told
    if is_true(found.status.conditions, QUOTA_EXCEEDED):
        return
    about = (API_VERSION, *key, found.metadata.uid)
    state.out.append(EmitEvent(*about, "Warning", QUOTA_EXCEEDED, "Admitting", message))


def _message(found: Mapping[FlavorResource, Overuse]) -> str:
    parts = [_part(what, one) for what, one in sorted(found.items())[:_NAMED]]  # the same whoever came first
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return (
        f"more is used than there is quota for: {', '.join(parts)}{more}; nobody is taken out for that alone, "
        f"and nobody is given more of it until enough has ended or the quota is raised"
    )


def _part(what: FlavorResource, one: Overuse) -> str:
    flavor, resource = what
    given = f"{format_amount(resource, one.used)} of {format_amount(resource, one.given)} {resource} of flavor {flavor}"
    return (
        given if one.borrowable is None else f"{given} (and {format_amount(resource, one.borrowable)} borrowed at most)"
    )
