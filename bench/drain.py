"""How close Tutti comes to a program that only binds, on a real API server. `make bench-drain`.

    python -m bench.drain --nodes 500 --sizes 1,10,100,1000 --rounds 5       # all pods there when it begins
    python -m bench.drain --nodes 5000 --live 300 --pods 3000                # pods come while it runs

In each round a kube-apiserver and etcd from KUBEBUILDER_ASSETS get nodes; then, for each size of gangs, the floor
(`bench/floor.py`, or `--floor PROGRAM`) and Tutti follow one another, every other round Tutti first, each a process of
its own, which begins with nothing left by the one before and has done what a start leaves to do. A scheduler is stopped
while its pods are made, unless they come live. Told are, as medians of the rounds: pods per second, milliseconds of
processor time per pod (user and system, of that process alone, until the last pod is seen bound), both as a share of
the floor's, of the rounds' own ratios; how far apart the binds of a gang were; and live, how long after the answer of
its creation a pod was seen bound. `--beside NAME=FOLDER` measures another tree's Tutti too.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop
import yaml

from bench.start import connected, install, node, send
from e2e.harness.clusters import envtest
from tutti.api.model import API_VERSION
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.client import Client
from tutti.kube.fetching import PodNow
from tutti.kube.informer import Informer
from tutti.kube.resources import NAMESPACES, NODES, PODS
from tutti.kube.store import Change, Upsert
from tutti_bench.stage import Process

SPACE = "drained"
PATIENCE_SECONDS = 180.0
SETTLED_SECONDS = 5.0
GANG = "gang-scheduling.preferred.jp/gang-"
LEASE = {"leaseDurationSeconds": 60, "renewDeadlineSeconds": 50}
"""Longer than a scheduler is stopped."""
FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class Drain:
    """What one scheduler did with one lot of pods; latencies and spreads in seconds, none where there is nothing."""

    pods_per_second: float
    cpu_ms: float
    spreads: tuple[float, ...]
    latencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Lot:
    """The pods of one drain: how many, in gangs of which size, and how many of them come per second; 0: all first."""

    name: str
    pods: int
    size: int
    live: int

    def bodies(self, scheduler: str) -> Iterator[tuple[str, bytes]]:
        """Yield each pod's name and its JSON, gang by gang."""
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}
        for number in range(self.pods):
            gang, member = divmod(number, self.size)
            name = f"{self.name}-{gang}-{member}"
            meta: dict[str, object] = {"name": name, "labels": {"app": f"g{gang}"}}
            if self.size > 1:
                meta["annotations"] = {f"{GANG}name": f"{self.name}-{gang}", f"{GANG}size": str(self.size)}
            spec = {"schedulerName": scheduler, "containers": [container]}
            yield name, msgspec.json.encode({"metadata": meta, "spec": spec})


class Seen:
    """When each pod of a lot was seen bound."""

    def __init__(self, lot: Lot) -> None:
        self.bound: dict[str, float] = {}
        self.all = asyncio.Event()
        self._lot = lot

    def deliver(self, changes: Sequence[Change[PodNow]]) -> None:
        """Note the pods that have a node."""
        now = time.monotonic()
        for change in changes:
            name = change.key.name
            if not name.startswith(f"{self._lot.name}-") or name in self.bound:
                continue
            if isinstance(change, Upsert) and change.obj.spec.node_name:
                self.bound[name] = now
        if len(self.bound) == self._lot.pods:
            self.all.set()

    @property
    def spreads(self) -> tuple[float, ...]:
        """How far apart the binds of each gang were seen."""
        if self._lot.size == 1:
            return ()
        gangs: dict[str, list[float]] = {}
        for name, at in self.bound.items():
            gangs.setdefault(name.rpartition("-")[0], []).append(at)
        return tuple(max(times) - min(times) for times in gangs.values())


