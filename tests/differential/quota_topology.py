"""The topic of the quota corpus that asks into which domains of a topology pods go, asked of the engine.

All pod sets of a record are one workload of a queue with plenty of quota, whose one flavor has the topology. What is
placed already (by topology or not, in this flavor or another) are pods of another scheduler on the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.quota_cycle import domains, members
from tests.differential.quota_reading import Record
from tests.differential.quota_rules import Answer
from tests.differential.quota_world import MUCH, Scene, scene_of
from tutti.engine.records.workloads import ADMITTED

NAME = "default/asked"


def topology_placement(case: Record, expect: Record) -> tuple[Answer, Answer]:
    """In which domains the pods of each pod set are, or that the workload finds no room."""
    scene = scene_of(_as_cycle(case))
    scene.decide()
    workload = scene.workload(NAME)
    fits = workload is not None and workload.phase in ADMITTED
    answer: Answer = {"fits": fits}
    expected: Answer = {"fits": all(one["fits"] for one in expect["podSets"])}
    for said in expect["podSets"] if fits else []:
        if "domains" in said:
            answer[said["name"]] = domains(scene, members(scene, NAME, said["name"]), said["levels"])
            expected[said["name"]] = {tuple(one["values"]): one["count"] for one in said["domains"]}
    for said in expect["podSets"]:
        if "fitsOnly" in said and not fits:
            answer["fitsOnly"], expected["fitsOnly"] = _room(scene), said["fitsOnly"]["count"]
    return answer, expected


def _room(scene: Scene) -> int | None:
    """For how many pods, or slices, the engine says that there is room."""
    workload = scene.workload(NAME)
    why = None if workload is None else workload.explanation
    return int(why.details["fits"]) if why is not None and "fits" in why.details else None


def _as_cycle(case: Record) -> Record:
    flavor = {"name": "tas", **case["flavor"], "topology": "levels"}
    resources = sorted({r for pods in case["podSets"] for r in pods.get("requests", {})} or {"cpu"})
    quotas = [{"name": resource, "nominal": MUCH} for resource in resources]
    group = {"coveredResources": resources, "flavors": [{"name": "tas", "resources": quotas}]}
    return {
        "flavors": [flavor],
        "topologies": [{"name": "levels", "levels": case["levels"]}],
        "clusterQueues": [{"name": "queue", "resourceGroups": [group]}],
        "localQueues": [{"name": "default/queue", "clusterQueue": "queue"}],
        "workloads": [{"name": NAME, "localQueue": "queue", "podSets": case["podSets"]}],
        "nodes": case["nodes"],
        "pods": [*case.get("pods", []), *_placed(case)],
        "options": {},
    }


def _placed(case: Record) -> Iterator[Record]:
    """What is placed by topology already, on the first node of its domain."""
    for kind in ("ownUsage", "otherFlavorUsage"):
        for number, one in enumerate(case.get(kind, [])):
            shown = case["levels"][-len(one["values"]) :]
            node = next(
                node["name"]
                for node in case["nodes"]
                if [node["labels"].get(level) for level in shown] == one["values"]
            )
            for index in range(one["count"]):
                name = f"{kind.lower()}-{number}-{index}"
                yield {"name": name, "node": node, "phase": "Running", "requests": one["requests"]}
