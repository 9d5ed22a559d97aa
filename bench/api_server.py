"""How fast the embedded API server is: creations, bindings, watch and lists over loopback. Run by `make bench-api`.

The server is `tutti cluster` in a process of its own, this process is the load: some kept connections as the operator
writes over them, each with one request in flight, and one watcher of all pods. Of two processors the load needs one;
which of both processes is the limit says their processor time. Prints a table; `-o json` prints {name: {value, unit}}.
With `--server` another server is measured, whose processor time and memory are then unknown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from tutti.kube.http1 import Connection, Deadlines

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = 500
Found = dict[str, tuple[float, str]]


def _pod() -> bytes:
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "worker",
        "image": "registry.example/train:1.0",
        "command": ["python", "train.py"],
        "env": [{"name": "RANK", "value": "@rank"}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    labels = {"app": "train", "scheduling.tutti.dev/queue-name": "team", "scheduling.tutti.dev/pod-group": "@gang"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "@name", "labels": labels},
        "spec": {"schedulerName": "tutti", "containers": [container]},
    }
    return msgspec.json.encode(pod)


_POD: Final = _pod().decode()


def manifest(name: str) -> bytes:
    """A pod as an operator for training jobs makes it."""
    return _POD.replace("@name", name).replace("@gang", name[:6]).replace("@rank", name.rpartition("-")[2]).encode()


def binding(name: str, node: int) -> bytes:
    """The Binding of a pod."""
    target = {"apiVersion": "v1", "kind": "Node", "name": f"bench-{node:04d}"}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target})


@dataclass(slots=True)
class Watcher:
    """Counts the events of a watch of all pods."""

    events: int = 0
    size: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, client: Client) -> None:
        """Read until cancelled."""
        path = "/api/v1/pods?watch=true&resourceVersion=0"
        async with client.session.get(client.server + path, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            answer.raise_for_status()
            self.begun.set()
            async for chunk in answer.content.iter_any():
                self.events += chunk.count(b"\n")
                self.size += len(chunk)
                self.changed.set()
        raise SystemExit("the watch has ended: it was too slow")

    async def reach(self, events: int) -> None:
        """Until so many events have come."""
        while self.events < events:
            self.changed.clear()
            await self.changed.wait()


@dataclass(slots=True)
class Took:
    """Seconds that something took, and those of processor time of the server and of the load."""

    wall: float
    server: float
    load: float


@dataclass(slots=True)
class Client:
    """The load: a session for what is read, and the connections that are written over, a request at a time on each."""

    session: aiohttp.ClientSession
    server: str
    pid: int
    head: bytes
    free: list[Connection]

    def seconds(self) -> float:
        """Processor time that the server has used; zero where it is not ours."""
        if not self.pid:
            return 0.0
        parts = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / TICKS

    def memory(self) -> int:
        """Resident bytes of the server; zero where it is not ours."""
        if not self.pid:
            return 0
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return int(found[1]) * 1024 if found else 0

    async def post(self, path: str, body: bytes) -> None:
        """Create something; it must be created."""
        connection = self.free.pop()
        message = b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (path.encode(), self.head, len(body), body)
        answer = await connection.exchange(message, within_seconds=600)
        if answer.status != 201:
            raise SystemExit(f"POST {path}: {answer.status} {answer.body.decode()}")
        self.free.append(connection)

    async def get(self, path: str) -> bytes:
        """Read something."""
        async with self.session.get(self.server + path) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def create(self, name: str) -> None:
        """Create a pod."""
        await self.post("/api/v1/namespaces/default/pods", manifest(name))

    async def bind(self, name: str) -> None:
        """Bind a pod."""
        node = hash(name) % 1000
        await self.post(f"/api/v1/namespaces/default/pods/{name}/binding", binding(name, node))

    async def both(self, name: str) -> None:
        """Create a pod, then bind it."""
        await self.create(name)
        await self.bind(name)

    async def all(self, work: Callable[[str], Awaitable[None]], names: list[str]) -> Took:
        """Do the work for all names, over all connections at once."""
        left = iter(names)

        async def worker() -> None:
            for name in left:
                await work(name)

        server, load, start = self.seconds(), time.process_time(), time.perf_counter()
        await asyncio.gather(*(worker() for _ in list(self.free)))
        return Took(time.perf_counter() - start, self.seconds() - server, time.process_time() - load)


async def throughput(client: Client, count: int, found: Found) -> None:
    """Creations, bindings and both together, with one watcher that must have seen every event."""
    watcher = Watcher()
    watching = asyncio.create_task(watcher.run(client))
    await watcher.begun.wait()
    seen = 0
    for label, work, prefix, events in (
        ("warm-up", client.both, "warm", 2),
        ("create", client.create, "pods", 1),
        ("bind", client.bind, "pods", 1),
        ("create + bind", client.both, "both", 2),
    ):
        names = [f"{prefix}-{i:06d}" for i in range(count if prefix != "warm" else count // 10)]
        took = await client.all(work, names)
        seen += events * len(names)
        start = time.perf_counter()
        await watcher.reach(seen)
        if prefix == "warm":
            continue
        unit = "pods/s" if "+" in label else "requests/s"
        found[label] = (len(names) / took.wall, unit)
        found[f"{label}, watcher behind"] = ((time.perf_counter() - start) * 1e3, "ms")
        found[f"{label}, the load's processor time"] = (took.load / len(names) * 1e6, "µs each")
        if client.pid:
            found[f"{label}, server's processor time"] = (took.server / len(names) * 1e6, "µs each")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def lists(client: Client, count: int, found: Found) -> None:
    """Fill up to so many pods, then list them whole, in pages and by selectors; and what a pod costs in memory."""
    have = msgspec.json.decode(await client.get("/api/v1/pods?limit=1"))
    present = 1 + have["metadata"].get("remainingItemCount", 0)
    before = client.memory()
    fresh = max(count - present, 0)
    await client.all(client.both, [f"fill-{i:06d}" for i in range(fresh)])
    taken = client.memory() - before
    path = "/api/v1/pods"
    for label, query in (
        ("list", ""),
        ("list again", ""),
        ("list, label selector for none", "?labelSelector=app%3Dnone"),
        ("list, field selector for none", "?fieldSelector=spec.nodeName%3Dnone"),
    ):
        start = time.perf_counter()
        body = await client.get(path + query)
        found[label] = (time.perf_counter() - start, "s")
        if label == "list":
            size = len(body) / max(count, present)
    start = time.perf_counter()
    await pages(client, path)
    found[f"list, pages of {PAGE}"] = (time.perf_counter() - start, "s")
    found["JSON of a pod"] = (size / 1e3, "kB")
    if client.pid and fresh:
        found["memory of a pod and its history"] = (taken / fresh / 1e3, "kB")
        found["memory of a pod, without its JSON"] = ((taken / fresh - size) / 1e3, "kB")


async def pages(client: Client, path: str) -> None:
    """Read a list page by page."""
    token = ""
    while True:
        body = await client.get(f"{path}?limit={PAGE}&continue={token}")
        found = re.search(rb'"continue":"([^"]+)"', body[:1000])
        if not found:
            return
        token = found[1].decode()


@asynccontextmanager
async def served(options: argparse.Namespace) -> AsyncIterator[tuple[str, str, int]]:
    """A server's address, token and process id: the one that was named, or one that is started here."""
    if options.server:
        yield options.server, options.token, 0
        return
    arguments = ["-m", "tutti", "cluster", "--nodes", "0", "--no-tls", "--token", "bench", *options.argument]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"http://[\d.:]+", line)
        if not found:
            raise SystemExit(f"the server did not say where it listens: {line!r}")
        yield found[0], "bench", process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def measure(options: argparse.Namespace) -> Found:
    """Measure one server."""
    found: Found = {}
    async with served(options) as (server, token, pid):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "bench/1"}
        connector = aiohttp.TCPConnector(limit=0, ssl=False)
        timeout = aiohttp.ClientTimeout(total=600)
        async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
            written = {"Host": urlsplit(server).netloc, "Accept": "*/*", **headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in written.items()).encode()
            client = Client(session, server, pid, head, await connections(server, options.flight))
            await throughput(client, options.pods, found)
            if options.listed:
                await lists(client, options.listed, found)
            for connection in client.free:
                connection.close()
    return found


