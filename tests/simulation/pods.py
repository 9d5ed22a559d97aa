"""Pods as users create them, and what is read of them."""

from __future__ import annotations

from tests.simulation.server import Json

PFNET = "gang-scheduling.preferred.jp/gang"
GROUP = "scheduling.tutti.dev"
NATIVE = "native PodGroup"
"""How a gang is told of that a PodGroup of Kubernetes stands for."""
RUN_SECONDS = "sim.tutti.dev/run-seconds"
GPU = "nvidia.com/gpu"
HOLD = "batch.kubernetes.io/job-tracking"
"""The finalizer by which a Job's controller keeps a pod that was deleted until it has counted it."""


def pod_of(about: Json, member: Json) -> Json:
    """A member as its user creates it, by the convention of its gang."""
    labels, annotations = {}, {}
    match about["how"]:
        case "PodGroup" | "pods of a PodGroup":
            labels[f"{GROUP}/pod-group"] = about["gang"]
        case "Workload":
            labels |= {f"{GROUP}/workload": about["gang"], f"{GROUP}/pod-group": "main"}
        case "pfnet":
            annotations |= {f"{PFNET}-name": about["gang"], f"{PFNET}-size": str(about["size"])}
    if about["how"] in ("pfnet", "Pod", NATIVE) and about["queue"]:
        labels[f"{GROUP}/queue-name"] = about["queue"]
    labels |= member.get("labels", {})
    annotations |= member.get("annotations", {})
    whole = plain(member["name"], member["gpus"], member["seconds"], labels=labels, annotations=annotations)
    whole["spec"] |= member.get("spec", {})
    if about["how"] == NATIVE:
        whole["spec"]["schedulingGroup"] = {"podGroupName": about["gang"]}
    whole["spec"]["containers"][0]["resources"]["requests"] |= member.get("requests", {})
    if member.get("held"):
        whole["metadata"]["finalizers"] = [HOLD]
    if member["gated"]:
        whole["spec"]["schedulingGates"] = [{"name": "wait"}]
    return whole


def plain(name: str, gpus: int, seconds: float, *, labels: Json, annotations: Json, scheduler: str = "tutti") -> Json:
    """A pod that runs for so long."""
    asked = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "c", "image": "none", "resources": {"requests": asked, "limits": asked}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": {**annotations, RUN_SECONDS: str(seconds)},
        },
        "spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]},
    }


def gpus_of(pod: Json) -> int:
    """How many GPUs it asks for."""
    return int(pod["spec"]["containers"][0]["resources"].get("requests", {}).get(GPU, 0))


def lives(pod: Json) -> bool:
    """Whether it has not ended."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def is_held_back(pod: Json) -> bool:
    """Whether a pod was deleted and goes only when its controller has let go of it."""
    return bool(pod["metadata"].get("deletionTimestamp")) and HOLD in pod["metadata"].get("finalizers", ())
