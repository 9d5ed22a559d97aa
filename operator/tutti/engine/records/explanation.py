"""Why a workload waits: one record, the same for status, pod condition, event and command line."""

from __future__ import annotations

import enum

import msgspec

from tutti.api.messages import LONGEST_TEXT, MOST_ENTRIES, shortened, shortened_details


class Gate(enum.StrEnum):
    """The gates a workload passes on its way, in order."""

    GATHER = "Gather"
    QUEUE = "Queue"
    QUOTA = "Quota"
    PLACEMENT = "Placement"
    VICTIMS = "Victims"
    PERMIT = "Permit"


RETELL_SECONDS = 10.0
"""How long a text stands before a newer one under the same reason replaces it."""

IN_LINE = "InLine"
"""The reason of who has not been looked at yet: no fault of anybody, and over in a moment."""

ASKING = "WaitingForExtender"
"""The reason of who waits for the answer of an HTTP extender."""

LACKS_NODE = ("Unschedulable", "Impossible")
"""Reasons at the Placement gate that more nodes could mend."""


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
    def pod_reason(self) -> str:
        """The reason of the pods' PodScheduled condition.

        Autoscalers add nodes for pods that are `Unschedulable`, so only those that lack a node say so.
        """
        lacks_node = self.gate is Gate.PLACEMENT and self.reason in LACKS_NODE
        return "Unschedulable" if lacks_node else self.reason
