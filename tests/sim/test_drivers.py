"""Hollow drivers: what they publish of a file of shapes, and what happens to it."""

from __future__ import annotations

import pytest

from tests.sim.waiting import until
from tutti.api.problems import ConfigurationError
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.devices.slices import slice_faults
from tutti_sim.hollow.devices import Driver
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
        await until(cluster, lambda: ((), 3) in seen and seen[-1] == ((), 5))

    tainted = max(found for found, _ in seen)
    assert len(tainted) == 10
    assert all(pool == "gpu-0001" and name.startswith("gpu-0") for pool, name in tainted)


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
