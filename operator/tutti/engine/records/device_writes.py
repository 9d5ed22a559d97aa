"""What is being written on a claim on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from tutti.engine.records.decisions import DeviceClaimChange, ExtendedClaimChange, UserName, WriteDeviceClaim


class DeviceWrite(msgspec.Struct, eq=False, gc=False):
    """What has been asked to be written on one claim.

    Attributes:
        uid: Of the claim.
        change: What is done with it; `allocate` stays so where pods were let use it afterwards. While it is made (for
            extended resources) it has no uid.
        asked: What was asked last, which is what the next answer is about.
        pods: Name and uid of the pods that were written as its users.
        groups: The same of PodGroups.
        answered: Whether it is known what became of it.
        version: The resourceVersion of what was written.
        failure: Why it could not be written, or "".
        sent: What was decided, until it is known what became of it.
        place: Which of the decisions of its turn that is.
        told: Of a claim for extended resources, whether its pod is being told which it is, and has been.
    """

    uid: str
    change: DeviceClaimChange | ExtendedClaimChange
    asked: DeviceClaimChange | ExtendedClaimChange
    pods: tuple[UserName, ...] = ()
    groups: tuple[UserName, ...] = ()
    answered: bool = False
    version: str = ""
    failure: str = ""
    sent: WriteDeviceClaim | None = None
    place: int = 0
    told: Literal["", "asked", "done"] = ""

    def in_hand(self, out: Sequence[object]) -> WriteDeviceClaim | None:
        """Return what was decided in this turn, of which `out` is all so far: more users can join; None: nothing."""
        sent, place = self.sent, self.place
        return sent if sent is not None and place < len(out) and out[place] is sent else None

    def names(self, uid: str) -> bool:
        """Whether a pod or PodGroup was written as its user."""
        return any(one == uid for _, one in (*self.pods, *self.groups))


@dataclass(slots=True)
class PoolTrouble:
    """What is the matter with a pool of devices, since when, Unix seconds, and whether that was told."""

    text: str
    since: float
    told: bool = False
