"""Which flavors a workload could have by quota, remembered for as long as the answer would be the same.

Every head in a cohort tree is asked about whenever anything in the tree moves; most of the answers stay as they were.
"""

from __future__ import annotations

from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.assigner import Chooser, Known
from tutti.quota.assignment import Choice, Verdict
from tutti.quota.flavors import Queue
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import Oracle


def nominate(state: State, standing: QueueEntry) -> Choice | None:
    """Return the flavors that a workload could have by quota, as the tree is now; None where it needs no quota.

    Equal workloads of a queue are told the same, and the choice is made anew only when their tree has changed.
    """
    bunch, queue = standing.bunch, standing.queue
    if queue is None or not bunch.pod_sets:
        return None
    version = state.holdings.version(queue.name)
    if bunch.choice is None or (bunch.version != version and not _stands(state, queue, bunch, bunch.choice)):
        bunch.choice = chooser(state, queue, standing.workload, bunch.known).choose(bunch.pod_sets)
    bunch.version = version
    return bunch.choice


def _stands(state: State, queue: Queue, bunch: EquivalenceClass, choice: Choice) -> bool:
    """Whether a choice would be made again: it still fits without borrowing, or nothing can be had now either."""
    if choice.verdict is not Verdict.FIT:
        return _is_short(state, queue, bunch)
    if choice.level or not state.holdings.tight_since(queue.name, bunch.version):
        return False
    node = state.holdings.tree.queues[queue.name]
    return all(
        not amount or (amount <= node.available(what) and not node.borrows(what, amount))
        for what, amount in choice.usage.items()
    )


def _is_short(state: State, queue: Queue, bunch: EquivalenceClass) -> bool:
    """Whether what did not fit its quota surely does not fit it now either, and nobody may be preempted for it.

    Only asked of pods of one shape that need one resource group: then no flavor of it has enough for all resources.
    """
    known = bunch.known.asked
    if queue.policy != NOBODY or len(known) != 1 or len(known[0].groups) != 1 or known[0].uncovered:
        return False
    node, requests = state.holdings.tree.queues[queue.name], known[0].requests
    for index, resources in known[0].groups.items():
        for flavor in queue.groups[index].flavors:
            if all(requests[one] <= max(0, node.available((flavor, one))) for one in resources):
                return False
    return True


def chooser(state: State, queue: Queue, workload: Workload, known: Known | None = None) -> Chooser:
    """Return what chooses flavors for a workload by quota as it is now; what is `known` of its pod sets is kept."""
    snapshot, rules = state.holdings.snapshot, state.rules
    outward = queue.outward(workload.reach)
    oracle = Oracle(snapshot, rules, queue.name, workload.reach, workload.queued_at, outward)
    flavors = state.catalog.flavors
    node = snapshot.queue(queue.name)
    return Chooser(queue, node, flavors, queue.policy, oracle, fair=rules.fair, known=known)
