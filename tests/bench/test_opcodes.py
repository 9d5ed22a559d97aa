"""Opcodes that create, change and delete pods and other objects."""

from __future__ import annotations

import pytest

from tests.bench.conftest import SCHEDULER
from tests.bench.opcodes import Watcher, file
from tutti.kube.client import MERGE_PATCH
from tutti.kube.errors import ApiError
from tutti_bench.session import WorkloadFailed


async def test_a_pod_that_names_its_own_scheduler_keeps_it(bench):
    own = bench.template(
        "own.yaml", "metadata: {generateName: o-}\nspec: {schedulerName: other, containers: [{name: c, image: i}]}\n"
    )
    usual = bench.template(
        "usual.yaml",
        "metadata: {generateName: u-}\nspec: {schedulerName: default-scheduler, containers: [{name: c, image: i}]}\n",
    )
    text = file(
        f"  - {{opcode: createPods, count: 1, podTemplatePath: {own}, skipWaitToCompletion: true}}\n"
        f"  - {{opcode: createPods, count: 1, podTemplatePath: {usual}, skipWaitToCompletion: true}}\n"
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 2)
    assert {pod["metadata"]["generateName"]: pod["spec"]["schedulerName"] for pod in made} == {
        "o-": "other", "u-": SCHEDULER,
    }  # fmt: skip


async def test_a_priority_alone_gets_a_class_that_goes_with_the_workload(bench):
    template = bench.template(
        "high.yaml", "metadata: {generateName: h-}\nspec: {priority: -7, containers: [{name: c, image: i}]}\n"
    )
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 3, podTemplatePath: {template}}}\n"
    )  # fmt: skip
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    async with Watcher(bench, "/api/v1/pods") as pods, Watcher(bench, classes) as known:
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 3)
        await known.until(lambda all_: known.gone)
    assert {(pod["spec"]["priority"], pod["spec"]["priorityClassName"]) for pod in made} == {
        (-7, "tutti-bench-minus-7")
    }
    assert [one["value"] for one in known.all() if one["metadata"]["name"] == "tutti-bench-minus-7"] == [-7]


async def test_a_class_that_admission_does_not_know_yet_is_waited_for(bench, monkeypatch):
    """A kube-apiserver looks for classes in a cache of its own, which is behind for a moment."""
    refused: list[str] = []
    request = bench.client.request

    async def behind(method: str, path: str, **more):
        if method == "POST" and path.endswith("/pods") and len(refused) < 2:
            refused.append(path)
            raise ApiError(
                403, "Forbidden", 'pods "h-" is forbidden: no PriorityClass with name tutti-bench-7 was found'
            )
        return await request(method, path, **more)

    monkeypatch.setattr(bench.client, "request", behind)
    template = bench.template(
        "high.yaml", "metadata: {generateName: h-}\nspec: {priority: 7, containers: [{name: c, image: i}]}\n"
    )
    await bench.run(file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 3, collectMetrics: true, podTemplatePath: {template}}}\n"
    ))  # fmt: skip
    assert len(refused) == 2


async def test_a_pod_is_updated_for_the_scheduler_it_was_created_for(bench):
    text = "metadata: {name: one, labels: {%s: x}}\nspec: {containers: [{name: c, image: i}], tolerations: [%s]}\n"
    before = bench.template("before.yaml", text % ("a", ""))
    after = bench.template(
        "after.yaml", "apiVersion: v1\nkind: Pod\n" + text % ("b", "{key: k, operator: Exists, effect: NoSchedule}")
    )
    steps = (
        f"  - {{opcode: createPods, count: 1, namespace: here, podTemplatePath: {before},"
        " skipWaitToCompletion: true}\n"
        f"  - {{opcode: updateAny, namespace: here, templatePath: {after}}}\n"
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        await bench.run(file(steps))
        (made,) = await pods.until(lambda all_: len(pods.gone) == 1)
    assert made["spec"]["schedulerName"] == SCHEDULER
    assert made["metadata"]["labels"] == {"b": "x"}


@pytest.mark.parametrize("rate", [0, 200])
async def test_pods_are_deleted_by_label_at_once_or_one_by_one(bench, rate):
    template = bench.template("pod.yaml", """
metadata: {name: "p-{{.Index}}", labels: {parity: "{{Mod .Index 2}}"}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
""")  # fmt: skip
    keep = bench.template("keep.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late}\n")
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 6, podTemplatePath: {template}}}\n"
        f"  - {{opcode: deletePods, namespace: namespace-1, labelSelector: {{parity: '1'}}, deletePodsPerSecond: {rate}}}\n"
        f"  - {{opcode: createAny, namespace: namespace-1, templatePath: {keep}}}\n"
    )
    async with Watcher(bench, "/api/v1/pods") as pods, Watcher(bench, "/api/v1/configmaps") as maps:
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 6)
        await maps.until(lambda all_: len(all_) == 1)
    (late,) = maps.first.values()
    left = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) < late for one in made}
    assert left == {"p-0": False, "p-1": True, "p-2": False, "p-3": True, "p-4": False, "p-5": True}


