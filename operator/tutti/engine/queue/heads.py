"""Who is next among the heads of all queues, asked anew after each admission: a queue may have many in one turn.

Without fair sharing, the head whose quota comes from nearest, then the more important, then the one that has waited
longer. With it, the heads of a cohort tree compete by their shares (`quota/fair_sharing.py`), and the winners of all
trees by importance and time. What a head could have is looked at only when its tree has changed since.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from tutti.engine.admission.attempt import assign_flavors, last_widest, widest_assignment
from tutti.engine.queue import QueueState
from tutti.engine.records.queue_entries import PendingQueue, QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.fair_sharing import Key, QueueOrdering, ShareKey, Tournament, borrowed_share, dominant_share
from tutti.quota.ordering import EntryKey, entry_key
from tutti.quota.proportion import PendingRequests, Proportion
from tutti.quota.tree import FlavorResource, QuotaNode

Place = tuple[float, EntryKey, str]


Candidate = tuple[Place, QueueEntry, WorkloadAssignment | None]
"""A head, its place among those of all contenders, and the flavors that it could have by quota."""


ShutOut = Callable[[Workload, Exception], None]
FailsAgain = Callable[[QueueEntry], bool]


class Contender(Protocol):
    """One or more queues that put forward one head at a time."""

    def next(self, state: QueueState) -> Candidate | None:
        """Return the head that is put forward, or None where there is none."""

    def followers(self, head: QueueEntry) -> Iterator[QueueEntry]:
        """Yield who of those equal to a head is put forward after it, if each is admitted as the head is."""

    def place(self, one: QueueEntry) -> Place:
        """Return the place of one of these among the heads of all contenders."""


class ParkedForQuota(Protocol):
    """Those who are parked until it is known that something could come of looking at them."""

    def nearest(self, state: QueueState, *, has_others: bool) -> Place | None:
        """Return where the next of them stands, or before that, beside others or alone; None where there is nobody."""

    def rouse(self) -> PendingQueue:
        """Have all tried who are parked in the line of that one, and return the line."""

    def asked(self) -> Collection[str]:
        """Return the quota trees in which anybody was to be looked at in this turn."""

    def some_queue(self, root: str) -> str:
        """Return a ClusterQueue of one of these trees."""

    def is_asked(self, root: str) -> bool:
        """Whether anybody who is parked in a tree is to be looked at."""

    def rouse_by_share(self, state: QueueState, root: str, head: tuple[str, Key] | None) -> PendingQueue | None:
        """Have all tried who are parked in the line of one who may go before a head of a tree, and return the line."""


class NextHead(msgspec.Struct, frozen=True):
    """Whose turn it is.

    Attributes:
        entry: Who it is.
        choice: The flavors that it could have by quota; None where it needs none.
        number: Of its contender.
        contender: Has put it forward.
        rival: The place of the next contender, as it was when that was last looked at, and its number.
    """

    entry: QueueEntry
    choice: WorkloadAssignment | None
    number: int
    contender: Contender
    rival: tuple[Place, int] | None

    def followers(self) -> Iterator[QueueEntry]:
        """Yield who of those equal to it will be next, one by one, if each before is admitted."""
        for one in self.contender.followers(self.entry):
            if self.rival is not None and (self.contender.place(one), self.number) > self.rival:
                return
            yield one


class Batch(msgspec.Struct, frozen=True):
    """Who is tried at once.

    Attributes:
        entries: The one whose turn it is, and equal single pods that are next if all before them are admitted: some of
            them may be as well, the first ones.
        choice: The flavors that each of them could have by quota; None where none is needed.
    """

    entries: Sequence[QueueEntry]
    choice: WorkloadAssignment | None


def next_heads(
    state: QueueState,
    lines: Iterable[PendingQueue],
    pending: PendingRequests,
    *,
    fails_again: FailsAgain,
    shut_out: ShutOut,
    parked: ParkedForQuota | None = None,
) -> Iterator[NextHead]:
    """Yield who is to be tried next, until nobody is left; whoever asks must admit each, or park it.

    Args:
        fails_again: Says of whoever is next whether a try would come to nothing; such a one is parked by that.
        shut_out: Takes out of its line one of which looking at its quota has raised.
        parked: Who competes beside those.
        state: What is used, and by what is compared.
        lines: Those with somebody to try.
        pending: What is waited for in all lines, these or not.
    """
    heap: list[tuple[Place, int, Contender]] = []
    known: dict[int, Candidate] = {}  # what contenders have said since somebody was tried last
    contenders = _contenders(state, lines, pending, shut_out, parked)
    if state.rules.fair:
        parked = None  # they compete within their trees
    for number, contender in enumerate(contenders):
        first = contender.next(state)
        if first is not None:
            known[number] = first
            heap.append((first[0], number, contender))
    heapq.heapify(heap)
    while True:
        nearest = None if parked is None else parked.nearest(state, has_others=bool(heap))
        if parked is not None and nearest is not None and (not heap or nearest <= heap[0][0]):
            line = parked.rouse()
            line.begin()
            contenders.append(_Single(line, shut_out))
            found = contenders[-1].next(state)
            if found is not None:
                known[len(contenders) - 1] = found
                heapq.heappush(heap, (found[0], len(contenders) - 1, contenders[-1]))
            continue
        if not heap:
            return
        place, number, contender = heap[0]
        found = known[number] if number in known else contender.next(state)
        if found is None:
            heapq.heappop(heap)
            continue
        if found[0] != place:
            known[number] = found
            heapq.heapreplace(heap, (found[0], number, contender))
            continue
        if fails_again(found[1]):
            known.pop(number, None)  # what the others have said stands: nobody has got anything
            continue
        rivals = [one[:2] for one in heap[1:3]] + ([] if nearest is None else [(nearest, len(contenders))])
        yield NextHead(found[1], found[2], number, contender, min(rivals, default=None))
        known.clear()


def _contenders(
    state: QueueState,
    lines: Iterable[PendingQueue],
    pending: PendingRequests,
    shut_out: ShutOut,
    parked: ParkedForQuota | None,
) -> list[Contender]:
    out: list[Contender] = []
    trees: dict[str, _Tree] = {}

    def tree(name: str, queue: str) -> _Tree:
        if name not in trees:
            snapshot = state.ledger.snapshot
            root = snapshot.queue(queue).root()
            tournament = Tournament(snapshot, root, _measure(state.rules.ordering, root, pending))
            trees[name] = _Tree(state, name, tournament, shut_out, parked)
            out.append(trees[name])
        return trees[name]

    for line in lines:
        line.begin()
        head = line.head()
        if head is None:
            continue
        if not state.rules.fair or not head.equivalence.root or line.name[1]:  # what runs already competes with nobody
            out.append(_Single(line, shut_out))
        else:
            tree(head.equivalence.root, line.name[0]).take_in(line)
    if parked is not None and state.rules.fair:
        for name in parked.asked():
            tree(name, parked.some_queue(name))
    return out


def _measure(ordering: QueueOrdering, root: QuotaNode, pending: PendingRequests) -> Callable[[QuotaNode], ShareKey]:
    """Return what is compared in one tree in this turn."""
    if ordering is QueueOrdering.PROPORTION:
        return Proportion(root, pending).share
    return dominant_share if ordering is QueueOrdering.DOMINANT_SHARE else borrowed_share


@dataclass(frozen=True, slots=True)
class _Single:
    """A line that competes by itself."""

    line: PendingQueue
    shut_out: ShutOut

    def next(self, state: QueueState) -> Candidate | None:
        while (head := self.line.head()) is not None:
            try:
                choice = assign_flavors(state, head)
                widest = widest_assignment(state, head, choice)
            except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
                self.shut_out(head.workload, error)
                continue
            return place_among_heads(head, 0 if widest is None else widest.level), head, choice
        return None

    def followers(self, head: QueueEntry) -> Iterator[QueueEntry]:
        return self.line.followers(head)

    def place(self, one: QueueEntry) -> Place:
        choice = one.equivalence.choice
        return place_among_heads(one, 0 if choice is None else choice.level)


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of a queue in the tournament of its tree."""

    entry: QueueEntry
    priority: int
    queued_at: float
    usage: Mapping[FlavorResource, int]


