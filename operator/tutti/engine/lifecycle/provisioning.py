"""ProvisioningRequests: who has quota and finds no nodes has a cluster autoscaler asked for them, with the quota held.

An AdmissionCheck with `provisioning` is no check that is asked first. Where the nodes of a flavor that it is for have
no room, the quota is held without nodes (`checks.py`: the same phase, clocks and status), and a request is made. Once
it is Provisioned, nodes are looked for again. One that fails, that the autoscaler takes back, or that does not come in
time gives the quota back; it is asked again after a pause and, when that has failed too often, in these flavors no
more, so that the next ones have their turn.

How far that has come stands in `status.provisioning`, in the same write as the quota. The name of a request follows
from its workload, the flavors and the number of the try, so whoever finds the status after a process that was killed
between any two writes makes the same request, and finds it made. Nothing of it is made before its status names it
(`controller/dispatch.py`), so that whatever nobody needs is found and removed (`provisioning_removal.py`).

Rules: Kueue 0.20, pkg/controller/admissionchecks/provisioning/controller.go, but for three. Nothing is asked for where
nodes have room; a flavor that is given up leaves the others to be tried (there the workload is set inactive); and of
capacity that is revoked under running work, the work is taken out and waits again (there it is set inactive as well).
"""

from __future__ import annotations

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, counted
from tutti.api.provisioning import (
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    FAILED,
    MOST_POD_SETS,
    PROVISIONED,
    ProvisioningRequest,
)
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.eviction import evict
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.provisioned_pods import pods_of
from tutti.engine.lifecycle.provisioning_removal import WRITE_AGAIN_SECONDS, remove_needless, request_removed
from tutti.engine.lifecycle.provisioning_texts import request_number, waits_for_nodes
from tutti.engine.records.decisions import CreateProvisioning
from tutti.engine.records.explanation import EvictionReason
from tutti.engine.records.members import Additions, MemberGroup
from tutti.engine.records.provisioning import (
    Provisioning,
    ProvisioningFollowed,
    ProvisioningGone,
    ProvisioningSeen,
    ProvisioningStage,
    ProvisioningWritten,
    provisioning_request_name,
)
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.quota.flavors import QueueChecks
from tutti.quota.provisioning import ProvisioningCheck

NO_ROOM = "WaitingForProvisionedNodes"


# What the engine is told.


def request_seen(state: LifecycleState, seen: ProvisioningSeen) -> None:
    """Take in a request as it is now."""
    _touch(state, state.requests.put(seen.found))


def request_gone(state: LifecycleState, gone: ProvisioningGone) -> None:
    """Take in that a request does not exist any more."""
    _touch(state, state.requests.drop(gone.namespace, gone.name))


def requests_followed(state: LifecycleState, told: ProvisioningFollowed) -> None:
    """Take in whether requests are seen; whoever waits for nodes may ask for them now, or may not any more."""
    if state.requests.followed == told.followed:
        return
    state.requests.followed = told.followed
    for key, workload in state.workloads.items():
        if workload.phase in (Phase.WAITING, Phase.CHECKING):
            state.touch(key)


def request_written(state: LifecycleState, told: ProvisioningWritten) -> None:
    """Take in what became of a write."""
    if told.owner is None:
        request_removed(state, told)
        return
    state.requests.making.pop((told.namespace, told.name), None)
    key = (told.owner[0], told.namespace, told.owner[1])
    workload = state.workloads.get(key)
    _touch(state, key)  # who needs it no more has its templates removed
    one = None if workload is None else current(workload)
    if workload is None or one is None or one.request != told.name:
        return
    one.asked, one.trouble = False, told.problem
    one.not_before = state.now + WRITE_AGAIN_SECONDS  # what was made may be seen some time after the answer
    state.touch(key)
    if told.final and workload.held_since is not None:
        _fail(state, workload, one, f"it could not be made: {told.problem}")
    else:
        state.set_alarm(workload, one.not_before)


def _touch(state: LifecycleState, key: tuple[str, str, str] | None) -> None:
    if key is not None and key in state.workloads:
        state.touch(key)


# What a workload has asked for.


def current(workload: Workload) -> Provisioning | None:
    """Return what is under way for a workload, if anything is."""
    return next((one for one in workload.provisioning if one.is_under_way), None)


def begin(state: LifecycleState, workload: Workload, check: ProvisioningCheck, flavors: tuple[str, ...]) -> None:
    """Have nodes asked for that a workload needs, which holds the quota of these flavors."""
    before = next((one for one in workload.provisioning if (one.check, one.flavors) == (check.name, flavors)), None)
    one = Provisioning(check.name, flavors, check.terms, 0 if before is None else before.attempt)
    if before is not None and before.terms == check.terms:
        one.failures = before.failures
    one.attempt += 1
    one.stage, one.since, one.may_leave = ProvisioningStage.PENDING, state.now, False
    one.request = provisioning_request_name(workload.key[2], workload.uid, (check.name, *flavors), one.attempt)
    workload.provisioning = [*(known for known in workload.provisioning if known is not before), one]
    if workload.phase is Phase.WAITING:
        transit(workload, Transition.HOLD)
    explain(workload, None)
    state.touch(workload.key)


