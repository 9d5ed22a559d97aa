"""How long `tutti run` takes from its start to its first bind in a full cluster, and what it needs. `make bench-start`.

The cluster is a real kube-apiserver and etcd from KUBEBUILDER_ASSETS, filled with nodes and with pods of another
scheduler, some of them finished; or, with `--kubeconfig`, one that is there and full already. In each round one pod
waits for the operator. Prints a line a round: seconds since the start at which nodes and pods were listed, the engine
first decided and the pod was seen bound; processor time, memory (its peak in brackets), the event loop's longest stall.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import uvloop
import yaml

from e2e.harness.clusters import envtest
from e2e.harness.processes import free_port
from tutti.controller.discovery import CRDS
from tutti.kube.client import STRATEGIC_MERGE_PATCH, Client
from tutti.kube.credentials import Credentials
from tutti.kube.fetching import PodNow
from tutti.kube.informer import Informer
from tutti.kube.resources import NAMESPACES, NODES, PODS
from tutti.kube.store import Change, Upsert
from tutti_bench.stage import Process, Usage

SPACE = "full"
AT_ONCE = 64
PATIENCE_SECONDS = 300.0
DEFINITIONS = Path(__file__).parents[1] / "crds"
CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}
STALL = re.compile(r"^tutti_event_loop_longest_stall_seconds (\S+)", re.MULTILINE)
PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Size:
    """How full the cluster is; `finished` of the pods have succeeded."""

    nodes: int
    pods: int
    finished: int


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds since the process was made, what it used, and its longest stall in seconds."""

    nodes: float
    pods: float
    decided: float
    bound: float
    cpu: float
    memory: int
    peak: int
    stall: float

    def line(self) -> str:
        """Return it as a line for people."""
        times = (
            f"nodes {self.nodes:.2f} s, pods {self.pods:.2f} s, decided {self.decided:.2f} s, bound {self.bound:.2f} s"
        )
        memory = f"{self.memory >> 20} MB ({self.peak >> 20} MB)"
        return f"{times}; processor {self.cpu:.2f} s; {memory}; stall {1e3 * self.stall:.0f} ms"


def node(name: str) -> bytes:
    """A node that is ready."""
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{name[-1]}"}
    status = {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}, "status": status})


def pod(name: str, *, scheduler: str = "default-scheduler", on: str = "", app: str = "") -> bytes:
    """A pod, on a node where one is named."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}
    spec = {"schedulerName": scheduler, "containers": [container], **({"nodeName": on} if on else {})}
    return msgspec.json.encode({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client of the cluster."""
    async with Client(await Credentials.load(kubeconfig)) as client:
        yield client


async def fill(kubeconfig: Path, size: Size) -> None:
    """Make the definitions of our kinds, nodes and pods."""
    names = [f"n{i:05d}" for i in range(size.nodes)]
    places = zip((f"r{i}" for i in range(size.pods)), itertools.cycle(names), strict=False)
    async with connected(kubeconfig) as client:
        await install(client)
        await client.request("POST", NAMESPACES.path(), body=msgspec.json.encode({"metadata": {"name": SPACE}}))
        await send(client, (("POST", NODES.path(), node(name)) for name in names))
        made = (pod(name, on=on, app=f"a{i // 100}") for i, (name, on) in enumerate(places))
        await send(client, (("POST", PODS.path(SPACE), body) for body in made))
        over = msgspec.json.encode({"status": {"phase": "Succeeded"}})
        ends = (PODS.path(SPACE, f"r{i}", "status") for i in range(size.finished))
        await send(client, (("PATCH", path, over) for path in ends))


async def install(client: Client) -> None:
    """Make the definitions of our kinds."""
    for path in sorted(DEFINITIONS.glob("*.yaml")):
        definition = msgspec.json.encode(yaml.safe_load(path.read_text("utf-8")))
        await client.request("POST", CRDS.path(), body=definition)


