"""The cards of nodes on columns, while pods are put there: how often each can be used, and which are the best.

Rules of a card: HAMi 2.9, pkg/device/nvidia/device.go, Fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.api.cards import ALL_CORES, CardDemand, CardWishes
from tutti.cluster.cards.columns import Amount, CardColumns, Mask

_PLENTY: Final = 1_000_000

Used = tuple[Amount, Amount, Amount]


@dataclass(slots=True)
class CardRoom:
    """The cards of some nodes, as what is free of them changes while pods are put there.

    Attributes:
        memory, cores, slots: int64[n, cards], what there is.
        used_memory, used_cores, used_slots: int64[n, cards], what is taken; changed as pods are put.
        allowed: bool[n, cards], which cards the pods may have.
        numa: int64[n, cards].
    """

    memory: Amount
    cores: Amount
    slots: Amount
    used_memory: Amount
    used_cores: Amount
    used_slots: Amount
    allowed: Mask
    numa: Amount

    @classmethod
    def at(cls, columns: CardColumns, wishes: CardWishes, rows: slice | NDArray[np.int64]) -> CardRoom:
        """Return the cards of some rows; what is taken is copied."""
        allowed = columns.allowed(wishes)
        return cls(
            columns.memory[rows], columns.cores[rows], columns.slots[rows],
            columns.used_memory[rows].copy(), columns.used_cores[rows].copy(), columns.used_slots[rows].copy(),
            allowed[rows], columns.numa[rows],
        )  # fmt: skip

    def some(self, at: NDArray[np.int64]) -> CardRoom:
        """Return the cards of some of these nodes; what is taken is copied."""
        return CardRoom(
            self.memory[at], self.cores[at], self.slots[at],
            self.used_memory[at], self.used_cores[at], self.used_slots[at],
            self.allowed[at], self.numa[at],
        )  # fmt: skip

    @property
    def used(self) -> Used:
        """What is taken, copied: memory, cores and slots."""
        return self.used_memory.copy(), self.used_cores.copy(), self.used_slots.copy()

    def restore(self, used: Used) -> None:
        """Have so much be taken."""
        self.used_memory, self.used_cores, self.used_slots = (one.copy() for one in used)

    def worth(self, wishes: CardWishes) -> list[Amount]:
        """Return by what cards are put in order, each int64[n, cards], the most important last: lowest values first.

        Those of which least is left, or most where pods are to be spread.
        """
        left, cores, slots = self.memory - self.used_memory, self.cores - self.used_cores, self.slots - self.used_slots
        number = np.broadcast_to(np.arange(left.shape[1]), left.shape)
        ordering = next((one for one in wishes.policies if one in ("binpack", "spread", "numa")), "binpack")
        if ordering == "spread":
            return [number, -slots, -cores, -left]
        return [number, slots, cores, left, *([self.numa] if ordering == "numa" else ())]

    def states(self) -> Amount:
        """Return int64[n, 8 * cards]: all of that; nodes whose rows are equal take the same pods."""
        return np.concatenate(
            (
                self.memory, self.cores, self.slots, self.used_memory, self.used_cores, self.used_slots,
                self.allowed.astype(np.int64), self.numa,
            ),
            axis=1,
        )  # fmt: skip

    def asked(self, demand: CardDemand) -> Amount:
        """Return int64[n, cards]: MiB that a container would have of each card."""
        return self.memory * demand.percent // 100 if not demand.memory else np.full_like(self.memory, demand.memory)

    def times(self, demand: CardDemand, wishes: CardWishes) -> Amount:
        """Return int64[n, cards]: how many more containers each card takes."""
        asked = self.asked(demand)
        fits = np.maximum(self.slots - self.used_slots, 0)
        left = np.maximum(self.memory - self.used_memory, 0)
        np.minimum(fits, np.where(asked > 0, left // np.maximum(asked, 1), _PLENTY), out=fits)
        free = np.maximum(self.cores - self.used_cores, 0)
        if demand.cores:
            np.minimum(fits, free // demand.cores, out=fits)
        else:
            fits[(self.cores > 0) & (free == 0)] = 0
        if demand.cores == ALL_CORES:
            fits[(self.cores == ALL_CORES) & (self.used_slots > 0)] = 0
        if "mutex" in wishes.policies:
            fits = np.where(self.used_slots > 0, 0, np.minimum(fits, 1))
        return np.where(self.allowed, fits, 0)

    def pods(self, demand: CardDemand, wishes: CardWishes) -> Amount:
        """Return int64[n]: how many more pods fit of which one container asks for that, and no other for any."""
        fits = self.times(demand, wishes)
        if demand.count == 1:
            return np.asarray(fits.sum(axis=1), dtype=np.int64)
        if not wishes.one_numa_node:
            return most_groups(fits, demand.count)
        total = np.zeros(len(fits), dtype=np.int64)
        for number in np.unique(self.numa[self.allowed]).tolist():
            total += most_groups(np.where(self.numa == number, fits, 0), demand.count)
        return total


def most_groups(times: Amount, size: int) -> Amount:
    """Return int64[n]: how many groups of so many different cards can be made of cards that can be used so many times.

    Args:
        times: int64[n, cards].
        size: How many cards a group has.
    """
    low = np.zeros(len(times), dtype=np.int64)
    high = times.sum(axis=1) // size
    while (low < high).any():
        middle = (low + high + 1) // 2
        enough = np.minimum(times, middle[:, None]).sum(axis=1) >= middle * size
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    return low


def larger(one: Used, other: Used) -> Used:
    """Return of each the larger."""
    memory, cores, slots = (np.maximum(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    return memory, cores, slots
