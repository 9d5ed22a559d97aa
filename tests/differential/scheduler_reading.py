"""Turns a recorded case of kube-scheduler into the columns that placement decides on."""

from __future__ import annotations

from typing import Any

import msgspec

from tutti.api.core import Node, Pod
from tutti.api.disruption import PodDisruptionBudget
from tutti.api.labels import LabelSelector
from tutti.api.selecting import SERVICE
from tutti.cluster.cluster import Cluster
from tutti.cluster.surroundings import Selecting
from tutti.placement.preemption.budgets import Budget, budget_of
from tutti.placement.preemption.single import Preemptor

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
        selector = LabelSelector(match_labels=service["spec"].get("selector", {}))
        cluster.put_selecting(Selecting(SERVICE, meta["namespace"], meta["name"], selector))
    for node in case["nodes"]:
        cluster.put_node(msgspec.convert(node, Node))
    for pod in case["pods"]:
        cluster.put_pod(pod_of(pod), keep=False)
    return cluster


def preemptor_of(cluster: Cluster, pod: Pod) -> Preemptor:
    klass = cluster.classes.of(pod.spec, pod.metadata.namespace, pod.metadata.labels)
    return Preemptor(klass, pod.spec.priority or 0, never=pod.spec.preemption_policy == "Never")


def budgets_of(case: Case) -> list[Budget]:
    return [budget_of(msgspec.convert(one, PodDisruptionBudget)) for one in case["pdbs"]]
