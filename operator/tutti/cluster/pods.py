"""The record kept of a pod: what placement and gangs need to know of it, and in which phase it is counted."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from tutti.api.core import ObjectMeta, Pod
from tutti.api.resources import AmountError, Amounts, parse_requests
from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import DeviceUse
from tutti.cluster.requests import Scored, granted_amounts, occupied, scored_occupied
from tutti.cluster.signatures import PodSignature
from tutti.cluster.volumes import ClaimUse


class PodPhase(enum.IntEnum):
    """What a pod is doing, as far as its gang is concerned; a deleted pod that is not bound is only leaving.

    LOST: being deleted on a node that does not work, so that nobody tells when it has ended.
    """

    WAITING = 0
    GATED = 1
    RESERVED = 2
    BOUND = 3
    BOUND_READY = 4
    BOUND_LEAVING = 5
    BOUND_READY_LEAVING = 6
    LEAVING = 7
    SUCCEEDED = 8
    FAILED = 9
    LOST = 10


WAITING, RESERVED, BOUND = PodPhase.WAITING, PodPhase.RESERVED, PodPhase.BOUND

BOUND_PHASES = (PodPhase.BOUND, PodPhase.BOUND_READY, PodPhase.BOUND_LEAVING, PodPhase.BOUND_READY_LEAVING)
"""By whether the pod is ready, and whether it is being deleted: one and two more."""


LONGEST_GRACE: Final = 3600.0
"""For how many seconds of its grace period a pod that is being deleted is waited for; pods may name any number."""
_NOBODY: Final = [0] * len(PodPhase)


class PhaseCounts:
    """How many pods of a set are doing what.

    Attributes:
        counts: One number for each `Doing`.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = _NOBODY.copy()


PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True, eq=False)
class PodRecord:
    """One pod.

    Its life on a node, as far as room is concerned:

        waiting --assume--> assumed --seen bound--> bound --terminated or gone--> (no room held)
           ^------forget------'

    Attributes:
        key: Its namespace and name.
        node: Where the API server says it is bound, or "".
        assumed: Where we have reserved room for it, until it is seen bound, or "".
        held: What it takes there, in scheduling units; its class's requests unless an in-place resize is under way.
        granted: What its kubelet has granted it there, where it asks for something else: a raise waits, or was refused.
        weight: The same as the score of a node counts it.
        pod_signature: What other pods see of it.
        uses: The claims on volumes that it uses.
        device_uses: The claims on devices that it uses.
        containers: What its containers are called, init containers first, where it asks by extended resources for what
            devices stand in for, and was seen since that is known.
        started: When the kubelet took it over, Unix seconds; None where it has not.
        leaves_by: When its grace period is over, Unix seconds, or has lasted for as long as anybody waits for one;
            infinity where it is not being deleted.
        scheduler: Who places it.
        lost: Whether it is being deleted on a node that does not work: nobody tells when it has ended.
        forgone: Whether it was lost, and its gang begins again without it; it stays lost to that when its node comes
            back, where it holds what it has until it has ended.
        slot: Where `PodColumns` have it while it takes room on a node that is known, else -1.
        phase_counts: Where it is counted by what it is doing, if anywhere.
        counted: What it is counted as there.
    """

    namespace: str
    name: str
    uid: str
    pod_class: PodClass
    held: Amounts
    pod_signature: PodSignature
    weight: Scored = (0, 0)
    uses: tuple[ClaimUse, ...] = ()
    device_uses: tuple[DeviceUse, ...] = ()
    containers: tuple[str, ...] = ()
    priority: int = 0
    created: float = 0.0
    started: float | None = None
    scheduler: str = ""
    granted: Amounts | None = None
    generation: int = 0
    node: str = ""
    assumed: str = ""
    phase: str = "Pending"
    gated: bool = False
    deleting: bool = False
    leaves_by: float = math.inf
    ready: bool = False
    lost: bool = False
    forgone: bool = False
    slot: int = -1
    phase_counts: PhaseCounts | None = None
    counted: PodPhase = PodPhase.WAITING
    key: PodKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = (self.namespace, self.name)  # one for all that go by it, which keep it as theirs

    @classmethod
    def of(
        cls, meta: ObjectMeta, pod_class: PodClass, pod_signature: PodSignature, uses: tuple[ClaimUse, ...]
    ) -> PodRecord:
        """Begin the record of a pod that has no place yet, as one of its class."""
        who = (meta.namespace, meta.name, meta.uid)
        return cls(*who, pod_class, pod_class.requests, pod_signature, pod_class.weight, uses, created=meta.created)

    @property
    def terminated(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def place(self) -> str:
        """The node whose room it takes, or ""."""
        return "" if self.terminated else self.node or self.assumed

    @property
    def granted_requests(self) -> Amounts:
        """What it asks for, of a raise only what its kubelet has granted."""
        return self.pod_class.requests if self.granted is None else self.granted

    @property
    def placeable(self) -> bool:
        """Whether it waits for a node and may be bound now."""
        return not (self.node or self.assumed or self.gated or self.deleting or self.terminated)

    @property
    def doing(self) -> PodPhase:
        """What it is doing."""
        if self.phase == "Succeeded":
            return PodPhase.SUCCEEDED
        if self.phase == "Failed":
            return PodPhase.FAILED
        if self.lost or self.forgone:
            return PodPhase.LOST
        if self.node:
            return BOUND_PHASES[self.ready + 2 * self.deleting]
        if self.deleting:
            return PodPhase.LEAVING
        if self.assumed:
            return RESERVED
        return PodPhase.GATED if self.gated else WAITING

    def follow(self, pod: Pod) -> None:
        """Take over what the API server says of the pod, all but its place and what others see of it."""
        self.phase = self.phase_after(pod)
        self.priority = pod.spec.priority or 0
        self.scheduler = pod.spec.scheduler_name
        self.generation = pod.metadata.generation
        self.gated = bool(pod.spec.scheduling_gates)
        self.ready = pod.ready
        self.started = pod.status.start_time.timestamp() if pod.status.start_time else None
        self.leaves_by = _leaves_by(pod.metadata)
        if self.pod_class.devices.extended:
            self.containers = tuple([one.name for one in (*pod.spec.init_containers, *pod.spec.containers)])

    def phase_after(self, pod: Pod) -> str:
        """Return its phase by what the API server says now.

        Whose containers ended well because they were told to (kubelet 1.27 and later call it Succeeded) has not done
        what it was for, and somebody makes it anew.
        """
        phase = pod.status.phase
        return "Failed" if phase == "Succeeded" and self.phase != phase and pod.told_to_end else phase

    def join(self, phase_counts: PhaseCounts) -> None:
        """Have it counted in a set of pods."""
        self.leave()
        self.phase_counts, self.counted = phase_counts, self.doing
        phase_counts.counts[self.counted] += 1

    def leave(self) -> None:
        """Have it counted nowhere."""
        if self.phase_counts is not None:
            self.phase_counts.counts[self.counted] -= 1
            self.phase_counts = None

    def recount(self) -> None:
        """Have it counted as what it is doing now, because something about it has changed."""
        if self.phase_counts is not None:
            now, counts = self.doing, self.phase_counts.counts
            if now is not self.counted:
                counts[self.counted] -= 1
                counts[now] += 1
                self.counted = now


def reserve_all(records: Sequence[PodRecord], nodes: Sequence[str]) -> None:
    """Note that room is reserved for pods, for `records[i]` on `nodes[i]`."""
    moved: dict[PhaseCounts, int] = {}
    for record, node in zip(records, nodes, strict=True):
        record.assumed = node
        counts = record.phase_counts
        if counts is None or record.counted is not WAITING:
            record.recount()
            continue
        moved[counts] = moved.get(counts, 0) + 1  # who waited does nothing but hold its room now
        record.counted = RESERVED
    for counts, many in moved.items():
        counts.counts[WAITING] -= many
        counts.counts[RESERVED] += many


class AssumedAlike(NamedTuple):
    """Pods of one class that others see as the same and that have got room together.

    Attributes:
        records: The pods.
        rows: The row of each.
        nodes: The name of the node of each, which a record has only until the pod is bound.
    """

    records: list[PodRecord]
    rows: list[int]
    nodes: list[str]

    @property
    def pod_class(self) -> PodClass:
        """What all of them ask for."""
        return self.records[0].pod_class

    @property
    def pod_signature(self) -> PodSignature:
        """What others see of each."""
        return self.records[0].pod_signature

    @property
    def deleting(self) -> bool:
        """Whether they are being deleted."""
        return self.records[0].deleting


def assumed_alike(records: Sequence[PodRecord], rows: Sequence[int], nodes: Sequence[str]) -> list[AssumedAlike]:
    """Return pods, `records[i]` on row `rows[i]`, by what they are alike in, each kind in the order of its first."""
    if not records:
        return []
    starts, last = [0], records[0]
    for at, record in enumerate(records):
        if (
            record.pod_class is not last.pod_class
            or record.pod_signature is not last.pod_signature
            or record.deleting is not last.deleting
        ):
            starts.append(at)
            last = record
    found: dict[tuple[int, int, bool], AssumedAlike] = {}
    for start, end in pairwise((*starts, len(records))):
        first = records[start]
        kind = id(first.pod_class), id(first.pod_signature), first.deleting
        mine = found.setdefault(kind, AssumedAlike([], [], []))
        mine.records.extend(records[start:end])
        mine.rows.extend(rows[start:end])
        mine.nodes.extend(nodes[start:end])
    return list(found.values())


def readable_amounts(quantities: Mapping[str, str | int | float]) -> tuple[Amounts, list[str]]:
    """Return the amounts that can be read, and what is wrong with each of the others."""
    out: Amounts = {}
    problems: list[str] = []
    for name, quantity in quantities.items():
        try:
            out |= parse_requests({name: quantity})
        except AmountError as error:
            problems.append(str(error))
    return out, problems


def readable_occupied(pod: Pod, pod_class: PodClass) -> tuple[Amounts, Scored]:
    """Return what an assigned pod holds, and what it weighs in scores; its spec's where its status cannot be read."""
    requests = pod_class.requests
    try:
        held = occupied(pod, requests)
        if held is requests:
            return requests, pod_class.weight
        weight = scored_occupied(pod, pod_class.weight)
    except AmountError:
        return requests, pod_class.weight
    return (requests, weight) if held == requests else (held, weight)


def readable_granted(pod: Pod, held: Amounts, requests: Amounts) -> Amounts | None:
    """Return what the kubelet of an assigned pod has granted it, where that is not what it asks for and can be read."""
    try:
        found = granted_amounts(pod, held)
    except AmountError:
        return None
    return None if found is held or found == requests else found


def _leaves_by(meta: ObjectMeta) -> float:
    """Return until when a pod is waited for that is being deleted, Unix seconds; infinity where it is not."""
    if meta.deletion_timestamp is None:
        return math.inf
    ends = meta.deletion_timestamp.timestamp()
    return min(ends, ends - (meta.deletion_grace_period_seconds or 0) + LONGEST_GRACE)
