"""Who may be taken out by priority, as found in a turn, so that many preemptors of one turn do not each look anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.placed_pods import Slots
from tutti.placement.preemption.units import GangUnit


@dataclass(frozen=True, slots=True)
class Candidates:
    """Who may be taken out, whether asked to leave already or not.

    Attributes:
        singles: bool[slots], the pods that leave by themselves.
        gangs: Those that leave together, and those whose leaving hurts nobody.
    """

    singles: NDArray[np.bool_]
    gangs: Sequence[GangUnit]


@dataclass(slots=True)
class KnownCandidates:
    """What was found in this turn.

    Attributes:
        of: By version of the columns of pods, the priorities of the preemptor, and its queue if that borrows.
        asked: Who has been asked to leave, as of a version of the columns of pods; None where that is not known.
    """

    of: dict[tuple[int, int, int, str], Candidates] = field(default_factory=dict)
    asked: tuple[int, Slots] | None = None

    def forget(self) -> None:
        """Look anew."""
        self.of, self.asked = {}, None
