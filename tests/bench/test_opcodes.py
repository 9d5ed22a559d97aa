"""Each opcode against the embedded cluster, with a scheduler that binds every pod to the first node."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.bench.conftest import SCHEDULER, benching
from tutti.kube.client import MERGE_PATCH
from tutti.kube.errors import ApiError
from tutti_bench.document import read_scenarios
from tutti_bench.pods import Stalled
from tutti_bench.run import Limits
from tutti_bench.session import WorkloadFailed, prepare
from tutti_bench.stage import Process


def file(operations: str, params: str = "{}", more: str = "") -> str:
    return f"- name: S\n{more}  workloadTemplate:\n{operations}  workloads: [{{name: w, params: {params}}}]\n"


class Watcher:
    """Remembers every object that was ever in a collection."""

    def __init__(self, bench, path: str) -> None:
        self.bench, self.path = bench, path
        self.objects: dict[str, dict] = {}
        self.gone: set[str] = set()
        self.first: dict[str, int] = {}
        self._news = asyncio.Event()

    async def __aenter__(self):
        client = self.bench.client
        version = msgspec.json.decode(await client.request("GET", self.path))["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch(version))
        return self

    async def _watch(self, version: str) -> None:
        query = {"watch": "1", "resourceVersion": version}
        rest = b""
        async with self.bench.client.stream(self.path, query=query, idle_seconds=60) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    meta = event["object"]["metadata"]
                    self.objects[meta["uid"]] = event["object"]
                    self.first.setdefault(meta["uid"], int(meta["resourceVersion"]))
                    if event["type"] == "DELETED":
                        self.gone.add(meta["uid"])
                self._news.set()

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.wait([self._task])

    def all(self) -> list[dict]:
        return list(self.objects.values())

    async def until(self, holds) -> list[dict]:
        async with asyncio.timeout(20):
            while not holds(self.all()):
                self._news.clear()
                await self._news.wait()
        return self.all()


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


@pytest.fixture
def child():
    """A process that does nothing until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


@pytest.fixture
def signals(monkeypatch):
    """What a process is told, in order; it is told so all the same."""
    sent: list[signal.Signals] = []
    tell = os.kill

    def kill(pid: int, what: int) -> None:
        sent.append(signal.Signals(what))
        tell(pid, what)

    monkeypatch.setattr("tutti_bench.stage.os.kill", kill)
    return sent


async def test_a_scheduler_is_held_back_until_all_pods_are_there(bench, child, signals):
    """That a process which is told so stands still is looked at in test_figures."""
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, count: 5, collectMetrics: true}\n")
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    found = await bench.session.run(task, SCHEDULER, Process(child.pid, drains=True))
    assert signals == [signal.SIGSTOP, signal.SIGCONT]
    assert "BindLatency" not in {one.metric for one in found}
    assert {one.labels["Drain"] for one in found} == {"true"}


async def test_a_scheduler_is_held_back_until_the_claims_of_templates_are_made(bench, child, signals):
    pod = bench.template("pod.yaml", """
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: device, resourceClaimTemplateName: one}, {name: own, resourceClaimName: mine}]
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, namespace: n, count: 1, collectMetrics: true, podTemplatePath: {pod}}}\n"
    )
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    async with Watcher(bench, "/api/v1/pods") as pods:
        running = asyncio.create_task(bench.session.run(task, SCHEDULER, Process(child.pid, drains=True)))
        await pods.until(lambda all_: any(one["spec"].get("nodeName") for one in all_))
        assert signals == [signal.SIGSTOP]

        body = {"status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "p-device"}]}}
        path = "/api/v1/namespaces/n/pods/p/status"
        await bench.client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH)
        await running
    assert signals == [signal.SIGSTOP, signal.SIGCONT]


async def test_nobody_is_held_back_where_that_was_not_asked_for(bench, child, signals):
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, count: 5, collectMetrics: true}\n")
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    found = await bench.session.run(task, SCHEDULER, Process(child.pid))
    assert signals == []
    assert {"SchedulerCPU", "BindLatency"} <= {one.metric for one in found}
    assert not any("Drain" in one.labels for one in found)


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


async def test_the_gang_options_multiply_and_mark_equal_pods(bench):
    group = bench.template("group.yaml", """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: "g-{{.Index}}"}
