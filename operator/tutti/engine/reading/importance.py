"""How important a workload is: by the class that its object names, else by its pods, those to come included.

Classes are an administrator's, numbers anybody's: a number only ever lowers what a class gives. Pods that exist say
their priority themselves: the API server has looked it up. Of a pod that is only promised, the
template names a PriorityClass or nothing, and then the default of the cluster counts, of several the lowest
(kube-apiserver 1.36, plugin/pkg/admission/priority).

Whoever may write a PodGroup or a template can name any PriorityClass in it; whether his pods may have it, the API
server decides when they are created (by a ResourceQuota with a scopeSelector, say). So what is named decides who goes
first, and for taking others out it counts no more than what the pods were admitted with; of pods that are yet to come,
no more than what everybody's have. A WorkloadPriorityClass is an administrator's word about queues, and reaches no
further.
"""

from __future__ import annotations

from tutti.api.core import PodSpec, PriorityClass
from tutti.api.kinds.workload import WorkloadSpec
from tutti.engine.reading.catalog import Catalog
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Group
from tutti.engine.records.workloads import Workload

NEVER = "Never"
"""The preemptionPolicy of pods that take out nobody."""


SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")
"""The PriorityClasses of pods that a cluster cannot be without (kube-apiserver 1.36, pkg/apis/scheduling/types.go)."""


def refused(name: str) -> Explanation | None:
    """Return why a gang may not be of a PriorityClass; None where it may."""
    if name not in SYSTEM_CLASSES:
        return None
    text = f"it names PriorityClass {name}, which is of pods that a cluster cannot be without; name another"
    return Explanation(Gate.GATHER, "SystemPriorityClass", text)


def of_object(catalog: Catalog, workload: Workload, spec: WorkloadSpec) -> int:
    """Return the priority of a Workload object: its class's, else its pods'; its number where that is lower."""
    ref, value = spec.priority_class_ref, None
    if ref is not None:
        find = catalog.pod_class if ref.kind == "PriorityClass" else catalog.workload_class
        value = find(ref.name)
        workload.ranked = value is not None and ref.kind != "PriorityClass"
    if value is None:
        value = of_members(workload)
    return value if spec.priority is None else min(value, spec.priority)


def of_members(workload: Workload) -> int:
    """Return the priority of the most important of a workload's pods; of a group that has none, of those to come."""
    found = [member.pod.priority for member in workload.members()]
    found += [group.promised_priority for group in workload.groups.values() if _is_to_come(group)]
    return max(found, default=0)


def reach_of(catalog: Catalog, workload: Workload) -> int:
    """Return by which priority a workload takes out others by the rules of queues."""
    if workload.ranked:
        return workload.priority
    found = [member.pod.priority for member in workload.members()]
    found += [promised_reach(catalog, group) for group in workload.groups.values() if _is_to_come(group)]
    return min(workload.priority, max(found, default=workload.priority))


def promised_reach(catalog: Catalog, group: Group) -> int:
    """Return by which priority members that are only promised take out others: no more than those of no class have."""
    usual = catalog.default_priority_class()
    return min(group.promised_priority, 0 if usual is None else usual.value)


def promise(catalog: Catalog, group: Group, spec: PodSpec) -> None:
    """Take over how important the pods of a template will be, and whether they may take out others."""
    named = _class_of(catalog, spec.priority_class_name)
    said = spec.preemption_policy or (named.preemption_policy if named is not None else "")
    group.promised_priority = named.value if named is not None else 0
    group.promised_preempts = said != NEVER


def _class_of(catalog: Catalog, name: str) -> PriorityClass | None:
    return catalog.priority_class(name) if name else catalog.default_priority_class()


def _is_to_come(group: Group) -> bool:
    return group.promised is not None and not group.members
