"""Which flavors a workload could have by quota, remembered for as long as the answer would be the same.

Every head in a cohort tree is asked about whenever anything in the tree moves; most of the answers stay as they were.
"""

from __future__ import annotations

from tutti.engine.records.lines import Bunch, Standing
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.assigner import FlavorAssigner, PodSetRequests
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import Queue
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import PreemptionOracle


def nominate(state: State, standing: Standing) -> WorkloadAssignment | None:
    """Return the flavors that a workload could have by quota, as the tree is now; None where it needs no quota.

    Equal workloads of a queue are told the same, and the choice is made anew only when their tree has changed.
    """
    bunch, queue = standing.bunch, standing.queue
    if queue is None or not bunch.pod_sets:
        return None
    version = state.ledger.version(queue.name)
    if bunch.choice is None or (bunch.version != version and not _stands(state, queue, bunch, bunch.choice)):
        bunch.choice = chooser(state, queue, standing.workload, bunch.known).assign(bunch.pod_sets)
    bunch.version = version
    return bunch.choice


def _stands(state: State, queue: Queue, bunch: Bunch, choice: WorkloadAssignment) -> bool:
    """Whether a choice would be made again: it still fits without borrowing, or nothing can be had now either."""
    if choice.mode is not AssignmentMode.FIT:
        return _is_short(state, queue, bunch)
    if choice.level or not state.ledger.only_used_since(queue.name, bunch.version):
        return False
    node = state.ledger.tree.queues[queue.name]
    return all(
        not amount or (amount <= node.available(what) and not node.borrows(what, amount))
        for what, amount in choice.usage.items()
    )


def _is_short(state: State, queue: Queue, bunch: Bunch) -> bool:
    """Whether what did not fit its quota surely does not fit it now either, and nobody may be preempted for it.

    Only asked of pods of one shape that need one resource group: then no flavor of it has enough for all resources.
    """
    known = bunch.known.groups
    if queue.policy != NOBODY or len(known) != 1 or len(known[0].resource_groups) != 1 or known[0].uncovered:
        return False
    node, requests = state.ledger.tree.queues[queue.name], known[0].requests
    for index, resources in known[0].resource_groups.items():
        for flavor in queue.groups[index].flavors:
            if all(requests[one] <= max(0, node.available((flavor, one))) for one in resources):
                return False
    return True


def chooser(state: State, queue: Queue, workload: Workload, known: PodSetRequests | None = None) -> FlavorAssigner:
    """Return what chooses flavors for a workload by quota as it is now; what is `known` of its pod sets is kept."""
    snapshot, rules = state.ledger.snapshot, state.rules
    cross_queue_priority = queue.cross_queue_priority(workload.reach)
    oracle = PreemptionOracle(snapshot, rules, queue.name, workload.reach, workload.queued_at, cross_queue_priority)
    flavors = state.catalog.flavors
    node = snapshot.queue(queue.name)
    return FlavorAssigner(queue, node, flavors, queue.policy, oracle, fair=rules.fair, requests=known)
