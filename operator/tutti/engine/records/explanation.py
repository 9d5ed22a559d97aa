"""Why a workload waits, why it is taken out, and what it has come to.

The first is one record, the same for status, pod condition, event and command line. The last, lifecycle events, are
for the shell to count, to time and to log. They decide nothing and are not journalled: a replay comes to the same
ones. Those found at a start, such as workloads that run already, are none: they were reached before.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from tutti.api.messages import LONGEST_TEXT, MOST_ENTRIES, in_plain_words, shortened, shortened_details


class Gate(enum.StrEnum):
    """The gates a workload passes on its way, in order."""

    GATHER = "Gather"
    QUEUE = "Queue"
    THROTTLE = "Throttle"
    USER_LIMIT = "UserLimit"
    QUOTA = "Quota"
    CHECKS = "Checks"
    PLACEMENT = "Placement"
    VICTIMS = "Victims"
    PERMIT = "Permit"


REFRESH_SECONDS = 10.0
"""How long a text stands before a newer one under the same reason replaces it."""

MISSING = ("PodGroupNotFound", "WorkloadNotFound", "LocalQueueNotFound", "ClusterQueueNotFound")
"""Reasons of who names an object that has not been seen."""

SEEN_APART_SECONDS = 2.0
"""So long may what pods name be seen after them without anybody being told that there is none.

