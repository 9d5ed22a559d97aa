"""Stages of a workload: what is waited for, measured and goes on beside, and what is left where one fails."""

from __future__ import annotations

import asyncio

import pytest

from tests.bench.conftest import SCHEDULER, benching
from tests.bench.opcodes import Watcher, file
from tutti.kube.errors import ApiError
from tutti_bench.pods import Stalled
from tutti_bench.run import Limits
from tutti_bench.session import WorkloadFailed


async def test_pods_are_created_bound_measured_and_taken_away(bench):
    template = bench.template("pod.yaml", """
metadata: {name: "p-{{.Index}}-of-{{.Count}}", labels: {team: "{{.team}}"}}
spec: {containers: [{name: c, image: pause}]}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 2}\n"
        "  - opcode: createPods\n    countParam: $pods\n    collectMetrics: true\n"
        "    templateParams: {team: $team}\n",
        "{pods: 7, team: red}",
        f"  defaultPodTemplatePath: {template}\n",
    )
    async with Watcher(bench, "/api/v1/pods") as pods, Watcher(bench, "/api/v1/nodes") as nodes:
        found = await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 7)
        await nodes.until(lambda all_: len(nodes.gone) == 2)
    assert sorted(pod["metadata"]["name"] for pod in made) == [f"p-{i}-of-7" for i in range(7)]
    assert {pod["metadata"]["namespace"] for pod in made} == {"namespace-1"}
    assert {pod["metadata"]["labels"]["team"] for pod in made} == {"red"}
    assert {pod["spec"]["schedulerName"] for pod in made} == {SCHEDULER}
    assert {node["metadata"]["name"] for node in nodes.all()} == {"node-0-0", "node-0-1"}
    assert nodes.all()[0]["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert {one.name for one in found} == {"S/w/namespace-1"}
    by_metric = {one.metric: one for one in found}
    assert list(by_metric) == ["SchedulingThroughput", "SchedulingDuration", "OverallThroughput", "BindLatency"]
    assert by_metric["OverallThroughput"].data["Average"] > 0
    assert set(by_metric["BindLatency"].data) == {"Average", "Perc50", "Perc90", "Perc95", "Perc99"}
    assert bench.reporter.operations == ["createNodes", "createPods"]


async def test_a_steady_state_creates_again_what_it_deletes(bench):
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - opcode: createPods\n    count: 2\n    steadyStateParam: $steady\n    durationParam: $long\n"
        "    collectMetrics: true\n",
        "{steady: true, long: 1500ms}",
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == len(all_) > 2)
    assert len(made) % 2 == 0
    assert all(one["spec"].get("nodeName") for one in made)


@pytest.mark.parametrize("mode", ["create", "recreate"])
async def test_churn_goes_on_beside_the_others(bench, mode):
    service = bench.template(
        "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {generateName: s-}\nspec: {ports: [{port: 80}]}\n"
    )
    node = bench.template("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {generateName: churn-}\n")
    text = file(
        f"  - {{opcode: churn, mode: {mode}, number: 2, intervalMilliseconds: 20, templatePaths: [{node}, {service}]}}\n"
        "  - {opcode: sleep, duration: 50s}\n"
    )
    async with Watcher(bench, "/api/v1/nodes") as nodes, Watcher(bench, "/api/v1/services") as services:
        running = asyncio.create_task(bench.run(text))
        enough = 5 if mode == "recreate" else 2
        await services.until(lambda all_: len(all_) >= enough)
        if mode == "create":
            await asyncio.sleep(0.1)  # in which there would be a third
            assert len(services.all()) == 2
        else:
            assert len(services.gone) >= 2
        running.cancel()
        await asyncio.wait([running])
        churned = await nodes.until(lambda all_: len(nodes.gone) == len(all_))
    assert len(churned) >= enough
    assert {one["metadata"]["namespace"] for one in services.all()} == {"namespace-0"}


async def test_churn_that_fails_fails_the_workload(bench):
    bad = bench.template("bad.yaml", "apiVersion: v1\nkind: Nonsense\nmetadata: {name: x}\n")
    with pytest.raises(WorkloadFailed, match="serves no Nonsense in v1"):
        await bench.run(file(
            f"  - {{opcode: churn, mode: create, templatePaths: [{bad}]}}\n  - {{opcode: sleep, duration: 20s}}\n"
        ))  # fmt: skip


async def test_barriers_wait_for_the_stage_they_name(bench):
    gated = bench.template("gated.yaml", """
metadata: {generateName: g-, labels: {kind: gated}}
spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 3, podTemplatePath: {gated}, skipWaitToCompletion: true}}\n"
        "  - {opcode: barrier, stageRequirement: Attempted}\n"
        "  - {opcode: createPods, count: 4, skipWaitToCompletion: true}\n"
        "  - {opcode: barrier, namespaces: [namespace-3], stageRequirement: Scheduled}\n"
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 7)
    placed = [one for one in made if one["spec"].get("nodeName")]
    assert {one["metadata"]["namespace"] for one in placed} == {"namespace-3"}
    assert len(placed) == 4


