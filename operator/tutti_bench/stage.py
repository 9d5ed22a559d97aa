"""What a benchmark stands on: a cluster, its own or one that is there, and one scheduler at a time.

The scheduler is one that runs already, Tutti, or a kube-scheduler given by its path; what its process uses is what the
kernel tells (Linux, /proc).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.api.model import API_VERSION
from tutti.controller.supervision import leaves
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.errors import ApiError
from tutti.kube.resources import APIResource
from tutti.kube.retry import retrying
from tutti_bench.objects import CREATORS
from tutti_sim.children import Child, Children

_UTIME, _STIME, _RSS = 11, 12, 21
"""Places of fields in /proc/<pid>/stat, counted from the one after the command (proc(5))."""
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time since the process began, in seconds, and memory now, in bytes."""

    cpu_seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Process:
    """The process of a scheduler.

    Attributes:
        pid: Where it runs on this machine; None where it runs elsewhere.
        drains: Whether it is stopped while the pods that are measured are created, so that only scheduling is timed.
    """

    pid: int | None = None
    drains: bool = False

    def usage(self) -> Usage | None:
        """Return what it uses; None where it is elsewhere, or no more, or the system does not tell."""
        if self.pid is None:
            return None
        try:
            text = (_PROC / str(self.pid) / "stat").read_text("utf-8")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE"))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have it stand still meanwhile, if it drains.

        Raises:
            ProcessLookupError: It is no more.
        """
        if self.pid is None or not self.drains:
            yield
            return
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


ELSEWHERE: Final = Process()
"""A scheduler that runs elsewhere."""

KUBE_SCHEDULER: Final = "kube-scheduler"
REFERENCE_NAME: Final = "tutti-bench-kube-scheduler"
"""The schedulerName under which a given kube-scheduler works, so that it leaves everybody else's pods alone."""
_UNLIMITED: Final = 5000
"""Requests per second, as scheduler_perf's own client has them."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler, and how it is started.

    Attributes:
        label: What it is called in results.
        scheduler: The schedulerName it works under.
        binary: What is started; None for this Python's `tutti`.
        starts: Whether it is started; else it runs already.
        pid: The process of one that runs already, on this machine.
        more: Further arguments of the binary.
        drains: Whether it is stopped while the pods that are measured are created.
    """

    label: str
    scheduler: str
    binary: Path | None = None
    starts: bool = False
    pid: int | None = None
    more: tuple[str, ...] = ()
    drains: bool = False

    def arguments(self, kubeconfig: Path, directory: Path) -> Sequence[str]:
        """Write its configuration and return what it is started with."""
        configuration = directory / f"{self.label}.yaml"
        if self.binary is None:
            configuration.write_text(yaml.safe_dump(_tutti(self.scheduler)), encoding="utf-8")
            files = ("--kubeconfig", str(kubeconfig), "--config", str(configuration))
            return ("run", *files, "--log-format", "json")
        configuration.write_text(yaml.safe_dump(_kube_scheduler(self.scheduler, kubeconfig)), encoding="utf-8")
        return (str(self.binary), "--config", str(configuration), "--secure-port", "0", *self.more)


def _tutti(scheduler: str) -> dict[str, Any]:
    """One replica alone, which needs no lease."""
    return {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "profiles": [{"schedulerName": scheduler}],
        "leaderElection": {"enabled": False},
        "metrics": {"bindAddress": "127.0.0.1:0"},
    }


def _kube_scheduler(scheduler: str, kubeconfig: Path) -> dict[str, Any]:
    """Its defaults, with a name of its own, without a lease and without limits of its client."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _UNLIMITED, "burst": _UNLIMITED},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": scheduler}],
    }


START_SECONDS: Final = 60.0
_CLUSTER: Final = ("--nodes", "0", "--port", "0", "--no-tls", "--pod-groups")
# Nodes of a benchmark have no kubelet: who misses their heartbeats would taint them and evict their pods.
_WITHOUT: Final = ("--without", "node-lifecycle", "--without", "taint-eviction")
_DEFINITIONS: Final = APIResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


class ClusterNotReady(Exception):  # noqa: N818 - reads as what it is
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
            raise next(leaves(errors)) from errors
        finally:
            await child.stop()

    async def _start(self, contender: Contender) -> Child:
        if self.kubeconfig is None:
            raise ClusterNotReady(f"to start {contender.label}, the kubeconfig must be named")
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
            client.keep_ready(CREATORS)  # that ten pods are created at once is not to wait for connections
            yield Stage(where, client, children)


async def _start_cluster(children: Children, kubeconfig: Path) -> None:
    cluster = await children.start("cluster", "cluster", *_CLUSTER, *_WITHOUT, "--kubeconfig", str(kubeconfig))
    try:
        async with asyncio.timeout(START_SECONDS):
            await cluster.until(kubeconfig.exists)
    except TimeoutError:
        raise ClusterNotReady(
            f"the cluster does not answer after {START_SECONDS:.0f} s; its log is {cluster.log}"
        ) from None


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
