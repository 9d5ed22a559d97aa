"""Nodes that KWOK pretends: python -m e2e.harness.pretended COUNT prints them for kubectl.

They have the taint and the annotation by which KWOK's controller takes care of them and nothing else is placed there
(https://kwok.sigs.k8s.io/docs/user/kwok-manage-nodes-and-pods/).
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

PRETENDED = "kwok.x-k8s.io/node"
GPUS = 8


def node(number: int) -> dict[str, Any]:
    """A node with eight GPUs; four nodes share a rack."""
    name = f"kwok-{number:04d}"
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {"kubernetes.io/hostname": name, "type": "kwok", "topology.tutti.dev/rack": f"rack-{number // 4:03d}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {PRETENDED: "fake"}},
        "spec": {"taints": [{"key": PRETENDED, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts, "phase": "Running"},
    }


if __name__ == "__main__":
    yaml.safe_dump_all([node(number) for number in range(int(sys.argv[1]))], sys.stdout)
