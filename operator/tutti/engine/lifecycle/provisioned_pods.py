"""The pods that nodes are asked for: those that quota is held for, as templates that an autoscaler can try."""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.provisioning import ProvisionedPods, template_spec
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodPhase
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.workloads import Workload
from tutti.quota.flavors import where_of
from tutti.quota.provisioning import ProvisioningCheck


def pods_of(state: LifecycleState, workload: Workload, check: ProvisioningCheck) -> list[ProvisionedPods]:
    """Return the pods of a workload that nodes are asked for: those that quota is held for, equal ones together."""
    found: dict[tuple[PodClass, tuple[str, ...]], int] = {}
    for group in workload.groups.values():
        if group.held is None:
            continue
        flavors = tuple(sorted({flavor for flavor, _ in group.held.charge.usage}))
        for pod_class, count in _classes(group, group.held.pods):
            if check.concerns(flavors, pod_class.requests):
                found[pod_class, flavors] = found.get((pod_class, flavors), 0) + count
    out = []
    for (pod_class, flavors), count in found.items():
        known = {flavor: flavor for flavor in flavors if flavor in state.catalog.flavors}
        where = where_of(known, state.catalog.flavors)
        spec = template_spec(pod_class.spec, where.node_labels, where.tolerations, workload.scheduler)
        out.append(ProvisionedPods(count, spec, dict(pod_class.labels)))
    return out


def _classes(group: MemberGroup, pods: int) -> Iterator[tuple[PodClass, int]]:
    """Yield the classes of so many members that wait, or are yet to be made, each with how many of them."""
    waiting = [m.pod.pod_class for m in group.members.values() if m.pod.counted is PodPhase.WAITING][:pods]
    for pod_class in dict.fromkeys(waiting):
        yield pod_class, sum(one is pod_class for one in waiting)
    if group.promised is not None and len(waiting) < pods:
        yield group.promised, pods - len(waiting)
