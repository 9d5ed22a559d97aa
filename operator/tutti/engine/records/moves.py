"""Running pods that are moved so that a workload fits, and the places that are kept for their successors.

A plan is made for one workload: who is moved, and where the successors go, which whoever made the pods makes. It is
written into the status of the workload's ClusterQueue before anybody is asked to leave, so that a successor of this
process goes on with it. What has been moved is remembered there for an hour, and not moved again before.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tutti.api.conditions import timestamp
from tutti.api.kinds.consolidation import MOST_MOVES
from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.engine.records.members import Charge
from tutti.engine.records.reservations import ReservationKind
from tutti.engine.records.workloads import WorkloadKey

AGAIN_SECONDS = 3600.0
"""So long what was moved is not moved again."""

Home = tuple[str, str, str]
"""What successors come to: a gang (kind, namespace, name); ("Owner", namespace, uid) of what makes pods that are placed
by themselves; or ("Pod", namespace, name) of one that nothing makes."""


class MoveStage(enum.Enum):
    """How far a plan has come.

    WRITING: it is being written, and nobody has been asked to leave. MAKING: those have who are moved.
    """

    WRITING = "writing"
    MAKING = "making"


@dataclass(slots=True)
class KeptPlace:
    """The room of one successor.

    Attributes:
        pod: The pod in whose place it comes, and its uid.
        node: Where it goes.
        amounts: What it takes there, in scheduling units.
        pod_class: Its class; None where a status tells of it and the pod has gone.
        charge: What it uses of quota; None without a queue.
        charged: Whether that is in use for it, since the pod has ended.
    """

    pod: PodKey
    uid: str
    node: str
    amounts: Amounts
    pod_class: PodClass | None = None
    charge: Charge | None = None
    charged: bool = False


@dataclass(slots=True)
class MovedPiece:
    """What is moved together.

    Attributes:
        priority: The least of its pods'; whoever is above it may have its room.
        places: Those that no successor has taken yet.
        until: When they are given up, Unix seconds.
    """

    home: Home
    priority: int
    places: list[KeptPlace]
    until: float
    kind: ClassVar = ReservationKind.MOVE

    @property
    def nodes(self) -> list[str]:
        """Where there is room kept."""
        return [place.node for place in self.places]


@dataclass(slots=True)
class MovePlan:
    """What is moved for one workload.

    Attributes:
        queue: The ClusterQueue by whose leave, and in whose status it stands.
        key: The workload.
        at: When it was decided, Unix seconds.
        until: When those are given up who have not left, Unix seconds.
        pieces: Those that have places still.
    """

    queue: str
    key: WorkloadKey
    at: float
    until: float
    pieces: list[MovedPiece]
    stage: MoveStage = MoveStage.WRITING

    def places(self) -> Iterator[KeptPlace]:
        """Yield all that is kept."""
        for piece in self.pieces:
            yield from piece.places


@dataclass(frozen=True, slots=True)
class PastMove:
    """What was moved: for whom, and when, Unix seconds."""

    home: Home
    at: float
    key: WorkloadKey
    priority: int


@dataclass(slots=True)
class Moves:
    """All of them.

    Attributes:
        plans: By ClusterQueue; one for each at a time.
        past: What has been moved lately, by ClusterQueue.
        heard: What the status of each ClusterQueue says, as it was last seen.
        changed: The ClusterQueues whose status has to say something else.
        searched: When moves were last looked for, Unix seconds, for whom, and how things were then.
        turn: When they were last looked for at all, Unix seconds.
        searches: For how many workloads of each queue at that moment.
        share: For how many of one queue they may be.
    """

    plans: dict[str, MovePlan] = field(default_factory=dict)
    past: dict[str, list[PastMove]] = field(default_factory=dict)
    heard: dict[str, object] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    searched: dict[WorkloadKey, tuple[float, tuple[int, ...]]] = field(default_factory=dict)
    turn: float = 0.0
    searches: Counter[str] = field(default_factory=Counter)
    share: int = 0

    def pieces(self) -> Iterator[MovedPiece]:
        """Yield all that is being moved."""
        for plan in self.plans.values():
            yield from plan.pieces

    def coming_to(self, home: Home) -> list[tuple[MovePlan, MovedPiece]]:
        """Return what is being moved of one home."""
        return [(plan, piece) for plan in self.plans.values() for piece in plan.pieces if piece.home == home]

    def concerns(self, key: WorkloadKey) -> bool:
        """Whether a workload, or a pod that is one by itself, is being moved, or is to be."""
        return any(
            piece.home == key or any(("Pod", *place.pod) == key for place in piece.places) for piece in self.pieces()
        )

    def charges(self) -> Iterator[Charge]:
        """Yield the quota that is in use for successors to come."""
        for piece in self.pieces():
            for place in piece.places:
                if place.charged and place.charge is not None:
                    yield place.charge

    def dues(self) -> Iterator[float]:
        """Yield when something is given up, Unix seconds."""
        for plan in self.plans.values():
            yield plan.until
            for piece in plan.pieces:
                yield piece.until

    def lately(self, home: Home, now: float) -> float | None:
        """Return when something of a home was last moved, Unix seconds; None where that is longer ago, or never was."""
        times = [plan.at for plan in self.plans.values() if any(piece.home == home for piece in plan.pieces)]
        times += [one.at for some in self.past.values() for one in some if one.home == home]
        return max((at for at in times if at + AGAIN_SECONDS > now), default=None)

    def room_for(self, queue: str, pieces: int, now: float) -> bool:
        """Whether so many pieces more can be remembered in the status of a ClusterQueue."""
        self.past[queue] = [one for one in self.past.get(queue, ()) if one.at + AGAIN_SECONDS > now]
        return len(self.past[queue]) + pieces <= MOST_MOVES

    def finish(self, plan: MovePlan, pieces: Iterable[MovedPiece]) -> None:
        """Remember pieces of a plan as moved; nothing is kept for them any more."""
        for piece in list(pieces):
            plan.pieces.remove(piece)
            self.past.setdefault(plan.queue, []).append(PastMove(piece.home, plan.at, plan.key, piece.priority))
        self.changed[plan.queue] = None

    def drop(self, plan: MovePlan, pieces: Iterable[MovedPiece]) -> None:
        """Forget pieces of a plan that have not been moved after all."""
        for piece in list(pieces):
            plan.pieces.remove(piece)
        self.changed[plan.queue] = None

    def is_written(self, plan: MovePlan) -> bool:
        """Whether the status of its ClusterQueue has been seen to tell of a plan."""
        said = self.heard.get(plan.queue)
        if not isinstance(said, Sequence) or isinstance(said, str):
            return False
        at, key = timestamp(plan.at), "/".join(plan.key)
        told = [one for one in said if isinstance(one, Mapping) and one.get("at") == at and one.get("movedFor") == key]
        return len([one for one in told if one.get("pods")]) >= len(plan.pieces)


def told_moves(status: object) -> Any:
    """Return what a status that was seen says of moves; None where it says nothing."""
    return status.get("moves") if isinstance(status, Mapping) else None
