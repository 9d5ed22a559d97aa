"""The records of nominated room: whose it is, and where."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.engine.explanation import Explanation
from tutti.engine.workloads import Charge, WorkloadKey
from tutti.placement.preemption.units import Units

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


@dataclass(slots=True)
class Nominations:
    """All nominations.

    Attributes:
        ours: Those of our workloads.
        others: Pods of other schedulers that are nominated: their priority and spot.
        nodes: Where each nominated pod of ours is to go.
        kept: Who may be taken out, by version of the columns of pods and the priorities of the preemptor; for one turn.
        again_at: When somebody may be taken out who may not yet, Unix seconds; None where nobody waits for that.
    """

    ours: dict[WorkloadKey, Nomination] = field(default_factory=dict)
    others: dict[PodKey, tuple[int, Spot]] = field(default_factory=dict)
    nodes: dict[PodKey, str] = field(default_factory=dict)
    kept: dict[tuple[int, int, int], Units] = field(default_factory=dict)
    again_at: float | None = None

    def against(self, key: WorkloadKey, priority: int, lesser: Collection[WorkloadKey] = ()) -> list[Spot]:
        """Return the spots that a workload whose pods have this priority may not take; those of `lesser` it may."""
        mine = (key, *lesser)
        found = [one.spots for other, one in self.ours.items() if other not in mine and one.priority >= priority]
        return [
            *(spot for spots in found for spot in spots),
            *(spot for other, spot in self.others.values() if other >= priority),
        ]

    def look_again(self, at: float) -> None:
        """Have those who found no victims tried again at a time, Unix seconds."""
        self.again_at = at if self.again_at is None else min(at, self.again_at)
