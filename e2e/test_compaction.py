"""The storage is compacted and the server has forgotten what was, while an informer lists, or watches."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from kubernetes import client

from e2e.harness.passage import Passage
from e2e.harness.servers import Server, write_kubeconfig
from e2e.harness.story import Story
from e2e.harness.two_servers import port_of
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.informer import Informer
from tutti.kube.resources import APIResource
from tutti.kube.store import Change, Upsert

OBJECTS = 250
PAGE = 100
SOON = 60
CONFIG_MAPS = APIResource("", "v1", "configmaps")
OURS = {"e2e.example.com/thing": "yes"}
"""A label of those of the story: a controller makes another in each namespace."""


class Read(msgspec.Struct):
    """What is read of each."""

    data: dict[str, str] = {}


class Seen:
    """What there is, by what was told; while the first page is taken something happens."""

    def __init__(self, happens: Any) -> None:
        self.there: dict[str, str] = {}
        self._happens = happens

    def deliver(self, changes: Sequence[Change[Read]]) -> None:
        """Take changes in."""
        for change in changes:
            if isinstance(change, Upsert):
                self.there[change.key.name] = change.obj.data["is"]
            else:
                self.there.pop(change.key.name, None)
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()

    async def becomes(self, wanted: dict[str, str]) -> None:
        """Wait until all is known."""
        async with asyncio.timeout(SOON):
            while self.there != wanted:
                await asyncio.sleep(0.05)


def compact(server: Server) -> None:
    """Have the storage forget all that was, and the API server what it has seen of it."""
    storage = server.api.command[server.api.command.index("--etcd-servers") + 1]
    revision = ask(storage, "range", {"key": "AA=="})["header"]["revision"]
    ask(storage, "compaction", {"revision": revision, "physical": True})
    server.restart(server.api, 0)


def ask(storage: str, what: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask etcd by its gateway."""
    request = urllib.request.Request(f"{storage}/v3/kv/{what}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def body(name: str, text: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": OURS}, "data": {"is": text}}


class Things:
    """ConfigMaps of a story, and what there is of them."""

    def __init__(self, core: client.CoreV1Api, namespace: str) -> None:
        self.core, self.namespace = core, namespace
        self.there: dict[str, str] = {}

    def make(self, name: str, text: str) -> None:
        self.core.create_namespaced_config_map(self.namespace, body(name, text))
        self.there[name] = text

    def change(self, name: str, text: str) -> None:
        self.core.patch_namespaced_config_map(name, self.namespace, {"data": {"is": text}})
        self.there[name] = text

    def remove(self, name: str) -> None:
        self.core.delete_namespaced_config_map(name, self.namespace)
        del self.there[name]


@pytest.mark.parametrize("streams", [False, True])
def test_an_informer_ends_with_what_there_is(story: Story, server: Server, *, streams: bool) -> None:
    things = Things(story.core, story.namespace)
    for number in range(OBJECTS):
        things.make(f"thing-{number:03}", "old")

    def happens() -> None:
        """One that was listed goes, one changes, and one comes before them, and none of it is told afterwards."""
        things.remove("thing-001")
        things.change("thing-002", "new")
        things.change("thing-200", "new")
        things.make("thing-000-b", "new")
        compact(server)

    with Passage() as way:
        way.beyond = port_of(server.url)
        kubeconfig = story.folder / "by-passage"
        write_kubeconfig(kubeconfig, f"https://127.0.0.1:{way.port}", server.token, server.certificate)

        def falls_behind() -> None:
            """The watch is cut off, and cannot go on from where it was."""
            way.shut()
            things.remove("thing-003")
            things.make("thing-001", "again")
            compact(server)
            way.open()

        async def follow() -> None:
            seen = Seen(happens)
            async with Client(await Credentials.load(kubeconfig)) as wire:
                informer = Informer(
                    wire, CONFIG_MAPS, view=Read, deliver=seen.deliver, namespace=story.namespace, page_size=PAGE,
                    label_selector=",".join(f"{name}={value}" for name, value in OURS.items()), streams=streams,
                )  # fmt: skip
                running = asyncio.create_task(informer.run())
                try:
                    await seen.becomes(things.there)
                    await asyncio.to_thread(falls_behind)
                    await seen.becomes(things.there)
                finally:
                    running.cancel()
                    await asyncio.wait([running])

        asyncio.run(follow())
