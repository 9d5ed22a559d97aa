"""How many are tried in one turn, so that what is decided can be carried out meanwhile.

What a turn takes is told by counting, never by a clock, so that a replay ends it after the same try: a gang counts by
its pods and by how many of them are unlike, and whoever makes many terms of selectors be weighed by these. The clock is
asked by whoever calls the engine.

Where something woke some meanwhile that were tried already, each of the next turns tries twice as many as the one
before, until nobody is left: in a busy cluster those who go first would be tried for ever, and the others never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from tutti.engine.queue.equivalence import classes_of_entry, terms_of_entry
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import WorkloadKey

_PODS_PER_TRY: Final = 16
"""To try a single pod takes as long as so many pods of a gang do."""
_TOGETHER_PER_TRY: Final = 4
"""And as long as to admit so many more with it."""
_TERMS_PER_TRY: Final = 32
"""And as long as to weigh so many terms of selectors, affinity and the like."""


class TurnLength:
    """What is left of a turn, and who has been tried in it and in those before that were cut short."""

    def __init__(self) -> None:
        self._tried: set[WorkloadKey] = set()
        self._stretch = 1  # how many times as many are tried, after turns that were cut short
        self._again = False
        self.begin(None, None)

    def begin(self, most: int | None, enough: Callable[[], bool] | None) -> None:
        """Begin a turn.

        Args:
            most: How many are tried at most; None: all of them.
            enough: Asked after a try, after one, two, four ... of them in turns on end that are cut short, whether the
                turn has had its share of time; it is over with the first yes.
        """
        self._enough = enough
        self._tries = inf if most is None else float(most * self._stretch)
        self._pods = self._tries * _PODS_PER_TRY
        self._times, self._again, self._had_enough = 0, False, False

    @property
    def is_used_up(self) -> bool:
        """Whether nobody else is to be tried in this turn."""
        return self._tries <= 0 or self._pods <= 0 or self._had_enough

    @property
    def most_together(self) -> float:
        """How many equal single pods may be admitted at once by the next try."""
        return min(1 + (self._tries - 1) * _TOGETHER_PER_TRY, self._pods)

    def count(self, tried: Sequence[QueueEntry]) -> None:
        """Take off what a try has taken: of the first of these, and of those that were admitted with it."""
        first = tried[0]
        self._tries -= max(1, classes_of_entry(first)) + terms_of_entry(first) // _TERMS_PER_TRY
        self._tries -= (len(tried) - 1) / _TOGETHER_PER_TRY
        self._pods -= sum(len(need.members) for one in tried for need in one.needs)
        keys = {one.workload.key for one in tried}
        self._again = self._again or not keys.isdisjoint(self._tried)
        self._tried |= keys
        self._times += 1
        self._had_enough = self._enough is not None and self._times >= self._stretch and self._enough()

    def end(self, *, cut_short: bool) -> None:
        """End a turn; `cut_short` says whether some were not tried who could be."""
        if not cut_short:
            self._tried, self._stretch = set(), 1
        elif self._again:
            self._stretch *= 2
