"""What nodes show to claims on devices, and what claims find on them, a column for each.

A row is a node's row of the node table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.devices.offers import Verdict
from tutti.cluster.devices.programs import DeviceProgram
from tutti.cluster.devices.zones import ZonesAhead

Mask = NDArray[np.bool_]


class NodeView(NamedTuple):
    """The columns of nodes that devices are matched with.

    Attributes:
        names: The node of each row, "" where there is none.
        version: Is another whenever names or labels are.
        unoffered: For extended resources that devices can stand in for, bool[rows]: which nodes do not offer them.
        offered: Is another whenever that may be.
        zones: To which NUMA zones the next pods go that ask, where devices are to be near their cores.
    """

    names: Sequence[str]
    labels: Sequence[Mapping[str, str]]
    version: int
    unoffered: Mapping[str, Mask]
    offered: int = 0
    zones: ZonesAhead | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceColumns:
    """What the claims of a class that have no devices find on each row; to be looked at before anything is taken.

    Attributes:
        count: How many rows.
        programs: The programs that were asked, and where: bool[rows], on each row one at most. Elsewhere nothing is
            asked for.
        sole: The program that is asked on all rows, if one is.
    """

    count: int
    programs: Sequence[tuple[DeviceProgram, Mask]]
    sole: DeviceProgram | None

    @property
    def fits(self) -> Mask:
        """bool[rows]: where they can be fulfilled."""
        if self.sole is not None:
            return self.sole.fits(self.count)
        out = np.ones(self.count, dtype=np.bool_)
        for program, where in self.programs:
            np.copyto(out, program.fits(self.count), where=where)
        return out

    @property
    def rank(self) -> NDArray[np.int64]:
        """int64[rows]: what the chosen ways count in the score."""
        return self._scores(DeviceProgram.ranks)

    @property
    def tightness(self) -> NDArray[np.int64]:
        """int64[rows]: how tight the chosen devices fit, 0 to 100."""
        return self._scores(DeviceProgram.tightness)

    @property
    def is_faulty(self) -> bool:
        """Whether of any row it cannot be told."""
        return any(one.has_faults and bool((one.faulty(self.count) & where).any()) for one, where in self.programs)

    def _scores(self, of: Callable[[DeviceProgram, int], NDArray[np.int64]]) -> NDArray[np.int64]:
        if self.sole is not None:
            return of(self.sole, self.count)
        out = np.zeros(self.count, dtype=np.int64)
        for program, where in self.programs:
            np.copyto(out, of(program, self.count), where=where)
        return out

    def verdict(self, row: int) -> Verdict | None:
        """Return what was found on a row; None where nothing is asked for."""
        return next((program.at(row) for program, where in self.programs if where[row]), None)
