"""With fair sharing: whose turn would never come by the order of shares, and when it is nevertheless.

Kueue compares shares as they would be after an admission. A workload that asks for more than its queue has left of its
part then loses against every smaller one, and while the others are hungry it never starts, not even where its queue
uses nothing; nor does one start within its part where so much never becomes free at one moment. So the first of a queue
that has waited for `fairSharing.patienceSeconds` has quota and room kept for it, as a queue with `backfill: Reserved`
has for each head. It is its turn, if

- its queue uses no more than its part, and would use more with it, or else no other first would have a smaller share.
  The part goes by what shares compare (`quota/proportion.py`), but what is one's own and asked for is always of it;
- it fits beside what is others' own and asked for. These could take it back, and nobody is let in to be taken out;
- its queue owes nothing. What a queue has beyond its part after a turn it owes: for as long as it has that, times how
  far it is beyond; and it owes less and less while it has less than its part. So in the long run it has its part,
  whatever its workloads ask for and however long they run (a deficit as in deficit round robin, M. Shreedhar and
  G. Varghese, SIGCOMM 1995, counted in time).

It is one queue's turn in a cohort tree at a time, whose first has waited longest, so that nobody waits for more than
those who came before. Others do not take it out for having smaller shares, or it would come and go; those whose quota
it borrows may, and then it has no other turn for a while.

Since when a workload waits is told by its object, and whose turn it was by its pods, so that a restart makes nobody
wait anew, and has nobody taken out who was not before. How much is owed is memory: after a restart a queue whose first
has had its turn, and runs, owes from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tutti.engine.backfill import BackfillState
from tutti.engine.lifecycle import quota_usage
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.share_debts import OverdueHead, ShareDebt
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.fair_sharing import QueueOrdering
from tutti.quota.proportion import DeservedFirst, Proportion
from tutti.quota.tree import QuotaNode, add_to

DEBT_SECONDS = 1.0
"""What is owed is worked out at most so often; it asks what every queue of the tree deserves."""

_MOST_BEYOND = 10.0
_LEAST_REPAID = -0.1
"""Else the smaller work of a queue, always as much as its part, would keep its first from ever having a turn."""

EntryOf = Callable[[WorkloadKey], QueueEntry | None]
Parts = dict[str, Proportion]
"""What the queues of each tree deserve, by what names the tree."""


def may_be_overdue(state: BackfillState) -> bool:
    """Whether it may be anybody's turn for having waited long enough."""
    return state.rules.fair and state.configuration.fair_sharing.patience_seconds > 0


def note_head(state: BackfillState, entry: QueueEntry) -> None:
    """Take note of one that could not be admitted: it may be its turn later, if it is the first of its line."""
    queue, workload, debts = entry.queue, entry.workload, state.share_debts
    if queue is None or queue.reserves or workload.phase is not Phase.WAITING or workload.held_since is not None:
        return
    if not may_be_overdue(state):
        return
    if state.ledger.tree.queues[queue.name].parent is None:
        return
    line, known = entry.equivalence.line, debts.heads.get(queue.name)
    if known is not None and known.entry.workload.key == workload.key:
        return
    if known is None or line.order(entry) < line.place(known.entry.key, known.entry.equivalence.local_queue):
        debts.heads[queue.name] = OverdueHead(entry, workload.queued_at)
        debts.stale = True


def restore_turn(state: BackfillState, queue: str, entry: QueueEntry) -> None:
    """Let one have its turn again that had it before a restart, where nobody else of its tree has; it is looked at."""
    note_head(state, entry)
    head = state.share_debts.heads.get(queue)
    if head is not None and head.entry is entry:
        state.share_debts.turns.setdefault(state.ledger.root_of(queue), queue)


def has_turn(state: BackfillState, queue: str, workload: WorkloadKey) -> bool:
    """Whether it is the turn of a workload of some queue."""
    head = state.share_debts.heads.get(queue)
    mine = head is not None and head.entry.workload.key == workload
    return mine and state.share_debts.turns.get(state.ledger.root_of(queue)) == queue


def begin_debt(state: BackfillState, queue: str, workload: Workload) -> None:
    """Note that the first of a queue has had its turn: from now on the queue owes what it has beyond its part."""
    workload.out_of_turn = True
    quota_usage.describe_holder(state, workload)
    state.share_debts.of[queue] = ShareDebt(0.0, state.now)
    state.share_debts.stale = True


def restore_debts(state: BackfillState) -> None:
    """Have queues owe again, from now on, whose firsts have had their turns before a restart and run."""
    if not may_be_overdue(state):
        return
    for workload in state.workloads.values():
        if workload.out_of_turn and workload.cluster_queue:
            state.share_debts.of.setdefault(workload.cluster_queue, ShareDebt(0.0, state.now))
            state.share_debts.stale = True


TURNS = "following whose turn is overdue"
"""The part of the turn that does."""


