"""What `tutti explain` says of workloads of the scene, and of the scene with something else in it."""

from __future__ import annotations

from tests.cli.views import scene
from tests.cli.views.scene import GPU, Json, group, node, ours, pod, told
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.explain.model import (
    ExplainedWorkload,
)


def of(name: str, made: list[Json] | None = None, *, trying: bool = True) -> ExplainedWorkload:
    asked = told(made)
    state = asked.stock().state
    key = find_workload(state, asked.listed, *name.split("/"))
    assert not isinstance(key, str), key
    return explanation_of(asked, state, key, trying=trying)


def without(*names: str) -> list[Json]:
    """The scene without some gangs and their pods."""
    return [one for one in scene.objects() if not one["metadata"]["name"].startswith(names)]


def helps(found: ExplainedWorkload) -> list[str]:
    return [one.what for one in found.remedies if not one.then]


def verdicts(found: ExplainedWorkload) -> list[str]:
    return [f"{step.gate}: {step.verdict}" for step in found.steps]


def flavored(*nodes: Json, members: int = 1) -> list[Json]:
    """A gang in a queue whose one flavor asks for nodes with kind=fast."""
    quotas = [{"name": name, "nominalQuota": most} for name, most in ((GPU, "64"), ("cpu", "512"), ("memory", "8Ti"))]
    resources = {"coveredResources": [one["name"] for one in quotas]}
    group = {**resources, "flavors": [{"name": "fast", "resources": quotas}]}
    spec = {"schedulingPolicy": {"gang": {"minCount": members}}, "queueName": "q"}
    return [
        *nodes,
        ours("ResourceFlavor", "fast", {"nodeLabels": {"kind": "fast"}}),
        ours("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group]}),
        ours("LocalQueue", "q", {"clusterQueue": "cq"}, "d"),
        ours("PodGroup", "g", spec, "d"),
        *(pod("d", f"g-{n}", 8, gang="g") for n in range(members)),
    ]


def kind(name: str, value: str = "", **more: bool) -> Json:
    made = node(name, "m", "r", **more)
    made["metadata"]["labels"] |= {"kind": value} if value else {}
    return made


def alone(*pods: Json) -> list[Json]:
    """A gang of two that needs no quota, on a node with room for it."""
    return [node("n", "m", "r"), ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}}, "d"), *pods]


GANG = ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d")


def message(found: ExplainedWorkload, gate: str) -> str:
    return next(step.message for step in found.steps if step.gate == gate)


def gang(name: str, members: int, gpus: int = 8, *, rack: bool = False) -> list[Json]:
    owner = group("default", name, members, rack=rack)
    del owner["spec"]["queueName"]
    return [
        owner,
        *(pod("default", f"{name}-{index}", gpus, gang=name) for index in range(members)),
    ]
