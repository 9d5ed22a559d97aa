"""How important a workload is: by the class that its object names, else by its pods, those to come included.

Classes are an administrator's, numbers anybody's: a number only ever lowers what a class gives. Pods that exist say
their priority themselves: the API server has looked it up. Of a pod that is only promised, the
template names a PriorityClass or nothing, and then the default of the cluster counts, of several the lowest
(kube-apiserver 1.36, plugin/pkg/admission/priority).
"""

from __future__ import annotations

from tutti.api.core import PodSpec, PriorityClass
from tutti.api.kinds.workload import WorkloadSpec
from tutti.engine.members import Group
from tutti.engine.state import State
from tutti.engine.workloads import Workload

NEVER = "Never"
"""The preemptionPolicy of pods that take out nobody."""


def of_object(state: State, workload: Workload, spec: WorkloadSpec) -> int:
    """Return the priority of a Workload object: its class's, else its pods'; its number where that is lower."""
    ref, value = spec.priority_class_ref, None
    if ref is not None:
        find = state.catalog.pod_class if ref.kind == "PriorityClass" else state.catalog.workload_class
        value = find(ref.name)
    if value is None:
        value = of_members(workload)
    return value if spec.priority is None else min(value, spec.priority)


def of_members(workload: Workload) -> int:
    """Return the priority of the most important of a workload's pods; of a group that has none, of those to come."""
    found = [member.pod.priority for member in workload.members()]
    found += [group.promised_priority for group in workload.groups.values() if _is_to_come(group)]
    return max(found, default=0)


def promise(state: State, group: Group, spec: PodSpec) -> None:
    """Take over how important the pods of a template will be, and whether they may take out others."""
    named = _class_of(state, spec.priority_class_name)
    said = spec.preemption_policy or (named.preemption_policy if named is not None else "")
    group.promised_priority = named.value if named is not None else 0
    group.promised_preempts = said != NEVER


def _class_of(state: State, name: str) -> PriorityClass | None:
    return state.catalog.priority_class(name) if name else state.catalog.default_priority_class()


def _is_to_come(group: Group) -> bool:
    return group.promised is not None and not group.members