def addition(state: LifecycleState, workload: Workload, group: MemberGroup) -> Additions | None:
    """Return what is added to the pods of a group whose nodes have been provisioned; None: nothing."""
    one = current(workload)
    check = None if one is None else _check_of(state, workload, one)
    if one is None or check is None or one.stage is not ProvisioningStage.PROVISIONED:
        return None
    classes = {id(m.pod.pod_class): m.pod.pod_class for m in group.members.values()}
    known = [*classes.values(), *([group.promised] if group.promised is not None else [])]
    if not any(check.concerns(one.flavors, pod_class.requests) for pod_class in known):
        return None
    said = {CONSUME_ANNOTATION: one.request, CLASS_ANNOTATION: check.class_name}
    return Additions({}, said, tuple(sorted(one.node_labels.items())), ())


def _check_of(state: LifecycleState, workload: Workload, one: Provisioning) -> ProvisioningCheck | None:
    """Return the check by which nodes were asked for, where it still asks for the same."""
    queue = state.catalog.queues.get(workload.cluster_queue)
    known = () if queue is None else queue.checks.provisioning
    return next((check for check in known if (check.name, check.terms) == (one.check, one.terms)), None)


def ready_at(workload: Workload) -> float:
    """Return since when a workload has had nodes provisioned, Unix seconds; 0 where it has none."""
    one = current(workload)
    return one.since if one is not None and one.stage is ProvisioningStage.PROVISIONED else 0.0


# A workload that holds quota.


def go_on(state: LifecycleState, workload: Workload, checks: QueueChecks) -> bool:
    """Follow the request of a workload that holds quota and has passed its checks; returns whether it waits on."""
    one = current(workload)
    if one is None:
        return False
    check = _check_of(state, workload, one)
    if check is None:
        _give_back(state, workload, one, f"AdmissionCheck {one.check} asks for something else now")
        return True
    seen = _request_of(state, workload, one)
    wrong = _what_failed(one, seen)
    if wrong:
        _fail(state, workload, one, wrong)
        return True
    one.was_seen = one.was_seen or seen is not None
    if one.stage is ProvisioningStage.PROVISIONED:
        if seen is not None:
            one.node_labels = _node_labels(check, seen)
        return False
    if seen is not None and seen.says(PROVISIONED) is not None:
        _provisioned(state, workload, one, check, seen)
        return False
    until = (workload.held_since or state.now) + checks.pending_seconds
    if workload.deadline != until:
        workload.deadline = until
        state.timers.add(workload)
    if seen is None and state.now < until:
        _ask(state, workload, one, check)
    explain(workload, waits_for_nodes(state, workload, one, check, seen))
    return True


def _what_failed(one: Provisioning, seen: ProvisioningRequest | None) -> str:
    """Return why a request will not do while its workload has no nodes yet; "" where it may."""
    if seen is None:
        return "it is gone: somebody has deleted it" if one.was_seen else ""
    if seen.changed:
        return "somebody has changed its spec"
    for kind, text in (
        (FAILED, "it has failed"),
        (CAPACITY_REVOKED, "its capacity was taken back"),
        (BOOKING_EXPIRED, "its booking has expired before there was room for all pods"),
    ):
        found = seen.says(kind)
        if found is not None:
            return f"{text} ({kind}: {found.message})" if found.message else f"{text} ({kind})"
    return ""


def _provisioned(
    state: LifecycleState, workload: Workload, one: Provisioning, check: ProvisioningCheck, seen: ProvisioningRequest
) -> None:
    said = seen.says(PROVISIONED)
    assert said is not None  # asked by the caller
    one.stage, one.message = ProvisioningStage.PROVISIONED, said.message
    one.since = min(state.now, said.since) if said.since else state.now
    one.node_labels = _node_labels(check, seen)
    text = f"ProvisioningRequest {one.request} is Provisioned; nodes are looked for, and the quota is kept meanwhile"
    state.announce(workload, "Normal", "Provisioned", text)
    state.touch(workload.key)


def _node_labels(check: ProvisioningCheck, seen: ProvisioningRequest) -> dict[str, str]:
    """Return the labels that nodes have which were made for a request."""
    return {key: seen.details[detail] for key, detail in check.selectors if detail in seen.details}


