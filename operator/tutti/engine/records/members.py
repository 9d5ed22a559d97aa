"""The records the engine keeps of pods: a member, the group it belongs to, and what both use of quota.

What a pod was admitted to travels in the Binding, as an annotation (docs/adr/0005), and is then kept in a condition
of the pod's status: whoever may edit pods can write over an annotation and take labels off, and cannot write a
status. So a process that has not admitted it can read it again.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tutti.api.conventions import GangMembership
from tutti.api.conventions.order_annotations import NO_HINTS, OrderHints
from tutti.api.core import OwnerReference, Pod
from tutti.api.frameworks import GangAnswer, InheritedTerms, PlacedAlone, PodMarks
from tutti.api.kinds.pod_group import OnMemberLoss
from tutti.api.resources import Amounts
from tutti.api.selectors import Toleration
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PhaseCounts, PodKey, PodRecord
from tutti.placement.topology.request import LevelRequest, Slice, Together, TopologyPlacement
from tutti.quota.flavors import FlavorByResource
from tutti.quota.tree import Usage

NAMED_TOGETHER = "groupName"
"""Begins the name of what users have named themselves."""


@dataclass(frozen=True, slots=True)
class PodSetTopology:
    """What was said.

    Attributes:
        required: Node labels of each of which members share one value.
        preferred: Those of which they rather do, the widest first.
        slices: So many members that share a value, the widest first.
        balanced: Whether the domains used should get about as many members each.
        together: The name of what goes to one domain together; "" where members of one class do.
        by_labels: Whether labels of nodes alone decide, whatever levels the Topologies of flavors have.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    balanced: bool = False
    together: str = ""
    by_labels: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """All node labels that are named, the widest first."""
        return tuple(dict.fromkeys((*self.required, *self.preferred, *(one.level for one in self.slices))))

    @property
    def wish(self) -> str:
        """Where all of them want to be, in words; slices left aside."""
        firm = [f"{mode} {', '.join(keys)}" for mode, keys in self._firm() if keys]
        return " and ".join(firm) or "Unconstrained"

    def _firm(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("Required", self.required), ("Preferred", self.preferred)

    @property
    def needs_topology(self) -> bool:
        """Whether a flavor must have a Topology for it; one that only says who belongs together takes one flavor."""
        return not self.by_labels and (bool(self.keys) or not self.together.startswith(NAMED_TOGETHER))

    def request(self, levels: Sequence[str] = ()) -> LevelRequest:
        """Return the request in some levels, the widest first; labels that are no level stand before those that are."""
        order = {level: index for index, level in enumerate(levels)}
        required = sorted(self.required, key=lambda key: order.get(key, -1) if order else 0)
        unknown = [key for key in required if order and key not in order]
        widest, finest = (unknown or required)[-1:], self.preferred[-1:]
        if finest:
            return LevelRequest(Together.PREFERRED, finest[0], self.slices, "".join(widest), self.balanced)
        together = Together.REQUIRED if widest else Together.ANYWHERE
        return LevelRequest(together, "".join(widest), self.slices)

    def on(self, levels: Sequence[str], pod_set_group: Hashable, group: str, growth: int) -> TopologyPlacement | None:
        """Return what it means for an ask in the levels of a Topology, or by the labels themselves; None for nothing.

        Args:
            levels: Of the Topology; nothing where there is none.
            pod_set_group: Asks of equal pod set groups go to one domain together.
            group: The pod group they are of.
            growth: How many members more are expected.
        """
        chosen = self.keys if self.by_labels else tuple(levels) or self.keys
        return TopologyPlacement(chosen, self.request(chosen), pod_set_group, group, growth=growth) if chosen else None


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


ADMITTED_CONDITION = "scheduling.tutti.dev/Admitted"
"""The type of a bound pod's condition that says in which ClusterQueue and flavors it is counted."""


class PodAdmission(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod was admitted to: the ClusterQueue, and the flavor of each resource."""

    cluster_queue: str
    flavors: dict[str, str]


def admission_text(queue: str, flavors: FlavorByResource) -> str:
    """Return an admission as a text of JSON."""
    return _admission_text(queue, tuple(flavors.items()))


def read_admission(text: str) -> PodAdmission | None:
    """Return what such a text says; None where there is none, or somebody has written another thing over it."""
    try:
        return msgspec.json.decode(text, type=PodAdmission) if text else None
    except msgspec.MsgspecError:
        return None


def admission_in_status(pod: Pod) -> str:
    """Return the admission that a pod's status keeps; "" where it keeps none."""
    for condition in pod.status.conditions:
        if condition.type == ADMITTED_CONDITION and condition.status == "True":
            return condition.message
    return ""


@lru_cache(maxsize=4096)  # most of what a queue admits is counted in the same flavors
def _admission_text(queue: str, flavors: tuple[tuple[str, str], ...]) -> str:
    said = {"clusterQueue": queue, "flavors": dict(flavors)}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))
