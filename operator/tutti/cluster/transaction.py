"""Transactions on the columns: room is taken step by step, then all of it stays or all of it goes.

Each step is logged with what undoes it, so a gang that does not fit after all leaves no trace, at a cost that
depends on the gang and not on the cluster.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.nodes import NodeColumns


class Transaction:
    """A context manager: leaving it without `commit()` rolls everything back."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._log: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self.rollback()

    def take(self, rows: NDArray[np.int64], counts: NDArray[np.int64], request: NDArray[np.int64]) -> None:
        """Take room for `counts[i]` pods on row `rows[i]`.

        Args:
            rows: int64[k], distinct rows.
            counts: int64[k], pods per row.
            request: int64[resources], what one pod takes, in scheduling units.
        """
        change = counts[:, None] * request[None, :]
        self._nodes.requested[rows, : len(request)] += change
        self._log.append((rows, change))

    def mark(self) -> int:
        """Return a point to come back to with `rollback`."""
        return len(self._log)

    def rollback(self, mark: int = 0) -> None:
        """Undo every step since the mark, last first."""
        while len(self._log) > mark:
            rows, change = self._log.pop()
            self._nodes.requested[rows, : change.shape[1]] -= change

    def commit(self) -> None:
        """Keep what was taken."""
        self._committed = True
