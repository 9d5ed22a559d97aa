"""Which so many numbers add up to enough, and to as little more as possible."""

from __future__ import annotations

import numpy as np

from tutti.placement.framework import Counts
from tutti.placement.topology.tree import Index

WORK = 20_000
"""How many steps (numbers times how many are chosen) a search may take; each is a few passes over an array as long as
the sum. Beyond it, as with thousands of nodes one by one, the caller takes the largest numbers instead."""


def least_subset(plain: Counts, led: Counts | None, needed: int, count: int) -> Index | None:
    """Choose exactly `count` of the numbers with the least sum that is at least `needed`.

    Args:
        plain: int64[k], at least 0; a 0 is never chosen for itself.
        led: int64[k], what one of the chosen counts instead, just one of them, -1 where it cannot be that one; None
            where all count `plain`.
        needed: More than 0.
        count: How many to choose: the fewest that will do.

    Returns:
        Indexes in rising order, of equal sums the one found first in the order of the numbers; None where there is
        none, or where the search would take too long.
    """
    if len(plain) * count > WORK:
        return None
    search = _Search(count, needed + int(plain.max(initial=0)) + 1, with_leader=led is not None)
    for index, number in enumerate(plain.tolist()):
        search.add(index, number, int(led[index]) if led is not None else -1)
    return search.best(needed)


class _Search:
    """Sums that can be reached, by how many numbers are chosen and whether one of them leads.

    `last[i, l, s]` is the number through which the sum s was first reached with i numbers, -1 where it has not been;
    `led` whether that one leads; `step` what it counts.
    """

    def __init__(self, count: int, sums: int, *, with_leader: bool) -> None:
        self.count, self.leads = count, int(with_leader)
        shape = (count + 1, self.leads + 1, sums)
        self.last = np.full(shape, -1, dtype=np.int32)
        self.last[0, 0, 0] = 0
        self.step = np.zeros(shape, dtype=np.int32)
        self.led = np.zeros(shape, dtype=np.bool_)

    def add(self, index: int, plain: int, led: int) -> None:
        """Let one more number be chosen."""
        for chosen in range(min(self.count, index + 1), 0, -1):
            for leading in range(self.leads + 1):
                if plain > 0:
                    self._reach(chosen, leading, index, plain, leading)
                if leading and led >= 0:
                    self._reach(chosen, leading, index, led, 0)

    def best(self, needed: int) -> Index | None:
        """Return the numbers of the least sum that is enough."""
        reached = np.flatnonzero(self.last[self.count, self.leads, needed:] >= 0)
        if not len(reached):
            return None
        chosen, leading, total = self.count, self.leads, needed + int(reached[0])
        out = []
        while chosen:
            at = (chosen, leading, total)
            out.append(int(self.last[at]))
            chosen, leading, total = chosen - 1, leading - int(self.led[at]), total - int(self.step[at])
        return np.array(out[::-1], dtype=np.int64)

    def _reach(self, chosen: int, leading: int, index: int, step: int, before: int) -> None:
        """Reach sums with this number as the last of `chosen`, from those with one less and `before` leading."""
        size = self.last.shape[2] - step
        if size <= 0:
            return
        into = (chosen, leading, slice(step, None))
        new = (self.last[chosen - 1, before, :size] >= 0) & (self.last[into] < 0)
        self.last[into][new] = index
        self.step[into][new] = step
        self.led[into][new] = before != leading