def _ask(state: LifecycleState, workload: Workload, one: Provisioning, check: ProvisioningCheck) -> None:
    """Have the request made, unless that is under way, or has failed just now."""
    if one.asked or one.was_seen or state.now < one.not_before or not state.requests.followed:
        if state.now < one.not_before:
            state.set_alarm(workload, one.not_before)
        return
    pods = pods_of(state, workload, check)
    if not pods or len(pods) > MOST_POD_SETS:
        _fail(state, workload, one, f"its pods are of {len(pods)} kinds, and a request has 1 to {MOST_POD_SETS}")
        return
    one.asked, one.may_leave, is_first = True, True, one.not_before == 0
    state.requests.making[workload.key[1], one.request] = None
    kind, namespace, name = workload.key
    owner = (kind, name, workload.uid)
    state.out.append(CreateProvisioning(namespace, one.request, owner, check.class_name, pods, dict(check.parameters)))
    if not is_first:
        return
    total = sum(part.count for part in pods)
    text = f"{counted(total, 'pod', verb=HAS)} quota and no nodes"
    text += (
        f"; ProvisioningRequest {one.request} asks for them (class {check.class_name}, {request_number(one, check)})"
    )
    state.announce(workload, "Normal", "ProvisioningRequested", text)


# Its end.


def give_up_late(state: LifecycleState, workload: Workload, checks: QueueChecks) -> bool:
    """Give up the request of a workload that has held quota for as long as it may; returns whether it had one."""
    one = current(workload)
    if one is None:
        return False
    if one.stage is ProvisioningStage.PENDING:
        text = f"it was not provisioned within {checks.pending_seconds} s of the reservation of its quota"
        _fail(state, workload, one, f"{text} (pendingTimeoutSeconds)")
    else:
        text = f"there was no room for all pods within {checks.placement_seconds} s of its being provisioned"
        _fail(state, workload, one, f"{text} (placementTimeoutSeconds)")
    return True


def _fail(state: LifecycleState, workload: Workload, one: Provisioning, why: str) -> None:
    """Count a failure and give the quota back, or have what runs leave; ask again later, or there no more."""
    check = _check_of(state, workload, one)
    one.failures += 1
    one.since, one.message, one.asked, one.trouble = state.now, why, False, ""
    retries = 0 if check is None else check.retries
    text = (
        f"ProvisioningRequest {one.request} (request {one.failures} of {retries + 1}): {why}; its quota is given back"
    )
    if one.failures > retries or check is None:
        one.stage, one.retry_at = ProvisioningStage.GIVEN_UP, 0.0
        text += f", and nothing more is asked for in flavor {', '.join(one.flavors)}"
        evict(state, workload, EvictionReason.ADMISSION_CHECK, text)
        state.announce(workload, "Warning", "ProvisioningGivenUp", text)
        return
    one.stage, one.retry_at = ProvisioningStage.FAILED, state.now + check.pause_after(one.failures)
    text += f" and asked for again at {timestamp(one.retry_at)}"
    evict(state, workload, EvictionReason.ADMISSION_CHECK, text)
    workload.attempts += 1
    workload.not_before = max(workload.not_before, one.retry_at)
    state.timers.add(workload)


def _give_back(state: LifecycleState, workload: Workload, one: Provisioning, why: str) -> None:
    """Have a workload begin anew that asks for what is not asked for any more; that is no failure."""
    _withdraw(state, one)
    evict(state, workload, EvictionReason.ADMISSION_CHECK, f"{why}; its quota is given back")
    state.touch(workload.key)


def _withdraw(state: LifecycleState, one: Provisioning) -> None:
    one.stage, one.since, one.asked, one.trouble, one.was_seen = (
        ProvisioningStage.WITHDRAWN,
        state.now,
        False,
        "",
        False,
    )


def _request_of(state: LifecycleState, workload: Workload, one: Provisioning) -> ProvisioningRequest | None:
    found = state.requests.of(workload.key[1], workload.uid).get(one.request)
    return None if found is None or found.deleting else found


# Whatever phase it is in.


def settle(state: LifecycleState, workload: Workload) -> None:
    """Have what is under way agree with the phase of a workload, and remove the requests that nobody needs."""
    if not (workload.provisioning or state.requests.of(workload.key[1], workload.uid)):
        return
    one = current(workload)
    if one is not None and workload.held_since is None:
        if workload.phase in ADMITTED:
            _heed_revocation(state, workload, one)
        else:
            one.failures = 0 if one.stage is ProvisioningStage.PROVISIONED else one.failures  # it had its nodes
            _withdraw(state, one)
    if not workload.active and workload.held_since is None:
        for known in workload.provisioning:
            if known.stage in (ProvisioningStage.FAILED, ProvisioningStage.GIVEN_UP):
                _withdraw(state, known)
                known.failures, known.retry_at = 0, 0.0
    remove_needless(state, workload)


def _heed_revocation(state: LifecycleState, workload: Workload, one: Provisioning) -> None:
    """Take out what runs, or is about to, on capacity that is taken back."""
    seen = _request_of(state, workload, one)
    revoked = None if seen is None else seen.says(CAPACITY_REVOKED)
    if revoked is not None:
        _fail(state, workload, one, f"its capacity was taken back ({CAPACITY_REVOKED}: {revoked.message})")
