"""Whom the rules of quota have leave for a workload, such that all of its required pods have nodes then.

The rules say who may leave and in which order (`quota/reclaim.py`, `quota/fair_reclaim.py`). Where quota suffices
before there are nodes, it is looked who is in the way, and last of all tried one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tutti.engine.lifecycle import quota_usage
from tutti.engine.preemption import PreemptionState, kept_room, nominated_room
from tutti.engine.preemption.surplus import set_apart
from tutti.engine.records.members import Member
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.framework import Rows
from tutti.placement.preemption.by_room import has_inter_pod_constraints
from tutti.placement.preemption.units import GangUnit, SimulatedRemoval, VictimUnits
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.together import fit_together
from tutti.quota.flavors import Queue
from tutti.quota.preemption import PreemptionRules
from tutti.quota.reclaim import CandidatesKnown, Victim, fits
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import Usage, add_to

MOST_PLACED: Final = 2048
"""How many asks are placed to find out, candidate by candidate, who must go; a gang has one for each unlike member."""

HeldBack = Callable[[Usage], bool]
"""Whether a workload could not have quota that is free, because it is held back for others."""


class QuotaVictims(NamedTuple):
    """Whom to take out, where the pods go then, and which members are holders by themselves, by their names."""

    victims: list[Victim]
    rows: list[Rows]
    apart: dict[str, Member]


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


def _everybody(snapshot: Snapshot, queue: Queue) -> list[AdmittedWorkload]:
    """Return who holds quota in the tree of a queue."""
    return [one for leaf in snapshot.queue(queue.name).root().leaves() for one in snapshot.holders(leaf.name)]


def choose_by_quota(
    state: PreemptionState,
    workload: Workload,
    queue: Queue,
    lacking: PreemptionOption,
    yielding: Sequence[WorkloadKey],
    held_back: HeldBack,
) -> QuotaVictims | None:
    """Return whom to take out, and where the pods go then; nothing is held for those `yielding`."""
    snapshot, demand = state.ledger.snapshot, demanded_by(workload, queue, lacking)
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
        if names:
            snapshot.remove_each(holder for holder in everybody if holder.name in names)
        if names and fits(snapshot, demand, borrowing=True):
            if trial.rows(everybody) is None:
                return None
            hopeful = True
            rows = trial.rows(())
            if rows is not None:
                return QuotaVictims([], rows, {})
        reach = state.rules.within_reach(snapshot, demands)
        apart = set_apart(state, snapshot, reach)
        known: CandidatesKnown = {}  # of this preemptor, and nothing else is used of any queue until the end
        for one in demands if reach else ():
            by_quota = state.rules.victims(snapshot, one, first=frozenset(apart), known=known)
            if not by_quota:
                continue
            if not hopeful and trial.rows(everybody) is None:
                return None
            hopeful = True
            trial.set_apart(apart)
            victims = _victims(state.rules, snapshot, one, trial, by_quota, known)
            if victims and not _is_held_back(snapshot, victims, one, held_back):
                rows = trial.rows(victim.holder for victim in victims)
                return None if rows is None else QuotaVictims(victims, rows, apart)
    return None


def _victims(
    rules: PreemptionRules,
    snapshot: Snapshot,
    demand: Demand,
    trial: _Trial,
    by_quota: list[Victim],
    known: CandidatesKnown,
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
        known: Who may be preempted at all, as far as that has been found.
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

    found = rules.victims(snapshot, demand, cleared, first=first | apart, known=known) if first else []
    found = found or rules.victims(snapshot, demand, placed, first=apart, known=known)
    return found if tries <= most else []


def _is_held_back(snapshot: Snapshot, victims: Sequence[Victim], demand: Demand, held_back: HeldBack) -> bool:
    """Whether what is demanded could not be had even when the victims are gone."""
    with snapshot.trial():
        snapshot.remove_each(victim.holder for victim in victims)
        return held_back(dict(demand.usage))


def _each_contested(demand: Demand, lacking: PreemptionOption) -> list[Demand]:
    """Return a demand as it is tried: with what is contested and, where that may find nobody, with more."""
    wider = frozenset(demand.usage)
    if demand.contested != wider and any(need.topology for need in lacking.needs):
        # Kueue (0.20, flavorassigner.go): of pods that are placed by topology and lack anything, all is contested.
        return [demand, msgspec.structs.replace(demand, contested=wider)]
    return [demand]


def demanded_by(workload: Workload, queue: Queue, lacking: PreemptionOption) -> Demand:
    """Return what a workload demands of a queue with one of its choices of flavors."""
    wanted = _usage(lacking)
    contested = lacking.contested or frozenset(wanted)  # nodes alone are short: whoever is counted in the same
    cross_queue_priority = queue.cross_queue_priority(workload.preemption_priority)
    return Demand(queue.name, wanted, contested, workload.preemption_priority, workload.queued_at, cross_queue_priority)


def _usage(lacking: PreemptionOption) -> Usage:
    total: Usage = {}
    for charge, pods in lacking.charged:
        add_to(total, {what: amount for what, amount in charge.usage.items() if amount}, pods)
    return total
