"""Whom our own evictions take: members that a gang can do without, or all of it; never so many that it cannot run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.preemption.test_reclaiming import cohort_of, evicted, later
from tests.engine.stories.manifests_of_users import members, native
from tests.engine.world import World
from tutti.api.conventions.gang_objects import GANG_KINDS

VOLCANO = next(one for one in GANG_KINDS if one.convention == "volcano")
NATIVE = next(one for one in GANG_KINDS if one.group == "scheduling.k8s.io" and one.kind == "PodGroup")
COSCHEDULING = next(one for one in GANG_KINDS if one.group == "scheduling.x-k8s.io")


def two_gangs(make: Callable[[World, str], None]) -> World:
    """Two gangs of two, each with a member on each of two nodes, which are full."""
    world = World()
    world.hold_evictions = True
    for node in ("n0", "n1"):
        world.node(node, gpus=1)
    make(world, "a")
    world.run()
    for node in ("n0", "n1"):
        world.node(node, gpus=2)
    make(world, "b")
    world.run()
    for name in "ab":
        assert set(world.where(name).values()) == {"n0", "n1"}
    return world


def _ours(world: World, name: str) -> None:
    world.gang(name, 2)


def _workload(world: World, name: str) -> None:
    world.workload(name, {"count": 2})
    for rank in range(2):
        world.pod(f"{name}-{rank}", workload=name)


def _volcano(world: World, name: str) -> None:
    world.gang_object(f"{VOLCANO.group}/{VOLCANO.versions[0]}", name, {"minMember": 2})
    for rank in range(2):
        world.pod(f"{name}-{rank}", annotations={"scheduling.k8s.io/group-name": name})


def _pfnet(world: World, name: str) -> None:
    prefix = "gang-scheduling.preferred.jp/gang"
    for rank in range(2):
        world.pod(f"{name}-{rank}", annotations={f"{prefix}-name": name, f"{prefix}-size": "2"})


def _koordinator(world: World, name: str) -> None:
    said = {"gang.scheduling.koordinator.sh/name": name, "gang.scheduling.koordinator.sh/min-available": "2"}
    for rank in range(2):
        world.pod(f"{name}-{rank}", annotations=said)


@pytest.mark.parametrize("make", [_ours, _workload, _volcano, _pfnet, _koordinator])
def test_one_gang_leaves_whole_rather_than_one_member_of_each_of_two(make):
    world = two_gangs(make)
    world.gang("urgent", 2, priority=10)
    world.run()
    assert sorted(evicted(world)) in (["a-0", "a-1"], ["b-0", "b-1"])


def test_members_leave_one_by_one_where_the_pod_group_says_so():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    world.pod_group("a", 2, disruptionMode="Pod")
    for rank in range(2):
        world.pod(f"a-{rank}", group="a")
    world.run()
    world.pod("urgent", priority=10)
    world.run()
    assert len(evicted(world)) == 1


@pytest.mark.parametrize(("mode", "leaving"), [("Pod", 1), ("", 2), ({"single": {}}, 1), ({"all": {}}, 2)])
def test_a_native_pod_group_is_believed_where_it_says_how_its_pods_leave(mode, leaving):
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    native(world, f"{NATIVE.group}/{NATIVE.versions[0]}", **({"disruptionMode": mode} if mode else {}))
    members(world)
    world.run()
    assert len(world.where()) == 2
    world.pod("urgent", priority=100)
    world.run()
    assert len(evicted(world)) == leaving


def test_the_youngest_surplus_members_go_before_any_gang():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=8)
    world.gang("whole", 2, priority=-5)
    world.gang("elastic", 6, min_count=2)
    world.run()
    for rank in (3, 0, 5, 2, 4, 1):
        world.now += 1
        world.start(f"elastic-{rank}")
    world.gang("urgent", 2, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["elastic-1", "elastic-4"]


def test_a_gang_whose_surplus_is_not_enough_leaves_with_it():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=4)
    world.gang("elastic", 4, min_count=2)
    world.run()
    world.gang("urgent", 3, priority=10)
    world.run()
    assert sorted(evicted(world)) == [f"elastic-{rank}" for rank in range(4)]


def test_reclaiming_takes_surplus_members_before_whole_gangs():
    world = cohort_of(("a", 4), ("b", 0), gpus=8)
    world.queue("c", 4, cohort="c", local="c")
    world.gang("elastic", 6, min_count=2, queue="b")
    later(world)
    world.gang("young", 2, queue="b")  # the first to leave by Kueue's order
    later(world)
    world.hold_evictions = True
    world.gang("owner", 2, queue="a")
    world.run()
    assert sorted(evicted(world)) == ["elastic-4", "elastic-5"]
    world.delete("elastic-5", "elastic-4")
    world.run()
    assert len(world.where("owner")) == 2
    assert len(world.where("elastic")) == 4
    assert world.used("b") == 6


def test_reclaiming_takes_whole_gangs_where_surplus_is_not_enough_and_no_more_surplus_than_it_needs():
    world = cohort_of(("a", 8), ("b", 0), gpus=8)
    world.gang("elastic", 4, min_count=3, queue="b")
    later(world)
    world.gang("young", 4, queue="b")
    later(world)
    world.hold_evictions = True
    world.gang("owner", 4, queue="a")
    world.run()
    assert sorted(evicted(world)) == [f"young-{rank}" for rank in range(4)]


def test_a_gang_that_is_reclaimed_whole_leaves_with_its_surplus():
    world = cohort_of(("a", 4), ("b", 0), gpus=4)
    world.gang("elastic", 4, min_count=2, queue="b")
    later(world)
    world.gang("owner", 3, queue="a")
    world.run()
    assert sorted(evicted(world)) == [f"elastic-{rank}" for rank in range(4)]
    assert len(world.where("owner")) == 3
    assert world.used("b") == 0


def test_a_preemptor_that_gets_surplus_holds_its_quota_and_nothing_beyond():
    world = cohort_of(("a", 4), ("b", 0), gpus=8)
    world.gang("elastic", 4, min_count=2, queue="b")
    later(world)
    world.hold_evictions = True
    world.gang("owner", 2, queue="a")
    world.run()
    assert world.reason("PodGroup", "owner") == "WaitingForVictims"
    assert (world.used("a"), world.used("b")) == (2, 2)
    world.pod("other", queue="b")
    world.run()
    assert "other" not in world.where()


def test_a_surplus_member_stays_where_its_eviction_was_refused_and_its_gang_needs_it_by_now():
    world = World()
    world.refuse_evictions = True
    world.node("n0", gpus=3)
    world.gang("elastic", 3, min_count=2)
    world.run()
    world.pod("urgent", priority=10)
    world.run()
    assert evicted(world) == ["elastic-2"]
    world.finish("elastic-0", phase="Failed")
    world.run()
    world.refuse_evictions = False
    world.until(60)
    assert evicted(world).count("elastic-2") == 1
    assert "elastic-2" in world.where()


@pytest.mark.parametrize("make", [_pfnet, _koordinator])
def test_a_pod_group_that_an_older_version_has_made_for_a_gang_does_not_have_it_leave_pod_by_pod(make):
    """The CRD of 0.1.0 had the API server write `Pod` into each: nobody has wished for that."""
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    make(world, "a")
    world.run()
    (made,) = [raw for key, raw in world.objects.items() if key[0] == "PodGroup"]
    made["spec"]["disruptionMode"] = "Pod"
    world.restart()
    world.run()
    world.pod("urgent", priority=10)
    world.run()
    assert sorted(evicted(world)) == ["a-0", "a-1"]
