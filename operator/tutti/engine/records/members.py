"""The records the engine keeps of pods: a member, the group it belongs to, and what both use of quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tutti.api.conventions import GangMembership
from tutti.api.conventions.order_annotations import NO_HINTS, OrderHints
from tutti.api.core import OwnerReference
from tutti.api.frameworks import GangAnswer, InheritedTerms, PlacedAlone, PodMarks
from tutti.api.kinds.pod_group import OnMemberLoss
from tutti.api.resources import Amounts
from tutti.api.selectors import Toleration
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PhaseCounts, PodKey, PodRecord
from tutti.engine.records.pod_set_topology import PodSetTopology
from tutti.quota.flavors import FlavorByResource
from tutti.quota.tree import Usage

Reported = tuple[str, str, float]
"""A reason and a message as last written, and when, Unix seconds."""


class Charge(msgspec.Struct, frozen=True):
    """What one member uses of a ClusterQueue's quota.

    Attributes:
        flavors: In which it is counted.
        holder: The workload it is for.
        admitted: In which it was admitted, where it is counted in others by now.
    """

    queue: str
    flavors: FlavorByResource
    usage: Usage
    holder: str
    admitted: FlavorByResource | None = None

    @property
    def admitted_flavors(self) -> FlavorByResource:
        """The flavors that it was admitted in."""
        return self.flavors if self.admitted is None else self.admitted

    def held_by(self, holder: str) -> Charge:
        """Return what another uses who uses the same."""
        return msgspec.structs.replace(self, holder=holder)


class HeldQuota(NamedTuple):
    """Quota that is held for pods of a group which have no nodes: for how many, and what all of them use together."""

    pods: int
    charge: Charge


class Additions(NamedTuple):
    """What admission checks add to the pods of a group."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]


class Owned(NamedTuple):
    """What a member has from what owns it.

    Attributes:
        gang: Which gang it is in by that.
        terms: Queue, priority class, times and topology.
        awaited: What is yet to be seen, and may decide all of it; None: nothing.
        top: What makes the gang; None where none is made.
    """

    gang: GangAnswer
    terms: InheritedTerms
    awaited: OwnerReference | None = None
    top: OwnerReference | None = None


_NOTHING: Mapping[str, str] = MappingProxyType({})


def _nothing_said() -> Mapping[str, str]:
    return _NOTHING


NO_MARKS = PodMarks("", "", "")
"""Of a pod of which nothing has been read."""

NOT_OWNED = Owned(PlacedAlone(), InheritedTerms())
"""What a pod has that nothing owns."""


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
        loss_noted: Whether its gang has noted that it has lost it.
        over: Whether it had ended, or was lost, before its gang's present members began to be bound.
        replaces: What its gang had lost, and it was placed in place of; None once that is settled, and of any other.
        never_preempts: Whether it takes out nobody for its own sake (preemptionPolicy Never).
        nominated: The node that its status says it is nominated for, or "".
        reported: The reason and message last written to its condition, and when.
        told_generation: For which generation of the pod that was; 0 where that is not known.
        scale_down: Those of its annotations that are about scale-down.
        asked_protection: What was last asked for of these and is not seen yet: that they are there, or are not.
        protection_refused: When they could not be written last, Unix seconds; 0: they could.
        marks: What of it tells its gang from what owns it, whenever that changes.
        owned: What it has from its owners, by what is known of them now.
        gate: What its annotation says by which it asks for an approval; None where it asks for none.
        movable: Whether it says itself that it may be moved; None where it does not say.
        plugin_annotations: Those of its annotations that a plugin reads.
        topology: How near it says itself that it must be to others like it, if it does.
        hints: What its annotations say that the order of its queue may go by, and whose it is.
        settled: What its charge was last worked out from: what it holds, the labels of its node, the queues as written.
        parsed_from: A hash of what the claim, the annotation and these were read from.
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
    loss_noted: bool = False
    over: bool = False
    replaces: LostMember | None = None
    never_preempts: bool = False
    nominated: str = ""
    reported: Reported = ("", "", 0.0)
    told_generation: int = 0
    scale_down: Mapping[str, str] = field(default_factory=_nothing_said)
    asked_protection: bool | None = None
    protection_refused: float = 0.0
    marks: PodMarks = NO_MARKS
    owned: Owned = NOT_OWNED
    gate: str | None = None
    movable: bool | None = None
    plugin_annotations: Mapping[str, str] = field(default_factory=dict)
    topology: PodSetTopology | None = None
    hints: OrderHints = NO_HINTS
    settled: tuple[Mapping[str, int], Mapping[str, str] | None, int] | None = None
    parsed_from: int | None = None


