"""Admission checks: a workload that has quota waits, without nodes, until others have said yes.

A ClusterQueue names checks, each for some flavors or for all. Who gets quota in such a flavor holds it and has no nodes
yet, because there may be none before a check has provided them (phase CHECKING). Each check's controller writes Ready,
Retry or Rejected into the status of the Workload, or of the PodGroup of a gang without one. Once all are Ready, nodes
are looked for with the quota still held; only then is the workload admitted. States and what follows from them are
Kueue's (0.20, KEP-993, pkg/controller/core/workload_controller.go). Three things are not, because of what went wrong:

- Answers count for the round in which they are given. Each time that quota is reserved a new round begins and all
  checks are written Pending in it, by one write. What is left of an earlier round, or comes while the workload leaves,
  is overwritten by that and means nothing (kueue issue 3543: a Retry during an eviction wedged the workload).
- There is one clock, from when quota was reserved. When it is over the quota is given back, as if a check had said
  Retry (kueue issues 3245, 4803). It is read from the status, so a restart does not set it back.
- While there are no nodes although all checks are Ready, quota is kept for a bounded time, too.

A check may also say Retry or Rejected of a workload that runs: it is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime

import msgspec

from tutti.api.conditions import timestamp
from tutti.api.kinds.checks import AdmissionCheckState
from tutti.api.messages import IS, agreeing, counted, followed_by, listed
from tutti.api.selectors import Toleration
from tutti.engine.lifecycle import LifecycleState, provisioning, quota_usage
from tutti.engine.lifecycle.eviction import deactivate, evict
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import give_back_all, release_quota
from tutti.engine.records.decisions import ResetChecks
from tutti.engine.records.explanation import (
    SET_INACTIVE,
    DeactivationCause,
    EvictionReason,
    Explanation,
    Gate,
    LifecycleStep,
)
from tutti.engine.records.members import Additions, Charge, HeldQuota, MemberGroup
from tutti.engine.records.observations import ChecksReset
from tutti.engine.records.pod_sets import required_classes
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.quota.flavors import NO_CHECKS, Queue, QueueChecks
from tutti.quota.tree import add_to

ASKED = "quota is reserved; the check has yet to answer"
"""What we say of a check in its place, until it answers: nothing that anybody has to be told again."""
CHECKS_PENDING = "ChecksPending"
NO_NODES_YET = "ChecksPassed"
GIVEN_BACK = "QuotaGivenBack"

MOST_NAMED = 3
"""How many checks a message names."""
ASK_AGAIN_SECONDS = 10.0
"""How long after checks could not be written as Pending that is tried again."""
LONGEST_WAIT_SECONDS = 7 * 86400
"""How long a check that says Retry can have a workload wait, at most."""


def checks_ahead(checks: QueueChecks, workload: Workload, flavors: Iterable[str]) -> list[str]:
    """Return the checks that a workload has yet to pass before nodes are looked for in some flavors."""
    if not checks.on_flavors or workload.phase is not Phase.WAITING or workload.held_since is not None:
        return []
    return checks.of(set(flavors))


def hold_quota(
    state: LifecycleState, workload: Workload, queue: str, taken: Iterable[tuple[MemberGroup, int, Charge]]
) -> None:
    """Have a workload hold quota without nodes from now on: so many pods of each group, each as its charge says."""
    for group, pods, charge in taken:
        before = group.held
        usage = {} if before is None else dict(before.charge.usage)
        add_to(usage, charge.usage, pods)
        flavors = charge.flavors if before is None else {**charge.flavors, **before.charge.flavors}
        group.held = HeldQuota(
            (0 if before is None else before.pods) + pods, Charge(queue, flavors, usage, charge.holder)
        )
    for group in workload.groups.values():
        if group.held is not None:
            state.charge(group.held.charge)
    workload.cluster_queue = queue
    workload.held_since = workload.reserved_at = state.now
    workload.round = max(workload.round, workload.checks_round) + 1
    transit(workload, Transition.HOLD)
    explain(workload, None)
    quota_usage.describe_holder(state, workload)
    state.reached(workload, LifecycleStep.QUOTA_RESERVED, seconds=state.now - workload.queued_at, pods=_pods(workload))
    state.touch(workload.key)


def lending_held(state: LifecycleState, workload: Workload) -> AbstractContextManager[None]:
    """Inside, the quota that a workload holds is free for it, and nobody is told.

    At the end it is held again where it has found no nodes; else its members use it, and what they do not is free.
    """
    return nullcontext() if workload.held_since is None else _lending_held(state, workload)


@contextmanager
def _lending_held(state: LifecycleState, workload: Workload) -> Iterator[None]:
    held = [(group, group.held) for group in workload.groups.values() if group.held is not None]
    for _, one in held:
        state.ledger.refund(one.charge.queue, one.charge.usage, one.charge.holder, told=False)
    try:
        yield
    finally:
        if workload.counts().reserved or any(group.holds for group in workload.groups.values()):
            for group, _ in held:
                group.held = None
            workload.held_since = workload.deadline = None
            state.ledger.changes.retry(workload.cluster_queue)
        else:
            for _, one in held:
                state.charge(one.charge)
            quota_usage.describe_holder(state, workload)


def follow_checks(state: LifecycleState, workload: Workload) -> None:
    """Do what follows from what checks say of a workload that holds quota, or is admitted."""
    if workload.held_since is not None and workload.phase not in (Phase.WAITING, Phase.CHECKING):
        release_quota(state, workload)  # it was found bound, or to have ended
    if workload.held_since is not None:
        _go_on_checking(state, workload)
    elif workload.checks and workload.phase in ADMITTED:
        _heed(state, workload, answers(workload))


def answers(workload: Workload) -> Sequence[AdmissionCheckState]:
    """Return what checks say of a workload in the present round."""
    return workload.checks if workload.round and workload.checks_round == workload.round else ()


def _go_on_checking(state: LifecycleState, workload: Workload) -> None:
    wrong = _cannot_hold(state, workload)
    if wrong:
        give_back_all(state, workload)
        transit(workload, Transition.GIVE_BACK)
        workload.deadline = None
        explain(workload, None)  # what it waits for then is found in this turn; that a round is over is told for itself
        state.announce(workload, "Normal", GIVEN_BACK, f"the quota that it held is given back: {wrong}")
        state.touch(workload.key)
        return
    found = answers(workload)
    if _heed(state, workload, found):
        return
    said = {one.name: one for one in found}
    names = required_checks(state, workload)
    _ask(state, workload, names)
    pending = [name for name in names if name not in said or said[name].state != "Ready"]
    assert workload.held_since is not None  # asked by the caller
    workload.held_since = min(workload.held_since, state.now)  # it may be another clock that says so
    checks = queue_checks(state, workload)
    if pending:
        if workload.phase is Phase.WAITING:
            transit(workload, Transition.HOLD)  # one that was Ready is not any more
        _set_end(state, workload, workload.held_since + checks.pending_seconds)
        explain(workload, _waiting_for(workload, pending, said))
        return
    if provisioning.go_on(state, workload, checks):
        return
    passed = [min(state.now, _seconds(one.last_transition_time)) for one in found if one.name in names]
    ready_at = max(passed, default=0.0)
    ready_at = max(workload.held_since, ready_at, provisioning.ready_at(workload))
    _set_end(state, workload, ready_at + checks.placement_seconds)
    if workload.phase is Phase.CHECKING:
        transit(workload, Transition.GO_ON)
        explain(workload, None)
        if names:
            text = "all admission checks are Ready; nodes are looked for, and the quota is kept meanwhile"
            state.announce(workload, "Normal", NO_NODES_YET, text)
        state.reached(workload, LifecycleStep.CHECKED, seconds=state.now - workload.held_since, pods=_pods(workload))


def time_out(state: LifecycleState, workload: Workload) -> None:
    """Give back quota that has been held for as long as it may be, and ask for it again after a backoff."""
    checks = queue_checks(state, workload)
    if provisioning.give_up_late(state, workload, checks):
        return
    if workload.phase is Phase.CHECKING:
        said = {one.name: one for one in answers(workload)}
        names = required_checks(state, workload)
        late = [name for name in names if name not in said or said[name].state != "Ready"]
        text = f"{_listed(late)} did not answer within {checks.pending_seconds} s of the reservation of its quota"
        text += " (pendingTimeoutSeconds)"
    else:
        text = "all its admission checks were Ready, and there were no nodes for it within "
        text += f"{checks.placement_seconds} s (placementTimeoutSeconds)"
    evict(state, workload, EvictionReason.ADMISSION_CHECK, f"{text}; its quota is given back")
    state.back_off(workload)


def with_quota_held(workload: Workload, why: Explanation) -> Explanation:
    """Return why a workload waits, with that it holds quota meanwhile, and until when."""
    if workload.held_since is None or workload.deadline is None:
        return why
    one = provisioning.current(workload)
    if one is not None:
        text = f"ProvisioningRequest {one.request} is Provisioned, and its quota is kept until "
        reason = provisioning.NO_ROOM if why.gate is Gate.PLACEMENT else why.reason  # autoscalers are asked already
        return msgspec.structs.replace(
            why, reason=reason, message=followed_by(why.message, text + timestamp(workload.deadline))
        )
    text = f"all its admission checks are Ready, and its quota is kept until {timestamp(workload.deadline)}"
    return msgspec.structs.replace(why, message=followed_by(why.message, text))


def required_checks(state: LifecycleState, workload: Workload) -> list[str]:
    """Return the checks that a workload has to pass in the flavors in which it holds quota, in the queue's order."""
    held = [group.held.charge for group in workload.groups.values() if group.held is not None]
    return queue_checks(state, workload).of({flavor for charge in held for flavor, _ in charge.usage})


