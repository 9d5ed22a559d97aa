"""Taking workloads out by the quota rules, so that one that waits gets quota and nodes.

Whom a queue may preempt, and in which order, are Kueue's rules (`quota/reclaim.py`, `quota/fair_reclaim.py`). What is
ours: victims are chosen only such that all required pods of the preemptor have nodes once these are gone, by all the
rules of placement; and the quota and the nodes are held for it from then on, so that nobody else is admitted to them,
the victims themselves among them, while it waits for the last of them to leave.

A member that leaves by itself, deleted by whoever made it, is no quota that comes, and its gang counts whole: the quota
is kept for the successor (`lifecycle/member_loss.py`), so that who counted on it would wait in vain. Kueue counts so,
too (0.20, cache/scheduler): a workload holds all of its quota until it is evicted or has finished, whatever becomes of
its pods. One that is evicted already goes first of all, and costs nobody anything, however long its pods take to end;
nobody else is taken out in its place, as is done where nodes are short (`overdue.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tutti.api.conditions import timestamp
from tutti.api.messages import counted
from tutti.engine.lifecycle import quota_usage
from tutti.engine.lifecycle.eviction import evict, evict_members
from tutti.engine.lifecycle.quota_usage import protected_until
from tutti.engine.preemption import PreemptionState, kept_room, nominated_room, nominations
from tutti.engine.preemption.by_priority import (
    PREEMPTION_BY_SCHEDULER,
    may_preempt,
    preempt_by_priority,
    report_preempted,
)
from tutti.engine.preemption.consolidation import consolidate
from tutti.engine.preemption.departing_devices import wait_for_devices
from tutti.engine.preemption.moves import is_coming
from tutti.engine.preemption.nominated_room import minding_domains, precedence_of
from tutti.engine.preemption.surplus import set_apart
from tutti.engine.records.discretion import workload_named
from tutti.engine.records.explanation import PATIENT, EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import Member
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.placement.framework import Rows
from tutti.placement.preemption.by_room import has_inter_pod_constraints
from tutti.placement.preemption.units import GangUnit, SimulatedRemoval, VictimUnits
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.together import fit_together
from tutti.quota.flavors import Queue
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import PreemptionRules
from tutti.quota.reclaim import PreemptionReason, Victim, fits
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import Usage, add_to

MOST_NAMES = 3
"""How many victims are named in a message."""

_BY = {
    PreemptionReason.IN_CLUSTER_QUEUE: "it is in the same ClusterQueue {queue} (preemption.withinClusterQueue)",
    PreemptionReason.IN_COHORT_RECLAMATION: "ClusterQueue {queue} takes back what is its own",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "ClusterQueue {queue} may borrow in its place",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "ClusterQueue {queue} has less than its fair share",
}


class Preemption(NamedTuple):
    """What came of looking for others to take out.

    Attributes:
        waits: What the workload waits for from now on; None where nobody is taken out.
        lacks_nodes: Whether others could have been taken out for its quota, so that it may be nodes that it lacks.
    """

    waits: Explanation | None = None
    lacks_nodes: bool = False


NOBODY_LEAVES = Preemption()

HeldBack = Callable[[Usage], bool]
"""Whether a workload could not have quota that is free, because it is held back for others."""


def _is_nowhere_held_back(_: Usage) -> bool:
    return False


def preempt(
    state: PreemptionState,
    entry: QueueEntry,
    why: Explanation,
    options: Sequence[PreemptionOption],
    *,
    priority: int,
    moving: bool = False,
    held_back: HeldBack = _is_nowhere_held_back,
) -> Preemption:
    """Have others moved for a workload, or take them out, by the rules of its queue or else its pods' priority.

    Their room is held. Those for whom a place is kept, because they are being moved, have nobody go.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it could not be admitted.
        options: What it could have if others were gone, the best first.
        priority: That of its pods.
        moving: Whether others may be moved for it.
        held_back: Asked with those gone who would leave for it.
    """
    if is_coming(state, entry.workload) or why.reason in PATIENT:
        return NOBODY_LEAVES
    if any(need.pod_class.devices.full for need in entry.needs):
        return NOBODY_LEAVES  # room is of no use to a pod whose claim takes no more users
    with minding_domains(state):
        waits = wait_for_devices(state, entry, why, options, priority) if may_preempt(entry.needs) else None
        if waits is not None:
            return Preemption(waits)
        waits = consolidate(state, entry, why, options, priority) if moving else None
        if waits is not None:
            return Preemption(waits)
        by_quota = preempt_by_quota(state, entry, options, priority, held_back)
        if by_quota.waits is not None:
            return by_quota
        return by_quota._replace(waits=preempt_by_priority(state, entry, why, options, priority))


def preempt_by_quota(
    state: PreemptionState,
    entry: QueueEntry,
    options: Sequence[PreemptionOption],
    priority: int,
    held_back: HeldBack = _is_nowhere_held_back,
) -> Preemption:
    """Take others out for a workload by what its queue allows, and hold quota and room for it."""
    queue, workload = entry.queue, entry.workload
    if queue is None or queue.policy == NOBODY or not may_preempt(entry.needs):
        return NOBODY_LEAVES
    if not any(need.required for need in entry.needs):
        return NOBODY_LEAVES  # nobody leaves for members that a gang can do without
    behind = precedence_of(state, entry).lesser
    for yielding in ([], behind) if behind else ([],):
        for option in options:
            found = _choose(state, workload, queue, option, yielding, held_back)
            if found is not None:
                for key in yielding:
                    nominations.give_up_nomination(state, key)
                return Preemption(_take_out(state, entry, queue, option, found, priority))
    demands = (_demand(workload, queue, option) for option in options)
    lacks_nodes = any(state.rules.has_candidates(state.ledger.snapshot, demand) for demand in demands)
    _look_again(state, queue)
    return Preemption(lacks_nodes=lacks_nodes)


MOST_PLACED: Final = 2048
"""How many asks are placed to find out, candidate by candidate, who must go; a gang has one for each unlike member."""


@dataclass(slots=True)
class _Trial:
    """Tries where the preemptor's pods would go if some holders were gone."""

    state: PreemptionState
    lacking: PreemptionOption
    seen: bool
    apart: dict[str, Member] = field(default_factory=dict)
    _slots: dict[str, list[int]] = field(default_factory=dict)
    _own: frozenset[int] = frozenset()

    def set_apart(self, apart: dict[str, Member]) -> None:
        """Take it that some members are holders by themselves, by the names of these."""
        self.apart, self._slots = apart, {}
        self._own = frozenset(one.pod.slot for one in apart.values())

    def rows(self, gone: Iterable[AdmittedWorkload]) -> list[Rows] | None:
        """Return the rows of all required pods; None where they do not fit. Who asks for no nodes yet gets no rows."""
        if not self.lacking.asks:
            return [np.zeros(0, dtype=np.int64) for _ in self.lacking.needs]
        cluster = self.state.cluster
        gone = list(gone)
        slots = np.array(list(chain.from_iterable(map(self._of, gone))), dtype=np.int64)
        with (
            SimulatedRemoval(cluster, slots, seen=self.seen),
            kept_room.without_holds(self.state, self._leaving_whole(gone)),
            cluster.transaction() as transaction,
        ):
            nominated_room.take_covered(self.state, transaction, slots)
            return fit_together(cluster.nodes, transaction, self.lacking.asks, self.lacking.profile)

    def in_the_way(self, candidates: Iterable[AdmittedWorkload]) -> list[str]:
        """Return the names of those whose leaving makes room with the least harm; none where not even that of all does.

        Quota is not asked here, so that it may be short still when they have left. None of them could stay.
        """
        cluster, found = self.state.cluster, [holder for holder in candidates if self._of(holder)]
        pods = [cluster.pod_columns.at(np.array(self._of(holder), dtype=np.int64)) for holder in found]
        gangs = [
            GangUnit(their, one.priority, harmless=one.evicted or one.name in self.apart)
            for one, their in zip(found, pods, strict=True)
        ]
        units = VictimUnits.among(cluster, np.zeros(0, dtype=np.int64), gangs)
        with cluster.transaction() as transaction:
            nominated_room.take_covered(self.state, transaction)
            chosen = choose_victims(cluster, self.lacking.asks, units, profile=self.lacking.profile)
        return [] if chosen is None else [found[unit].name for unit in chosen.units.tolist()]

    def _leaving_whole(self, gone: Iterable[AdmittedWorkload]) -> list[Workload]:
        """Return the workloads among those that are gone: what they keep for members to come goes with them.

        Nobody, where no room at all is kept for members to come.
        """
        if next(self.state.cluster.held.all(), None) is None:
            return []
        whole = (quota_usage.workload_of(self.state, one) for one in gone if one.name not in self.apart)
        return list({one.key: one for one in whole if one is not None}.values())

    def _of(self, holder: AdmittedWorkload) -> list[int]:
        slots = self._slots.get(holder.name)
        if slots is None:
            alone = self.apart.get(holder.name)
            if alone is not None:
                slots = [alone.pod.slot]
            else:
                workload = quota_usage.workload_of(self.state, holder)
                slots = [] if workload is None else [one.pod.slot for one in workload.members()]
            own = self._own if alone is None else frozenset()
            self._slots[holder.name] = slots = [slot for slot in slots if slot >= 0 and slot not in own]
        return slots


