"""For how many pods of a class each node has room, and placing some of them there: chosen, in turn, or where told.

Filters between pods change their answer with each pod that is placed, and so are told of all. Which of the nodes is
taken is chosen in `node_choice.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.transaction import Transaction
from tutti.placement.framework import (
    Counts,
    Mask,
    PreFilterState,
    PreScoreState,
    Rows,
    limits_per_node,
    reserves,
)
from tutti.placement.node_choice import NodeChoice


def limited_per_node(room: Counts, states: Sequence[PreFilterState]) -> Counts:
    """Return int64[rows]: the room without what filters that can say so beforehand leave no room for."""
    for state in states:
        if limits_per_node(state):
            room = np.minimum(room, state.room(int(room.max(initial=0))))
    return room


def reserve_given(states: Sequence[PreFilterState], transaction: Transaction) -> None:
    """Keep in a transaction what filters have given to the pods that were put in it."""
    for state in states:
        if reserves(state):
            state.settle(transaction)


@dataclass(slots=True)
class FeasibleCapacity:
    """The room of a class.

    Attributes:
        choice: Has the room per node; it falls as pods are placed.
        moving: Inter-pod filters whose answer changes with each pod.
        scorers: Per inter-pod scorer of the profile what it knows, None where it has no opinion.
    """

    choice: NodeChoice
    moving: Sequence[PreFilterState]
    scorers: Sequence[PreScoreState | None]

    @property
    def room(self) -> Counts:
        """int64[rows]: how many more pods each node could take, as far as they do not mind each other."""
        return self.choice.room

    @property
    def is_exact(self) -> bool:
        """Whether all that there is room for can be placed, wherever the others go."""
        return not self.moving

    def take(self, wanted: int, within: Mask | None = None) -> Counts:
        """Place up to so many pods on some rows; returns int64[rows], how many on each.

        After pods have been placed on all rows, that is without `within`, no more can be placed.
        """
        whole = self.choice.room
        if wanted <= 0:
            return np.zeros_like(whole)
        if within is not None:
            self.choice.room = whole * within
        if self.moving or any(self.scorers):
            counts = self.choice.in_sequence(wanted, self.moving, self.scorers, last=within is None)
            reserve_given(self.moving, self.choice.transaction)
        else:
            counts = self.choice.by_fill(wanted if wanted == 1 else min(wanted, int(self.choice.room.sum())))
        if within is not None:
            self.choice.room = whole - counts
        return counts

    def in_turn(self, most: int) -> Rows:
        """Place up to so many pods as if each came by itself; returns int64[m], the row of each."""
        choice = self.choice
        if not self.moving and not any(self.scorers):
            # One by itself is packed as `Profile.fill_of` scores it, so nothing else has to be asked.
            return choice.in_turn(min(most, int(choice.room.sum())))
        rows = choice.in_turn_in_sequence(most, self.moving, self.scorers)
        reserve_given(self.moving, choice.transaction)
        return rows

    def put(self, counts: Counts) -> None:
        """Place pods where they are told to go: int64[rows], on each row no more than there is room for."""
        rows = np.flatnonzero(counts)
        told: list[PreFilterState | PreScoreState] = [*self.moving, *(one for one in self.scorers if one)]
        for one in told:
            for row in np.repeat(rows, counts[rows]).tolist():
                one.add(row)
        self.choice.transaction.put(rows, counts[rows], self.choice.pod_class)
        reserve_given(self.moving, self.choice.transaction)
        self.choice.room = self.choice.room - counts
