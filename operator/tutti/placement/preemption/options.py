"""Which nodes to clear, and how far: for every node, what making room for one, two, four, ... more pods would hurt.

An option is a node and a number of pods; the victims are those who cannot be put back while room for so many is kept.
Options are taken by harm per pod gained, until there is room for all that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.harm import PRIORITY_OFFSET
from tutti.placement.preemption.pool import Free, Pool, Wish


@dataclass(slots=True)
class Options:
    """All options for one wish, as columns.

    Attributes:
        pool: Who may go.
        hurting: bool[pool], those whose leaving hurts somebody.
        gone: Per depth bool[pool], the victims of its options.
        depth: int64[k], which depth an option is of.
        row: int64[k], its node.
        gain: int64[k], for how many more pods there would be room.
        sums: int64[4, k], of its victims: beyond a budget, highest priority, sum of priorities, number (`Harm`).
        first: float64[k], when the first of those with the highest priority was started, Unix seconds.
    """

    pool: Pool
    hurting: Mask
    gone: list[Mask]
    depth: Counts
    row: Rows
    gain: Counts
    sums: Counts
    first: NDArray[np.float64]

    @classmethod
    def of(cls, cluster: Cluster, wish: Wish, pool: Pool, free: Free, hurting: Mask) -> Options:
        """Work out all options.

        Args:
            cluster: Where the pods are.
            wish: What is wanted.
            pool: Who may go.
            free: What is free before any of them does.
            hurting: bool[pool], those whose leaving hurts somebody.
        """
        lifted = pool.lift(free)
        now, most = wish.capacity(free), wish.capacity(lifted)
        reached, step = now, 1
        gone: list[Mask] = []
        rows: list[Rows] = []
        gains: list[Counts] = []
        while (deeper := np.minimum(now + step, most) > reached).any():
            reached = np.where(deeper, np.minimum(now + step, most), reached)
            gone.append(pool.put_back(lifted, wish.request[:, None] * reached, deeper))
            rows.append(np.flatnonzero(deeper))
            gains.append((reached - now)[rows[-1]])
            step *= 2
        hurt = [_hurt(cluster, pool, one & hurting, at) for one, at in zip(gone, rows, strict=True)]
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            pool,
            hurting,
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
        """Return all options, those with the least harm per pod gained first, where only so many pods are missing."""
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
class Walk:
    """One walk along the options, best first.

    Attributes:
        left: What the budgets still allow.
        missing: For how many pods there is no room yet.
        strict: Whether nobody beyond a budget may go at all; else such options are put off.
    """

    cluster: Cluster
    options: Options
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
        over = [self.coverage.use(trial, pod) for pod in self._pods(option)]
        if within and any(over):
            return False
        self.left = trial
        return True

    def _pods(self, option: int) -> Sequence[PodRecord]:
        return self.cluster.tenants.at(self.options.pool.slots[self.options.victims(option)])


def _hurt(cluster: Cluster, pool: Pool, gone: Mask, rows: Rows) -> tuple[Counts, NDArray[np.float64]]:
    """Return for some nodes what their victims sum up to: int64[4, k] and float64[k] as in `Options`."""
    size = int(rows.max(initial=-1)) + 1
    mine = np.flatnonzero(gone)
    mine = mine[pool.row[mine] < size]
    row, slots = pool.row[mine], pool.slots[mine]
    priority, started = cluster.tenants.priority[slots], cluster.tenants.started[slots]
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
