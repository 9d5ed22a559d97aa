"""What each head of a queue could have, and at whose expense, looked at by itself.

Rules: Kueue, scheduler.go `nominate` and `getInitialAssignments` (0.20): a workload that does not fit in full, with or
without preemption, is tried with fewer pods where it allows that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tutti.queueing.requeue import Requeue
from tutti.quota.choice import Chooser, Only, Scan
from tutti.quota.flavors import Flavor, Queue
from tutti.quota.oracle import Oracle, Rules
from tutti.quota.outcome import Choice, Verdict
from tutti.quota.partial import largest_counts
from tutti.quota.podsets import PodSet
from tutti.quota.snapshot import Demand, Snapshot
from tutti.quota.topologies import Placing, put
from tutti.quota.topology import Misplaced
from tutti.quota.victims import Victim


@dataclass(frozen=True, slots=True)
class Head:
    """A waiting workload that is the next of its queue.

    Attributes:
        queued_at: Since when it waits, Unix seconds.
        scan: Where the scan of flavors stopped at its last try.
        labels: Those of its namespace.
    """

    name: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued_at: float = 0.0
    uid: str = ""
    scan: Scan = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def is_like(self, other: Head) -> bool:
        """Whether the other one would fare alike in the same queue."""
        return (self.priority, self.pod_sets) == (other.priority, other.pod_sets)


@dataclass(slots=True)
class Entry:
    """A head with what it could have.

    Attributes:
        choice: Its flavors; None where it was not looked at.
        victims: Who would have to go.
        admitted: Whether it has been given its quota.
        requeue: Where it goes otherwise.
        reason: Why it waits, in CamelCase.
        overtaken: Whether its preemption was skipped for the sake of another one in the same cycle.
        scan: Where to go on with the flavors, the next time.
    """

    head: Head
    choice: Choice | None = None
    victims: list[Victim] = field(default_factory=list)
    admitted: bool = False
    requeue: Requeue = Requeue.GENERIC
    reason: str = ""
    overtaken: bool = False
    scan: Scan = ()

    @property
    def priority(self) -> int:
        """That of its head."""
        return self.head.priority

    @property
    def queued_at(self) -> float:
        """That of its head."""
        return self.head.queued_at

    @property
    def usage(self) -> Mapping[tuple[str, str], int]:
        """What it would use."""
        return self.choice.usage if self.choice else {}


@dataclass(frozen=True, slots=True)
class Nominator:
    """Looks at heads by themselves.

    Attributes:
        queues: By name; a queue that is missing, on hold or has a problem admits nothing.
        lenient: Whether resources that a queue does not cover are left out of account.
    """

    snapshot: Snapshot
    queues: Mapping[str, Queue]
    flavors: Mapping[str, Flavor]
    rules: Rules = field(default_factory=Rules)
    lenient: bool = False

    def nominate(self, head: Head) -> Entry:
        """Look at a head; its entry has no choice where it may not be admitted through its queue at all."""
        queue = self.queues.get(head.queue)
        if queue is None or queue.problem is not None:
            return Entry(head, reason="Misconfigured" if queue is None else "Suspended")
        if queue.hold:
            return Entry(head, reason="Suspended")
        if queue.selector is None or not queue.selector.matches(head.labels):
            return Entry(head, requeue=Requeue.NAMESPACE_MISMATCH, reason="Misconfigured")
        entry = Entry(head)
        self.assign(entry, scan=head.scan)
        return entry

    def assign(self, entry: Entry, *, scan: Scan = (), only: Only | None = None) -> None:
        """Choose flavors and victims for an entry, as things are now.

        Args:
            entry: Changed.
            scan: Where to go on with the flavors.
            only: Restricts the flavors to consider.
        """
        head = entry.head
        found = self._try(head, head.pod_sets, scan, only)
        if not _done(found):
            found = self._with_fewer(head, scan, only) or found
        entry.choice, entry.victims = found
        entry.scan = entry.choice.scan()
        if entry.choice.verdict is Verdict.PREEMPT:
            self._foresee_places(entry.choice, entry.victims, head.pod_sets)

    def _foresee_places(self, choice: Choice, victims: list[Victim], pod_sets: Sequence[PodSet]) -> None:
        """Note where the pods will go once the victims are gone, or else anybody, so that others keep off."""
        sized = _sized(pod_sets, [mine.count for mine in choice.pod_sets])
        with self.snapshot.trial():
            for victim in victims:
                self.snapshot.remove(victim.holder)
            found = Placing(self.snapshot.topologies, self.flavors).place(choice, sized, empty=not victims)
        if not isinstance(found, Misplaced):
            put(choice, found)

    def _with_fewer(self, head: Head, scan: Scan, only: Only | None) -> tuple[Choice, list[Victim]] | None:
        counts = largest_counts(
            [pods.count for pods in head.pod_sets],
            [pods.count if pods.least is None else pods.least for pods in head.pod_sets],
            lambda counts: _done(self._try(head, _sized(head.pod_sets, counts), scan, only)),
        )
        return None if counts is None else self._try(head, _sized(head.pod_sets, counts), scan, only)

    def _try(
        self, head: Head, pod_sets: Sequence[PodSet], scan: Scan, only: Only | None
    ) -> tuple[Choice, list[Victim]]:
        node, policy = self.snapshot.queue(head.queue), self.snapshot.policy(head.queue)
        oracle = Oracle(self.snapshot, self.rules, head.queue, head.priority, head.queued_at)
        chooser = Chooser(
            self.queues[head.queue],
            node,
            self.flavors,
            policy,
            oracle,
            fair=self.rules.fair,
            lenient=self.lenient,
        )
        choice = chooser.choose(pod_sets, scan=scan, only=only)
        placing = Placing(self.snapshot.topologies, self.flavors)
        placing.settle(choice, pod_sets)
        if choice.verdict is not Verdict.PREEMPT:
            return choice, []
        wanted = {what: amount for what, amount in choice.usage.items() if amount}
        demand = Demand(head.queue, wanted, choice.contested(), head.priority, head.queued_at)
        return choice, self.rules.victims(
            self.snapshot, demand, lambda: not isinstance(placing.place(choice, pod_sets), Misplaced)
        )


def _sized(pod_sets: Sequence[PodSet], counts: Sequence[int]) -> list[PodSet]:
    return [replace(pods, count=count) for pods, count in zip(pod_sets, counts, strict=False)]


def _done(tried: tuple[Choice, list[Victim]]) -> bool:
    choice, victims = tried
    return choice.verdict is Verdict.FIT or bool(victims)
