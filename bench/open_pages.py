"""What open pages cost: `python -m bench.open_pages [--nodes 100] [--waiting 400] [--pages 50] [--seconds 30]`.

An embedded cluster, the operator, and `tutti ui` beside it. Single pods come and end all the while. Prints processor
time per second and memory of the operator and of the process that serves the pages, before anybody looks and while so
many pages are open; how long the first message of a page takes, which is all of it, and how large it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
import yaml

from tutti.kube.client import Client
from tutti.kube.resources import NODES, PODS
from tutti_bench.stage import Contender, Process, Usage, staged

SPACE = "default"
PAGES = ("/", "/queue/main", "/workload/default/waits-0", "/nodes", "/gangs", "/decisions")
EVERY_SECONDS = 0.2
SETTLED_SECONDS = 5.0
QUEUE = "scheduling.tutti.dev/queue-name"


def pod(name: str, gpus: int) -> bytes:
    """A single pod of the queue."""
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "1"}}}
    meta = {"name": name, "labels": {QUEUE: "main"}}
    return msgspec.json.encode({"metadata": meta, "spec": {"schedulerName": "tutti", "containers": [container]}})


def node(name: str) -> bytes:
    """A node of eight GPUs that is ready."""
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"capacity": offers, "allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100"}
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}, "status": status})


def queues(gpus: int) -> list[tuple[str, bytes]]:
    """A flavor and a queue with so many GPUs."""
    api, version = "/apis/scheduling.tutti.dev/v1alpha1", "scheduling.tutti.dev/v1alpha1"
    amounts = (("nvidia.com/gpu", gpus), ("cpu", 100_000))
    flavor = {"name": "any", "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts]}
    group = {"coveredResources": ["nvidia.com/gpu", "cpu"], "flavors": [flavor]}
    made = (
        ("resourceflavors", "ResourceFlavor", "any", {}),
        ("clusterqueues", "ClusterQueue", "main", {"namespaceSelector": {}, "resourceGroups": [group]}),
        (f"namespaces/{SPACE}/localqueues", "LocalQueue", "main", {"clusterQueue": "main"}),
    )
    return [
        (path if path.startswith("/") else f"{api}/{path}", msgspec.json.encode(
            {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        ))
        for path, kind, name, spec in made
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def child(log: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A `tutti` command while it is needed; what it writes is read line by line."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tutti", *arguments, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def come_and_go(client: Client) -> None:
    """Have a pod come every so often, and the one that came twenty before it go."""
    for number in itertools.count():
        await client.request("POST", PODS.path(SPACE), body=pod(f"comes-{number}", 1))
        if number >= 20:
            await client.request("DELETE", PODS.path(SPACE, f"comes-{number - 20}"), query={"gracePeriodSeconds": "0"})
        await asyncio.sleep(EVERY_SECONDS)


async def look(session: aiohttp.ClientSession, page: str, found: dict[str, list[tuple[float, int]]]) -> None:
    """Follow a page for ever; note when its first message had come, in milliseconds, and its size."""
    begun, size = time.perf_counter(), 0
    async with session.get(f"/stream?page={quote(page, safe='')}") as answer:
        answer.raise_for_status()
        first = True
        async for line in answer.content:
            size += len(line)
            if first and line == b"\n" and size > 100:
                found.setdefault(page, []).append(((time.perf_counter() - begun) * 1e3, size))
                first = False


async def used(process: Process, seconds: float) -> tuple[float, float]:
    """Processor time per second in percent of a core, and memory in MiB."""
    before = process.usage()
    await asyncio.sleep(seconds)
    after = process.usage()
    assert isinstance(before, Usage)
    assert isinstance(after, Usage)
    return 100 * (after.cpu_seconds - before.cpu_seconds) / seconds, after.memory_bytes / 2**20


async def measure(options: argparse.Namespace, folder: Path) -> None:
    """Start everything, and print what was measured."""
    found: dict[str, list[tuple[float, int]]] = {}
    async with staged(folder, embedded=True) as stage, contextlib.AsyncExitStack() as stack:
        assert stage.kubeconfig is not None
        for number in range(options.nodes):
            await stage.client.request("POST", NODES.path(), body=node(f"node-{number}"))
        operator = await stack.enter_async_context(stage.playing(Contender("tutti", "tutti", starts=True)))
        for path, body in queues(options.nodes * 8):
            await stage.client.request("POST", path, body=body)
        for number in range(options.waiting):
            await stage.client.request("POST", PODS.path(SPACE), body=pod(f"waits-{number}", 8 if number % 2 else 1))
        said = ("ui", "--kubeconfig", str(stage.kubeconfig), "--no-browser")
        pages = await stack.enter_async_context(child(folder / "ui.log", *said))
        assert pages.stdout is not None
        address = urlsplit((await pages.stdout.readline()).decode().strip())
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                f"{address.scheme}://{address.netloc}",
                cookie_jar=aiohttp.CookieJar(unsafe=True),
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        )
        async with session.get(f"{address.path}?{address.query}") as answer:
            answer.raise_for_status()
        traffic = asyncio.create_task(come_and_go(stage.client))
        await asyncio.sleep(SETTLED_SECONDS)
        watched = {"operator": operator, "pages": Process(pages.pid)}
        alone = await asyncio.gather(*(used(one, options.seconds) for one in watched.values()))
        looking = [asyncio.create_task(look(session, PAGES[n % len(PAGES)], found)) for n in range(options.pages)]
        await asyncio.sleep(SETTLED_SECONDS)
        beside = await asyncio.gather(*(used(one, options.seconds) for one in watched.values()))
        ended = [one for one in (traffic, *looking) if one.done()]
        for one in (traffic, *looking):
            one.cancel()
        await asyncio.gather(traffic, *looking, return_exceptions=True)
        if ended:
            raise SystemExit(f"{len(ended)} pages were closed, or nothing changed any more: {ended[0].exception()}")
    rows = zip(watched, alone, beside, strict=True)
    report = {
        name: {"nobody looks": _said(*before), f"{options.pages} pages": _said(*after)} for name, before, after in rows
    }
    first = {
        page: f"{statistics.median(ms for ms, _ in seen):.0f} ms, {seen[0][1]:,} bytes" for page, seen in found.items()
    }
    print(yaml.safe_dump({"load average": os.getloadavg()[0], **report, "first message": first}, sort_keys=False))  # noqa: T201 - a command's output


def _said(cpu: float, memory: float) -> str:
    return f"{cpu:.1f} % of a core, {memory:.0f} MiB"


def main() -> None:
    """Measure with what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 100), ("waiting", 400), ("pages", 50), ("seconds", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    with tempfile.TemporaryDirectory(prefix="tutti-pages-") as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