spec: {minAvailable: {{.podsPerGroup}}, selector: {matchLabels: {g: "g-{{.Index}}"}}}
""")  # fmt: skip
    pod = bench.template("pod.yaml", """
metadata: {name: "p-{{.Index}}", labels: {g: "g-{{DivideInt .Index .podsPerGroup}}"}}
spec: {containers: [{name: c, image: i}]}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createNamespaces, prefix: gang, count: 1}\n"
        f"  - {{opcode: createAny, countParam: $groups, namespace: gang-0, templatePath: {group},"
        " templateParams: {podsPerGroup: $perGroup}}\n"
        "  - opcode: createPods\n    countParam: $groups\n    countMultiplierParam: $perGroup\n"
        "    signatureBatchSizeParam: $perGroup\n    namespace: gang-0\n"
        f"    podTemplatePath: {pod}\n    templateParams: {{podsPerGroup: $perGroup}}\n",
        "{groups: 2, perGroup: 3}",
    )
    async with (
        Watcher(bench, "/api/v1/pods") as pods,
        Watcher(bench, "/apis/policy/v1/poddisruptionbudgets") as groups,
    ):
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 6)
        budgets = await groups.until(lambda all_: len(groups.gone) == 2)
    assert {one["metadata"]["name"]: one["spec"]["minAvailable"] for one in budgets} == {"g-0": 3, "g-1": 3}
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in made}
    assert labels["p-5"] == {"g": "g-1", "signature": "signature-label-1"}
    assert labels["p-2"] == {"g": "g-0", "signature": "signature-label-0"}


POD_GROUPS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.gangs.example.com}
spec:
  group: gangs.example.com
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup, listKind: PodGroupList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


async def test_pod_groups_of_any_kind_are_created_and_waited_for(bench):
    """CreateAny is offered until the kind it has just defined is served; createPodGroups waits until all are there."""
    definition = bench.template("crd.yaml", POD_GROUPS)
    group = bench.template(
        "group.yaml",
        "apiVersion: gangs.example.com/v1\nkind: PodGroup\nmetadata: {name: 'g-{{.Index}}', finalizers: [example.com/nobody]}\n",
    )
    text = file(
        f"  - {{opcode: createAny, templatePath: {definition}}}\n"
        f"  - {{opcode: createAny, namespace: gangs, templatePath: {group}}}\n"
        "  - {opcode: waitForPodGroups, namespace: gangs, count: 1}\n"
        f"  - {{opcode: createPodGroups, namespace: more, count: 3, templatePath: {group}}}\n"
        "  - {opcode: waitForPodGroups, namespace: more, count: 3}\n"
    )
    await bench.run(text)
    assert await bench.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") == []


async def test_pod_groups_of_a_version_that_is_not_served_are_made_in_one_that_is(bench):
    """Upstream's files have v1alpha3 or v1beta1, and kube-apiserver 1.36 serves v1alpha2."""
    approved = "annotations: {api-approved.kubernetes.io: 'unapproved, for tests'}"
    native = POD_GROUPS.replace("gangs.example.com", "scheduling.k8s.io").replace("- name: v1", "- name: v1alpha2")
    definition = bench.template("crd.yaml", native.replace(".scheduling.k8s.io}", f".scheduling.k8s.io, {approved}}}"))
    group = bench.template(
        "group.yaml", "apiVersion: scheduling.k8s.io/v1alpha3\nkind: PodGroup\nmetadata: {name: 'g-{{.Index}}'}\n"
    )
    await bench.run(
        file(
            f"  - {{opcode: createAny, templatePath: {definition}}}\n"
            f"  - {{opcode: createAny, namespace: gangs, templatePath: {group}}}\n"
            f"  - {{opcode: createPodGroups, namespace: more, count: 3, templatePath: {group}}}\n"
        )
    )


