"""What every cluster holds from the start: namespaces and the system's priority classes."""

from __future__ import annotations

from tutti.sim.rest.local import Local

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
CRITICAL = (
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that must run in the cluster."),
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must run on their node."),
)


async def populate(local: Local) -> None:
    """Create what is always there."""
    namespaces = local.backend.resource("", "v1", "namespaces")
    for name in NAMESPACES:
        await local.create(namespaces, "", {"metadata": {"name": name}})
    classes = local.backend.resource("scheduling.k8s.io", "v1", "priorityclasses")
    for name, value, description in CRITICAL:
        await local.create(classes, "", {"metadata": {"name": name}, "value": value, "description": description})
