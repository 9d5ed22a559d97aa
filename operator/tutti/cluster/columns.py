"""Columns of numbers: which resource stands in which column of a matrix, and how arrays get more room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

MOST_AMOUNT = 2**52
"""The most of a resource that columns tell apart, in scheduling units: 4 PiB.

Quantities reach to 2**63 - 1. What thousands of pods hold of a node, whoever has put them there, must add up without
wrapping around to less than nothing: a node offers no more than this, and whoever asks for more than this fits nowhere.
"""

FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
UNKNOWN_RESOURCE = len(FIRST_RESOURCES)
"""The column of everything that no node has ever offered: it counts how many such resources are asked for.

Tenants make up as many names as they like, and whoever asks for one fits nowhere, whichever it is.
"""


class ResourceIndex:
    """Maps the names of resources that nodes offer to columns; all other names share one, which nodes have nothing of.

    A column stays when no node offers its resource any more: names of nodes are few.
    """

    def __init__(self) -> None:
        self._column = {name: i for i, name in enumerate((*FIRST_RESOURCES, ""))}

    def __len__(self) -> int:
        return len(self._column)

    def __contains__(self, name: str) -> bool:
        return name in self._column

    def add(self, name: str) -> int:
        """Return the column of a resource that a node offers, making one if needed."""
        return self._column.setdefault(name, len(self._column))

    def column(self, name: str) -> int:
        """Return the column of a resource; `NOWHERE` where no node has ever offered it."""
        return self._column.get(name, UNKNOWN_RESOURCE)

    def columns(self, names: Iterable[str]) -> list[int]:
        """Return the columns of several resources, each once."""
        return list(dict.fromkeys(map(self.column, names)))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in column order; "" stands for those that no node offers."""
        return tuple(self._column)

    def vector(self, amounts: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the amounts as int64[resources], in scheduling units, bounded; of unknown names, how many."""
        out = np.zeros(len(self._column), dtype=np.int64)
        for name, amount in amounts.items():
            column = self._column.get(name)
            if column is None:
                out[UNKNOWN_RESOURCE] += amount > 0
            else:
                out[column] = bounded(amount)
        return out


def bounded(amount: int) -> int:
    """Return an amount as columns hold it: one more than MOST stands for all that is more."""
    return max(-MOST_AMOUNT - 1, min(amount, MOST_AMOUNT + 1))


S = TypeVar("S", bound=np.generic)


def longer(array: NDArray[S], rows: int, *, fill: int = 0) -> NDArray[S]:
    """Return array[n, ...] with more rows, each column still in one piece of memory: array[rows, ...]."""
    out = np.full((rows, *array.shape[1:]), fill, dtype=array.dtype, order="F")
    out[: len(array)] = array
    return out


def wider(array: NDArray[S], columns: int) -> NDArray[S]:
    """Return array[rows, n] with at least so many columns, or twice as many as it has: the new ones hold 0."""
    out = np.zeros((len(array), max(columns, 2 * array.shape[1])), dtype=array.dtype, order="F")
    out[:, : array.shape[1]] = array
    return out
