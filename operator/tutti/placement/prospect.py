"""What one class of pods can have on the nodes as they are now, and taking some of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.placement.choosing import Choice, settle
from tutti.placement.framework import Counts, Mask, Rows, ScoreTally, Tally


@dataclass(slots=True)
class Prospect:
    """The room of a class.

    Attributes:
        choice: Has the room per node; it falls as pods are placed.
        moving: Company filters whose answer changes with each pod.
        scorers: Per company scorer of the profile what it knows, None where it has no opinion.
    """

    choice: Choice
    moving: Sequence[Tally]
    scorers: Sequence[ScoreTally | None]

    @property
    def room(self) -> Counts:
        """int64[rows]: how many more pods each node could take, as far as they do not mind each other."""
        return self.choice.room

    @property
    def is_exact(self) -> bool:
        """Whether all that there is room for can be placed, wherever the others go."""
        return not self.moving

    def take(self, wanted: int, within: Mask | None = None) -> Counts:
        """Place up to so many pods on some rows; returns int64[rows], how many on each."""
        whole = self.choice.room
        if wanted <= 0:
            return np.zeros_like(whole)
        if within is not None:
            self.choice.room = whole * within
        if self.moving or any(self.scorers):
            counts = self.choice.by_company(wanted, self.moving, self.scorers)
            settle(self.moving, self.choice.transaction)
        else:
            counts = self._by_fill(wanted if wanted == 1 else min(wanted, int(self.choice.room.sum())))
        if within is not None:
            self.choice.room = whole - counts
        return counts

    def in_turn(self, most: int) -> Rows:
        """Place up to so many pods as if each came by itself; returns int64[m], the row of each."""
        choice = self.choice
        if not self.moving and not any(self.scorers):
            # One by itself is packed as `Profile.fill_of` scores it, so nothing else has to be asked.
            return choice.in_turn(min(most, int(choice.room.sum())))
        rows = choice.in_turn_by_company(most, self.moving, self.scorers)
        settle(self.moving, choice.transaction)
        return rows

    def _by_fill(self, wanted: int) -> Counts:
        packing = self.choice.profile.packing_of(self.choice.klass)
        return self.choice.by_fill(wanted) if packing is None else self.choice.by_packing(wanted, packing)

    def put(self, counts: Counts) -> None:
        """Place pods where they are told to go: int64[rows], on each row no more than there is room for."""
        rows = np.flatnonzero(counts)
        told: list[Tally | ScoreTally] = [*self.moving, *(one for one in self.scorers if one)]
        for one in told:
            for row in np.repeat(rows, counts[rows]).tolist():
                one.add(row)
        self.choice.transaction.put(rows, counts[rows], self.choice.klass)
        settle(self.moving, self.choice.transaction)
        self.choice.room = self.choice.room - counts
