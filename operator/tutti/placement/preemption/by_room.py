"""Choosing victims on columns: for equal pods that mind nothing but the room on each node, and who is on it now.

The lowest priority up to which all may go such that the gang fits is found by halving. Units on several nodes are kept
where the others alone make room. The nodes to clear are then those that yield most for the least cost, per pod of the
gang: an option is a node and a number of pods; its victims are those who cannot be reprieved while room for so many is
kept. At last whoever is not needed after all is reprieved, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Counts, Mask, Rows, limits_per_node
from tutti.placement.gang import Ask
from tutti.placement.plugins.devices import DeviceRoom
from tutti.placement.preemption.device_wish import DeviceWish
from tutti.placement.preemption.pool import Free, Remaining, ResourceWish, VictimPool
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import (
    NO_BAND,
    BarredNodes,
    Numbers,
    SimulatedRemoval,
    VictimUnits,
)
from tutti.placement.preemption.victim_cost import PRIORITY_OFFSET, Coverage
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible


@dataclass(slots=True)
class ClearingOptions:
    """All options for one wish, as columns.

    Attributes:
        pool: Who may go.
        costly: bool[pool], those whose leaving hurts somebody.
        gone: Per depth bool[pool], the victims of its options.
        depth: int64[k], which depth an option is of.
        row: int64[k], its node.
        gain: int64[k], for how many more pods there would be room.
        sums: int64[4, k], of its victims: beyond a budget, highest priority, sum of priorities, number (`VictimCost`).
        first: float64[k], when the first of those with the highest priority was started, Unix seconds.
    """

    pool: VictimPool
    costly: Mask
    gone: list[Mask]
    depth: Counts
    row: Rows
    gain: Counts
    sums: Counts
    first: NDArray[np.float64]

    @classmethod
    def of(cls, cluster: Cluster, wish: ResourceWish, pool: VictimPool, free: Free, costly: Mask) -> ClearingOptions:
        """Work out all options.

        Args:
            cluster: Where the pods are.
            wish: What is wanted.
            pool: Who may go.
            free: What is free before any of them does.
            costly: bool[pool], those whose leaving hurts somebody.
        """
        removed = pool.remove(free)
        now, most = wish.capacity(free), wish.capacity(removed)
        reached, step = now, 1
        gone: list[Mask] = []
        rows: list[Rows] = []
        gains: list[Counts] = []
        while (deeper := np.minimum(now + step, most) > reached).any():
            reached = np.where(deeper, np.minimum(now + step, most), reached)
            gone.append(pool.reprieve(removed, wish.request[:, None] * reached, deeper))
            rows.append(np.flatnonzero(deeper))
            gains.append((reached - now)[rows[-1]])
            step *= 2
        hurt = [_hurt(cluster, pool, one & costly, at) for one, at in zip(gone, rows, strict=True)]
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            pool,
            costly,
            gone,
            np.repeat(np.arange(len(rows)), [len(at) for at in rows]),
            np.concatenate((nothing, *rows)),
            np.concatenate((nothing, *gains)),
            np.concatenate((np.zeros((4, 0), dtype=np.int64), *(sums for sums, _ in hurt)), axis=1),
            np.concatenate((np.zeros(0), *(first for _, first in hurt))),
        )

    def victims(self, option: int) -> Rows:
        """Return who would have to go, as indices into the pool."""
        begin, end = np.searchsorted(self.pool.row, (self.row[option], self.row[option] + 1)).tolist()
        victims: Rows = begin + np.flatnonzero(self.gone[self.depth[option]][begin:end])
        return victims

    def best_first(self, missing: int, *, by_highest: bool) -> list[int]:
        """Return all options, those with the least cost per pod gained first, where only so many pods are missing."""
        gain = np.minimum(self.gain, missing)
        violations, highest, total, number = self.sums
        keys = [self.row, -self.first, number / gain, total / gain]
        if by_highest:
            keys.append(highest)
        if violations.any():
            keys.append(violations / gain)
        order: list[int] = np.lexsort(keys).tolist()
        return order


@dataclass(slots=True)
class OptionWalk:
    """One walk along the options, best first.

    Attributes:
        left: What the budgets still allow.
        missing: For how many pods there is no room yet.
        strict: Whether nobody beyond a budget may go at all; else such options are put off.
    """

    cluster: Cluster
    options: ClearingOptions
    coverage: Coverage
    left: list[int]
    missing: int
    strict: bool
    _taken: dict[int, int] = field(default_factory=dict)

    def run(self) -> Rows | None:
        """Return the victims that make room for all that are missing, as indices into the pool; None where none do."""
        within = True
        while self.missing > 0:
            if self._take_best(within=within):
                continue
            if self.strict or not within:
                return None
            within = False
        chosen = [self.options.victims(option) for option in self._taken.values()]
        return np.concatenate((np.zeros(0, dtype=np.int64), *chosen))

    def _take_best(self, *, within: bool) -> bool:
        """Take options in order until one gains more than is missing by then, or none is left; whether any was."""
        any_taken = False
        gains, rows = self.options.gain, self.options.row
        for option in self.options.best_first(self.missing, by_highest=not self.strict):
            row = int(rows[option])
            before = self._taken.get(row)
            more = int(gains[option]) - (int(gains[before]) if before is not None else 0)
            if more <= 0:
                continue
            if any_taken and more > self.missing:
                return True  # what it gains is worth less now: look again
            if not self._charge(option, before, within=within):
                continue
            self._taken[row], any_taken = option, True
            self.missing -= more
            if self.missing <= 0:
                return True
        return any_taken

    def _charge(self, option: int, before: int | None, *, within: bool) -> bool:
        """Take the victims from the budgets; where one of them has no room, whether that is accepted."""
        if not self.left:
            return True
        trial = list(self.left)
        if before is not None:
            for pod in self._pods(before):
                for index in self.coverage.of(pod):
                    trial[index] += 1
        after, violations = self.coverage.without(trial, self._pods(option))
        if within and violations:
            return False
        self.left = after
        return True

    def _pods(self, option: int) -> Sequence[PodRecord]:
        return self.cluster.pod_columns.at(self.options.pool.slots[self.options.victims(option)])


def _hurt(cluster: Cluster, pool: VictimPool, gone: Mask, rows: Rows) -> tuple[Counts, NDArray[np.float64]]:
    """Return for some nodes what their victims sum up to: int64[4, k] and float64[k] as in `ClearingOptions`."""
    size = int(rows.max(initial=-1)) + 1
    mine = np.flatnonzero(gone)
    mine = mine[pool.row[mine] < size]
    row, slots = pool.row[mine], pool.slots[mine]
    priority, started = cluster.pod_columns.priority[slots], cluster.pod_columns.started[slots]
    out = np.zeros((4, size), dtype=np.int64)
    out[1] = -PRIORITY_OFFSET
    np.add.at(out[0], row, pool.violating[mine].astype(np.int64))
    np.maximum.at(out[1], row, priority)
    np.add.at(out[2], row, priority + PRIORITY_OFFSET)
    np.add.at(out[3], row, 1)
    first = np.full(size, np.inf)
    among = priority == out[1][row]
    np.minimum.at(first, row[among], started[among])
    first[out[3] == 0] = 0.0
    return out[:, rows], first[rows]


def has_inter_pod_constraints(cluster: Cluster, ask: Ask, profile: Profile) -> bool:
    """Whether it can matter to the pods of an ask, beyond the room they take, who else is where, or who leaves."""
    return ask.pod_class.needs_other_pods or any(
        state.changes_on_add
        or state.one_per_node
        or limits_per_node(state)
        or any(rejection.rows.any() for rejection in state.rejections())
        for state in pre_filter(ask.pod_class, cluster.nodes, ask.where, profile)
        if not isinstance(state, DeviceRoom)
    )


def placement_changes_other_nodes(cluster: Cluster, ask: Ask, profile: Profile) -> bool:
    """Whether one pod of an ask being placed, or others leaving, can change where on other nodes the next may go."""
    found = pre_filter(ask.pod_class, cluster.nodes, ask.where, profile)
    return ask.pod_class.needs_other_pods or any(
        state.changes_on_add or (limits_per_node(state) and not isinstance(state, DeviceRoom)) for state in found
    )


def _most_by_devices(cluster: Cluster, room: DeviceRoom, units: VictimUnits, wanted: int) -> Counts:
    """Return int64[rows]: for how many pods, up to `wanted`, each node has devices if all units are gone."""
    with SimulatedRemoval(cluster, units.slots, seen=False):
        most = room.room(wanted)
        for rejection in room.rejections():
            most = most * ~rejection.rows
    return most


class ByRoom:
    """One choice for one ask.

    `within` holds it to some rows, bool[rows]; `closed` are nodes that are open once some pods have left.
    """

    def __init__(
        self, search: VictimSearch, ask: Ask, *, within: Mask | None = None, closed: BarredNodes | None = None
    ) -> None:
        cluster, units, profile = search.cluster, search.units, search.profile
        nodes = cluster.nodes
        states = pre_filter(ask.pod_class, nodes, ask.where, profile)
        room = [one for one in states if isinstance(one, DeviceRoom)]
        states = [one for one in states if not isinstance(one, DeviceRoom)]
        mask = feasible(static_filter_result(ask.pod_class, nodes, ask.where, profile).mask, states)
        if closed is not None:
            mask = mask | closed.rows
        if within is not None:
            mask = mask & within
        barring = None if closed is None else closed.slots
        most: int | Counts = 1 if any(state.one_per_node for state in states) else ask.required
        devices = None
        if room:
            most = np.minimum(most, _most_by_devices(cluster, room[0], units, ask.required))
            devices = DeviceWish.of(cluster, ask.pod_class)
        self._cluster, self._units, self._coverage, self._enough = cluster, units, search.coverage, search.enough
        self._wanted = ask.required
        self._wish = ResourceWish.of(cluster, ask, profile, mask, most=most, barring=barring, devices=devices)
        self._row = cluster.pod_columns.row[units.slots].astype(np.int64)
        self._held = self._wish.held(cluster, units.slots)
        self._several = units.size > 1

    def choose(self, gone: Mask) -> Mask | None:
        """Return bool[units] that must go, those that are `gone` already among them; None where that is no help."""
        if self._does(gone):
            return gone
        bands = np.unique(self._units.band[~gone])
        least = self._least_that_does(bands, gone)
        if least is None:
            return None
        if not self._coverage.budgets:
            return self._within(gone, bands[least], strict=False)
        for band in bands[least:].tolist():
            found = self._within(gone, band, strict=True)
            if found is not None:
                return found
        return self._within(gone, int(bands[-1]), strict=False)

    def capacity(self, gone: Mask) -> Counts:
        """Return int64[rows]: how many pods fit on each node if some units, bool[units], are gone."""
        return self._wish.capacity(self._lifted(gone))

    def _does(self, gone: Mask) -> bool:
        return self._spare(self._lifted(gone)) >= 0 and self._enough(gone)

    def _least_that_does(self, bands: Numbers, gone: Mask) -> int | None:
        """Return the first band, by its index, up to which all must be able to go; None where none is enough."""
        low, high = 0, len(bands)
        while low < high:
            middle = (low + high) // 2
            if self._does(gone | (self._units.band <= bands[middle])):
                high = middle
            else:
                low = middle + 1
        return low if low < len(bands) else None

    def _within(self, gone: Mask, band: int, *, strict: bool) -> Mask | None:
        """Choose among those up to a band; `strict`, nobody beyond a budget, and None where that cannot be."""
        candidates = ~gone & (self._units.band <= band)
        found = []
        for opened in self._openings(gone, candidates):
            singles = candidates & ~self._several
            chosen = self._clear(gone | opened, singles, strict=strict)
            if chosen is not None:
                chosen = self._until_enough(chosen, candidates)
                chosen = self._reprieve(chosen, chosen & ~gone)
                if not (strict and self._units.violations(self._cluster, chosen, self._coverage)):
                    found.append(chosen)
        return min(found, key=lambda one: self._units.cost(self._cluster, one, self._coverage)) if found else None

    def _openings(self, gone: Mask, candidates: Mask) -> Iterator[Mask]:
        """Yield which units of several pods might go: as few as can be, those that make most room, or all of them.

        Those of all that are not needed are put back in the end.
        """
        several = candidates & self._several
        nobody = np.zeros_like(several)
        if not several.any():
            yield nobody
            return
        order = self._units.cheapest_first(nobody)
        order = order[several[order]]
        kept = self._reprieve(gone | candidates, several) & several
        yield kept
        greedy, left, sizes = nobody.copy(), self._remaining(gone), self._units.size
        gains = {unit: left.gain(unit) for unit in order.tolist()}
        useful = [unit for unit in gains if gains[unit]]
        for unit in sorted(useful, key=lambda unit: sizes[unit] / gains[unit]):
            if left.spare >= 0:
                break
            greedy[unit] = True
            left.take_out(unit)
        yield greedy
        yield several & ~self._units.over_budget(self._cluster, several, self._coverage)

    def _clear(self, gone: Mask, singles: Mask, *, strict: bool) -> Mask | None:
        """Choose pods that leave by themselves, node by node, until the gang fits."""
        units, columns = self._units, self._cluster.pod_columns
        free = self._lifted(gone)
        missing = -self._spare(free)
        if missing <= 0:
            return gone
        mine = np.flatnonzero(singles[units.of])
        number_of = np.full(len(columns), -1, dtype=np.int64)
        number_of[units.slots[mine]] = units.of[mine]
        harmless = units.band[units.of[mine]] == NO_BAND
        pool = VictimPool.of(self._cluster, units.slots[mine], self._wish, self._coverage, harmless)
        costly = units.band[number_of[pool.slots]] != NO_BAND
        options = ClearingOptions.of(self._cluster, self._wish, pool, free, costly)
        victims = OptionWalk(self._cluster, options, self._coverage, self._left(gone), missing, strict).run()
        if victims is None:
            return None
        out = gone.copy()
        out[number_of[pool.slots[victims]]] = True
        return out

    def _until_enough(self, chosen: Mask, candidates: Mask) -> Mask:
        """Add those whose leaving hurts least until what else must hold does."""
        if self._enough(chosen):
            return chosen
        order = self._units.cheapest_first(np.zeros_like(chosen))
        order = order[(candidates & ~chosen)[order]]
        low, high = 1, len(order)
        while low < high:
            middle = (low + high) // 2
            trial = chosen.copy()
            trial[order[:middle]] = True
            low, high = (low, middle) if self._enough(trial) else (middle + 1, high)
        out = chosen.copy()
        out[order[:low]] = True
        return out

    def _reprieve(self, chosen: Mask, some: Mask) -> Mask:
        """Put back who of some is not needed, the most important first; returns who must still go."""
        chosen, left = chosen.copy(), self._remaining(chosen)
        order = self._units.cheapest_first(self._units.over_budget(self._cluster, chosen, self._coverage))[::-1]
        for unit in order[some[order]].tolist():
            left.reprieve(unit)
            chosen[unit] = False
            if left.spare < 0 or not self._enough(chosen):
                chosen[unit] = True
                left.take_out(unit)
        return chosen

    def _lifted(self, gone: Mask) -> Free:
        """Return what would be free if some units were gone."""
        free, which = self._wish.free(self._cluster), gone[self._units.of]
        for column, held in zip(free, self._held, strict=True):
            np.add.at(column, self._row[which], held[which])
        return free

    def _spare(self, free: Free) -> int:
        """Return how many more pods fit than are wanted; below 0 where they do not fit."""
        return int(self._wish.capacity(free).sum()) - self._wanted

    def _remaining(self, gone: Mask) -> Remaining:
        free = self._lifted(gone)
        return Remaining(self._wish, free, self._units, self._row, self._held, self._spare(free))

    def _left(self, gone: Mask) -> list[int]:
        """Return what the budgets still allow when some units are gone."""
        left = [budget.allowed for budget in self._coverage.budgets]
        if not left:
            return left
        return self._coverage.without(left, self._cluster.pod_columns.at(self._units.pods(gone)))[0]
