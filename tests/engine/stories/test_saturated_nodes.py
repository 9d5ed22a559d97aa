"""Pods that ask for nothing, on nodes whose scores have no point left to lose."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World
from tests.placement.scenes import pod

HOSTNAME = "kubernetes.io/hostname"


def near(**labels: str) -> dict[str, Any]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def spread(**labels: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": labels}
    return [{"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def world_of(*nodes: str, places: int) -> World:
    world = World()
    for name in nodes:
        world.node(name, gpus=0, cpu=1, extra={"pods": str(places), "memory": "1Gi"})
    return world


def put(world: World, name: str, **spec: Any) -> None:
    world.put(pod(name, cpu="", schedulerName="tutti", **spec))


def test_they_are_spread_over_the_nodes():
    world = world_of("n0", "n1", "n2", places=40)
    for i in range(60):
        put(world, f"p{i}")
        world.run()
    placed = list(world.where().values())
    assert {name: placed.count(name) for name in sorted(set(placed))} == {"n0": 20, "n1": 20, "n2": 20}


def test_a_node_that_others_must_be_on_is_not_filled_by_those_who_can_be_anywhere():
    """scheduler_perf 1.36, EventHandlingPodAdd, with 10 pods of each sort and 30 places for 1,000 and 3,000.

    What the first pod of all and its friends leave free on their node is less than all of the fillers and those who
    must be with one filler each; so fillers that went to one node until it is full would leave out the last.
    """
    many = 10
    world = world_of("n0", "n1", places=3 * many)
    put(world, "green", labels={"color": "green"})
    world.run()
    for i in range(many):
        put(
            world,
            f"spread{i}",
            labels={"topology": "blue"},
            affinity={"podAntiAffinity": near(color="green")},
            topologySpreadConstraints=spread(topology="blue"),
        )
        put(world, f"near{i}", affinity={"podAffinity": near(color=f"yellow-{i}")})
    world.run()
    for i in range(many):
        put(
            world,
            f"friend{i}",
            labels={"topology": "blue", "color": "green"},
            affinity={"podAffinity": near(color="green")},
        )
        world.run()
    for i in range(many):
        put(world, f"filler{i}", labels={"color": f"yellow-{i}"})
        world.run()
    world.until(600)
    where = world.where()
    assert sorted(where) == sorted(name for _, name in world.pods)
    assert {where[f"friend{i}"] for i in range(many)} == {where["green"]}
    assert {where[f"spread{i}"] for i in range(many)}.isdisjoint({where["green"]})
    assert all(where[f"near{i}"] == where[f"filler{i}"] for i in range(many))
