"""The columns of the resource matrices: which resource stands where."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

MOST = 2**52
"""The most of a resource that columns tell apart, in scheduling units: 4 PiB.

Quantities reach to 2**63 - 1. What thousands of pods hold of a node, whoever has put them there, must add up without
wrapping around to less than nothing: a node offers no more than this, and whoever asks for more than this fits nowhere.
"""

FIRST = ("cpu", "memory", "ephemeral-storage", "pods")


class ResourceAxis:
    """Maps resource names to columns; a name seen for the first time gets the next column."""

    def __init__(self) -> None:
        self._column = {name: i for i, name in enumerate(FIRST)}

    def __len__(self) -> int:
        return len(self._column)

    def column(self, name: str) -> int:
        """Return the column of a resource, making one if needed."""
        return self._column.setdefault(name, len(self._column))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in column order."""
        return tuple(self._column)

    def vector(self, amounts: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the amounts as int64[resources], in scheduling units, bounded; unknown names get columns."""
        columns = [self.column(name) for name in amounts]
        out = np.zeros(len(self._column), dtype=np.int64)
        for column, amount in zip(columns, amounts.values(), strict=True):
            out[column] = bounded(amount)
        return out


def bounded(amount: int) -> int:
    """Return an amount as columns hold it: one more than MOST stands for all that is more."""
    return max(-MOST - 1, min(amount, MOST + 1))
