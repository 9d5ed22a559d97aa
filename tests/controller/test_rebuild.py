"""An operator whose engine fails goes on with another one: the same process, the same lease, the same charges."""

from __future__ import annotations

import re
import sys

import pytest

from tests.controller.objects import cluster_queue, gang, local_queue, obj
from tests.controller.process import operator, until
from tests.controller.test_busy_engine import install
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.journal import ENDED, replay
from tutti.kube.resources import LEASES, PODS

BREAKING = """
import os, weakref
from tutti.engine.cycle.engine import Engine

turn, make, made = Engine._turn, Engine.__init__, weakref.WeakSet()

def raising(engine, most, enough):
    if os.path.exists({broken!r}):
        raise RuntimeError("broken for a while")
    turn(engine, most, enough)

def making(engine, *args, **options):
    with open({alive!r}, "a") as lines:
        print(len(made), file=lines)
    make(engine, *args, **options)
    made.add(engine)

Engine._turn, Engine.__init__ = raising, making

class Odd:
    def filter(self, pods, nodes, now):
        return {{}}
"""
USAGE = re.compile(r"^kueue_cluster_queue_resource_usage.*", re.MULTILINE)
FAILURES = re.compile(r'^tutti_part_failures_total{part="engine"} (\S+)', re.MULTILINE)


@pytest.fixture
async def breakable(cluster, kubeconfig, tmp_path, monkeypatch):
    """An operator with a gang running, whose engine fails in every turn while a file is there."""
    broken, alive = tmp_path / "broken", tmp_path / "alive"
    install(tmp_path, monkeypatch, BREAKING.format(broken=str(broken), alive=str(alive)))
    profiles = [{"schedulerName": "tutti", "userPlugins": [{"name": "odd"}]}]
    journal = ("--journal", str(tmp_path / "journal"))
    async with operator(kubeconfig, tmp_path, *journal, python=sys.executable, profiles=profiles) as running:
        await running.says("deciding")
        await cluster.create(OUR_RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
        await cluster.create(OUR_RESOURCES["ClusterQueue"], cluster_queue(cpu="10"))
        await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue())
        await placed(cluster, "first")
        yield running, broken


async def start(cluster, name):
    group, *members = gang(name, 2)
    await cluster.create(OUR_RESOURCES["PodGroup"], group)
    for member in members:
        await cluster.create(PODS, member)


async def placed(cluster, name):
    await start(cluster, name)
    await until(lambda: bound(cluster, name))


async def bound(cluster, prefix):
    nodes = [p["spec"].get("nodeName") for p in await cluster.list(PODS) if p["metadata"]["name"].startswith(prefix)]
    return len(nodes) == 2 and all(nodes)


async def told(running, wanted=re.compile("")):
    return wanted.findall((await running.ask("/metrics"))[1])


async def test_it_goes_on_with_its_lease_and_places_what_came_meanwhile(cluster, breakable, tmp_path):
    running, broken = breakable
    before, lease = await told(running, USAGE), (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]
    assert await told(running, FAILURES) == ["0.0"]
    broken.touch()
    await start(cluster, "second")
    await running.says("engine_failed")
    await running.says("part_failed", part="engine")
    assert (await running.ask("/readyz"))[0] == 503
    text = await until(
        lambda: engine_degraded(running)
    )  # a slow client meets the next engine, which lists until it fails
    assert "[-]engine: degraded, begun again at " in text
    assert "broken for a while" in text
    assert (await running.ask("/healthz"))[0] == 200
    await until(lambda: uses_nothing(running))  # nobody decides, but for the moment in which the next engine fails
    await until(lambda: failed_again(running))
    waits = [one["again_in_seconds"] for one in running.said("part_failed", part="engine")]
    assert waits == sorted(waits)
    assert not await bound(cluster, "second")

    known = len(running.said("deciding"))
    broken.unlink()
    await until(lambda: bound(cluster, "second"))
    for rank in range(2):
        await cluster.delete(PODS, f"second-{rank}", "default")
    await until(lambda: is_told(running, before))
    assert len(running.said("deciding")) > known
    assert (await running.ask("/readyz"))[0] == 200
    now = (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]
    for field in ("holderIdentity", "leaseTransitions", "acquireTime"):
        assert now[field] == lease[field]
    assert float((await told(running, FAILURES))[0]) == len(running.said("engine_failed")) > 1
    assert running.process.returncode is None
    assert await running.stop() == 0
    assert set((tmp_path / "alive").read_text().split()) == {"0"}, "a former engine is still held by somebody"


async def engine_degraded(running):
    status, text = await running.ask("/readyz")
    return text if status == 503 and "[-]engine: " in text else ""


async def failed_again(running):
    return float((await told(running, FAILURES))[0]) > 1


async def uses_nothing(running):
    return all(one.endswith(" 0.0") for one in await told(running, USAGE))


async def is_told(running, wanted):
    return await told(running, USAGE) == wanted


async def test_each_engine_has_a_run_of_its_own_in_the_journal(cluster, breakable, tmp_path):
    running, broken = breakable
    broken.touch()
    await start(cluster, "second")
    await running.says("engine_failed")
    broken.unlink()
    await until(lambda: bound(cluster, "second"))
    assert await running.stop() == 0

    crashed, *_ = sorted(tmp_path.glob("journal.*"))
    assert not crashed.read_bytes().endswith(ENDED)
    assert crashed.read_bytes().count(b'"line":"header"') == 1
    last = (tmp_path / "journal").read_bytes()
    assert last.endswith(ENDED)
    found = replay(last.splitlines(keepends=True))
    assert found.decisions > 2
    assert found.differences == []


async def test_asked_to_stop_while_its_engine_fails_it_ends_well(cluster, breakable):
    running, broken = breakable
    broken.touch()
    await start(cluster, "second")
    await running.says("part_failed", part="engine")
    assert await running.stop() == 0
    assert (await cluster.get(LEASES, "tutti", "kube-system"))["spec"]["holderIdentity"] == ""
    assert not await bound(cluster, "second")