@asynccontextmanager
async def watched(client: Client, lot: Lot) -> AsyncIterator[Seen]:
    """Watch the pods that have a node."""
    seen = Seen(lot)
    informer = Informer(
        client, PODS, view=PodNow, deliver=seen.deliver, namespace=SPACE, field_selector="spec.nodeName!="
    )
    watching = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        yield seen
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def command(who: str, kubeconfig: Path, folder: Path, floor: Path | None) -> list[str]:
    """Return what is started; writes its configuration."""
    if who == FLOOR:
        program = ["-m", "bench.floor"] if floor is None else [str(floor)]
        return [sys.executable, *program, str(kubeconfig), who]
    configuration = folder / f"{who}.yaml"
    document = {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "profiles": [{"schedulerName": who}],
        "leaderElection": LEASE,
        "metrics": {"bindAddress": "127.0.0.1:0"},
    }
    configuration.write_text(yaml.safe_dump(document), encoding="utf-8")
    given = ["--kubeconfig", str(kubeconfig), "--config", str(configuration), "--log-format", "json"]
    return [sys.executable, "-m", "tutti", "run", *given]


@dataclass(frozen=True, slots=True)
class Setting:
    """The server, where logs go, and whose programs are measured: a label, and the tree that is not this one."""

    kubeconfig: Path
    folder: Path
    floor: Path | None
    trees: dict[str, Path]


@asynccontextmanager
async def playing(setting: Setting, client: Client, who: str) -> AsyncIterator[Process]:
    """Have a scheduler run meanwhile, one that has bound its first pod."""
    environment = dict(os.environ)
    if who in setting.trees:
        environment["PYTHONPATH"] = str(setting.trees[who] / "operator")
    lot = Lot(f"first-{who}-{time.monotonic_ns()}", 1, 1, 0)
    with (setting.folder / f"{who}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command(who, setting.kubeconfig, setting.folder, setting.floor), stdout=log, stderr=log, env=environment
        )
    try:
        async with watched(client, lot) as seen, asyncio.timeout(PATIENCE_SECONDS):
            await send(client, (("POST", PODS.path(SPACE), body) for _, body in lot.bodies(who)))
            await _while_it_runs(process, seen.all.wait(), setting.folder / f"{who}.log")
        yield Process(process.pid, drains=True)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        # Whoever follows has nothing to clear up after this one: no pods, and no PodGroups that show its gangs.
        for resource in (PODS, OUR_RESOURCES["PodGroup"]):
            await client.request("DELETE", resource.path(SPACE), query={"gracePeriodSeconds": "0"})


async def _while_it_runs(process: asyncio.subprocess.Process, wanted: Coroutine[Any, Any, Any], log: Path) -> None:
    """Wait for something that a process does.

    Raises:
        ChildProcessError: It has ended first.
    """
    waiting, ended = asyncio.create_task(wanted), asyncio.create_task(process.wait())
    await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    if not waiting.done():
        waiting.cancel()
        raise ChildProcessError(f"it ended with {process.returncode}; its log is {log}")


async def drained(setting: Setting, who: str, lot: Lot) -> Drain:
    """Have a scheduler bind a lot."""
    created: dict[str, float] = {}
    async with (
        connected(setting.kubeconfig) as client,
        playing(setting, client, who) as process,
        watched(client, lot) as seen,
    ):
        await asyncio.sleep(SETTLED_SECONDS)  # what a start leaves to do is not what is measured
        if lot.live:
            began, before = time.monotonic(), used(process)
            await _come(client, lot, who, created)
        else:
            with process.stopped():
                await send(client, (("POST", PODS.path(SPACE), body) for _, body in lot.bodies(who)))
                await asyncio.sleep(1.0)  # what the creations leave the server to do is none of the scheduler's
                began, before = time.monotonic(), used(process)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await seen.all.wait()
        cpu = used(process) - before
    latencies = tuple(at - created[name] for name, at in seen.bound.items() if name in created)
    return Drain(lot.pods / (max(seen.bound.values()) - began), 1e3 * cpu / lot.pods, seen.spreads, latencies)


def used(process: Process) -> float:
    """Seconds of the processor until now."""
    usage = process.usage()
    if usage is None:
        raise ProcessLookupError(f"process {process.pid} has ended")
    return usage.cpu_seconds


