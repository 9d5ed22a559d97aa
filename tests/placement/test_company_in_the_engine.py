"""The engine places pods that mind who is where, and tries them again when somebody comes who may help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import ObjectMeta, PodSpec

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def apart(key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def with_spec(world: World, name: str, more: dict[str, Any], *, app: str = "", **options: Any) -> None:
    """A pod that asks for more than `World.pod` can say."""
    pod = world.pod(name, gated=True, **options)
    labels = {**pod.metadata.labels, **({"app": app} if app else {})}
    meta: ObjectMeta = msgspec.structs.replace(pod.metadata, labels=labels)
    plain = {**msgspec.to_builtins(pod.spec), **more}
    plain.pop("schedulingGates")
    world.put(msgspec.structs.replace(pod, metadata=meta, spec=msgspec.convert(plain, PodSpec)))


def test_a_gang_that_keeps_apart_takes_a_node_each():
    world = World()
    for i in range(2):
        world.node(f"n{i}")
    world.pod_group("g", 3)
    for i in range(3):
        with_spec(world, f"g-{i}", apart(), app="x", group="g")
    world.run()
    assert world.where() == {}
    assert "room for only 2 of 3" in world.why("PodGroup", "g").message

    world.node("n2")
    world.run()
    assert sorted(world.where().values()) == ["n0", "n1", "n2"]


def test_a_pod_that_wants_company_goes_where_it_comes():
    world = World()
    world.node("n0")
    world.node("n1")
    with_spec(world, "p", near())
    world.run()
    assert world.where() == {}
    assert world.why("Pod", "p").message == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."

    with_spec(world, "friend", {}, app="x", selector={HOST: "n1"})
    world.run()
    assert world.where()["friend"] == "n1"
    assert world.where()["p"] == "n1"


def test_a_pod_of_another_scheduler_keeps_others_away():
    world = World()
    world.node("n0")
    world.node("n1")
    with_spec(world, "stranger", apart(), app="y", node="n0", scheduler="other")
    with_spec(world, "p", {}, app="x")
    world.run()
    assert world.where()["p"] == "n1"


def test_a_gang_is_spread_over_zones():
    world = World()
    for i in range(6):
        world.node(f"n{i}", labels={ZONE: "abc"[i // 2]})
    world.pod_group("g", 6)
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "x"}}}
    for i in range(6):
        with_spec(world, f"g-{i}", {"topologySpreadConstraints": [constraint]}, app="x", group="g")
    world.run()
    zones = sorted("abc"[int(node[1:]) // 2] for node in world.where().values())
    assert zones == ["a", "a", "b", "b", "c", "c"]


def test_pods_that_take_a_port_of_the_node_do_not_share_it():
    world = World()
    for i in range(3):
        world.node(f"n{i}")
    world.pod_group("g", 3)
    port = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    for i in range(3):
        with_spec(world, f"g-{i}", port, group="g")
    world.run()
    assert sorted(world.where().values()) == ["n0", "n1", "n2"]

    with_spec(world, "late", port)
    world.run()
    assert "late" not in world.where()
    assert "3 node(s) didn't have free ports" in world.why("Pod", "late").message


@pytest.mark.parametrize("cpu", ["1", "8"])
def test_groups_of_one_workload_see_each_other(cpu):
    world = World()
    for i in range(3):
        world.node(f"n{i}")
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 2})
    with_spec(world, "w-leader", {}, app="x", workload="w", group="leader")
    for i in range(2):
        with_spec(world, f"w-{i}", near(), workload="w", group="workers", cpu=cpu)
    world.run()
    assert len(world.where()) == 3
    assert len(set(world.where().values())) == 1
