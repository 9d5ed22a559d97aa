"""While the engine is busy without end, the lease is renewed and probes are answered; a plugin that spins keeps it so."""

from __future__ import annotations

import asyncio
import os
import sys

import aiohttp

from tests.controller.objects import pod
from tests.controller.process import ELECTION, operator, until
from tutti.kube.resources import LEASES, PODS

SPINNING = '''
import os

class Odd:
    """Spins at a pod until a file is there."""

    def filter(self, pods, nodes, now):
        open({began!r}, "w").close()
        spun = 0
        while not os.path.exists({released!r}):
            spun += sum(range(1000))
        return {{}}
'''


def install(folder, monkeypatch, source):
    package = folder / "site"
    info = package / "odd-1.dist-info"
    info.mkdir(parents=True)
    (package / "odd.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tutti.plugins]\nodd = odd:Odd\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), *(one for one in sys.path if one)]))


async def test_the_lease_is_renewed_and_probes_are_answered_while_a_plugin_spins(
    cluster, kubeconfig, tmp_path, monkeypatch
):
    began, released = tmp_path / "began", tmp_path / "released"
    install(tmp_path, monkeypatch, SPINNING.format(began=str(began), released=str(released)))
    profiles = [{"schedulerName": "tutti", "userPlugins": [{"name": "odd"}]}]
    async with operator(kubeconfig, tmp_path, python=sys.executable, profiles=profiles) as running:
        await running.says("deciding")
        await cluster.create(PODS, pod("a"))
        await until(lambda: is_there(began))
        for path in ("/healthz", "/readyz"):
            status, text = await asked(running, path)
            assert (status, text.splitlines()[-1]) == (200, "ok")
        first = await lease(cluster)
        held = {first["renewTime"]}
        while len(held) <= ELECTION["leaseDurationSeconds"]:  # one in each second
            held.add((await until(lambda: renewed(cluster, held)))["renewTime"])
        assert (await asked(running, "/healthz"))[0] == 200
        metrics = asyncio.create_task(running.ask("/metrics"))  # they are read where they are written
        assert not (await cluster.get(PODS, "a", "default"))["spec"].get("nodeName")
        released.touch()
        await until(lambda: bound(cluster, "a"))
        assert "tutti_leader 1.0" in (await metrics)[1]
        assert (await lease(cluster))["leaseTransitions"] == first["leaseTransitions"]
        assert await running.stop() == 0
    assert not running.said("engine_crashed")


async def asked(running, path):
    """Ask as a kubelet does, who gives up after a second; the load of a test's machine is another matter."""
    port = (await running.says("started"))["port"]
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def is_there(path):
    return path.exists()


async def lease(cluster):
    return (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]


async def renewed(cluster, before):
    found = await lease(cluster)
    return found if found["renewTime"] not in before else None


async def bound(cluster, name):
    return (await cluster.get(PODS, name, "default"))["spec"].get("nodeName")
