"""What every cluster holds from the start: namespaces and the system's priority classes."""

from __future__ import annotations

from collections.abc import Iterable

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.rest.local import Local

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
CRITICAL = (
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that must run in the cluster."),
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must run on their node."),
)


async def populate(local: Local) -> None:
    """Create what is always there, where it is not there yet."""
    namespaces = local.backend.resource("", "v1", "namespaces")
    for name in NAMESPACES:
        await _ensure(local, namespaces, {"metadata": {"name": name}})
    classes = local.backend.resource("scheduling.k8s.io", "v1", "priorityclasses")
    for name, value, description in CRITICAL:
        await _ensure(local, classes, {"metadata": {"name": name}, "value": value, "description": description})


async def add_nodes(local: Local, manifests: Iterable[Json]) -> None:
    """Create the nodes that are not there yet."""
    nodes = local.backend.resource("", "v1", "nodes")
    for manifest in manifests:
        await _ensure(local, nodes, manifest)


async def add_device_classes(local: Local, manifests: Iterable[Json]) -> None:
    """Create the device classes that are not there yet."""
    classes = local.backend.resource("resource.k8s.io", "v1", "deviceclasses")
    for manifest in manifests:
        await _ensure(local, classes, manifest)


async def add_pod_groups(local: Local) -> None:
    """Have Kubernetes' own PodGroups served in all versions that there have been, where they are not yet.

    Their fields are taken as they come: 1.36 has them in v1alpha2, 1.37 in v1beta1, and the claims of groups (KEP-5729)
    behind a gate of their own in both.
    """
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions: list[Json] = [
        {"name": name, "served": True, "storage": name == "v1beta1", "schema": schema, "subresources": {"status": {}}}
        for name in ("v1beta1", "v1alpha3", "v1alpha2")
    ]
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    approved = {"api-approved.kubernetes.io": "unapproved, as served by kube-apiserver itself"}
    definition = {
        "metadata": {"name": "podgroups.scheduling.k8s.io", "annotations": approved},
        "spec": {"group": "scheduling.k8s.io", "scope": "Namespaced", "names": names, "versions": versions},
    }
    definitions = local.backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    await _ensure(local, definitions, definition)


async def _ensure(local: Local, resource: Resource, obj: Json) -> None:
    if local.backend.collection(resource).get("", obj["metadata"]["name"]) is None:
        await local.create(resource, "", obj)
