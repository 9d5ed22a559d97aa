"""What the names in a workload resolve to: the ClusterQueue it is admitted through, and its priority.

A priority is that of the class that a workload's object names, else of its pods, those to come included.
Classes are an administrator's, numbers anybody's: a number only ever lowers what a class gives. Pods that exist say
their priority themselves: the API server has looked it up. Of a pod that is only promised, the
template names a PriorityClass or nothing, and then the default of the cluster counts, of several the lowest
(kube-apiserver 1.36, plugin/pkg/admission/priority).

Whoever may write a PodGroup or a template can name any PriorityClass in it; whether his pods may have it, the API
server decides when they are created (by a ResourceQuota with a scopeSelector, say). So what is named decides who goes
first, and for taking others out it counts no more than what the pods were admitted with; of pods that are yet to
come, no more than what everybody's have. A WorkloadPriorityClass is an administrator's word about queues, and
reaches no further.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from tutti.api.core import PodSpec, PriorityClass
from tutti.api.kinds import ClusterQueue, LocalQueue
from tutti.api.kinds.workload import WorkloadSpec
from tutti.api.messages import listed
from tutti.engine.reading.catalog import Catalog
from tutti.engine.records.explanation import SET_INACTIVE, Explanation, Gate
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.workloads import ADMITTED, UNDER_WAY, Workload
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
    why = f" ({workload.evicted.message.removesuffix(SET_INACTIVE)})" if by_us and workload.evicted else ""
    return f"spec.active is false{why}; set it to true to queue it again"


def through_local_queue(catalog: Catalog, workload: Workload) -> Queue | Explanation:
    """Return the ClusterQueue that a workload would be admitted through if it were new, or why through none."""
    namespace = workload.key[1]
    local = catalog.local_queue(namespace, workload.queue)
    if local is None:
        return _no_local_queue(catalog, namespace, workload.queue)
    if local.hold:
        text = f"LocalQueue {namespace}/{workload.queue} is on hold: set its stopPolicy to None"
        return Explanation(Gate.QUEUE, "OnHold", text)
    queue = catalog.queues.get(local.cluster_queue)
    if queue is None:
        return _no_cluster_queue(catalog, f"{namespace}/{workload.queue}", local.cluster_queue)
    if queue.problem is not None:
        return Explanation(
            Gate.QUEUE, "ClusterQueueInactive", f"ClusterQueue {queue.name} is inactive: {queue.problem.message}"
        )
    if queue.hold:
        return Explanation(Gate.QUEUE, "OnHold", f"ClusterQueue {queue.name} is on hold: set its stopPolicy to None")
    if not catalog.admits_from(queue.name, namespace):
        text = f"ClusterQueue {queue.name} does not admit from namespace {namespace}: its namespaceSelector says whom"
        return Explanation(Gate.QUEUE, "NamespaceNotAllowed", text)
    return queue


MOST_NAMED = 5
"""How many LocalQueues are named to those whose own does not exist."""


def _no_local_queue(catalog: Catalog, namespace: str, name: str) -> Explanation:
    wrong = catalog.unreadable(LocalQueue, namespace, name)
    if wrong:
        return Explanation(Gate.QUEUE, "LocalQueueInvalid", f"its LocalQueue cannot be used: {wrong}")
    known = sorted(catalog.local_queues(namespace), key=lambda one: -_begin_alike(one, name))
    text = f"LocalQueue {namespace}/{name} does not exist; this namespace has: "
    text += listed(known, len(known), MOST_NAMED) or "none"
    return Explanation(Gate.QUEUE, "LocalQueueNotFound", text)


def _begin_alike(one: str, other: str) -> int:
    """Return with how many letters two names begin alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _no_cluster_queue(catalog: Catalog, local: str, name: str) -> Explanation:
    wrong = catalog.unreadable(ClusterQueue, "", name)
    if wrong:
        text = f"the ClusterQueue of LocalQueue {local} cannot be used: {wrong}"
        return Explanation(Gate.QUEUE, "ClusterQueueInvalid", text)
    text = f"ClusterQueue {name}, named by LocalQueue {local}, does not exist; create it, or name another"
    if not name:
        text = f"LocalQueue {local} names no ClusterQueue: fill in spec.clusterQueue"
    return Explanation(Gate.QUEUE, "ClusterQueueNotFound", text)