def queue_checks(state: LifecycleState, workload: Workload) -> QueueChecks:
    """Return the checks of the ClusterQueue that a workload goes through."""
    queue = state.catalog.queues.get(workload.cluster_queue)
    return NO_CHECKS if queue is None else queue.checks


def checks_reset(state: LifecycleState, result: ChecksReset) -> None:
    """Take in what became of a ResetChecks; one that failed is asked for again after a while."""
    workload = state.workloads.get((result.kind, result.namespace, result.name))
    if workload is None or result.done or workload.round != result.round:
        return
    workload.checks_told = (0, ())
    state.set_alarm(workload, state.now + ASK_AGAIN_SECONDS)


def requeue_at(said: Iterable[AdmissionCheckState], now: float) -> float:
    """Return until when checks that say Retry have a workload wait, Unix seconds; 0 where none says for how long.

    It is the latest of all; a time in the future counts as now, and more than a week as a week.
    """
    times = [
        min(now, _seconds(one.last_transition_time) or now) + min(one.requeue_after_seconds, LONGEST_WAIT_SECONDS)
        for one in said
        if one.state == "Retry" and one.requeue_after_seconds is not None
    ]
    return max(times, default=0.0)


def additions_of(said: Iterable[AdmissionCheckState], group: str) -> Additions | None:
    """Return what checks that are Ready add to the pods of a group; None: nothing. What is said first stands."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for one in said:
        for update in one.pod_set_updates if one.state == "Ready" else ():
            if update.name == group:
                labels = {**update.labels, **labels}
                annotations = {**update.annotations, **annotations}
                selector = {**update.node_selector, **selector}
                added = [Toleration(**new.model_dump()) for new in update.tolerations]
                tolerations += [new for new in added if new not in tolerations]
    if not (labels or annotations or selector or tolerations):
        return None
    return Additions(labels, annotations, tuple(sorted(selector.items())), tuple(tolerations))


def _heed(state: LifecycleState, workload: Workload, found: Sequence[AdmissionCheckState]) -> bool:
    """Take a workload out of which a check says Rejected, or else Retry; returns whether one does."""
    rejected = [one for one in found if one.state == "Rejected"]
    if rejected:
        text = f"{_said_by(rejected, 'rejects it')}{SET_INACTIVE}"
        deactivate(state, workload, DeactivationCause.ADMISSION_CHECK_REJECTED, text)
        return True
    wrong = _change_not_add(workload, found)
    if wrong:
        text = f"{wrong}{SET_INACTIVE}"
        deactivate(state, workload, DeactivationCause.ADMISSION_CHECK_REJECTED, text)
        return True
    retrying = [one for one in found if one.state == "Retry"]
    if not retrying:
        return False
    again = requeue_at(retrying, state.now)
    text = f"{_said_by(retrying, 'asks for another try')}; its quota is given back"
    text += f" and asked for again at {timestamp(again)}" if again > state.now else ""
    evict(state, workload, EvictionReason.ADMISSION_CHECK, text)
    if again > state.now:
        workload.attempts += 1
        workload.not_before = max(workload.not_before, again)
        state.timers.add(workload)
    else:
        state.back_off(workload)
    return True


def additions(state: LifecycleState, workload: Workload, group: MemberGroup) -> Additions | None:
    """Return what is added to the pods of a group: by checks that are Ready, and by nodes that were provisioned."""
    said, made = additions_of(answers(workload), group.name), provisioning.addition(state, workload, group)
    if said is None or made is None:
        return said or made
    labels = dict((*said.node_labels, *made.node_labels))
    return said._replace(annotations={**said.annotations, **made.annotations}, node_labels=tuple(labels.items()))


def _change_not_add(workload: Workload, found: Iterable[AdmissionCheckState]) -> str:
    """Return which check wants something of the pods changed that is there already; "" where none does."""
    settled: dict[tuple[str, str, str], tuple[str, str]] = {}
    for one in found:
        for update in one.pod_set_updates if one.state == "Ready" else ():
            group = workload.groups.get(update.name)
            if group is None:
                return (
                    f"AdmissionCheck {one.name} names pod group {update.name}, which it does not have (podSetUpdates)"
                )
            kinds = (("label", update.labels), ("annotation", update.annotations), ("node label", update.node_selector))
            for what, entries in kinds:
                for key, value in entries.items():
                    before = settled.setdefault((update.name, what, key), (value, one.name))
                    if before[0] != value:
                        return f"AdmissionCheck {one.name} gives {what} {key} another value than {before[1]}"
            clash = _clash(group, update.labels, update.node_selector)
            if clash:
                return f"AdmissionCheck {one.name} would change {clash} of its pods (podSetUpdates may only add)"
    return ""


def _clash(group: MemberGroup, labels: Mapping[str, str], selector: Mapping[str, str]) -> str:
    """Return what pods of a group say otherwise than they are to; "" where they do not."""
    classes = {id(m.pod.pod_class): m.pod.pod_class for m in group.members.values() if not m.pod.place}
    if group.promised is not None:
        classes[id(group.promised)] = group.promised
    for one in classes.values():
        for key, value in labels.items():
            if one.labels.get(key, value) != value:
                return f"label {key}"
        for key, value in selector.items():
            if one.spec.node_selector.get(key, value) != value:
                return f"nodeSelector {key}"
    return ""


def _cannot_hold(state: LifecycleState, workload: Workload) -> str:
    """Return why the quota that a workload holds is not what it needs any more; "" where it is."""
    if workload.problem is not None:
        return workload.problem.message
    queue = state.catalog.queues.get(workload.cluster_queue)
    if queue is None:
        return f"ClusterQueue {workload.cluster_queue} cannot be used any more"
    tally = workload.counts()
    if tally.bound:
        return "some of its pods run already"
    if not tally.live and not any(group.promised is not None for group in workload.groups.values()):
        return "none of its pods is there any more"
    for group in workload.groups.values():
        missing = max(0, group.min_count - group.counts().placed - group.counts().reserved)
        if (0 if group.held is None else group.held.pods) != missing:
            return f"pod group {group.name} needs another number of members now"
        if group.held is not None and _asks_for_more(queue, group, group.held):
            return f"the pods of pod group {group.name} ask for more now"
    return ""


def _asks_for_more(queue: Queue, group: MemberGroup, held: HeldQuota) -> bool:
    """Whether the pods for which quota is held would use more of it: a check has said yes to as much as is held."""
    covered = {name for one in queue.groups for name in one.covered}
    left = dict.fromkeys(covered, 0)
    for (_, name), amount in held.charge.usage.items():
        left[name] = left.get(name, 0) + amount
    for pod_class, pods in required_classes(group, held.pods).items():
        for name in covered & pod_class.charged.keys():
            left[name] -= pod_class.charged[name] * pods
    return any(left[name] < 0 for name in covered)


def _ask(state: LifecycleState, workload: Workload, names: Sequence[str]) -> None:
    """Have checks written as Pending that say nothing of this round; what others have said in it stays."""
    there = {one.name for one in answers(workload)}
    wanted = (workload.round, tuple(names))
    if not workload.uid or not names or there.issuperset(names) or workload.checks_told == wanted:
        return
    workload.checks_told = wanted
    before = {one.name: one for one in workload.checks}
    kept = [one.model_dump(by_alias=True, exclude_none=True) for one in answers(workload)]
    now = timestamp(state.now)
    new = [
        {
            "name": name,
            "state": "Pending",
            "lastTransitionTime": now,
            "message": ASKED,
            "retryCount": _retries(before.get(name)),
        }
        for name in names
        if name not in there
    ]
    state.out.append(ResetChecks(*workload.key, workload.uid, workload.round, [*kept, *new]))


def _retries(before: AdmissionCheckState | None) -> int:
    return 0 if before is None else before.retry_count + (before.state == "Retry")


def _waiting_for(workload: Workload, pending: Sequence[str], said: Mapping[str, AdmissionCheckState]) -> Explanation:
    first = next((said[name].message for name in pending if name in said and said[name].message not in ("", ASKED)), "")
    text = f"quota is reserved; {_listed(pending)} {'has' if len(pending) == 1 else 'have'} yet to answer"
    text += f" ({first})" if first else ""
    if workload.deadline is not None:
        text += f"; given back at {timestamp(workload.deadline)} otherwise"
    details = {"checks": ",".join(pending[:MOST_NAMED]), "pending": str(len(pending)), "round": str(workload.round)}
    return Explanation(Gate.CHECKS, CHECKS_PENDING, text, details)


def _listed(names: Sequence[str]) -> str:
    checks = agreeing(len(names), ("AdmissionCheck", "AdmissionChecks"))
    return f"{checks} {listed(names, len(names), MOST_NAMED)}"


def _said_by(found: Sequence[AdmissionCheckState], what: str) -> str:
    more = f" ({found[0].message})" if found[0].message not in ("", ASKED) else ""
    others = f", and {counted(len(found) - 1, 'other check', verb=IS)} of the same opinion" if len(found) > 1 else ""
    return f"AdmissionCheck {found[0].name} {what}{more}{others}"


def _set_end(state: LifecycleState, workload: Workload, at: float) -> None:
    if workload.deadline != at:
        workload.deadline = at
        state.timers.add(workload)


def _pods(workload: Workload) -> int:
    return sum(group.held.pods for group in workload.groups.values() if group.held is not None)


def _seconds(text: str) -> float:
    """Return a time that a controller wrote as Unix seconds; 0 where it cannot be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0
