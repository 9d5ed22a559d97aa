"""Honest objects of the kinds that Kubernetes has, to begin from: above all pods, of all sorts that are treated in ways of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.hostile.target import CONTROLLER, QUEUE, Json, metadata
from tutti.api.configuration import Conventions
from tutti.engine.records.pod_admission import ADMITTED_CONDITION


def pod(labels: Mapping[str, str] = {}, annotations: Mapping[str, str] = {}, **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    plain = {"schedulerName": "tutti", "terminationGracePeriodSeconds": 0, "containers": [container]}
    meta = metadata("pod", labels=dict(labels), annotations=dict(annotations))
    return {"metadata": meta, "spec": {**plain, **spec}}


def owned() -> Json:
    """A pod that something controls."""
    found = pod()
    return {**found, "metadata": {**found["metadata"], "ownerReferences": [CONTROLLER]}}


_KOORDINATOR, _YUNIKORN = "gang.scheduling.koordinator.sh/", "yunikorn.apache.org/"
_PFNET = Conventions().pfnet_prefix
PFNET_SIZE = f"{_PFNET}-size"
GANGS: Mapping[str, Json] = {
    "tutti": pod({"scheduling.tutti.dev/pod-group": "gang", "scheduling.tutti.dev/queue-name": QUEUE}),
    "kubernetes": pod(schedulingGroup={"podGroupName": "native"}),
    "scheduler_plugins": pod({"scheduling.x-k8s.io/pod-group": "sigs"}),
    "pfnet": pod(annotations={f"{_PFNET}-name": "pfnet", PFNET_SIZE: "2"}),
    "volcano": pod(annotations={"scheduling.k8s.io/group-name": "volcano", "volcano.sh/task-spec": "task"}),
    "koordinator": pod(annotations={f"{_KOORDINATOR}name": "koordinator", f"{_KOORDINATOR}min-available": "2"}),
    "yunikorn": pod(
        {"applicationId": "app", "queue": f"root.{QUEUE}"},
        {
            f"{_YUNIKORN}task-group-name": "work",
            f"{_YUNIKORN}task-groups": '[{"name": "work", "minMember": 1, "minResource": {"cpu": "1"}}]',
        },
    ),
    "kueue": pod(
        {"kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/pod-group-name": "kueue"},
        {"kueue.x-k8s.io/pod-group-total-count": "2"},
    ),
}
"""A member of a gang in each convention."""
_PINNED = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
PODS: Mapping[str, Json] = {
    "plain": pod(),
    "queued": pod({"scheduling.tutti.dev/queue-name": QUEUE}),
    "after others": pod(annotations={"scheduling.tutti.dev/after": "sample,other:Finished"}),
    "fast in some flavor": pod(annotations={"scheduling.tutti.dev/expected-seconds-by-flavor": "default=60,other=90"}),
    "near data": pod({"scheduling.tutti.dev/dataset": "images_words", "scheduling.tutti.dev/behaviour": "loading"}),
    "part of a workload": pod({"scheduling.tutti.dev/workload": "sample"}),
    **{f"gang of {name}": found for name, found in GANGS.items()},
    "running": {
        **pod(
            {"scheduling.tutti.dev/queue-name": QUEUE},
            {
                "scheduling.tutti.dev/admission": '{"clusterQueue": "hostile", "flavors": {"cpu": "default", "memory": "default"}}'
            },
            nodeName="n1",
        ),
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {
                    "type": ADMITTED_CONDITION,
                    "status": "True",
                    "message": '{"clusterQueue": "hostile", "flavors": {"cpu": "default", "memory": "default"}}',
                },
            ],
        },
    },
    "owned": owned(),
    "pinned": pod(containers=[{"name": "c", "image": "x", "resources": {"requests": _PINNED, "limits": _PINNED}}]),
    "with a claim": pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]),
    "with others": pod(
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            }
        }
    ),
}
"""Honest pods, of all kinds that are treated in ways of their own."""
_LABELS = {"topology.kubernetes.io/zone": "z"}
_NODE: Json = {
    "metadata": metadata("node", namespaced=False, labels={"kubernetes.io/hostname": "node", **_LABELS}),
    "spec": {},
    "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
SELECTOR = {"matchLabels": {"a": "b"}}
BASES: Mapping[str, Json] = {
    "Node": _NODE,
    "Namespace": {"metadata": metadata("other", namespaced=False, labels={"a": "b"})},
    "PriorityClass": {"metadata": metadata("class", namespaced=False), "value": 1},
    "PodDisruptionBudget": {
        "metadata": metadata("budget"),
        "spec": {"selector": SELECTOR},
        "status": {"disruptionsAllowed": 1},
    },
    "ResourceQuota": {
        "metadata": metadata("allowance"),
        "spec": {"hard": {"pods": "1000"}},
        "status": {"hard": {"pods": "1000"}, "used": {"pods": "1"}},
    },
    "Service": {"metadata": metadata("service"), "spec": {"selector": {"a": "b"}}},
    "ReplicationController": {"metadata": metadata("controller"), "spec": {"selector": {"a": "b"}}},
    "ReplicaSet": {"metadata": metadata("set"), "spec": {"selector": SELECTOR}},
    "StatefulSet": {"metadata": metadata("set"), "spec": {"selector": SELECTOR}},
    "StorageClass": {
        "metadata": metadata("class", namespaced=False),
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    "CSIDriver": {"metadata": metadata("csi.example.com", namespaced=False), "spec": {"storageCapacity": True}},
    "CSINode": {
        "metadata": metadata("n1", namespaced=False),
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 3}}]},
    },
    "CSIStorageCapacity": {
        "metadata": metadata("capacity"),
        "storageClassName": "class",
        "capacity": "10Gi",
        "nodeTopology": {},
    },
    "PersistentVolume": {
        "metadata": metadata("volume", namespaced=False),
        "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "class"},
        "status": {"phase": "Available"},
    },
    "PersistentVolumeClaim": {
        "metadata": metadata("claim"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    },
    "VolumeAttachment": {
        "metadata": metadata("attachment", namespaced=False),
        "spec": {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "volume"}},
    },
}
