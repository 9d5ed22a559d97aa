"""What the scheduler does not need fails by itself, says so, and begins again; everything else goes on."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.controller.objects import obj, pod
from tests.controller.process import CRDS, operator, until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.health import Health
from tutti.controller.kopf_handlers import FINALIZER
from tutti.controller.metrics import Metrics
from tutti.controller.supervision import Restartable, keep_up, until_stopped
from tutti.kube.fencing import LeadershipLost
from tutti.kube.resources import PODS
from tutti.kube.retry import Backoff

FLAVORS, TOPOLOGIES = OUR_RESOURCES["ResourceFlavor"], OUR_RESOURCES["Topology"]
UNSERVED = (
    "Unresolved resources cannot be served (try creating their CRDs): "
    "Selector(group='scheduling.tutti.dev', version='v1alpha1', any_name='topologies')"
)
"""What kopf says once it knows of a deletion."""


class Works:
    """Fails so many times, then works."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.times = 0
        self.working = asyncio.Event()

    async def __call__(self):
        self.times += 1
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
            return
        self.working.set()
        await asyncio.Event().wait()


def count(metrics, name):
    return metrics.registry.get_sample_value("tutti_part_failures_total", {"part": name})


async def kept_up(work, *, gates=False, first=0.001):
    health, metrics = Health(), Metrics()
    backoff = Backoff(first=first, longest=10 * first)
    task = asyncio.ensure_future(
        keep_up(Restartable("odd", work, gates=gates), health=health, metrics=metrics, backoff=backoff)
    )
    return task, health, metrics


async def test_a_part_that_fails_or_ends_begins_again_and_is_well_when_it_works():
    work = Works(ValueError("no right"), None, ExceptionGroup("g", [OSError("gone")]))
    task, health, metrics = await kept_up(work)
    await asyncio.wait_for(work.working.wait(), 60)
    assert work.times == 4
    assert count(metrics, "odd") == 3
    assert health.ready["odd"]().ok
    assert health.ready["odd"]().detail == "ok"
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("gates", [False, True])
async def test_while_it_has_failed_that_is_told_and_gates_only_what_others_ask_of_this_process(gates):
    work = Works(*[ValueError("no right to watch")] * 3)
    task, health, metrics = await kept_up(work, gates=gates, first=60.0)
    while not count(metrics, "odd"):  # noqa: ASYNC110 - a counter tells nobody
        await asyncio.sleep(0)
    check = health.ready["odd"]()
    assert check.ok is not gates
    assert check.detail.startswith("degraded, begun again at ")
    assert check.detail.endswith("no right to watch")
    task.cancel()
    await asyncio.wait({task})


async def test_to_lose_the_lease_is_no_failure_of_a_part():
    task, _, metrics = await kept_up(Works(ExceptionGroup("g", [LeadershipLost("over")])))
    with pytest.raises(LeadershipLost, match="over"):
        await asyncio.wait_for(task, 60)
    assert count(metrics, "odd") == 0


async def test_works_end_together_with_a_stop_or_with_what_one_raises():
    stop, ended = asyncio.Event(), []

    async def lasting():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(stop.set))
    await until_stopped(stop, lasting())
    with pytest.raises(ValueError, match="broken"):
        await until_stopped(asyncio.Event(), lasting(), Works(ValueError("broken"))())
    assert ended == [1, 1]


async def bound(cluster, name):
    return (await cluster.get(PODS, name, "default"))["spec"].get("nodeName")


async def held(cluster, resource, name):
    return FINALIZER in (await cluster.get(resource, name))["metadata"].get("finalizers", [])


