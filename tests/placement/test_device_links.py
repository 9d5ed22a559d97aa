"""Members of a gang go where their devices are linked, among nodes that are worth the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.devices import asks_for, decoded, device_class
from tests.engine.world import World
from tests.placement.scenes import node, pod
from tutti.api.devices import ResourceClaim, ResourceSlice
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.accelerator_packing import AcceleratorPacking
from tutti.placement.profile import DEFAULT_PROFILE

LINKED = replace(DEFAULT_PROFILE, links=frozenset({"nvlinkDomain"}))
DRIVER = "gpu.example.com"


class Scene:
    """Nodes n0, n1, ... with two GPUs each, in the NVLink domains that are given, "" for none."""

    def __init__(self, *domains: str, **labels: list[str]) -> None:
        self.cluster = Cluster()
        self.cluster.device_users.put(device_class())
        self.claims = 0
        for at, domain in enumerate(domains):
            said = {name: values[at] for name, values in labels.items()}
            self.cluster.put_node(node(f"n{at}", cpu=64, pods=100, labels=said))
            if domain != "-":
                self.publish(f"n{at}", 2, {"nodeName": f"n{at}"}, domain)

    def publish(self, name: str, count: int, where: dict[str, Any], domain: str = "") -> None:
        attributes = {"nvlinkDomain": {"string": domain}} if domain else {}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{at}", "attributes": attributes} for at in range(count)]
        spec = {"driver": DRIVER, "pool": pool, **where, "devices": devices}
        self.cluster.device_users.put(decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

    def ask(self, size: int, count: int = 2, **more: Any) -> Ask:
        made = None
        for _ in range(size):
            self.claims += 1
            meta = {"name": f"c{self.claims}", "namespace": "default"}
            self.cluster.device_users.put(decoded({"metadata": meta, "spec": asks_for(count)}, ResourceClaim))
            entries = [{"name": "d", "resourceClaimName": f"c{self.claims}"}]
            made = self.cluster.put_pod(pod(f"p{self.claims}", resourceClaims=entries, **more), keep=True)
        assert made is not None
        return Ask(made.pod_class, size)

    def placed(self, *asks: Ask, profile: Any = LINKED) -> list[str]:
        names = self.cluster.nodes.names
        out: list[str] = []
        with self.cluster.transaction() as transaction:
            for ask in asks:
                rows = place_ask(self.cluster.nodes, transaction, ask, profile)
                assert rows is not None
                out += [names[row] for row in rows]
        return sorted(out)


def test_the_smallest_domain_that_holds_all_is_filled():
    scene = Scene("", "b", "a", "b", "a", "b")
    assert scene.placed(scene.ask(2)) == ["n2", "n4"]
    assert scene.placed(scene.ask(3)) == ["n1", "n3", "n5"]
    assert scene.placed(scene.ask(3), profile=DEFAULT_PROFILE) == ["n0", "n1", "n2"]


def test_who_fits_into_no_domain_takes_the_largest_first():
    scene = Scene("", "b", "a", "b", "a", "b")
    assert scene.placed(scene.ask(4)) == ["n1", "n2", "n3", "n5"]


def test_a_second_role_follows_the_first():
    """Though another domain is the smallest that holds the second."""
    scene = Scene("a", "b", "a", "a")
    first, second = scene.ask(1, cpu="2"), scene.ask(1)
    assert scene.placed(first, second) == ["n0", "n2"]


def test_packed_pods_are_kept_together_too():
    packing = replace(LINKED, packing=AcceleratorPacking((f"{DRIVER}/*",)))
    scene = Scene("", "b", "a", "b", "a", "b")
    assert scene.placed(scene.ask(3), profile=packing) == ["n1", "n3", "n5"]


def test_a_node_that_is_worth_more_is_taken_first():
    scene = Scene("a", "a", "", disk=["", "", "ssd"])
    match = {"key": "disk", "operator": "In", "values": ["ssd"]}
    term = {"weight": 100, "preference": {"matchExpressions": [match]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert scene.placed(scene.ask(2, affinity=affinity)) == ["n0", "n2"]


@pytest.mark.parametrize("said", ["x", ""])
def test_devices_of_networks_make_islands_of_the_nodes_that_can_use_them(said: str):
    """Where no attribute says so: by the pools that nodes share."""
    scene = Scene("-", "-", "-", "-", "-", zone=["a", "b", "a", "b", "b"])
    for zone, count in (("a", 2), ("b", 3)):
        match = {"key": "zone", "operator": "In", "values": [zone]}
        where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}}
        scene.publish(f"net-{zone}", count, where, said and f"{said}-{zone}")
    assert set(scene.placed(scene.ask(3, count=1))) <= {"n1", "n3", "n4"}
    assert set(scene.placed(scene.ask(2, count=1))) <= {"n0", "n2"}


def test_a_gang_that_asks_for_no_topology_comes_to_one_domain():
    world = World(profiles=[{"schedulerName": "tutti", "devicePacking": {}}])
    world.devices.put(device_class())
    for at in range(6):
        world.node(f"n{at}", gpus=0)
        attributes = {"example.com/cliqueID": {"string": f"c{at % 2}"}}
        pool = {"name": f"n{at}", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0", "attributes": attributes}]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": f"n{at}", "devices": devices}
        world.devices.put(decoded({"metadata": {"name": f"n{at}"}, "spec": spec}, ResourceSlice))
    for name in ("first", "second"):
        world.pod_group(name, 3)
        for rank in range(3):
            world.devices.make_claim(f"{name}-{rank}", asks_for(1))
            world.pod(f"{name}-{rank}", gpus=0, group=name, device_claims=(f"{name}-{rank}",))
    world.run()
    assert sorted(world.where("first").values()) == ["n0", "n2", "n4"]
    assert sorted(world.where("second").values()) == ["n1", "n3", "n5"]
    assert not world.replay().differences
