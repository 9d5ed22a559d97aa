"""Clusters with volumes, pods that ask for these, and where they could go."""

from __future__ import annotations

from typing import Any

from tests.placement.scenes import node, pod
from tests.placement.single_decision import Decision, decide
from tests.placement.storage import ZONE
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster


def cluster_of(*objects: Any, zones: str = "ab") -> Cluster:
    """Nodes n0, n1, ... in zones a, b, ..., and storage objects."""
    cluster = Cluster()
    for i, zone in enumerate(zones):
        cluster.put_node(node(f"n{i}", labels={ZONE: zone} if zone != "-" else {}))
    for one in objects:
        cluster.put_storage(one)
    return cluster


def waiting(cluster: Cluster, name: str = "p", **spec: Any) -> PodClass:
    """The class of a pod that waits."""
    record = cluster.put_pod(pod(name, **spec), keep=True)
    assert record is not None
    return record.pod_class


def said(cluster: Cluster, *objects: Any, **spec: Any) -> Decision:
    """Where a pod could go, with these storage objects as well."""
    for one in objects:
        cluster.put_storage(one)
    return decide(waiting(cluster, **spec), cluster.nodes)
