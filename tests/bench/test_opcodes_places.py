"""Opcodes of nodes and namespaces: what is made for them, and what is left alone."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.opcodes import Watcher, file
from tutti_bench.session import WorkloadFailed


async def test_namespaces_follow_their_template_and_are_marked(bench):
    template = bench.template("ns.yaml", "metadata: {labels: {team: devops}}\n")
    async with Watcher(bench, "/api/v1/namespaces") as namespaces:
        await bench.run(
            file(f"  - {{opcode: createNamespaces, prefix: n, count: 2, namespaceTemplatePath: {template}}}\n")
        )
        made = await namespaces.until(lambda all_: len(all_) == 2)
    assert [(one["metadata"]["name"], one["metadata"]["labels"]["team"]) for one in made] == [
        ("n-0", "devops"), ("n-1", "devops"),
    ]  # fmt: skip
    assert made[0]["metadata"]["labels"]["bench.tutti.dev/owned"] == "true"


async def test_a_namespace_of_somebody_else_is_left_alone(bench):
    pod = {"metadata": {"name": "theirs"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await bench.client.request("POST", "/api/v1/namespaces/default/pods", body=msgspec.json.encode(pod))
    with pytest.raises(WorkloadFailed, match=r"operation 0, createPods: namespace default was not made by tutti bench"):
        await bench.run(file("  - {opcode: createPods, count: 1, namespace: default}\n"))
    assert [one["metadata"]["name"] for one in await bench.items("/api/v1/pods")] == ["theirs"]


async def test_pod_sets_put_the_same_pods_in_each_namespace(bench):
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - opcode: createPodSets\n    countParam: $sets\n    namespacePrefix: set\n"
        "    createPodsOp: {opcode: createPods, countParam: $each, collectMetrics: true}\n",
        "{sets: 2, each: 3}",
    )
    async with Watcher(bench, "/api/v1/pods") as pods:
        found = await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 6)
    assert sorted(one["metadata"]["namespace"] for one in made) == ["set-0"] * 3 + ["set-1"] * 3
    assert {one.name for one in found} == {"S/w/set-0", "S/w/set-1"}


async def test_nodes_of_a_bare_template_are_as_their_kubelets_would_have_them(bench):
    """A name before the first request, for the label; all of the capacity allocatable; features where so many are."""
    template = bench.template("node.yaml", "metadata: {generateName: n-}\nstatus: {capacity: {cpu: '2'}}\n")
    text = file(
        f"  - {{opcode: createNodes, count: 2, nodeTemplatePath: {template},"
        " nodeAllocatableStrategy: {nodeAllocatable: {example.com/x: 3}}}\n"
        "  - {opcode: createPods, countParam: $pods}\n",
        "{pods: 1, numNodeDeclaredFeatures: 10}",
    )
    async with Watcher(bench, "/api/v1/nodes") as nodes:
        await bench.run(text)
        made = await nodes.until(lambda all_: len(nodes.gone) == 2)
    assert len({one["metadata"]["name"] for one in made}) == 2
    for one in made:
        assert one["metadata"]["labels"] == {"kubernetes.io/hostname": one["metadata"]["name"]}
        assert one["status"]["allocatable"] == {"cpu": "2", "example.com/x": "3"}
        assert one["status"]["declaredFeatures"][:3] == ["Feature1", "Feature10", "Feature2"]


async def test_nodes_are_prepared_as_the_strategy_says(bench):
    template = bench.template("node.yaml", """
metadata: {name: "big-{{.Index}}", labels: {size: big}}
status: {capacity: {cpu: "64"}, allocatable: {cpu: "64"}}
""")  # fmt: skip
    text = file(
        f"  - {{opcode: createNodes, count: 2, nodeTemplatePath: {template},"
        " nodeAllocatableStrategy: {nodeAllocatable: {example.com/x: 3},"
        " csiNodeAllocatable: {csi.example.com: {count: 39}}, migratedPlugins: [kubernetes.io/a]}}\n"
        "  - {opcode: createNodes, count: 3, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}\n"
        "  - {opcode: createNodes, count: 2, uniqueNodeLabelStrategy: {labelKey: kubernetes.io/hostname}}\n"
    )
    async with Watcher(bench, "/api/v1/nodes") as nodes, Watcher(bench, "/apis/storage.k8s.io/v1/csinodes") as drivers:
        await bench.run(text)
        made = await nodes.until(lambda all_: len(nodes.gone) == 7)
        csi = await drivers.until(lambda all_: len(drivers.gone) == 2)
    by_name = {one["metadata"]["name"]: one for one in made}
    assert by_name["big-1"]["status"]["allocatable"] == {"cpu": "64", "example.com/x": "3"}
    assert by_name["big-1"]["status"]["capacity"] == {"cpu": "64", "example.com/x": "3"}
    assert by_name["big-1"]["metadata"]["labels"]["kubernetes.io/hostname"] == "big-1"
    assert "declaredFeatures" not in by_name["big-1"]["status"]
    assert by_name["big-1"]["metadata"]["labels"]["size"] == "big"
    assert [by_name[f"node-1-{i}"]["metadata"]["labels"]["zone"] for i in range(3)] == ["a", "b", "a"]
    hosts = {by_name[f"node-2-{i}"]["metadata"]["labels"]["kubernetes.io/hostname"] for i in range(2)}
    assert len(hosts) == 2
    assert not hosts & {"node-2-0", "node-2-1"}
    assert csi[0]["spec"]["drivers"][0]["allocatable"] == {"count": 39}
    assert csi[0]["metadata"]["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"] == "kubernetes.io/a"


async def test_a_namespace_of_somebody_else_is_measured_and_keeps_its_pods(bench):
    pod = {"metadata": {"name": "theirs"}, "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]}}
    await bench.client.request("POST", "/api/v1/namespaces/default/pods", body=msgspec.json.encode(pod))
    text = file(
        "  - {opcode: startCollectingMetrics, namespaces: [default]}\n"
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: stopCollectingMetrics}\n"
    )
    await bench.run(text)
    there = msgspec.json.decode(await bench.client.request("GET", "/api/v1/namespaces/default/pods"))["items"]
    assert [one["metadata"]["name"] for one in there] == ["theirs"]


async def test_namespaces_go_with_the_session(bench):
    async with Watcher(bench, "/api/v1/namespaces") as namespaces:
        await bench.run(file("  - {opcode: createNamespaces, prefix: n, count: 2}\n"))
        assert not namespaces.gone
        await bench.session.close()
        await namespaces.until(lambda all_: len(namespaces.gone) == len(all_) == 2)