NEVER = "Never"
"""The preemptionPolicy of pods that take out nobody."""


SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")
"""The PriorityClasses of pods that a cluster cannot be without (kube-apiserver 1.36, pkg/apis/scheduling/types.go)."""


def refused_class(name: str) -> Explanation | None:
    """Return why a gang may not be of a PriorityClass; None where it may."""
    if name not in SYSTEM_CLASSES:
        return None
    text = f"it names PriorityClass {name}, which is of pods that a cluster cannot be without; name another"
    return Explanation(Gate.GATHER, "SystemPriorityClass", text)


def take_named_classes(catalog: Catalog, workload: Workload, names: Iterable[str]) -> Explanation | None:
    """Have a workload be of the class that its owners name; where they name several, of the lowest, whoever came first.

    A label on an owner is anybody's, as a PodGroup is: the same classes are refused, and one of pods only decides who
    goes first. Returns why one of them is refused; None where none is.
    """
    found: list[tuple[int, bool]] = []
    refused: Explanation | None = None
    for name in sorted(filter(None, set(names))):
        ranked = catalog.workload_class(name)
        value = catalog.priority_class_value(name) if ranked is None else ranked
        if value is not None:
            found.append((value, ranked is not None))
        if ranked is None:
            refused = refused or refused_class(name)
    if found:
        workload.priority, workload.ranked = min(found)
    return refused


def object_priority(catalog: Catalog, workload: Workload, spec: WorkloadSpec) -> int:
    """Return the priority of a Workload object: its class's, else its pods'; its number where that is lower."""
    ref, value = spec.priority_class_ref, None
    if ref is not None:
        find = catalog.priority_class_value if ref.kind == "PriorityClass" else catalog.workload_class
        value = find(ref.name)
        workload.ranked = value is not None and ref.kind != "PriorityClass"
    if value is None:
        value = members_priority(workload)
    return value if spec.priority is None else min(value, spec.priority)


def members_priority(workload: Workload) -> int:
    """Return the priority of the most important of a workload's pods; of a group that has none, of those to come."""
    found = [member.pod.priority for member in workload.members()]
    found += [group.promised_priority for group in workload.groups.values() if _is_to_come(group)]
    return max(found, default=0)


def preemption_priority(catalog: Catalog, workload: Workload) -> int:
    """Return by which priority a workload takes out others by the rules of queues."""
    if workload.ranked:
        return workload.priority
    found = [member.pod.priority for member in workload.members()]
    found += [promised_preemption_priority(catalog, group) for group in workload.groups.values() if _is_to_come(group)]
    return min(workload.priority, max(found, default=workload.priority))


def promised_preemption_priority(catalog: Catalog, group: MemberGroup) -> int:
    """Return by which priority members that are only promised take out others: no more than those of no class have."""
    usual = catalog.default_priority_class()
    return min(group.promised_priority, 0 if usual is None else usual.value)


def may_go_by_classes(workload: Workload) -> bool:
    """Whether anything of a workload may be otherwise when a PriorityClass is.

    Nothing is of a single pod without owners that has its node: the API server has looked its priority up.
    """
    return workload.key[0] != "Pod" or not workload.reads_alike or workload.phase not in ADMITTED


def promise_priority(catalog: Catalog, group: MemberGroup, spec: PodSpec) -> None:
    """Take over how important the pods of a template will be, and whether they may take out others."""
    named = _class_of(catalog, spec.priority_class_name)
    said = spec.preemption_policy or (named.preemption_policy if named is not None else "")
    group.promised_priority = named.value if named is not None else 0
    group.promised_preempts = said != NEVER


def _class_of(catalog: Catalog, name: str) -> PriorityClass | None:
    return catalog.priority_class(name) if name else catalog.default_priority_class()


def _is_to_come(group: MemberGroup) -> bool:
    return group.promised is not None and not group.members
