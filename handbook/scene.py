"""Two minutes of a busy cluster, for the picture of the dashboard: hollow nodes, a real operator, real metrics."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import yaml

from e2e.harness.processes import free_port
from handbook.prometheus import Series, scraping
from tutti.api.conventions.named_groups import POD_GROUP, QUEUE_NAME
from tutti.api.model import API_VERSION
from tutti.controller.definitions import installed
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.resources import NODES
from tutti_demo.performance import create_object
from tutti_demo.scenario import RACK, RUN_SECONDS, Document, definitions
from tutti_sim.children import Children
from tutti_sim.cluster import EmbeddedCluster

GPU = "nvidia.com/gpu"
NODES_THERE, GPUS_EACH = 16, 8
SECONDS = 120
# ClusterQueue, its nominal GPUs, and of a hundred jobs how many go to it.
TEAMS = (("research", 64, 45), ("vision", 40, 35), ("batch", 24, 20))
# Members, GPUs of each, and of a hundred jobs how many are like it.
JOBS = ((1, 1, 40), (1, 4, 15), (4, 2, 20), (2, 8, 15), (8, 1, 10))
PAUSE_SECONDS = 0.8
LARGE_AFTER = 60


@dataclass(frozen=True)
class Job:
    """Pods that start together; of one member, a single pod."""

    at: float
    name: str
    team: str
    members: int
    gpus: int
    lasts: float


def jobs(seed: int = 7) -> Iterator[Job]:
    """Yield the jobs in the order in which they arrive; one of them needs most of the cluster."""
    random = Random(seed)
    at, number = 0.0, 0
    while at < SECONDS - 10:
        at += random.expovariate(1 / PAUSE_SECONDS)
        number += 1
        (team,) = random.choices(TEAMS, [weight for *_, weight in TEAMS])
        (kind,) = random.choices(JOBS, [weight for *_, weight in JOBS])
        yield Job(at, f"job-{number}", team[0], kind[0], kind[1], random.uniform(6, 24))
        if number == LARGE_AFTER:
            yield Job(at, "large", "research", 8, 8, 15)


async def play(expressions: Iterable[str]) -> Mapping[str, list[Series]]:
    """Play the scene, and return what expressions came to at each second of it."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "tutti.yaml").write_text(yaml.safe_dump(_configuration(port)), encoding="utf-8")
        async with EmbeddedCluster(nodes=NODES_THERE, gpus=GPUS_EACH, seed=1) as cluster:
            cluster.write_kubeconfig(directory / "kubeconfig")
            access = Access(cluster.url, headers={"Authorization": f"Bearer {cluster.token}"})
            async with Client(Credentials.fixed(access)) as client, Children(directory) as children:
                await _set_stage(client)
                files = ("--kubeconfig", str(directory / "kubeconfig"), "--config", str(directory / "tutti.yaml"))
                await children.start("operator", "run", *files)
                await _ready(port)
                async with scraping(port, directory, children) as prometheus:
                    began = time.time()
                    async with asyncio.TaskGroup() as group:
                        group.create_task(_arrive(client, began))
                        group.create_task(_cordon(client, began + 0.75 * SECONDS))
                        await asyncio.sleep(SECONDS)
                    return {one: await prometheus.asked(one, began, began + SECONDS) for one in expressions}


def _configuration(port: int) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "profiles": [{"schedulerName": "tutti", "acceleratorPacking": {}}],
        "leaderElection": {"enabled": False},
        "metrics": {"bindAddress": f"127.0.0.1:{port}"},
    }


async def _set_stage(client: Client) -> None:
    for definition in definitions():
        await create_object(client, definition)
    await installed(client)
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    await create_object(client, _object("Topology", "racks", {"levels": levels}))
    await create_object(client, _object("ResourceFlavor", "h100", {"topologyName": "racks"}))
    for name, nominal, _ in TEAMS:
        await create_object(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        flavor = {"name": "h100", "resources": [{"name": GPU, "nominalQuota": nominal}]}
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
        }
        await create_object(client, _object("ClusterQueue", name, spec))
        await create_object(client, _object("LocalQueue", "jobs", {"clusterQueue": name}, namespace=name))


async def _ready(port: int) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    if "tutti_leader 1.0" in await answer.text():
                        return
            except aiohttp.ClientConnectionError:
                pass  # it does not listen yet
            await asyncio.sleep(0.2)


async def _arrive(client: Client, began: float) -> None:
    for job in jobs():
        await asyncio.sleep(max(0.0, began + job.at - time.time()))
        for document in _documents(job):
            await create_object(client, document)


async def _cordon(client: Client, at: float) -> None:
    """Have two nodes take no more pods."""
    await asyncio.sleep(at - time.time())
    listed = yaml.safe_load(await client.request("GET", NODES.path()))
    for node in listed["items"][:2]:
        path = NODES.path(None, node["metadata"]["name"])
        await client.request("PATCH", path, body=b'{"spec":{"unschedulable":true}}', content_type=MERGE_PATCH)


def _documents(job: Job) -> Iterator[Document]:
    labels = {QUEUE_NAME: "jobs"}
    if job.members > 1:
        labels[POD_GROUP] = job.name
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": job.members}}, "queueName": "jobs"}
        yield _object("PodGroup", job.name, spec, namespace=job.team)
    container = {"name": "main", "image": "train", "resources": {"limits": {GPU: str(job.gpus)}}}
    for rank in range(job.members):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{job.name}-{rank}",
                "namespace": job.team,
                "labels": labels,
                "annotations": {RUN_SECONDS: f"{job.lasts:.1f}"},
            },
            "spec": {"schedulerName": "tutti", "restartPolicy": "Never", "containers": [container]},
        }


def _object(kind: str, name: str, spec: dict[str, Any], *, namespace: str = "") -> Document:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
