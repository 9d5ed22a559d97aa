"""How others are named in what a namespace is told: those who read it need not be allowed to see these others.

Events, conditions and statuses lie in the namespace of whom they are about. A pod, gang or LocalQueue of another one is
told there by its kind and uid, as kube-scheduler (framework/preemption/executor.go) and Kueue
(preemption/preemption.go) tell of a preemptor. The views of `tutti` name everybody: they know no more than their reader
may list. Each of these is told whether it is `discreet` at all: else everybody is told by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.cluster.pods import PodRecord
from tutti.engine.records.workloads import Workload, WorkloadKey


def workload_named(other: Workload, reader: str, *, discreet: bool) -> str:
    """Return how a workload is told of in a namespace."""
    if not discreet or other.key[1] == reader:
        return other.name
    return _unnamed(other.key[0], other.uid or next((member.pod.uid for member in other.members()), ""))


def workload_named_by_key(
    key: WorkloadKey, reader: str, *, known: Mapping[WorkloadKey, Workload], discreet: bool
) -> str:
    """Return how a workload is told of in a namespace; it may be gone already from those that are known."""
    found = known.get(key)
    if found is not None:
        return workload_named(found, reader, discreet=discreet)
    return "/".join(key) if not discreet or key[1] == reader else _unnamed(key[0], "")


def pod_named(pod: PodRecord, reader: str, *, discreet: bool) -> str:
    """Return how a pod is told of in a namespace."""
    if not discreet or pod.namespace == reader:
        return f"{pod.namespace}/{pod.name}"
    return _unnamed("Pod", pod.uid)


def _unnamed(kind: str, uid: str) -> str:
    said = f"a {kind} of another namespace"
    return f"{said} (uid {uid})" if uid else said
