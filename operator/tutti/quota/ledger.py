"""What every queue uses now.

The ledger keeps the amounts per queue and the tree derived from them, so that queues, cohorts and limits may change
at any time: the tree is built anew from the specs and the same usage. Usage of a queue that does not exist (yet) is
kept and counts as soon as it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.quota.flavors import Queue
from tutti.quota.tree import FlavorResource, Quota, QuotaTree, Usage


class Ledger:
    """Usage per ClusterQueue, and what is left.

    Attributes:
        freed: Grows whenever quota may have become available.
    """

    def __init__(self) -> None:
        self.usage: dict[str, Usage] = {}
        self.tree = QuotaTree({}, {})
        self.freed = 0

    def respec(
        self,
        queues: Mapping[str, Queue],
        cohorts: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]],
    ) -> None:
        """Take over new specs. Cohorts and queues in a ring must have been left out."""
        self.tree = QuotaTree({name: (q.cohort, q.quotas) for name, q in queues.items()}, cohorts)
        for queue, usage in self.usage.items():
            self.tree.add(queue, usage)
        self.freed += 1

    def charge(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Use more in a queue."""
        mine = self.usage.setdefault(queue, {})
        for what, amount in usage.items():
            if amount:
                mine[what] = mine.get(what, 0) + amount
        self.tree.add(queue, usage)

    def refund(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Use less in a queue: others may have it now."""
        self.undo(queue, usage)
        self.freed += 1

    def undo(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Take back a charge of a decision that did not come about: nothing has become available."""
        mine = self.usage.get(queue, {})  # nothing, where only pods that use no quota were charged
        for what, amount in usage.items():
            left = mine.get(what, 0) - amount
            if left:
                mine[what] = left
            elif amount:
                del mine[what]
        if not mine:
            self.usage.pop(queue, None)
        self.tree.remove(queue, usage)

    def room_for(self, queue: str, per_pod: Mapping[FlavorResource, int]) -> int:
        """Return how many pods of this usage the queue has quota for now; without any usage, no limit (2**62)."""
        node = self.tree.queues[queue]
        return max(0, min((node.available(what) // n for what, n in per_pod.items() if n > 0), default=2**62))
