"""What is said of one workload: the gates it has passed and those ahead, quota, nodes, and what would unblock it.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from tutti.cli.views.degraded import DegradedGang


class GateOutcome(enum.StrEnum):
    """How a workload fares at one gate."""

    PASSED = "Passed"
    WAITS = "Waits"
    WOULD_PASS = "WouldPass"  # noqa: S105 - of a gate
    WOULD_WAIT = "WouldWait"
    UNKNOWN = "Unknown"
    SHORT = "Short"
    """It has passed, and has lost something of what it passed with."""


class GateStep(msgspec.Struct, frozen=True, rename="camel"):
    """One gate; a gate behind the one that a workload waits at is asked as if it were there already."""

    gate: str
    verdict: GateOutcome
    message: str


class QuotaUse(msgspec.Struct, frozen=True, rename="camel"):
    """One flavor and resource of its ClusterQueue, and what the workload asks of it if it is counted there.

    Attributes:
        needs: For all pods that must be placed together.
        free: What may be used of it now, borrowed quota included.
        own: The queue's nominal quota.
        most: What the queue could use with all that it may borrow.
        used: What it uses.
        lent: What of its own others use, and `borrowers` who they are, with how much each borrows.
    """

    flavor: str
    resource: str
    needs: int
    free: int
    own: int
    most: int
    used: int
    lent: int
    borrowers: Mapping[str, int]

    @property
    def missing(self) -> int:
        """How much more would have to be free."""
        return max(0, self.needs - self.free)


class RuledOutNodes(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that a pod cannot go to, for one reason; a node that lacks several resources is told for each."""

    reason: str
    nodes: int
    examples: tuple[str, ...]


class NodeRoom(msgspec.Struct, frozen=True, rename="camel"):
    """Where pods of one kind could go, if they are counted in one flavor.

    Attributes:
        group: The pod group.
        pods: How many must be placed together.
        asks: What each asks for.
        flavor: "" where no quota is needed.
        nodes: How many nodes there are.
        fits: How many of the pods would fit now, wherever that is.
        open: How many nodes have room for any of them, and `examples` what room some of these have, in pods.
        ruled: The others, the reason of most nodes first.
        level: The node label of which all must share one value; "" for none.
        domains: What each of its values has room for, in pods, the most first; a few of them.
    """

    group: str
    pods: int
    asks: Mapping[str, int]
    flavor: str
    nodes: int
    fits: int
    open: int
    examples: Mapping[str, int]
    ruled: tuple[RuledOutNodes, ...]
    level: str = ""
    domains: Mapping[str, int] = {}


class MovedWork(msgspec.Struct, frozen=True, rename="camel"):
    """Running pods of one workload that could be moved, and from which nodes to which."""

    kind: str
    namespace: str
    name: str
    pods: int
    source: tuple[str, ...]
    to: tuple[str, ...]


class Remedy(msgspec.Struct, frozen=True, rename="camel"):
    """Something that could be done, tried out on an engine.

    Attributes:
        what: What would be done, or happen.
        then: What it would still wait for after that; "" where it would be placed.
        moves: Whom it moves, where it is that running pods are moved.
    """

    what: str
    then: str = ""
    moves: tuple[MovedWork, ...] = ()


class OperatorStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the operator has written of why it waits."""

    gate: str
    reason: str
    message: str
    position: int | None = None
    estimated_start: str = ""


class Successors(msgspec.Struct, frozen=True, rename="camel"):
    """What would become of all successors of a degraded gang if they were there now, tried out on an engine.

    Attributes:
        to: How many of them would go to each node.
        why: What the others of them would wait for, or "".
    """

    to: Mapping[str, int]
    why: str = ""


class LeavingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is waited for to leave.

    Attributes:
        name: With its namespace, or its uid alone where the name may not be told.
        leaves_by: When its grace period is over, Unix seconds; None where it has not been told to leave yet.
        finalizers: What keeps its object after it has ended.
        overdue: Whether it should have left longer ago than victimsOverdueSeconds.
        replaced: Whether others leave in its place, because it is overdue.
    """

    name: str
    node: str
    leaves_by: float | None = None
    finalizers: tuple[str, ...] = ()
    overdue: bool = False
    replaced: bool = False


class ExplainedWorkload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything about one workload.

    Attributes:
        summary: The whole in one sentence.
        reason: The word of the status for why it waits, or "": those that docs/reference/reasons.md has.
        priority: None where it is not known, as `since`.
        since: Since when it is in its queue, Unix seconds.
        position: Its place in the ClusterQueue, the head being 1, and `line` how many wait there; None for none.
        placed: Its pods on each node, but for those that are lost.
        hopeless: What is said where nothing that was tried would have it placed, or "".
        limits: Why this is only what the operator has written, or "".
        degraded: How far it is from what it needs, where it runs with less.
        successors: Of one that is degraded, what would become of its successors; None where nobody can tell.
        early: Of one that is degraded, what would have it restarted before its window is over.
        leaves_now: Why it is being taken out to start again whole, or "".
        autoscaler: What an autoscaler makes of its pods, where that is wrong, and what would put it right.
        lost: Its pods on each node that count no more: they are being deleted, and nobody would say when they end.
        watts: What it is estimated to draw, where it runs and its profile has models of power; `kwh`, what it has used.
        leaving: The pods that it waits for to leave, those first that should have left the longest.
        notes: What of the objects that describe or own it is not read as people may expect.
        shard: The shard that schedules it; "" where there are none.
    """

    kind: str
    namespace: str
    name: str
    phase: str
    summary: str
    reason: str = ""
    queue: str = ""
    cluster_queue: str = ""
    cohort: str = ""
    shard: str = ""
    priority: int | None = None
    since: float | None = None
    required: int
    members: int
    bound: int
    position: int | None = None
    line: int = 0
    steps: tuple[GateStep, ...]
    quota: tuple[QuotaUse, ...] = ()
    rooms: tuple[NodeRoom, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    told: OperatorStatus | None
    placed: Mapping[str, int] = {}
    hopeless: str = ""
    limits: str = ""
    degraded: DegradedGang | None = None
    successors: Successors | None = None
    early: tuple[str, ...] = ()
    leaves_now: str = ""
    autoscaler: tuple[str, ...] = ()
    lost: Mapping[str, int] = {}
    leaving: tuple[LeavingPod, ...] = ()
    watts: float | None = None
    kwh: float | None = None
    notes: tuple[str, ...] = ()
