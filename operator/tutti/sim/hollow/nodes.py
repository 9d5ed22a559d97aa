"""Hollow nodes: Node objects with room, labels, and nobody behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tutti.sim.meta import clock

Json = dict[str, Any]

NODES_PER_ZONE_RACKS = 4


GPU_PRODUCT = "NVIDIA-A100-SXM4-80GB"
"""What a hollow GPU pretends to be, in the label that NVIDIA's feature discovery puts on real nodes."""


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
        name = f"{self.prefix}-{index:04d}"
        rack = index // max(self.per_rack, 1)
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "1Ti"}
        if self.gpus:
            capacity["nvidia.com/gpu"] = str(self.gpus)
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": f"zone-{rack // NODES_PER_ZONE_RACKS}",
            "topology.tutti.dev/rack": f"rack-{rack:03d}",
            "sim.tutti.dev/hollow": "true",
        }
        if self.gpus:
            labels["nvidia.com/gpu.product"] = GPU_PRODUCT
        return {
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": capacity,
                "allocatable": dict(capacity),
                "conditions": [_ready()],
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


def _ready() -> Json:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "hollow kubelet is posting ready status",
        "lastHeartbeatTime": clock.now(),
        "lastTransitionTime": clock.now(),
    }