class _Found(NamedTuple):
    """Whom to take out, where the pods go then, and which members are holders by themselves, by their names."""

    victims: list[Victim]
    rows: list[Rows]
    apart: dict[str, Member]


def _everybody(snapshot: Snapshot, queue: Queue) -> list[AdmittedWorkload]:
    """Return who holds quota in the tree of a queue."""
    return [one for leaf in snapshot.queue(queue.name).root().leaves() for one in snapshot.holders(leaf.name)]


def _choose(
    state: PreemptionState,
    workload: Workload,
    queue: Queue,
    lacking: PreemptionOption,
    yielding: Sequence[WorkloadKey],
    held_back: HeldBack,
) -> _Found | None:
    """Return whom to take out, and where the pods go then; nothing is held for those `yielding`."""
    snapshot, demand = state.ledger.snapshot, _demand(workload, queue, lacking)
    everybody, demands = _everybody(snapshot, queue), _each_contested(demand, lacking)
    if not everybody:
        return None
    seen = any(has_inter_pod_constraints(state.cluster, ask, lacking.profile) for ask in lacking.asks)
    trial = _Trial(state, lacking, seen)
    names = {"/".join(key) for key in yielding}
    hopeful = False  # whether the pods have nodes once everybody is gone; asked only when quota can be had
    with snapshot.trial():
        for counted, whole in state.ledger.with_handed(
            [one for key in yielding for one in state.nominations.ours[key].handed]
        ):
            snapshot.remove(counted)
            snapshot.add(whole)
        for holder in everybody if names else ():
            if holder.name in names:
                snapshot.remove(holder)
        if names and fits(snapshot, demand, borrowing=True):
            if trial.rows(everybody) is None:
                return None
            hopeful = True
            rows = trial.rows(())
            if rows is not None:
                return _Found([], rows, {})
        reach = state.rules.within_reach(snapshot, demands)
        apart = set_apart(state, snapshot, reach)
        for one in demands if reach else ():
            by_quota = state.rules.victims(snapshot, one, first=frozenset(apart))
            if not by_quota:
                continue
            if not hopeful and trial.rows(everybody) is None:
                return None
            hopeful = True
            trial.set_apart(apart)
            victims = _victims(state.rules, snapshot, one, trial, by_quota)
            if victims and not _is_held_back(snapshot, victims, one, held_back):
                rows = trial.rows(victim.holder for victim in victims)
                return None if rows is None else _Found(victims, rows, apart)
    return None


