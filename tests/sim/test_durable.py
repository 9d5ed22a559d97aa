"""A cluster with a data folder outlives its process, and what it has acknowledged is never lost."""

import asyncio
import json
import os
import re
import signal
import sys

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.sim.conftest import Client
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.durable.file import Batch, DataFile, NoDataFile
from tutti_sim.durable.log import Log
from tutti_sim.store.store import Store

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


EVENTS = 300


def client(cluster):
    return aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.token}"})


def state(store, names):
    return {name: {one.key: one.obj for one in store.collection(name).scan()} for name in names}


STEPS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from("wxyz"), st.sampled_from(["put", "remove", "drop"])),
    max_size=60,
)


@given(STEPS, st.integers(1, 6), st.data())
@examples(40)
def test_what_is_loaded_is_what_was_stored_with_its_history(tmp_path_factory, steps, history, data):
    folder = tmp_path_factory.mktemp("data")
    cut = data.draw(st.integers(0, len(steps)))

    truth = {name: {} for name in "ab"}

    async def play():
        file, store = DataFile(folder), Store(history=history)
        log = Log(file, store)
        log.begin()
        writing = asyncio.create_task(log.run())
        for index, (kind, name, action) in enumerate(steps):
            collection = store.collection(kind)
            current = collection.get("", name)
            if action == "drop":
                store.drop(kind)
            elif action == "remove" and current:
                store.remove(collection, current)
            elif current:
                store.replace(collection, current, {"metadata": {"name": name}, "value": index})
            else:
                store.create(collection, {"metadata": {"name": name}, "value": index})
            for one in "ab":
                truth[one][store.revision] = [version.obj for version in store.collection(one).scan()]
            if index == cut:
                await log.settle()
        writing.cancel()
        await asyncio.wait([writing])
        log.close()
        file.close()
        return store

    before = asyncio.run(play())
    file, after = DataFile(folder), Store(history=history)
    list(file.load(after))
    file.close()

    assert after.revision in (before.revision, 1)
    assert state(after, "ab") == state(before, "ab")
    for name in {kind for kind, _, action in steps if action != "drop"}:
        for rv, then in truth[name].items():
            if rv >= max(before.collection(name).oldest, after.collection(name).oldest):
                assert [one.obj for one in after.collection(name).snapshot(rv)] == then
        assert after.collection(name).oldest <= before.collection(name).oldest


async def test_a_cluster_goes_on_where_it_stopped(tmp_path):
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = "/apis/example.com/v1/namespaces/default/things"
    async with EmbeddedCluster(nodes=2, seed=1, data=tmp_path) as first, client(first) as session:
        api = Client(session, first.url)
        await api.create(definitions, definition)
        made = await api.create(things, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}})
        listed = await api.get("/api/v1/nodes")
    async with EmbeddedCluster(nodes=2, seed=1, data=tmp_path) as second, client(second) as session:
        api = Client(session, second.url)
        assert second.token == first.token
        assert await api.get(f"{things}/a") == made
        assert [one["metadata"]["uid"] for one in (await api.get("/api/v1/nodes"))["items"]] == [
            one["metadata"]["uid"] for one in listed["items"]
        ]
        found = await api.get(f"{definitions}/things.example.com")
        assert found["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        other = await api.create(things, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "b"}})
        assert int(other["metadata"]["resourceVersion"]) > int(listed["metadata"]["resourceVersion"])
        assert other["metadata"]["uid"] != made["metadata"]["uid"]
        seen = await api.events(
            things,
            until=lambda _, obj: obj["metadata"]["name"] == "b",
            resourceVersion=made["metadata"]["resourceVersion"],
        )
        assert [(kind, obj["metadata"]["name"]) for kind, obj in seen] == [("ADDED", "b")]


async def test_a_folder_serves_one_cluster_at_a_time(tmp_path):
    async with EmbeddedCluster(nodes=0, data=tmp_path):
        with pytest.raises(NoDataFile, match="one cluster at a time"):
            DataFile(tmp_path)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "cluster.db").write_text("this is not a database, whatever its name may say" * 30)

    with pytest.raises(NoDataFile, match="choose another folder"):
        DataFile(tmp_path)


def test_nobody_else_can_read_the_file(tmp_path):
    folder = tmp_path / "new"
    DataFile(folder).close()

    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "cluster.db").stat().st_mode & 0o077 == 0


async def test_who_waits_for_a_disk_that_refuses_is_told(tmp_path):
    file, store = DataFile(tmp_path), Store()
    log = Log(file, store)
    log.begin()
    writing = asyncio.create_task(log.run())
    collection = store.collection("things")
    file.stage(Batch(revision=1))

    store.create(collection, {"metadata": {"name": "a"}})

    with pytest.raises(ConnectionError, match="could not be made durable"):
        await log.settle()
    with pytest.raises(ConnectionError):
        await log.settle()
    assert writing.exception() is not None
    log.close()
    file.close()


