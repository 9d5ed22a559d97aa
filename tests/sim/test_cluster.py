"""The cluster as a whole: who may come in, how it is announced, and the command that runs it."""

import asyncio
import json
import signal
import ssl
import sys

import aiohttp
import pytest

from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.hollow.nodes import Fleet


async def test_a_wrong_token_is_refused(cluster):
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer wrong"}) as session,
        session.get(cluster.url + "/api/v1/pods") as answer,
    ):
        assert answer.status == 401
        assert (await answer.json())["reason"] == "Unauthorized"


async def test_the_kubeconfig_leads_to_the_cluster(secure, tmp_path):
    path = tmp_path / "kubeconfig"
    secure.write_kubeconfig(path)
    config = json.loads(path.read_text())
    token = config["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cadata=secure.ca.decode())

    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
        session.get(config["clusters"][0]["cluster"]["server"] + "/version", ssl=trust) as answer,
    ):
        assert (await answer.json())["gitVersion"] == "v1.36.2"
    assert path.stat().st_mode & 0o77 == 0


async def test_two_clusters_do_not_share_anything():
    async with EmbeddedCluster(nodes=1) as one, EmbeddedCluster(nodes=0) as other:
        assert one.url != other.url
        assert one.token != other.token
        assert one.backend.find("nodes", "", "node-0000")
        assert not other.backend.find("nodes", "", "node-0000")


async def test_racks_divide_the_nodes():
    async with EmbeddedCluster(nodes=6, racks=3) as cluster:
        nodes = cluster.backend.store.collection("nodes").scan()
        racks = [one.obj["metadata"]["labels"]["topology.tutti.dev/rack"] for one in nodes]

    assert racks == ["rack-000"] * 2 + ["rack-001"] * 2 + ["rack-002"] * 2


async def test_a_fleet_can_be_without_gpus():
    async with EmbeddedCluster(fleet=Fleet(nodes=1, gpus=0, cpu="2")) as cluster:
        offered = cluster.backend.find("nodes", "", "node-0000")["status"]["allocatable"]

    assert "nvidia.com/gpu" not in offered
    assert offered["cpu"] == "2"


async def test_watches_end_when_the_cluster_stops():
    async with EmbeddedCluster(nodes=0) as cluster, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {cluster.token}"}
        answer = await session.get(cluster.url + "/api/v1/pods?watch=true&resourceVersion=1", headers=headers)
        assert answer.status == 200
        await cluster.__aexit__(None, None, None)

        async with asyncio.timeout(60):
            assert await answer.content.read() == b""


async def test_a_watcher_that_does_not_read_is_cut_off_and_misses_nothing_after_a_new_list(cluster, api):
    maps = "/api/v1/namespaces/default/configmaps"
    listed = await api.get(maps)
    answer = await api.session.get(
        api.url + maps,
        params={"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]},
        read_bufsize=1024,
    )
    resource = cluster.backend.resource("", "v1", "configmaps")
    collection = cluster.backend.collection(resource)
    subscription = collection._subscriptions[0]
    subscription.limit = 5
    for number in range(50):
        await api.create(maps, {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 200_000}})
        if subscription.overflow:
            break
    assert subscription.overflow

    async with asyncio.timeout(60):
        data = await answer.content.read()
    seen = {json.loads(line)["object"]["metadata"]["name"] for line in data.splitlines()}
    there = {one["metadata"]["name"] for one in (await api.get(maps))["items"]}

    assert seen < there
    assert collection._subscriptions == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_runs_until_it_is_told_to_stop(tmp_path, number):
    path = tmp_path / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "from tutti.cli.main import main; main()", "cluster", "--nodes", "1", "--kubeconfig", str(path)),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on https://127.0.0.1:")
        assert json.loads(path.read_text())["current-context"] == "tutti"
        process.send_signal(number)
        assert await process.wait() == 0


async def test_a_generated_name_that_is_taken_is_drawn_again(cluster, api):
    """Kubernetes 1.32, RetryGenerateName: among 2,000 names with five random characters, one time in seven two are alike."""
    body = {"metadata": {"generateName": "thing-"}}
    names = []
    for _ in range(3):
        cluster.backend.draw.seed(7)
        made = await api.create("/api/v1/namespaces/default/configmaps", body)
        names.append(made["metadata"]["name"])
    assert len(set(names)) == 3


async def test_a_generated_name_is_drawn_eight_times_at_most(cluster, api):
    body = {"metadata": {"generateName": "thing-"}}
    for _ in range(8):
        cluster.backend.draw.seed(7)
        await api.create("/api/v1/namespaces/default/configmaps", body)
    cluster.backend.draw.seed(7)
    refused = await api.call("POST", "/api/v1/namespaces/default/configmaps", body, status=409)
    assert refused["reason"] == "AlreadyExists"