def _victims(
    rules: PreemptionRules, snapshot: Snapshot, demand: Demand, trial: _Trial, by_quota: list[Victim]
) -> list[Victim]:
    """Return whom to take out by the rules: in the order of these, or else first those who are in the way.

    In their order, the last that came in are the first to leave. Quota may suffice by that, or come to an end, long
    before there are nodes, where others might leave by the same right that make room together. Trying one after the
    other until there is a place comes last: it looks for nodes as often as there are candidates, but at most so often
    that `MOST_PLACED` asks are placed. Nobody leaves where that is not enough: who it is would rest on chance.

    Args:
        rules: By which they are chosen.
        snapshot: What is used.
        demand: What is wanted.
        trial: Where the pods would go.
        by_quota: Whom the rules take in their order if only quota counts; at least one.
    """
    tries, most = 0, max(1, MOST_PLACED // max(1, len(trial.lacking.asks)))

    def placed() -> bool:
        nonlocal tries
        tries += 1
        return tries <= most and trial.rows(snapshot.missing()) is not None

    apart = frozenset(trial.apart)
    if trial.rows([*snapshot.missing(), *(victim.holder for victim in by_quota)]) is not None:
        return by_quota
    first = frozenset(trial.in_the_way(rules.candidates(snapshot, demand)))

    def cleared() -> bool:
        return first <= {holder.name for holder in snapshot.missing()}

    found = rules.victims(snapshot, demand, cleared, first=first | apart) if first else []
    found = found or rules.victims(snapshot, demand, placed, first=apart)
    return found if tries <= most else []


def _is_held_back(snapshot: Snapshot, victims: Sequence[Victim], demand: Demand, held_back: HeldBack) -> bool:
    """Whether what is demanded could not be had even when the victims are gone."""
    with snapshot.trial():
        for victim in victims:
            snapshot.remove(victim.holder)
        return held_back(dict(demand.usage))


def _each_contested(demand: Demand, lacking: PreemptionOption) -> list[Demand]:
    """Return a demand as it is tried: with what is contested and, where that may find nobody, with more."""
    wider = frozenset(demand.usage)
    if demand.contested != wider and any(need.topology for need in lacking.needs):
        # Kueue (0.20, flavorassigner.go): of pods that are placed by topology and lack anything, all is contested.
        return [demand, msgspec.structs.replace(demand, contested=wider)]
    return [demand]


def _demand(workload: Workload, queue: Queue, lacking: PreemptionOption) -> Demand:
    wanted = _usage(lacking)
    contested = lacking.contested or frozenset(wanted)  # nodes alone are short: whoever is counted in the same
    cross_queue_priority = queue.cross_queue_priority(workload.preemption_priority)
    return Demand(queue.name, wanted, contested, workload.preemption_priority, workload.queued_at, cross_queue_priority)


def _usage(lacking: PreemptionOption) -> Usage:
    total: Usage = {}
    for charge, pods in lacking.charged:
        add_to(total, {what: amount for what, amount in charge.usage.items() if amount}, pods)
    return total


def _take_out(
    state: PreemptionState, entry: QueueEntry, queue: Queue, lacking: PreemptionOption, found: _Found, priority: int
) -> Explanation:
    """Have the victims leave, and hold what they leave for the preemptor."""
    workload = entry.workload
    leaving, fewer = _who_leaves(state, found)
    for victim, other in leaving:
        _have_leave(state, other, victim.reason, workload, queue)
    for key, members in fewer.items():
        for_whom = f"{workload_named(workload, key[1], discreet=state.discreet)} of ClusterQueue {queue.name}"
        text = f"it makes room for {for_whom}; its gang does without it"
        evict_members(state, state.workloads[key], members, PREEMPTION_BY_SCHEDULER, text)
        for member in members:
            report_preempted(state, member.pod, for_whom)
    going = [one for _, other in leaving for one in other.members() if one.pod.place]
    pods = {one.pod.key: one.pod.uid for one in [*going, *(one for some in fewer.values() for one in some)]}
    until = state.now + state.configuration.victims_timeout_seconds
    why = _waiting_for(state, workload, found.victims, sum(need.required for need in lacking.needs), until)
    nomination = Nomination(
        priority=priority,
        spots=list(nominations.spots_of(state, lacking.needs, found.rows)),
        wants=nominations.wants_of(entry.needs),
        victims=pods,
        charges=lacking.charged,
        until=until,
        why=why,
        leaving=[*((other.name, None) for _, other in leaving), *_of_members(state, fewer)],
    )
    nominations.begin_nomination(state, workload.key, nomination)
    workload.cluster_queue = queue.name
    if pods:
        state.reached(workload, LifecycleStep.MAKES_ROOM, pods=len(pods))
    quota_usage.describe_holder(state, workload)
    if not pods:
        state.touch(workload.key)  # there is nobody to wait for
    return why


def _who_leaves(
    state: PreemptionState, found: _Found
) -> tuple[list[tuple[Victim, Workload]], dict[WorkloadKey, list[Member]]]:
    """Return which workloads leave as a whole, and which members of those that do not leave alone."""
    leaving: list[tuple[Victim, Workload]] = []
    fewer: dict[WorkloadKey, list[Member]] = {}
    whole = {victim.holder.name for victim in found.victims if victim.holder.name not in found.apart}
    for victim in found.victims:
        other = quota_usage.workload_of(state, victim.holder)
        assert other is not None  # else it would have been spared
        member = found.apart.get(victim.holder.name)
        if member is None:
            leaving.append((victim, other))
        elif other.name not in whole:
            fewer.setdefault(other.key, []).append(member)
    return leaving, fewer


def _have_leave(
    state: PreemptionState, other: Workload, reason: PreemptionReason, workload: Workload, queue: Queue
) -> None:
    """Have a workload leave for another one of a ClusterQueue; who only waits gives up what is held for it."""
    if other.phase is Phase.WAITING and other.held_since is None:  # it holds what others have left for it
        nominations.give_up_nomination(state, other.key)
        state.touch(other.key)
        return
    preemptor = workload_named(workload, other.key[1], discreet=state.discreet)
    text = f"it makes room for {preemptor}: {_BY[reason].format(queue=queue.name)}"
    evict(state, other, EvictionReason.PREEMPTED, text, preempted=reason.value, for_queue=queue.name)
    quota_usage.describe_holder(state, other)  # who comes next in this turn counts on what it leaves besides


def _of_members(state: PreemptionState, fewer: dict[WorkloadKey, list[Member]]) -> Iterator[tuple[str, Usage]]:
    """Yield whose quota becomes free with some members that leave alone, and how much of it."""
    for key, members in fewer.items():
        usage: Usage = {}
        for member in members:
            if member.charge is not None:
                add_to(usage, member.charge.usage)
        yield state.workloads[key].name, usage


def _waiting_for(
    state: PreemptionState, workload: Workload, victims: Sequence[Victim], pods: int, until: float
) -> Explanation:
    names = []
    for one in victims[:MOST_NAMES]:
        other = quota_usage.workload_of(state, one.holder)
        name = one.holder.name if other is None else workload_named(other, workload.key[1], discreet=state.discreet)
        names.append(f"{name} of {one.holder.queue}, {one.reason}")
    more = f"; and {len(victims) - MOST_NAMES} more" if len(victims) > MOST_NAMES else ""
    again = timestamp(until)
    text = f"waits for {counted(len(victims), 'workload')} to leave ({'; '.join(names)}{more})"
    if not victims:
        text = "takes over what was held for workloads that go after it"
    text += f"; the quota and the room for its {counted(pods, 'pod')} are held until {again}"
    return Explanation(Gate.VICTIMS, "WaitingForVictims", text, {"victims": str(len(victims)), "until": again})


def _look_again(state: PreemptionState, queue: Queue) -> None:
    """Have those that found no victims tried again when the first of those that are spared may go."""
    snapshot = state.ledger.snapshot
    if not state.catalog.protects_anybody:
        return
    for leaf in snapshot.queue(queue.name).root().leaves():
        for holder in snapshot.holders(leaf.name):
            other = quota_usage.workload_of(state, holder)
            until = 0.0 if other is None else protected_until(state, other)
            if until > state.now:
                state.nominations.look_again(until)
