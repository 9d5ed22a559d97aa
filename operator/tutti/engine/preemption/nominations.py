"""Room that is held for those whose victims are leaving, until they have it or their time is over.

A nomination takes nothing: the victims are still there. It is respected: whoever is tried while it stands is tried as
if its pods were on their nodes already, unless he goes before them by his pods' priority (kube-scheduler 1.36,
framework/runtime, RunFilterPluginsWithNominatedPods). Pods that other schedulers have nominated are respected alike.
The quota that goes with it is used, so that nobody else is given it; what victims still use of it does not count as
well, or it would stand in the way of others that wait for theirs.

Its workload is parked while victims are left. It is tried again, without its nomination, when the last one has gone;
that is also done when its time is over, and then it may find others. It is tried as well when it may fit before
(`early_fits.py`), and when one of them has not left in time (`overdue.py`).

`spare_victims` has those run on that nobody waits for any more. A pod that has been asked to leave cannot be kept; one
whose eviction was refused so far, by a budget or an error, would be asked again. A workload is spared as a whole or not
at all: once one of its members has been asked, or reserved room was given back, it leaves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tutti.api.core import Pod
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.preemption import PreemptionState, overdue
from tutti.engine.records.explanation import EvictionReason, Explanation, LifecycleStep
from tutti.engine.records.faults import Whose
from tutti.engine.records.members import Member
from tutti.engine.records.nominations import ForeignNomination, NominatedPods, Nomination, Spot
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.reservations import has_its_nodes
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.placement.framework import Rows
from tutti.quota.tree import Usage, add_to

REFIT_SECONDS = 1.0
"""How often, at most, it is looked whether those that wait for victims fit elsewhere."""


_FOR_OTHERS = (EvictionReason.PREEMPTED, EvictionReason.MOVED)


def wants_of(needs: Sequence[PodSetRequest]) -> NominatedPods:
    """Return what some needs want, to tell whether they have changed: what is required, or all where nothing is."""
    required = any(need.required for need in needs)
    each = ((need.group.name, need.pod_class, need.required if required else need.extra) for need in needs)
    return tuple(one for one in each if one[2])


def spots_of(state: PreemptionState, needs: Sequence[PodSetRequest], rows: Sequence[Rows]) -> Iterator[Spot]:
    """Yield where the required pods of some needs go."""
    for need, mine in zip(needs, rows, strict=True):
        for index, row in enumerate(mine.tolist()):
            pod = need.members[index].pod.key if index < len(need.members) else None
            yield Spot(need.pod_class, state.cluster.nodes.names[row], pod)


def begin_nomination(
    state: PreemptionState, key: WorkloadKey, nomination: Nomination, *, began: float | None = None
) -> None:
    """Hold room and quota for a workload that waits for its victims, since `began` if not from now on."""
    book = state.nominations
    book.kept.clear()
    state.candidates.forget()
    assert key not in book.ours  # whoever has one is not tried with it
    book.ours[key], nomination.began = nomination, state.now if began is None else began
    for spot in nomination.spots:
        if spot.pod is not None:
            book.nodes[spot.pod] = spot.node
    state.cluster.freed.nominated_to(spot.node for spot in nomination.spots)
    wanted: Usage = {}
    for charge, pods in nomination.charges:
        add_to(wanted, charge.usage, pods)
    for who, most in nomination.leaving:
        left = wanted if most is None else {what: min(n, most.get(what, 0)) for what, n in wanted.items()}
        handed = state.ledger.hand_over(who, left)
        for one in handed:
            add_to(wanted, one.usage, -1)
        nomination.handed += handed
    _count_anew(state, nomination)
    for charge, pods in nomination.charges:
        state.charge(charge, pods)


@contextmanager
def without_nomination(state: PreemptionState, nomination: Nomination) -> Iterator[None]:
    """Inside, count the quota that is held by a nomination as if it were not; nobody is told that it is free."""
    snapshot = state.ledger.snapshot
    with snapshot.trial():
        for charge, pods in nomination.charges:
            snapshot.refund(charge.queue, {what: amount * pods for what, amount in charge.usage.items()})
        for counted, whole in state.ledger.with_handed(nomination.handed):
            snapshot.remove(counted)
            snapshot.add(whole)
        yield


def _may_ever_have_quota(state: PreemptionState, nomination: Nomination) -> bool:
    """Whether its queue, as it is written now, could have all that a nomination is for, if nobody else used any."""
    wanted: dict[str, Usage] = {}
    for charge, pods in nomination.charges:
        add_to(wanted.setdefault(charge.queue, {}), charge.usage, pods)
    for queue, usage in wanted.items():
        node = state.ledger.tree.queues.get(queue)
        if node is None or any(amount > node.potential(what) for what, amount in usage.items() if amount):
            return False
    return True


def end_nomination(state: PreemptionState, key: WorkloadKey) -> Nomination | None:
    """Hold nothing for a workload any more; returns what was held, for whoever has it next."""
    book = state.nominations
    nomination = book.ours.pop(key, None)
    if nomination is None:
        return None
    state.candidates.asked = None
    for spot in nomination.spots:
        if spot.pod is not None:
            book.nodes.pop(spot.pod, None)
    for charge, pods in nomination.charges:
        state.refund(charge, pods)
    state.ledger.take_back(nomination.handed)
    _count_anew(state, nomination)
    return nomination


def leave_spots(state: PreemptionState, key: WorkloadKey, nomination: Nomination) -> None:
    """Have others tried where room was held for one that has its place elsewhere now, or has others leave elsewhere."""
    pods, mine = state.cluster.pods, state.nominations.ours.get(key)
    spots = Counter(nomination.spots) - Counter(mine.spots if mine is not None else ())
    left = [one.node for one in spots if one.pod is None or (pod := pods.get(one.pod)) is None or pod.place != one.node]
    if left:
        state.cluster.freed.unheld_on(left)


def _count_anew(state: PreemptionState, nomination: Nomination) -> None:
    """Have the queues of victims count again what these have: for some of it somebody else is, or was, counted."""
    for one in nomination.handed:
        kind, namespace, name = one.who.split("/")
        state.touch((kind, namespace, name))


def give_up_nomination(state: PreemptionState, key: WorkloadKey) -> None:
    """Let others have what was held for a workload."""
    if end_nomination(state, key) is not None:
        state.cluster.freed.anywhere()
        state.touch(key)


def abandon_nomination(state: PreemptionState, key: WorkloadKey) -> None:
    """Let others have what was held for a workload that can have no use for it, and its victims run on."""
    nomination = state.nominations.ours.get(key)
    if nomination is not None:
        give_up_nomination(state, key)
        state.nominations.needless.append(nomination)


def waits_for_victims(state: PreemptionState, workload: Workload, needs: Sequence[PodSetRequest]) -> Explanation | None:
    """Return what a workload waits for while its victims leave; None where it may be tried.

    A nomination for something else than it wants now is given up.
    """
    nomination = state.nominations.ours.get(workload.key)
    if nomination is None:
        return None
    if nomination.wants != wants_of(needs):
        give_up_nomination(state, workload.key)
        return None
    return nomination.why if nomination.waits and not nomination.anew else None


def refresh_nominations(state: PreemptionState) -> None:
    """Take note of victims that have left, and give up what is held for those that are gone."""
    state.nominations.kept.clear()
    state.candidates.forget()
    gone: dict[PodKey, None] = {}
    again_at = state.nominations.again_at
    if again_at is not None and again_at <= state.now:
        state.nominations.again_at = None
        state.cluster.freed.anywhere()
        state.ledger.changes.retry_all()
    _class_foreign(state)
    news = _with_news(state)
    state.nominated.read_anew((one for _, one in news), state.nominations.ours.values())
    for key, nomination in news:
        left: list[PodKey] = []
        left = state.attempt(Whose(*key), "following its victims", partial(_refresh, state, key, nomination), left)
        gone.update(dict.fromkeys(left))
    state.nominations.left = len(gone)


def _with_news(state: PreemptionState) -> list[tuple[WorkloadKey, Nomination]]:
    """Return the nominations of which something may have become since it was last looked."""
    book, version = state.nominations, state.cluster.nodes.version
    news, before = book.take_touched(state.dirty), book.seen
    book.seen = version
    if before != version or state.faults or state.cluster.device_users.holders:
        return list(book.ours.items())
    return [
        (key, one)
        for key, one in book.ours.items()
        if one.hinges_on is None or min(one.until, one.overdue_at) <= state.now or not one.hinges_on.isdisjoint(news)
    ]


def _hinges_on(state: PreemptionState, key: WorkloadKey, nomination: Nomination) -> frozenset[WorkloadKey] | None:
    """Return the workloads without news of which nothing becomes of a nomination; None where other things may tell.

    Those are quota as it is written, moves, claims on devices, and pods of other schedulers, which are in no workload.
    """
    if nomination.charges or nomination.moves or nomination.departing or not nomination.asked:
        return None
    addresses = [state.pod_group_of.get(victim) for victim in nomination.victims]
    if None in addresses:
        return None
    return frozenset((key, *(address[0] for address in addresses if address is not None)))


def _refresh(state: PreemptionState, key: WorkloadKey, nomination: Nomination) -> list[PodKey]:
    """Take note of the victims of one that have left, or give up what is held for it; returns who has left."""
    workload = state.workloads.get(key)
    if workload is None or not _still_waits(workload) or not _may_ever_have_quota(state, nomination):
        abandon_nomination(state, key)
        return []
    if nomination.until <= state.now or not has_its_nodes(nomination, state.cluster.nodes.rows):
        end = abandon_nomination if nomination.moves else give_up_nomination
        end(state, key)  # and it is tried again, if it can be
        return []
    nodes = {spot.node for spot in nomination.spots}
    left = [victim for victim, uid in nomination.victims.items() if not _is_there(state, victim, uid, nodes)]
    for victim in left:
        del nomination.victims[victim]
    if nomination.departing and not nomination.departing <= state.cluster.device_users.holders.departing():
        nomination.departing = frozenset()  # some are back
        state.touch(key)
    nomination.hinges_on = _hinges_on(state, key, nomination)
    nomination.overdue_at = math.inf if nomination.anew else overdue.replaceable_at(state, key, nomination)
    if nomination.asked and not all(_is_asked(state, victim) for victim in nomination.victims):
        give_up_nomination(state, key)
    elif nomination.overdue_at <= state.now:
        nomination.overdue_at, nomination.anew = math.inf, True
        state.touch(key)
    elif left and not nomination.victims:
        state.touch(key)
    elif left:
        state.nominations.missed = True  # gangs leave whole: those that are there still may be in nobody's way
    return left


def victim_refused(state: PreemptionState, key: PodKey, uid: str) -> None:
    """Note that a victim of another scheduler could not be asked to leave; victims are chosen again after a while."""
    soon = state.now + state.configuration.backoff.max_seconds
    for nomination in state.nominations.ours.values():
        if nomination.victims.get(key) == uid:
            nomination.until = min(nomination.until, soon)


def overtake_nominations(state: PreemptionState, nomination: Nomination) -> None:
    """Have those choose anew, in the next turn, who wait for a victim of somebody that goes before them.

    They may find room beside it, or others; else they would look for these when the victim has gone, and wait for these
    as well. Of those of whose victims one might still be spared, nothing changes: they would ask others in its place.

    Rule: kube-scheduler 1.36, framework/preemption (prepareCandidate), which takes their nominations from pods of
    lower priority.
    """
    victims = nomination.victims
    for key, one in state.nominations.ours.items():
        if one.moves or one.priority >= nomination.priority or one.victims.keys().isdisjoint(victims):
            continue
        if all(victim in victims or overdue.leaves_or_left(state, victim) for victim in one.victims):
            one.until = state.now
            state.touch(key)


def next_nomination_due(state: PreemptionState) -> float | None:
    """Return when a nomination is given up, or somebody else may be taken out, Unix seconds; None: not at all."""
    dues = (time for one in state.nominations.ours.values() for time in (one.until, one.overdue_at))
    times = [time for time in dues if state.now < time < math.inf]
    times += [time for time in state.moves.dues() if time > state.now]
    if state.nominations.again_at is not None:
        times.append(state.nominations.again_at)
    if state.nominations.missed and any(one.waits for one in state.nominations.ours.values()):
        times.append(state.nominations.looked_at + REFIT_SECONDS)
    return min(times, default=None)


def note_foreign_nomination(state: PreemptionState, pod: Pod) -> None:
    """Remember where another scheduler wants a pod of its own to go, while it waits for that."""
    key, node = (pod.metadata.namespace, pod.metadata.name), pod.status.nominated_node_name
    drop_foreign_nomination(state, key)
    if node and not pod.spec.node_name and not pod.terminated and pod.metadata.deletion_timestamp is None:
        pod_class = state.cluster.classes.of(pod.spec, key[0], pod.metadata.labels, waits=False)
        spot, labels = Spot(pod_class, node, key), pod.metadata.labels
        state.nominations.others[key] = ForeignNomination(pod.spec.priority or 0, spot, labels)
        state.cluster.freed.nominated_to((node,))


def _class_foreign(state: PreemptionState) -> None:
    """Class those anew whom other schedulers have nominated, by the labels that have come to be read."""
    book, classes = state.nominations, state.cluster.classes
    if not book.others or book.classed == classes.version:
        return
    book.classed = classes.version
    for key, one in book.others.items():
        before = one.spot.pod_class
        pod_class = classes.of(before.spec, key[0], one.labels, cards=before.cards, waits=False)
        book.others[key] = replace(one, spot=replace(one.spot, pod_class=pod_class))


def drop_foreign_nomination(state: PreemptionState, key: PodKey) -> None:
    """Forget that another scheduler wants a pod to go somewhere."""
    if state.nominations.others.pop(key, None) is not None:
        state.cluster.freed.anywhere()


def _still_waits(workload: Workload) -> bool:
    """Whether a workload has, or is promised, members that want nodes."""
    if any(member.pod.placeable for member in workload.members()):
        return workload.active
    promised = any(group.promised is not None for group in workload.groups.values())
    return workload.active and promised and workload.phase is Phase.WAITING


def _is_asked(state: PreemptionState, key: PodKey) -> bool:
    """Whether a victim that is there has been asked to leave; one of ours may have come to another gang since."""
    member = state.members.get(key)
    return member is None or member.pod.deleting or member.evicting or member.leave is not None


def _is_there(state: PreemptionState, key: PodKey, uid: str, nodes: Container[str] = ()) -> bool:
    """Whether a victim still has room, devices or quota.

    It keeps its quota when its node is lost, until it has gone as well; and its claims keep their devices until the
    claim controller has seen that it has gone.
    """
    if state.cluster.device_users.holders.keeps(uid):
        return True
    record, member = state.cluster.pods.get(key), state.members.get(key)
    if record is None or record.uid != uid:
        return False
    if record.lost:
        return record.place in nodes  # nobody tells when it has ended; what it has elsewhere nobody waits for
    return record.place in state.cluster.nodes.rows or (member is not None and member.charge is not None)


def spare_victims(state: PreemptionState) -> None:
    """Have victims of those that wait no more run on, as far as they can and nobody else waits for them."""
    needless, state.nominations.needless = state.nominations.needless, []
    for nomination in [one for one in needless if one.victims]:
        state.attempt_part("sparing victims", partial(_spare, state, nomination), None)


def _spare(state: PreemptionState, nomination: Nomination) -> None:
    wanted = {victim for one in state.nominations.ours.values() for victim in one.victims}
    found: dict[WorkloadKey, Workload] = {}
    for victim in nomination.victims:
        address, member = state.pod_group_of.get(victim), state.members.get(victim)
        if victim in wanted or address is None or member is None:
            continue
        workload = state.workloads[address[0]]
        if workload.phase is Phase.LEAVING:
            found[workload.key] = workload
        elif member.leave is not None and _is_untouched(member):
            member.leave = None  # one of those that its gang can do without
            state.touch(workload.key)
    for workload in found.values():
        if _can_stay(workload, wanted):
            _keep(state, workload)


def _can_stay(workload: Workload, wanted: Collection[PodKey]) -> bool:
    """Whether a workload that is being taken out for others is there as a whole still, and nobody waits for it."""
    evicted = workload.evicted
    if evicted is None or evicted.reason not in _FOR_OTHERS or not workload.complete:
        return False
    return all(_is_untouched(member) and member.pod.key not in wanted for member in workload.members())


def _is_untouched(member: Member) -> bool:
    """Whether a member runs and has not been asked to leave with success, or was not to leave at all."""
    pod = member.pod
    if member.leave is None:
        return not (member.sent or member.unknown)
    return bool(pod.node) and not (pod.terminated or pod.deleting or member.evicting)


def _keep(state: PreemptionState, workload: Workload) -> None:
    """Have a workload run on that was to leave."""
    state.candidates.forget()
    for member in workload.members():
        member.leave = None
    state.reached(workload, LifecycleStep.SPARED)
    transit(workload, Transition.SPARE)
    explain(workload, None)
    workload.evicted = None
    workload.refusals, workload.ask_at, workload.running_since = 0, 0.0, state.now
    state.announce(workload, "Normal", "Spared", "it need not make room any more: nobody waits for it to leave")
    state.touch(workload.key)
