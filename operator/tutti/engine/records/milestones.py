"""What workloads have come to: one record per step of a life, for the shell to count, to time and to log.

Milestones decide nothing and are not journalled: a replay comes to the same ones. Those found at a start, such as
workloads that run already, are none: they were reached before.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

Key = tuple[str, str, str]
"""Kind (Workload, PodGroup or Pod), namespace and name of a workload."""


class Step(enum.StrEnum):
    """What a workload has come to.

    ADMITTED: quota and nodes are reserved for it; `seconds` since it was queued.
    LET_GO: a reservation that was held, for members, an approval or volumes, is being bound; `seconds` it was held.
    GIVEN_BACK: a reservation that was held is given back without that; `seconds` it was held.
    SCHEDULED: its required members are bound; `seconds` since it was admitted.
    MAKES_ROOM: others have to leave for it; `pods` of theirs.
    DEGRADED: it runs and has lost so many `pods` that fewer are left than it needs.
    RECOVERED: it is degraded no more: it is whole, or is none that runs (`reason`); `seconds` that it was degraded.
    EVICTED: it is taken out; `seconds` that it ran.
    SPARED: it need not leave after all.
    FINISHED: its members have ended; `seconds` that it ran, this time.
    """

    ADMITTED = "Admitted"
    LET_GO = "LetGo"
    GIVEN_BACK = "GivenBack"
    SCHEDULED = "Scheduled"
    MAKES_ROOM = "MakesRoom"
    DEGRADED = "Degraded"
    RECOVERED = "Recovered"
    EVICTED = "Evicted"
    SPARED = "Spared"
    FINISHED = "Finished"


class Milestone(NamedTuple):
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

    step: Step
    workload: Key
    queue: str = ""
    local_queue: str = ""
    seconds: float = 0.0
    pods: int = 0
    reason: str = ""
    rule: str = ""
    for_queue: str = ""
