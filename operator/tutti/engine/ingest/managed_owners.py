"""Which objects that make pods are started and suspended here, and the workload that waits for each.

It is those of a queue that keeps suspended what waits in it (`manage: Suspend`), of kinds that are `startable`, whose
pods are placed here. What is above an object decides as for its pods: one that a JobSet makes is suspended by that.
One that is suspended and names a queue that leads nowhere is taken in as well: it would wait for ever, told nothing.
What was started here stays so until it is restored, whatever becomes of the queue's setting meanwhile.

Some make another object of templates that stand elsewhere, a TrainJob a JobSet, and do so while they are suspended.
That one says what is to be started; until it is there nobody knows, and after a while the object is told so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from tutti.api.core import OwnerReference
from tutti.api.frameworks import (
    InheritedTerms,
    MissingOwner,
    OwnedGang,
    OwnerAwaited,
    ProjectedOwner,
    UnusableOwner,
    gang_of,
    inherited_terms,
    owner_chain,
)
from tutti.api.frameworks.records import PodMarks
from tutti.api.pod_scheduler import DEFAULT_SCHEDULER, opted_in
from tutti.engine.ingest import IngestState
from tutti.engine.ingest.owned_gangs import counts_all
from tutti.engine.lifecycle import owner_starts
from tutti.engine.lifecycle.reservation import break_up
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.faults import Whose
from tutti.engine.records.managed_owners import ManagedOwner
from tutti.engine.records.members import Owned
from tutti.engine.records.observations import OwnerWritten
from tutti.engine.records.workloads import Phase

PATIENCE_SECONDS: Final = 10.0
"""How long after an object what is made of it is waited for before it is told that this is not there."""


def is_to_wait(state: IngestState, found: ProjectedOwner) -> bool:
    """Whether an object that is suspended would be started here when its turn comes.

    One whose pods nobody knows before it has made what says so waits in any case: its queue is to have it.
    """
    numbers = _numbers(state, found)
    owned = _owned(state, found, numbers) if found.is_held else None
    if owned is None or state.catalog.keeps_suspended(found.namespace, _queue(state, found, owned.terms)) is None:
        return False
    if numbers is None or not isinstance(owned.gang, OwnedGang):
        return isinstance(owned.gang, OwnerAwaited)
    return not _unstartable(found, numbers, owned.gang)


def follow_held(state: IngestState, found: ProjectedOwner) -> None:
    """Take in an object as it is now, where it may be started or suspended here, or was, or what controls it may."""
    if found.start is None:
        return
    if found.is_held:
        state.held_owners[found.uid] = found
        _file(state, found)
    elif state.held_owners.pop(found.uid, None) is not None:
        _file(state, found)
    _follow_above(state, found)


def _follow_above(state: IngestState, found: ProjectedOwner) -> None:
    """Look again at what is started as a whole of which something it made is seen, or seen no more."""
    above = state.held_owners.get(found.owner.uid) if found.owner is not None else None
    if above is not None and above.start is not None and above.start.patched:
        _file(state, above)


def follow_held_below(state: IngestState, above: ProjectedOwner) -> None:
    """Look again at the objects right below one that has been seen."""
    for uid in state.owner_graph.controlled_by(above.uid) if state.held_owners else ():
        if uid in state.held_owners:
            _file(state, state.held_owners[uid])


def follow_all_held(state: IngestState, namespaces: Collection[str] | None = None) -> None:
    """Look again at all of them, or at those of some namespaces: queues are written otherwise."""
    for found in list(state.held_owners.values()):
        if namespaces is not None and found.namespace not in namespaces:
            continue
        state.attempt(_whose(found), "reading what it starts", partial(_file, state, found), None)


def held_gone(state: IngestState, uid: str, found: ProjectedOwner | None) -> None:
    """Forget an object that does not exist any more; what was held for its pods is given back."""
    state.held_owners.pop(uid, None)
    state.told_owners.pop(uid, None)
    state.unmade_owners.pop(uid, None)
    _release(state, uid)
    if found is not None:
        _follow_above(state, found)


def next_unmade_due(state: IngestState) -> float | None:
    """Return when somebody has to be told that what says which pods it has is not there, Unix seconds."""
    return min((due for due in state.unmade_owners.values() if due), default=None)


def tell_unmade(state: IngestState) -> None:
    """Tell those of which for too long nothing says which pods they have."""
    for uid, due in list(state.unmade_owners.items()):
        if due > state.now:
            continue
        state.unmade_owners[uid] = math.inf if due else state.now + PATIENCE_SECONDS
        found = state.held_owners.get(uid)
        if not due or found is None:
            continue  # it has just been seen, or is there no more
        whose, act = _whose(found), partial(_tell_unmade, state, found)
        if not state.attempt(whose, "telling it what is not made of it", act, otherwise=False):
            state.unmade_owners[uid] = state.faults.until(whose[:3], state.now) or state.now


def _tell_unmade(state: IngestState, found: ProjectedOwner) -> bool:
    """Tell one of which nothing says which pods it has; returns True, for it has been told."""
    kind = state.kinds.get(found.group, found.kind)
    if kind is not None:
        made = (kind.numbers_of or "").rpartition("/")[2]
        text = f"the {made} that is made of it is not there: its controller must run, and find what it names"
        _refuse(state, found, text)
    return True


def owner_written(state: IngestState, result: OwnerWritten) -> None:
    """Take in what became of a start or suspension."""
    key = state.managed_owners.get(result.uid)
    workload = state.workloads.get(key) if key is not None else None
    if workload is not None:
        owner_starts.settle_write(state, workload, result)


def _file(state: IngestState, found: ProjectedOwner) -> None:
    numbers = _numbers(state, found)
    owned = _owned(state, found, numbers) if found.is_held else None
    gang = owned.gang if owned is not None else None
    if isinstance(gang, OwnerAwaited):
        state.unmade_owners.setdefault(found.uid, 0.0)
    else:
        state.unmade_owners.pop(found.uid, None)
    if owned is None or numbers is None or not isinstance(gang, OwnedGang):
        _release(state, found.uid)
        if isinstance(gang, UnusableOwner):
            _refuse(state, found, "; ".join(gang.problems))
        return
    wrong = _unstartable(found, numbers, gang)
    if wrong:
        _release(state, found.uid)
        _refuse(state, found, wrong)
        return
    state.told_owners.pop(found.uid, None)
    key = ("PodGroup", found.namespace, gang.starts_with)
    before = state.managed_owners.get(found.uid)
    managed = _known(state, found.uid)
    if before is not None and before != key:
        _release(state, found.uid)
    workload = state.take_in(key)
    if managed is None:
        managed = ManagedOwner(found, owned, _reference(found))
    workload.managed = managed
    state.managed_owners[found.uid] = key
    if found.start is not None and found.start.patched and managed.found != found and not managed.refused:
        managed.not_before = 0.0  # it tells by itself when the next write can be made
    managed.found, managed.owned = found, owned
    managed.created = _created(found)
    managed.templates = {role.name: role.template for role in numbers.roles}
    managed.groups = _groups(gang)
    state.touch(key)


def _known(state: IngestState, uid: str) -> ManagedOwner | None:
    key = state.managed_owners.get(uid)
    workload = state.workloads.get(key) if key is not None else None
    return workload.managed if workload is not None else None


def _groups(gang: OwnedGang) -> dict[str, str]:
    """Return the role of the pods in each pod group that is started, by the name of the group."""
    if counts_all(gang):
        return {gang.starts_with: gang.parts[0].role}
    return {role: role for role in (*(one.role for one in gang.parts), *(one.role for one in gang.later))}


def _unstartable(found: ProjectedOwner, numbers: ProjectedOwner, gang: OwnedGang) -> str:
    """Return why an object cannot be started here; "" where it can."""
    without = "write it for a queue without manage: Suspend"
    if found.start is not None and found.start.unfit:
        return f"it can be started only where {found.start.unfit}"
    if not any(part.count for part in gang.parts):
        return "it asks for no pods"
    if any(role.leads for role in numbers.roles):
        return f"its leaders are placed before the others are made, so nobody knows where these will be; {without}"
    if counts_all(gang) and len(gang.parts) > 1:
        return f"its minimum counts pods of several roles, so nobody knows how many of each; {without}, or leave it out"
    return ""


def _numbers(state: IngestState, found: ProjectedOwner) -> ProjectedOwner | None:
    """Return what says how many pods an object has, and of what: itself, or what it has made; None: nothing yet."""
    kind = state.kinds.get(found.group, found.kind)
    if kind is None or kind.template_patches is None:
        return found
    made = (state.owner_graph.known(uid) for uid in state.owner_graph.controlled_by(found.uid))
    here = [one for one in made if one is not None and f"{one.group}/{one.kind}" == kind.numbers_of]
    own = [one for one in here if one.namespace == found.namespace]
    return min(own, key=lambda one: (one.name != found.name, one.name), default=None)


def _owned(state: IngestState, found: ProjectedOwner, numbers: ProjectedOwner | None) -> Owned | None:
    """Return what the pods of an object will have from it and from what is above; None where it is not managed."""
    start = found.start
    assert start is not None  # else nobody asks
    lowest = numbers or found
    known = {found.uid: found, lowest.uid: lowest}

    def look_up(at: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
        return known.get(at.uid) or state.owner_graph.look_up(at, namespace)

    marks = _marks(state, lowest)
    chain = owner_chain(marks, look_up)
    at = next((index for index, one in enumerate(chain.owners) if one.uid == found.uid), None)
    if chain.awaited or at is None or _is_composed(state, chain.owners[at:]):
        return None
    terms = inherited_terms(chain, state.kinds.ignored)
    if not start.started and state.catalog.keeps_suspended(found.namespace, _queue(state, found, terms)) is False:
        return None
    ref = _reference(found)
    if numbers is None:
        return Owned(OwnerAwaited(f"{found.title} has not made what says which pods it has"), terms, None, ref)
    wrong = _not_ours(state, chain.owners[-1])
    if not _is_placed_here(state, numbers):
        if numbers is found:
            return None
        scheduler = next((role.scheduler for role in numbers.roles if role.scheduler), DEFAULT_SCHEDULER)
        wrong = wrong or f"its templates name the scheduler {scheduler}: name one of Tutti's where they stand"
    if wrong:
        return Owned(UnusableOwner(found.title, (wrong,)), terms, None, ref)
    return Owned(gang_of(marks, chain, state.kinds, state.profiles.keys()), terms, None, ref)


def _queue(state: IngestState, found: ProjectedOwner, terms: InheritedTerms) -> str:
    """Return the LocalQueue of an object; "" where it is in none."""
    default = state.configuration.default_local_queue
    return terms.queue or state.catalog.default_queue(found.namespace, default, _created(found))


def _marks(state: IngestState, lowest: ProjectedOwner) -> PodMarks:
    """Return what stands for the pods of an object that have not been made."""
    kind, start = state.kinds.get(lowest.group, lowest.kind), lowest.start
    attempt = start.attempt if start is not None else ""
    labels = {kind.attempt_label: attempt} if kind is not None and kind.attempt_label and attempt else {}
    scheduler = next((role.scheduler for role in lowest.roles), "")
    return PodMarks(lowest.namespace, f"{lowest.name}-", "", _reference(lowest), scheduler=scheduler, labels=labels)


def _is_composed(state: IngestState, owners: Sequence[ProjectedOwner]) -> bool:
    """Whether what is above an object makes it as a part of its own, and suspends it itself."""
    lower, *above = owners
    for owner in above[:1]:
        kind = state.kinds.get(owner.group, owner.kind)
        return kind is not None and f"{lower.group}/{lower.kind}" in kind.composes
    return False


def _not_ours(state: IngestState, last: ProjectedOwner) -> str:
    """Return why something above the owners that are known is to start them; "" where nothing is known to be."""
    ref = last.owner
    if ref is None or state.owner_graph.known(ref.uid) is not None:
        return ""
    kind = state.kinds.get(ref.api_version.rpartition("/")[0], ref.kind)
    if kind is None or f"{last.group}/{last.kind}" not in kind.composes:
        return ""
    return f"{ref.kind} {ref.name}, which makes {last.title} and would start it, is not read"


def _is_placed_here(state: IngestState, found: ProjectedOwner) -> bool:
    """Whether any pods of an object will be ours: by their template, or by the webhook of their namespace."""
    labels = state.catalog.namespace_labels(found.namespace)
    named = bool(opted_in(found.namespace, labels, state.profiles.keys()))
    return any(
        role.scheduler in state.profiles or (named and role.scheduler in ("", DEFAULT_SCHEDULER))
        for role in found.roles
    )


def _release(state: IngestState, uid: str) -> None:
    """Leave an object to itself: its pods, if it makes any, wait like those of others."""
    key = state.managed_owners.pop(uid, None)
    workload = state.workloads.get(key) if key is not None else None
    if workload is None or workload.managed is None or workload.managed.found.uid != uid:
        return
    workload.managed = None
    if workload.phase is Phase.RESERVED:
        break_up(state, workload)
    for group in workload.groups.values():
        group.promised = None
        if not group.members:
            group.min_count, group.count = 0, None
    state.touch(workload.key)


def _refuse(state: IngestState, found: ProjectedOwner, why: str) -> None:
    """Tell an object once why it is not started."""
    if state.told_owners.get(found.uid) != why:
        state.told_owners[found.uid] = why
        about = (_reference(found).api_version, found.kind, found.namespace, found.name, found.uid)
        state.out.append(EmitEvent(*about, "Warning", "InvalidGang", "Starting", f"it stays suspended: {why}"))


def _whose(found: ProjectedOwner) -> Whose:
    """Return whose fault it is where that raises which is done for an object."""
    return Whose(found.kind, found.namespace, found.name, _reference(found).api_version, found.uid)


def _reference(found: ProjectedOwner) -> OwnerReference:
    version = found.start.version if found.start is not None else ""
    return OwnerReference(f"{found.group}/{version}", found.kind, found.name, found.uid, controller=True)


def _created(found: ProjectedOwner) -> float:
    text = found.start.created if found.start is not None else ""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0
