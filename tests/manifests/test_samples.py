"""Every sample does what its first lines say, on an embedded cluster with the operator beside it."""

from __future__ import annotations

import json
import re

import pytest

from tests.controller.process import Cluster, operator, until
from tests.manifests.check import ROOT, SAMPLES, documents, samples
from tutti.controller.crds import RESOURCES
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.resources import PODS
from tutti_sim.cluster import EmbeddedCluster

# Samples that need others first, as their first lines say.
STORIES = [
    ["two-queues.yaml", "gang.yaml", "workload.yaml"],
    ["two-queues.yaml", "job-gang.yaml"],
    ["two-queues.yaml", "pfnet-gang.yaml"],
    ["deadlock.yaml"],
    ["borrow.yaml", "reclaim.yaml"],
    ["borrow.yaml", "preemption.yaml"],
    ["topology.yaml"],
]


class Told:
    """A cluster in which samples are applied."""

    def __init__(self, client: Client) -> None:
        self.client, self.cluster = client, Cluster(client)

    async def apply(self, name: str) -> None:
        for obj in documents((SAMPLES / name).read_text()):
            await self._create(obj)

    async def _create(self, obj):
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        found = json.loads(await self.client.request("GET", root))["resources"]
        (one,) = [one for one in found if one["kind"] == obj["kind"] and "/" not in one["name"]]
        inside = f"/namespaces/{obj['metadata']['namespace']}" if one["namespaced"] else ""
        await self.client.request("POST", f"{root}{inside}/{one['name']}", body=json.dumps(obj).encode())

    async def bound(self, *prefixes: str) -> int:
        """How many pods of these names have a node and have not ended."""
        return sum(
            bool(pod["spec"].get("nodeName"))
            and pod["status"]["phase"] in ("Pending", "Running")
            and "deletionTimestamp" not in pod["metadata"]
            for pod in await self.cluster.list(PODS)
            if pod["metadata"]["name"].startswith(prefixes)
        )

    async def runs(self, count: int, *prefixes: str) -> None:
        async def so():
            return await self.bound(*prefixes) == count

        await until(so)

    async def waits(self, group: str, namespace: str, gate: str) -> None:
        async def so():
            found = await self.cluster.get(RESOURCES["PodGroup"], group, namespace) or {}
            reasons = (found.get("status", {}).get("pendingReason") or {}).get("reasons") or [{}]
            return reasons[0].get("gate") == gate

        await until(so)


@pytest.fixture
async def told(tmp_path):
    async with EmbeddedCluster(nodes=4, gpus=8, seed=1) as embedded:
        kubeconfig = tmp_path / "kubeconfig"
        embedded.write_kubeconfig(kubeconfig)
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            found = Told(client)
            await found.cluster.install_crds()
            async with operator(kubeconfig, tmp_path) as running:
                await running.says("deciding")
                yield found


def test_every_sample_is_told_here():
    assert {name for story in STORIES for name in story} == {file.name for file in samples()}


async def test_a_gang_and_a_workload_of_two_groups_run_in_their_queue(told):
    for name in STORIES[0]:
        await told.apply(name)
    await told.runs(3, "trio")
    await told.runs(3, "rl-")


async def test_a_job_whose_workers_talk_to_one_another_runs_whole(told):
    for name in STORIES[1]:
        await told.apply(name)
    await told.runs(4, "allreduce")


async def test_a_gang_that_is_only_annotated_runs_without_a_queue(told):
    for name in STORIES[2]:
        await told.apply(name)
    await told.runs(2, "legacy")


async def test_two_jobs_that_could_block_one_another_run_one_after_the_other(told):
    await told.apply("deadlock.yaml")
    await told.runs(6, "red", "blue")
    red = await told.bound("red")
    assert red in (0, 6)
    await told.waits("blue" if red else "red", "contest", "Quota")


async def test_an_owner_takes_back_just_what_is_lent(told):
    await told.apply("borrow.yaml")
    await told.runs(8, "sweep")
    await told.apply("reclaim.yaml")
    await told.runs(4, "owner")
    await told.runs(4, "sweep")


async def test_the_urgent_take_as_few_places_as_they_need(told):
    await told.apply("borrow.yaml")
    await told.runs(8, "sweep")
    await told.apply("preemption.yaml")
    await told.runs(2, "urgent")
    await told.runs(6, "sweep")


async def test_objects_of_a_topology_are_in_use_and_its_gang_waits_for_its_members(told):
    await told.apply("topology.yaml")

    async def active():
        condition = await told.cluster.condition(RESOURCES["ClusterQueue"], "training-racks")
        return condition.get("status") == "True"

    await until(active)
    await told.waits("finetune", "default", "Gather")


def test_the_readme_names_no_sample_that_is_not_there():
    named = re.findall(r"manifests/samples/[\w-]+\.yaml", (ROOT / "README.md").read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