async def test_pods_that_are_deleted_in_the_background_hold_nobody_up(bench):
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createPods, count: 50}\n"
        "  - {opcode: deletePods, namespace: namespace-1, deletePodsPerSecond: 1, skipWaitToCompletion: true}\n"
        "  - {opcode: createPods, count: 2, collectMetrics: true}\n"
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        found = await bench.run(text)
        await pods.until(lambda all_: len(pods.gone) == 52)
    assert {one.name for one in found} == {"S/w/namespace-3"}


async def test_objects_are_replaced_in_whole_or_in_part(bench):
    made = bench.template(
        "map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'm-{{.Index}}'}\ndata: {a: old}\n"
    )
    changed = bench.template(
        "map2.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'm-{{.Index}}'}\ndata: {a: new}\n"
    )
    node = bench.template(
        "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-0-0}\nstatus: {capacity: {cpu: '9'}}\n"
    )
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createAny, namespace: x, count: 2, templatePath: {made}}}\n"
        f"  - {{opcode: updateAny, namespace: x, count: 2, updatePerSecond: 100, templatePath: {changed}}}\n"
        f"  - {{opcode: updateAny, templatePath: {node}}}\n"
    )
    async with Watcher(bench, "/api/v1/configmaps") as maps, Watcher(bench, "/api/v1/nodes") as nodes:
        await bench.run(text)
        await maps.until(lambda all_: len(maps.gone) == 2)
        await nodes.until(lambda all_: len(nodes.gone) == 1)
    assert [one["data"] for one in maps.all()] == [{"a": "new"}] * 2
    assert nodes.all()[0]["status"]["capacity"] == {"cpu": "9"}


async def test_what_somebody_wrote_between_reading_and_replacing_is_read_again(bench, monkeypatch):
    """As a scheduler does that says why a pod waits."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: %s}\n"
    made, changed = (bench.template(f"{one}.yaml", text % one) for one in ("old", "new"))
    request, rivals = bench.client.request, []

    async def beside(method, path, **more):
        if method == "PUT" and not rivals:
            rivals.append(path)
            await request("PATCH", path, body=b'{"data":{"b":"rival"}}', content_type=MERGE_PATCH)
        return await request(method, path, **more)

    monkeypatch.setattr(bench.client, "request", beside)
    async with Watcher(bench, "/api/v1/configmaps") as maps:
        await bench.run(file(
            f"  - {{opcode: createAny, namespace: x, templatePath: {made}}}\n"
            f"  - {{opcode: updateAny, namespace: x, templatePath: {changed}}}\n"
        ))  # fmt: skip
        await maps.until(lambda all_: len(maps.gone) == 1)
    assert len(rivals) == 1
    assert [one["data"] for one in maps.all()] == [{"a": "new"}]


async def test_an_object_without_a_place_is_refused(bench):
    claim = bench.template("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
    with pytest.raises(WorkloadFailed, match="updateAny: ConfigMap needs a namespace"):
        await bench.run(file(f"  - {{opcode: updateAny, templatePath: {claim}}}\n"))