async def test_a_watch_that_is_refused_costs_held_deletions_alone(cluster, kubeconfig, tmp_path):
    match = {"verbs": ["watch"], "resources": ["clusterqueues"]}
    rule = {"name": "denied", "match": match, "error": {"code": 403, "message": "clusterqueues is forbidden"}}
    await cluster.client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [rule]}).encode())
    async with operator(kubeconfig, tmp_path) as running:
        said = await running.says("part_failed", part="deletions")
        assert "clusterqueues is forbidden" in said["error"]
        await cluster.create(PODS, pod("a"))
        await until(lambda: bound(cluster, "a"))
        status, text = await running.ask("/readyz")
        assert status == 200
        assert "[+]deletions: " in text

        async def counted():  # it may have failed again by now, and be counted while this asks
            text = (await running.ask("/metrics"))[1]
            failures = len(running.said("part_failed", part="deletions"))
            return f'tutti_part_failures_total{{part="deletions"}} {failures}.0' in text

        await until(counted)

        await cluster.client.request("DELETE", "/_tutti/faults")
        await cluster.create(FLAVORS, obj("ResourceFlavor", "f"))
        await until(lambda: held(cluster, FLAVORS, "f"))
        assert await running.stop() == 0


async def test_a_definition_that_is_deleted_costs_nothing_else_and_comes_back(cluster, kubeconfig, tmp_path):
    async with operator(kubeconfig, tmp_path) as running:
        await running.says("deciding")
        definition = await cluster.get(CRDS, TOPOLOGIES.label)
        await cluster.delete(CRDS, TOPOLOGIES.label)
        await running.says("informer_interrupted", resource=TOPOLOGIES.label)
        await running.says(UNSERVED)  # kopf may take a deletion for later than a creation right after it
        await cluster.create(PODS, pod("a"))
        await until(lambda: bound(cluster, "a"))
        assert (await running.ask("/healthz"))[0] == 200

        metadata = {"name": definition["metadata"]["name"]}
        await cluster.create(CRDS, {"kind": definition["kind"], "metadata": metadata, "spec": definition["spec"]})
        levels = {"levels": [{"nodeLabel": "zone"}]}
        await until(lambda: made(cluster, obj("Topology", "racks", levels)))
        await until(lambda: held(cluster, TOPOLOGIES, "racks"))
        assert await running.stop() == 0
    assert not running.said("engine_crashed")


async def made(cluster, document):
    """Make an object as soon as the server serves its kind again."""
    return await cluster.create(TOPOLOGIES, document)


async def test_a_kind_that_is_discovered_late_is_looked_after_once_it_is(cluster, kubeconfig, tmp_path):
    """On a busy server, what a definition serves is told by discovery after kopf has looked, and kopf looks once."""
    async with operator(kubeconfig, tmp_path) as running:
        await running.says("deciding")
        definition = await cluster.get(CRDS, TOPOLOGIES.label)
        await cluster.delete(CRDS, TOPOLOGIES.label)
        await running.says(UNSERVED)
        late = json.dumps({"undiscovered": [TOPOLOGIES.label]}).encode()
        await cluster.client.request("PUT", "/_tutti/faults", body=late)
        metadata = {"name": definition["metadata"]["name"]}
        await cluster.create(CRDS, {"kind": definition["kind"], "metadata": metadata, "spec": definition["spec"]})
        await until(lambda: made(cluster, obj("Topology", "racks", {"levels": [{"nodeLabel": "zone"}]})))
        await running.says("informer_recovered", resource=TOPOLOGIES.label)
        await cluster.client.request("DELETE", "/_tutti/faults")
        await until(lambda: held(cluster, TOPOLOGIES, "racks"))
        assert await running.stop() == 0


async def test_an_operator_begins_though_a_definition_is_being_deleted_that_its_own_objects_hold(
    cluster, kubeconfig, tmp_path
):
    """Nobody but the operator lets them go: were the kind missing to it, both would wait for one another."""
    await cluster.create(
        TOPOLOGIES, obj("Topology", "racks", {"levels": [{"nodeLabel": "zone"}]}, finalizers=[FINALIZER])
    )
    await cluster.delete(CRDS, TOPOLOGIES.label)
    assert (await cluster.get(CRDS, TOPOLOGIES.label))["metadata"]["deletionTimestamp"]
    async with operator(kubeconfig, tmp_path) as running:
        await running.says("deciding")
        await until(lambda: is_gone(cluster, CRDS, TOPOLOGIES.label))
        assert await running.stop() == 0


async def is_gone(cluster, resource, name):
    return await cluster.get(resource, name) is None
