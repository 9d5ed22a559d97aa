"""How others are named in what a namespace is told: those who read it need not be allowed to see these others.

Events, conditions and statuses lie in the namespace of whom they are about. A pod, gang or LocalQueue of another one is
told there by its kind and uid, as kube-scheduler (framework/preemption/executor.go) and Kueue
(preemption/preemption.go) tell of a preemptor. The views of `tutti` name everybody: they know no more than their reader
may list.
"""

from __future__ import annotations

from tutti.cluster.pods import PodRecord
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.state import State


def named(state: State, other: Workload, reader: str) -> str:
    """Return how a workload is told of in a namespace."""
    if not state.discreet or other.key[1] == reader:
        return other.name
    return _unnamed(other.key[0], other.uid or next((member.pod.uid for member in other.members()), ""))


def named_by(state: State, key: WorkloadKey, reader: str) -> str:
    """Return how a workload is told of in a namespace that may be gone already."""
    found = state.workloads.get(key)
    if found is not None:
        return named(state, found, reader)
    return "/".join(key) if not state.discreet or key[1] == reader else _unnamed(key[0], "")


def pod_named(state: State, pod: PodRecord, reader: str) -> str:
    """Return how a pod is told of in a namespace."""
    if not state.discreet or pod.namespace == reader:
        return f"{pod.namespace}/{pod.name}"
    return _unnamed("Pod", pod.uid)


def queue_named(state: State, local_queue: str, reader: str) -> str:
    """Return how a LocalQueue, by namespace and name, is told of in a namespace."""
    if not state.discreet or local_queue.partition("/")[0] == reader:
        return local_queue
    return "a LocalQueue of another namespace"


def _unnamed(kind: str, uid: str) -> str:
    said = f"a {kind} of another namespace"
    return f"{said} (uid {uid})" if uid else said