def refresh_turns(state: BackfillState, entry_of: EntryOf) -> None:
    """Work out what is owed by now, and whose turn it is."""
    debts = state.share_debts
    left, debts.pending.left = debts.pending.left, {}
    for queue, head in [(queue, debts.heads[queue]) for queue in left if queue in debts.heads]:
        if not head.entry.left:
            continue
        entry = entry_of(head.entry.workload.key)
        if entry is None or entry.equivalence.line.name != (queue, "") or entry.queue is None:
            del debts.heads[queue]
        else:
            head.entry = entry
    debts.turns = {root: queue for root, queue in debts.turns.items() if queue in debts.heads}
    if not (debts.heads or debts.of):
        debts.stale = False
        return
    if state.now < debts.looked_at + DEBT_SECONDS:
        debts.stale = True
        return
    debts.looked_at, debts.stale = state.now, False
    parts: Parts = {}
    for queue, debt in list(debts.of.items()):
        _follow(state, parts, queue, debt)
    _give_turns(state, parts)


def next_turn_due(state: BackfillState) -> float | None:
    """Return when to look again though nothing is observed, Unix seconds; None: not at all."""
    debts = state.share_debts
    times = [max(state.now, debts.looked_at + DEBT_SECONDS)] if debts.stale else []
    patience = state.configuration.fair_sharing.patience_seconds
    times += [head.since + patience for head in debts.heads.values() if head.since + patience > state.now]
    for debt in debts.of.values():
        if debt.beyond < 0:
            times.append(max(state.now, debt.at + max(DEBT_SECONDS, debt.seconds / -debt.beyond)))
    return min(times, default=None)


def _give_turns(state: BackfillState, parts: Parts) -> None:
    """Give the turn in each tree to the first that may have it, unless somebody has it who still may."""
    debts, ripe = state.share_debts, state.now - state.configuration.fair_sharing.patience_seconds
    asking = [_Asking.of(state, parts, queue, head.entry) for queue, head in debts.heads.items()]
    least: dict[str, Fraction] = {}
    for one in asking:
        if one.fits:
            least[one.root] = min(one.then, least.get(one.root, one.then))
    for one in sorted(asking, key=lambda one: (debts.heads[one.queue].since, one.queue)):
        head, holder = debts.heads[one.queue], debts.turns.get(one.root)
        may = one.fits and not _pauses(state, head.entry.workload.key)
        if holder == one.queue and not may:
            del debts.turns[one.root]
            debts.stale = True  # it may be that of one who was passed over
        is_ripe = head.since <= ripe and one.queue not in debts.of and one.now <= 1
        if holder is None and may and is_ripe and (one.then > 1 or one.then == least[one.root]):
            debts.turns[one.root] = one.queue
            state.ledger.changes.retry(one.queue)


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the first of a queue asks for, as of now.

    Attributes:
        queue: Its ClusterQueue.
        root: What names its tree.
        fits: Whether it would fit beside what is others' own and asked for, and its queue deserves any of that at all.
        now: How much of what it deserves the queue uses.
        then: How much of that it would use with the first of it.
    """

    queue: str
    root: str
    fits: bool = False
    now: Fraction = Fraction(0)
    then: Fraction = Fraction(0)

    @classmethod
    def of(cls, state: BackfillState, parts: Parts, queue: str, entry: QueueEntry) -> _Asking:
        """Work it out."""
        root, node = state.ledger.root_of(queue), state.ledger.tree.queues.get(queue)
        if node is None or node.parent is None or entry.queue is None:
            return cls(queue, root)
        known, covered = _parts(state, parts, node), {resource for _, resource in entry.queue.quotas}
        deserved, reach = known.deserved(node), known.reach(node)
        infinite, now = known.share(node)
        used, asked = dict[str, int](), dict[str, int]()
        for (_, resource), amount in node.usage.items():
            add_to(used, {resource: amount})
        for need in entry.needs:
            add_to(asked, need.pod_class.charged, need.required)
        total = {name: used.get(name, 0) + amount for name, amount in asked.items() if amount and name in covered}
        if infinite or not all(deserved.get(name) and total[name] <= reach.get(name, 0) for name in total):
            return cls(queue, root)
        then = max((Fraction(amount) / deserved[name] for name, amount in total.items()), default=now)
        return cls(queue, root, fits=True, now=now, then=max(now, then))


def _pauses(state: BackfillState, workload: WorkloadKey) -> bool:
    """Whether nothing is kept for a workload for a while, because that was in vain."""
    return state.backfill_reservations.pauses.get(workload, (0, 0.0))[1] > state.now


def _follow(state: BackfillState, parts: Parts, queue: str, debt: ShareDebt) -> None:
    """Count what a queue has had beyond its part since that was last worked out."""
    node = state.ledger.tree.queues.get(queue)
    if node is None or node.parent is None:
        del state.share_debts.of[queue]
        return
    infinite, share = _parts(state, parts, node).share(node)
    debt.seconds += debt.beyond * (state.now - debt.at)
    beyond = _MOST_BEYOND if infinite else min(float(share) - 1.0, _MOST_BEYOND)
    debt.at, debt.beyond = state.now, beyond if beyond > 0 else min(beyond, _LEAST_REPAID)
    if debt.seconds <= 0 and debt.beyond <= 0:
        del state.share_debts.of[queue]


def _parts(state: BackfillState, parts: Parts, node: QuotaNode) -> Proportion:
    """Return what the queues of a tree deserve, worked out once."""
    name = state.ledger.root_of(node.name)
    if name not in parts:
        first = DeservedFirst.BESIDE if state.rules.ordering is QueueOrdering.BORROWED_SHARE else DeservedFirst.OWN
        parts[name] = Proportion(node.root(), state.share_debts.pending, first)
    return parts[name]
