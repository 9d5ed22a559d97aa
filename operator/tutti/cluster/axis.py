"""The columns of the resource matrices: which resource stands where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

MOST = 2**52
"""The most of a resource that columns tell apart, in scheduling units: 4 PiB.

Quantities reach to 2**63 - 1. What thousands of pods hold of a node, whoever has put them there, must add up without
wrapping around to less than nothing: a node offers no more than this, and whoever asks for more than this fits nowhere.
"""

FIRST = ("cpu", "memory", "ephemeral-storage", "pods")
NOWHERE = len(FIRST)
"""The column of everything that no node has ever offered: it counts how many such resources are asked for.

Tenants make up as many names as they like, and whoever asks for one fits nowhere, whichever it is.
"""


class ResourceAxis:
    """Maps the names of resources that nodes offer to columns; all other names share one, which nodes have nothing of.

    A column stays when no node offers its resource any more: names of nodes are few.
    """

    def __init__(self) -> None:
        self._column = {name: i for i, name in enumerate((*FIRST, ""))}

    def __len__(self) -> int:
        return len(self._column)

    def __contains__(self, name: str) -> bool:
        return name in self._column

    def add(self, name: str) -> int:
        """Return the column of a resource that a node offers, making one if needed."""
        return self._column.setdefault(name, len(self._column))

    def column(self, name: str) -> int:
        """Return the column of a resource; `NOWHERE` where no node has ever offered it."""
        return self._column.get(name, NOWHERE)

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
                out[NOWHERE] += amount > 0
            else:
                out[column] = bounded(amount)
        return out


def bounded(amount: int) -> int:
    """Return an amount as columns hold it: one more than MOST stands for all that is more."""
    return max(-MOST - 1, min(amount, MOST + 1))
