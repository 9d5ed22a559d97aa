"""Workloads that start after others have ended: whom each still waits for, and what it is told of them.

Who has not ended yet is waited for by name, whether it exists already or not: a Workload, what makes the pods of a gang
or of single pods (a Job, a RayJob), a PodGroup, or a pod, the first of them that there is. Volcano's JobFlow starts a
job when those it depends on are Completed (pkg/controllers/jobflow); so success is what counts unless a workload says
that any end will do.

Somebody who has ended as he must is not waited for again. That is kept in the status of who waited, so that it is the
same after a restart and when who has ended is deleted. Where there is no status, of a single pod, what the same object
has made says so: once one of its pods has had a node, or it has begun anew after a failure, others need not wait.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import NamedTuple

from tutti.api.kinds import PodGroup
from tutti.api.kinds.after import MOST_AFTER
from tutti.engine.queue import QueueState
from tutti.engine.records.explanation import (
    AFTER_ITSELF,
    PREDECESSOR_FAILED,
    WAITING_FOR_OTHERS,
    Explanation,
    Gate,
)
from tutti.engine.records.followers import counts_as_ended, still_awaited
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey

_MOST_NAMED = 8
"""How many others of a ring are named."""

_MOST_REMEMBERED = 4096
"""Of so many objects it is remembered whether they have begun."""

_SAID = {
    "Missing": "does not exist yet",
    "Member": "is one of several that end together",
    "Invalid": "cannot be read",
    "Inactive": "is set inactive (spec.active)",
    "Waiting": "waits to start",
    "Running": "runs",
    "Leaving": "is being taken out",
    "Unfinished": "has not ended",
    "Succeeded": "has succeeded",
    "Failed": "has failed",
}
"""What is told of somebody, by how he fares."""
_ENDED = ("Succeeded", "Failed")


class Standing(NamedTuple):
    """How somebody fares who is waited for.

    Attributes:
        title: Kind and name; the name alone of who does not exist.
        state: One word (`_SAID`).
        instead: Which name is to be written in its place; "": that one is right.
    """

    title: str
    state: str
    instead: str = ""


def waits_for_others(state: QueueState, workload: Workload) -> Explanation | None:
    """Return for whom a workload has to wait that starts after others; None where all have ended as they must.

    Those that have are noted in its record, and are not asked for again.
    """
    if not workload.after or workload.phase is not Phase.WAITING or _has_begun(state, workload):
        return None
    namespace, ended = workload.key[1], dict(workload.ended_before)
    open_: dict[str, tuple[str, Standing]] = {}
    for name, when in still_awaited(workload.after, ended):
        standing = _standing(state, namespace, name)
        state.followers.told[namespace, name] = standing.state
        if counts_as_ended(standing.state, when):
            ended[name] = standing.state
        else:
            open_[name] = (when, standing)
    if ended != workload.ended_before:
        workload.ended_before = _no_more_than_may_be_noted(ended, {name for name, _ in workload.after})
        state.touch(workload.key)  # whom it waits for is noted where it is read
    if not open_:
        return None
    ring = state.followers.ring_of(workload.key)
    return _in_ring(workload, ring) if ring else _waiting(open_)


def notice(state: QueueState, key: WorkloadKey) -> None:
    """Have those looked at again who wait for somebody that fares otherwise now than when they were last told."""
    name = key[1:]
    told = state.followers.told.get(name)
    if told is not None and told != (now := _standing(state, *name).state):
        state.followers.told[name] = now  # once: those in a ring would have one another looked at for ever
        state.touch_followers(*name)


def forget(state: QueueState, key: WorkloadKey) -> None:
    """Note that somebody is gone, who may have waited for others, and others for him."""
    state.followers.drop(key)
    notice(state, key)


def follow_rings(state: QueueState) -> None:
    """Find out who waits for himself by way of others, where who waits for whom has changed."""
    for key in state.followers.find_rings(state.now):
        state.touch(key)


def rings_are_due(state: QueueState) -> bool:
    """Whether it is to be found out now who waits for himself."""
    due = next_rings_due(state)
    return due is not None and due <= state.now


def next_rings_due(state: QueueState) -> float | None:
    """Return when it is to be found out who waits for himself, Unix seconds; None where nothing has changed."""
    return state.followers.next_due()


def _no_more_than_may_be_noted(ended: dict[str, str], named: Collection[str]) -> dict[str, str]:
    """Return who has ended, without those that are not named any more where the status has no room for all."""
    others = (name for name in ended if name not in named)
    dropped = set(islice(others, max(0, len(ended) - MOST_AFTER)))
    return {name: how for name, how in ended.items() if name not in dropped}


def _standing(state: QueueState, namespace: str, name: str) -> Standing:
    """Return how whoever has a name fares, as far as is known now."""
    for kind in ("Workload", "", "PodGroup", "Pod"):
        if not kind:
            made = state.owner_graph.named(namespace, name)
            if made:
                left = [one for one in made if not one.ended]
                failed = [one for one in made if one.ended == "Failed"]
                one = (left or failed or made)[0]
                return Standing(one.title, one.ended or "Unfinished")
            continue
        key = (kind, namespace, name)
        if key in state.catalog.broken:
            return Standing(f"{kind} {name}", "Invalid")
        workload = state.workloads.get(key)
        if workload is not None and (kind == "Pod" or state.catalog.stands_alone(key)):
            return Standing(f"{kind} {name}", _state_of(workload))
    whole = _whole_of(state, namespace, name)
    return Standing(name, "Missing") if whole is None else whole


def _whole_of(state: QueueState, namespace: str, name: str) -> Standing | None:
    """Return what is told of a member of a gang, or of a PodGroup of a Workload, which nobody can wait for alone."""
    group = state.catalog.get(PodGroup, namespace, name)
    if group is not None and group.spec.workload_ref is not None:
        return Standing(
            f"PodGroup {name} of Workload {group.spec.workload_ref.name}", "Member", group.spec.workload_ref.name
        )
    address = state.pod_group_of.get((namespace, name))
    if address is None or address[0][0] == "Pod":
        return None
    (kind, _, gang), maker = address[0], state.workloads[address[0]].maker
    kind, gang = (kind, gang) if kind == "Workload" or maker is None else (maker.kind, maker.name)
    return Standing(f"Pod {name} of {kind} {gang}", "Member", gang)


def _state_of(workload: Workload) -> str:
    match workload.phase:
        case Phase.FINISHED:
            return workload.outcome if workload.outcome in _ENDED else "Failed"
        case Phase.LEAVING:
            return "Leaving"
        case Phase.WAITING | Phase.CHECKING:
            return "Waiting" if workload.active else "Inactive"
        case Phase.RESERVED | Phase.BINDING | Phase.SCHEDULED:
            return "Running"


def _has_begun(state: QueueState, workload: Workload) -> bool:
    """Whether what makes the pods of a workload has begun: pods that it makes later, or anew, do not wait again."""
    first: Member | None = next(iter(workload.members()), None)
    if workload.key[0] == "Workload" or first is None or first.marks.owner is None:
        return False
    attempts = {kind.attempt_label for kind in state.kinds if kind.attempt_label}
    if any(first.marks.labels.get(label, "0") != "0" for label in attempts):
        return True
    made = state.owner_graph.siblings(first)  # others may name that object, too, from elsewhere, where it is none
    key, namespace = (first.pod.namespace, first.marks.owner.uid), first.pod.namespace
    version, known = state.cluster.pod_columns.version, state.followers.begun.get(key)
    if known is not None and known[:2] == (version, len(made)):
        return known[2]  # thousands that one object has made ask the same
    if len(state.followers.begun) >= _MOST_REMEMBERED:
        state.followers.begun.clear()
    begun = any((one.pod.place or one.pod.terminated) and one.pod.namespace == namespace for one in made)
    state.followers.begun[key] = version, len(made), begun
    return begun


def _waiting(open_: dict[str, tuple[str, Standing]]) -> Explanation:
    """Say for whom somebody waits."""
    told, details, failed = [], {}, False
    for name, (when, standing) in open_.items():
        beyond = standing.state == "Failed"
        failed = failed or beyond
        must = " and has to succeed" if beyond else "" if when == "Succeeded" else " (it has to end, either way)"
        instead = f": name {standing.instead} in its place" if standing.instead else ""
        told.append(f"{standing.title} {_SAID[standing.state]}{instead or must}")
        details[name] = standing.state
    text = f"it starts after others: {', '.join(told)}"
    if not failed:
        return Explanation(Gate.QUEUE, WAITING_FOR_OTHERS, text, details)
    text += "; run what has failed again, or say when: Finished of it, or name it no longer"
    return Explanation(Gate.QUEUE, PREDECESSOR_FAILED, text, details)


def _in_ring(workload: Workload, ring: tuple[WorkloadKey, ...]) -> Explanation:
    """Say by way of whom somebody waits for himself."""
    others = [f"{key[0]} {key[2]}" for key in ring[: _MOST_NAMED + 1] if key != workload.key][:_MOST_NAMED]
    if not others:
        text = "it is to start after itself, and never will: name others"
        return Explanation(Gate.QUEUE, AFTER_ITSELF, text)
    left = len(ring) - 1 - len(others)
    more = f" and {left} more" if left else ""
    text = f"it is to start after itself, by way of {', '.join(others)}{more}, and none of them ever will: "
    return Explanation(Gate.QUEUE, AFTER_ITSELF, text + "have one of them not wait for the others")
