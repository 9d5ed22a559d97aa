"""Claimed devices near the cores that the kubelet pins: a wish, where both devices are packed and zones are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.devices import asks_for, decoded, device_class
from tests.engine.numa_world import PROFILE, NumaWorld
from tutti.api.devices import ResourceSlice

NUMA = "resource.kubernetes.io/numaNode"
PINNED = {"guaranteed": True, "memory": "1Gi", "gpus": 0}


class ClaimWorld(NumaWorld):
    """Nodes with eight cores and four devices in each of two zones."""

    def __init__(self, *, packs: bool = True, zones: bool = True, **more: Any) -> None:
        profile = {**(PROFILE if zones else {"schedulerName": "tutti"}), **({"devicePacking": {}} if packs else {})}
        super().__init__(profiles=[profile], **more)
        self.devices.put(device_class())

    def with_devices(self, name: str, *, zones: Sequence[int] = (0, 1), **more: Any) -> None:
        self.machine(name, gpus=0, **more)
        devices = [{"name": f"d{zone}{at}", "attributes": {NUMA: {"int": zone}}} for zone in zones for at in range(4)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": name, "devices": devices}
        self.devices.put(decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

    def claiming(self, name: str, cpu: str, count: int = 1, **more: Any) -> None:
        self.devices.make_claim(f"of-{name}", asks_for(count))
        self.pod(name, cpu=cpu, device_claims=(f"of-{name}",), **{**PINNED, **more})

    def zones_of(self, name: str) -> set[int]:
        """The zones of a pod's devices."""
        return {int(one.rpartition("/")[2][1]) for one in self.devices.results(f"of-{name}")}

    def started(self, *names: str) -> None:
        """Kubelets start these pods, and agents look."""
        self.now += 60
        self.admit(*names)
        self.now += 60
        self.report(*self.kubelets)

    def pinned(self, name: str) -> set[int]:
        """The zones of which a pod that was started has cores."""
        node = self.pods["default", name].spec.node_name
        return {at for at, _ in self.kubelets[node].pinned[name]}


def filled(world: ClaimWorld, *nodes: str) -> None:
    """Give away the cores of zone 0, and none of its devices."""
    for name in nodes:
        world.pod(f"filler-{name}", cpu="6", scheduler="default-scheduler", node=name, **PINNED)
        world.started(f"filler-{name}")


def test_devices_are_in_the_zone_that_has_cores_left():
    world = ClaimWorld()
    world.with_devices("a")
    filled(world, "a")
    world.claiming("p", "4", 2)
    world.run()
    assert world.zones_of("p") == {1}
    world.started("p")
    assert world.pinned("p") == {1}
    assert not world.replay().differences


@pytest.mark.parametrize("lacks", [{"packs": False}, {"zones": False}, {"report": False}, {"cpu": "1500m"}])
def test_where_it_cannot_be_told_or_is_not_asked_for_devices_are_chosen_as_ever(lacks: dict[str, Any]):
    world = ClaimWorld(packs=lacks.get("packs", True), zones=lacks.get("zones", True))
    world.with_devices("a", report=lacks.get("report", True))
    if lacks.get("report", True):
        filled(world, "a")
    world.claiming("p", lacks.get("cpu", "4"))
    world.run()
    assert world.zones_of("p") == {0}


@pytest.mark.parametrize("better", ["a", "b"])
def test_a_node_that_has_cores_and_devices_in_one_zone_is_preferred(better: str):
    world = ClaimWorld()
    for name in ("a", "b"):
        world.with_devices(name, zones=[1] if name == better else [0])
    filled(world, "a", "b")
    world.claiming("p", "4")
    world.run()
    assert world.where("p") == {"p": better}


@pytest.mark.parametrize("together", [True, False])
def test_members_on_one_node_each_have_devices_near_their_cores(together: bool):
    world = ClaimWorld()
    world.with_devices("a")
    if together:
        world.pod_group("gang", 4)
    for rank in range(4):
        world.claiming(f"gang-{rank}", "4", group="gang" if together else "")
        if not together:
            world.run()
            world.now += 1
    world.run()

    names = [f"gang-{rank}" for rank in range(4)]
    assert set(world.where("gang")) == set(names)
    assert sorted(zone for name in names for zone in world.zones_of(name)) == [0, 0, 1, 1]
    if not together:
        world.started(*names)
        assert [world.pinned(name) for name in names] == [world.zones_of(name) for name in names]
    assert not world.replay().differences


def test_a_pod_that_may_be_in_any_zone_makes_it_unknown_until_the_report_has_it():
    world = ClaimWorld()
    world.with_devices("a")
    world.pod("pending", cpu="3", scheduler="default-scheduler", node="a", **PINNED)
    world.claiming("p", "6")
    world.run()
    assert world.zones_of("p") == {0}  # the first that is listed: the kubelet may start either of them first
    world.started("pending", "p")
    world.claiming("q", "2")
    world.run()
    assert world.zones_of("q") == {0}


@given(data=st.data())
@examples(60)
def test_the_wish_never_keeps_a_pod_from_a_node(data: st.DataObject):
    """The same pods have a place with and without it, one after another and as gangs."""
    sizes = data.draw(
        st.lists(st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=5)
    )
    nodes, scope = data.draw(st.integers(1, 2)), data.draw(st.booleans())
    placed = []
    for near in (True, False):
        world = ClaimWorld(packs=near)
        for at in range(nodes):
            world.with_devices(f"n{at}", pod_scope=scope)
        for turn, (cpu, count, members) in enumerate(sizes):
            world.pod_group(f"gang{turn}", members)
            for rank in range(members):
                world.claiming(f"gang{turn}-{rank}", str(cpu), count, group=f"gang{turn}")
        world.run()
        taken = world.devices.taken()
        assert len(taken) == len(set(taken))
        placed.append({name.partition("-")[0] for name in world.where()})
        assert not world.replay().differences
    if nodes == 1:  # of several, another choice may leave other holes
        assert placed[0] == placed[1]
