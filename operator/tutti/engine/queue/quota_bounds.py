"""Whom quota can help, of those who are parked because there is too little of it: asked of columns, not one by one.

Of those who take out nobody, and whose pods are all counted alike, only he can start now whose request fits what is
available on the path of his queue. All others would be told other numbers, and nothing else would come of it
(`fails_again`): they stay parked. So whoever is next is looked for among those who fit (`parked_tree.py`), by a place
that is never behind the one he has; his line is woken as a whole, and stands where it stands by the rules (`heads.py`).
After each admission it is looked at again.

Two things go beyond what fits. Whoever waits for what is his queue's own holds it back from those who come after him
and would borrow it (`admission/quota_holdback.py`): he is woken where anybody else is looked at after him, or where his
own queue uses more or less. And who is looked at for the first time since he was tried is to be told other numbers in
time, as long as nothing comes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final

from tutti.engine.queue import QueueState
from tutti.engine.queue.equivalence import fails_again
from tutti.engine.queue.heads import Place
from tutti.engine.queue.parked_tree import ParkedTree, Row
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.faults import Whose
from tutti.engine.records.queue_entries import EquivalenceClass, PendingQueue, QueueEntry
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.assignment import AssignmentMode, NoFit
from tutti.quota.fair_sharing import Key
from tutti.quota.policy import NOBODY
from tutti.quota.share_columns import ORDERINGS, ShareColumns

Entries = Mapping[WorkloadKey, QueueEntry]

_NEVER: Final = (NoFit.NO_MATCHING_FLAVOR, NoFit.EXCEEDS_MAX_QUOTA)
"""Why a flavor is none for somebody, whatever is given back."""


def options_of(state: QueueState, entry: QueueEntry, why: Explanation) -> list[str] | None:
    """Return the flavors any of which would do for one that could not be admitted, if there were enough of it.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it waits.

    Returns:
        None where something else may help it as well, or it may take out others.
    """
    equals, queue = entry.equivalence, entry.queue
    choice, known = equals.choice, equals.known.groups
    if queue is None or choice is None or why.gate is not Gate.QUOTA or why.reason != NoFit.WAITING_FOR_QUOTA.reason:
        return None
    if queue.policy != NOBODY or queue.reserves or equals.line.name != (queue.name, ""):
        return None
    if not _is_comparable(state, queue.name):
        return None
    if state.plugins or len(equals.pod_sets) != 1 or len(known) != 1 or len(known[0].resource_groups) != 1:
        return None
    if equals.pod_sets[0].topology is not None or equals.known.implied or choice.mode is AssignmentMode.FIT:
        return None
    if equals.line.strict and not equals.line.is_parked_alone(equals):
        return None
    return [one.flavor for one in choice.pod_sets[0].attempts if one.why not in _NEVER]


def _is_comparable(state: QueueState, queue: str) -> bool:
    """Whether columns can tell whose turn it is among those of a queue and its cohort.

    By fair shares only where no cohort is below another one: what heads do there that cannot start is to stand before
    others of theirs.
    """
    if not state.rules.fair:
        return True
    flat = state.ledger.tree.queues[queue].root().height() <= 1
    return flat and state.rules.ordering in ORDERINGS


class QuotaBounds:
    """The classes that are parked for want of quota, tree by tree, and who of them is to be looked at in this turn."""

    def __init__(self) -> None:
        self._moment = 0
        self.clear()

    def clear(self) -> None:
        """Forget everybody."""
        self._trees: dict[str, ParkedTree] = {}
        self._rows: dict[EquivalenceClass, Row] = {}
        self._asked: dict[str, tuple[int, int]] = {}
        self._nearest: tuple[tuple[object, ...], tuple[Place, Row] | None] | None = None
        self._roused: dict[tuple[str, str], PendingQueue] = {}
        self._epoch = -1

    def roots(self) -> Collection[str]:
        """Return the trees in which anybody is parked."""
        return self._trees.keys()

    def put(self, state: QueueState, entry: QueueEntry, flavors: Iterable[str]) -> None:
        """Take in the class of an entry, which is parked; any of these flavors would do (`options_of`)."""
        equals = entry.equivalence
        assert equals.queue is not None  # there is quota of it
        self.drop(equals)
        self._follow(state)
        self._epoch = state.ledger.changes.version(equals.queue.name)[0]
        node = state.ledger.tree.queues[equals.queue.name]
        if equals.root not in self._trees:
            shares = ShareColumns(node.root(), state.rules.ordering) if state.rules.fair else None
            self._trees[equals.root] = ParkedTree(shares)
        self._rows[equals] = self._trees[equals.root].put(node, entry, flavors)

    def drop(self, equals: EquivalenceClass) -> bool | None:
        """Let go of a class; returns whether it was to be looked at in this turn, None where it is not parked here."""
        row = self._rows.pop(equals, None)
        if row is None:
            return None
        tree = self._trees[equals.root]
        was_asked = tree.drop(row)
        if not tree.lines:
            del self._trees[equals.root]
            self._asked.pop(equals.root, None)
        self._nearest = None
        return was_asked

    def compare_again(self, entry: QueueEntry) -> bool:
        """Have a class compared when it is asked for next; returns whether it is parked here, where it stood.

        Args:
            entry: One of it of which something was observed; it asks for what it did.
        """
        row = self._rows.get(entry.equivalence)
        return row is not None and self._trees[entry.equivalence.root].compare_again(row)

    def of_queue(self, queue: str, root: str) -> list[EquivalenceClass]:
        """Return who is parked in the line of a ClusterQueue, which is in some tree."""
        return list(self._trees[root].lines.get(queue, ())) if root in self._trees else []

    def ask(self, state: QueueState, roots: Iterable[str], entries: Entries) -> list[EquivalenceClass]:
        """Have everybody looked at in some trees.

        Args:
            state: The engine's memory.
            roots: Names the trees.
            entries: Of those who stand in a queue.

        Returns:
            Of whom more is to be looked at than who fits: they are not parked here any more.
        """
        here = [root for root in roots if root in self._trees]
        if not here:
            return []
        self._follow(state)
        held_for = (entries.get(key) for key in (*state.kept_for_successors, *state.nominations.ours))
        found = {one.equivalence: None for one in held_for if one is not None and one.equivalence in self._rows}
        for root in here:
            tree = self._trees[root]
            found.update(dict.fromkeys(tree.take_moved()))
            more = (one for one in tree.tried if one.rests_until > state.now or not _is_told_in_time(state, one))
            found.update(dict.fromkeys(more))
            is_other_time = bool(state.moves.plans) or self._version(state, root)[0] != self._epoch
            of_turn = state.share_debts.turns.get(root)
            some = (*state.backfill_reservations.of, *(() if of_turn is None else (of_turn,)))
            for name in tree.lines if is_other_time else some:
                found.update(dict.fromkeys(tree.lines.get(name, ())))
        for equals in found:
            self.drop(equals)
        for root in here:
            if root in self._trees:
                self._asked[root] = self._version(state, root)
                self._trees[root].ask_all()
        self._nearest = None
        return list(found)

    def nearest(self, state: QueueState, *, has_others: bool) -> Place | None:
        """Return where the next one stands who is to be looked at, or before that; None where there is nobody.

        Args:
            state: The engine's memory.
            has_others: Whether anybody else is looked at.
        """
        if not self._asked:
            return None
        stamp = has_others, *(self._version(state, root) for root in self._asked)
        if self._nearest is None or self._nearest[0] != stamp:
            self._follow(state)
            for root, since in self._asked.items():
                if not state.ledger.changes.only_used_since(self.some_queue(root), since):
                    self._asked[root] = self._version(state, root)
                    self._trees[root].begin_anew()
            found = (self._trees[root].nearest(has_others=has_others) for root in self._asked)
            first = min((one for one in found if one is not None), key=lambda one: one[0], default=None)
            self._nearest = stamp, first
        return None if self._nearest[1] is None else self._nearest[1][0]

    def asked(self) -> Collection[str]:
        """Return the trees in which anybody was to be looked at in this turn."""
        return self._asked.keys()

    def is_asked(self, root: str) -> bool:
        """Whether anybody who is parked in a tree is to be looked at."""
        return root in self._asked and self._trees[root].asks_any()

    def rouse_by_share(self, state: QueueState, root: str, head: tuple[str, Key] | None) -> PendingQueue | None:
        """Have all tried who are parked in the line of one who may go before the winning head, and return the line.

        Args:
            state: The engine's memory.
            root: Names the tree.
            head: The queue of that head, and how it ranks at the top of the tree; None where nobody is awake there.
        """
        if root not in self._asked:
            return None
        self._follow(state)
        queues = state.ledger.tree.queues
        row = self._trees[root].nearest_by_share(None if head is None else (queues[head[0]], head[1]))
        return None if row is None else self._rouse(row)

    def rouse(self) -> PendingQueue:
        """Have all tried who are parked in the line of the nearest, and return the line."""
        assert self._nearest is not None  # it has been asked who that is
        assert self._nearest[1] is not None
        return self._rouse(self._nearest[1][1])

    def _rouse(self, row: Row) -> PendingQueue:
        line = row.first.equivalence.line
        self.rouse_lines([line])
        self._roused[line.name] = line
        return line

    def rouse_lines(self, lines: Iterable[PendingQueue]) -> None:
        """Have all tried who are to be looked at in some lines."""
        for line in lines if self._asked else ():
            name, part = line.name
            for root in () if part else tuple(self._asked):
                for equals in self.of_queue(name, root):  # who was tried before the last turn ended stays parked
                    if self._trees[root].is_asked(self._rows[equals]):
                        self.drop(equals)
                        line.activate(equals)

    def lines_of_turns(self, state: QueueState) -> list[PendingQueue]:
        """Return the lines in which somebody is to be looked at, and whose turn it is for having waited long enough."""
        turns = [(root, state.share_debts.turns[root]) for root in self._asked if root in state.share_debts.turns]
        found = {one.line.name: one.line for root, queue in turns for one in self.of_queue(queue, root)}
        return list(found.values())

    def take_roused(self) -> list[PendingQueue]:
        """Return the lines that were woken since the last call."""
        roused, self._roused = self._roused, {}
        return list(roused.values())

    def end(self) -> list[EquivalenceClass]:
        """End the turn: nothing has come of those who are still asked for; returns those of whom that is new."""
        news = [equals for root in self._asked for equals in self._trees[root].end()]
        self._asked.clear()
        self._nearest = None
        return news

    def some_queue(self, root: str) -> str:
        """Return a ClusterQueue in whose line somebody is parked who is in a tree, or was when this turn began."""
        return next(iter(self._trees[root].lines))

    def _version(self, state: QueueState, root: str) -> tuple[int, int]:
        return state.ledger.changes.version(self.some_queue(root))

    def _follow(self, state: QueueState) -> None:
        """Take over what is used by now."""
        moved, self._moment = state.ledger.changes.moved_since(self._moment), state.ledger.changes.moment
        for queue in moved:
            tree = self._trees.get(state.ledger.root_of(queue))
            node = state.ledger.tree.queues.get(queue)
            if tree is not None and node is not None:
                tree.has_moved(node)


def _is_told_in_time(state: QueueState, equals: EquivalenceClass) -> bool:
    """Whether nothing comes of a class that does not fit but other numbers, which are told in time."""
    first = equals.first()
    if first is None:
        return False
    return state.attempt(Whose(*first.workload.key), "comparing it", partial(fails_again, state, first), False)
