"""The record kept of a pod: what placement and gangs need to know, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.api.core import ObjectMeta, Pod
from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.kin import Kin
from tutti.cluster.muster import BOUND, Doing, Muster
from tutti.cluster.requests import Scored
from tutti.cluster.volumes import Use

PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True, eq=False)
class PodRecord:
    """One pod.

    Its life on a node, as far as room is concerned:

        waiting --assume--> assumed --seen bound--> bound --terminated or gone--> (no room held)
           ^------forget------'

    Attributes:
        node: Where the API server says it is bound, or "".
        assumed: Where we have reserved room for it, until it is seen bound, or "".
        held: What it takes there, in scheduling units; its class's requests unless an in-place resize is under way.
        weight: The same as the score of a node counts it.
        kin: What other pods see of it.
        uses: The claims that it uses.
        started: When the kubelet took it over, Unix seconds; None where it has not.
        lost: Whether it is being deleted on a node that does not work: nobody tells when it has ended.
        forgone: Whether it was lost, and its gang begins again without it; it stays lost to that when its node comes
            back, where it holds what it has until it has ended.
        slot: Where `Tenants` has it while it takes room on a node that is known, else -1.
        muster: Where it is counted by what it is doing, if anywhere.
        counted: What it is counted as there.
    """

    namespace: str
    name: str
    uid: str
    klass: PodClass
    held: Amounts
    kin: Kin
    weight: Scored = (0, 0)
    uses: tuple[Use, ...] = ()
    priority: int = 0
    created: float = 0.0
    started: float | None = None
    generation: int = 0
    node: str = ""
    assumed: str = ""
    phase: str = "Pending"
    gated: bool = False
    deleting: bool = False
    ready: bool = False
    lost: bool = False
    forgone: bool = False
    slot: int = -1
    muster: Muster | None = None
    counted: Doing = Doing.WAITING

    @classmethod
    def of(cls, meta: ObjectMeta, klass: PodClass, kin: Kin, uses: tuple[Use, ...]) -> PodRecord:
        """Begin the record of a pod that has no place yet, as one of its class."""
        who = (meta.namespace, meta.name, meta.uid)
        return cls(*who, klass, klass.requests, kin, klass.weight, uses, created=meta.created)

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def terminated(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def place(self) -> str:
        """The node whose room it takes, or ""."""
        return "" if self.terminated else self.node or self.assumed

    @property
    def placeable(self) -> bool:
        """Whether it waits for a node and may be bound now."""
        return not (self.node or self.assumed or self.gated or self.deleting or self.terminated)

    @property
    def doing(self) -> Doing:
        """What it is doing."""
        if self.phase == "Succeeded":
            return Doing.SUCCEEDED
        if self.phase == "Failed":
            return Doing.FAILED
        if self.lost or self.forgone:
            return Doing.LOST
        if self.node:
            return BOUND[self.ready + 2 * self.deleting]
        if self.deleting:
            return Doing.LEAVING
        if self.assumed:
            return Doing.RESERVED
        return Doing.GATED if self.gated else Doing.WAITING

    def follow(self, pod: Pod) -> None:
        """Take over what the API server says of the pod, all but its place and what others see of it."""
        self.phase = pod.status.phase
        self.priority = pod.spec.priority or 0
        self.generation = pod.metadata.generation
        self.gated = bool(pod.spec.scheduling_gates)
        self.ready = pod.ready
        self.started = pod.status.start_time.timestamp() if pod.status.start_time else None

    def join(self, muster: Muster) -> None:
        """Have it counted in a set of pods."""
        self.leave()
        self.muster, self.counted = muster, self.doing
        muster.counts[self.counted] += 1

    def leave(self) -> None:
        """Have it counted nowhere."""
        if self.muster is not None:
            self.muster.counts[self.counted] -= 1
            self.muster = None

    def recount(self) -> None:
        """Have it counted as what it is doing now, because something about it has changed."""
        if self.muster is not None:
            now, counts = self.doing, self.muster.counts
            if now is not self.counted:
                counts[self.counted] -= 1
                counts[now] += 1
                self.counted = now
