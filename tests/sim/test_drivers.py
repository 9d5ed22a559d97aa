"""Hollow drivers: what they publish of a file of shapes, and what happens to it."""

from __future__ import annotations

import pytest

from tests.sim.waiting import until
from tutti.api.problems import ConfigurationError
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.devices.slices import slice_faults
from tutti_sim.hollow.devices import Driver, DriverDeed
from tutti_sim.hollow.drivers import Drivers
from tutti_sim.hollow.nodes import manifest
from tutti_sim.hollow.shapes import Shapes
from tutti_sim.meta import yamlfile
from tutti_sim.rest.local import Local

FLEET = """
nodes:
  - {name: gpu, count: 3, resources: {cpu: 96, memory: 1024Gi}}
drivers:
  - name: gpu.example.com
    deviceClass: gpu
    devices: 2
    attributes: {model: H100, driverVersion: {version: 1.2.3}, healthy: true}
    capacity: {memory: 80Gi}
    groups: {resource.kubernetes.io/pcieRoot: 2}
    nodeGroups: {nvlink: 2}
    slices: 8
    partitions:
      - {name: 1g.10gb, slices: 1, starts: [0, 1, 2, 3, 4, 5, 6], capacity: {memory: 10Gi}}
      - {name: 3g.40gb, slices: 4, starts: [0, 4], capacity: {memory: 40Gi}}
  - name: nic.example.com
    deviceClass: nic
    devices: 4
    prefix: port
    domainNodes: 2
    bindingConditions: [Attached]
"""


def read(text):
    return yamlfile.read_yaml(text, Shapes, "fleet.yaml")


def test_a_node_has_whole_devices_and_their_partitions():
    made = read(FLEET).drivers[0].published(["gpu-0000"])

    assert [list(one["spec"])[-1] for one in made] == ["sharedCounters", "devices"]
    devices = {one["name"]: one for one in made[1]["spec"]["devices"]}
    assert len(devices) == 2 * (1 + 7 + 2)
    part = devices["gpu-1-3g-40gb-4"]
    assert part["consumesCounters"] == [
        {"counterSet": "gpu-1", "counters": {f"slice-{i}": {"value": "1"} for i in (4, 5, 6, 7)}}
    ]
    assert part["attributes"]["profile"] == {"string": "3g.40gb"}
    assert part["attributes"]["driverVersion"] == {"version": "1.2.3"}
    assert part["attributes"]["resource.kubernetes.io/pcieRoot"] == {"string": "pcieRoot-0"}
    assert part["capacity"] == {"memory": {"value": "40Gi"}}
    assert len(devices["gpu-0"]["consumesCounters"][0]["counters"]) == 8


def test_linked_nodes_have_an_attribute_in_common():
    made = read(FLEET).drivers[0].published(["gpu-0000", "gpu-0001", "gpu-0002"])

    links = [one["spec"]["devices"][0]["attributes"]["nvlink"]["string"] for one in made if "devices" in one["spec"]]
    assert links == ["nvlink-0", "nvlink-0", "nvlink-1"]


