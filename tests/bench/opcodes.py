"""Files of one workload for the bench, from the opcodes that it has."""

from __future__ import annotations

import asyncio

import msgspec


def file(operations: str, params: str = "{}", more: str = "") -> str:
    return f"- name: S\n{more}  workloadTemplate:\n{operations}  workloads: [{{name: w, params: {params}}}]\n"


class Watcher:
    """Remembers every object that was ever in a collection."""

    def __init__(self, bench, path: str) -> None:
        self.bench, self.path = bench, path
        self.objects: dict[str, dict] = {}
        self.gone: set[str] = set()
        self.first: dict[str, int] = {}
        self._news = asyncio.Event()

    async def __aenter__(self):
        client = self.bench.client
        version = msgspec.json.decode(await client.request("GET", self.path))["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch(version))
        return self

    async def _watch(self, version: str) -> None:
        query = {"watch": "1", "resourceVersion": version}
        rest = b""
        async with self.bench.client.stream(self.path, query=query, idle_seconds=60) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    meta = event["object"]["metadata"]
                    self.objects[meta["uid"]] = event["object"]
                    self.first.setdefault(meta["uid"], int(meta["resourceVersion"]))
                    if event["type"] == "DELETED":
                        self.gone.add(meta["uid"])
                self._news.set()

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.wait([self._task])

    def all(self) -> list[dict]:
        return list(self.objects.values())

    async def until(self, holds) -> list[dict]:
        async with asyncio.timeout(60):
            while not holds(self.all()):
                self._news.clear()
                await self._news.wait()
        return self.all()
