"""Clusters for the tests of the embedded cluster, and a small client of their own."""

import json
import os
import shutil
import subprocess

import aiohttp
import pytest

from tutti_sim.cluster import EmbeddedCluster


class Client:
    """Requests to one cluster: answers are decoded, and refused ones raise unless their status is asked for."""

    def __init__(self, session, url):
        self.session = session
        self.url = url

    async def call(self, method, path, body=None, *, status=None, kind=None, **query):
        headers = {
            "Content-Type": kind or ("application/merge-patch+json" if method == "PATCH" else "application/json")
        }
        data = json.dumps(body).encode() if body is not None else None
        async with self.session.request(method, self.url + path, data=data, params=query, headers=headers) as answer:
            document = json.loads(await answer.read())
            assert answer.status == status if status else answer.status < 400, (answer.status, document)
            return document

    async def get(self, path, **query):
        return await self.call("GET", path, **query)

    async def create(self, path, body, **query):
        return await self.call("POST", path, body, **query)

    async def events(self, path, *, until, **query):
        """Events of a watch until one of them satisfies `until`, as (type, object)."""
        seen = []
        async with self.session.get(self.url + path, params={"watch": "true", **query}) as answer:
            async for line in answer.content:
                event = json.loads(line)
                seen.append((event["type"], event["object"]))
                if until(*seen[-1]):
                    return seen
        raise AssertionError(f"the watch ended after {seen}")

    async def until(self, path, condition, **query):
        """The state of one object as soon as a condition holds for it."""
        collection, _, name = path.rpartition("/")
        select = {"fieldSelector": f"metadata.name={name}", **query}
        seen = await self.events(collection, until=lambda _, obj: condition(obj), **select)
        return seen[-1][1]

    async def gone(self, path):
        """Until an object is no more."""
        collection, _, name = path.rpartition("/")
        listed = await self.get(collection, fieldSelector=f"metadata.name={name}")
        if listed["items"]:
            await self.events(
                collection,
                until=lambda kind, _: kind == "DELETED",
                fieldSelector=f"metadata.name={name}",
                resourceVersion=listed["metadata"]["resourceVersion"],
            )


@pytest.fixture
async def cluster():
    async with EmbeddedCluster(nodes=2, gpus=4, seed=1) as made:
        yield made


@pytest.fixture
async def api(cluster):
    headers = {"Authorization": f"Bearer {cluster.token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Client(session, cluster.url)


@pytest.fixture
async def bare():
    """A client of a cluster in which nobody acts but the test."""
    async with EmbeddedCluster(nodes=0, controllers=False) as made:
        headers = {"Authorization": f"Bearer {made.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield Client(session, made.url)


@pytest.fixture
async def secure():
    async with EmbeddedCluster(nodes=2, gpus=4, tls=True, seed=1) as made:
        yield made


@pytest.fixture
def kubectl(secure, tmp_path):
    """A function that runs kubectl against a cluster, in a thread."""
    import asyncio

    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("there is no kubectl on this machine")
    config = tmp_path / "kubeconfig"
    secure.write_kubeconfig(config)

    def run(arguments, manifest):
        environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}
        done = subprocess.run(
            [program, *arguments], input=manifest, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    async def kubectl(*arguments, manifest=None):
        return await asyncio.to_thread(run, arguments, manifest)

    return kubectl


@pytest.fixture
def pod():
    """A function that makes a pod's manifest."""

    def make(name="p", *, node=None, seconds=None, requests=None, **meta):
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
        if requests:
            spec["containers"][0]["resources"] = {"requests": requests, "limits": requests}
        if node:
            spec["nodeName"] = node
        annotations = {"sim.tutti.dev/run-seconds": str(seconds)} if seconds is not None else {}
        return {"metadata": {"name": name, "annotations": annotations, **meta}, "spec": spec}

    return make
