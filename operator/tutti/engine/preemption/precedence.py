"""Who may have what is held for others that wait for their victims, and who may not.

A workload that goes before another by the order of queues may have what is held for it: else it would have to take it
out again. But never one that the other could take out in its turn, because its queue uses what is not its own. That
would be a ring: the victim comes back as the more important one, and leaves again for the same preemptor. For the same
reason its pods do not take out those of the other either, once these run, whatever their priority.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tutti.engine.records.claims import Precedence
from tutti.engine.records.lines import Standing
from tutti.engine.records.needs import Need, asked_by
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.flavors import Queue
from tutti.quota.policy import allows
from tutti.quota.snapshot import AdmittedWorkload, Demand


def precedence(state: State, standing: Standing) -> Precedence:
    """Return how a workload that is tried stands to those for whom quota and room are held."""
    queue, workload, found = standing.queue, standing.workload, Precedence()
    if queue is None or not state.nominations.ours:
        return found
    root, borrows = state.ledger.root_of(queue.name), would_borrow(state, queue, standing.needs)
    for key, nomination in state.nominations.ours.items():
        theirs = next((charge.queue for charge, _ in nomination.charges), "")
        other, known = state.workloads.get(key), state.catalog.queues.get(theirs)
        if key == workload.key or other is None or known is None or state.ledger.root_of(theirs) != root:
            continue
        if theirs == queue.name:
            if workload.order < other.order:
                found.lesser.append(key)
        elif borrows and _may_take_out(known, other, queue, workload.priority):
            found.entitled.append(key)
        elif queue.cross_queue_priority(workload.reach) > known.cross_queue_priority(other.priority):
            found.lesser.append(key)
    return found


def would_borrow(state: State, queue: Queue, needs: Sequence[Need]) -> bool:
    """Whether in some flavor a queue would use more than its own if it admitted what needs ask for."""
    node, asked = state.ledger.tree.queues.get(queue.name), asked_by(needs)
    return node is None or any(node.borrows(what, asked[what[1]]) for what in queue.quotas if what[1] in asked)


def is_entitled(state: State, other: Workload, queue: Queue, priority: int) -> bool:
    """Whether a workload that has quota may take out one of this priority of a queue that borrows, by its policy."""
    theirs = state.catalog.queues.get(other.cluster_queue)
    if theirs is None or theirs is queue or state.ledger.root_of(theirs.name) != state.ledger.root_of(queue.name):
        return False
    return _may_take_out(theirs, other, queue, priority)


def _may_take_out(theirs: Queue, other: Workload, queue: Queue, priority: int) -> bool:
    """Whether the policy of another queue lets a workload of it take out this priority, where this queue borrows."""
    demand = Demand(
        theirs.name,
        {},
        frozenset(),
        other.reach,
        other.queued_at,
        cross_queue_priority=theirs.cross_queue_priority(other.reach),
    )
    holder = AdmittedWorkload(
        "", queue.name, {}, priority, queued_at=math.inf, cross_queue_priority=queue.cross_queue_priority(priority)
    )
    return allows(theirs.policy.reclaim, demand, holder, across_queues=True)
