"""What is kept from others, for whom: room of nodes, quota, or a turn.

Every reservation that outlives a turn says its kind, on which nodes it keeps room and until when (`Reserved`). What
lives within one try is kept by a transaction (`tutti.cluster.transaction`) or by the ledger (`UsageLedger.withheld`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge
from tutti.engine.records.queue_entries import QueueKey
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.engine.records.timers import ExpectedReleases
from tutti.engine.records.workloads import WorkloadKey
from tutti.placement.preemption.units import VictimUnits
from tutti.quota.ledger import HandedOver
from tutti.quota.ordering import EntryKey
from tutti.quota.throttles import Load
from tutti.quota.tree import FlavorResource, Usage


class ReservationKind(StrEnum):
    """For whom something is kept from others."""

    NOMINATION = "nomination"
    """A workload whose victims are leaving: room and quota."""
    BACKFILL = "backfill"
    """The head of a queue, from when on it can have it: room and quota."""
    HOLDBACK = "holdback"
    """The head of a queue that waits for quota of its own: quota, from borrowers."""
    SUCCESSORS = "successors"
    """A gang that has lost members: room and quota, for those that come in their place."""
    MEMBERS = "members"
    """A gang some of whose members are yet to be made: room and quota, for these."""
    MOVE = "move"
    """What is moved so that another fits: room and quota, for the successors."""


class Reserved(Protocol):
    """What all kinds of reservations have in common."""

    kind: ClassVar[ReservationKind]

    @property
    def until(self) -> float:
        """When it is given up at the latest, Unix seconds; infinity where only something else ends it."""

    @property
    def nodes(self) -> Collection[str]:
        """The nodes on which room is kept, each at least once."""


def has_its_nodes(reservation: Reserved, known: Container[str]) -> bool:
    """Whether all nodes are there on which something is kept."""
    return all(name in known for name in reservation.nodes)


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


@dataclass(slots=True)
class BackfillReservation:
    """What is kept for the head of one ClusterQueue.

    Attributes:
        workload: Whose it is.
        queue: Its ClusterQueue.
        shape: What decided where it fits; one that wants something else is another.
        key: Its place in its line, among those of its LocalQueue where past use counts.
        local_queue: That LocalQueue (`namespace/name`); "" where past use does not count.
        priority: What its priority counts among all queues.
        number: Of two of equal priority, the one with the lower number goes before.
        starts_at: When it fits at the latest, if what runs ends when its time is over, Unix seconds; None where nobody
            knows.
        promised: The earliest of these that it was ever told; infinity where nobody knows.
        until: When nothing is kept for it any more, Unix seconds; infinity where it is known when it starts.
        nodes: Where its required pods go then.
        wanted: int64[nodes, resources], what they take there, in scheduling units.
        usage: What they use of the queue's quota.
        throttled: What they are to the throttles that are about them.
        seen: The version of the node columns when it was worked out.
        why: What its workload is told.
        owed: Whether it is kept because its turn would never come by the order of shares.
        news: Whether that has not been told yet.
    """

    workload: WorkloadKey
    queue: str
    shape: tuple[object, ...]
    key: QueueKey
    local_queue: str
    priority: int
    number: int
    starts_at: float | None
    promised: float
    until: float
    nodes: tuple[str, ...]
    wanted: NDArray[np.int64]
    usage: Usage
    seen: tuple[int, int]
    why: Explanation
    kind: ClassVar = ReservationKind.BACKFILL
    throttled: Mapping[ThrottleKey, Load] = field(default_factory=dict)
    owed: bool = False
    news: bool = True

    def keeps_as(self, other: BackfillReservation) -> bool:
        """Whether it keeps the same as another, so that nobody else gains by the change."""
        mine = (self.starts_at, self.promised, self.nodes, self.usage, self.throttled)
        theirs = (other.starts_at, other.promised, other.nodes, other.usage, other.throttled)
        return mine == theirs and bool(np.array_equal(self.wanted, other.wanted))


@dataclass(slots=True)
class BackfillReservations:
    """Everything that is kept.

    Attributes:
        of: By ClusterQueue.
        releases: When what a workload has is free again at the latest, for those of which it is known.
        pauses: Heads for which was kept in vain: how often, and until when nothing is kept again (0: it may be).
        last: The last number that was given.
    """

    of: dict[str, BackfillReservation] = field(default_factory=dict)
    releases: ExpectedReleases = field(default_factory=ExpectedReleases)
    pauses: dict[WorkloadKey, tuple[int, float]] = field(default_factory=dict)
    last: int = 0

    def is_for(self, queue: str, workload: WorkloadKey) -> bool:
        """Whether a ClusterQueue keeps something for a workload."""
        mine = self.of.get(queue)
        return mine is not None and mine.workload == workload

    def pausing(self, workload: WorkloadKey) -> bool:
        """Whether nothing is kept for a workload for a while."""
        return self.pauses.get(workload, (0, 0.0))[1] > 0

    def next_due(self) -> float | None:
        """Return when something is kept no more, or may be again, Unix seconds; None: not at all."""
        times = [one.until for one in self.of.values() if one.until < math.inf]
        times += [end for _, end in self.pauses.values() if end > 0]
        return min(times, default=None)


PlaceInQueue = tuple[object, ...]
"""What sorts those of one line, the next one first."""


@dataclass(slots=True)
class QuotaHoldback:
    """The head of a queue that waits for quota, and can take nobody out for it.

    Attributes:
        workload: Who it is.
        queue: Its ClusterQueue.
        usage: What it would use of that.
        borrows: Whether its queue would have to borrow for it.
        key: Its place among the heads of all queues.
        place: Its place in its own line.
        strict: Whether that line waits for it.
        turn: The turn in which it was last tried.
    """

    workload: WorkloadKey
    queue: str
    usage: Mapping[FlavorResource, int]
    borrows: bool
    key: EntryKey
    place: PlaceInQueue
    strict: bool
    turn: int
    kind: ClassVar = ReservationKind.HOLDBACK
    until: ClassVar = math.inf
    nodes: ClassVar = ()


@dataclass(slots=True)
class QuotaHoldbacks:
    """All of them.

    Attributes:
        of: By ClusterQueue; one for each.
        refused: Who may not borrow because of them, by the ClusterQueue of each, and is parked.
        activated: Those of them that are to be tried again.
        turn: The number of this turn.
    """

    of: dict[str, QuotaHoldback] = field(default_factory=dict)
    refused: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    activated: dict[WorkloadKey, None] = field(default_factory=dict)
    turn: int = 0

    def note_refused(self, workload: WorkloadKey, queues: Iterable[str]) -> None:
        """Note who may not borrow because of those of some ClusterQueues."""
        for queue in queues:
            self.refused.setdefault(queue, {})[workload] = None

    def activate(self, queue: str) -> None:
        """Have those tried again who were refused because of that of a ClusterQueue, which has ended.

        Not who was refused because of others alone: his own ends with each of his tries, and would wake him for ever.
        """
        self.activated.update(self.refused.pop(queue, {}))

    def clear(self) -> None:
        """Forget all of them: everybody is to be tried again."""
        self.of, self.refused, self.activated = {}, {}, {}

    def take_activated(self) -> list[WorkloadKey]:
        """Return who is to be tried again since the last call."""
        activated, self.activated = self.activated, {}
        return list(activated)


@dataclass(slots=True)
class KeptForSuccessors:
    """What is kept for the successors of the members that one gang has lost.

    Attributes:
        priority: The least of its members' priorities; whoever is above it may have the room.
        charges: The quota that is used for it, and for how many pods each.
        spots: The room: node and amounts, in scheduling units.
    """

    priority: int
    charges: list[tuple[Charge, int]] = field(default_factory=list)
    spots: list[tuple[str, Amounts]] = field(default_factory=list)
    kind: ClassVar = ReservationKind.SUCCESSORS
    until: ClassVar = math.inf

    @property
    def nodes(self) -> list[str]:
        """Where there is room kept."""
        return [node for node, _ in self.spots]


@dataclass(frozen=True, slots=True)
class KeptForMembers:
    """What one gang keeps for members that are yet to be made (`MemberGroup.holds`).

    Attributes:
        until: When it gives them up, Unix seconds; infinity where only something else ends it.
        nodes: Where there is room kept, a node for each of them.
    """

    until: float
    nodes: list[str]
    kind: ClassVar = ReservationKind.MEMBERS