Pods and the objects that they name are watched apart, and of what is created together either may come first.
"""

IN_LINE = "InLine"
"""The reason of who has not been looked at yet: no fault of anybody, and over in a moment."""

BEHIND_HEAD = "BehindHead"
"""The reason of who stands in a strict queue behind a head that has to wait."""

ASKING = "WaitingForExtender"
"""The reason of who waits for the answer of an HTTP extender."""

PASSING = {
    ASKING: "an HTTP extender has been asked about its pods",
    IN_LINE: "it has not been looked at yet",
}
"""Reasons that last for a moment, with what is said of them to those who were told nothing else."""

WAITING_FOR_OTHERS = "WaitingForWorkloads"
"""The reason of who starts after others that may end yet."""

PREDECESSOR_FAILED = "PredecessorFailed"
"""The reason where one of them has failed that must succeed."""

AFTER_ITSELF = "AfterItself"
"""The reason of those who wait for one another, or for themselves."""

AFTER_OTHERS = (WAITING_FOR_OTHERS, PREDECESSOR_FAILED, AFTER_ITSELF)
"""Reasons of who stands aside until others have ended, whatever is free."""

AWAITING_CLAIMS = "WaitingForClaims"
"""The reason of who waits for claims on devices that are being made from templates."""

AWAITING_DEVICES = "WaitingForDevices"
"""The reason of who is reserved and waits for its devices to be written on its claims."""

WAITING_FOR_DATA = "WaitingForData"
"""The reason of who could start elsewhere, and waits for nodes near its data."""

WAITING_FOR_FLAVOR = "WaitingForFlavor"
"""The reason of who could start in one flavor, and ends sooner if it waits for another."""

PATIENT = (WAITING_FOR_DATA, WAITING_FOR_FLAVOR)
"""Reasons of who passes up what it could have now, for some time; nobody is taken out for it."""

PASSED_UP_SINCE = "passedUpSince"
"""The detail of a status that says since when, so that the time is the same after a restart."""

HELD_UNTIL = "heldUntil"
"""The detail of a status that says until when a reservation is held, so that a restart holds it no longer."""

RESERVED_TEXT = "quota and nodes are reserved"
"""How every message to those begins for whom that is so; of single pods nothing else tells it after a restart."""

IN_THEIR_PLACE = "WaitingForOtherVictims"
"""The reason of who waits for victims, some of which were chosen in the place of others that had not left in time."""

LACKS_NODE = ("Unschedulable", "Impossible")
"""Reasons at the Placement gate that more nodes could mend."""


SET_INACTIVE = "; it is set inactive"
"""How the message ends of an eviction after which a Workload does not wait again by itself."""


class Explanation(msgspec.Struct, frozen=True):
    """What a workload waits for; cut to what an API server takes, however much there is to say.

    Attributes:
        gate: The gate it stands at.
        reason: One CamelCase word for machines; it names the case, not the numbers.
        message: A sentence for people, with the numbers, that says what would unblock it.
        details: The numbers again, by name.
    """

    gate: Gate
    reason: str
    message: str
    details: dict[str, str] = {}

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST_TEXT:
            msgspec.structs.force_setattr(self, "message", shortened(self.message))
        if len(self.details) > MOST_ENTRIES or any(len(name) > LONGEST_TEXT for name in self.details):
            msgspec.structs.force_setattr(self, "details", shortened_details(self.details))

    @property
    def plain(self) -> str:
        """The message for people: everywhere but on pods, which are told in the words of kube-scheduler."""
        return in_plain_words(self.message)

    @property
    def pod_reason(self) -> str:
        """The reason of the pods' PodScheduled condition.

        Autoscalers add nodes for pods that are `Unschedulable`, so only those that lack a node say so.
        """
        lacks_node = self.gate is Gate.PLACEMENT and self.reason in LACKS_NODE
        return "Unschedulable" if lacks_node else self.reason


class EvictionReason(enum.StrEnum):
    """Why a workload is taken out.

    After PODS_READY_TIMEOUT it waits as `spec.requeue` of its Workload says, and is set inactive when that has
    happened too often; after BIND_WINDOW_OVER it waits as the configuration says; after MEMBER_LOST and MOVED it goes
    before the others of its priority; after ADMISSION_CHECK it waits as its check says; after the others it does not
    wait for anything, though one that is inactive, or whose queue is stopped, is not admitted before that ends.
    """

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"
    BIND_WINDOW_OVER = "BindWindowOver"
    MEMBER_LOST = "MemberLost"
    ADMISSION_CHECK = "AdmissionCheck"
    MOVED = "Moved"


class DeactivationCause(enum.StrEnum):
    """Why a workload is set inactive by us."""

    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MEMBER_FAILED = "MemberFailed"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK_REJECTED = "AdmissionCheckRejected"


LifecycleKey = tuple[str, str, str]
"""Kind (Workload, PodGroup or Pod), namespace and name of a workload."""


class LifecycleStep(enum.StrEnum):
    """What a workload has come to.

    QUOTA_RESERVED: quota is reserved for it, and nodes are looked for once checks are passed; `seconds` since it was
        queued.
    CHECKED: all its checks are Ready; `seconds` that they took.
    ADMITTED: quota and nodes are reserved for it; `seconds` since it was queued.
    LET_GO: a reservation that was held, for members, an approval or volumes, is being bound; `seconds` it was held.
    GIVEN_BACK: a reservation that was held is given back without that; `seconds` it was held.
    SCHEDULED: its required members are bound; `seconds` since it was admitted.
    MAKES_ROOM: others have to leave for it; `pods` of theirs.
    HAS_MOVED: others are moved for it; `pods` of theirs.
    DEGRADED: it runs and has lost so many `pods` that fewer are left than it needs.
    RECOVERED: it is degraded no more: it is whole, or is none that runs (`reason`); `seconds` that it was degraded.
    EVICTED: it is taken out; `seconds` that it ran.
    SPARED: it need not leave after all.
    FINISHED: its members have ended; `seconds` that it ran, this time.
    """

    QUOTA_RESERVED = "QuotaReserved"
    CHECKED = "Checked"
    ADMITTED = "Admitted"
    LET_GO = "LetGo"
    GIVEN_BACK = "GivenBack"
    SCHEDULED = "Scheduled"
    MAKES_ROOM = "MakesRoom"
    HAS_MOVED = "HasMoved"
    DEGRADED = "Degraded"
    RECOVERED = "Recovered"
    EVICTED = "Evicted"
    SPARED = "Spared"
    FINISHED = "Finished"


class LifecycleEvent(NamedTuple):
    """One step of one workload.

    Attributes:
        workload: Its key.
        queue: The ClusterQueue that it was counted in, or "".
        local_queue: The name of its LocalQueue, or "".
        seconds: How long it took to come to this; what that counts from is said at the step.
        pods: How many pods it is about.
        reason: Why, in one word; "" where there is nothing to say.
        rule: Of a victim, by which rule it leaves, as condition `Preempted` has it; else "".
        for_queue: Of a victim, the ClusterQueue of whom it leaves for, or "".
    """

    step: LifecycleStep
    workload: LifecycleKey
    queue: str = ""
    local_queue: str = ""
    seconds: float = 0.0
    pods: int = 0
    reason: str = ""
    rule: str = ""
    for_queue: str = ""
