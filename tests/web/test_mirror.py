"""The cluster as pages see it: what is watched, what may not be, and what comes and goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cli.views import scene
from tests.cli.views.test_rights import DEVICES, granted
from tests.controller.recording import recorded
from tests.manifests.rbac import asked
from tests.web.serving import KNOWN
from tests.web.test_beside import cluster
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.frameworks import KNOWN_KINDS
from tutti.engine.records.observations import PodSeen
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.web.hub import PageHub
from tutti.web.mirror import ClusterMirror


@asynccontextmanager
async def mirrored(url: str, token: str) -> AsyncIterator[tuple[ClusterMirror, Client]]:
    async with Client(Credentials.fixed(Access(url, headers={"Authorization": f"Bearer {token}"}))) as client:
        mirror = ClusterMirror(client, namespace="vision", configuration=KNOWN)
        running = asyncio.create_task(mirror.run())
        try:
            await mirror.ready.wait()
            yield mirror, client
        finally:
            running.cancel()
            await asyncio.wait({running})


def pods(mirror: ClusterMirror) -> set[str]:
    return {one.pod.metadata.name for one in mirror.listed().seen if isinstance(one, PodSeen)}


async def until(mirror: ClusterMirror, condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            mirror.changed.clear()
            await mirror.changed.wait()


async def test_what_comes_and_goes_is_seen(tmp_path):
    async with cluster(tmp_path / "kubeconfig") as one, mirrored(one.url, one.token) as (mirror, client):
        assert {"train-1-0", "notebook-a"} <= pods(mirror)
        assert mirror.listed().missing == []
        await scene.create(client, scene.pod("vision", "new", 1))
        await until(mirror, lambda: "new" in pods(mirror))
        await client.request("DELETE", "/api/v1/namespaces/vision/pods/new")
        await until(mirror, lambda: "new" not in pods(mirror))


async def test_a_namespace_that_gets_a_queue_is_known_at_once_though_nobody_looks(tmp_path):
    """Whoever signs in is asked about in namespaces with a queue: who came before his had one waits for nobody."""
    queue = {
        "apiVersion": "scheduling.tutti.dev/v1alpha1",
        "kind": "LocalQueue",
        "metadata": {"name": "new", "namespace": "new"},
        "spec": {"clusterQueue": "research"},
    }
    async with cluster(tmp_path / "kubeconfig") as one, mirrored(one.url, one.token) as (mirror, client):
        hub = PageHub(mirror)
        before = await hub.namespaces()
        assert "vision" in before
        await scene.create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
        await scene.create(client, queue)
        await until(mirror, lambda: mirror.queue_namespaces() == before | {"new"})
        assert await hub.namespaces() == before | {"new"}
        hub.close()


async def test_what_the_operator_tells_is_seen_and_nothing_of_others(tmp_path):
    def event(name: str, controller: str) -> bytes:
        about = {
            "apiVersion": "scheduling.tutti.dev/v1alpha1",
            "kind": "PodGroup",
            "namespace": "vision",
            "name": "train-2",
        }
        made = {
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "vision"},
            "eventTime": "2126-01-01T00:00:00.000000Z", "reportingController": controller, "reportingInstance": "x",
            "action": "Wait", "reason": "Waiting", "type": "Normal", "note": "needs 8", "regarding": about,
        }  # fmt: skip
        return json.dumps(made).encode()

    async with cluster(tmp_path / "kubeconfig") as one, mirrored(one.url, one.token) as (mirror, client):
        for name, controller in (("a", "kubelet"), ("b", "tutti")):
            await client.request(
                "POST", "/apis/events.k8s.io/v1/namespaces/vision/events", body=event(name, controller)
            )
        await until(mirror, mirror.events.latest)
        (told,) = mirror.events.latest()

    assert (told.kind, told.namespace, told.name, told.reason, told.message) == (
        "PodGroup", "vision", "train-2", "Waiting", "needs 8",
    )  # fmt: skip


async def test_what_may_not_be_listed_everywhere_is_followed_in_the_own_namespace(tmp_path):
    async with cluster(tmp_path / "kubeconfig") as one:
        match = {"verbs": ["list", "watch"], "resources": ["pods", "nodes"], "namespaces": [""]}
        rule = {"name": "rbac", "match": match, "error": {"code": 403, "message": "you may not"}}
        async with Client(
            Credentials.fixed(Access(one.url, headers={"Authorization": f"Bearer {one.token}"}))
        ) as client:
            await client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [rule]}).encode())
        async with mirrored(one.url, one.token) as (mirror, _):
            assert pods(mirror) == {"train-1-0", "train-1-1", "train-2-0", "train-2-1", "warmup-0", "warmup-1"}
            assert set(mirror.listed().refused) == {"pods", "nodes"}
            assert "you may not" in mirror.listed().refused["nodes"]


async def test_a_server_without_our_kinds_is_found_out():
    from tutti_sim.cluster import EmbeddedCluster

    async with EmbeddedCluster(nodes=0, controllers=False) as one, mirrored(one.url, one.token) as (mirror, _):
        assert len(mirror.listed().missing) == 9


async def test_pages_need_no_more_than_the_role_of_viewers(tmp_path):
    async with cluster(tmp_path / "kubeconfig") as one, recorded(one.url) as proxy:
        async with mirrored(proxy.url, one.token):
            pass
        found = {ask[:3] for said in proxy.requests if (ask := asked(*said)) is not None}

    devices = {(group, plural, verb) for group, plural, _ in DEVICES for verb in ("list", "watch")}
    assert {verb for _, _, verb in found} <= {"list", "watch"}
    assert found - granted() <= devices
    optional = {(kind.group, kind.plural) for kind in (*GANG_KINDS, *KNOWN_KINDS)}
    assert {one[:2] for one in granted() if one[2] == "watch"} - {one[:2] for one in found} <= optional
