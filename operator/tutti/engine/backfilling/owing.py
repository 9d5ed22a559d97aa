"""With fair sharing: whom the order of shares would never let start, and when it is their turn nevertheless.

Kueue compares shares as they would be after an admission. A workload that asks for more than its queue has left of its
part then loses against every smaller one, and while the others are hungry it never starts, not even where its queue
uses nothing. So the first of a queue that has waited for longer than `fairSharing.patienceSeconds` has quota and room
kept for it, as a queue with `backfill: Reserved` has for each head, if its queue uses less than it deserves and would
use more with it. One in a cohort tree has that at a time. What a queue deserves is told by `quota/proportion.py`.

What such a queue has beyond its part it then owes: for as long as it has that, times how far it is beyond, and it owes
less and less while it has less than its part. Nothing is kept for it again before it owes nothing. So in the long run
it has its part, whatever its workloads ask for and however long they run (a deficit as in deficit round robin,
M. Shreedhar and G. Varghese, SIGCOMM 1995, counted in time).

Others do not take it out for having smaller shares, or it would come and go; those whose quota it borrows may.

Since when a workload waits is told by its object, so that a restart makes nobody wait anew; what is owed is memory, and
a restart forgives it.
"""

from __future__ import annotations

from tutti.engine.backfilling.debts import Debt
from tutti.engine.displacing import holders
from tutti.engine.gathering.needs import Need
from tutti.engine.state import State
from tutti.engine.waiting.lines import Standing
from tutti.engine.workloads import Phase, Workload
from tutti.quota.proportion import Proportion
from tutti.quota.tree import QuotaNode

LOOK_SECONDS = 1.0
"""What is owed is worked out at most so often; it asks what every queue of the tree deserves."""

_MOST_BEYOND = 10.0


def may_be(state: State) -> bool:
    """Whether it may be anybody's turn for having waited long enough."""
    return state.rules.fair and state.configuration.fair_sharing.patience_seconds > 0


def is_owed(state: State, standing: Standing) -> bool:
    """Whether it is the turn of a workload nevertheless that could not be admitted."""
    queue, workload = standing.queue, standing.workload
    if queue is None or queue.reserves or workload.phase is not Phase.WAITING or not may_be(state):
        return False
    node, debts = state.holdings.tree.queues[queue.name], state.debts
    if node.parent is None or queue.name in debts.of:
        return False
    since = workload.queued_at + state.configuration.fair_sharing.patience_seconds
    if state.now < since:
        debts.look_at[queue.name] = min(since, debts.look_at.get(queue.name, since))
        return False
    root = state.holdings.root_of(queue.name)
    if any(one.owed and state.holdings.root_of(one.queue) == root for one in state.shadows.of.values()):
        return False
    return _is_too_large(_parts(state, queue.name), node, standing.needs)


def begin(state: State, queue: str, workload: Workload) -> None:
    """Note that the first of a queue has gone out of turn: from now on the queue owes what it has beyond its part."""
    workload.out_of_turn = True
    holders.describe(state, workload)
    node = state.holdings.tree.queues.get(queue)
    if node is not None and node.parent is not None:
        state.debts.of[queue] = Debt(0.0, state.now, _beyond(state, node))


def stir(state: State) -> None:
    """Work out what is owed by now, and look again at those who have waited long enough or owe nothing any more."""
    debts = state.debts
    for queue, at in list(debts.look_at.items()):
        if at <= state.now:
            del debts.look_at[queue]
            state.holdings.look_again(queue)
    for queue, debt in list(debts.of.items()):
        node = state.holdings.tree.queues.get(queue)
        if node is None or node.parent is None:
            del debts.of[queue]
        elif state.now >= debt.at + LOOK_SECONDS:
            _follow(state, node, debt)
        else:
            debt.stale = True


def next_due(state: State) -> float | None:
    """Return when to look again though nothing is observed, Unix seconds; None: not at all."""
    times = list(state.debts.look_at.values())
    for debt in state.debts.of.values():
        if debt.stale:
            times.append(debt.at + LOOK_SECONDS)
        if debt.beyond < 0:
            times.append(debt.at + max(LOOK_SECONDS, debt.seconds / -debt.beyond))
    return min(times, default=None)


def _follow(state: State, node: QuotaNode, debt: Debt) -> None:
    """Count what a queue has had beyond its part since that was last worked out."""
    debt.seconds += debt.beyond * (state.now - debt.at)
    debt.at, debt.beyond, debt.stale = state.now, _beyond(state, node), False
    if debt.seconds <= 0 and debt.beyond <= 0:
        del state.debts.of[node.name]
        state.holdings.look_again(node.name)


def _beyond(state: State, node: QuotaNode) -> float:
    """Return by how many times its part a queue uses more than that; less than 0 where it uses less."""
    infinite, share = _parts(state, node.name).share(node)
    return _MOST_BEYOND if infinite else min(float(share) - 1.0, _MOST_BEYOND)


def _parts(state: State, queue: str) -> Proportion:
    """Return what the queues of a tree deserve now; worked out once for all that is decided at one time."""
    root, debts = state.holdings.tree.queues[queue].root(), state.debts
    if debts.parts_at != state.now:
        debts.parts_at, debts.parts = state.now, {}
    known = debts.parts.get(root.name)
    if known is None or known[0] is not root:
        known = debts.parts[root.name] = root, Proportion(root, debts.pending)
    return known[1]


def _is_too_large(parts: Proportion, node: QuotaNode, needs: list[Need]) -> bool:
    """Whether a queue uses less than its part, and would use more with what some needs ask for."""
    infinite, share = parts.share(node)
    if infinite or share >= 1:
        return False
    deserved, total = parts.deserved(node), dict[str, int]()
    for (_, resource), amount in node.usage.items():
        total[resource] = total.get(resource, 0) + amount
    for need in needs:
        for resource, amount in need.klass.requests.items():
            total[resource] = total.get(resource, 0) + amount * need.required
    return any(amount > deserved[resource] for resource, amount in total.items() if deserved.get(resource))
