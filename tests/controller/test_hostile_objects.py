"""The whole operator beside objects that are made to stop it: it lives, starts again beside them, and places an honest pod."""

from __future__ import annotations

import json

from tests.controller.objects import obj, pod
from tests.controller.process import operator, until
from tutti.controller.crds import RESOURCES
from tutti.kube.resources import PODS

YUNIKORN, KOORDINATOR = "yunikorn.apache.org/", "gang.scheduling.koordinator.sh/"


def application(name: str, groups: str) -> dict:
    return pod(name, annotations={f"{YUNIKORN}app-id": name, f"{YUNIKORN}task-groups": groups})


def koordinated(name: str, **said: str) -> dict:
    texts = {"name": name, "min-available": "2", **{key.replace("_", "-"): text for key, text in said.items()}}
    return pod(name, annotations={f"{KOORDINATOR}{key}": text for key, text in texts.items()})


def greedy() -> dict:
    found = pod("greedy")
    made_up = {f"made-up.example/{at}": "1" for at in range(2_000)}
    resources = found["spec"]["containers"][0]["resources"]
    resources["requests"] |= made_up
    resources["limits"] = made_up
    return found


def workload(name: str, junk: str, **requests: str) -> str:
    container = {"name": "c", "image": "x", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container]}, "junk": "JUNK"}
    spec = {"podGroups": [{"name": "x", "count": 2, "template": template}]}
    return json.dumps(obj("Workload", name, spec, namespace="default")).replace('"JUNK"', junk)


HOSTILE = [
    application("brackets", "[" * 100_000),
    application("nested", "[" * 900 + "]" * 900),
    application("huge", json.dumps([{"name": "w", "minMember": 2**63, "minResource": {"cpu": "1"}}])),
    application("negative", json.dumps([{"name": "w", "minMember": 1, "minResource": {"cpu": "-100"}}])),
    koordinated("digits", waiting_time="1" * 200_000),
    koordinated("endless", waiting_time="9" * 400 + "h"),
    koordinated("listed", groups="[" * 200_000),
    pod("admitted", annotations={"scheduling.tutti.dev/admission": '{"x": ' + "[" * 200_000}),
    greedy(),
]


async def place(cluster, name: str) -> None:
    """An honest pod is placed."""
    await cluster.create(PODS, pod(name))

    async def bound():
        return (await cluster.get(PODS, name, "default"))["spec"].get("nodeName")

    await until(bound)


async def test_an_honest_pod_is_placed_beside_all_that_is_made_to_stop_the_operator(cluster, kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path) as running:
        await running.says("deciding")
        for at, hostile in enumerate(HOSTILE):
            await cluster.create(PODS, hostile)
            if at % 3 == 2:
                await place(cluster, f"honest-{at}")
        for depth in (100, 400):
            text = workload(f"deep-{depth}", "[" * depth + "]" * depth, cpu="-10")
            await cluster.create(RESOURCES["Workload"], json.loads(text))
        await place(cluster, "honest")
        assert not running.said("engine_crashed")
        assert await running.stop() == 0
    async with operator(kubeconfig, tmp_path) as again:
        await again.says("deciding")
        await place(cluster, "honest-again")
        assert await again.stop() == 0
