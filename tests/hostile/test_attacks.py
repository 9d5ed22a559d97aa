"""What a tenant who may write pods, PodGroups and Workloads in one namespace has tried, against a whole operator.

Each attack succeeded once, and most ended the scheduler for everybody, at every start. The attackers have pods, nodes
and namespaces of their own here, so that all can be at it at the same time beside the same operator.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.controller.objects import cluster_queue, local_queue, obj
from tests.controller.process import Cluster, Operator, operator, until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.records.pod_admission import ADMITTED_CONDITION
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.resources import CSI_NODES, EVENTS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS
from tutti_sim.cluster import EmbeddedCluster

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("attacks")]

GPU = "nvidia.com/gpu"
GROUP = "scheduling.tutti.dev"
YUNIKORN, KOORDINATOR = "yunikorn.apache.org/", "gang.scheduling.koordinator.sh/"
ESCAPES = "x\x1b[2J\x1b[31mPWNED\n[green]ok[/green]"
GPUS = 8
"""Of each node."""


class Town(Cluster):
    """A cluster of several tenants, of whom each has one node."""

    def __init__(self, client: Client, embedded: EmbeddedCluster, kubeconfig: Path) -> None:
        super().__init__(client)
        self.embedded = embedded
        self.kubeconfig = kubeconfig
        self._free: list[str] = []

    async def move_in(self, *namespaces: str) -> str:
        """Give namespaces a node together, which nobody else uses; return its name."""
        for name in namespaces:
            await self.create(NAMESPACES, obj("Namespace", name))
        self._free = self._free or sorted(one["metadata"]["name"] for one in await self.list(NODES))
        return self._free.pop()

    async def open(self, namespace: str, gpus: int, *, name: str = "lq") -> None:
        """Give a namespace a queue with so many GPUs."""
        queue = cluster_queue(f"{namespace}-{name}", cpu="1000")
        group = queue["spec"]["resourceGroups"][0]
        group["coveredResources"].append(GPU)
        group["flavors"][0]["resources"].append({"name": GPU, "nominalQuota": gpus})
        await self.create(OUR_RESOURCES["ClusterQueue"], queue)
        await self.create(OUR_RESOURCES["LocalQueue"], local_queue(name, f"{namespace}-{name}", namespace))

    async def node_of(self, namespace: str, name: str) -> str:
        found = await self.get(PODS, name, namespace)
        return (found or {}).get("spec", {}).get("nodeName", "")

    async def places(self, namespace: str, name: str, **pod: Any) -> None:
        """Have an honest pod made, and wait until it has a node."""
        await self.create(PODS, pod_of(namespace, name, **pod))
        await until(lambda: self.node_of(namespace, name))

    async def waits(self, namespace: str, name: str) -> str:
        """Wait until a pod is told why it has no node, and return it."""

        async def told() -> str:
            condition = await self.condition(PODS, name, namespace, "PodScheduled")
            return condition.get("message", "") if condition.get("status") == "False" else ""

        return await until(told)

    async def kept(self, namespace: str, *names: str) -> None:
        """Wait until the statuses of pods keep what they were admitted to."""
        for name in names:
            await until(lambda name=name: self.condition(PODS, name, namespace, ADMITTED_CONDITION))


def pod_of(
    namespace: str,
    name: str,
    *,
    node: str = "",
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": "100m"}}
    if gpus:
        resources = {"requests": {"cpu": "100m", GPU: gpus}, "limits": {GPU: gpus}}
    container = {"name": "c", "image": "pause", "resources": resources}
    wanted = {"schedulerName": "tutti", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    if node:
        wanted["nodeSelector"] = {"kubernetes.io/hostname": node}
    return obj("Pod", name, wanted, namespace=namespace, labels=labels or {}, annotations=notes or {})


def application(**group: Any) -> dict[str, str]:
    """The annotations of a pod in an application of YuniKorn with one task group."""
    said = {"name": "w", "minMember": 2, "minResource": {"cpu": "1"}, **group}
    return {f"{YUNIKORN}app-id": "a", f"{YUNIKORN}task-group-name": "w", f"{YUNIKORN}task-groups": json.dumps([said])}


def koordinated(**said: str) -> dict[str, str]:
    texts = {"name": "g", "min-available": "2", **{key.replace("_", "-"): text for key, text in said.items()}}
    return {f"{KOORDINATOR}{key}": text for key, text in texts.items()}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def town(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    async with EmbeddedCluster(nodes=16, gpus=GPUS, seed=1) as embedded:
        embedded.write_kubeconfig(folder / "kubeconfig")
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            town = Town(client, embedded, folder / "kubeconfig")
            await town.install_crds()
            await town.create(OUR_RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
            await town.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
            yield town


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(town: Town, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Operator]:
    """One operator, for all attacks that need no other; none of them may end it, nor have an object set aside."""
    async with operator(town.kubeconfig, tmp_path_factory.mktemp("operator"), defaultLocalQueue="default") as running:
        await running.says("deciding")
        yield running
        assert not running.said("engine_crashed")
        assert not running.said("set_aside")
        assert await running.stop() == 0


BOMBS = {
    "brackets": {f"{YUNIKORN}app-id": "a", f"{YUNIKORN}task-groups": "[" * 100_000},
    "brackets-in-pairs": {f"{YUNIKORN}app-id": "a", f"{YUNIKORN}task-groups": "[" * 900 + "]" * 900},
    "listed": koordinated(groups="[" * 200_000),
    "endless": koordinated(waiting_time="9" * 400 + "h"),
    "huge": application(minMember=2**63),
    "admitted": {f"{GROUP}/admission": '{"x": ' + "[" * 200_000},
}


def nested(name: str, depth: int) -> dict[str, Any]:
    """A Workload of which the template holds so many lists in one another."""
    junk: list[Any] = []
    for _ in range(depth):
        junk = [junk]
    template = {"spec": pod_of("c1", "x")["spec"], "junk": junk}
    return obj("Workload", name, {"podGroups": [{"name": "x", "count": 2, "template": template}]}, namespace="c1")


async def test_texts_of_annotations_end_nothing(town, running):
    """C1: brackets, digits and huge numbers in annotations, which no ConventionError told of."""
    node = await town.move_in("c1")
    for name, notes in BOMBS.items():
        await town.create(PODS, pod_of("c1", name, node=node, notes=notes))
    for depth in (100, 400):
        await town.create(OUR_RESOURCES["Workload"], nested(f"deep-{depth}", depth))
    await town.places("c1", "honest", node=node)
    assert "nested deeper" in await town.waits("c1", "brackets-in-pairs")
    assert "write at most 65536" in await town.waits("c1", "brackets")
    assert "not a duration" in await town.waits("c1", "endless")
    assert "at most 100000" in await town.waits("c1", "huge")


async def test_less_than_nothing_does_not_sum_up_to_nothing(town, running):
    """C2: a task group of -100 x 2 beside 25 pods of 8 that wait in the same queue."""
    node = await town.move_in("c2")
    await town.open("c2", GPUS)
    queue = {f"{GROUP}/queue-name": "lq"}
    await town.create(PODS, pod_of("c2", "neg", node=node, labels=queue, notes=application(minResource={GPU: "-100"})))
    for at in range(26):
        await town.create(PODS, pod_of("c2", f"t{at}", node=node, gpus=8, labels=queue))
    assert "'-100' is below zero" in await town.waits("c2", "neg")
    for at in range(3):
        await town.delete(PODS, f"t{at}", "c2")

    async def bound() -> list[str]:
        return [f"t{at}" for at in range(3, 26) if await town.node_of("c2", f"t{at}")]

    assert len(await until(bound)) == 1
    await town.places("c2", "honest", node=node)


async def test_a_text_of_digits_takes_no_time(town, running):
    """C3: a duration of 200,000 digits, which a pattern went through again from each of them."""
    node = await town.move_in("c3")
    await town.create(PODS, pod_of("c3", "digits", node=node, notes=koordinated(waiting_time="1" * 200_000)))
    await town.create(PODS, pod_of("c3", "fewer", node=node, notes=koordinated(waiting_time="1" * 60_000)))
    assert "not a duration" in await town.waits("c3", "fewer")
    await town.places("c3", "honest", node=node)
    assert (await running.ask("/healthz"))[0] == 200


async def test_made_up_resources_are_insufficient_and_nothing_more(town, running):
    """C4: resource names that no node offers, of which each became a column of every node."""
    node = await town.move_in("c4")
    for at in range(3):
        greedy = pod_of("c4", f"greedy-{at}", node=node)
        made_up = {f"made-up-{at}.example/{number}": "1" for number in range(1_000)}
        greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", **made_up}, "limits": made_up}
        await town.create(PODS, greedy)
    assert "Insufficient made-up-0.example/0" in await town.waits("c4", "greedy-0")
    await town.places("c4", "honest", node=node)


async def test_a_node_with_an_unnamed_image_is_seen_as_it_is(town, running):
    """H1: names and drivers that Go writes as null; what was known before stood, a cordoned node took pods."""
    name = await town.move_in("h1")
    await town.create(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": []}})
    store = town.embedded.backend.store

    def change(collection: str, **parts: Any) -> None:
        found = store.collection(collection).get("", name)
        assert found is not None
        store.replace(
            store.collection(collection), found, {**found.obj, "metadata": {**found.obj["metadata"]}, **parts}
        )

    status = (await town.get(NODES, name) or {})["status"]
    status["images"] = [{"names": None, "sizeBytes": 3}]
    change("csinodes.storage.k8s.io", spec={"drivers": None})
    change("nodes", status=status)
    await town.places("h1", "before", node=name)
    change("nodes", status=status, spec={"unschedulable": True})
    await town.create(PODS, pod_of("h1", "after", node=name))
    assert "unschedulable" in await town.waits("h1", "after")
    assert not running.said("object_not_decoded", name=name)
    assert await town.node_of("h1", "after") == ""


async def test_a_class_that_a_pod_group_names_takes_nobody_out(town, running):
    """H3: a PodGroup of system-node-critical, whose pods may have no class, beside running pods of no queue."""
    node = await town.move_in("h3-victim", "h3-attacker")
    await town.places("h3-victim", "works", node=node, gpus=GPUS)
    for name in ("system-node-critical", "high"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "priorityClassName": name}
        await town.create(OUR_RESOURCES["PodGroup"], obj("PodGroup", name, spec, namespace="h3-attacker"))
        labels = {f"{GROUP}/pod-group": name}
        await town.create(PODS, pod_of("h3-attacker", name, node=node, gpus=GPUS, labels=labels))

    async def refused() -> bool:
        told = await town.condition(OUR_RESOURCES["PodGroup"], "system-node-critical", "h3-attacker", "Scheduled")
        return told.get("reason") == "SystemPriorityClass"

    await until(refused)
    assert "Insufficient" in await town.waits("h3-attacker", "high")
    assert await town.node_of("h3-victim", "works") == node
    assert not running.said("pod_evicted", name="works")


async def test_a_promise_without_a_pod_holds_no_room(town, running):
    """H4: a Workload of a namespace that may have no pods and no GPUs, with a template for all GPUs of a node."""
    node = await town.move_in("h4-honest", "h4-attacker")
    hard = {f"requests.{GPU}": "0", "pods": "0"}
    quota = obj("ResourceQuota", "none", {"hard": hard}, namespace="h4-attacker")
    await town.create(RESOURCE_QUOTAS, quota)
    template = {"spec": pod_of("h4-attacker", "x", node=node, gpus=GPUS)["spec"]}
    spec = {"podGroups": [{"name": "ghosts", "count": 1, "template": template}]}
    await town.create(OUR_RESOURCES["Workload"], obj("Workload", "hold", spec, namespace="h4-attacker"))
    await until(lambda: town.condition(OUR_RESOURCES["Workload"], "hold", "h4-attacker", "Admitted"))
    await town.places("h4-honest", "works", node=node, gpus=GPUS)


async def test_a_text_of_a_tenant_orders_no_terminal(town, running):
    """M2: control characters in a task group, which reached the terminal of whoever looked at gangs."""
    node = await town.move_in("m2")
    bad = application(minMember=3, minResource={"cpu": "1", ESCAPES: "1"})
    await town.create(PODS, pod_of("m2", "esc", node=node, notes=bad))
    told = await town.waits("m2", "esc")
    shown = await _printed(town, "explain", "workload", "esc", "--namespace", "m2")
    assert "is no name of a resource" in " ".join(shown.split())
    assert not {"\x1b", "\x07"} & set(shown)
    assert "is no name of a resource" in told
    assert told.isprintable()
    await town.places("m2", "honest", node=node)


async def _printed(town: Town, *command: str) -> str:
    """What a command prints for a person."""
    environment = {**os.environ, "NO_COLOR": "1", "KUBECONFIG": str(town.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tutti", *command),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return printed.decode()


async def test_who_makes_room_for_a_stranger_is_not_told_his_name(town, running):
    """M3: an event that named the gang of another namespace for whom a pod was taken out."""
    node = await town.move_in("m3-victim", "m3-other")
    await town.places("m3-victim", "works", node=node, gpus=GPUS)
    await town.places("m3-other", "secret-plan", node=node, gpus=GPUS, priorityClassName="high")
    events = [one for one in await town.list(EVENTS) if one["metadata"]["namespace"] == "m3-victim"]

    async def told() -> list[str]:
        events = [one for one in await town.list(EVENTS) if one["metadata"]["namespace"] == "m3-victim"]
        notes = [one.get("note", "") for one in events]
        return notes if any("room" in note or "priority" in note for note in notes) else []

    assert [note for note in await until(told) if "secret-plan" in note or "m3-other" in note] == []
    assert not [one for one in events if "secret-plan" in json.dumps(one)]


async def test_nobody_goes_round_the_queue_that_is_his_by_default(town, running):
    """M5: a PodGroup that says of itself it was made for annotations, and a pod that names no queue."""
    node = await town.move_in("m5")
    await town.open("m5", 0, name="default")
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    made = obj("PodGroup", "mine", spec, namespace="m5", labels={f"{GROUP}/implicit": "volcano"})
    await town.create(OUR_RESOURCES["PodGroup"], made)
    await town.create(PODS, pod_of("m5", "member", node=node, gpus=1, labels={f"{GROUP}/pod-group": "mine"}))
    await town.create(PODS, pod_of("m5", "alone", node=node, gpus=1))
    assert "m5-default" in await town.waits("m5", "alone")
    assert await town.waits("m5", "member")
    await town.create(NAMESPACES, obj("Namespace", "m5-honest"))
    await town.places("m5-honest", "works", node=node, gpus=GPUS)
    assert [await town.node_of("m5", name) for name in ("alone", "member")] == ["", ""]


async def test_what_a_tenant_does_to_what_runs_frees_no_quota_at_the_next_start(town, tmp_path, running):
    """H2, and C1 again: labels taken off, an annotation written over, queueName cleared, and another process starts."""
    tenants = {"h2-labels": "", "h2-notes": "", "h2-group": "g"}
    nodes = {name: await town.move_in(name) for name in tenants}
    for name, group in tenants.items():
        await town.open(name, 1)
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "queueName": "lq"}
        if group:
            await town.create(OUR_RESOURCES["PodGroup"], obj("PodGroup", group, spec, namespace=name))
        labels = {f"{GROUP}/pod-group": group} if group else {f"{GROUP}/queue-name": "lq"}
        await town.places(name, "first", node=nodes[name], gpus=1, labels=labels)
        await town.kept(name, "first")
    forged = json.dumps({"clusterQueue": "h2-notes-lq", "flavors": {}})
    (tmp_path / "next").mkdir()
    other = operator(town.kubeconfig, tmp_path / "next", leaderElection={"enabled": False})
    await town.patch(PODS, "first", "h2-labels", metadata={"labels": {f"{GROUP}/queue-name": None}})
    await town.patch(PODS, "first", "h2-notes", metadata={"annotations": {f"{GROUP}/admission": forged}})
    await town.patch(OUR_RESOURCES["PodGroup"], "g", "h2-group", spec={"queueName": None})
    async with other as following:
        await following.says("deciding")
        for name in tenants:
            labels = {f"{GROUP}/queue-name": "lq"}
            await town.create(PODS, pod_of(name, "second", node=nodes[name], gpus=1, labels=labels))
        for name in tenants:
            assert GPU in await town.waits(name, "second")
            assert await town.node_of(name, "second") == ""
        await town.places("h2-labels", "honest", node=nodes["h2-labels"])
        assert not following.said("set_aside")
        assert await following.stop() == 0


async def test_a_journal_that_no_disk_takes_ends_no_scheduler(town, tmp_path):
    """H5: a full disk under --journal, at a start and at the next."""
    node = await town.move_in("h5")
    small = tmp_path / "small"
    small.write_text(f'#!/bin/sh\nulimit -f 8\nexec {sys.executable} -B "$@"\n')
    small.chmod(0o755)
    for start in ("first", "next"):
        options = ("--journal", str(tmp_path / "journal"))
        (tmp_path / start).mkdir()
        election = {"leaderElection": {"enabled": False}}
        async with operator(town.kubeconfig, tmp_path / start, *options, python=str(small), **election) as running:
            await running.says("deciding")
            await town.places("h5", f"honest-{start}", node=node)
            assert running.said("journal_ended")
            assert await running.stop() == 0
