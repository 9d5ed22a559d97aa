"""Objects that make pods are started when there is quota and room for their pods, and suspended when these must leave.

A workload whose object is suspended is admitted like any other, with nothing but promised members. Then `ask_to_start`
has the object make them, on nodes of the flavors that were chosen, and what is reserved is held for them
(`reservation.py`). Whoever has to leave is suspended instead of evicted: what makes the pods deletes them. Only where
that cannot be written, or is not followed, are pods evicted one by one all the same.

Where an object was left between the two, by a process that was killed or by somebody who suspends it by hand, it is
suspended and restored (`follow_owner`), and waits in its queue again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import structs

from tutti.api.core import PodSpec
from tutti.api.frameworks.starting import Directives
from tutti.api.messages import counted
from tutti.cluster.classes import PodClass
from tutti.engine.lifecycle import LifecycleState, reservation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.records.decisions import EmitEvent, StartOwner, SuspendOwner
from tutti.engine.records.explanation import RESERVED_TEXT, Explanation, Gate
from tutti.engine.records.managed_owners import ManagedOwner
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.observations import OwnerWritten
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.ordering import backoff_seconds

_LOOK_AGAIN_SECONDS: Final = 5.0
"""How long after it was written it is written again that an object is suspended, while nothing shows it."""
PODS_GO_SECONDS: Final = 30.0
"""How long after its suspension the pods of an object are left to what makes them."""


def why_not_tried(workload: Workload) -> Explanation | None:
    """Return why a workload waits for its object, which must be suspended first; None where it does not."""
    managed = workload.managed
    if managed is None or workload.phase is Phase.RESERVED:
        return None
    if managed.leaves is not None or (managed.started and managed.found.suspended):
        said = f" ({managed.leaves[1]})" if managed.leaves is not None else ""
        failed = f"; that failed: {managed.refused}" if managed.refused else ""
        return Explanation(Gate.PERMIT, "Suspending", f"{managed.title} is being suspended{said}{failed}")
    if managed.waits and not managed.asked and workload.phase is Phase.WAITING and workload.counts().live:
        return Explanation(Gate.PERMIT, "Suspending", f"{managed.title} is suspended, and pods of it are still there")
    return None


def ask_to_start(state: LifecycleState, workload: Workload) -> None:
    """Have the object of a workload that has just got quota and room make its pods, unless it does already."""
    managed = workload.managed
    if managed is None or managed.asked:
        return
    if managed.waits:
        start = managed.found.start
        assert start is not None  # else it would not be managed
        added = {role: found for role, found in _additions(state, workload, managed).items() if found != Directives()}
        managed.asked = "start"
        about = _about(managed)
        state.out.append(StartOwner(*about, start.generation, int(state.now), added))
        where = ", ".join(sorted({one for found in added.values() for one in _labels(found)}))
        text = f"{RESERVED_TEXT} for all of its pods" + (f"; they go to nodes with {where}" if where else "")
        _tell(state, managed, "Normal", "Started", text)
    explain(workload, _starting(state, workload, managed))


def _starting(state: LifecycleState, workload: Workload, managed: ManagedOwner) -> Explanation:
    held = sum(len(group.holds) for group in workload.groups.values())
    seconds = int((workload.deadline or state.now) - state.now)
    text = f"{RESERVED_TEXT} for {counted(held, 'pod')} that {managed.title} is to make"
    text += f" (suspended again after {seconds} s)"
    return Explanation(Gate.PERMIT, "WaitingForMembers", text, {"missing": str(held), "timeoutSeconds": str(seconds)})


def _labels(found: Directives) -> list[str]:
    return [f"{key}={value}" for key, value in found.node_selector.items()]


def _additions(state: LifecycleState, workload: Workload, managed: ManagedOwner) -> dict[str, Directives]:
    """Return what is added to the pods of each role, and have what is held for them be for pods that have it."""
    out: dict[str, Directives] = {}
    for name, role in managed.groups.items():
        group = workload.groups.get(name)
        if group is not None and group.holds:
            before = group.holds[0].pod_class.spec
            added = _addition(state, group)
            out[role] = _patch(added, before) if managed.found.start and managed.found.start.patched else added
    return out


def _patch(added: Directives, before: PodSpec) -> Directives:
    """Return what a patch of a template says: labels that it has not, and the tolerations that it has as well."""
    labels = {key: value for key, value in added.node_selector.items() if key not in before.node_selector}
    own: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in before.tolerations]
    more = [one for one in added.tolerations if one not in own]
    return Directives(labels, (*own, *more) if more else ())


def _addition(state: LifecycleState, group: MemberGroup) -> Directives:
    names = sorted({name for hold in group.holds if hold.charge is not None for name in hold.charge.flavors.values()})
    flavors = [state.catalog.flavors[name] for name in names if name in state.catalog.flavors]
    labels = {key: value for flavor in flavors for key, value in flavor.node_labels}
    tolerations = list(dict.fromkeys(one for flavor in flavors for one in flavor.tolerations))
    promised: dict[int, PodClass] = {}
    for index, hold in enumerate(group.holds):
        known = hold.pod_class
        if id(known) not in promised:
            spec = structs.replace(
                known.spec,
                node_selector={**labels, **known.spec.node_selector},
                tolerations=[
                    *known.spec.tolerations,
                    *(one for one in tolerations if one not in known.spec.tolerations),
                ],
            )
            promised[id(known)] = state.cluster.classes.of(
                spec,
                known.namespace,
                known.labels,
                owner=known.owner,
                volumes=known.volumes,
                devices=known.devices,
                cards=known.cards,
                waits=False,
            )
        group.holds[index] = replace(hold, pod_class=promised[id(known)])
    written: tuple[dict[str, Any], ...] = tuple(msgspec.to_builtins(one) for one in tolerations)
    return Directives(labels, written)


def leave(state: LifecycleState, workload: Workload, reason: str, message: str) -> None:
    """Have the object of a workload that is taken out suspended, and what was changed in it taken back."""
    managed = workload.managed
    if managed is None:
        return
    managed.leaves, managed.leaves_since, managed.settled = (reason, message), state.now, False
    managed.not_before = 0.0
    _tell(state, managed, "Warning", reason, f"it is suspended: {message}")
    follow_owner(state, workload)


def is_suspending(state: LifecycleState, workload: Workload) -> bool:
    """Whether the pods of a workload that must leave go with their object, so that nobody else need evict them."""
    managed = workload.managed
    if managed is None or managed.leaves is None or managed.refused:
        return False
    until = managed.leaves_since + PODS_GO_SECONDS
    if state.now >= until:
        return False
    state.set_alarm(workload, until)
    return True


def give_up_start(state: LifecycleState, workload: Workload) -> None:
    """Have an object suspended again whose pods have not come in time; what was held for them has been given back."""
    managed = workload.managed
    if managed is not None:
        managed.awaited_since = None
        leave(state, workload, "StartTimedOut", "its pods were not created, or found no room, in time")


def follow_owner(state: LifecycleState, workload: Workload) -> None:
    """Do what is due about the object of a workload, by what is seen of it."""
    managed = workload.managed
    if managed is None:
        return
    if (
        managed.leaves is None
        and workload.phase is Phase.LEAVING
        and not managed.waits
        and workload.evicted is not None
    ):
        managed.leaves, managed.leaves_since = (workload.evicted.reason, workload.evicted.message), state.now
    if managed.leaves is None and managed.started and managed.found.suspended:
        managed.leaves, managed.leaves_since = ("Suspended", "it was suspended after its start"), state.now
        if workload.phase is Phase.RESERVED:
            reservation.break_up(state, workload)
    if managed.leaves is not None:
        _suspend(state, workload, managed)
    else:
        _await_pods(state, workload, managed)


def _suspend(state: LifecycleState, workload: Workload, managed: ManagedOwner) -> None:
    if managed.settled and managed.waits:
        managed.leaves, managed.settled, managed.refused, managed.refusals = None, False, "", 0
    elif managed.asked:
        return  # one write after the other
    elif managed.found.suspended and managed.found.start is not None and managed.found.start.active:
        return  # what is left of its start can be taken back when its status says that nothing of it runs
    elif state.now < managed.not_before:
        state.set_alarm(workload, managed.not_before)
    else:
        managed.asked, managed.settled = "suspend", False
        state.out.append(SuspendOwner(*_about(managed)))


def _await_pods(state: LifecycleState, workload: Workload, managed: ManagedOwner) -> None:
    """Have an object suspended again that was started, and of which no pod gets a node for too long."""
    idle = managed.runs and workload.phase is Phase.WAITING and not workload.counts().placed
    if not idle:
        managed.awaited_since = None
        return
    if managed.awaited_since is None:
        managed.awaited_since = state.now
    until = managed.awaited_since + reservation.permit_seconds(state, workload)
    if state.now >= until:
        give_up_start(state, workload)
    else:
        state.set_alarm(workload, until)


def settle_write(state: LifecycleState, workload: Workload, result: OwnerWritten) -> None:
    """Take in what became of a start or suspension; one that failed is tried again after a while."""
    managed = workload.managed
    if managed is None or managed.found.uid != result.uid or not managed.asked:
        return
    asked, managed.asked = managed.asked, ""
    state.touch(workload.key)
    if not result.problem:
        managed.refused, managed.refusals = "", 0
        managed.settled = asked == "suspend"
        managed.not_before = 0.0
        if managed.settled:
            managed.not_before = state.now + _LOOK_AGAIN_SECONDS
            state.set_alarm(workload, managed.not_before)
        return
    is_news, managed.refused = result.problem != managed.refused, result.problem
    managed.refusals += 1
    backoff = state.configuration.backoff
    pause = backoff_seconds(managed.refusals, state.random, base=backoff.base_seconds, most=backoff.max_seconds)
    managed.not_before = state.now + pause
    if asked == "suspend":
        state.set_alarm(workload, managed.not_before)
    if is_news:
        what = "started" if asked == "start" else "suspended"
        _tell(state, managed, "Warning", "NotWritten", f"it could not be {what}: {result.problem}")
    if asked == "start" and workload.phase is Phase.RESERVED and not workload.counts().live:
        reservation.break_up(state, workload)
        text = f"{managed.title} could not be started: {result.problem}"
        reservation.try_later(state, workload, "StartRefused", text)


def _about(managed: ManagedOwner) -> tuple[str, str, str, str, str, str, str]:
    found, start = managed.found, managed.found.start
    assert start is not None  # else it would not be managed
    return found.group, found.kind, start.version, start.plural, found.namespace, found.name, found.uid


def _tell(state: LifecycleState, managed: ManagedOwner, kind: str, reason: str, note: str) -> None:
    """Record an event about the object."""
    found, ref = managed.found, managed.ref
    about = (ref.api_version, found.kind, found.namespace, found.name, found.uid)
    state.out.append(EmitEvent(*about, kind, reason, "Starting", note))
