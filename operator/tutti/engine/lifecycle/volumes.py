"""Before a gang is bound, the claims of all its members are: until then its reservation is held.

kube-scheduler does this pod by pod (plugins/volumebinding, PreBind); here no member is bound before the volumes of all
of them are there. What was written stays written when a reservation is given back, as it does there: a claim keeps its
chosen node until its provisioner takes it off, and its pod goes to no other node meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tutti.api.messages import IS, WAS, agreeing, counted
from tutti.cluster.binding_progress import Progress, Stage, progress, stands_written
from tutti.cluster.pledges import Pledge
from tutti.cluster.pods import PodKey
from tutti.cluster.storage import StorageKind, StorageObject
from tutti.engine.lifecycle.reservation import break_up, give_back
from tutti.engine.records.decisions import ReserveVolume, SelectNode
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.observations import ClaimWritten
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State

_NAMED = 3
"""How many claims a message names."""


@dataclass(slots=True)
class Outlook:
    """What the claims of reserved members are waiting for.

    Attributes:
        unready: Members whose claims are not all bound yet.
        unasked: What is to be written first.
        waiting: Claims (namespace/name) that are being bound.
        failed: Members with a claim that cannot be bound like this, and why.
        bound: How many have been bound since they were asked for.
    """

    unready: dict[PodKey, None] = field(default_factory=dict)
    unasked: dict[Pledge, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    failed: dict[PodKey, str] = field(default_factory=dict)
    bound: int = 0


def seen(state: State, found: StorageObject) -> None:
    """Take in a storage object, and look at the workloads that it concerns."""
    _touch(state, state.cluster.put_storage(found))


def gone(state: State, kind: StorageKind, namespace: str, name: str) -> None:
    """Forget a storage object, and look at the workloads that it concerns."""
    _touch(state, state.cluster.drop_storage(kind, namespace, name))


def written(state: State, result: ClaimWritten) -> None:
    """Take in what became of a SelectNode or ReserveVolume."""
    pledge = state.cluster.nodes.volumes.pledges.of((result.namespace, result.name))
    if pledge is None or pledge.uid != result.uid or result.target != (pledge.volume or pledge.node):
        return
    if result.done:
        pledge.version = result.version
    else:
        pledge.failure = result.message
    _touch(state, pledge.pods)


def prepare(state: State, workload: Workload) -> dict[PodKey, None] | None:
    """Have the claims of reserved members bound.

    Returns:
        The members that cannot be bound before their volumes are; None where none of them can: the reservation is
        held until then, or was given back because a claim cannot be bound like this.
    """
    if not state.cluster.nodes.volumes.pledges:
        return {}
    starts = workload.phase in (Phase.WAITING, Phase.RESERVED)
    outlook = _outlook(state, workload)
    if outlook.failed:
        _give_up(state, workload, list(outlook.failed), next(iter(outlook.failed.values())))
        return None if starts else outlook.unready
    if outlook.unasked:
        for pledge in outlook.unasked:
            _ask(state, pledge)
            outlook.waiting["/".join(pledge.claim)] = None
        state.set_deadline(workload, _patience(state, workload))
    elif not outlook.unready and outlook.bound and workload.phase is Phase.BINDING:
        state.set_deadline(workload, state.configuration.bind_window_seconds)
    if outlook.unready and starts:
        workload.phase = Phase.RESERVED
        workload.explanation = _waits(state, workload, outlook)
        return None
    return outlook.unready


def are_awaited(state: State, workload: Workload) -> bool:
    """Whether claims of a workload have been asked for and are not bound yet."""
    return bool(_outlook(state, workload).waiting)


def time_out(state: State, workload: Workload) -> None:
    """Give back what is reserved for members whose volumes did not come in time, and try again later."""
    outlook = _outlook(state, workload)
    late = len(outlook.waiting)
    why = f"{counted(late, 'claim', verb=WAS)} not bound in time: {_some(outlook)}"
    _give_up(state, workload, list(outlook.unready), why)


def _outlook(state: State, workload: Workload) -> Outlook:
    """Look how far the claims of reserved members have come."""
    out = Outlook()
    for member, pledge in _pledged(state, workload):
        found = _progress(state, pledge, member)
        claim = "/".join(pledge.claim)
        match found.stage:
            case Stage.BOUND:
                out.bound += pledge.asked
                continue
            case Stage.UNASKED:
                out.unasked[pledge] = None
            case Stage.UNDER_WAY:
                out.waiting[claim] = None
            case Stage.FAILED:
                out.failed.setdefault(member.pod.key, found.why)
        out.unready[member.pod.key] = None
    return out


def _pledged(state: State, workload: Workload) -> Iterator[tuple[Member, Pledge]]:
    pledges = state.cluster.nodes.volumes.pledges
    if not pledges:
        return
    for member in workload.members():
        if member.pod.uses and member.pod.assumed and not member.sent:
            for pledge in pledges.of_pod(member.pod.key):
                yield member, pledge


def _progress(state: State, pledge: Pledge, member: Member) -> Progress:
    nodes, name = state.cluster.nodes, member.pod.assumed
    return progress(nodes.volumes.book, pledge, name, nodes.labels[nodes.rows[name]])


def _ask(state: State, pledge: Pledge) -> None:
    """Have the choice for a claim written, unless it stands there already."""
    book = state.cluster.nodes.volumes.book
    pledge.asked = True
    stands = stands_written(book, pledge)
    if stands is not None:
        pledge.version = stands
    elif pledge.volume:
        version = book.volumes[pledge.volume].metadata.resource_version
        state.out.append(ReserveVolume(*pledge.claim, pledge.uid, pledge.volume, version))
    else:
        version = book.claims[pledge.claim].metadata.resource_version
        state.out.append(SelectNode(*pledge.claim, pledge.uid, pledge.node, version))


def _give_up(state: State, workload: Workload, members: list[PodKey], why: str) -> None:
    """Give back what is reserved: all of it for a gang that is not bound, else what these members have."""
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
        break_up(state, workload)
    for key in members:
        member = state.members[key]
        if member.pod.assumed:
            give_back(state, member)
    state.back_off(workload)
    text = f"its reservation is given back: {why}"
    workload.explanation = Explanation(
        Gate.PERMIT, "VolumeBindingFailed", text, {"attempts": str(workload.attempts), "members": str(len(members))}
    )
    state.announce(workload, "Warning", "VolumeBindingFailed", text)


def _waits(state: State, workload: Workload, outlook: Outlook) -> Explanation:
    seconds = _patience(state, workload)
    count = len(outlook.waiting)
    return Explanation(
        Gate.PERMIT,
        "WaitingForVolumes",
        f"quota and nodes are reserved; {counted(count, 'claim')} of its members "
        f"{agreeing(count, IS)} being bound: {_some(outlook)} "
        f"(given back after {seconds} s)",
        {"claims": str(count), "timeoutSeconds": str(seconds)},
    )


def _some(outlook: Outlook) -> str:
    names = list(outlook.waiting)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _patience(state: State, workload: Workload) -> int:
    """Return for how many seconds volumes are waited for."""
    seconds = workload.permit_seconds
    return state.configuration.volume_binding_timeout_seconds if seconds is None else seconds


def _touch(state: State, pods: Iterable[PodKey]) -> None:
    for key in pods:
        address = state.home.get(key)
        if address is not None:
            state.touch(address[0])
