"""Pods that slow one another down are kept apart, gangs as a whole, and this is said."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.engine.world import World

SERVING = {"scheduling.tutti.dev/behaviour": "serving"}
BATCH = {"scheduling.tutti.dev/behaviour": "batch"}
APART = {"apart": [["serving", "batch"]]}
SLOWED = {"slowdowns": [{"of": "serving", "beside": "batch", "percent": 20}], "maxSlowdownPercent": 30}


def cluster(interference: dict[str, Any], nodes: int = 2) -> World:
    world = World(profiles=[{"interference": interference}])
    for number in range(nodes):
        world.node(f"n{number}")
    return world


def why(world: World, name: str) -> str:
    found = world.why("PodGroup", name)
    assert found is not None
    return found.message


def test_a_gang_waits_as_a_whole_where_it_may_not_be_and_starts_when_they_have_gone():
    world = cluster(APART)
    world.pod("web", labels=SERVING, node="n0", gpus="0")
    world.gang("g", 9, labels=BATCH)
    world.run()

    assert world.where() == {"web": "n0"}
    assert "1 node(s) with pods of behaviour serving, which never share a node" in why(world, "g")

    world.restart()
    world.run()
    assert world.where() == {"web": "n0"}

    world.delete("web")
    world.run()
    assert Counter(world.where().values()).total() == 9


def test_what_is_placed_together_is_kept_apart_as_well():
    world = cluster(APART)
    world.workload("w", {"name": "servers", "count": 1}, {"name": "workers", "count": 3})
    for name, labels in (("servers", SERVING), ("workers", BATCH)):
        for number in range(1 if name == "servers" else 3):
            world.pod(f"{name}-{number}", workload="w", group=name, labels=labels, gpus="1")
    world.run()

    where = world.where()
    assert len(where) == 4
    assert where["servers-0"] not in {where[f"workers-{number}"] for number in range(3)}


def test_as_many_come_to_a_node_as_those_there_bear():
    world = cluster(SLOWED)
    for number in range(2):
        world.pod(f"web-{number}", labels=SERVING, node=f"n{number}", gpus="0")
    world.gang("g", 3, labels=BATCH)
    world.run()

    assert why(world, "g") == (
        "0/2 nodes are available: 2 node(s) with room for only 2 of 3 pods of the gang. "
        "Rules of behaviour have room for 2 of 3 pods; by all that the nodes have free, 6 pods would fit."
    )
    world.gang("h", 2, labels=BATCH)
    world.run()
    where = world.where()
    assert {where["h-0"], where["h-1"]} == {"n0", "n1"}


def test_who_is_more_important_takes_out_those_that_keep_it_off():
    world = cluster(APART, nodes=1)
    world.pod("low", labels=BATCH, node="n0", gpus="1")
    world.pod("beside", node="n0", gpus="1")
    world.pod("high", labels=SERVING, gpus="1", priority=10)
    world.run()

    assert world.where() == {"beside": "n0", "high": "n0"}


def test_a_gang_takes_out_no_more_than_what_it_may_not_be_beside():
    world = cluster(SLOWED, nodes=2)
    for number in range(2):
        world.pod(f"web-{number}", labels=SERVING, node=f"n{number}", gpus="0", priority=20)
    for number in range(2):
        world.pod(f"low-{number}", labels=BATCH, node=f"n{number}", gpus="1")
    world.gang("g", 2, labels=BATCH, priority=10)
    world.run()

    where = world.where()
    assert {where["g-0"], where["g-1"]} == {"n0", "n1"}
    assert not {"low-0", "low-1"} & set(where)


def test_nothing_is_looked_at_where_nothing_is_configured():
    world = World()
    world.node("n0")
    world.pod("web", labels=SERVING, node="n0", gpus="0")
    world.pod("b", labels=BATCH)
    world.run()

    assert world.where() == {"web": "n0", "b": "n0"}
    assert world.engine.state.cluster.classes.watched == set()
