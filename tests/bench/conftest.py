"""A cluster for benchmarks, with the plainest of schedulers: every pod goes to the first node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError
from tutti.kube.informer import Informer
from tutti.kube.resources import NODES, PODS
from tutti.kube.store import Upsert
from tutti_bench.document import read_scenarios
from tutti_bench.results import DataItem
from tutti_bench.run import Limits
from tutti_bench.session import Session, opened, prepare
from tutti_sim.cluster import EmbeddedCluster

SCHEDULER = "first-node"


@dataclass
class Silent:
    """A reporter that remembers which operations have begun."""

    operations: list[str] = field(default_factory=list)

    def begin(self, name: str, operations: int) -> None:
        pass

    def operation(self, number: int, what: str) -> None:
        self.operations.append(what)

    def progress(self, done: int, total: int) -> None:
        assert 0 <= done <= total

    def note(self, text: str) -> None:
        pass


class FirstNode:
    """Binds each pod that names it, and is not gated, to the first node that there is."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.seen: dict[str, dict] = {}
        self._new: asyncio.Queue[dict] = asyncio.Queue()

    async def run(self) -> None:
        informer = Informer(self.client, PODS, view=dict, deliver=self._take)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            while True:
                await self._bind((await self._new.get())["metadata"])

    def _take(self, changes) -> None:
        for change in changes:
            if not isinstance(change, Upsert):
                continue
            spec = change.obj["spec"]
            if change.uid not in self.seen and spec["schedulerName"] == SCHEDULER and not spec.get("schedulingGates"):
                self._new.put_nowait(change.obj)
            self.seen[change.uid] = change.obj

    async def _bind(self, meta: dict) -> None:
        nodes = msgspec.json.decode(await self.client.request("GET", NODES.path()))["items"]
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]},
                "target": {"kind": "Node", "name": nodes[0]["metadata"]["name"]}}  # fmt: skip
        path = PODS.path(meta["namespace"], meta["name"], "binding")
        try:
            await self.client.request("POST", path, body=msgspec.json.encode(body))
        except ApiError as error:
            if error.status not in {404, 409}:  # it has been deleted meanwhile
                raise


@dataclass
class Bench:
    """A session on a cluster, and what the cluster has."""

    session: Session
    client: Client
    scheduler: FirstNode
    reporter: Silent
    folder: Path

    def template(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    async def run(self, text: str) -> list[DataItem]:
        """Run the first workload of a file."""
        scenario = read_scenarios(text, "test.yaml")[0]
        return await self.session.run(prepare(scenario, scenario.workloads[0], self.folder), SCHEDULER)

    async def items(self, path: str) -> list[dict]:
        return msgspec.json.decode(await self.client.request("GET", path))["items"]


@asynccontextmanager
async def benching(folder: Path, *, limits: Limits | None = None) -> AsyncIterator[Bench]:
    async with EmbeddedCluster(nodes=0, controllers=["namespace"], seed=1) as cluster:
        access = Access(cluster.url, {"Authorization": f"Bearer {cluster.token}"})
        async with Client(Credentials.fixed(access)) as client:
            scheduler, reporter = FirstNode(client), Silent()
            working = asyncio.create_task(scheduler.run())
            try:
                limits = limits or Limits(operation=60.0, workload=100.0, settle=0.2)
                async with opened(client, reporter, limits) as session:
                    yield Bench(session, client, scheduler, reporter, folder)
            finally:
                working.cancel()
                await asyncio.wait([working])


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Bench]:
    async with benching(tmp_path) as made:
        yield made