class _Tree:
    """The lines of one cohort tree, whose heads compete by fair shares, and those who are parked in it.

    Only what may be another since it was asked last is asked again: the head of a line that has changed, and the path
    in the tree above a queue of which more or less is used. Where quota was given back, all heads are.
    """

    def __init__(
        self, state: QueueState, name: str, tournament: Tournament, shut_out: ShutOut, parked: ParkedForQuota | None
    ) -> None:
        self._name = name
        self._tournament = tournament
        self._shut_out = shut_out
        self._parked = parked
        self._lines: dict[str, PendingQueue] = {}
        self._heads: dict[str, _Head] = {}
        self._changes: dict[str, None] = {}
        self._restless: dict[str, None] = {}
        self._moment = state.ledger.changes.moment
        self._frees = state.ledger.changes.frees_of(name)

    def take_in(self, line: PendingQueue) -> None:
        """Have a line compete that has begun."""
        name = line.name[0]
        self._lines[name] = line
        self._changes[name] = None
        line.changes = self._changes
        if not line.is_steady:
            self._restless[name] = None

    def next(self, state: QueueState) -> Candidate | None:
        self._bring_up_to_date(state)
        while True:
            winner = self._tournament.winner()
            if self._rouse(state, winner):
                self._bring_up_to_date(state)
                continue
            if winner is None:
                return None
            first = self._heads[winner]
            choice = assign_flavors(state, first.entry)
            widest = widest_assignment(state, first.entry, choice)
            if widest is None or widest.usage == first.usage:
                return place_among_heads(first.entry, 0), first.entry, choice
            self._put(winner, replace(first, usage=widest.usage))

    def _bring_up_to_date(self, state: QueueState) -> None:
        changes = state.ledger.changes
        for queue in changes.moved_since(self._moment):
            if changes.root_of(queue) == self._name:
                self._tournament.has_moved(queue)
        frees, self._moment = changes.frees_of(self._name), changes.moment
        changed = list(self._lines if frees != self._frees else {**self._changes, **self._restless})
        self._frees = frees
        self._changes.clear()
        for queue in changed:
            self._put(queue, self._head(state, self._lines[queue]))

    def _put(self, queue: str, head: _Head | None) -> None:
        if head is None:
            self._heads.pop(queue, None)
        else:
            self._heads[queue] = head
        self._tournament.put(queue, head)

    def _rouse(self, state: QueueState, winner: str | None) -> bool:
        """Have somebody parked compete who may go before the one that would win; returns whether anybody does."""
        if self._parked is None or not self._parked.is_asked(self._name):
            return False
        head = None if winner is None else (winner, self._tournament.key(winner))
        line = self._parked.rouse_by_share(state, self._name, head)
        if line is None:
            return False
        line.begin()
        self.take_in(line)
        return True

    def _head(self, state: QueueState, line: PendingQueue) -> _Head | None:
        while (head := line.head()) is not None:
            try:
                return _head(state, head)
            except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
                self._shut_out(head.workload, error)
        return None

    def followers(self, head: QueueEntry) -> Iterator[QueueEntry]:
        if len(self._lines) > 1 or (self._parked is not None and self._parked.is_asked(self._name)):
            return iter(())  # each admission changes the shares
        return next(iter(self._lines.values())).followers(head)

    def place(self, one: QueueEntry) -> Place:
        return place_among_heads(one, 0)


def _head(state: QueueState, entry: QueueEntry) -> _Head:
    """Return a head as it competes: by what it could have when it was last looked at, unless more may be free now."""
    equals, queue = entry.equivalence, entry.queue
    choice = last_widest(entry)
    if choice is None or queue is None or not state.ledger.changes.only_used_since(queue.name, equals.version):
        choice = widest_assignment(state, entry, assign_flavors(state, entry))
    usage = {} if choice is None else choice.usage
    return _Head(entry, _priority(entry), entry.workload.stands_since, usage)


def place_among_heads(entry: QueueEntry, level: int) -> Place:
    """Return the place of a head among those of all contenders, whose quota would come from so far away.

    Where members go by what they gain, those beyond a minimum come after all who wait: the first members gain most.
    """
    workload, queue = entry.workload, entry.queue
    grows = queue is not None and queue.by_speed and bool(entry.equivalence.line.name[1])
    since = math.inf if grows else workload.stands_since
    return workload.rank, entry_key(_priority(entry), since, level), workload.name


def _priority(entry: QueueEntry) -> int:
    """Return what the priority counts among all queues."""
    queue, priority = entry.queue, entry.workload.priority
    return priority if queue is None else queue.cross_queue_priority(priority)
