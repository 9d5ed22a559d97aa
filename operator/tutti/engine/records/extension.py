"""What a plugin of a user is asked about workloads: whose turn it is, and whether a complete reservation may bind.

As with filters and scores, a plugin is a pure function of what it is handed: a replay asks it again and compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tutti.placement.extension import Pods, Rooms
from tutti.placement.framework import Rows


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload as sort and permit plugins see it.

    Attributes:
        kind: Workload, PodGroup, or Pod for a single pod.
        queue: Its LocalQueue, or "".
        priority: Of its object, or its pods.
        created: Unix seconds.
        annotations: Of its object and its first pod, the object's first; only keys named by `ReadsAnnotations`.
    """

    kind: str
    namespace: str
    name: str
    queue: str
    priority: int
    created: float
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods of one class and where room is reserved for them: int64[m], one row per pod."""

    pods: Pods
    rows: Rows


@dataclass(frozen=True, slots=True)
class Reservation:
    """A complete reservation: every required pod of a workload has its node.

    Attributes:
        held_seconds: How long this plugin has held it.
        joins: Whether these are members that join a gang that runs, or is being bound: they cannot be held, and what
            is not let go is given back.
    """

    workload: Waiting
    placed: Sequence[Placed]
    held_seconds: float = 0.0
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Go:
    """The reservation may bind."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The reservation is held.

    Attributes:
        reason: What it is held for, a sentence that says what would let it go.
        timeout_seconds: When it is given back, counted from when the plugin first held it.
        again_after_seconds: When to ask again though nothing has changed; 0: only when something has.
    """

    reason: str
    timeout_seconds: float = 300.0
    again_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """The reservation is given back at once, and the workload is tried again after its backoff."""

    reason: str


Verdict = Go | Wait | Refuse


@runtime_checkable
class SortPlugin(Protocol):
    """Puts waiting workloads in order, before priority and age; all profiles have the same one, or none."""

    def sort(self, workload: Waiting) -> float:
        """Return its place: less is sooner. Equals go by priority, then age, then name.

        It is asked when something about the workload was seen, so the place cannot go by the time of day.
        """
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Holds complete reservations until they may bind."""

    def permit(self, reservation: Reservation, rooms: Rooms, now: float) -> Verdict:
        """Decide on a reservation; what it takes is in `rooms` already.

        Asked once it is complete, and while it is held whenever room or quota was given back, something about the
        workload was seen, or `again_after_seconds` is over. Members that join a running gang are asked about too; they
        are not held, but given back and tried again later.

        Args:
            reservation: Who, and where.
            rooms: All nodes with what is taken there.
            now: Unix seconds.
        """
        ...


@runtime_checkable
class ReadsAnnotations(Protocol):
    """A sort or permit plugin that reads annotations of workloads."""

    @property
    def annotations(self) -> Sequence[str]:
        """The keys that it reads; no others are kept."""
        ...


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin that a profile has enabled.

    Attributes:
        name: Of its entry point.
        weight: Of its score.
    """

    name: str
    plugin: object
    weight: int = 1
