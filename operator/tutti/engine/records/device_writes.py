"""What is being written on a claim on devices."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.records.decisions import DeviceClaimChange


@dataclass(slots=True)
class DeviceWrite:
    """What has been asked to be written on one claim.

    Attributes:
        uid: Of the claim.
        change: What is done with it; `allocate` stays so where pods were let use it afterwards.
        last: What was asked for last, which is what the next answer is about.
        pods: Name and uid of those that were written as its users.
        answered: Whether it is known what became of it.
        version: The resourceVersion of what was written.
        failure: Why it could not be written, or "".
    """

    uid: str
    change: DeviceClaimChange
    last: DeviceClaimChange
    pods: list[tuple[str, str]] = field(default_factory=list)
    answered: bool = False
    version: str = ""
    failure: str = ""
