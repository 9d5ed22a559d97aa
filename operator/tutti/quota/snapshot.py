"""The quota tree together with who holds what of it, to try out removals and to take them back.

Kueue simulates on a copy of its whole cache (0.20, pkg/cache/scheduler/snapshot.go). Here a trial notes what it did
and undoes it at its end, so that it costs what it touches and not what there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import msgspec

from tutti.quota.policy import NOBODY, Preemptible, PreemptionPolicy, Ranked, priority_in
from tutti.quota.tree import FlavorResource, QuotaNode, QuotaTree, Usage, add_to


class AdmittedWorkload(msgspec.Struct, frozen=True, eq=False):
    """A workload that holds quota.

    Attributes:
        queued_at: When it came into its queue, Unix seconds.
        reserved_at: When it was given quota, Unix seconds; infinite where that has not been written down yet.
        evicted: Whether it is on its way out already.
        usage: What it holds; a flavor that it is counted in without using any of it is there with 0.
        local_queue: Namespace and name of its LocalQueue.
        cross_queue_priority: What its priority counts among all queues; None for the same.
        out_of_turn: Whether it was admitted though others had smaller shares; these do not take it out.
    """

    name: str
    queue: str
    usage: Mapping[FlavorResource, int]
    priority: int = 0
    queued_at: float = -math.inf
    reserved_at: float = math.inf
    evicted: bool = False
    uid: str = ""
    local_queue: str = ""
    cross_queue_priority: int | None = None
    out_of_turn: bool = False


def usage_of_all(holders: Iterable[AdmittedWorkload]) -> Usage:
    """Return what some workloads hold together."""
    total: Usage = {}
    for holder in holders:
        add_to(total, holder.usage)
    return total


class Demand(msgspec.Struct, frozen=True):
    """A workload that wants quota which is not free.

    Attributes:
        usage: What it wants in all.
        contested: The flavors and resources of which there is too little.
        cross_queue_priority: What its priority counts among all queues; None for the same.
    """

    queue: str
    usage: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]
    priority: int = 0
    queued_at: float = -math.inf
    cross_queue_priority: int | None = None


class QueueHolders:
    """Who holds quota in one ClusterQueue: in the order they came, and by what their priorities count.

    Whom a policy names is found by these priorities, so that nobody is looked at who is too important to be preempted.
    """

    def __init__(self) -> None:
        self._holders: dict[str, AdmittedWorkload] = {}
        self._places: dict[str, int] = {}
        self._last = 0
        self._ranks: dict[tuple[int, int | None], dict[str, AdmittedWorkload]] = {}

    def all(self) -> list[AdmittedWorkload]:
        """Return everybody, in the order they came."""
        return list(self._holders.values())

    def put(self, holder: AdmittedWorkload) -> None:
        """Take in a holder as the last that came, in the place of any of the same name."""
        if holder.name in self._holders:
            self.drop(holder.name)
        self._last += 1
        self._holders[holder.name] = holder
        self._places[holder.name] = self._last
        self._ranks.setdefault(_rank(holder), {})[holder.name] = holder

    def drop(self, name: str) -> None:
        """Take out a holder; KeyError where there is none of this name."""
        holder = self._holders.pop(name)
        del self._places[name]
        here = self._ranks[_rank(holder)]
        del here[name]
        if not here:
            del self._ranks[_rank(holder)]

    def allowed(self, who: Preemptible, preemptor: Ranked, *, across_queues: bool) -> list[AdmittedWorkload]:
        """Return those whom a policy lets a workload preempt (`policy.allows`), in the order they came.

        Args:
            who: The policy.
            preemptor: The workload.
            across_queues: Whether it is of another queue.
        """
        if who is Preemptible.NEVER:
            return []
        if who is Preemptible.ANY:
            return self.all()
        mine = priority_in(preemptor, across_queues=across_queues)
        some: list[list[AdmittedWorkload]] = []
        for here in self._ranks.values():
            theirs = priority_in(next(iter(here.values())), across_queues=across_queues)  # the same of all of a rank
            if theirs < mine:
                some.append(list(here.values()))
            elif theirs == mine and who is Preemptible.LOWER_OR_NEWER_EQUAL_PRIORITY:
                some.append([one for one in here.values() if preemptor.queued_at < one.queued_at])
        if len(some) == 1:
            return some[0]
        return sorted(chain.from_iterable(some), key=lambda one: self._places[one.name])


def _rank(holder: AdmittedWorkload) -> tuple[int, int | None]:
    return holder.priority, holder.cross_queue_priority


@dataclass(frozen=True, slots=True)
class _Step:
    queue: str
    usage: Mapping[FlavorResource, int]
    added: bool
    holders: Sequence[AdmittedWorkload] = ()


UsedLately = Callable[[AdmittedWorkload], "float | None"]
"""What the LocalQueue of a holder has used lately; None where its ClusterQueue does not go by that."""


Unprotected = Callable[[list[AdmittedWorkload]], list[AdmittedWorkload]]
"""Leaves out of some holders those that may not be preempted for now, whatever the policies say."""


def everybody(holders: list[AdmittedWorkload]) -> list[AdmittedWorkload]:
    """Return those who may be preempted where nobody is protected."""
    return holders


def nobody_knows(_: AdmittedWorkload) -> float | None:
    """What there is to say of past use where no ClusterQueue goes by it."""
    return None


class Snapshot:
    """A quota tree, the workloads that hold quota, by queue, and what each queue allows itself.

    Args:
        tree: What the queues use must be what the holders added here use, and what `charge` adds.
        policies: By queue; one without an entry preempts nobody.
        unprotected: Who of some holders may be preempted for now, as far as the policies say so.
        used_lately: What counts first in the order of victims of one queue.
    """

    def __init__(
        self,
        tree: QuotaTree,
        policies: Mapping[str, PreemptionPolicy],
        unprotected: Unprotected = everybody,
        used_lately: UsedLately = nobody_knows,
    ) -> None:
        self.tree = tree
        self.unprotected = unprotected
        self.used_lately = used_lately
        self._policies = policies
        self._holders: dict[str, QueueHolders] = {}
        self._steps: list[_Step] = []
        self._trials = 0

    def policy(self, queue: str) -> PreemptionPolicy:
        """Return what a queue allows itself."""
        return self._policies.get(queue, NOBODY)

    def queue(self, name: str) -> QuotaNode:
        """Return a ClusterQueue's node."""
        return self.tree.queues[name]

    def holders(self, queue: str) -> list[AdmittedWorkload]:
        """Return who holds quota in a queue."""
        here = self._holders.get(queue)
        return [] if here is None else here.all()

    def allowed(self, who: Preemptible, demand: Demand, queue: str) -> list[AdmittedWorkload]:
        """Return who holds quota in a queue and may be preempted for a demand by a policy, protected or not."""
        here = self._holders.get(queue)
        return [] if here is None else here.allowed(who, demand, across_queues=queue != demand.queue)

    def candidates(self, who: Preemptible, demand: Demand, queue: str) -> list[AdmittedWorkload]:
        """Return those of them who use any of what is contested, and are not protected."""
        contested = demand.contested
        return self.unprotected(
            [one for one in self.allowed(who, demand, queue) if not contested.isdisjoint(one.usage)]
        )

    def has_candidate(self, who: Preemptible, demand: Demand, queue: str) -> bool:
        """Whether there is any."""
        contested, there = demand.contested, self.allowed(who, demand, queue)
        return any(not contested.isdisjoint(one.usage) and bool(self.unprotected([one])) for one in there)

    def missing(self) -> list[AdmittedWorkload]:
        """Return the holders that trials have removed and not added again, in the order of removal."""
        gone: dict[str, AdmittedWorkload] = {}
        for step in self._steps:
            for holder in step.holders:
                if step.added:
                    gone.pop(holder.name, None)
                else:
                    gone[holder.name] = holder
        return list(gone.values())

    def enrol(self, holder: AdmittedWorkload) -> None:
        """List a workload that holds quota, outside of any trial; what it uses is charged piece by piece."""
        self._put(holder)

    def dismiss(self, holder: AdmittedWorkload) -> None:
        """List a workload no more, outside of any trial; what it used is refunded piece by piece."""
        self._holders[holder.queue].drop(holder.name)

    def add(self, holder: AdmittedWorkload) -> None:
        """Count a workload that holds quota."""
        self._do(_Step(holder.queue, holder.usage, added=True, holders=(holder,)))

    def remove(self, holder: AdmittedWorkload) -> None:
        """Count a workload no more."""
        self._do(_Step(holder.queue, holder.usage, added=False, holders=(holder,)))

    def remove_all(self, queue: str, holders: Sequence[AdmittedWorkload], usage: Usage) -> None:
        """Count several workloads of one queue no more; `usage` is what they hold together."""
        self._do(_Step(queue, usage, added=False, holders=holders))

    def remove_each(self, holders: Iterable[AdmittedWorkload]) -> None:
        """Count workloads of any queues no more."""
        by_queue: dict[str, list[AdmittedWorkload]] = {}
        for holder in holders:
            by_queue.setdefault(holder.queue, []).append(holder)
        for queue, here in by_queue.items():
            self.remove_all(queue, here, usage_of_all(here))

    def charge(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Use more in a queue, on behalf of nobody who could be preempted."""
        if self._trials:
            self._steps.append(_Step(queue, usage, added=True))
        self.tree.add(queue, usage)

    def refund(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Take back a charge."""
        if self._trials:
            self._steps.append(_Step(queue, usage, added=False))
        self.tree.remove(queue, usage)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo at its end whatever is added and removed inside."""
        start = len(self._steps)
        self._trials += 1
        try:
            yield
        finally:
            self._trials -= 1
            while len(self._steps) > start:
                step = self._steps.pop()
                self._apply(step, added=not step.added)

    def _do(self, step: _Step) -> None:
        self._apply(step, added=step.added)
        if self._trials:
            self._steps.append(step)

    def _apply(self, step: _Step, *, added: bool) -> None:
        if added:
            self.tree.add(step.queue, step.usage)
            for holder in step.holders:
                self._put(holder)
        else:
            self.tree.remove(step.queue, step.usage)
            for holder in step.holders:
                self._holders[step.queue].drop(holder.name)

    def _put(self, holder: AdmittedWorkload) -> None:
        here = self._holders.get(holder.queue)
        if here is None:
            here = self._holders[holder.queue] = QueueHolders()
        here.put(holder)
