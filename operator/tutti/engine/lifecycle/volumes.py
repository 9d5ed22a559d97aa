"""The volumes of reserved members: choices for their claims are written, and waited for before anybody is bound.

Before a gang is bound, the claims of all its members are: until then its reservation is held. kube-scheduler does
this pod by pod (plugins/volumebinding, PreBind); here no member is bound before the volumes of all of them are there.
What was written stays written when a reservation is given back, as it does there: a claim keeps its chosen node until
its provisioner takes it off, and its pod goes to no other node meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tutti.api.messages import IS, WAS, agreeing, counted, listed
from tutti.cluster.pledges import BindingProgress, BindingStage, Pledge, binding_progress, written_version
from tutti.cluster.pods import PodKey
from tutti.cluster.storage import StorageKind, StorageObject
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import (
    CLAIMS_NAMED,
    break_up,
    claim_seconds,
    give_back,
    wait_for_claims,
)
from tutti.engine.records.decisions import ReserveVolume, SelectNode
from tutti.engine.records.explanation import RESERVED_TEXT, Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.observations import ClaimWritten
from tutti.engine.records.workloads import Phase, Workload


@dataclass(slots=True)
class ClaimProgress:
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


def storage_seen(state: LifecycleState, found: StorageObject) -> None:
    """Take in a storage object, and look at the workloads that it concerns."""
    state.touch_pods(state.cluster.put_storage(found))


def storage_gone(state: LifecycleState, kind: StorageKind, namespace: str, name: str) -> None:
    """Forget a storage object, and look at the workloads that it concerns."""
    state.touch_pods(state.cluster.drop_storage(kind, namespace, name))


def claim_written(state: LifecycleState, result: ClaimWritten) -> None:
    """Take in what became of a SelectNode or ReserveVolume."""
    pledge = state.cluster.nodes.volumes.pledges.of((result.namespace, result.name))
    if pledge is None or pledge.uid != result.uid or result.target != (pledge.volume or pledge.node):
        return
    if result.done:
        pledge.version = result.version
    else:
        pledge.failure = result.message
    state.touch_pods(pledge.pods)


def prepare_volumes(state: LifecycleState, workload: Workload) -> dict[PodKey, None] | None:
    """Have the claims of reserved members bound.

    Returns:
        The members that cannot be bound before their volumes are; None where none of them can: the reservation is
        held until then, or was given back because a claim cannot be bound like this.
    """
    if not state.cluster.nodes.volumes.pledges:
        return {}
    starts = workload.phase in (Phase.WAITING, Phase.RESERVED)
    progress = _progress_of(state, workload)
    if progress.failed:
        _give_up_volumes(state, workload, list(progress.failed), next(iter(progress.failed.values())))
        return None if starts else progress.unready
    if progress.unasked:
        for pledge in progress.unasked:
            _ask_for_claim(state, pledge)
            progress.waiting["/".join(pledge.claim)] = None
        wait_for_claims(state, workload)
    if progress.unready and starts:
        transit(workload, Transition.RESERVE)
        explain(workload, _waits_for_volumes(state, workload, progress))
        return None
    return progress.unready


def awaits_volumes(state: LifecycleState, workload: Workload) -> bool:
    """Whether claims of a workload have been asked for and are not bound yet."""
    return bool(state.cluster.nodes.volumes.pledges) and bool(_progress_of(state, workload).waiting)


def time_out_volumes(state: LifecycleState, workload: Workload) -> None:
    """Give back what is reserved for members whose volumes did not come in time, and try again later."""
    progress = _progress_of(state, workload)
    late = len(progress.waiting)
    why = f"{counted(late, 'claim', verb=WAS)} not bound in time: {listed(progress.waiting, late, CLAIMS_NAMED)}"
    _give_up_volumes(state, workload, list(progress.unready), why)


def _progress_of(state: LifecycleState, workload: Workload) -> ClaimProgress:
    """Look how far the claims of reserved members have come."""
    out = ClaimProgress()
    for member, pledge in _pledged(state, workload):
        found = _progress(state, pledge, member)
        claim = "/".join(pledge.claim)
        match found.stage:
            case BindingStage.BOUND:
                out.bound += pledge.asked
                continue
            case BindingStage.UNASKED:
                out.unasked[pledge] = None
            case BindingStage.UNDER_WAY:
                out.waiting[claim] = None
            case BindingStage.FAILED:
                out.failed.setdefault(member.pod.key, found.why)
        out.unready[member.pod.key] = None
    return out


def _pledged(state: LifecycleState, workload: Workload) -> Iterator[tuple[Member, Pledge]]:
    pledges = state.cluster.nodes.volumes.pledges
    if not pledges:
        return
    for member in workload.members():
        if member.pod.uses and member.pod.assumed and not member.sent:
            for pledge in pledges.of_pod(member.pod.key):
                yield member, pledge


def _progress(state: LifecycleState, pledge: Pledge, member: Member) -> BindingProgress:
    nodes, name = state.cluster.nodes, member.pod.assumed
    return binding_progress(nodes.volumes.book, pledge, name, nodes.labels[nodes.rows[name]])


def _ask_for_claim(state: LifecycleState, pledge: Pledge) -> None:
    """Have the choice for a claim written, unless it stands there already."""
    book = state.cluster.nodes.volumes.book
    pledge.asked = True
    stands = written_version(book, pledge)
    if stands is not None:
        pledge.version = stands
    elif pledge.volume:
        version = book.volumes[pledge.volume].metadata.resource_version
        state.out.append(ReserveVolume(*pledge.claim, pledge.uid, pledge.volume, version))
    else:
        version = book.claims[pledge.claim].metadata.resource_version
        state.out.append(SelectNode(*pledge.claim, pledge.uid, pledge.node, version))


def _give_up_volumes(state: LifecycleState, workload: Workload, members: list[PodKey], why: str) -> None:
    """Give back what is reserved: all of it for a gang that is not bound, else what these members have."""
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
        break_up(state, workload)
    for key in members:
        member = state.members[key]
        if member.pod.assumed:
            give_back(state, member)
    state.back_off(workload)
    text = f"its reservation is given back: {why}"
    details = {"attempts": str(workload.attempts), "members": str(len(members))}
    explain(workload, Explanation(Gate.PERMIT, "VolumeBindingFailed", text, details))
    state.announce(workload, "Warning", "VolumeBindingFailed", text)


def _waits_for_volumes(state: LifecycleState, workload: Workload, progress: ClaimProgress) -> Explanation:
    seconds = claim_seconds(state, workload)
    count = len(progress.waiting)
    return Explanation(
        Gate.PERMIT,
        "WaitingForVolumes",
        f"{RESERVED_TEXT}; {counted(count, 'claim')} of its members "
        f"{agreeing(count, IS)} being bound: {listed(progress.waiting, count, CLAIMS_NAMED)} "
        f"(given back after {seconds} s)",
        {"claims": str(count), "timeoutSeconds": str(seconds)},
    )
