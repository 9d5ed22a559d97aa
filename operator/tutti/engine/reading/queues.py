"""The queue gate: which ClusterQueue a workload is admitted through, or why through none."""

from __future__ import annotations

from tutti.api.kinds import ClusterQueue, LocalQueue
from tutti.engine.reading.catalog import Catalog
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.workloads import UNDER_WAY, Workload
from tutti.quota.flavors import Queue


def queue_of(catalog: Catalog, workload: Workload, *, is_required: bool) -> Queue | Explanation | None:
    """Return the ClusterQueue of a workload, None where it needs no quota, or why it may not be admitted.

    A workload whose members are already bound goes on through the queue it was admitted by, on hold or not, unless it
    has to leave.

    Args:
        catalog: The queues.
        workload: Whose queue is asked for.
        is_required: Whether everybody must name a queue (`requireQueue`).
    """
    if workload.phase in UNDER_WAY and workload.active and workload.cluster_queue in catalog.queues:
        queue, local = catalog.queues[workload.cluster_queue], None
        if workload.queue:
            local = catalog.local_queue(workload.key[1], workload.queue)
        if not queue.drain and not (local is not None and local.drain):
            return queue
    if workload.problem is not None and workload.problem.gate is Gate.QUEUE:
        return workload.problem
    if not workload.active:
        return Explanation(Gate.QUEUE, "Deactivated", _inactive(workload))
    if not workload.queue:
        if is_required:
            return Explanation(
                Gate.QUEUE, "NoQueue", "it names no queue; give it the label scheduling.tutti.dev/queue-name"
            )
        return None
    return through_local_queue(catalog, workload)


def _inactive(workload: Workload) -> str:
    by_us = workload.evicted is not None and workload.evicted.reason.startswith("DeactivatedDueTo")
    why = f" ({workload.evicted.message})" if by_us and workload.evicted else ""
    return f"spec.active is false{why}; set it to true to queue it again"


def through_local_queue(catalog: Catalog, workload: Workload) -> Queue | Explanation:
    """Return the ClusterQueue that a workload would be admitted through if it were new, or why through none."""
    namespace = workload.key[1]
    local = catalog.local_queue(namespace, workload.queue)
    if local is None:
        return _no_local_queue(catalog, namespace, workload.queue)
    if local.hold:
        return Explanation(Gate.QUEUE, "OnHold", f"LocalQueue {namespace}/{workload.queue} is on hold (stopPolicy)")
    queue = catalog.queues.get(local.cluster_queue)
    if queue is None:
        return _no_cluster_queue(catalog, f"{namespace}/{workload.queue}", local.cluster_queue)
    if queue.problem is not None:
        return Explanation(
            Gate.QUEUE, "ClusterQueueInactive", f"ClusterQueue {queue.name} is inactive: {queue.problem.message}"
        )
    if queue.hold:
        return Explanation(Gate.QUEUE, "OnHold", f"ClusterQueue {queue.name} is on hold (stopPolicy)")
    if not catalog.lets_in(queue.name, namespace):
        return Explanation(
            Gate.QUEUE,
            "NamespaceNotAllowed",
            f"ClusterQueue {queue.name} does not admit from namespace {namespace} (namespaceSelector)",
        )
    return queue


def _no_local_queue(catalog: Catalog, namespace: str, name: str) -> Explanation:
    wrong = catalog.unreadable(LocalQueue, namespace, name)
    if wrong:
        return Explanation(Gate.QUEUE, "LocalQueueInvalid", f"its LocalQueue cannot be used: {wrong}")
    known = ", ".join(catalog.local_queues(namespace)) or "none"
    text = f"LocalQueue {namespace}/{name} does not exist; this namespace has: {known}"
    return Explanation(Gate.QUEUE, "LocalQueueNotFound", text)


def _no_cluster_queue(catalog: Catalog, local: str, name: str) -> Explanation:
    wrong = catalog.unreadable(ClusterQueue, "", name)
    if wrong:
        text = f"the ClusterQueue of LocalQueue {local} cannot be used: {wrong}"
        return Explanation(Gate.QUEUE, "ClusterQueueInvalid", text)
    text = f"ClusterQueue {name}, named by LocalQueue {local}, does not exist"
    if not name:
        text = f"LocalQueue {local} names no ClusterQueue: fill in spec.clusterQueue"
    return Explanation(Gate.QUEUE, "ClusterQueueNotFound", text)
