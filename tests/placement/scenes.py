"""Random small clusters and pods, and a scheduler that takes one pod after another."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from tests.placement.single_decision import decide
from tutti.api.core import Node, Pod
from tutti.api.owners import SERVICE
from tutti.api.selectors import LabelSelector
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.label_index import PodSelecting
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation
from tutti.placement.profile import Profile

ZONES = ["a", "b", "c"]
LABELS = [{}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "t"}]
SELECTORS: list[dict[str, Any]] = [
    {"matchLabels": {"app": "x"}},
    {"matchLabels": {"app": "y"}},
    {},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
]
KEYS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"]


def with_packing(packing: AllocationScore) -> Profile:
    """The default profile with another idea of how full nodes should be."""
    return Profile(fill=(packing, BalancedAllocation()))


def node(
    name: str, *, cpu: int = 4, memory: int = 8, pods: int = 10, labels: dict[str, str] | None = None, **spec: Any
) -> Node:
    raw = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": str(pods)}},
    }
    return msgspec.convert(raw, Node)


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    node: str = "",
    cpu: str = "1",
    **spec: Any,
) -> Pod:
    requests = {"cpu": cpu} if cpu else {}
    raw = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], "nodeName": node, **spec},
    }
    return msgspec.convert(raw, Pod)


def service(name: str, **selector: str) -> PodSelecting:
    return PodSelecting(SERVICE, "default", name, LabelSelector(match_labels=selector))


@st.composite
def nodes(draw: st.DrawFn, most: int = 6) -> list[Node]:
    out = []
    for i in range(draw(st.integers(1, most))):
        labels = {}
        if draw(st.integers(0, 4)):
            labels["topology.kubernetes.io/zone"] = draw(st.sampled_from(ZONES))
        if draw(st.booleans()):
            labels["rack"] = draw(st.sampled_from(["r1", "r2"]))
        spec: dict[str, Any] = {}
        effect = draw(st.sampled_from(["", "", "PreferNoSchedule", "NoSchedule"]))
        if effect:
            spec["taints"] = [{"key": "k", "effect": effect}]
        size = {"cpu": draw(st.integers(1, 6)), "memory": draw(st.integers(1, 8)), "pods": draw(st.integers(1, 8))}
        out.append(node(f"n{i}", labels=labels, **size, **spec))
    return out


def terms() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"topologyKey": st.sampled_from(KEYS), "labelSelector": st.sampled_from(SELECTORS)})


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """What a pod asks for beside its requests."""
    spec: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    kind = draw(st.sampled_from(["", "", "near", "apart", "prefer", "spread", "soft", "port", "node"]))
    if kind == "near":
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [draw(terms())]}
    if kind in ("apart", "port") and draw(st.booleans()):
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [draw(terms())]}
    if kind == "prefer":
        side = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
        weighted = {"weight": draw(st.sampled_from([1, 50, 100])), "podAffinityTerm": draw(terms())}
        affinity[side] = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    if kind == "node":
        expression = {"key": "rack", "operator": draw(st.sampled_from(["In", "NotIn"])), "values": ["r1"]}
        preference = {"weight": draw(st.sampled_from([1, 10, 100])), "preference": {"matchExpressions": [expression]}}
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    if kind in ("spread", "soft"):
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": draw(st.sampled_from(KEYS)),
                "maxSkew": draw(st.integers(1, 2)),
                "whenUnsatisfiable": "DoNotSchedule" if kind == "spread" else "ScheduleAnyway",
                "labelSelector": draw(st.sampled_from(SELECTORS)),
            }
        ]
    if kind == "port":
        spec["containers"] = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    if affinity:
        spec["affinity"] = affinity
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    return spec


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    cluster = Cluster()
    for one in draw(nodes()):
        cluster.put_node(one)
    if draw(st.booleans()):
        cluster.put_selecting(service("s", app="x"))
    for i in range(draw(st.integers(0, 6))):
        cpu = draw(st.sampled_from(["", "500m", "1"]))
        where = draw(st.sampled_from(sorted(cluster.nodes.rows)))
        spec = draw(specs())
        labels = draw(st.sampled_from(LABELS))
        cluster.put_pod(pod(f"e{i}", labels=labels, node=where, cpu=cpu, **spec), keep=False)
    return cluster


def one_after_another(cluster: Cluster, pod_class: PodClass, count: int, profile: Profile) -> list[int]:
    """The rows of pods decided one by one, each seeing those before it as bound.

    Of nodes worth the same, that with the fewest pods is taken, or the lowest row where pods gather.
    """
    out: list[int] = []
    cluster_nodes = cluster.nodes

    def pods_there(row: int) -> tuple[int, int]:
        return int(cluster_nodes.requested[row, cluster_nodes.resource_index.column("pods")]), row

    for _ in range(count):
        decision = decide(pod_class, cluster_nodes, NO_FLAVOR, profile)
        if not len(decision.rows):
            break
        best = decision.rows[decision.total == decision.total.max()].tolist()
        row = best[0] if profile.gathers(pod_class) else min(best, key=pods_there)
        out.append(row)
        cluster_nodes.requested[row] += cluster_nodes.vector(pod_class.requests)
        cluster_nodes.scored[row] += np.array(pod_class.weight)
        cluster_nodes.label_index.add(pod_class.pod_signature, row)
    for row in out:
        cluster_nodes.requested[row] -= cluster_nodes.vector(pod_class.requests)
        cluster_nodes.scored[row] -= np.array(pod_class.weight)
        cluster_nodes.label_index.add(pod_class.pod_signature, row, count=-1)
    return out
