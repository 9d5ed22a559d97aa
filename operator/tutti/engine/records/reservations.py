"""What is kept from others, for whom: room of nodes, quota, or a turn.

Every reservation that outlives a turn says its kind, on which nodes it keeps room and until when (`Reserved`). What
lives within one try is kept by a transaction (`tutti.cluster.transaction`) or by the ledger (`UsageLedger.withheld`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import Amounts
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge
from tutti.engine.records.queue_entries import QueueKey
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.engine.records.timers import ExpectedReleases
from tutti.engine.records.workloads import WorkloadKey
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
        since: Since when something is kept for it, Unix seconds.
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
    since: float
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


class ChargesBySlot(NamedTuple):
    """What pods use of quota, by their slots.

    Attributes:
        stamp: What grows when a pod is somewhere else, and when more or less is used of any queue.
        code: int64[slots], the index of what each pod uses, -1 where it uses nothing.
        charges: What they use of which queue, each once.
    """

    stamp: tuple[int, int]
    code: NDArray[np.int64]
    charges: list[tuple[str, Usage]]


@dataclass(slots=True)
class BackfillReservations:
    """Everything that is kept.

    Attributes:
        of: By ClusterQueue.
        releases: When what a workload has is free again at the latest, for those of which it is known.
        pauses: Heads for which was kept in vain: how often, and until when nothing is kept again (0: it may be).
        given_up: Who had something kept for it until now, and has not been tried since.
        last: The last number that was given.
        restored: Whether what an earlier process has kept is kept again.
        charges_by_slot: What pods use of quota, as it was read off them last.
    """

    of: dict[str, BackfillReservation] = field(default_factory=dict)
    releases: ExpectedReleases = field(default_factory=ExpectedReleases)
    pauses: dict[WorkloadKey, tuple[int, float]] = field(default_factory=dict)
    given_up: dict[WorkloadKey, None] = field(default_factory=dict)
    last: int = 0
    restored: bool = False
    charges_by_slot: ChargesBySlot | None = None

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
        left: What others have left for whoever is tried now: it was kept for him, and is held back for nobody else.
    """

    of: dict[str, QuotaHoldback] = field(default_factory=dict)
    refused: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    activated: dict[WorkloadKey, None] = field(default_factory=dict)
    turn: int = 0
    left: Usage = field(default_factory=dict)

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
