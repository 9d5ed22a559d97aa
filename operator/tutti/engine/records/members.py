"""The records the engine keeps of pods: a member, the group it belongs to, and what both use of quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tutti.api.conventions import GangMembership
from tutti.api.core import OwnerReference
from tutti.api.kinds.pod_group import OnMemberLoss
from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.muster import Muster
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.records.near import Near
from tutti.quota.flavors import Assignment
from tutti.quota.tree import Usage

Told = tuple[str, str, float]
"""A reason and a message as last written, and when, Unix seconds."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one member uses of a ClusterQueue's quota.

    Attributes:
        flavors: In which it is counted.
        holder: The workload it is for.
        admitted: In which it was admitted, where it is counted in others by now.
    """

    queue: str
    flavors: Assignment
    usage: Usage
    holder: str
    admitted: Assignment | None = None

    @property
    def said(self) -> Assignment:
        """The flavors that it was admitted in."""
        return self.flavors if self.admitted is None else self.admitted

    def held_by(self, holder: str) -> Charge:
        """Return what another uses who uses the same."""
        return replace(self, holder=holder)


@dataclass(slots=True, eq=False)
class Member:
    """A pod of ours.

    Attributes:
        pod: What the cluster knows of it.
        claim: What it says about its gang and queue.
        problem: Why its claim cannot be read, or "".
        charge: What it uses of quota while it has, or is reserved, a node.
        annotation: What its admission annotation says, for a pod bound before the operator started.
        kept: What its status keeps of its admission, or has been asked to.
        sent: Whether a Bind for it is out and unanswered.
        unknown: Whether a Bind for it was answered so that nobody knows whether it took effect.
        leave: Reason and message for which it must go; None where it may stay.
        evicting: Whether it has been asked to leave.
        ended: The reason that its status gives for how it has ended, such as OutOfcpu; "" where it gives none.
        missed: Whether its gang has noted that it has lost it.
        over: Whether it had ended, or was lost, before its gang's present members began to be bound.
        never_preempts: Whether it takes out nobody for its own sake (preemptionPolicy Never).
        nominated: The node that its status says it is nominated for, or "".
        told: The reason and message last written to its condition, and when.
        owner: What controls it, such as a Job.
        gate: What its annotation says by which it asks for an approval; None where it asks for none.
        noted: Those of its annotations that a plugin reads.
        near: How near it says itself that it must be to others like it, if it does.
        settled: What its charge was last worked out from: what it holds, the labels of its node, the queues as written.
        said: A hash of what the claim, the annotation and these were read from.
    """

    pod: PodRecord
    scheduler: str
    claim: GangMembership
    problem: str = ""
    charge: Charge | None = None
    annotation: str = ""
    kept: str = ""
    sent: bool = False
    unknown: bool = False
    leave: tuple[str, str] | None = None
    evicting: bool = False
    ended: str = ""
    missed: bool = False
    over: bool = False
    never_preempts: bool = False
    nominated: str = ""
    told: Told = ("", "", 0.0)
    owner: OwnerReference | None = None
    gate: str | None = None
    noted: Mapping[str, str] = field(default_factory=dict)
    near: Near | None = None
    settled: tuple[Mapping[str, int], Mapping[str, str] | None, int] | None = None
    said: int | None = None


@dataclass(slots=True, eq=False)
class Group:
    """The members of one pod group.

    Attributes:
        min_count: How many must run together.
        count: How many are wanted in all, where somebody said so.
        most: How many may have a node at once; None: all there are.
        promised: The class of members that may be reserved for before they exist, where a template says so.
        promised_priority: The priority that these will have.
        promised_preempts: Whether they may take out others.
        members: Change them with `add` and `remove`, which count them.
        muster: The same by what they are doing.
        holds: Room and quota held for promised members.
        near: How near the members must be; None where its object does not say.
        on_loss: What becomes of a gang that has lost some of these; None: nobody waits for successors.
        had: How many members have had a node at once in this run, as far as is known.
        ended: How many members have succeeded in this run and do not exist any more.
    """

    name: str
    min_count: int = 1
    count: int | None = None
    most: int | None = None
    promised: PodClass | None = None
    promised_priority: int = 0
    promised_preempts: bool = True
    members: dict[PodKey, Member] = field(default_factory=dict)
    muster: Muster = field(default_factory=Muster)
    holds: list[Hold] = field(default_factory=list)
    near: Near | None = None
    on_loss: OnMemberLoss | None = None
    had: int = 0
    ended: int = 0
    _counted: tuple[list[int], Tally] | None = None

    def add(self, key: PodKey, member: Member) -> None:
        """Take a member in."""
        self.members[key] = member
        member.pod.join(self.muster)

    def remove(self, key: PodKey) -> None:
        """Let a member go; nothing happens where it is none."""
        member = self.members.pop(key, None)
        if member is not None:
            member.pod.leave()

    def tally(self) -> Tally:
        """Return how many members are doing what."""
        counts, known = self.muster.counts, self._counted
        if known is None or known[0] != counts:
            known = self._counted = list(counts), _summed_up(tuple(counts))
        return replace(known[1], succeeded=known[1].succeeded + self.ended) if self.ended else known[1]

    @property
    def missing(self) -> int:
        """How many members it has too few that have a node or are to have one."""
        return max(0, self.min_count - self.tally().placed - self.tally().reserved)

    @property
    def lacking(self) -> int:
        """How many members it has too few that have a node."""
        return max(0, self.min_count - self.tally().placed)


@dataclass(frozen=True, slots=True)
class Loss:
    """What one member had that a running gang has lost; kept for its successor while the gang lacks it.

    Attributes:
        group: The name of its pod group.
        node: Where it was, or "" where that is not known.
        amounts: What it took there, in scheduling units.
        flavors: In which it was counted; none where it needed no quota.
        queue: The ClusterQueue that it was counted in; "" where it was in none, or nothing tells it.
        recalled: Whether a status told it, and the pod has not been seen that may be there still.
    """

    group: str
    node: str
    amounts: Amounts
    flavors: Assignment
    queue: str = ""
    recalled: bool = False


@dataclass(slots=True)
class Kept:
    """What is kept for the successors of the members that one gang has lost.

    Attributes:
        priority: The least of its members' priorities; whoever is above it may have the room.
        charges: The quota that is used for it, and for how many pods each.
        spots: The room: node and amounts, in scheduling units.
    """

    priority: int
    charges: list[tuple[Charge, int]] = field(default_factory=list)
    spots: list[tuple[str, Amounts]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Hold:
    """Room and quota kept for one member that does not exist yet."""

    klass: PodClass
    node: str
    number: int
    charge: Charge | None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many members of a group are doing what; a deleted member that is not bound counts only as leaving.

    Attributes:
        lost: Those that are being deleted on nodes that do not work: nobody counts on them any more.
    """

    waiting: int = 0
    gated: int = 0
    reserved: int = 0
    bound: int = 0
    ready: int = 0
    leaving: int = 0
    succeeded: int = 0
    failed: int = 0
    lost: int = 0

    @property
    def placed(self) -> int:
        """Members that have or had their node."""
        return self.bound + self.succeeded

    @property
    def live(self) -> int:
        """Members that exist and have not ended."""
        return self.waiting + self.gated + self.reserved + self.bound

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@lru_cache(maxsize=4096)  # most groups are one pod, which does one thing or another
def _summed_up(counts: tuple[int, ...]) -> Tally:
    """Sum up what pods are doing: one number for each `Doing`."""
    waiting, gated, reserved, bound, ready, going, ready_going, leaving, succeeded, failed, lost = counts
    return Tally(
        waiting=waiting,
        gated=gated,
        reserved=reserved,
        bound=bound + ready + going + ready_going,
        ready=ready + ready_going,
        leaving=leaving + going + ready_going,
        succeeded=succeeded,
        failed=failed,
        lost=lost,
    )
