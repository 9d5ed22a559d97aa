"""Objects that stories are about."""

from __future__ import annotations

from typing import Any


def obj(
    kind: str, name: str, spec: dict[str, Any] | None = None, *, namespace: str = "", **metadata: Any
) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"kind": kind, "metadata": {"name": name, **where, **metadata}, "spec": spec or {}}


def cluster_queue(name: str = "cq", flavor: str = "f", cpu: str = "4", **spec: Any) -> dict[str, Any]:
    quota = {
        "name": flavor,
        "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}],
    }
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [quota]}]
    return obj("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def local_queue(name: str = "lq", queue: str = "cq", namespace: str = "default") -> dict[str, Any]:
    return obj("LocalQueue", name, {"clusterQueue": queue}, namespace=namespace)


def pod(name: str, *, cpu: str = "1", labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"schedulerName": "tutti", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return obj("Pod", name, spec, namespace="default", labels=labels or {}, **metadata)


def gang(name: str, size: int, *, cpu: str = "1", queue: str = "lq") -> list[dict[str, Any]]:
    """A PodGroup that needs all its members, then the members."""
    group = obj(
        "PodGroup",
        name,
        {"queueName": queue, "schedulingPolicy": {"gang": {"minCount": size}}},
        namespace="default",
    )
    labels = {"scheduling.tutti.dev/pod-group": name, "scheduling.tutti.dev/queue-name": queue}
    return [group, *(pod(f"{name}-{rank}", cpu=cpu, labels=labels) for rank in range(size))]
