"""Who has how much of each queue: users, groups and LocalQueues, beside the workloads that hold it for them.

Counted from the same charges as the ledger, and as long as these stand, so that it is a recount at any moment: what a
process that starts anew finds charged, it finds charged to the same user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tutti.quota.tree import FlavorResource

PART = "#"
"""Stands between the name of a workload and that of a member that holds something by itself."""

Holders = tuple[str, ...]
"""Those for whom a workload holds what it does: its user and his groups, or its LocalQueue."""

QueueHolder = tuple[str, str]
"""A ClusterQueue and a holder."""

NOBODY: Holders = ()


@dataclass(slots=True)
class HeldShare:
    """What somebody has of a queue.

    Attributes:
        resources: In all flavors together, in scheduling units.
        workloads: By name, in how many accounts each holds something.
    """

    resources: dict[str, int] = field(default_factory=dict)
    workloads: dict[str, int] = field(default_factory=dict)

    def add(self, workload: str, amounts: Mapping[str, int], sign: int, accounts: int) -> None:
        """Count what a workload holds more, or less."""
        for name, amount in amounts.items():
            left = self.resources.get(name, 0) + sign * amount
            if left:
                self.resources[name] = left
            else:
                self.resources.pop(name, None)
        count = self.workloads.get(workload, 0) + accounts
        if count:
            self.workloads[workload] = count
        else:
            self.workloads.pop(workload, None)

    def __bool__(self) -> bool:
        return bool(self.resources or self.workloads)


_NOTHING = HeldShare()


class HolderUse:
    """What users, groups or LocalQueues have of each ClusterQueue.

    Attributes:
        on: Whether anybody asks; else nothing is counted.
        changed: The queues in which somebody has had more or less since that was told.
    """

    def __init__(self) -> None:
        self.on = False
        self.changed: dict[str, None] = {}
        self._holders: dict[str, Holders] = {}
        self._of: dict[QueueHolder, HeldShare] = {}
        self._held: dict[str, dict[str, HeldShare]] = {}

    def of(self, queue: str, holder: str) -> HeldShare:
        """Return what somebody has of a queue."""
        return self._of.get((queue, holder), _NOTHING)

    def holders_in(self, queue: str) -> list[str]:
        """Return who has anything of a queue, by name."""
        return sorted(holder for name, holder in self._of if name == queue)

    def name(self, workload: str, holders: Holders) -> bool:
        """Have what a workload holds counted for these from now on; returns whether it was for others."""
        before = self._holders.get(workload)
        if before == holders:
            return False
        held = self._held.get(workload, {})
        for queue, share in held.items():
            self._count(queue, workload, before or NOBODY, share, -1)
            self._count(queue, workload, holders, share, 1)
        self._holders[workload] = holders
        return before is not None

    def forget(self, workload: str) -> None:
        """Forget for whom a workload holds what it does, of which nothing is left."""
        self.name(workload, NOBODY)
        self._holders.pop(workload, None)

    def holders(self, workload: str) -> Holders:
        """Return for whom a workload holds what it does."""
        return self._holders.get(workload, NOBODY)

    def add(self, queue: str, who: str, usage: Mapping[FlavorResource, int], sign: int, *, accounts: int = 0) -> None:
        """Count what is charged, or given back.

        Args:
            queue: Of which ClusterQueue.
            who: The workload, or a part of it.
            usage: How much.
            sign: 1 or -1.
            accounts: How many accounts have been opened for it thereby, or closed where negative.
        """
        amounts: dict[str, int] = {}
        for (_, resource), amount in usage.items():
            amounts[resource] = amounts.get(resource, 0) + amount
        workload = who.partition(PART)[0]
        mine = self._held.setdefault(workload, {})
        share = mine.setdefault(queue, HeldShare())
        share.add(workload, amounts, sign, accounts)
        for holder in self._holders.get(workload, NOBODY):
            self._change(queue, holder, workload, amounts, sign, accounts)
        if not share:
            del mine[queue]
            if not mine:
                del self._held[workload]

    def recount(self, accounts: Iterable[tuple[str, str, Mapping[FlavorResource, int]]], *, on: bool) -> None:
        """Count from nothing, as far as it is `on`: queue, who, and what that one uses of it."""
        if on == self.on:
            return
        self.on = on
        self._of, self._held = {}, {}
        for queue, who, usage in accounts if on else ():
            self.add(queue, who, usage, 1, accounts=1)

    def _count(self, queue: str, workload: str, holders: Collection[str], share: HeldShare, sign: int) -> None:
        accounts = sign * share.workloads.get(workload, 0)
        for holder in holders:
            self._change(queue, holder, workload, share.resources, sign, accounts)

    def _change(
        self, queue: str, holder: str, workload: str, amounts: Mapping[str, int], sign: int, accounts: int
    ) -> None:
        found = self._of.setdefault((queue, holder), HeldShare())
        found.add(workload, amounts, sign, accounts)
        self.changed[queue] = None
        if not found:
            del self._of[queue, holder]
