"""The floor: a program that binds each pod of a scheduler's name to the next node, and decides nothing.

    python -m bench.floor KUBECONFIG SCHEDULER

No scheduler that writes one binding per pod, over the same kind of connection, can be quicker than the server answers
it: what Tutti's decisions cost is what is missing to its pace. It lists, watches, and keeps so many bindings under way.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import uvloop
import yaml

from tutti.kube.decoding import LineSplitter

Seen = TypeVar("Seen")

AT_ONCE = 64
JSON = {"Content-Type": "application/json"}


class Meta(msgspec.Struct):
    """What a binding says of its pod."""

    name: str
    uid: str
    namespace: str = ""


class Named(msgspec.Struct):
    """An object of which nothing is read but what it is called."""

    metadata: Meta


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


def connected(kubeconfig: Path) -> aiohttp.ClientSession:
    """A session with the server of a kubeconfig that has a token."""
    document = yaml.safe_load(kubeconfig.read_text("utf-8"))
    server, token = document["clusters"][0]["cluster"]["server"], document["users"][0]["user"]["token"]
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return aiohttp.ClientSession(
        server,
        connector=aiohttp.TCPConnector(ssl=trusting, limit=0),
        headers={"Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=1 << 22,
    )


async def listed(session: aiohttp.ClientSession, path: str, **query: str) -> _List:
    """List a collection out of the server's memory."""
    async with session.get(path, params={"resourceVersion": "0", **query}) as answer:
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=_List)


async def bind_all(kubeconfig: Path, scheduler: str) -> None:
    """Bind for ever."""
    waiting: asyncio.Queue[Meta] = asyncio.Queue()
    known: set[str] = set()

    def see(pod: Named) -> None:
        if pod.metadata.uid not in known:
            known.add(pod.metadata.uid)
            waiting.put_nowait(pod.metadata)

    async with connected(kubeconfig) as session, asyncio.TaskGroup() as group:
        nodes = (await listed(session, "/api/v1/nodes")).items
        names = [msgspec.json.decode(node, type=Named).metadata.name for node in nodes]
        places = itertools.cycle(names)

        async def work() -> None:
            while True:
                path, body = binding(await waiting.get(), next(places))
                async with session.post(path, data=body, headers=JSON) as answer:
                    await answer.read()

        for _ in range(AT_ONCE):
            group.create_task(work())
        await follow(session, f"spec.schedulerName={scheduler},spec.nodeName=", Named, see)


def binding(pod: Meta, node: str) -> tuple[str, bytes]:
    """Return where a binding of a pod to a node is written, and what (core/v1 Binding)."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", msgspec.json.encode(body)


async def follow(session: aiohttp.ClientSession, selector: str, view: type[Seen], see: Callable[[Seen], None]) -> None:
    """Tell of each pod that waits, and of its changes, for ever; what is told of it is what the view has."""
    event, one = msgspec.json.Decoder(_Event), msgspec.json.Decoder(view)
    while True:
        there = await listed(session, "/api/v1/pods", fieldSelector=selector)
        for pod in there.items:
            see(one.decode(pod))
        query = {"watch": "1", "fieldSelector": selector, "resourceVersion": there.metadata.resource_version}
        splitter = LineSplitter()
        async with session.get("/api/v1/pods", params=query) as answer:
            async for chunk in answer.content.iter_any():
                for told in map(event.decode, splitter.feed(chunk)):
                    if told.type in ("ADDED", "MODIFIED"):
                        see(one.decode(told.object))


if __name__ == "__main__":
    uvloop.run(bind_all(Path(sys.argv[1]), sys.argv[2]))
