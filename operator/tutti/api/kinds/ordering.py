"""In which order a ClusterQueue has its workloads tried, and how much each user or group may have of it at once.

Both are ours, not Kueue's; the limits are those that YuniKorn has in its queues (docs/howto/orders.md).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.model import ATOMIC, Lenient, Model, Quantity, QuantityText, ResourceName, ValidationRule, list_map

FactorName = Literal[
    "Age",
    "Largest",
    "Smallest",
    "Share",
    "Longest",
    "Shortest",
    "ResponseRatio",
    "Demand",
    "DemandAndShare",
    "Progress",
]
MOST_FACTORS = 10
MOST_WEIGHT = 1_000_000
MOST_LIMITS = 128
"""Limits of one queue."""
MOST_NAMES = 256
"""Users, or groups, that one limit names."""

_Seconds = Annotated[int, Field(ge=1, le=2**31 - 1)]
_UserName = Annotated[str, Field(min_length=1, max_length=256)]


class OrderFactor(Model):
    """One thing that the order goes by, and how much it counts beside the others."""

    factor: FactorName
    """What counts. Each comes to a number from 0 to 1; of the sum by weight, the highest goes first.

    Age: who has waited longer. Largest, Smallest: by the part of the queue's quota asked for. Share: whose user, or
    LocalQueue, has less of the queue. Longest, Shortest: by expected run time. ResponseRatio: by wait compared with
    expected run time. Demand: whose user, or LocalQueue, has more waiting. DemandAndShare: more waiting and less in
    use. Progress: by the annotation `scheduling.tutti.dev/progress`, of who says that it still makes progress.
    """
    weight: Annotated[int, Field(ge=1, le=MOST_WEIGHT)] = 1
    """How much it counts beside the others."""


class OrderPolicy(Model):
    """In which order workloads are tried; left out: the older first."""

    factors: list[OrderFactor] = Field(min_length=1, max_length=MOST_FACTORS, json_schema_extra=list_map("factor"))
    """What counts; with several, the sum by weight."""
    among: Literal["Priority", "All"] = "Priority"
    """Priority: the higher priority goes first, and the order is among those of one. All: whatever the priority."""
    max_wait_seconds: _Seconds = 86_400
    """Who has waited for so long goes before all others (of its priority, with among: Priority), the oldest first."""
    age_seconds: _Seconds = 604_800
    """After so long Age counts in full."""
    run_seconds: _Seconds = 3600
    """An expected run time of so long counts half; it is also what is expected where nothing is known."""
    RULES: ClassVar = (
        ValidationRule(
            message="each factor may stand once: add up the weights",
            holds=lambda it: len({one.factor for one in it.factors}) == len(it.factors),
        ),
    )


class UserLimit(Model):
    """How much users, or groups, may have of a queue at once."""

    users: list[_UserName] = Field(default=[], max_length=MOST_NAMES, json_schema_extra=ATOMIC)
    """Each of these by itself; `*`: everybody whom no limit of the queue names, each by himself."""
    groups: list[_UserName] = Field(default=[], max_length=MOST_NAMES, json_schema_extra=ATOMIC)
    """All users of each of these groups together; `*`: each group that no limit of the queue names."""
    resources: dict[ResourceName, Quantity] = Field(default={}, max_length=64)
    """How much of each resource, in all flavors together; what is not named is not limited."""
    workloads: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How many workloads; left out: any number."""
    RULES: ClassVar = (
        ValidationRule(
            message="a limit needs users or groups: name some, or '*' for everybody else",
            holds=lambda it: bool(it.users or it.groups),
            cel="(has(self.users) && size(self.users) > 0) || (has(self.groups) && size(self.groups) > 0)",
        ),
        ValidationRule(
            message="a limit needs resources or workloads: say how much of what",
            holds=lambda it: bool(it.resources) or it.workloads is not None,
            cel="(has(self.resources) && size(self.resources) > 0) || has(self.workloads)",
        ),
    )


UserLimitList = Annotated[list[UserLimit], Field(max_length=MOST_LIMITS, json_schema_extra=ATOMIC)]


class UserUse(Lenient):
    """What a user or group has of a queue."""

    name: str = ""
    """Of the user or group."""
    kind: Literal["User", "Group"] = "User"
    """Which of both."""
    workloads: int = 0
    """How many workloads hold quota."""
    resources: dict[str, QuantityText] = Field(default={}, max_length=64)
    """What they hold, in all flavors together."""


class RunTimes(Lenient):
    """How long the last ones of a kind of workload have run."""

    of: str = ""
    """Which ones: the user, if users are told apart, what their names begin with, and a class of size; of some
    also the flavor in which they ran, or the number of members that they had."""
    seconds: list[int] = Field(default=[], max_length=16, json_schema_extra=ATOMIC)
    """The last ones, the latest last."""