@dataclass(slots=True, eq=False)
class MemberGroup:
    """The members of one pod group.

    Attributes:
        min_count: How many must run together.
        count: How many are wanted in all, where somebody said so.
        most: How many may have a node at once; None: all there are.
        promised: The class of members that may be reserved for before they exist, where a template says so.
        promised_priority: The priority that these will have.
        promised_preempts: Whether they may take out others.
        members: Change them with `add` and `remove`, which count them.
        phases: The same by what they are doing.
        holds: Room and quota held for promised members.
        topology: How near the members must be; None where its object does not say.
        on_loss: What becomes of a gang that has lost some of these; None: nobody waits for successors.
        had: How many members have had a node at once in this run, as far as is known; no more than are wanted since.
        ended: How many members have succeeded in this run and do not exist any more.
        held: Quota that is held for members without nodes; None: none.
        added: What admission checks add to its pods; None: nothing.
    """

    name: str
    min_count: int = 1
    count: int | None = None
    most: int | None = None
    promised: PodClass | None = None
    promised_priority: int = 0
    promised_preempts: bool = True
    members: dict[PodKey, Member] = field(default_factory=dict)
    phases: PhaseCounts = field(default_factory=PhaseCounts)
    holds: list[PromisedReservation] = field(default_factory=list)
    topology: PodSetTopology | None = None
    on_loss: OnMemberLoss | None = None
    had: int = 0
    ended: int = 0
    held: HeldQuota | None = None
    added: Additions | None = None
    _counted: tuple[list[int], int, MemberCounts] | None = None

    def add(self, key: PodKey, member: Member) -> None:
        """Take a member in."""
        self.members[key] = member
        member.pod.join(self.phases)

    def remove(self, key: PodKey) -> None:
        """Let a member go; nothing happens where it is none."""
        member = self.members.pop(key, None)
        if member is not None:
            member.pod.leave()

    def counts(self) -> MemberCounts:
        """Return how many members are doing what."""
        counts, known = self.phases.counts, self._counted
        if known is None or known[0] != counts or known[1] != self.ended:
            found = _summed_up(tuple(counts))
            if self.ended:
                found = msgspec.structs.replace(found, succeeded=found.succeeded + self.ended)
            known = self._counted = list(counts), self.ended, found
        return known[2]

    @property
    def brought(self) -> int:
        """How many members have been bound this time, even if some have failed since."""
        return sum([bool(member.pod.node) and not member.over for member in self.members.values()])

    @property
    def missing(self) -> int:
        """How many members it has too few that have a node or are to have one."""
        return max(0, self.min_count - self.counts().placed - self.counts().reserved)

    @property
    def lacking(self) -> int:
        """How many members it has too few that have a node."""
        return max(0, self.min_count - self.counts().placed)

    @property
    def has_lost(self) -> bool:
        """Whether it lacks members that it has had, and not just such as it has come to need since."""
        return self.counts().placed < min(self.had, self.min_count)


@dataclass(frozen=True, slots=True)
class LostMember:
    """What one member had that a running gang has lost; kept for its successor while the gang lacks it.

    Attributes:
        group: The name of its pod group.
        node: Where it was, or "" where that is not known.
        amounts: What it took there, in scheduling units.
        flavors: In which it was counted; none where it needed no quota.
        queue: The ClusterQueue that it was counted in; "" where it was in none, or nothing tells it.
        recalled: Whether a status told it, and the pod has not been seen that may be there still.
        failed: The name of one that has failed, with the reason that its status gives; "" of any other.
        devices: What quota counted of its devices by what it asked for; None where that is not known.
    """

    group: str
    node: str
    amounts: Amounts
    flavors: FlavorByResource
    queue: str = ""
    recalled: bool = False
    failed: str = ""
    devices: Amounts | None = None


def devices_asked(pod: PodRecord) -> Amounts | None:
    """Return what quota counts of the devices that a pod asked for; None where that is not known any more.

    Of one that was found on its node with what it has been given, nobody knows what it asked for.
    """
    pod_class = pod.pod_class
    if pod_class.devices.counted is None and pod.device_uses:
        return None
    return {name: amount for name, amount in pod_class.charged.items() if name not in pod_class.requests}


def amounts_of(member: Member, charge: Charge | None) -> Amounts:
    """Return what a member takes, and what of its charge it does not request: devices that quota counts.

    Whoever takes its place is made of the template: a raise that nobody has granted is none of its.
    """
    amounts = member.pod.granted_requests
    if charge is None or all(name in amounts for _, name in charge.usage):
        return amounts
    return {**{name: amount for (_, name), amount in charge.usage.items()}, **amounts}


@dataclass(frozen=True, slots=True)
class PromisedReservation:
    """Room and quota kept for one member that does not exist yet."""

    pod_class: PodClass
    node: str
    number: int
    charge: Charge | None


class MemberCounts(msgspec.Struct, frozen=True):
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

    def __add__(self, other: MemberCounts) -> MemberCounts:
        return MemberCounts(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


@lru_cache(maxsize=4096)  # most groups are one pod, which does one thing or another
def _summed_up(counts: tuple[int, ...]) -> MemberCounts:
    """Sum up what pods are doing: one number for each `Doing`."""
    waiting, gated, reserved, bound, ready, going, ready_going, leaving, succeeded, failed, lost = counts
    return MemberCounts(
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