async def test_waiting_for_pod_groups_that_nobody_made_is_told(bench):
    with pytest.raises(WorkloadFailed, match=r"S/w: operation 0, waitForPodGroups: .* no PodGroup was created in"):
        await bench.run(file("  - {opcode: waitForPodGroups, namespace: x, count: 1}\n"))


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


async def test_claims_that_others_made_in_its_namespaces_are_taken_away(bench):
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, namespace: claims, count: 1}\n")
    await bench.run(text)  # the namespace stays
    path = "/apis/resource.k8s.io/v1/namespaces/claims/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    meta = {"name": "of-a-template", "finalizers": ["example.com/nobody-takes-it-off"]}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    await bench.client.request("POST", path, body=msgspec.json.encode(claim))
    await bench.run(text)
    assert await bench.items(path) == []


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


def device_class(bench) -> str:
    return bench.template("class.yaml", """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: c}
spec: {selectors: [{cel: {expression: 'device.driver == "d.example.com"'}}]}
""")  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v1beta2"])  # they look the same; servers have the second switched off
async def test_devices_and_claims_are_published(bench, version):
    claim = bench.template("claim.yaml", f"apiVersion: resource.k8s.io/{version}" + """
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 2}\n  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createResourceDriver, driverName: d.example.com, nodes: 'node-0-*', maxClaimsPerNodeParam: $max}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createResourceClaims, namespace: claims, count: 3, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n",
        "{max: 2}",
    )
    slices_path, claims_path = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceclaims"
    async with Watcher(bench, slices_path) as slices, Watcher(bench, claims_path) as claims:
        await bench.run(text)
        published = await slices.until(lambda all_: len(slices.gone) == 2)
        claimed = await claims.until(lambda all_: len(claims.gone) == 3)
    assert sorted(one["spec"]["nodeName"] for one in published) == ["node-0-0", "node-0-1"]
    assert [one["name"] for one in published[0]["spec"]["devices"]] == ["instance-0", "instance-1"]
    given = {one["metadata"]["name"]: one["status"]["allocation"] for one in claimed}
    taken = [given[f"claim-{i}"]["devices"]["results"][0] for i in range(3)]
    assert [(one["request"], one["driver"]) for one in taken] == [("r", "d.example.com")] * 3
    assert len({(one["pool"], one["device"]) for one in taken}) == 3
    assert given["claim-0"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [taken[0]["pool"]]


async def test_claims_for_which_no_device_is_left_are_told(bench):
    claim = bench.template("claim.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2}}]}}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createResourceDriver, driverName: d.example.com, maxClaimsPerNode: 3}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createResourceClaims, namespace: claims, count: 2, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n"
    )
    with pytest.raises(WorkloadFailed, match="allocResourceClaims: no node has the devices for claim claim-1"):
        await bench.run(text)


async def test_each_pod_gets_a_volume_that_is_bound_already(bench):
    volume = bench.template("pv.yaml", """
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d.example.com, volumeHandle: "h-{{.Index}}"}}
""")  # fmt: skip
    claim = bench.template("pvc.yaml", "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n")
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, count: 2, persistentVolumeTemplatePath: {volume}, persistentVolumeClaimTemplatePath: {claim}}}\n"
    )
    async with (
        Watcher(bench, "/api/v1/pods") as pods,
        Watcher(bench, "/api/v1/persistentvolumes") as volumes,
        Watcher(bench, "/api/v1/persistentvolumeclaims") as claims,
    ):
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 2)
        await volumes.until(lambda all_: len(volumes.gone) == 2)
        await claims.until(lambda all_: len(claims.gone) == 2)
    assert {one["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for one in made} == {"pvc-0", "pvc-1"}
    bound = {one["metadata"]["name"]: one for one in claims.all()}
    for one in volumes.all():
        of = one["spec"]["claimRef"]
        assert one["metadata"]["name"] == f"namespace-1-vol-{of['name'].removeprefix('pvc-')}"
        assert bound[of["name"]]["metadata"]["uid"] == of["uid"]
        assert bound[of["name"]]["spec"]["volumeName"] == one["metadata"]["name"]
        assert (one["status"]["phase"], bound[of["name"]]["status"]["phase"]) == ("Bound", "Bound")


@pytest.mark.parametrize(
    ("source", "field"),
    [("csi: {driver: d.example.com}", "volumeHandle"), ('awsElasticBlockStore: {volumeID: "<volume-id>"}', "volumeID")],
)
async def test_each_volume_is_one_of_its_own(bench, source, field):
    """The templates of scheduler_perf give no handle, or all the same; its own process puts one in."""
    volume = bench.template("pv.yaml", f"spec: {{accessModes: [ReadOnlyMany], capacity: {{storage: 1Gi}}, {source}}}\n")
    claim = bench.template("pvc.yaml", "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n")
    async with Watcher(bench, "/api/v1/persistentvolumes") as volumes:
        await bench.run(file(
            "  - {opcode: createNodes, count: 1}\n"
            f"  - {{opcode: createPods, count: 2, persistentVolumeTemplatePath: {volume}, persistentVolumeClaimTemplatePath: {claim}}}\n"
        ))  # fmt: skip
        await volumes.until(lambda all_: len(volumes.gone) == 2)
    kind = source.partition(":")[0]
    assert {one["spec"][kind][field] for one in volumes.all()} == {"namespace-1-vol-0", "namespace-1-vol-1"}


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


async def test_namespaces_go_with_the_session(bench):
    async with Watcher(bench, "/api/v1/namespaces") as namespaces:
        await bench.run(file("  - {opcode: createNamespaces, prefix: n, count: 2}\n"))
        assert not namespaces.gone
        await bench.session.close()
        await namespaces.until(lambda all_: len(namespaces.gone) == len(all_) == 2)


async def test_an_object_without_a_place_is_refused(bench):
    claim = bench.template("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
    with pytest.raises(WorkloadFailed, match="updateAny: ConfigMap needs a namespace"):
        await bench.run(file(f"  - {{opcode: updateAny, templatePath: {claim}}}\n"))


async def test_claims_are_given_what_they_select_of_slices_that_the_file_makes_itself(bench):
    """As upstream's dra/partitionabledevices: slices by createAny, whose counters a claim that is allocated uses up."""
    slices = bench.template("slice.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "parts-{{.Index}}"}
spec:
  driver: d.example.com
  allNodes: true
  pool: {name: "pool-{{.Index}}", generation: 1, resourceSliceCount: 2}
  devices:
  - {name: small, attributes: {first: {bool: false}}, consumesCounters: [{counterSet: s, counters: {c: {value: "1"}}}]}
  - {name: large, attributes: {first: {bool: true}}, consumesCounters: [{counterSet: s, counters: {c: {value: "2"}}}]}
""")  # fmt: skip
    counters = bench.template("counters.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "counters-{{.Index}}"}
spec:
  driver: d.example.com
  allNodes: true
  pool: {name: "pool-{{.Index}}", generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: s, counters: {c: {value: "2"}}}]
""")  # fmt: skip
    claim = bench.template("claim.yaml", """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: c
        selectors: [{cel: {expression: 'device.attributes["d.example.com"].first'}}]
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createAny, count: 2, templatePath: {counters}}}\n"
        f"  - {{opcode: createAny, count: 2, templatePath: {slices}}}\n"
        f"  - {{opcode: createAny, templatePath: {device_class(bench)}}}\n"
        f"  - {{opcode: createAny, namespace: claims, count: 2, templatePath: {claim}}}\n"
        "  - {opcode: allocResourceClaims, namespace: claims}\n"
    )
    async with Watcher(bench, "/apis/resource.k8s.io/v1/resourceclaims") as claims:
        await bench.run(text)
        claimed = await claims.until(lambda all_: len(claims.gone) == 2)
    taken = [one["status"]["allocation"]["devices"]["results"][0] for one in claimed]
    assert {(one["pool"], one["device"]) for one in taken} == {("pool-0", "large"), ("pool-1", "large")}
    assert all("nodeSelector" not in one["status"]["allocation"] for one in claimed)
