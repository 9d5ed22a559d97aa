"""Nominations: room and quota that are held for those whose victims are leaving.

Which of them are made, and when they end, is decided in the room of preemption (`tutti.engine.preemption.nominations`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.pods import PodKey
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge
from tutti.engine.records.reservations import ReservationKind
from tutti.engine.records.workloads import WorkloadKey
from tutti.placement.preemption.units import VictimUnits
from tutti.quota.ledger import HandedOver
from tutti.quota.tree import Usage

NominatedPods = tuple[tuple[str, PodClass, int], ...]
"""What a nomination is for: per need its group, class, and how many pods."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A node for one pod of a class; `pod` is None where it is only promised."""

    pod_class: PodClass
    node: str
    pod: PodKey | None


@dataclass(frozen=True, slots=True)
class ForeignNomination:
    """Where another scheduler wants a pod of its own to go.

    Attributes:
        priority: That of the pod.
        spot: Where, and of which class the pod is by the labels that are read.
        labels: All labels that it has.
    """

    priority: int
    spot: Spot
    labels: Mapping[str, str]


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
        moves: Whether those leave to be moved elsewhere (`engine/records/moves.py`).
        asked: Whether they have been asked to.
        hinges_on: The workloads without news of which nothing has become of it, its own among them; None where that
            is not known.
        until: When it is given up, Unix seconds.
        why: What its workload waits for.
        began: When it was begun, Unix seconds.
        overdue_at: When the first of its victims is overdue that was not when it was begun, Unix seconds; infinity
            where nobody is looked for in their place.
        anew: Whether its workload is to look for others, while the room is held that it has come to.
        in_place_of: The overdue pods in whose place its victims leave; any of them may have left since.
        departing: The claims that nobody uses any more whose devices it waits for; none where it does not.
    """

    priority: int
    spots: list[Spot]
    wants: NominatedPods
    victims: dict[PodKey, str]
    charges: list[tuple[Charge, int]]
    until: float
    why: Explanation
    kind: ClassVar = ReservationKind.NOMINATION
    leaving: Sequence[tuple[str, Usage | None]] = ()
    handed: list[HandedOver] = field(default_factory=list)
    moves: bool = False
    asked: bool = True
    hinges_on: frozenset[WorkloadKey] | None = None
    began: float = 0.0
    overdue_at: float = math.inf
    anew: bool = False
    in_place_of: Sequence[PodKey] = ()
    departing: frozenset[ClaimKey] = frozenset()

    @property
    def waits(self) -> bool:
        """Whether victims have to leave, or devices to be given back, before its workload is tried again."""
        return bool(self.victims or self.departing)

    @property
    def nodes(self) -> list[str]:
        """Where its pods are to go."""
        return [spot.node for spot in self.spots]


@dataclass(frozen=True, slots=True)
class VictimOverlap:
    """The part of nominated room that the victims it is nominated for still use themselves, node by node.

    Attributes:
        rows: int64[n], the nodes, each once.
        spots: int64[n, resources], what is nominated there.
        victims: int64[v], the slots of victims that are there still.
        where: int64[v], which of `rows` each of them is on.
        uses: int64[v, resources], what each uses.
    """

    rows: NDArray[np.int64]
    spots: NDArray[np.int64]
    victims: NDArray[np.int64]
    where: NDArray[np.intp]
    uses: NDArray[np.int64]

    def in_use(self) -> NDArray[np.int64]:
        """Return int64[n, resources]: how much of the nominated room is in use."""
        return self._used_by(slice(None))

    def released(self, gone: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return int64[n, resources]: how much less of it would be in use if some victims had gone.

        Args:
            gone: int64[k], slots; None for those of all victims.
        """
        if gone is None:
            return self.in_use()
        return self.in_use() - self._used_by(~np.isin(self.victims, gone))

    def _used_by(self, some: NDArray[np.bool_] | slice) -> NDArray[np.int64]:
        used = np.zeros_like(self.spots)
        np.add.at(used, self.where[some], self.uses[some])
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
        others: Pods of other schedulers that are nominated.
        classed: The version of the book of classes by which these are of their classes.
        nodes: Where each nominated pod of ours is to go.
        kept: Who may be taken out, by version of the columns of pods, the priorities of the preemptor, and its queue if
            that borrows; for one turn.
        covered: While somebody is tried: the part of the nominated room that is in use already, if any is.
        left: How many victims have left since the last turn.
        missed: Whether room has become free since it was looked who fits before all victims have left.
        looked_at: When that was, Unix seconds.
        needless: Those of workloads that wait no more, whose victims need not leave.
        chose_again: The workloads that wait and for which others were taken out in the place of what was overdue.
        again_at: When somebody may be taken out who may not yet, Unix seconds; None where nobody waits for that.
        touched: The workloads of which there has been news since `take_touched`; kept while somebody is nominated.
        seen: The version of the columns of nodes when it was last looked who has left.
    """

    ours: dict[WorkloadKey, Nomination] = field(default_factory=dict)
    others: dict[PodKey, ForeignNomination] = field(default_factory=dict)
    classed: int = 0
    nodes: dict[PodKey, str] = field(default_factory=dict)
    kept: dict[tuple[int, int, int, str], VictimUnits] = field(default_factory=dict)
    covered: VictimOverlap | None = None
    left: int = 0
    missed: bool = False
    looked_at: float = 0.0
    needless: list[Nomination] = field(default_factory=list)
    chose_again: dict[WorkloadKey, None] = field(default_factory=dict)
    again_at: float | None = None
    touched: set[WorkloadKey] = field(default_factory=set)
    seen: int = -1
    _touched_before: set[WorkloadKey] = field(default_factory=set)

    def take_touched(self, dirty: Iterable[WorkloadKey]) -> set[WorkloadKey]:
        """Return whom there was news of since the call before the last one, who is `dirty` now among them.

        Who was touched before the last call has been brought up to date after it.
        """
        latest = self.touched.union(dirty)
        news = latest | self._touched_before
        self.touched, self._touched_before = set(), latest
        return news

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
        return [other.spot for other in self.others.values() if other.priority >= priority]

    def look_again(self, at: float) -> None:
        """Have those who found no victims tried again at a time, Unix seconds."""
        self.again_at = at if self.again_at is None else min(at, self.again_at)
