"""Hollow nodes: Node objects with room, labels, and nobody behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti_sim.hollow.power import HOLLOW
from tutti_sim.meta import clock, conditions

Json = dict[str, Any]

NODES_PER_ZONE_RACKS = 4
GPU = "nvidia.com/gpu"
GPU_LABEL = "nvidia.com/gpu.product"
"""The label in which NVIDIA's feature discovery tells the model of a node's GPUs."""
GPU_PRODUCT = "NVIDIA-A100-SXM4-80GB"
"""What a hollow GPU pretends to be, unless it is told."""
RACK = "topology.tutti.dev/rack"
ZONE = "topology.kubernetes.io/zone"

READY = {"reason": "KubeletReady", "message": "hollow kubelet is posting ready status"}


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many nodes there are, what each offers, and how they are spread.

    Attributes:
        per_rack: nodes in a rack; four racks make a zone.
        gpus: nvidia.com/gpu of each node; none when zero.
    """

    nodes: int = 20
    gpus: int = 8
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 110
    per_rack: int = 4
    prefix: str = "node"

    def manifests(self) -> list[Json]:
        """The nodes as objects to be created."""
        return [self._node(index) for index in range(self.nodes)]

    def _node(self, index: int) -> Json:
        rack = index // max(self.per_rack, 1)
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "1Ti"}
        labels = {ZONE: f"zone-{rack // NODES_PER_ZONE_RACKS}", RACK: f"rack-{rack:03d}"}
        if self.gpus:
            capacity[GPU] = str(self.gpus)
            labels[GPU_LABEL] = GPU_PRODUCT
        return manifest(f"{self.prefix}-{index:04d}", capacity, labels)


def manifest(name: str, capacity: Mapping[str, str], labels: Mapping[str, str]) -> Json:
    """A node as an object to be created, ready, with all of its capacity to give away."""
    own = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **labels,
        HOLLOW: "true",
    }
    return {
        "metadata": {"name": name, "labels": own},
        "spec": {},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "conditions": conditions.put((), "Ready", "True", lastHeartbeatTime=clock.now(), **READY),
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.2",
                "osImage": "hollow",
                "kernelVersion": "hollow",
                "containerRuntimeVersion": "hollow://1",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def ready_again(node: Json) -> Json:
    """The status of a node whose kubelet posts again."""
    status: Json = node.get("status", {})
    if conditions.holds(node, "Ready"):
        return status
    found = list(status.get("conditions") or ())
    for one in tuple(found):
        if one["type"] != "Ready" and one["status"] == "Unknown":
            found = conditions.put(found, one["type"], "False", reason="KubeletHasNoPressure", message="")
    found = conditions.put(found, "Ready", "True", lastHeartbeatTime=clock.now(), **READY)
    return {**status, "conditions": found}
