"""What one holder has in one queue, and how much of it is counted for somebody else already.

Quota that is meant for a preemptor is counted for it as soon as its victims are told to leave. They use it still: it is
handed over, so that it counts once. What they give back first is what they had handed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tutti.quota.snapshot import Holder
from tutti.quota.tree import FlavorResource, Usage, add_to


@dataclass(frozen=True, slots=True)
class Handed:
    """What a holder has handed over of a queue to one preemptor."""

    who: str
    queue: str
    usage: Mapping[FlavorResource, int]


@dataclass(slots=True)
class Account:
    """What one holder has in one queue.

    Attributes:
        holder: As it is listed in the snapshot.
        usage: What is counted of it; the dictionary that `holder` shows.
        pods: For how many pods.
        handed: What it uses but is not counted for, whoever it was handed over to.
        described: Whether preemption knows more of it than its name.
    """

    holder: Holder
    usage: Usage = field(default_factory=dict)
    pods: int = 0
    handed: Usage = field(default_factory=dict)
    described: bool = False

    def more(self, change: Mapping[FlavorResource, int]) -> None:
        """Count more."""
        add_to(self.usage, change)

    def less(self, change: Mapping[FlavorResource, int]) -> Mapping[FlavorResource, int]:
        """Count less by what is given back, and return how much that is: what was handed over is not counted."""
        if self.handed:
            gone = self._of_handed(change)
            change = {what: amount - gone.get(what, 0) for what, amount in change.items()}
            self._unhand(gone)
        for what, amount in change.items():
            self.usage[what] -= amount
        return change

    def hand_over(self, wanted: Mapping[FlavorResource, int]) -> Usage:
        """Count no more what somebody wants, as far as it is there; returns how much that is."""
        change = {what: min(amount, wanted.get(what, 0)) for what, amount in self.usage.items()}
        change = {what: amount for what, amount in change.items() if amount}
        add_to(self.usage, change, -1)
        add_to(self.handed, change)
        return change

    def take_back(self, handed: Mapping[FlavorResource, int]) -> Usage:
        """Count again what was handed over and has not been given back; returns how much that is."""
        change = self._of_handed(handed)
        self._unhand(change)
        self.more(change)
        return change

    def with_handed(self, handed: Mapping[FlavorResource, int]) -> Holder:
        """Return the holder as it would be with some of what it has handed over."""
        back = self._of_handed(handed)
        return replace(self.holder, usage={what: n + back.get(what, 0) for what, n in self.usage.items()})

    def _of_handed(self, wanted: Mapping[FlavorResource, int]) -> Usage:
        left = {what: min(amount, self.handed.get(what, 0)) for what, amount in wanted.items()}
        return {what: amount for what, amount in left.items() if amount}

    def _unhand(self, change: Mapping[FlavorResource, int]) -> None:
        for what, amount in change.items():
            self.handed[what] -= amount
        self.handed = {what: amount for what, amount in self.handed.items() if amount}