async def _come(client: Client, lot: Lot, who: str, created: dict[str, float]) -> None:
    """Create pods at a pace; a gang comes at once."""

    async def create(name: str, body: bytes) -> None:
        await client.request("POST", PODS.path(SPACE), body=body)
        created[name] = time.monotonic()

    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        for number, (name, body) in enumerate(lot.bodies(who)):
            due = begun + (number // lot.size) * lot.size / lot.live
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            group.create_task(create(name, body))


async def prepare(kubeconfig: Path, nodes: int) -> None:
    """Make the definitions of our kinds, the nodes and the namespace."""
    async with connected(kubeconfig) as client:
        await install(client)
        await client.request("POST", NAMESPACES.path(), body=msgspec.json.encode({"metadata": {"name": SPACE}}))
        await send(client, (("POST", NODES.path(), node(f"n{i:05d}")) for i in range(nodes)))


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def told(size: int, found: dict[str, list[Drain]]) -> dict[str, object]:
    """Return the figures of one size, of each scheduler."""
    said: dict[str, object] = {"size": size}
    floor = found[FLOOR]
    for who, drains in found.items():
        spreads = [one for drain in drains for one in drain.spreads]
        late = [one for drain in drains for one in drain.latencies]
        shares = [one.pods_per_second / least.pods_per_second for one, least in zip(drains, floor, strict=True)]
        costs = [one.cpu_ms / least.cpu_ms for one, least in zip(drains, floor, strict=True)]
        said[who] = {
            "pods_per_s": round(statistics.median(one.pods_per_second for one in drains), 1),
            "cpu_ms_per_pod": round(statistics.median(one.cpu_ms for one in drains), 3),
            "share_of_floor": round(statistics.median(shares), 2),
            "cpu_of_floor": round(statistics.median(costs), 2),
            **{f"spread_p{p}_ms": round(1e3 * percentile(spreads, p / 100)) for p in (50, 90, 99) if spreads},
            **{f"latency_p{p}_ms": round(1e3 * percentile(late, p / 100), 1) for p in (50, 90, 99) if late},
        }
    return said


def main() -> None:
    """Measure some rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2_000)
    parser.add_argument("--sizes", default="1,10,100,1000", help="of gangs; 1: pods without one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--live", type=int, default=0, help="pods per second that come while the scheduler runs")
    parser.add_argument("--floor", type=Path, help="another program that is started with a kubeconfig and a name")
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=FOLDER", help="another tree")
    parser.add_argument("--one-server", action="store_true", help="not a new one for each round")
    given = parser.parse_args()
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        print("skipped: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest use -p path)")  # noqa: T201
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    trees = {name: Path(folder).resolve() for name, _, folder in (one.partition("=") for one in given.beside)}
    order = [FLOOR, "tutti", *trees]
    sizes = [int(one) for one in given.sizes.split(",")]
    found: dict[int, dict[str, list[Drain]]] = {size: {who: [] for who in order} for size in sizes}
    numbers = itertools.count()

    def rounds(count: int) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="tutti-drain-") as name,
            envtest(Path(name), Path(assets), nodes=0) as up,
        ):
            uvloop.run(prepare(up.kubeconfig, given.nodes))
            setting = Setting(up.kubeconfig, Path(name), given.floor, trees)
            for _ in range(count):
                number = next(numbers)
                for size in sizes:
                    for who in order if number % 2 == 0 else order[::-1]:
                        lot = Lot(f"r{number}s{size}{who}", given.pods, size, given.live)
                        drain = uvloop.run(drained(setting, who, lot))
                        found[size][who].append(drain)
                        line = f"round {number}, gangs of {size}, {who}: {drain.pods_per_second:.0f} pods/s"
                        print(f"{line}, {drain.cpu_ms:.3f} ms/pod; load {os.getloadavg()[0]:.1f}", file=sys.stderr)  # noqa: T201

    if given.one_server:
        rounds(given.rounds)
    else:
        for _ in range(given.rounds):
            rounds(1)
    for size in sizes:
        print(json.dumps({"nodes": given.nodes, **told(size, found[size])}))  # noqa: T201


if __name__ == "__main__":
    main()
