"""What has been observed of one job: its pods, how far it has come, and when.

A gang is partly bound while some of its members have a node but fewer than its minimum; that is unavoidable for the
moment in which its binds go out, and wrong beyond it.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from tutti_demo.scenario import FLAVOR, GPU, Job

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Why:
    """Why something waits, as the operator explains it."""

    gate: str
    reason: str
    message: str
    room: str = ""
    """How many of the members would fit, where that is the reason."""

    @property
    def full(self) -> str:
        """The gate and the whole message."""
        return f"{self.gate.lower()}: {self.message}"

    @property
    def numbers(self) -> str:
        """The numbers of the message, in a few words."""
        if self.room:
            return f"room for {self.room} pods"
        message = self.message.removesuffix(f" (flavor {FLAVOR})").replace(f"{GPU} in {FLAVOR}", "GPUs")
        return message.partition(": ")[2] if message.startswith("ClusterQueue ") and ": " in message else message

    @property
    def brief(self) -> str:
        """The gate and the numbers."""
        return f"{self.gate.lower()}: {self.numbers}"


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of the play, by the name of its job; `node` is empty until it is bound."""

    namespace: str
    name: str
    uid: str
    job: str
    node: str = ""
    phase: str = "Pending"
    gpus: int = 0
    why: Why | None = None

    @property
    def occupies(self) -> bool:
        """Whether it takes room on its node."""
        return bool(self.node) and self.phase not in ENDED


class State(enum.StrEnum):
    """How far a job has come."""

    EXPECTED = "expected"
    WAITING = "waiting"
    BINDING = "binding"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(slots=True)
class Track:
    """What has been seen of one job.

    Attributes:
        pods: Its pods by name, also those that have finished.
        arrived_at: When its first pod was seen.
        bound_at: When each pod was first seen with a node.
        finished_at: When the last of its pods was seen to be done.
        partly_since: Since when it is partly bound, if it is.
        partly_seconds: The longest time it was, while that is over.
        gates: The gates it was told to wait at, in order of appearance.
        why: Why it waits now.
        moved: Pods that were seen on a second node.
    """

    job: Job
    pods: dict[str, PodView] = field(default_factory=dict)
    arrived_at: float | None = None
    bound_at: dict[str, float] = field(default_factory=dict)
    finished_at: float | None = None
    partly_since: float | None = None
    partly_seconds: float = 0.0
    gates: list[str] = field(default_factory=list)
    why: Why | None = None
    moved: list[str] = field(default_factory=list)

    @property
    def bound(self) -> int:
        """How many members have a node, or had one until they were done."""
        return sum(bool(pod.node) for pod in self.pods.values())

    @property
    def state(self) -> State:
        """How far it has come."""
        if not self.pods:
            return State.EXPECTED
        phases = Counter(pod.phase for pod in self.pods.values())
        if phases["Failed"]:
            return State.FAILED
        if phases["Succeeded"] == self.job.members:
            return State.FINISHED
        if self.bound == 0:
            return State.WAITING
        return State.BINDING if self.bound < self.job.members else State.RUNNING

    @property
    def waited_seconds(self) -> float | None:
        """From its arrival until every member was bound; None where that has not happened."""
        placed_at = self.placed_at
        return None if self.arrived_at is None or placed_at is None else placed_at - self.arrived_at

    @property
    def spread_seconds(self) -> float | None:
        """From its first to its last bind; None before the last."""
        placed_at = self.placed_at
        return None if placed_at is None else placed_at - min(self.bound_at.values())

    @property
    def placed_at(self) -> float | None:
        """When the last member was bound; None before that."""
        return max(self.bound_at.values()) if len(self.bound_at) == self.job.members else None

    def partly_bound_seconds(self, at: float) -> float:
        """The longest time it has been partly bound, counting one that goes on at `at`."""
        open_seconds = at - self.partly_since if self.partly_since is not None else 0.0
        return max(self.partly_seconds, open_seconds)

    def keep_partly(self, *, at: float) -> None:
        """Note since when it is partly bound, or for how long it was."""
        partly = 0 < self.bound < self.job.members
        if partly and self.partly_since is None:
            self.partly_since = at
        elif not partly and self.partly_since is not None:
            self.partly_seconds = self.partly_bound_seconds(at)
            self.partly_since = None
