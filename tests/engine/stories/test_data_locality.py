"""Work goes where its data is, waits for that for so long and no longer, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World

IMAGES = {"scheduling.tutti.dev/dataset": "images"}
FLUID = {"fluid.io/s-default-images": "true"}
RACK = "example.com/rack"


def cluster(**data: Any) -> World:
    """n0 holds the data, n1 is in its rack, n2 is not."""
    world = World(profiles=[{"dataLocality": {"levels": [RACK], **data}}])
    world.node("n0", labels={RACK: "a", **FLUID})
    world.node("n1", labels={RACK: "a"})
    world.node("n2", labels={RACK: "b"})
    return world


def why(world: World, name: str, kind: str = "PodGroup") -> tuple[str, str]:
    found = world.why(kind, name)
    assert found is not None
    return found.reason, found.message


def test_a_pod_goes_to_its_data_then_near_it_then_anywhere():
    world = cluster(weight=100)
    for number in range(24):
        world.pod(f"p{number:02}", labels=IMAGES)
        world.run()

    where = list(world.where().values())
    assert where == ["n0"] * 8 + ["n1"] * 8 + ["n2"] * 8


def test_pods_of_other_namespaces_and_datasets_are_not_drawn_there():
    world = World(profiles=[{"dataLocality": {"weight": 100}}], namespaces=("default", "other"))
    world.node("n0")
    world.node("n1", labels={**FLUID, "fluid.io/s-default-no": "false"})
    world.pod("full", node="n1", cpu="40", gpus="0")
    world.pod("p", labels={"scheduling.tutti.dev/dataset": "no"}, gpus="0")
    world.pod("q", labels=IMAGES, gpus="0", namespace="other")
    world.run()

    assert world.where("p") == {"p": "n0"}
    assert world.where(namespace="other") == {"q": "n0"}


def test_a_gang_waits_for_near_nodes_step_by_step_and_no_longer():
    world = cluster(waitSeconds=30)
    world.pod("there", node="n0", gpus="4")
    world.pod("near", node="n1", gpus="8")
    world.flavor()
    world.queue("cq", 100)
    world.gang("g", 8, labels=IMAGES, queue="queue")
    world.run()

    reason, message = why(world, "g")
    assert reason == "WaitingForData"
    assert message == (
        "There is room, but nodes that hold images have room for 4 of 8 pods; it waits for these for 60 s in all, and "
        "then goes anywhere"
    )

    world.until(29)
    status = world.objects["PodGroup", "default", "g"]["status"]["pendingReason"]
    assert status["estimatedStart"] == "1970-01-12T13:47:40Z"  # 60 s after the start
    assert "nodes that hold images" in why(world, "g")[1]
    world.until(2)
    assert "nodes that are in one example.com/rack with such that hold images" in why(world, "g")[1]
    world.until(28)
    assert not world.where("g")
    world.until(2)
    assert len(world.where("g")) == 8


def test_it_starts_at_once_when_there_is_room_near_its_data():
    world = cluster(waitSeconds=600)
    world.pod("there", node="n0", gpus="4")
    world.gang("g", 8, labels=IMAGES)
    world.run()
    assert not world.where("g")

    world.finish("there")
    world.run()
    assert set(world.where("g").values()) == {"n0"}


def test_a_gang_that_would_fit_nowhere_does_not_begin_to_wait_for_data():
    world = cluster(waitSeconds=30)
    world.gang("g", 25, labels=IMAGES)
    world.run()

    assert why(world, "g")[0] == "Unschedulable"
    world.until(300)
    world.node("n3", labels={RACK: "b"})
    world.run()
    assert why(world, "g")[0] == "WaitingForData"
    world.until(61)
    assert len(world.where("g")) == 25


@pytest.mark.parametrize("kind", ["PodGroup", "Pod"])
def test_a_restart_waits_no_longer(kind: str):
    world = cluster(waitSeconds=30)
    world.pod("there", node="n0", gpus="8")
    if kind == "Pod":
        world.pod("g", labels=IMAGES)
    else:
        world.gang("g", 4, labels=IMAGES)
    world.run()
    assert why(world, "g", kind)[0] == "WaitingForData"

    world.until(20)
    world.restart()
    world.until(20)
    where = set(world.where("g").values())
    assert where == {"n1"}  # near, which it may by now


def test_nobody_is_taken_out_for_data_and_those_behind_go_on():
    world = cluster(waitSeconds=30)
    world.flavor()
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.queue("cq", 100, preemption=preemption)
    world.pod("low", queue="queue", gpus="8", selector={"kubernetes.io/hostname": "n0"})
    world.run()
    world.pod("high", queue="queue", gpus="1", priority=10, labels=IMAGES)
    world.pod("next", queue="queue", gpus="1")
    world.run()

    assert set(world.where()) == {"low", "next"}
    world.until(31)
    assert world.where()["high"] == "n1"


def test_equal_gangs_wait_side_by_side():
    world = cluster(waitSeconds=30)
    world.pod("there", node="n0", gpus="8")
    world.pod("near", node="n1", gpus="8")
    for name in ("g", "h"):
        world.gang(name, 4, labels=IMAGES)
    world.run()
    world.until(61)

    assert set(world.where("g").values()) == set(world.where("h").values()) == {"n2"}


def test_what_is_told_can_be_replayed():
    world = cluster(waitSeconds=30)
    world.pod("there", node="n0", gpus="8")
    world.gang("g", 4, labels=IMAGES)
    world.until(70)

    assert world.replay().differences == []


def test_where_no_node_holds_the_data_nobody_waits():
    world = cluster(waitSeconds=30)
    world.gang("g", 4, labels={"scheduling.tutti.dev/dataset": "nowhere"})
    world.run()

    assert len(world.where("g")) == 4