async def send(client: Client, requests: Iterator[tuple[str, str, bytes]]) -> None:
    """Send requests, so many at once."""

    async def work() -> None:
        for method, path, body in requests:
            kind = {"content_type": STRATEGIC_MERGE_PATCH} if method == "PATCH" else {}
            await client.request(method, path, body=body, **kind)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def start(kubeconfig: Path, folder: Path, number: int) -> Start:
    """Start the operator with one pod waiting, and stop it when that is bound."""
    waiting, port = f"first-{os.getpid()}-{number}", free_port()
    log = folder / f"operator-{number}.log"
    async with connected(kubeconfig) as client:
        await client.request("POST", PODS.path(SPACE), body=pod(waiting, scheduler="tutti"))
        arguments = ["--kubeconfig", str(kubeconfig), "--metrics-port", str(port), "--log-format", "json"]
        began, at = time.monotonic(), time.time()
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tutti", "run", *arguments, stdout=out, stderr=out
            )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await _bound(client, waiting)
            bound = time.monotonic() - began
            usage, peak, stall = await asyncio.to_thread(_needed, process.pid, port)
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        await client.request("DELETE", PODS.path(SPACE, waiting))
    said = dict(await asyncio.to_thread(_said, log, at))
    return Start(
        nodes=said["nodes"],
        pods=said["pods"],
        decided=said["deciding"],
        bound=bound,
        cpu=usage.cpu_seconds,
        memory=usage.memory_bytes,
        peak=peak,
        stall=stall,
    )


async def _bound(client: Client, name: str) -> None:
    """Return once a pod is seen on a node."""
    done = asyncio.Event()

    def deliver(changes: Sequence[Change[PodNow]]) -> None:
        if any(isinstance(change, Upsert) and change.obj.spec.node_name for change in changes):
            done.set()

    informer = Informer(
        client, PODS, view=PodNow, deliver=deliver, namespace=SPACE, field_selector=f"metadata.name={name}"
    )
    watching = asyncio.create_task(informer.run())
    try:
        await done.wait()
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def _needed(pid: int, port: int) -> tuple[Usage, int, float]:
    """Return what a process has used, its peak of memory in bytes, and its longest stall in seconds."""
    usage, status = Process(pid).usage(), Path(f"/proc/{pid}/status").read_text("utf-8")
    if usage is None:
        raise ProcessLookupError(f"the operator, process {pid}, has ended")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    return usage, int(_group(PEAK, status)) << 10, float(_group(STALL, metrics))


def _group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"nothing like {pattern.pattern!r} in what was read")
    return found[1]


def _said(log: Path, since: float) -> dict[str, float]:
    """Return what the log tells as done, with the seconds since the start: a kind that was listed, or an event."""
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines() if line.startswith("{")]
    return {
        one.get("resource", one["event"]): datetime.fromisoformat(one["timestamp"]).timestamp() - since
        for one in reversed(records)
    }


@contextmanager
def filled(kubeconfig: Path | None, folder: Path, size: Size) -> Iterator[Path]:
    """A cluster of this size, or the one that is named."""
    if kubeconfig is not None:
        yield kubeconfig
        return
    with envtest(folder, Path(os.environ["KUBEBUILDER_ASSETS"]), nodes=0) as up:
        began = time.monotonic()
        uvloop.run(fill(up.kubeconfig, size))
        print(f"{size}: filled in {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
        yield up.kubeconfig


def main() -> None:
    """Measure some starts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--finished", type=int, default=0, help="how many of the pods have succeeded")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kubeconfig", type=Path, help=f"a cluster that is full already, with a namespace {SPACE!r}")
    given = parser.parse_args()
    if given.kubeconfig is None and not os.environ.get("KUBEBUILDER_ASSETS"):
        print("skipped: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest use -p path)")  # noqa: T201
        return
    size = Size(given.nodes, given.pods, given.finished)
    with (
        tempfile.TemporaryDirectory(prefix="tutti-start-") as name,
        filled(given.kubeconfig, Path(name), size) as kubeconfig,
    ):
        starts = []
        for number in range(given.rounds):
            starts.append(uvloop.run(start(kubeconfig, Path(name), number)))
            print(f"{starts[-1].line()}; load {os.getloadavg()[0]:.1f}", flush=True)  # noqa: T201
        middle = [statistics.median(values) for values in ([one.bound for one in starts], [one.cpu for one in starts])]
        print(f"median of {len(starts)}: bound {middle[0]:.2f} s, processor {middle[1]:.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
