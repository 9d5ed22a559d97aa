"""The queue that pods inherit from what owns them: the nearest owner that names one decides.

Kueue's users label the Job that they submit, and the label never reaches its pods: read from the pods alone, such a
job would run beside its queue. Kueue's own webhooks write the owner's queue into the pods; here it is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tutti.api.conventions import kueue
from tutti.api.conventions.membership import ConventionError, existing_name, label_path
from tutti.api.core import OwnerReference
from tutti.api.owners import QUEUE_LABELS, OwnerObject
from tutti.engine.records.ancestry import MOST_LEVELS, Kind
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import UNDER_WAY, Workload
from tutti.engine.state import State

PATIENCE_SECONDS = 10.0
"""How long pods whose owner has not been seen wait for it: watches tell of both in any order."""


class Inherited(NamedTuple):
    """A queue that an owner names, and who that is."""

    queue: str
    said_by: str


def seen(state: State, found: OwnerObject) -> None:
    """Take in what owns pods; those below it are looked at again."""
    _look_again(state, state.ancestry.put(found))


def followed(state: State, kind: Kind, *, is_so: bool) -> None:
    """Note whether the objects of a kind are seen; the members that wait for one need not, or must."""
    state.ancestry.follow(kind, followed=is_so)
    _look_again(state, state.ancestry.of_kind(kind))


def inherited(state: State, workload: Workload) -> list[Inherited]:
    """Return the queues that the owners of a workload's members name; more than one where they differ.

    Where an owner is yet to be seen, or names what cannot be a queue, that is the workload's problem.
    """
    owned = {member.owner.uid: member for member in workload.members() if member.owner is not None}
    found: dict[str, Inherited] = {}
    awaited: OwnerReference | None = None
    for member in owned.values():
        try:
            said = _nearest(state, member)
        except ConventionError as error:
            workload.problem = workload.problem or Explanation(Gate.QUEUE, "InvalidQueue", str(error))
            continue
        if isinstance(said, Inherited):
            found.setdefault(said.queue, said)
        elif said is not None:
            awaited = said
    _wait_for(state, workload, awaited)
    return list(found.values())


def _nearest(state: State, member: Member) -> Inherited | OwnerReference | None:
    """Return the queue that the nearest owner names, or the owner that is yet to be seen; None where none names one.

    Raises:
        ConventionError: What it names cannot be a queue.
    """
    at = member.owner
    for _ in range(MOST_LEVELS):
        if at is None:
            return None
        pod = state.members.get((member.pod.namespace, at.name)) if (at.api_version, at.kind) == ("v1", "Pod") else None
        if pod is not None and pod.pod.uid == at.uid:
            if pod.claim.queue:
                return Inherited(pod.claim.queue, f"Pod {at.name}")
            at = pod.owner
            continue
        known = state.ancestry.known(at, member.pod.namespace)
        if known is None:
            return at if state.ancestry.is_followed(at) else None
        queue = _named(state, known)
        if queue:
            return Inherited(queue, f"{known.kind} {known.name}")
        at = known.controller
    return None


def _named(state: State, owner: OwnerObject) -> str:
    """Return the queue that an owner's labels name, or ""."""
    for name in QUEUE_LABELS:
        if name != kueue.QUEUE_NAME or state.configuration.conventions.kueue:
            queue = existing_name(owner.labels.get(name, ""), f"{owner.kind} {owner.name}: {label_path(name)}")
            if queue:
                return queue
    return ""


def _wait_for(state: State, workload: Workload, awaited: OwnerReference | None) -> None:
    """Hold back what may be in a queue that nobody has seen yet, for a while; what runs goes on."""
    if awaited is None or workload.phase in UNDER_WAY:
        workload.owner_awaited = None
        return
    if workload.owner_awaited is None:
        workload.owner_awaited = state.now
    until = workload.owner_awaited + PATIENCE_SECONDS
    if state.now < until:
        text = f"{awaited.kind} {awaited.name}, which controls its pods, has not been seen yet; it may name their queue"
        workload.problem = workload.problem or Explanation(Gate.QUEUE, "OwnerNotSeen", text)
        state.set_alarm(workload, until)


def _look_again(state: State, members: Sequence[Member]) -> None:
    for member in members:
        home = state.home.get(member.pod.key)
        if home is not None:
            state.touch(home[0])