class Killed:
    """A server process that is killed and started again on the same folder."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.url = ""

    async def start(self):
        arguments = ["cluster", "--nodes", "0", "--no-tls", "--token", "t", "--data", str(self.folder)]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tutti", *arguments, stdout=asyncio.subprocess.PIPE
        )
        line = (await self.process.stdout.readline()).decode()
        self.url = re.search(r"http://[\d.:]+", line)[0]

    async def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


class Writer:
    """Writes one object after another, notes what was acknowledged, and keeps a view by watching."""

    def __init__(self, session):
        self.session = session
        self.acknowledged = {}
        self.view = {}
        self.revision = 0
        self.latest = 0
        self.enough = asyncio.Event()

    async def write(self, url, worker):
        name, value = f"w{worker}", 0
        try:
            while True:
                value += 1
                body = {"metadata": {"name": f"{name}-{value % 5}"}, "data": {"value": str(value)}}
                body["kind"], body["apiVersion"] = "ConfigMap", "v1"
                key = body["metadata"]["name"]
                action = "DELETE" if value % 7 == 0 and key in self.acknowledged else "PATCH"
                await self._send(url, action, key, body)
        except (aiohttp.ClientError, OSError):
            return

    async def _send(self, url, action, key, body):
        before = self.acknowledged.get(key)
        self.acknowledged[key] = ("maybe", body["data"]["value"], before, action)
        headers = {"Content-Type": "application/apply-patch+yaml"} if action == "PATCH" else {}
        data = json.dumps(body).encode() if action == "PATCH" else None
        query = {"fieldManager": "test"} if action == "PATCH" else {}
        async with self.session.request(
            action, f"{url}{CONFIGMAPS}/{key}", data=data, params=query, headers=headers
        ) as answer:
            document = json.loads(await answer.read())
            if action == "DELETE":
                assert answer.status in (200, 404), document
                self.acknowledged[key] = ("gone",)
            else:
                assert answer.status in (200, 201), document
                self.latest = max(self.latest, int(document["metadata"]["resourceVersion"]))
                self.acknowledged[key] = ("is", body["data"]["value"], document["metadata"]["resourceVersion"])

    async def watch(self, url, **more):
        query = {"watch": "true", "resourceVersion": str(self.revision), **more}
        events = 0
        try:
            async with self.session.get(url + CONFIGMAPS, params=query) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    meta = event["object"]["metadata"]
                    assert int(meta["resourceVersion"]) > self.revision, "what was seen before comes again"
                    self.revision = int(meta["resourceVersion"])
                    self.view[meta["name"]] = None if event["type"] == "DELETED" else event["object"]["data"]
                    events += 1
                    if events == EVENTS:
                        self.enough.set()
        except (aiohttp.ClientError, OSError):
            return


def agrees(found, wanted):
    """Whether an object is in a state that the writer's last answer allows."""
    if wanted[0] == "gone":
        return found is None
    if wanted[0] == "is":
        return found is not None and found[0] == wanted[1] and found[1] == wanted[2]
    _, value, before, action = wanted
    if before is None and found is None:
        return True
    if before is not None and agrees(found, before):
        return True
    return found is None if action == "DELETE" else found is not None and found[0] == value


async def test_no_acknowledged_write_is_lost_when_the_server_is_killed(tmp_path):
    server = Killed(tmp_path)
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
        writer = Writer(session)
        for _ in range(3):
            await server.start()
            async with session.get(server.url + CONFIGMAPS) as answer:
                listed = json.loads(await answer.read())
            begun = int(listed["metadata"]["resourceVersion"])
            assert begun >= max(writer.latest, writer.revision)
            data = {one["metadata"]["name"]: one["data"] for one in listed["items"]}
            versions = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listed["items"]}
            found = {name: (one["value"], versions[name]) for name, one in data.items()}
            for key, wanted in writer.acknowledged.items():
                assert agrees(found.get(key), wanted), (key, found.get(key), wanted)
            if writer.revision:
                await writer.watch(server.url, timeoutSeconds="1")
                assert {name: one for name, one in writer.view.items() if one} == data
            else:
                writer.revision = begun
            writer.acknowledged = {key: ("is", *value) for key, value in found.items()}
            tasks = [asyncio.create_task(writer.write(server.url, worker)) for worker in range(8)]
            tasks.append(asyncio.create_task(writer.watch(server.url)))
            enough = asyncio.create_task(writer.enough.wait())
            await asyncio.wait([*tasks, enough], return_when=asyncio.FIRST_COMPLETED)
            await server.kill()
            await asyncio.gather(*tasks)
            assert enough.done()
            writer.enough.clear()
