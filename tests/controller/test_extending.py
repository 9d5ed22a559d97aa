"""An operator with an HTTP extender and a plugin: what they say decides, and the journal of it replays."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

from aiohttp import web

from tests.controller.objects import pod
from tests.controller.process import operator, until
from tutti.kube.resources import NODES, PODS
from tutti.placement.policy_file import PolicyFile, write_policy


class Extender:
    """Lets pass and prefers by name; keeps what it was asked."""

    def __init__(self, passes, best):
        self.passes, self.best = set(passes), best
        self.asked = []
        self.broken = False

    async def filter(self, request):
        args = await self._read(request)
        names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
        kept = [node for node in args["Nodes"]["items"] if node["metadata"]["name"] in self.passes]
        failed = {name: "no licence here" for name in names if name not in self.passes}
        return web.json_response({"Nodes": {"items": kept}, "FailedNodes": failed, "Error": ""})

    async def prioritize(self, request):
        args = await self._read(request)
        names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
        return web.json_response([{"Host": name, "Score": 10 * (name == self.best)} for name in names])

    async def _read(self, request):
        args = await request.json()
        self.asked.append((request.path, args))
        if self.broken:
            raise web.HTTPInternalServerError
        return args


@asynccontextmanager
async def serving(extender):
    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.post("/x/filter", extender.filter), web.post("/x/prioritize", extender.prioritize)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        yield {
            "urlPrefix": f"http://127.0.0.1:{port}/x",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 5,
        }
    finally:
        await runner.cleanup()


async def test_an_extender_decides_and_its_failure_is_told(cluster, kubeconfig, tmp_path):
    nodes = sorted(one["metadata"]["name"] for one in await cluster.list(NODES))
    extender = Extender(passes=nodes[1:], best=nodes[2])
    journal = tmp_path / "journal"
    async with (
        serving(extender) as entry,
        operator(kubeconfig, tmp_path, "--journal", str(journal), extenders=[entry]) as running,
    ):
        await running.says("deciding")
        await cluster.create(PODS, pod("a", annotations={"example.com/only-for": "the extender"}))
        assert await until(lambda: place(cluster, "a")) == nodes[2]
        asked = dict(extender.asked)
        assert asked["/x/filter"]["Pod"]["metadata"]["annotations"]["example.com/only-for"] == "the extender"
        assert [one["metadata"]["name"] for one in asked["/x/filter"]["Nodes"]["items"]] == nodes
        assert "capacity" in asked["/x/filter"]["Nodes"]["items"][0]["status"]
        assert [one["metadata"]["name"] for one in asked["/x/prioritize"]["Nodes"]["items"]] == nodes[1:]

        extender.broken = True
        await cluster.create(PODS, pod("b"))
        condition = await until(lambda: refused(cluster, "b"))
        assert condition["reason"] == "ExtenderFailed"
        assert "answered with code 500" in condition["message"]
        extender.broken = False
        assert await until(lambda: place(cluster, "b")) in nodes[1:]
        _, metrics = await running.ask("/metrics")
        assert f'tutti_extender_asks_total{{extender="{entry["urlPrefix"]}",outcome="failed",verb="filter"}}' in metrics
        assert await running.stop() == 0
    command = [sys.executable, "-m", "tutti", "replay", str(journal)]
    replayed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "identical" in replayed.stdout


async def place(cluster, name):
    found = await cluster.get(PODS, name, "default")
    return found["spec"].get("nodeName")


async def refused(cluster, name):
    return await cluster.condition(PODS, name, "default", "PodScheduled")


async def test_a_plugin_that_fails_is_logged_and_counted_and_its_pods_say_so(
    cluster, kubeconfig, tmp_path, monkeypatch
):
    package = tmp_path / "site"
    info = package / "odd-1.dist-info"
    info.mkdir(parents=True)
    (package / "odd.py").write_text("class Odd:\n    def filter(self, pods, nodes, now):\n        return nodes.lost\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tutti.plugins]\nodd = odd:Odd\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), *(one for one in sys.path if one)]))
    profiles = [{"schedulerName": "tutti", "userPlugins": [{"name": "odd"}]}]
    async with operator(kubeconfig, tmp_path, python=sys.executable, profiles=profiles) as running:
        await running.says("deciding")
        await cluster.create(PODS, pod("a"))
        condition = await until(lambda: refused(cluster, "a"))
        assert condition["reason"] == "PluginFailed"
        assert "plugin odd failed (AttributeError" in condition["message"]
        await running.says("plugin_failed", plugin="odd", point="filter")
        _, metrics = await running.ask("/metrics")
        assert 'tutti_plugin_faults_total{plugin="odd",point="filter"} 1.0' in metrics
        assert await running.stop() == 0


async def test_a_learned_policy_decides_and_is_measured_and_a_replay_wants_the_same_file(cluster, kubeconfig, tmp_path):
    file, journal = tmp_path / "policy.json", tmp_path / "journal"
    file.write_bytes(write_policy(PolicyFile(features=("cpuFree",), output=(-40.0,), bias=36.0)))
    profiles = [{"schedulerName": "tutti", "learnedScore": {"file": str(file), "weight": 50}}]
    async with operator(kubeconfig, tmp_path, "--journal", str(journal), profiles=profiles) as running:
        await running.says("deciding")
        await cluster.create(PODS, pod("a"))
        first = await until(lambda: place(cluster, "a"))
        await cluster.create(PODS, pod("b"))
        assert await until(lambda: place(cluster, "b")) == first
        _, metrics = await running.ask("/metrics")
        labels = 'extension_point="Score",plugin="learnedScore",profile="tutti",status="Success"'
        assert f"scheduler_plugin_execution_duration_seconds_count{{{labels}}}" in metrics
        assert await running.stop() == 0
    command = [sys.executable, "-m", "tutti", "replay", str(journal)]
    replayed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    file.unlink()
    replayed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert replayed.returncode == 2
    assert "had the learned policy sha256:" in replayed.stderr


async def test_a_plugin_that_is_not_installed_ends_the_start_with_one_line(kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path, profiles=[{"userPlugins": [{"name": "nowhere"}]}]) as running:
        assert await running.ends() == 2
    texts = [line["text"] for line in running.lines if "text" in line]
    assert len(texts) == 1
    assert "profiles[0].userPlugins[0].name: no package offers a plugin 'nowhere'" in texts[0]
