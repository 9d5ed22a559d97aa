"""The queues in which workloads wait for quota and nodes: one for each ClusterQueue, one for those without a queue.

Equal workloads of a queue are one equivalence class. When the first of a class fails, the others would fail alike,
so the whole class is parked until something happens that can help it. A strict queue lets nobody by whose turn
comes after that of a head that is parked; whoever is parked for a limit of his own user is no such head.

What has left a queue is let go of at once: classes of pods live as long as somebody holds them, and what is known of
a class must not depend on when Python finds rings of objects.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.line_order import FirstPlace, LineOrder, OrderFacts, Terms, Traits
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Workload
from tutti.quota.assigner import PodSetRequests
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.flavors import PodSet, Queue
from tutti.quota.ordering import HeadKey
from tutti.quota.queue_order import QueueOrder

Shape = tuple[object, ...]
"""What decides how a workload fares: those of equal shape fare alike in the same state."""

QueueKey = tuple[float, HeadKey, Traits | None]
"""What a sort plugin says (0 for all where there is none), then importance and age; sorts the next one first.

Of two workloads the second differs always. The last is what the order of its queue goes by, where that has one.
"""

Order = tuple[float, float, Terms, HeadKey]
"""What a sort plugin says, what the LocalQueue has used lately, what the queue's order says, importance and age."""


def _nothing(_: str) -> float:
    return 0.0


def _nobody(_: Collection[EquivalenceClass]) -> AbstractSet[EquivalenceClass]:
    return frozenset()


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A workload's place in a line.

    Attributes:
        needs: The pods that want nodes.
        key: Sorts those of a line, the next one first.
        queue: The ClusterQueue that it stands at.
        left: Whether it has left the line.
    """

    workload: Workload
    needs: list[PodSetRequest]
    key: QueueKey
    equivalence: EquivalenceClass
    queue: Queue | None = field(init=False)
    left: bool = False

    def __post_init__(self) -> None:
        self.queue = self.equivalence.queue

    def is_at(self, line: tuple[str, str], key: QueueKey, shape: Shape) -> bool:
        """Whether this is its place in that line."""
        return (self.equivalence.line.name, self.key, self.equivalence.shape) == (line, key, shape)


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Equal workloads of one line.

    Attributes:
        queue: The ClusterQueue, None where none is needed.
        root: The quota tree that it is in; "" where it needs no quota.
        pod_sets: What the required pods of each of them ask of quota, and the needs these are of, by index.
        asks: What each of them asks for per resource, pods beyond the required ones included.
        local_queue: Their LocalQueue (`namespace/name`), where it counts what that has used lately.
        why: Why the first of them had to wait, while they are parked.
        before: The same of the last time that they slept.
        fresh: Whether any has joined them since then.
        looked_at: When that was last looked at because it might be told anew, Unix seconds.
        stale: Whether they are parked by what was found before, so that its numbers may be others now.
        choice: The flavors that each could have, as of `version` of the tree.
        own: The same where it was all their queue's own, and there is no other choice.
        widest: The flavors that each could have with as many surplus pods as fit by quota, as of which version.
        known: What does not change of what the pod sets ask of the queue.
        apart: Whether each of them is tried by itself, since it was found that none could be admitted with others.
        called: Whether they are tried for room that was left on some nodes, and only as long as that is there.
        rests: How many tries of theirs cost so much that they rested after it.
        rests_until: Before that time nothing wakes them, Unix seconds.
    """

    line: PendingQueue
    shape: Shape
    queue: Queue | None
    root: str
    pod_sets: list[PodSet]
    asks: Mapping[str, int]
    local_queue: str = ""
    why: Explanation | None = None
    before: Explanation | None = None
    fresh: bool = False
    stale: bool = False
    looked_at: float = 0.0
    choice: WorkloadAssignment | None = None
    own: WorkloadAssignment | None = None
    version: tuple[int, int] = (-1, -1)
    widest: tuple[tuple[int, int], WorkloadAssignment] | None = None
    known: PodSetRequests = field(default_factory=PodSetRequests)
    apart: bool = False
    called: bool = False
    rests: int = 0
    rests_until: float = 0.0
    size: int = 0
    _heap: list[tuple[QueueKey, int, QueueEntry]] = field(default_factory=list)

    def first(self) -> QueueEntry | None:
        """Return the next of them."""
        heap = self._heap
        while heap and heap[0][2].left:
            heapq.heappop(heap)
        return heap[0][2] if heap else None

    def in_order(self) -> Iterator[QueueEntry]:
        """Yield all of them, the next one first; nobody may come meanwhile."""
        heap = self._heap
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            (_, _, entry), at = heapq.heappop(ahead)
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heapq.heappush(ahead, (heap[child], child))
            if not entry.left:
                yield entry

    def entries(self) -> Iterator[QueueEntry]:
        """Yield all of them, in no particular order but always the same."""
        return (one for _, _, one in self._heap if not one.left)

    def clear(self) -> None:
        """Let go of all of them."""
        for _, _, entry in self._heap:
            entry.left = True
        self._heap = []

    def add(self, entry: QueueEntry, number: int) -> None:
        """Take one in; `number` tells apart what came when."""
        self.size += 1
        self.fresh = True
        heapq.heappush(self._heap, (entry.key, number, entry))