async def test_a_stage_that_is_not_reached_is_told_with_what_the_scheduler_says(tmp_path):
    async with benching(tmp_path, limits=Limits(operation=2.0, workload=60, settle=0.2)) as bench:
        gated = bench.template(
            "gated.yaml",
            "metadata: {name: g}\nspec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}\n",
        )
        with pytest.raises(WorkloadFailed) as raised:
            await bench.run(file(f"  - {{opcode: createPods, count: 1, podTemplatePath: {gated}}}\n"))
        assert str(raised.value).startswith(
            "S/w: operation 0, createPods: 1 pods are not on nodes after 2 s; namespace-0/g says SchedulingGated"
        )
        assert await bench.items("/api/v1/pods") == []


async def test_what_is_measured_can_be_named(bench):
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: startCollectingMetrics, name: mine, namespaces: [namespace-2]}\n"
        "  - {opcode: createPods, count: 3}\n"
        "  - {opcode: createPods, count: 5}\n"
        "  - {opcode: stopCollectingMetrics}\n"
    )
    found = await bench.run(text)
    assert {one.name for one in found} == {"S/w/mine"}
    assert len(found) == 4


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ("  - {opcode: stopCollectingMetrics}\n", "no measurement goes on"),
        ("  - {opcode: startCollectingMetrics, namespaces: [x]}\n" * 2, "a measurement goes on"),
    ],
)
async def test_a_measurement_begins_and_ends_once(bench, operations, why):
    with pytest.raises(WorkloadFailed, match=why):
        await bench.run(file(operations))
    assert await bench.run(file("  - {opcode: sleep}\n")) == []


async def test_what_was_on_its_way_when_another_was_refused_is_taken_away(bench, monkeypatch):
    request, made = bench.client.request, asyncio.Event()

    async def slow(method: str, path: str, **more):
        """The first claim is made, and its answer does not come before that of the second, which is refused."""
        if method != "POST" or not path.endswith("/persistentvolumeclaims"):
            return await request(method, path, **more)
        if b"pvc-0" in more["body"]:
            await request(method, path, **more)
            made.set()
            await asyncio.Event().wait()
        await made.wait()
        raise ApiError(422, "Invalid", "it is refused")

    monkeypatch.setattr(bench.client, "request", slow)
    volume = bench.template(
        "pv.yaml", "spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d.example.com}}\n"
    )
    claim = bench.template("pvc.yaml", "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n")
    with pytest.raises(WorkloadFailed, match="PersistentVolumeClaim pvc-1: 422 Invalid"):
        await bench.run(file(
            "  - {opcode: createNodes, count: 1}\n"
            f"  - {{opcode: createPods, count: 2, persistentVolumeTemplatePath: {volume}, persistentVolumeClaimTemplatePath: {claim}}}\n"
        ))  # fmt: skip
    assert await bench.items("/api/v1/persistentvolumeclaims") == []


async def test_a_workload_that_fails_leaves_nothing_behind(bench):
    bad = bench.template("bad.yaml", "metadata: {name: p}\nspec: {containers: []}\n")
    held = bench.template(
        "held.yaml",
        "metadata: {name: h, finalizers: [example.com/nobody]}\nspec: {containers: [{name: c, image: i}]}\n",
    )
    text = file(
        "  - {opcode: createNodes, count: 3}\n"
        f"  - {{opcode: createPods, count: 1, podTemplatePath: {held}}}\n"
        f"  - {{opcode: createPods, count: 1, podTemplatePath: {bad}}}\n"
    )
    with pytest.raises(WorkloadFailed, match=r"S/w: operation 2, createPods: Pod p: 422 Invalid"):
        await bench.run(text)
    assert await bench.items("/api/v1/pods") == []
    assert await bench.items("/api/v1/nodes") == []


async def test_the_same_workload_can_be_run_again(bench):
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, count: 3, collectMetrics: true}\n")
    assert [one.name for one in await bench.run(text)] == [one.name for one in await bench.run(text)]


async def test_a_probe_tells_whether_anybody_schedules(bench):
    await bench.session.probe(SCHEDULER, 20)
    assert await bench.items("/api/v1/nodes") == []
    with pytest.raises(Stalled, match="1 pods are not bound by nobody after 0 s"):
        await bench.session.probe("nobody", 0.3)
    assert await bench.items("/api/v1/pods") == []
