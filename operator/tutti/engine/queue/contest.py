"""Who is next among the heads of all lines: asked anew after each admission, so that a line may have many in one turn.

Without fair sharing, the head whose quota comes from nearest, then the more important, then the one that has waited
longer. With it, the heads of a cohort tree compete by their shares (`quota/fair_sharing.py`), and the winners of all
trees by importance and time. What a head could have is looked at only when its tree has changed since.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from tutti.engine.admission.choices import nominate
from tutti.engine.records.lines import Line, Standing
from tutti.engine.state import State
from tutti.quota.fair_sharing import QueueOrdering, ShareKey, Tournament, borrowed_share, dominant_share
from tutti.quota.ordering import EntryKey, entry_key
from tutti.quota.proportion import PendingRequests, Proportion
from tutti.quota.tree import FlavorResource, QuotaNode

Place = tuple[float, EntryKey, str]


class Contender(Protocol):
    """One or more lines that put forward one head at a time."""

    def next(self, state: State) -> tuple[Place, Standing] | None:
        """Return the head and its place among those of all contenders, or None where there is none."""

    def followers(self, head: Standing) -> Iterator[Standing]:
        """Yield who of a head's bunch is put forward after it, if each is admitted as the head is."""

    def place(self, one: Standing) -> Place:
        """Return the place of one of these among the heads of all contenders."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is.

    Attributes:
        head: The one.
        number: Of its contender.
        contender: Has put it forward.
        rival: The place of the next contender, as it was when that was last looked at, and its number.
    """

    head: Standing
    number: int
    contender: Contender
    rival: tuple[Place, int] | None

    def followers(self) -> Iterator[Standing]:
        """Yield who of its bunch will be next after the head, one after the other, if each is admitted as it is."""
        for one in self.contender.followers(self.head):
            if self.rival is not None and (self.contender.place(one), self.number) > self.rival:
                return
            yield one


def contest(state: State, lines: Iterable[Line], pending: PendingRequests) -> Iterator[Turn]:
    """Yield who is to be tried next, until nobody is left; whoever asks must admit each, or let its bunch sleep.

    Args:
        state: What is used, and by what is compared.
        lines: Those with somebody to try.
        pending: What is waited for in all lines, these or not.
    """
    heap: list[tuple[Place, int, Contender]] = []
    for number, contender in enumerate(_contenders(state, lines, pending)):
        first = contender.next(state)
        if first is not None:
            heap.append((first[0], number, contender))
    heapq.heapify(heap)
    while heap:
        place, number, contender = heap[0]
        found = contender.next(state)
        if found is None:
            heapq.heappop(heap)
            continue
        if found[0] != place:
            heapq.heapreplace(heap, (found[0], number, contender))
            if heap[0][1] != number:
                continue
        rival = min(heap[1:3], default=None)
        yield Turn(found[1], number, contender, None if rival is None else rival[:2])


def _contenders(state: State, lines: Iterable[Line], pending: PendingRequests) -> list[Contender]:
    out: list[Contender] = []
    trees: dict[str, _Tree] = {}
    for line in lines:
        line.begin()
        head = line.head()
        if head is None:
            continue
        if not state.rules.fair or not head.bunch.root or line.name[1]:  # what runs already competes with nobody
            out.append(_Single(line))
        elif head.bunch.root in trees:
            trees[head.bunch.root].lines.append(line)
        else:
            snapshot = state.ledger.snapshot
            root = snapshot.queue(line.name[0]).root()
            measure = _measure(state.rules.ordering, root, pending)
            trees[head.bunch.root] = _Tree(Tournament(snapshot, root, state.ledger.stamp, measure), [line])
            out.append(trees[head.bunch.root])
    return out


def _measure(ordering: QueueOrdering, root: QuotaNode, pending: PendingRequests) -> Callable[[QuotaNode], ShareKey]:
    """Return what is compared in one tree in this turn."""
    if ordering is QueueOrdering.PROPORTION:
        return Proportion(root, pending).share
    return dominant_share if ordering is QueueOrdering.DOMINANT_SHARE else borrowed_share


@dataclass(frozen=True, slots=True)
class _Single:
    """A line that competes by itself."""

    line: Line

    def next(self, state: State) -> tuple[Place, Standing] | None:
        head = self.line.head()
        if head is None:
            return None
        choice = nominate(state, head)
        return _place(head, 0 if choice is None else choice.level), head

    def followers(self, head: Standing) -> Iterator[Standing]:
        return self.line.followers(head)

    def place(self, one: Standing) -> Place:
        choice = one.bunch.choice
        return _place(one, 0 if choice is None else choice.level)


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of a queue in the tournament of its tree."""

    standing: Standing
    priority: int
    queued_at: float
    usage: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class _Tree:
    """The lines of one cohort tree, whose heads compete by fair shares."""

    tournament: Tournament
    lines: list[Line]

    def next(self, state: State) -> tuple[Place, Standing] | None:
        while heads := {line.name[0]: _head(state, head) for line in self.lines if (head := line.head()) is not None}:
            first = heads[self.tournament.winner(heads)]
            choice = nominate(state, first.standing)
            if choice is None or choice.usage == first.usage:
                return _place(first.standing, 0), first.standing
        return None

    def followers(self, head: Standing) -> Iterator[Standing]:
        if len(self.lines) > 1:
            return iter(())  # each admission changes the shares
        return self.lines[0].followers(head)

    def place(self, one: Standing) -> Place:
        return _place(one, 0)


def _head(state: State, standing: Standing) -> _Head:
    """Return a head as it competes: by what it could have when it was last looked at, unless more may be free now."""
    bunch, queue = standing.bunch, standing.queue
    choice = bunch.choice
    if choice is None or queue is None or not state.ledger.only_used_since(queue.name, bunch.version):
        choice = nominate(state, standing)
    usage = {} if choice is None else choice.usage
    return _Head(standing, _priority(standing), standing.workload.stands_since, usage)


def _place(standing: Standing, level: int) -> Place:
    workload = standing.workload
    return workload.rank, entry_key(_priority(standing), workload.stands_since, level), workload.name


def _priority(standing: Standing) -> int:
    """Return what the priority counts among all queues."""
    queue, priority = standing.queue, standing.workload.priority
    return priority if queue is None else queue.cross_queue_priority(priority)
