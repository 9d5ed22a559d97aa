"""Who is parked, by what could help: quota in a tree, room on nodes, an answer, or what a throttle allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from tutti.engine.backfill.promise_texts import WOULD_DELAY
from tutti.engine.queue import QueueState, quota_bounds, room_bounds
from tutti.engine.queue.domain_bounds import DomainBounds
from tutti.engine.queue.quota_bounds import QuotaBounds
from tutti.engine.records.explanation import ASKING, Explanation, Gate
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.quota.flavors import Queue

Classes = dict[EquivalenceClass, None]


@dataclass(slots=True)
class ParkedClasses:
    """The equivalence classes that are parked; one may wait for several things.

    Attributes:
        by_root: For quota, by the root of their tree.
        by_quota: For quota alone, as much as they ask for.
        for_nodes: For room, or whatever else may be of help on nodes.
        for_room: For room on a node, as large as one of their pods.
        for_answers: For an extender.
        for_throttles: For a throttle, by their namespace.
        roused: Woken while they rested, so that they are tried when they have.
    """

    by_root: dict[str, Classes] = field(default_factory=dict)
    by_quota: QuotaBounds = field(default_factory=QuotaBounds)
    for_nodes: Classes = field(default_factory=dict)
    for_room: DomainBounds = field(default_factory=DomainBounds)
    for_answers: Classes = field(default_factory=dict)
    for_throttles: dict[str, Classes] = field(default_factory=dict)
    roused: Classes = field(default_factory=dict)
    _called: list[EquivalenceClass] = field(default_factory=list)

    def clear(self) -> None:
        """Forget all of them."""
        for parked in (self.by_root, self.for_nodes, self.for_room, self.for_answers, self.for_throttles, self.roused):
            parked.clear()
        self.by_quota.clear()
        self._called = []

    def helped_by_room(self, state: QueueState) -> tuple[Iterable[EquivalenceClass], Iterable[EquivalenceClass]]:
        """Return whom room may help: as long as it is there, those who fit where pods have left; and others."""
        exits = state.cluster.freed.take()
        if exits is None:
            return (), self.for_room.classes()
        self._called = [one for one in self._called if one.called and one.size]  # a turn was cut short before them
        return self.for_room.helped(state, exits, anew=not self._called)

    def call(self, classes: Collection[EquivalenceClass]) -> None:
        """Have those that are active be tried only as long as they fit where pods have left."""
        for equals in classes:
            equals.called = equals.why is None
        self._called += classes
        self.for_room.call(classes)

    def for_quota(self, equals: EquivalenceClass) -> None:
        """Have a class tried again when quota is freed in its tree."""
        self.by_root.setdefault(equals.root, {})[equals] = None

    def for_more_quota(self, state: QueueState, entry: QueueEntry, why: Explanation) -> None:
        """Have those equal to an entry, which waits for some reason, tried again when quota is freed that can help."""
        options = quota_bounds.options_of(state, entry, why)
        if options is None:
            self.for_quota(entry.equivalence)
        else:
            self.by_quota.put(state, entry, options)

    def compare_again(self, entry: QueueEntry) -> None:
        """Have a class compared when quota is freed in its tree: something was observed of one that stands there."""
        if not self.by_quota.compare_again(entry):
            self.look_again(entry.equivalence)

    def look_again(self, equals: EquivalenceClass) -> None:
        """Have a class looked at whenever quota is freed in its tree: something about it is not as it was."""
        is_asked = self.by_quota.drop(equals)
        if is_asked is not None:
            (self.roused if is_asked else self.by_root.setdefault(equals.root, {}))[equals] = None

    def park(self, equals: EquivalenceClass, why: Explanation) -> None:
        """Let a class wait in its line; where that is strict, those parked there are looked at again as well."""
        equals.line.park(equals, why)
        if equals.line.strict:
            for other in self.by_quota.of_queue(equals.line.name[0], equals.root):
                self.look_again(other)

    def rest(self, entry: QueueEntry, why: Explanation) -> None:
        """Let the only one of a class that has not been tried yet be tried when it has rested, and not before."""
        equals = entry.equivalence
        equals.rests_until = entry.workload.rests_until
        self.park(equals, why)
        self.roused[equals] = None

    def note(self, state: QueueState, entry: QueueEntry, why: Explanation, *, lacks_nodes: bool) -> None:
        """Note what could help those equal to an entry that could not be admitted.

        Args:
            state: The engine's memory.
            entry: One of them.
            why: What it waits for.
            lacks_nodes: Whether it may be nodes that it lacks, whatever is told.
        """
        equals = entry.equivalence
        self.for_room.drop(equals)
        takes, classes = room_bounds.bound_of(state, entry, why), [need.pod_class for need in entry.needs]
        if takes is not None and self.for_room.put(state.cluster, equals, classes, takes):
            if equals.root and (takes.by_quota or room_bounds.each_fits(state.cluster.nodes, classes)):
                self.for_quota(equals)
            return
        if equals.root and why.gate is not Gate.VICTIMS:  # whoever waits for victims is tried when they are gone
            self.for_more_quota(state, entry, why)
        unlike = len(entry.needs) > 1 and not any(need.required for need in entry.needs)
        if lacks_nodes or why.gate is Gate.PLACEMENT or why.reason == WOULD_DELAY or unlike:
            self.for_nodes[equals] = None  # of unlike surplus members, only what the first lacks is told
        if why.reason == ASKING:
            self.for_answers[equals] = None
        if why.gate is Gate.THROTTLE or (why.reason == WOULD_DELAY and state.throttles):
            self.for_throttles.setdefault(entry.workload.key[1], {})[equals] = None

    def unthrottled(self, namespaces: Collection[str]) -> Iterator[Classes]:
        """Take out those of some namespaces who wait for a throttle, and yield them one by one; "": of all."""
        for namespace in list(self.for_throttles) if "" in namespaces else namespaces:
            if namespace in self.for_throttles:
                yield self.for_throttles.pop(namespace)

    def for_moves(self, queues: Mapping[str, Queue]) -> Classes:
        """Take out those who wait for room of queues that have others moved for it, and return them."""
        named = {one: queues.get(one.line.name[0]) for one in self.for_nodes}
        found = {one: None for one, queue in named.items() if queue is not None and queue.max_moves}
        for one in found:
            del self.for_nodes[one]
        return found

    def is_helped(self, state: QueueState) -> bool:
        """Whether quota that somebody waits for was freed since it was asked last in which trees it was."""
        return state.ledger.changes.has_freed(chain(self.by_root, self.by_quota.roots(), self.for_room.roots()))

    def freed(self, roots: Iterable[str]) -> Iterator[Classes]:
        """Take out those who wait for quota in these trees, and yield them tree by tree."""
        for root in roots:
            if root in self.by_root:
                yield self.by_root.pop(root)


def taken(parked: Classes) -> Classes:
    """Return those who are parked, and have nobody parked there any more."""
    woken = dict(parked)
    parked.clear()
    return woken


def activate_after_victims(equals: EquivalenceClass) -> None:
    """Have those tried again that are parked while victims of the first of them are leaving."""
    if equals.why is not None and equals.why.gate is Gate.VICTIMS:
        equals.line.activate(equals)


def tell_in_time(state: QueueState, equals: EquivalenceClass) -> None:
    """Have the first of those who stay parked tried again when numbers may be told anew, which are others by now."""
    first = equals.first()
    equals.stale = True
    if first is not None:
        state.report_in_time(first.workload, equals.looked_at)