@dataclass(slots=True, eq=False)
class PendingQueue:
    """The workloads that wait at one ClusterQueue.

    Attributes:
        name: That of the ClusterQueue, and what sets the line apart from others at it.
        strict: Whether a head that must wait blocks those behind it.
        used: Tells what a LocalQueue has used lately; within one turn that only grows.
        sorting: The order of its queue, where that has one; within one turn nobody comes nearer to the head by it.
        fitting: Tells who of some that were called finds room as things are now.
        told_head: Who was told by name which head blocks the line.
        changes: Where the line notes its name when its head may be another by now; None where nobody asks.
        is_steady: Whether only what is noted there changes its head, and not what others have been given meanwhile.
    """

    name: tuple[str, str]
    strict: bool
    used: Callable[[str], float] = _nothing
    sorting: LineOrder[EquivalenceClass] | None = None
    fitting: Callable[[Collection[EquivalenceClass]], AbstractSet[EquivalenceClass]] = _nobody
    told_head: dict[QueueEntry, None] = field(default_factory=dict)
    changes: dict[str, None] | None = None
    is_steady: bool = True
    _classes: dict[Shape, EquivalenceClass] = field(default_factory=dict)
    _active: dict[EquivalenceClass, None] = field(default_factory=dict)
    _parked: dict[EquivalenceClass, None] = field(default_factory=dict)
    _limited: dict[EquivalenceClass, None] = field(default_factory=dict)
    _run: Iterator[EquivalenceClass] = field(default_factory=lambda: iter(()))
    _last_of_run: EquivalenceClass | None = None
    _begun: bool = False
    _next: list[tuple[Order, int, EquivalenceClass]] = field(default_factory=list)
    _told: QueueEntry | None = None
    _fresh: list[QueueEntry] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def sort_by(self, order: QueueOrder, facts: OrderFacts) -> None:
        """Have its workloads tried in an order of their queue."""
        self.sorting = LineOrder(self.name[0], order, facts, first=_first_place, key=_first_key)

    @property
    def blocked(self) -> QueueEntry | None:
        """The head of a strict line that must wait, if it must."""
        if not self.strict:
            return None
        return min(self.parked(), key=self.order, default=None)

    def parked(self) -> Iterator[QueueEntry]:
        """Yield the first of each equivalence class that is parked, in no particular order but always the same.

        Those who wait for a limit of their user are left out: they are in nobody's way.
        """
        for equivalence in self._parked:
            first = equivalence.first()
            if first is not None:
                yield first

    @property
    def has_rivals(self) -> bool:
        """Whether anybody is parked, and somebody of another class waits as well."""
        return bool(self._parked) and len(self._classes) > 1

    def is_parked_alone(self, equivalence: EquivalenceClass) -> bool:
        """Whether nobody of another class is parked here."""
        return self._parked.keys() <= {equivalence}

    def equivalence(self, shape: Shape) -> EquivalenceClass | None:
        """Return the equivalence class of a shape, if there is one."""
        return self._classes.get(shape)

    def open_equivalence(self, equivalence: EquivalenceClass) -> None:
        """Begin an equivalence class; it is active."""
        self._classes[equivalence.shape] = equivalence
        self._active[equivalence] = None

    def add(self, entry: QueueEntry) -> None:
        """Take in a workload."""
        self._note_change()
        entry.equivalence.add(entry, next(self._numbers))
        traits = entry.key[2]
        if self.sorting is not None and traits is not None:
            self.sorting.come(entry.equivalence, traits)
        if self._begun:  # so it competes in this turn as well
            heapq.heappush(self._next, (self.order(entry), -1 - next(self._numbers), entry.equivalence))
        self.look_again(entry)

    def look_again(self, entry: QueueEntry) -> None:
        """Note that it is not known what a workload was told."""
        if self.strict:
            self._fresh.append(entry)

    def leave(self, entry: QueueEntry) -> None:
        """Let a workload go; a head that blocked the line blocks it no more."""
        entry.left = True
        self._note_change()
        self.told_head.pop(entry, None)
        equivalence = entry.equivalence
        equivalence.size -= 1
        traits = entry.key[2]
        if self.sorting is not None and traits is not None:
            self.sorting.go(equivalence, traits, last=not equivalence.size)
        if not equivalence.size:
            del self._classes[equivalence.shape]
            self._active.pop(equivalence, None)
            self._parked.pop(equivalence, None)
            self._limited.pop(equivalence, None)
            equivalence.clear()

    def close(self) -> None:
        """End what `begin` has prepared."""
        self._next, self._run, self._last_of_run, self.changes = [], iter(()), None, None
        self._begun = False

    def clear(self) -> None:
        """Let everybody go."""
        for equivalence in self._classes.values():
            equivalence.clear()
        for index in (self._classes, self._active, self._parked, self._limited):
            index.clear()
        if self.sorting is not None:
            self.sorting.clear()
        self.close()
        self._fresh, self._told, self.told_head = [], None, {}

    def park(self, equivalence: EquivalenceClass, why: Explanation) -> None:
        """Let an equivalence class wait until something happens; in a strict line so does all behind its first."""
        equivalence.why = equivalence.before = why
        equivalence.fresh = equivalence.stale = equivalence.apart = equivalence.called = False
        self._note_change()
        del self._active[equivalence]
        (self._limited if why.gate is Gate.USER_LIMIT else self._parked)[equivalence] = None

    def activate(self, equivalence: EquivalenceClass) -> None:
        """Have an equivalence class tried again."""
        if equivalence.size and equivalence.why is not None:
            equivalence.why = None
            self._note_change()
            self._limited.pop(equivalence, None)
            self._parked.pop(equivalence, None)
            self._active[equivalence] = None

    def begin(self) -> None:
        """Prepare for `head`: put the first of all equivalence classes that are active in order."""
        self._note_change()
        self._begun = True
        self.is_steady = self.sorting is None and not any(one.called or one.local_queue for one in self._active)
        if self.sorting is not None and not any(one.local_queue for one in self._active):
            self._next, self._run = [], self.sorting.sorted(self._active)
            self._draw()
            return
        firsts = ((equivalence.first(), number, equivalence) for number, equivalence in enumerate(self._active))
        self._next = [
            (self.order(first), number, equivalence) for first, number, equivalence in firsts if first is not None
        ]
        heapq.heapify(self._next)

    def _note_change(self) -> None:
        if self.changes is not None:
            self.changes[self.name[0]] = None

    def _draw(self) -> None:
        """Have the next one of those that were sorted compete: the others come after it whatever has changed since."""
        self._last_of_run = None
        for equivalence in self._run:
            first = equivalence.first()
            if first is not None:
                heapq.heappush(self._next, (self.order(first), next(self._numbers), equivalence))
                self._last_of_run = equivalence
                return

    def head(self) -> QueueEntry | None:
        """Return who is next, or None where nobody may be tried."""
        heap, blocked = self._next, self.blocked if self.strict else None
        while heap:
            key, number, equivalence = heap[0]
            if equivalence is self._last_of_run:
                self._draw()
            first = equivalence.first() if equivalence.why is None and equivalence.size else None
            if first is None:
                heapq.heappop(heap)
            elif equivalence.called and not self.fitting((equivalence,)):
                heap, blocked = self._send_back(), self.blocked if self.strict else None
            elif (order := self.order(first)) != key:
                heapq.heapreplace(heap, (order, number, equivalence))
            elif blocked is not None and key > self.order(blocked):
                return None
            else:
                return first
        return None

    def _send_back(self) -> list[tuple[Order, int, EquivalenceClass]]:
        """Have those wait on who were called for room that others have taken meanwhile; returns who is left."""
        called = {one[2] for one in self._next if one[2].called}
        called -= self.fitting(called)
        left = [one for one in self._next if one[2] not in called]
        for _, _, equivalence in self._next:  # in their order
            if equivalence in called and equivalence.before is not None and equivalence in self._active:
                self.park(equivalence, equivalence.before)
        heapq.heapify(left)
        self._next = left
        if self._last_of_run is not None and all(one[2] is not self._last_of_run for one in left):
            self._draw()
        return left

    def rival(self, head: QueueEntry) -> QueueEntry | None:
        """Return who of those that are active is next after a head; None where nobody is."""
        firsts = (one.first() for one in self._active if one is not head.equivalence)
        second = next(islice(head.equivalence.in_order(), 1, None), None)
        return min((one for one in (*firsts, second) if one is not None), key=self.order, default=None)

    def followers(self, head: QueueEntry) -> Iterator[QueueEntry]:
        """Yield who of its equivalence class will be next after a head, one by one, if each before is admitted."""
        number, blocked = self._next[0][1], self.blocked if self.strict else None
        rival = min(self._next[1:3], default=None)
        for one in islice(head.equivalence.in_order(), 1, None):
            if rival is not None or blocked is not None:
                order = self.order(one)
                if (rival is not None and (order, number) > rival[:2]) or (blocked and order > self.order(blocked)):
                    return
            yield one

    def behind(self) -> list[QueueEntry]:
        """Return those behind a head that blocks the line who have not been returned since it began to."""
        fresh, self._fresh = self._fresh, []
        blocked = self.blocked
        if blocked is not None and self._told is not blocked:
            fresh = [one for equivalence in self._classes.values() for one in equivalence.entries()]
        self._told = blocked
        if blocked is None:
            return []
        return [one for one in fresh if not one.left and self.is_behind(one, blocked)]

    def is_behind(self, one: QueueEntry, head: QueueEntry) -> bool:
        """Whether somebody waits behind the head that blocks the line, once all before it have been tried."""
        if self.sorting is None:
            return self.order(one) > self.order(head)
        return one is not head and one.equivalence not in self._limited  # whoever is before it would be the head

    def next_behind(self, head: QueueEntry, most: int) -> Iterator[QueueEntry]:
        """Yield who comes next behind a head, the nearest first, and no more than so many."""
        if self.sorting is not None:
            equivalences = list(islice(self.sorting.sorted(self._classes.values()), most + 1))
        else:
            firsts = ((self.order(one), number, one) for number, one in enumerate(self._firsts()))
            equivalences = [one.equivalence for _, _, one in heapq.nsmallest(most + 1, firsts)]
        runs = (
            ((self.order(one), number, one) for one in islice(equivalence.in_order(), most + 1))
            for number, equivalence in enumerate(equivalences)
        )
        order = self.order(head)
        return islice((one for at, _, one in heapq.merge(*runs) if at > order), most)

    def _firsts(self) -> Iterator[QueueEntry]:
        """Yield the first of each equivalence class."""
        for equivalence in self._classes.values():
            first = equivalence.first()
            if first is not None:
                yield first

    def order(self, entry: QueueEntry) -> Order:
        """Return what sorts those of the line as things are now, the next one first."""
        return self.place(entry.key, entry.equivalence.local_queue)

    def place(self, key: QueueKey, local_queue: str) -> Order:
        """Return the same of one with some key and LocalQueue."""
        rank, head, traits = key
        terms: Terms = ()
        if traits is not None and self.sorting is not None:
            terms = self.sorting.terms(traits, -head.less_important, head.queued_at)
        return rank, self.used(local_queue) if local_queue else 0.0, terms, head

    def __bool__(self) -> bool:
        return bool(self._classes)


def _first_place(equivalence: EquivalenceClass) -> FirstPlace | None:
    first = equivalence.first()
    if first is None:
        return None
    rank, head, _ = first.key
    return FirstPlace(rank, -head.less_important, head.queued_at)


def _first_key(equivalence: EquivalenceClass) -> tuple[bool, HeadKey | None]:
    first = equivalence.first()
    return first is None, None if first is None else first.key[1]
