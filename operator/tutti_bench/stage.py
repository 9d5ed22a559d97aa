"""What a benchmark stands on: a cluster, its own or one that is there, and one scheduler at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.errors import ApiError
from tutti.kube.resources import Resource
from tutti.kube.retry import retrying
from tutti_bench.contenders import Contender
from tutti_bench.process import Process
from tutti_sim.children import Child, Children

START_SECONDS: Final = 60.0
_CLUSTER: Final = ("--nodes", "0", "--port", "0", "--no-tls")
# Nodes of a benchmark have no kubelet: who misses their heartbeats would taint them and evict their pods.
_WITHOUT: Final = ("--without", "node-lifecycle", "--without", "taint-eviction")
_DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


class NotReady(Exception):  # noqa: N818 - reads as what it is
    """A process has not come up in time."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster that answers; schedulers can be started on it where its kubeconfig is a file that was named."""

    kubeconfig: Path | None
    client: Client
    children: Children

    @asynccontextmanager
    async def playing(self, contender: Contender) -> AsyncIterator[Process]:
        """Have a scheduler run meanwhile, and give its process; if it ends, so does what goes on within.

        Raises:
            ChildDied: It has ended on its own.
            WireError: The API server refused what it needs.
        """
        if not contender.starts:
            yield Process(contender.pid, contender.drains)
            return
        child = await self._start(contender)
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(child.supervise())
                yield Process(child.pid, contender.drains)
                watch.cancel()
        except BaseExceptionGroup as errors:
            raise next(_leaves(errors)) from errors
        finally:
            await child.stop()

    async def _start(self, contender: Contender) -> Child:
        if self.kubeconfig is None:
            raise NotReady(f"to start {contender.label}, the kubeconfig must be named")
        arguments = contender.arguments(self.kubeconfig, self.children.directory)
        if contender.binary is None:
            await install(self.client)
            return await self.children.start(contender.label, *arguments)
        child = Child(contender.label, arguments, self.children.directory / f"{contender.label}.log")
        self.children.adopt(child)
        await child.start()
        return child


@asynccontextmanager
async def staged(directory: Path, *, embedded: bool, kubeconfig: Path | None = None) -> AsyncIterator[Stage]:
    """Have a cluster: one of its own, or the one that a kubeconfig says.

    Raises:
        ChildDied: The cluster of its own has ended.
        CredentialsError: The kubeconfig is of no use.
        NotReady: The cluster of its own does not answer.
    """
    async with Children(directory) as children:
        where = kubeconfig
        if embedded:
            where = directory / "kubeconfig"
            await _start_cluster(children, where)
        credentials = await Credentials.load(where)
        async with Client(credentials, user_agent="tutti-bench") as client:
            yield Stage(where, client, children)


async def _start_cluster(children: Children, kubeconfig: Path) -> None:
    cluster = await children.start("cluster", "cluster", *_CLUSTER, *_WITHOUT, "--kubeconfig", str(kubeconfig))
    try:
        async with asyncio.timeout(START_SECONDS):
            await cluster.until(kubeconfig.exists)
    except TimeoutError:
        raise NotReady(f"the cluster does not answer after {START_SECONDS:.0f} s; its log is {cluster.log}") from None


async def install(client: Client) -> None:
    """Define our kinds where they are not defined yet.

    Raises:
        WireError: The API server refused, or could not be reached.
    """
    for kind in KINDS.values():
        body = msgspec.json.encode(crd(kind))
        try:
            await retrying(lambda body=body: client.request("POST", _DEFINITIONS.path(), body=body))  # type: ignore[misc]
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise


def _leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
