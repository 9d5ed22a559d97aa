"""Choosing victims on columns: for equal pods that mind nothing but the room on each node, and who is on it now.

The lowest priority up to which all may go such that the gang fits is found by halving. Units on several nodes are kept
where the others alone make room; the nodes to clear are then those that yield most for the least harm, per pod of the
gang (`options`). At last whoever is not needed after all is put back, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.company import allowed
from tutti.placement.framework import Counts, Mask, Rationed
from tutti.placement.gang import Ask
from tutti.placement.judging import standing, tallies
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.closed import Closed
from tutti.placement.preemption.enough import Enough
from tutti.placement.preemption.options import Options, Walk
from tutti.placement.preemption.pool import Free, Pool, Wish
from tutti.placement.preemption.remaining import Remaining
from tutti.placement.preemption.units import NO_GRADE, Numbers, Units
from tutti.placement.profile import Profile


def looks_around(cluster: Cluster, ask: Ask, profile: Profile) -> bool:
    """Whether it can matter to the pods of an ask, beyond the room they take, who else is where, or who leaves."""
    return ask.klass.minds_company or any(
        tally.moves
        or tally.alone
        or isinstance(tally, Rationed)
        or any(rejection.rows.any() for rejection in tally.rejections())
        for tally in tallies(ask.klass, cluster.nodes, ask.where, profile)
    )


def moves(cluster: Cluster, ask: Ask, profile: Profile) -> bool:
    """Whether one pod of an ask being placed, or others leaving, can change where on other nodes the next may go."""
    found = tallies(ask.klass, cluster.nodes, ask.where, profile)
    return ask.klass.minds_company or any(tally.moves or isinstance(tally, Rationed) for tally in found)


class ByRoom:
    """One choice for one ask.

    `within` holds it to some rows, bool[rows]; `closed` are nodes that are open once some pods have left.
    """

    def __init__(
        self,
        cluster: Cluster,
        ask: Ask,
        units: Units,
        coverage: Coverage,
        profile: Profile,
        enough: Enough,
        *,
        within: Mask | None = None,
        closed: Closed | None = None,
    ) -> None:
        nodes = cluster.nodes
        company = tallies(ask.klass, nodes, ask.where, profile)
        mask = allowed(standing(ask.klass, nodes, ask.where, profile).mask, company)
        if closed is not None:
            mask = mask | closed.rows
        if within is not None:
            mask = mask & within
        barring = None if closed is None else closed.slots
        most = 1 if any(tally.alone for tally in company) else ask.required
        self._cluster, self._units, self._coverage, self._enough = cluster, units, coverage, enough
        self._wanted = ask.required
        self._wish = Wish.of(cluster, ask, profile, mask, most=most, barring=barring)
        self._row = cluster.tenants.row[units.slots].astype(np.int64)
        self._held = self._wish.held(cluster, units.slots)
        self._several = units.size > 1

    def choose(self, gone: Mask) -> Mask | None:
        """Return bool[units] that must go, those that are `gone` already among them; None where that is no help."""
        if self._does(gone):
            return gone
        grades = np.unique(self._units.grade[~gone])
        least = self._least_that_does(grades, gone)
        if least is None:
            return None
        if not self._coverage.budgets:
            return self._within(gone, grades[least], strict=False)
        for grade in grades[least:].tolist():
            found = self._within(gone, grade, strict=True)
            if found is not None:
                return found
        return self._within(gone, int(grades[-1]), strict=False)

    def capacity(self, gone: Mask) -> Counts:
        """Return int64[rows]: how many pods fit on each node if some units are gone."""
        return self._wish.capacity(self._lifted(gone))

    def _does(self, gone: Mask) -> bool:
        return self._spare(self._lifted(gone)) >= 0 and self._enough(gone)

    def _least_that_does(self, grades: Numbers, gone: Mask) -> int | None:
        """Return the first grade, by its index, up to which all must be able to go; None where none is enough."""
        low, high = 0, len(grades)
        while low < high:
            middle = (low + high) // 2
            if self._does(gone | (self._units.grade <= grades[middle])):
                high = middle
            else:
                low = middle + 1
        return low if low < len(grades) else None

    def _within(self, gone: Mask, grade: int, *, strict: bool) -> Mask | None:
        """Choose among those up to a grade; `strict`, nobody beyond a budget, and None where that cannot be."""
        candidates = ~gone & (self._units.grade <= grade)
        found = []
        for opened in self._openings(gone, candidates):
            singles = candidates & ~self._several
            chosen = self._clear(gone | opened, singles, strict=strict)
            if chosen is not None:
                chosen = self._until_enough(chosen, candidates)
                chosen = self._put_back(chosen, chosen & ~gone)
                if not (strict and self._units.violations(self._cluster, chosen, self._coverage)):
                    found.append(chosen)
        return min(found, key=lambda one: self._units.harm(self._cluster, one, self._coverage)) if found else None

    def _openings(self, gone: Mask, candidates: Mask) -> Iterator[Mask]:
        """Yield which units of several pods might go: as few as can be, those that make most room, or all of them.

        Those of all that are not needed are put back in the end.
        """
        several = candidates & self._several
        nobody = np.zeros_like(several)
        if not several.any():
            yield nobody
            return
        order = self._units.least_harm_first(nobody)
        order = order[several[order]]
        kept = self._put_back(gone | candidates, several) & several
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
        units, tenants = self._units, self._cluster.tenants
        free = self._lifted(gone)
        missing = -self._spare(free)
        if missing <= 0:
            return gone
        mine = np.flatnonzero(singles[units.of])
        number_of = np.full(len(tenants), -1, dtype=np.int64)
        number_of[units.slots[mine]] = units.of[mine]
        harmless = units.grade[units.of[mine]] == NO_GRADE
        pool = Pool.of(self._cluster, units.slots[mine], self._wish, self._coverage, harmless)
        hurting = units.grade[number_of[pool.slots]] != NO_GRADE
        options = Options.of(self._cluster, self._wish, pool, free, hurting)
        victims = Walk(self._cluster, options, self._coverage, self._left(gone), missing, strict).run()
        if victims is None:
            return None
        out = gone.copy()
        out[number_of[pool.slots[victims]]] = True
        return out

    def _until_enough(self, chosen: Mask, candidates: Mask) -> Mask:
        """Add those whose leaving hurts least until what else must hold does."""
        if self._enough(chosen):
            return chosen
        order = self._units.least_harm_first(np.zeros_like(chosen))
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

    def _put_back(self, chosen: Mask, some: Mask) -> Mask:
        """Put back who of some is not needed, the most important first; returns who must still go."""
        chosen, left = chosen.copy(), self._remaining(chosen)
        order = self._units.least_harm_first(self._units.over_budget(self._cluster, chosen, self._coverage))[::-1]
        for unit in order[some[order]].tolist():
            left.put_back(unit)
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
        if left:
            self._coverage.take(left, self._cluster.tenants.at(self._units.pods(gone)))
        return left
