"""A scheduler that is held back until all that it is to schedule is there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.bench.conftest import SCHEDULER
from tests.bench.opcodes import Watcher, file
from tutti.kube.client import MERGE_PATCH
from tutti_bench.document import read_scenarios
from tutti_bench.session import prepare
from tutti_bench.stage import Process


@pytest.fixture
def child():
    """A process that does nothing until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


@pytest.fixture
def signals(monkeypatch):
    """What a process is told, in order; it is told so all the same."""
    sent: list[signal.Signals] = []
    tell = os.kill

    def kill(pid: int, what: int) -> None:
        sent.append(signal.Signals(what))
        tell(pid, what)

    monkeypatch.setattr("tutti_bench.stage.os.kill", kill)
    return sent


async def test_a_scheduler_is_held_back_until_all_pods_are_there(bench, child, signals):
    """That a process which is told so stands still is looked at in test_figures."""
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, count: 5, collectMetrics: true}\n")
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    found = await bench.session.run(task, SCHEDULER, Process(child.pid, drains=True))
    assert signals == [signal.SIGSTOP, signal.SIGCONT]
    assert "BindLatency" not in {one.metric for one in found}
    assert {one.labels["Drain"] for one in found} == {"true"}


async def test_a_scheduler_is_held_back_until_the_claims_of_templates_are_made(bench, child, signals):
    pod = bench.template("pod.yaml", """
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: device, resourceClaimTemplateName: one}, {name: own, resourceClaimName: mine}]
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        f"  - {{opcode: createPods, namespace: n, count: 1, collectMetrics: true, podTemplatePath: {pod}}}\n"
    )
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    async with Watcher(bench, "/api/v1/pods") as pods:
        running = asyncio.create_task(bench.session.run(task, SCHEDULER, Process(child.pid, drains=True)))
        await pods.until(lambda all_: any(one["spec"].get("nodeName") for one in all_))
        assert signals == [signal.SIGSTOP]

        body = {"status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "p-device"}]}}
        path = "/api/v1/namespaces/n/pods/p/status"
        await bench.client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH)
        await running
    assert signals == [signal.SIGSTOP, signal.SIGCONT]


async def test_nobody_is_held_back_where_that_was_not_asked_for(bench, child, signals):
    text = file("  - {opcode: createNodes, count: 1}\n  - {opcode: createPods, count: 5, collectMetrics: true}\n")
    scenario = read_scenarios(text, "test.yaml")[0]
    task = prepare(scenario, scenario.workloads[0], bench.folder)
    found = await bench.session.run(task, SCHEDULER, Process(child.pid))
    assert signals == []
    assert {"SchedulerCPU", "BindLatency"} <= {one.metric for one in found}
    assert not any("Drain" in one.labels for one in found)
