"""What comes in place of lost members goes before all new work: who that is, and that it is nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.admission.test_throttling import throttle
from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.lifecycle.degraded_gangs import evicted
from tests.engine.world import GPU, World

IMPORTANT = 100
HOST = "kubernetes.io/hostname"


def short_of_one(action: str = "Keep", **spec: object) -> World:
    """A gang of two has lost one of its members; others use what is left, and an important pod waits for it."""
    world = World()
    world.flavor()
    world.queue("cq", 64)
    world.node("n0", gpus=4)
    world.pod_group("g", 2, queueName="queue", onMemberLoss={"action": action}, **spec)
    for name in ("g-0", "g-1"):
        world.pod(name, group="g")
    world.pod("first", queue="queue", gpus=2)
    world.run()
    world.pod("honest", queue="queue", gpus=3, priority=IMPORTANT, preempts=False)
    world.run()
    return world


def test_who_is_larger_than_what_was_lost_keeps_no_successor_from_going_first() -> None:
    world = short_of_one()
    world.pod("g-2", group="g", gpus=3)
    world.run()
    world.delete("g-1", "first")
    world.pod("g-3", group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-3"}


def test_who_finds_no_room_keeps_nobody_from_coming_in_the_same_place() -> None:
    world = short_of_one()
    world.pod("g-2", group="g", selector={"no": "where"})
    world.run()
    world.delete("g-1", "first")
    world.pod("g-3", group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-3"}


@pytest.mark.parametrize("action", ["Keep", "Restart"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_smaller_successor_goes_first_too(action: str, restarts: bool) -> None:
    world = World()
    world.node("n0", gpus=5)
    world.pod_group("g", 2, onMemberLoss={"action": action})
    for name in ("g-0", "g-1"):
        world.pod(name, group="g", gpus=2)
    world.run()
    world.pod("honest", gpus=3, priority=IMPORTANT, preempts=False)
    world.run()
    world.delete("g-1")
    if restarts:
        world.restart()
    world.pod("g-2", group="g", gpus=1)
    world.run()
    assert "g-2" in world.where()


def test_a_small_successor_leaves_the_place_of_a_large_member_to_the_large_one() -> None:
    world = World()
    world.node("n0", gpus=1)
    world.node("n1", gpus=1)
    world.node("n2", gpus=7)
    world.pod_group("g", 3, onMemberLoss={"action": "Keep"})
    for rank, gpus in enumerate((1, 1, 7)):
        world.pod(f"g-{rank}", group="g", gpus=gpus, selector={HOST: f"n{rank}"})
    world.run()
    world.pod("honest", gpus=7, priority=IMPORTANT, preempts=False)
    world.run()
    world.delete("g-1")
    world.remove_node("n1")
    world.delete("g-2")
    world.pod("g-3", group="g")
    world.run()
    world.pod("g-4", group="g", gpus=7)
    world.run()
    world.node("n3", gpus=7)
    world.run()
    assert set(world.where()) == {"g-0", "g-3", "g-4"}


def test_a_gang_that_comes_to_need_more_is_not_restarted_for_what_it_never_had() -> None:
    world = World()
    world.node("n0", gpus=4)
    spec = {"podGroups": [{"name": "a", "count": 6, "minCount": 2}]}
    world.object("Workload", "w", spec)
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    world.object("Workload", "w", {"podGroups": [{"name": "a", "count": 6}]})
    for rank in range(2, 6):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    degraded = world.condition("Workload", "w", "Degraded")
    assert degraded["message"].endswith("; it runs on as it is")
    world.until(1_000)
    assert set(world.where("w-")) == {"w-0", "w-1"}
    assert not world.events("Evicted")


@pytest.mark.parametrize("dead", [1, 2])
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_successor_elsewhere_leaves_the_room_that_is_there_to_the_next_one(order: tuple[int, int], dead: int) -> None:
    world = World()
    for number in range(3):
        world.node(f"n{number}", gpus=1)
    world.pod_group("g", 3, onMemberLoss={"action": "Keep"})
    for rank in range(3):
        world.pod(f"g-{rank}", group="g", selector={HOST: f"n{rank}"})
    world.run()
    for rank in order:
        world.delete(f"g-{rank}")
        world.run()
    world.remove_node(f"n{dead}")
    world.node("n3", gpus=1)
    world.run()
    world.pod("g-3", group="g", selector={HOST: "n3"})
    world.run()
    world.pod("other")
    world.run()
    world.pod("g-4", group="g")
    world.run()
    assert world.where() == {"g-0": "n0", "g-3": "n3", "g-4": f"n{3 - dead}"}


@pytest.mark.parametrize("queue", [{}, {"queueName": "queue"}])
def test_a_degraded_workload_is_restarted_in_time_by_the_next_operator(queue: dict[str, str]) -> None:
    world = World()
    world.flavor()
    world.queue("cq", 3)
    world.node("n0", gpus=3)
    group = {"name": "a", "count": 3, "onMemberLoss": {"action": "Restart", "windowSeconds": 300}}
    world.object("Workload", "w", {"podGroups": [group], **queue})
    for rank in range(3):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    world.delete("w-1", "w-2")
    world.run()
    world.restart()
    world.until(400)
    assert not world.where()


@pytest.mark.parametrize("order", [("g-1", "g-2"), ("g-2", "g-1")])
def test_who_asks_for_as_many_counted_devices_as_were_lost_comes_in_the_place_of_that(order: tuple[str, str]) -> None:
    world = World(resources={"deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu"]}]})
    world.devices.put(device_class())
    world.node("n0", gpus=0)
    world.devices.put(resource_slice("n0", 8))
    world.flavor()
    world.queue("cq", 0, more={"gpus": 64})

    def claims(name: str, devices: int, **more: Any) -> None:
        world.devices.make_claim(name, asks_for(devices))
        world.pod(name, gpus=0, device_claims=(name,), queue="queue", **more)

    world.pod_group("g", 3, queueName="queue", onMemberLoss={"action": "Keep"})
    for rank, devices in enumerate((1, 1, 6)):
        claims(f"g-{rank}", devices, group="g")
    world.run()
    claims("honest", 6, priority=IMPORTANT, preempts=False)
    world.run()
    for name in order:
        world.delete(name)
        world.devices.free(name)
    claims("g-3", 1, group="g")
    claims("g-4", 6, group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-3", "g-4"}


@pytest.mark.parametrize("limit", ["throttle", "user"])
@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_nobody_leaves_for_successors_that_a_limit_keeps_from_starting(limit: str, allowed: int) -> None:
    world = World(throttles={"name": "kube-throttler"}, users={"by": "Annotation"})
    world.flavor()
    world.queue("cq", 64)
    world.node("n0", gpus=1)
    world.node("n1", gpus=2)
    world.pod_group("g", 3, queueName="queue", onMemberLoss={"action": "Keep"})
    own: dict[str, Any] = {"labels": {"app": "x"}, "annotations": {"scheduling.tutti.dev/user": "anna"}}
    for rank in range(3):
        world.pod(f"g-{rank}", group="g", priority=IMPORTANT, **own)
    world.run()
    world.delete(*(name for name, node in world.where().items() if node == "n1"))
    world.remove_node("n1")  # and with it the room that was kept
    world.node("n2", gpus=2)
    for name in ("a", "b"):
        world.pod(name)
    world.run()
    if limit == "throttle":
        world.throttle("Throttle", throttle(pods=allowed))
    else:
        world.queue("cq", 64, userLimits=[{"users": ["*"], "resources": {GPU: allowed}}])
    for rank in (3, 4):
        world.pod(f"g-{rank}", group="g", priority=IMPORTANT, **own)
    world.run()
    assert len(world.where("g-")) == allowed
    assert len(evicted(world)) == allowed - 1
