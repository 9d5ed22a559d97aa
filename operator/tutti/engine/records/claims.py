"""The records of nominated room: whose it is, and where."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge
from tutti.engine.records.workloads import WorkloadKey
from tutti.placement.preemption.units import VictimUnits
from tutti.quota.ledger import HandedOver
from tutti.quota.tree import Usage

Wants = tuple[tuple[str, PodClass, int], ...]
"""What a nomination is for: per need its group, class, and how many pods."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A node for one pod of a class; `pod` is None where it is only promised."""

    klass: PodClass
    node: str
    pod: PodKey | None


@dataclass(slots=True)
class Nomination:
    """Room held for one workload.

    Attributes:
        priority: By which its pods preempt.
        spots: Where they are to go.
        wants: What it wanted then; one that wants something else is another.
        victims: Those that have not left yet, with their uids.
        charges: The quota that is used for it, and for how many pods each.
        leaving: The holders, by name, whose quota it is; and how much of it at the most, where not all of it leaves.
        handed: What they use of it still, which does not count twice.
        until: When it is given up, Unix seconds.
        why: What its workload waits for.
    """

    priority: int
    spots: list[Spot]
    wants: Wants
    victims: dict[PodKey, str]
    charges: list[tuple[Charge, int]]
    until: float
    why: Explanation
    leaving: Sequence[tuple[str, Usage | None]] = ()
    handed: list[HandedOver] = field(default_factory=list)


@dataclass(slots=True)
class Covered:
    """The part of a node's nominated room that the victims it is nominated for still use themselves.

    Attributes:
        spots: int64[resources], what is nominated there.
        victims: By slot of a victim that is there still: int64[resources], what it uses.
    """

    spots: NDArray[np.int64]
    victims: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def without(self, gone: Collection[int]) -> NDArray[np.int64]:
        """Return int64[resources]: how much of the nominated room is in use, if some victims had gone."""
        used = sum((one for slot, one in self.victims.items() if slot not in gone), np.zeros_like(self.spots))
        return np.minimum(self.spots, used)


@dataclass(frozen=True, slots=True)
class Precedence:
    """How a workload stands to those for whom quota and room are held.

    Attributes:
        lesser: Those whose it may have: it goes before them by the order of queues.
        entitled: Those whose it may not have, whatever the priority of its pods: they could take it out for that.
    """

    lesser: list[WorkloadKey] = field(default_factory=list)
    entitled: list[WorkloadKey] = field(default_factory=list)


@dataclass(slots=True)
class Nominations:
    """All nominations.

    Attributes:
        ours: Those of our workloads.
        others: Pods of other schedulers that are nominated: their priority and spot.
        nodes: Where each nominated pod of ours is to go.
        kept: Who may be taken out, by version of the columns of pods, the priorities of the preemptor, and its queue if
            that borrows; for one turn.
        covered: While somebody is tried: the part of the nominated room that is in use already, by row.
        left: How many victims have left since the last turn.
        missed: Whether room has become free since it was looked who fits before all victims have left.
        looked_at: When that was, Unix seconds.
        needless: Those of workloads that wait no more, whose victims need not leave.
        again_at: When somebody may be taken out who may not yet, Unix seconds; None where nobody waits for that.
    """

    ours: dict[WorkloadKey, Nomination] = field(default_factory=dict)
    others: dict[PodKey, tuple[int, Spot]] = field(default_factory=dict)
    nodes: dict[PodKey, str] = field(default_factory=dict)
    kept: dict[tuple[int, int, int, str], VictimUnits] = field(default_factory=dict)
    covered: dict[int, Covered] = field(default_factory=dict)
    left: int = 0
    missed: bool = False
    looked_at: float = 0.0
    needless: list[Nomination] = field(default_factory=list)
    again_at: float | None = None

    def against(self, key: WorkloadKey, priority: int, precedence: Precedence) -> list[Nomination]:
        """Return those whose room a workload whose pods have this priority may not take."""
        lesser, entitled = {key, *precedence.lesser}, set(precedence.entitled)
        return [
            one
            for other, one in self.ours.items()
            if other in entitled or (one.priority >= priority and other not in lesser)
        ]

    def foreign(self, priority: int) -> list[Spot]:
        """Return the spots of pods of other schedulers that pods of this priority may not take."""
        return [spot for other, spot in self.others.values() if other >= priority]

    def look_again(self, at: float) -> None:
        """Have those who found no victims tried again at a time, Unix seconds."""
        self.again_at = at if self.again_at is None else min(at, self.again_at)
