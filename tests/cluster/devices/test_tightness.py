"""Which of several devices that would do is chosen where they are packed; kube-scheduler takes the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.devices import asks_for, decoded, device_class
from tests.placement.scenes import node, pod
from tutti.api.devices import ResourceClaim, ResourceSlice
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.zones import Zones, ZonesAhead
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.devices import DevicePacking
from tutti.placement.profile import DEFAULT_PROFILE

NUMA, ROOT = "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"


def gpu(name: str, *, numa: int | None = None, root: str = "", **more: Any) -> dict[str, Any]:
    attributes = {"resource.kubernetes.io/numaNode": {"int": numa}} if numa is not None else {}
    if root:
        attributes[ROOT] = {"string": root}
    return {"name": name, "attributes": attributes, **more}


def eight() -> list[dict[str, Any]]:
    """Two NUMA nodes with two PCIe roots each, of two GPUs."""
    return [gpu(f"g{i}", numa=i // 4, root=f"r{i // 2}") for i in range(8)]


class Scene:
    """Nodes with devices, and pods that are placed one after another."""

    def __init__(self, *, tight: bool = True, **nodes: list[dict[str, Any]]) -> None:
        self.cluster = Cluster()
        self.cluster.nodes.devices.tight_schedulers = frozenset({"tutti"} if tight else ())
        self.cluster.device_users.put(device_class())
        for name, devices in nodes.items():
            self.cluster.put_node(node(name, cpu=64, pods=100))
            self.slice(name, "s", devices=devices)
        self._count = 0

    def slice(self, name: str, suffix: str, count: int = 1, driver: str = "gpu.example.com", **spec: Any) -> None:
        pool = {"name": name, "generation": 1, "resourceSliceCount": count}
        raw = {"spec": {"driver": driver, "pool": pool, "nodeName": name, **spec}}
        self.cluster.device_users.put(
            decoded({"metadata": {"name": f"{name}-{driver}-{suffix}"}, **raw}, ResourceSlice)
        )

    def held(self, where: str, *devices: str) -> None:
        self._count += 1
        results = [{"request": "r", "driver": "gpu.example.com", "pool": where, "device": one} for one in devices]
        status = {"allocation": {"devices": {"results": results}}}
        meta = {"name": f"held-{self._count}", "namespace": "default"}
        self.cluster.device_users.put(decoded({"metadata": meta, "spec": {}, "status": status}, ResourceClaim))

    def zones(self, **told: Zones) -> None:
        """Have the next pods get their cores from these zones of the nodes."""
        orders = tuple(dict.fromkeys(told.values()))
        order_of = np.array([orders.index(told[name]) for name in self.cluster.nodes.names])
        self.cluster.nodes.devices.near_schedulers = frozenset({"tutti"})
        self.cluster.nodes.zones_ahead = lambda *_: ZonesAhead(b"class", orders, order_of)

    def claim(self, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": "default"}
        self.cluster.device_users.put(decoded({"metadata": meta, "spec": spec}, ResourceClaim))

    def given(self, *specs: dict[str, Any]) -> list[str]:
        """Place a pod with these claims; returns its devices, as their places are called."""
        self._count += 1
        claims = []
        for at, spec in enumerate(specs):
            name = f"c{self._count}-{at}"
            self.claim(name, spec)
            claims.append({"name": f"d{at}", "resourceClaimName": name})
        record = self.cluster.put_pod(pod(f"p{self._count}", schedulerName="tutti", resourceClaims=claims), keep=True)
        assert record is not None
        profile = DEFAULT_PROFILE
        if record.pod_class.devices.tight:
            profile = type(profile)(changing=(*profile.changing, DevicePacking()))
        with self.cluster.transaction() as transaction:
            rows = place_ask(self.cluster.nodes, transaction, Ask(record.pod_class, 1), profile)
            assert rows is not None
            transaction.commit()
        self.cluster.assume(record, int(rows[0]))
        promises = self.cluster.nodes.devices.promises.of_pod(record.key)
        return [f"{one.pool[1]}/{one.device.name}" for promise in promises for one in promise.allotment.devices]


def test_kube_schedulers_order_is_that_of_the_drivers():
    scene = Scene(tight=False, n0=eight())
    scene.held("n0", "g1", "g4")
    assert scene.given(asks_for(2)) == ["n0/g0", "n0/g2"]


# The PCIe root that holds the fewest free devices of those that hold enough; the other GPU of a root that is begun.
@pytest.mark.parametrize(
    ("held", "count", "expected"),
    [
        ([], 1, ["g0"]),
        (["g4"], 1, ["g5"]),
        (["g0", "g4", "g5"], 1, ["g6"]),
        (["g1"], 2, ["g2", "g3"]),
        (["g0", "g4", "g5"], 2, ["g6", "g7"]),
        (["g1"], 4, ["g4", "g5", "g6", "g7"]),
        (["g0", "g4"], 3, ["g2", "g3", "g1"]),
        (["g0", "g4"], 6, ["g2", "g3", "g1", "g6", "g7", "g5"]),
    ],
)
def test_devices_of_one_root_and_numa_node_that_are_begun_go_first(held: list[str], count: int, expected: list[str]):
    scene = Scene(n0=eight())
    scene.held("n0", *held)
    assert sorted(scene.given(asks_for(count))) == sorted(f"n0/{one}" for one in expected)


def test_a_network_card_is_near_the_gpu_that_the_pod_got():
    scene = Scene(n0=eight())
    nics = [gpu(f"x{i}", numa=i // 2, root=f"r{i}") for i in range(4)]
    scene.slice("n0", "x", driver="nic.example.com", devices=nics)
    scene.cluster.device_users.put(device_class("nic", 'device.driver == "nic.example.com"'))
    scene.held("n0", "g5")
    assert scene.given(asks_for(1), asks_for(1, name="nic")) == ["n0/g4", "n0/x2"]


# The NUMA node of the cores, if it holds enough; what is begun there goes first as it does elsewhere.
@pytest.mark.parametrize(
    ("zone", "held", "count", "expected"),
    [
        (1, [], 1, ["g4"]),
        (1, ["g0"], 1, ["g4"]),
        (1, ["g0", "g6"], 1, ["g7"]),
        (1, ["g4"], 4, ["g0", "g1", "g2", "g3"]),
        (1, ["g4"], 3, ["g5", "g6", "g7"]),
        (1, ["g4", "g5", "g6", "g7"], 1, ["g0"]),
        (7, ["g4"], 1, ["g5"]),
        (None, ["g4"], 1, ["g5"]),
    ],
)
def test_devices_in_the_zone_of_the_cores_go_first(zone: int | None, held: list[str], count: int, expected: list[str]):
    scene = Scene(n0=eight())
    scene.held("n0", *held)
    scene.zones(n0=() if zone is None else (zone,))
    assert sorted(scene.given(asks_for(count))) == sorted(f"n0/{one}" for one in expected)


def test_it_is_told_for_how_many_pods_there_are_devices_as_each_is_given_those_of_its_zone():
    scene = Scene(n0=eight())
    scene.zones(n0=(1, 0))
    scene.claim("c", asks_for(2))
    record = scene.cluster.put_pod(
        pod("p", schedulerName="tutti", resourceClaims=[{"name": "d", "resourceClaimName": "c"}]), keep=True
    )
    assert record is not None
    nodes, needs = scene.cluster.nodes, record.pod_class.devices
    view = nodes.devices_ahead(record.pod_class)
    ((program, _),) = nodes.devices.columns(needs, view).programs
    assert nodes.devices.room(needs, view, 5).tolist() == [4]
    found, zones = int(program.verdict_of[0]), []
    while program.verdicts[found].fits:
        zones.append({pick.device // 4 for pick in program.verdicts[found].picks})
        found = program.projection.next(found, program.verdicts[found].after)
    assert zones == [{1}, {0}, {0}, {1}]


def test_a_smaller_device_goes_before_one_that_is_near_the_cores():
    def sized(name: str, numa: int, amount: str) -> dict[str, Any]:
        return gpu(name, numa=numa, capacity={"memory": {"value": amount}})

    scene = Scene(n0=[sized("small", 0, "10Gi"), sized("large", 1, "80Gi")])
    scene.zones(n0=(1,))
    assert scene.given(asks_for(1)) == ["n0/small"]


def test_a_node_where_devices_are_near_the_cores_is_preferred():
    scene = Scene(n0=eight(), n1=eight(), n2=eight())
    for name in ("n0", "n1", "n2"):
        scene.held(name, "g4", "g5", "g6", "g7")
    scene.zones(n0=(1,), n1=(0,), n2=(1,))
    assert scene.given(asks_for(2)) == ["n1/g0", "n1/g1"]


def test_the_smallest_device_that_will_do_is_chosen():
    def memory(name: str, amount: str) -> dict[str, Any]:
        return gpu(name, capacity={"memory": {"value": amount}})

    scene = Scene(n0=[memory("large", "80Gi"), memory("small", "10Gi"), memory("middle", "40Gi")])
    wanted = asks_for(1, capacity={"requests": {"memory": "20Gi"}})
    assert scene.given(wanted) == ["n0/middle"]
    assert scene.given(asks_for(1)) == ["n0/small"]
    assert scene.given(wanted) == ["n0/large"]


def partition(gpu_name: str, name: str, memory: str) -> dict[str, Any]:
    used = [{"counterSet": gpu_name, "counters": {"memory": {"value": memory}}}]
    return {"name": f"{gpu_name}-{name}", "consumesCounters": used, "capacity": {"memory": {"value": memory}}}


def test_partitions_are_of_the_gpu_that_is_in_use_already():
    scene = Scene()
    scene.cluster.put_node(node("n0", cpu=64))
    sizes = [
        ("whole", "40Gi"),
        ("half-0", "20Gi"),
        ("half-1", "20Gi"),
        ("q-0", "10Gi"),
        ("q-1", "10Gi"),
        ("q-2", "10Gi"),
    ]
    devices = [partition(one, name, size) for one in ("a", "b") for name, size in sizes]
    scene.slice("n0", "d", 2, devices=devices)
    counters = [{"name": one, "counters": {"memory": {"value": "40Gi"}}} for one in ("a", "b")]
    scene.slice("n0", "c", 2, sharedCounters=counters)
    assert scene.given(asks_for(1)) == ["n0/a-q-0"]
    half = asks_for(1, capacity={"requests": {"memory": "20Gi"}})
    assert scene.given(half) == ["n0/a-half-0"]
    assert scene.given(half) == ["n0/b-half-0"]
    assert scene.given(asks_for(1)) == ["n0/a-q-1"]
    assert scene.given(asks_for(1)) == ["n0/b-q-0"]


def test_a_share_is_of_the_device_that_is_shared_most():
    shared = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "10Gi"}}},
    }
    scene = Scene(n0=[{"name": "a", **shared}, {"name": "b", **shared}])
    asked = [asks_for(1, capacity={"requests": {"memory": amount}}) for amount in ("30Gi", "20Gi", "10Gi", "10Gi")]
    assert [scene.given(one) for one in asked] == [["n0/a"], ["n0/b"], ["n0/a"], ["n0/b"]]


def test_nodes_on_which_they_fit_tightest_are_preferred():
    scene = Scene(n0=eight(), n1=eight(), n2=eight())
    scene.held("n1", "g0", "g1")
    assert scene.given(asks_for(2)) == ["n1/g2", "n1/g3"]
    scene.held("n2", *(f"g{i}" for i in range(6)))
    assert scene.given(asks_for(2)) == ["n2/g6", "n2/g7"]


def test_what_ranks_first_is_given_up_where_all_claims_cannot_be_had_else():
    scene = Scene(n0=[gpu("a", numa=0, root="r0"), gpu("b", numa=1, root="r1"), gpu("c", numa=1, root="r2")])
    apart = asks_for(2)
    apart["devices"]["constraints"] = [{"distinctAttribute": NUMA}]
    assert sorted(scene.given(apart)) in (["n0/a", "n0/b"], ["n0/a", "n0/c"])


@st.composite
def asked(draw: st.DrawFn) -> dict[str, Any]:
    requests = [
        {
            "name": f"r{at}",
            "exactly": {"deviceClassName": draw(st.sampled_from(["gpu", "big"])), "count": draw(st.integers(1, 3))},
        }
        for at in range(draw(st.integers(1, 3)))
    ]
    kinds = st.sampled_from([{}, {"matchAttribute": NUMA}, {"matchAttribute": ROOT}, {"distinctAttribute": ROOT}])
    constraint = draw(kinds)
    constraints = [constraint] if constraint else []
    return {"devices": {"requests": requests, "constraints": constraints}}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.sampled_from(["10Gi", "80Gi"])), min_size=1, max_size=6
    ),
    asked(),
)
@examples(200)
def test_the_order_in_which_devices_are_tried_changes_nothing_of_whether_claims_can_be_had(listed: Any, spec: Any):
    devices = [
        gpu(f"g{at}", numa=numa, root=f"r{numa}{root}", capacity={"memory": {"value": memory}})
        for at, (numa, root, memory) in enumerate(listed)
    ]
    found = []
    for tight in (False, True):
        scene = Scene(tight=tight, n0=devices)
        large = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
        scene.cluster.device_users.put(device_class("big", large))
        scene.claim("c", spec)
        claims = [{"name": "d", "resourceClaimName": "c"}]
        record = scene.cluster.put_pod(pod("p", schedulerName="tutti", resourceClaims=claims), keep=True)
        assert record is not None
        needs, nodes = record.pod_class.devices, scene.cluster.nodes
        assert needs.tight is tight
        found.append(nodes.devices.columns(needs, nodes.device_view(needs)).fits.tolist())
    assert found[0] == found[1]