async def connections(server: str, count: int) -> list[Connection]:
    """Open so many connections to a server; nobody looks at its certificate."""
    loop, deadlines, parts = asyncio.get_running_loop(), Deadlines(), urlsplit(server)
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = parts.port or (443 if context else 80)
    made = [
        await loop.create_connection(lambda: Connection(deadlines), parts.hostname, port, ssl=context)
        for _ in range(count)
    ]
    return [connection for _, connection in made]


def arguments() -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="pods of each throughput measure")
    parser.add_argument("--listed", type=int, default=50_000, help="pods to list; 0 leaves lists out")
    parser.add_argument("--flight", type=int, default=64, help="requests in flight")
    parser.add_argument("--server", help="measure this server in place of one of our own")
    parser.add_argument("--token", default="", help="its bearer token")
    parser.add_argument("--argument", action="append", default=[], help="a further argument of `tutti cluster`")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    found = uvloop.run(measure(options))
    if options.output == "json":
        print(json.dumps({name: {"value": value, "unit": unit} for name, (value, unit) in found.items()}, indent=2))  # noqa: T201 - a command's output
        return
    table = Table("what", "value", "unit", title=f"embedded API server, {options.flight} requests in flight")
    for name, (value, unit) in found.items():
        table.add_row(name, f"{value:,.2f}" if value < 100 else f"{value:,.0f}", unit)
    Console().print(table)


if __name__ == "__main__":
    main()
