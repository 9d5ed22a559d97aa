"""Turns a recorded case of kube-scheduler into the columns that placement decides on."""

from __future__ import annotations

from typing import Any

import msgspec

from tutti.api.core import Node, Pod
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.surroundings import Selecting

Case = dict[str, Any]


def pod_of(raw: Case) -> Pod:
    return msgspec.convert(raw, Pod)


def cluster_of(case: Case) -> Cluster:
    """Everything that existed when the pod in question was decided on."""
    cluster = Cluster()
    for namespace in case["namespaces"]:
        cluster.put_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels", {}))
    for service in case["services"]:
        meta = service["metadata"]
        cluster.put_service(Selecting(meta["namespace"], meta["name"], service["spec"].get("selector", {})))
    for node in case["nodes"]:
        cluster.put_node(msgspec.convert(node, Node))
    for pod in case["pods"]:
        cluster.put_pod(pod_of(pod), keep=False)
    return cluster


def class_of(cluster: Cluster, pod: Pod) -> PodClass:
    return cluster.classes.of(pod.spec, pod.metadata.namespace, pod.metadata.labels)
