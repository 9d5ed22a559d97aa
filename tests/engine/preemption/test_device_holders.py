"""Holders of devices leave for others by the rules by which all leave, and what they leave is whose it is to be."""

from __future__ import annotations

from tests.engine import gangs_with_devices
from tests.engine.devices import asks_for
from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.records.decisions import Evict


def with_devices(*, nodes: int = 2, count: int = 4, **world) -> World:
    """Nodes with some devices each, and eight GPUs beside them."""
    return gangs_with_devices.with_devices(nodes=nodes, count=count, gpus=8, **world)


def gang(world: World, name: str, size: int, *, count: int = 4, gpus: int = 0, match: str = "", **pod) -> None:
    world.pod_group(name, size)
    for rank in range(size):
        single(world, f"{name}-{rank}", count=count, gpus=gpus, match=match, group=name, **pod)


def single(world: World, name: str, *, count: int = 4, gpus: int = 0, match: str = "", **pod) -> None:
    world.devices.make_claim(name, asks_for(count, match=match))
    world.pod(name, gpus=gpus, device_claims=(name,), **pod)


def evicted(world: World) -> list[str]:
    return sorted(one.name for one in world.log if isinstance(one, Evict))


def settle(world: World) -> None:
    """Do as the claim controller: claims of pods that are gone have no devices any more."""
    world.run()
    for (kind, name), claim in list(world.devices.objects.items()):
        used = getattr(getattr(claim, "status", None), "reserved_for", [])
        if kind == "ResourceClaim" and used and not any(("default", one.name) in world.pods for one in used):
            world.devices.free(name)
    world.run()


def test_a_gang_takes_devices_from_pods_of_lower_priority():
    world = with_devices(nodes=3)
    for i in range(3):
        single(world, f"low-{i}", priority=i)
    world.run()
    assert len(world.where("low")) == 3

    gang(world, "high", 2, priority=10)
    world.run()
    assert evicted(world) == ["low-0", "low-1"]
    assert world.where("high") == {}  # their claims have the devices still
    assert world.reason("PodGroup", "high") == "WaitingForVictims"

    settle(world)
    assert len(world.where("high")) == 2
    assert evicted(world) == ["low-0", "low-1"]
    assert not world.replay().differences


def test_nobody_of_the_same_priority_leaves_for_devices():
    world = with_devices(nodes=1)
    single(world, "first", priority=10)
    world.run()
    single(world, "second", priority=10)
    world.run()
    assert evicted(world) == []
    assert world.reason("Pod", "second") == "Unschedulable"


def test_what_victims_give_back_one_by_one_is_kept_from_others():
    world = with_devices(nodes=1)
    single(world, "low-0", count=2, priority=1)
    single(world, "low-1", count=2, priority=1)
    world.run()
    world.hold_evictions = True
    single(world, "high", priority=10)
    world.run()
    assert evicted(world) == ["low-0", "low-1"]

    world.delete("low-0")
    world.devices.free("low-0")
    single(world, "between", count=1, priority=5)
    world.run()
    assert world.where("between") == {}

    world.delete("low-1")
    world.devices.free("low-1")
    world.run()
    assert set(world.where()) == {"high"}
    assert world.where("between") == {}


def test_a_gang_with_devices_leaves_as_a_whole():
    world = with_devices(nodes=2)
    gang(world, "low", 2, priority=1)
    world.run()
    single(world, "high", priority=10)
    settle(world)
    assert evicted(world) == ["low-0", "low-1"]
    assert set(world.where()) == {"high"}


ANY = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def test_a_queue_takes_back_the_quota_and_the_devices_of_who_borrowed():
    world = with_devices(nodes=2)
    world.flavor()
    for name in ("a", "b"):
        world.queue(name, 8, cohort="c", local=name, preemption=ANY)
    gang(world, "b", 2, gpus=8, queue="b")
    world.run()
    assert len(world.where("b")) == 2
    world.now += 1

    single(world, "a", gpus=8, queue="a")
    settle(world)
    assert evicted(world) == ["b-0", "b-1"]
    assert set(world.where("a")) == {"a"}


def test_of_those_who_may_leave_for_quota_those_leave_whose_devices_are_needed():
    world = with_devices(nodes=2)
    world.flavor()
    for name in ("a", "b"):
        world.queue(name, 8, cohort="c", local=name, preemption=ANY)
    single(world, "b-gpu", gpus=4, queue="b")
    world.run()
    world.now += 1
    for i in range(3):
        world.pod(f"b-{i}", gpus=4, queue="b")
        world.run()
        world.now += 1
    single(world, "own", gpus=0, count=4, priority=100)
    world.run()
    assert len(world.where()) == 5

    single(world, "a", gpus=4, queue="a")
    settle(world)
    assert evicted(world) == ["b-gpu"]
    assert "a" in world.where()


def test_who_is_moved_for_others_finds_devices_where_it_goes():
    world = with_devices(nodes=2)
    world.flavor()
    world.queue("cq", 64, consolidation={"maxMoves": 4})
    for name, other in (("on-0", "n1"), ("on-1", "n0")):
        world.node(other, gpus=8, cordoned=True)
        movable = {"scheduling.tutti.dev/movable": "true"}
        single(world, name, count=2, gpus=1, queue="queue", annotations=movable, owner=owner(name))
        world.run()
        world.node(other, gpus=8)
    assert world.where() == {"on-0": "n0", "on-1": "n1"}

    single(world, "big", count=4, gpus=1, queue="queue")
    settle(world)
    (gone,) = evicted(world)
    single(world, f"{gone}-again", count=2, gpus=1, queue="queue", owner=owner(gone))
    world.run()
    assert len(world.where()) == 3
    assert world.where()["big"] == f"n{gone[-1]}"
    assert len(world.devices.taken()) == len(set(world.devices.taken())) == 8


def test_nobody_is_moved_who_would_find_no_devices_elsewhere():
    world = with_devices(nodes=1)
    world.node("n1", gpus=8)
    world.flavor()
    world.queue("cq", 64, consolidation={"maxMoves": 4})
    movable = {"scheduling.tutti.dev/movable": "true"}
    single(world, "there", count=2, gpus=1, queue="queue", annotations=movable, owner=owner("there"))
    world.run()
    single(world, "big", count=4, gpus=1, queue="queue")
    world.run()
    assert evicted(world) == []


def owner(name: str) -> OwnerReference:
    return OwnerReference("batch/v1", "Job", "job", f"job-of-{name}", controller=True)