def test_domains_of_a_network_are_for_their_nodes():
    first, last = read(FLEET).drivers[1].published(["gpu-0000", "gpu-0001", "gpu-0002"])

    term = first["spec"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert term == {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-0000", "gpu-0001"]}
    assert first["spec"]["pool"] == {"name": "domain-0", "generation": 1, "resourceSliceCount": 1}
    assert last["spec"]["pool"]["name"] == "domain-1"


def test_what_is_published_is_split_where_an_api_server_would_not_take_it():
    made = Driver(name="d.example.com", devices=16, slices=2, partitions=PARTS).published(["n"])

    assert [len(one["spec"].get("sharedCounters", ())) for one in made] == [8, 8, 0]
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in made} == {3}
    assert [slice_faults(one["spec"], "spec") for one in made] == [[], [], []]


PARTS = [{"name": "half", "slices": 1, "starts": [0, 1]}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("starts: [0, 4]", "starts: [0, 5]"), "partition '3g.40gb' ends beyond the 8 slices of a device"),
        (("slices: 8\n", "shared: false\n"), "need `slices`"),
        (("model: H100", "mo-del: H100"), "no API server would take its slices: spec.devices"),
        (("nic.example.com", "gpu.example.com"), "two drivers are called 'gpu.example.com'"),
        (("prefix: port", "schedule: [{at: 1, do: taint}]"), "taint goes with `do: taint`"),
        (("{memory: 80Gi}", "{memory: much}"), "must be a quantity such as 80Gi, not 'much'"),
        (("{memory: 80Gi}", "{memory: -1}"), "must not be negative, but is '-1'"),
        (("name: 1g.10gb", "name: 1G"), "lower case"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(ConfigurationError, match=message):
        read(FLEET.replace(*change))


def slices(cluster):
    resource = cluster.backend.resource("resource.k8s.io", "v1", "resourceslices")
    return [version.obj for version in cluster.backend.collection(resource).scan("")]


def drivers(cluster):
    return {(one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in slices(cluster)}


async def test_a_cluster_publishes_devices_and_their_classes():
    async with EmbeddedCluster(fleet=read(FLEET), seed=1, controllers=["garbage-collector"]) as cluster:
        await until(cluster, lambda: len(drivers(cluster)) == 5)
        found = cluster.backend.find("deviceclasses.resource.k8s.io", "", "gpu")

        assert found["spec"]["selectors"] == [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
        nodes = cluster.backend.resource("", "v1", "nodes")
        local = Local(cluster.backend, "test")
        local.remove(nodes, cluster.backend.get(nodes, "", "gpu-0001"))
        await until(cluster, lambda: ("gpu.example.com", "gpu-0001") not in drivers(cluster))


SCHEDULE = """
    schedule:
      - {at: 0, do: taint, nodes: gpu-0001, devices: "gpu-0*", taint: {key: broken, effect: NoExecute}}
      - {at: 0.05, do: untaint, nodes: gpu-0001, taint: {key: broken, effect: NoExecute}}
      - {at: 0.1, do: vanish, nodes: "gpu-000[12]"}
      - {at: 0.15, do: publish}
"""


async def test_devices_are_tainted_and_vanish_and_come_back_as_the_schedule_has_it():
    text = FLEET.replace("    deviceClass: gpu\n", "    deviceClass: gpu" + SCHEDULE)
    seen = []

    def taints(cluster):
        return sorted(
            (one["spec"]["pool"]["name"], device["name"])
            for one in slices(cluster)
            for device in one["spec"].get("devices", ())
            if device.get("taints")
        )

    cluster = EmbeddedCluster(fleet=read(text), seed=1, controllers=[])
    cluster.backend.after.append(lambda *_: seen.append((tuple(taints(cluster)), len(drivers(cluster)))))
    async with cluster:
        await until(cluster, lambda: falls(seen) and seen[-1] == ((), 5))

    tainted = max(found for found, _ in seen)
    assert len(tainted) == 10
    assert all(pool == "gpu-0001" and name.startswith("gpu-0") for pool, name in tainted)


def falls(seen):
    """Whether of all five pools two had vanished."""
    pools = [many for _, many in seen]
    return 5 in pools and 3 in pools[pools.index(5) :]


@pytest.fixture
async def driver():
    """A cluster, and its drivers with nobody else to tell them what to do."""
    async with EmbeddedCluster(fleet=read(FLEET), seed=1, controllers=[]) as cluster:
        await until(cluster, lambda: len(drivers(cluster)) == 5)
        yield cluster, Drivers(cluster.backend, read(FLEET).drivers)


def taints(cluster, pool):
    found = (one["spec"] for one in slices(cluster) if one["spec"]["pool"]["name"] == pool)
    return {
        device["name"]: [(taint["key"], taint["effect"]) for taint in device["taints"]]
        for spec in found
        for device in spec.get("devices", ())
        if device.get("taints")
    }


async def test_each_taint_is_put_on_and_taken_off_by_itself(driver):
    cluster, told = driver
    hot, broken = ({"key": key, "effect": "NoSchedule"} for key in ("hot", "broken"))

    async def do(what, devices, taint):
        deed = DriverDeed(at=0, do=what, nodes="gpu-0001", devices=devices, taint=taint)
        await told.do("gpu.example.com", deed)

    before = {one["metadata"]["name"]: one["metadata"]["generation"] for one in slices(cluster)}
    await do("taint", "gpu-0", hot)
    await do("taint", "gpu-[01]", broken)
    await do("taint", "gpu-0", hot)
    assert {name: sorted(found) for name, found in taints(cluster, "gpu-0001").items()} == {
        "gpu-0": [("broken", "NoSchedule"), ("hot", "NoSchedule")],
        "gpu-1": [("broken", "NoSchedule")],
    }
    assert taints(cluster, "gpu-0000") == taints(cluster, "domain-0") == {}

    await do("untaint", "*", broken)
    assert taints(cluster, "gpu-0001") == {"gpu-0": [("hot", "NoSchedule")]}
    after = {one["metadata"]["name"]: one["metadata"]["generation"] for one in slices(cluster)}
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert len(changed) == 1
    assert min(changed.values()) >= 3


async def test_a_node_that_comes_later_gets_its_devices_and_keeps_them_until_it_goes(driver):
    cluster, _ = driver
    nodes = cluster.backend.resource("", "v1", "nodes")
    local = Local(cluster.backend, "test")
    made = manifest("gpu-0003", {"cpu": "8", "pods": "110"}, {})
    node = await local.create(nodes, "", made)

    await until(cluster, lambda: ("gpu.example.com", "gpu-0003") in drivers(cluster))

    owners = [
        one["metadata"]["ownerReferences"] for one in slices(cluster) if one["spec"].get("nodeName") == "gpu-0003"
    ]
    assert {(one["kind"], one["name"], one["uid"]) for found in owners for one in found} == {
        ("Node", "gpu-0003", node.obj["metadata"]["uid"])
    }
    local.remove(nodes, cluster.backend.collection(nodes).get("", "gpu-0003"))
    await until(cluster, lambda: ("gpu.example.com", "gpu-0003") not in drivers(cluster))


def test_a_driver_is_on_the_nodes_that_it_names_and_publishes_what_it_says():
    shared = Driver(name="d.example.com", nodes="b*", devices=2, shared=True, capacity={"memory": "1Gi"})
    (made,) = shared.published(["a", "b", "c"])
    assert made["spec"]["nodeName"] == "b"
    assert [one["allowMultipleAllocations"] for one in made["spec"]["devices"]] == [True, True]
    assert [one["attributes"]["index"] for one in made["spec"]["devices"]] == [{"int": 0}, {"int": 1}]
    assert shared.classes() == []
    own = Driver(name="d.example.com", devices=1, domain_nodes=1).published(["a", "b"])
    terms = [one["spec"]["nodeSelector"]["nodeSelectorTerms"][0] for one in own]
    assert [one["matchFields"][0]["values"] for one in terms] == [["a"], ["b"]]
    assert "capacity" not in own[0]["spec"]["devices"][0]
    assert "allowMultipleAllocations" not in own[0]["spec"]["devices"][0]


async def test_what_is_waited_for_comes_true_once_a_device_is_allocated():
    async with EmbeddedCluster(fleet=read(FLEET), seed=1, controllers=[]) as cluster:
        local = Local(cluster.backend, "test")
        claims = cluster.backend.resource("resource.k8s.io", "v1", "resourceclaims")
        request = {"name": "r", "exactly": {"deviceClassName": "nic"}}
        made = await local.create(
            claims, "default", {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        )
        result = {"request": "r", "driver": "nic.example.com", "pool": "domain-0", "device": "port-0"}
        result |= {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
        local.set_status(claims, made, {"allocation": {"devices": {"results": [result]}}})

        def told():
            return cluster.backend.find("resourceclaims.resource.k8s.io", "default", "c")["status"].get("devices")

        (device,) = await until(cluster, told)
        assert (device["pool"], device["device"]) == ("domain-0", "port-0")
        assert [(one["type"], one["status"]) for one in device["conditions"]] == [("Attached", "True")]


async def test_devices_are_waited_for_as_long_as_their_driver_says_and_told_of_once():
    """Of a claim with a device that is waited for and one that is another driver's only the first is told of."""
    fleet = read(
        FLEET.replace("bindingConditions: [Attached]", "bindingConditions: [Attached]\n    readySeconds: 0.05")
    )
    async with EmbeddedCluster(fleet=fleet, seed=1, controllers=[]) as cluster:
        local = Local(cluster.backend, "test")
        claims = cluster.backend.resource("resource.k8s.io", "v1", "resourceclaims")
        request = {"name": "r", "exactly": {"deviceClassName": "nic"}}
        spec = {"devices": {"requests": [request]}}
        wait = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
        at = {"request": "r", "pool": "domain-0", "device": "port-0"}
        results = [
            {**at, "driver": "nic.example.com", **wait},
            {**at, "driver": "nic.example.com", "device": "port-1"},
            {**at, "driver": "other.example.com", **wait},
        ]
        made = await local.create(claims, "default", {"metadata": {"name": "c"}, "spec": spec})
        local.set_status(claims, made, {"allocation": {"devices": {"results": results}}})

        def told(name="c"):
            return cluster.backend.find("resourceclaims.resource.k8s.io", "default", name)["status"].get("devices")

        assert told() is None
        (device,) = await until(cluster, told)
        assert (device["driver"], device["device"]) == ("nic.example.com", "port-0")
        made = await local.create(claims, "default", {"metadata": {"name": "d"}, "spec": spec})
        local.set_status(claims, made, {"allocation": {"devices": {"results": results[:1]}}})
        await until(cluster, lambda: told("d"))
        assert told() == [device]
