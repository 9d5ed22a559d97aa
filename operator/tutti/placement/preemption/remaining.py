"""What is left on the nodes while units are put back or taken out one after another.

One pod changes one node: for that, a few integers are faster than columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.placement.framework import Rows
from tutti.placement.preemption.pool import Free, Wish
from tutti.placement.preemption.units import Units


@dataclass(slots=True)
class Remaining:
    """The nodes that units were put back on or taken from, and all others as they were.

    Attributes:
        wish: What is wanted of the nodes.
        free: int64[columns, rows], what was free at first.
        units: Who may be put back and taken out.
        row, held: int64[m] and int64[columns, m], where their pods are and what each takes of what is wanted.
        spare: How many more pods fit now than are wanted; below 0 where they do not fit.
    """

    wish: Wish
    free: Free
    units: Units
    row: Rows
    held: Free
    spare: int
    _left: dict[int, list[int]] = field(default_factory=dict)
    _request: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._request = self.wish.request.tolist()

    def put_back(self, unit: int) -> None:
        """Let a unit stay after all."""
        self._move(unit, -1)

    def take_out(self, unit: int) -> None:
        """Let a unit go."""
        self._move(unit, 1)

    def gain(self, unit: int) -> int:
        """Return for how many more pods there would be room without a unit."""
        before = self.spare
        self.take_out(unit)
        gain = self.spare - before
        self.put_back(unit)
        return gain

    def _move(self, unit: int, sign: int) -> None:
        begin, end = int(self.units.starts[unit]), int(self.units.starts[unit + 1])
        for row, held in zip(self.row[begin:end].tolist(), self.held[:, begin:end].T.tolist(), strict=True):
            if not self.wish.mask[row]:
                continue
            before = self._left.get(row) or self.free[:, row].tolist()
            after = [left + sign * amount for left, amount in zip(before, held, strict=True)]
            self.spare += self._room(after) - self._room(before)
            self._left[row] = after

    def _room(self, left: list[int]) -> int:
        """Return how many pods fit where so much is left."""
        fits = min((amount // request for amount, request in zip(left, self._request, strict=True)), default=0)
        return max(0, min(fits, self.wish.most))
