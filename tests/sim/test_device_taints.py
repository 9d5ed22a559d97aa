"""The controller that takes out pods whose devices are tainted, by drivers or by administrators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.sim.test_device_claims import NAMES, Bench
from tests.sim.waiting import until
from tutti_sim.cluster import EmbeddedCluster


@pytest.fixture
async def bench():
    async with EmbeddedCluster(nodes=1, seed=1, controllers=NAMES) as embedded:
        yield Bench(embedded)


async def slices(bench, **taint):
    device = {"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoExecute", **taint}]}
    pool = {"name": "node-0000", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "node-0000", "devices": [device]}
    await bench.create("resourceslices", "s", spec)


async def running(bench, tolerations=()):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="node-0000")
    bench.allocate("own", user, tolerations=tolerations)
    await until(bench.cluster, lambda: bench.one("pods", "p").obj["status"]["phase"] == "Running")


async def test_a_taint_takes_out_who_uses_the_device(bench):
    await running(bench)
    seen = []
    bench.cluster.backend.after.append(
        lambda resource, _, new: seen.append(new.obj) if resource.plural == "pods" and new else None
    )

    await slices(bench)

    await bench.gone("pods", "p")
    marks = [one for pod in seen for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert {one["reason"] for one in marks} == {"DeletionByDeviceTaintManager"}


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"operator": "Exists", "effect": "NoExecute"}, True),
        ({"operator": "Exists", "effect": "NoExecute", "key": "broken", "tolerationSeconds": 3600}, True),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}, False),  # the taint is older
        ({"operator": "Exists", "effect": "NoExecute", "key": "other"}, False),
        ({"operator": "Exists"}, False),  # only those whose effect is exactly NoExecute keep a pod where it is
        ({"operator": "Equal", "effect": "NoExecute", "key": "broken", "value": "fan"}, False),
    ],
)
async def test_tolerations_in_the_allocation_say_who_stays_and_for_how_long(bench, toleration, stays):
    await running(bench, [toleration])

    added = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await slices(bench, timeAdded=added)

    if stays:
        await bench.create("pods", "later", {"containers": [{"name": "c", "image": "x"}], "nodeName": "node-0000"})
        await until(bench.cluster, lambda: bench.one("pods", "later").obj["status"]["phase"] == "Running")
        assert not bench.one("pods", "p").obj["metadata"].get("deletionTimestamp")
    else:
        await bench.gone("pods", "p")


async def settled(bench):
    """Wait until all that was written before has been looked at: a pod that came later is gone for a taint by then."""
    await bench.claim("last")
    user = await bench.pod("last", {"name": "gpus", "resourceClaimName": "last"}, node="node-0000")
    device = {"request": "r", "driver": "d.example.com", "pool": "node-0000", "device": "bad"}
    users = [{"resource": "pods", "name": "last", "uid": user["metadata"]["uid"]}]
    bench.say("resourceclaims", "last", allocation={"devices": {"results": [device]}}, reservedFor=users)
    taint = {"key": "broken", "effect": "NoExecute"}
    pool = {"name": "node-0000", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "node-0000"}
    await bench.create("resourceslices", "z", {**spec, "devices": [{"name": "bad", "taints": [taint]}]})
    await bench.gone("pods", "last")


def stays(bench):
    return not bench.one("pods", "p").obj["metadata"].get("deletionTimestamp")


async def untainted(bench):
    """A slice whose device has no taint of its driver."""
    pool = {"name": "node-0000", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "node-0000", "devices": [{"name": "gpu-0"}]}
    await bench.create("resourceslices", "s", spec)


async def rule(bench, selector, effect="NoExecute", name="rule"):
    """A taint that an administrator puts on devices."""
    spec = {"taint": {"key": "broken", "effect": effect}}
    await bench.create("devicetaintrules", name, {**spec, **({} if selector is None else {"deviceSelector": selector})})


@pytest.mark.parametrize(
    ("selector", "goes"),
    [
        ({}, True),
        ({"driver": "d.example.com", "pool": "node-0000", "device": "gpu-0"}, True),
        ({"driver": "d.example.com", "device": "gpu-1"}, False),
        ({"pool": "node-0001"}, False),
        ({"driver": "e.example.com"}, False),
        (None, False),
    ],
)
async def test_an_administrator_taints_the_devices_that_his_rule_selects(bench, selector, goes):
    await running(bench)
    await untainted(bench)

    await rule(bench, selector)

    if goes:
        await bench.gone("pods", "p")
    else:
        await settled(bench)
        assert stays(bench)


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
async def test_only_no_execute_takes_anybody_out(bench, effect):
    await running(bench)

    await slices(bench, effect=effect)

    await settled(bench)
    assert stays(bench)


async def test_who_comes_to_a_device_that_is_tainted_already_goes_as_well(bench):
    await slices(bench)

    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="node-0000")
    bench.allocate("own", user)

    await bench.gone("pods", "p")


async def test_who_has_no_node_yet_is_left_to_the_scheduler(bench):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"})
    bench.allocate("own", user)

    await slices(bench)

    await settled(bench)
    assert stays(bench)


async def test_who_has_ended_is_left_as_he_is(bench):
    await running(bench)
    bench.say("pods", "p", phase="Succeeded")

    await slices(bench)

    await settled(bench)
    assert stays(bench)


async def test_who_comes_when_a_taint_has_been_taken_off_stays(bench):
    await slices(bench)
    found = bench.one("resourceslices", "s")
    spec = {**found.obj["spec"], "devices": [{"name": "gpu-0"}]}
    bench.local.write(bench.resource("resourceslices"), found, {**found.obj, "spec": spec})

    await running(bench)

    await settled(bench)
    assert stays(bench)


async def test_of_several_tolerations_the_shortest_counts(bench):
    """pkg/controller/devicetainteviction, 1.36: from when the taint was added, which is a minute ago."""
    own = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for seconds in (3600, 10)]
    await running(bench, own)

    added = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await slices(bench, timeAdded=added)

    await bench.gone("pods", "p")


async def test_who_tolerates_a_taint_for_a_while_goes_after_it(bench):
    await running(bench, [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}])

    await slices(bench)

    await bench.gone("pods", "p")
