"""Compares the filter and the scores by NUMA zones with what was recorded of scheduler-plugins (`numa.md`).

A node with its report and a pod are made a cluster, as observations make it; then the plugins of a profile that has
NodeResourceTopologyMatch are asked about the pod's class, over the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.records import cases
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Node, NodeStatus, ObjectMeta, PodSpec, ResourceRequirements
from tutti.api.numa import NodeResourceTopology, read_topology
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.engine.reading.profiles import profiles_of
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.numa import NumaAlignment
from tutti.placement.plugins.numa_scores import NumaScore
from tutti.placement.profile import Profile, features_of

Case = dict[str, Any]
NODE = "worker"


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Each case's id, and how it is answered otherwise than recorded, None where it is not."""
    for case in cases(path):
        answer = ANSWERS[case["topic"]](case)
        different = [
            f"{key}: {answer.get(key)!r} instead of {value!r}"
            for key, value in case["expect"].items()
            if answer.get(key) != value
        ]
        yield f"numa-{case['id']}", "; ".join(different) or None


def asked(path: Path) -> dict[str, str]:
    """What answers each case."""
    plugin = {"numa-filter": "NumaAlignment", "numa-score": "NumaScore"}
    return {f"numa-{case['id']}": plugin[case["topic"]] for case in cases(path)}


def filtered(case: Case) -> Case:
    cluster, pod_class = world(case, case["node"])
    plugin = next(one for one in profile().inter_pod if isinstance(one, NumaAlignment))
    state = None
    if plugin.concerns & features_of(pod_class, cluster.nodes):
        state = plugin.pre_filter(pod_class, cluster.nodes, NO_FLAVOR)
    reasons = [one.reason for one in (state.rejections() if state is not None else ()) if one.rows[0]]
    return {"fits": not reasons, **({"message": reasons[0]} if reasons else {})}


def scored(case: Case) -> Case:
    listed = {name for zone in (case["nrt"] or {"zones": []})["zones"] for name in zone["available"]}
    cluster, pod_class = world(case, dict.fromkeys(listed, "1") | {"pods": "110"})
    weights = [{"name": name, "weight": weight} for name, weight in case["weights"].items() if weight >= 1]
    said = profile(scoringStrategy={"type": case["strategy"], "resources": weights})
    plugin = next(one for one in said.changing if isinstance(one, NumaScore))
    return {"score": int(plugin.points(pod_class, cluster.nodes)[0])}


ANSWERS = {"numa-filter": filtered, "numa-score": scored}


def profile(**arguments: Any) -> Profile:
    """The profile of a configuration that has the plugin."""
    configuration = TuttiConfiguration.model_validate({"profiles": [{"nodeResourceTopologyMatch": arguments}]})
    return profiles_of(configuration)["tutti"]


def world(case: Case, allocatable: dict[str, str]) -> tuple[Cluster, PodClass]:
    """The node of a case with its report, and the class of its pod."""
    cluster = Cluster()
    cluster.put_node(Node(ObjectMeta(name=NODE), status=NodeStatus(allocatable)))
    if case["nrt"] is not None:
        cluster.put_topology(read_topology(msgspec.convert(manifest(case["nrt"]), NodeResourceTopology), "v1alpha2"))
    pod = case["pod"]
    spec = PodSpec(
        containers=[_container(one) for one in pod["containers"]],
        init_containers=[_container(one) for one in pod["initContainers"]],
        overhead=pod.get("overhead") or {},
    )
    return cluster, cluster.classes.of(spec)


def manifest(report: Case) -> Case:
    """A recorded report as it is in the API server."""
    zones = [
        {
            "name": zone["name"],
            "type": zone["type"],
            "costs": [{"name": name, "value": value} for name, value in zone.get("costs", {}).items()],
            "resources": [{"name": name, "available": value} for name, value in zone["available"].items()],
        }
        for zone in report["zones"]
    ]
    return {**report, "metadata": {"name": NODE}, "zones": zones}


def _container(said: Case) -> Container:
    resources = ResourceRequirements(said["requests"] or {}, said["limits"] or {})
    return Container(resources=resources, restart_policy=said.get("restartPolicy") or "")
