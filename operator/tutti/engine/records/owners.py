"""The records of quota that is held back: for whose sake, and who was refused because of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.ordering import EntryKey
from tutti.quota.tree import FlavorResource

Place = tuple[object, ...]
"""What sorts those of one line, the next one first."""


@dataclass(slots=True)
class Owner:
    """The head of a queue that waits for quota, and can take nobody out for it.

    Attributes:
        workload: Who it is.
        queue: Its ClusterQueue.
        usage: What it would use of that.
        borrows: Whether its queue would have to borrow for it.
        key: Its place among the heads of all queues.
        place: Its place in its own line.
        strict: Whether that line waits for it.
        turn: The turn in which it was last tried.
    """

    workload: WorkloadKey
    queue: str
    usage: Mapping[FlavorResource, int]
    borrows: bool
    key: EntryKey
    place: Place
    strict: bool
    turn: int


@dataclass(slots=True)
class Owners:
    """All of them.

    Attributes:
        of: By ClusterQueue; one for each.
        refused: Who may not borrow because of them, by quota tree, and sleeps.
        roused: Those of them that are to be tried again.
        turn: The number of this turn.
    """

    of: dict[str, Owner] = field(default_factory=dict)
    refused: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    roused: dict[WorkloadKey, None] = field(default_factory=dict)
    turn: int = 0

    def rouse(self, root: str) -> None:
        """Have those tried again who were refused in a tree."""
        self.roused.update(self.refused.pop(root, {}))

    def clear(self) -> None:
        """Forget all of them: everybody is to be tried again."""
        self.of, self.refused, self.roused = {}, {}, {}

    def take_roused(self) -> list[WorkloadKey]:
        """Return who is to be tried again since the last call."""
        roused, self.roused = self.roused, {}
        return list(roused)
