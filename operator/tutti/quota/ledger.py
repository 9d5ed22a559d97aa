"""The usage ledger: what every queue uses now, and which workload uses it, kept up to date pod by pod.

Usage is kept per queue and workload, and the tree is derived from it, so that queues, cohorts and limits may change
at any time: the tree is built anew from the specs and the same ledger. What is used of a queue that does not exist
(yet) is kept and counts as soon as it does.

Quota that is meant for a preemptor is counted for it as soon as its victims are told to leave. They use it still: it
is handed over, so that it counts once. What they give back first is what they had handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec

from tutti.quota.changes import QuotaChanges
from tutti.quota.flavors import Queue
from tutti.quota.holder_use import HolderUse
from tutti.quota.snapshot import AdmittedWorkload, Snapshot, Unprotected, UsedLately
from tutti.quota.tree import FlavorResource, Quota, QuotaTree, Usage, add_to


@dataclass(frozen=True, slots=True)
class HandedOver:
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

    holder: AdmittedWorkload
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

    def with_handed(self, handed: Mapping[FlavorResource, int]) -> AdmittedWorkload:
        """Return the holder as it would be with some of what it has handed over."""
        back = self._of_handed(handed)
        return msgspec.structs.replace(
            self.holder, usage={what: n + back.get(what, 0) for what, n in self.usage.items()}
        )

    def _of_handed(self, wanted: Mapping[FlavorResource, int]) -> Usage:
        left = {what: min(amount, self.handed.get(what, 0)) for what, amount in wanted.items()}
        return {what: amount for what, amount in left.items() if amount}

    def _unhand(self, change: Mapping[FlavorResource, int]) -> None:
        for what, amount in change.items():
            self.handed[what] -= amount
        self.handed = {what: amount for what, amount in self.handed.items() if amount}


Cohorts = Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]]
"""Cohort -> its parent ("" for none) and quotas."""


_PREEMPTION_RELEVANT = attrgetter(
    "priority", "queued_at", "reserved_at", "evicted", "uid", "local_queue", "cross_queue_priority", "out_of_turn"
)
"""What preemption goes by of a workload that uses quota."""


class UsageLedger:
    """Who holds what of which queue, and what is left.

    Attributes:
        tree: The quota tree.
        snapshot: The tree and who uses it as they are now; try things out in its trials only.
        highest: The tree as it would be if every quota were the most that it may be later; None where none changes.
        changes: When more or less was used of which queue.
        unprotected: Who of some holders may be preempted for now, as far as the policies say so.
        used_lately: What the LocalQueue of a holder has used lately, where that counts.
        held_for: What users, groups or LocalQueues have of each queue, where anybody asks.
    """

    def __init__(self) -> None:
        self.tree = QuotaTree({}, {})
        self.highest: QuotaTree | None = None
        self.snapshot = Snapshot(self.tree, {})
        self.unprotected: Unprotected = self.snapshot.unprotected
        self.used_lately: UsedLately = self.snapshot.used_lately
        self.held_for = HolderUse()
        self.changes = QuotaChanges()
        self._accounts: dict[tuple[str, str], Account] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._touched: dict[str, None] = {}

    def rebuild(
        self,
        queues: Mapping[str, Queue],
        cohorts: Cohorts,
        cohort_weights: Mapping[str, int] | None = None,
        worth: Mapping[FlavorResource, int] | None = None,
        most_of_cohorts: Mapping[str, Mapping[FlavorResource, Quota]] | None = None,
    ) -> None:
        """Take over new specs. Cohorts and queues in a ring must have been left out.

        Args:
            queues: By name.
            cohorts: By name.
            cohort_weights: Of fair sharing, in milli-units; 1 for those that are not there.
            worth: What one unit of a flavor and resource counts in fair sharing, likewise.
            most_of_cohorts: The most that cohorts may have later, of those that have other quotas at times.
        """
        tree = self.tree = QuotaTree(
            {name: (queue.cohort, queue.quotas) for name, queue in queues.items()},
            cohorts,
            queue_weights={name: queue.weight for name, queue in queues.items()},
            cohort_weights=cohort_weights or {},
            worth=worth or {},
        )
        most = {name: (queue.cohort, queue.most or queue.quotas) for name, queue in queues.items()}
        shared = {name: (parent, (most_of_cohorts or {}).get(name, has)) for name, (parent, has) in cohorts.items()}
        changes = bool(most_of_cohorts) or any(queue.most for queue in queues.values())
        self.highest = QuotaTree(most, shared) if changes else None
        policies = {name: queue.policy for name, queue in queues.items()}
        self.snapshot = Snapshot(tree, policies, unprotected=self.unprotected, used_lately=self.used_lately)
        for account in self._accounts.values():
            self.snapshot.enrol(account.holder)
            self.snapshot.charge(account.holder.queue, account.usage)
        asked = any(queue.counts_holders for queue in queues.values())
        total = ((queue, who, _whole(one)) for (queue, who), one in self._accounts.items())
        self.held_for.recount(total, on=asked)
        self.changes.begin({name: _root(tree, name) for name in queues})

    def most_ever(self, queue: str, what: FlavorResource) -> int:
        """Return the most that a queue could have now or later, were nothing used anywhere."""
        most = self.tree.queues[queue].potential(what)
        return most if self.highest is None else max(most, self.highest.queues[queue].potential(what))

    @contextmanager
    def other_quotas(self, others: Mapping[str, Mapping[FlavorResource, Quota]] | None) -> Iterator[None]:
        """Inside, let some queues have other quotas, as at another time; nobody is told of it."""
        before = self.tree.change_quotas(others) if others else {}
        try:
            yield
        finally:
            if before:
                self.tree.change_quotas(before)

    def root_of(self, queue: str) -> str:
        """Return what names the tree that a queue is in: queues of one tree are told the same."""
        return self.changes.root_of(queue)

    def take_touched(self) -> list[str]:
        """Return whose usage has changed since the last call."""
        touched, self._touched = self._touched, {}
        return list(touched)

    def used(self, queue: str) -> Usage:
        """Return what is held in a queue, existing or not, counted anew from its holders."""
        total: Usage = {}
        for (name, _), account in self._accounts.items():
            if name == queue:
                add_to(total, account.usage)
        return {what: amount for what, amount in total.items() if amount}

    def handed(self) -> list[HandedOver]:
        """Return what is in use and not counted, since it is counted for those whom it is meant for."""
        return [
            HandedOver(who, queue, account.handed) for (queue, who), account in self._accounts.items() if account.handed
        ]

    def held_by(self, who: str) -> Usage:
        """Return what somebody holds, in all queues together."""
        total: Usage = {}
        for queue in self._of.get(who, ()):
            add_to(total, self._accounts[queue, who].usage)
        return total

    def queues(self) -> list[str]:
        """Return the queues in which anything is held, existing or not."""
        return list(dict.fromkeys(name for name, _ in self._accounts))

    def charge(self, queue: str, per_pod: Mapping[FlavorResource, int], who: str, pods: int = 1) -> None:
        """Let `who` use more in a queue, for so many pods."""
        account = self._accounts.get((queue, who))
        if account is None:
            usage: Usage = {}
            account = self._accounts[queue, who] = Account(AdmittedWorkload(who, queue, usage), usage)
            self._of.setdefault(who, {})[queue] = None
            self.snapshot.enrol(account.holder)
        self._touched[who] = None
        account.pods += pods
        change = per_pod if pods == 1 else _times(per_pod, pods)
        add_to(account.usage, change)
        self.snapshot.charge(queue, change)
        if self.held_for.on:
            self.held_for.add(queue, who, change, 1, accounts=account.pods == pods)
        self.changes.moved(queue)

    def admit(self, queue: str, accounts: Sequence[Account]) -> None:
        """Let some who hold nothing yet use what their accounts say of a queue."""
        total: Usage = {}
        for account in accounts:
            who = account.holder.name
            self._accounts[queue, who] = account
            self._of.setdefault(who, {})[queue] = None
            self._touched[who] = None
            self.snapshot.enrol(account.holder)
            add_to(total, account.usage)
            if self.held_for.on:
                self.held_for.add(queue, who, account.usage, 1, accounts=1)
        self.snapshot.charge(queue, total)
        self.changes.moved(queue)

    def refund(
        self, queue: str, per_pod: Mapping[FlavorResource, int], who: str, pods: int = 1, *, told: bool = True
    ) -> None:
        """Let `who` use less in a queue: others may have it now, and unless it is for a moment, are `told` so."""
        account = self._accounts[queue, who]
        self._touched[who] = None
        account.pods -= pods
        change = _times(per_pod, pods)
        self.snapshot.refund(queue, account.less(change))
        if self.held_for.on:
            self.held_for.add(queue, who, change, -1, accounts=0 if account.pods else -1)
        if told:
            self.changes.freed(queue)
        else:
            self.changes.eased(queue)
        if not account.pods:
            self.snapshot.dismiss(account.holder)
            del self._accounts[queue, who]
            del self._of[who][queue]
            if not self._of[who]:
                del self._of[who]

    def adjust(self, queue: str, change: Mapping[FlavorResource, int], who: str) -> None:
        """Let `who` use more in a queue for the same pods, or less where the change is negative."""
        account = self._accounts[queue, who]
        self._touched[who] = None
        if self.held_for.on:
            self.held_for.add(queue, who, change, 1)
        more = {what: amount for what, amount in change.items() if amount > 0}
        less = {what: -amount for what, amount in change.items() if amount < 0}
        account.more(more)
        self.snapshot.charge(queue, more)
        self.changes.moved(queue)
        if less:
            self.snapshot.refund(queue, account.less(less))
            self.changes.freed(queue)

    def hand_over(self, who: str, wanted: Mapping[FlavorResource, int]) -> list[HandedOver]:
        """Count what somebody will leave as free already, up to what is wanted; nobody is told that it is.

        It stays in use until it is given back, but is no longer counted: whoever it is meant for is charged for it.

        Returns:
            What was handed over, for `take_back`.
        """
        done = []
        self._touched[who] = None
        left = dict(wanted)
        for queue in self._of.get(who, ()):
            change = self._accounts[queue, who].hand_over(left)
            for what, amount in change.items():
                left[what] -= amount
            self.snapshot.refund(queue, change)
            self.changes.eased(queue)
            done.append(HandedOver(who, queue, change))
        return done

    def take_back(self, handed: Sequence[HandedOver]) -> None:
        """Count again what was handed over and is still in use."""
        for one in handed:
            account = self._accounts.get((one.queue, one.who))
            if account is not None:
                self._touched[one.who] = None
                self.snapshot.charge(one.queue, account.take_back(one.usage))
                self.changes.moved(one.queue)

    def with_handed(self, handed: Sequence[HandedOver]) -> list[tuple[AdmittedWorkload, AdmittedWorkload]]:
        """Return the holders that handed something over: as they are counted, and with what they handed over."""
        sums: dict[tuple[str, str], Usage] = {}
        for one in handed:
            if (one.queue, one.who) in self._accounts:
                add_to(sums.setdefault((one.queue, one.who), {}), one.usage)
        accounts = ((self._accounts[key], total) for key, total in sums.items())
        return [(account.holder, account.with_handed(total)) for account, total in accounts]

    def holds(self, who: str) -> bool:
        """Whether somebody holds anything."""
        return who in self._of

    def describe(self, who: str, like: AdmittedWorkload) -> None:
        """Take over what preemption goes by of a holder, from a record of which queue and usage do not count."""
        for queue in self._of.get(who, ()):
            account = self._accounts[queue, who]
            if _PREEMPTION_RELEVANT(like) != _PREEMPTION_RELEVANT(account.holder):
                if account.described and like.priority != account.holder.priority:
                    self.changes.retry(queue)  # others may preempt it now
                account.described = True
                self.snapshot.dismiss(account.holder)
                account.holder = msgspec.structs.replace(like, name=who, queue=queue, usage=account.usage)
                self.snapshot.enrol(account.holder)

    def used_by(self, who: str) -> list[tuple[str, Mapping[FlavorResource, int]]]:
        """Return what somebody holds in which queues."""
        return [(queue, self._accounts[queue, who].usage) for queue in self._of.get(who, ())]

    @contextmanager
    def withheld(self, kept: Sequence[tuple[str, Usage]], of: str) -> Iterator[None]:
        """Inside, let some quota of some queues be used; at the end nobody is told that it is free again.

        It is kept for heads, and nobody uses it yet. So a queue does not borrow by it: what is kept beyond its own is
        used of its cohort alone. But for the queue `of` whoever is tried, whose own borrowing is limited together.
        """
        parts = [(queue, *self._own_and_beyond(queue, usage, whole=queue == of)) for queue, usage in kept]
        for queue, own, beyond in parts:
            self.snapshot.charge(queue, own)
            self.tree.add(queue, beyond, above=True)
            self.changes.moved(queue)
        try:
            yield
        finally:
            for queue, own, beyond in reversed(parts):
                self.tree.remove(queue, beyond, above=True)
                self.snapshot.refund(queue, own)
                self.changes.eased(queue)  # what was chosen inside may be chosen otherwise now

    def _own_and_beyond(self, queue: str, usage: Usage, *, whole: bool) -> tuple[Usage, Usage]:
        """Return how much of some usage a queue has of its own, or all of it, and the rest."""
        node = self.tree.queues.get(queue)
        if whole or node is None:
            return usage, {}
        own = {what: min(amount, max(0, node.own_left(what))) for what, amount in usage.items()}
        return own, {what: usage[what] - amount for what, amount in own.items()}

    def room_for(self, queue: str, per_pod: Mapping[FlavorResource, int]) -> int:
        """Return how many pods of this usage the queue has quota for now; without any usage, no limit (2**62)."""
        node = self.tree.queues[queue]
        return max(0, min((node.available(what) // n for what, n in per_pod.items() if n > 0), default=2**62))


def _root(tree: QuotaTree, queue: str) -> str:
    root = tree.queues[queue].root()
    return f"queue/{queue}" if root.leaf else f"cohort/{root.name}"


def _whole(account: Account) -> Usage:
    """Return what a holder uses, with what it has handed over."""
    total = dict(account.usage)
    add_to(total, account.handed)
    return total


def _times(per_pod: Mapping[FlavorResource, int], pods: int) -> Mapping[FlavorResource, int]:
    return per_pod if pods == 1 else {what: amount * pods for what, amount in per_pod.items()}
