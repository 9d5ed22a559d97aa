"""Gangs whose tenant deletes members of theirs, so that what he makes in their place goes before all others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import World, replaced

IMPORTANT = 100


def running(**spec: object) -> World:
    """A small gang of a tenant and somebody else's pod use a queue up, for which an important pod waits."""
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=8)
    world.flavor()
    world.queue("cq", 8)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "theirs")
    world.pod_group("g", 2, "theirs", queueName="queue", **spec)
    for name in ("g-0", "g-1"):
        member(world, name)
    world.pod("first", queue="queue", gpus=6)
    world.run()
    world.pod("honest", queue="queue", gpus=6, priority=IMPORTANT)
    world.run()
    assert list(world.where()) == ["first"]
    assert len(world.where(namespace="theirs")) == 2
    return world


def member(world: World, name: str, gpus: int = 1) -> None:
    world.pod(name, namespace="theirs", group="g", gpus=gpus)


@pytest.mark.parametrize("action", ["Restart", "Keep"])
def test_a_successor_that_asks_for_more_than_was_lost_waits_for_its_turn(action: str) -> None:
    world = running(onMemberLoss={"action": action})
    world.delete("g-1", namespace="theirs")
    world.run()
    member(world, "g-2", gpus=7)
    world.run()
    world.delete("first")
    world.run()
    assert list(world.where()) == ["honest"]
    assert list(world.where(namespace="theirs")) == ["g-0"]


@pytest.mark.parametrize("action", ["Restart", "Keep"])
@pytest.mark.parametrize("restarts", [False, True])
def test_no_surplus_members_go_before_others_beside_a_successor(action: str, restarts: bool) -> None:
    world = running(onMemberLoss={"action": action})
    world.delete("g-1", namespace="theirs")
    world.run()
    world.delete("first")
    if restarts:
        world.restart()
    for rank in range(2, 9):
        member(world, f"g-{rank}")
    world.run()
    assert list(world.where()) == ["honest"]
    assert list(world.where(namespace="theirs")) == ["g-0", "g-2"]
    world.delete("honest")
    world.run()
    assert len(world.where(namespace="theirs")) == 8


def test_a_gang_that_comes_to_need_more_members_does_not_go_before_others_with_these() -> None:
    world = running()
    spec = {"queueName": "queue", "podGroups": [{"name": "a", "count": 7, "minCount": 1}]}
    world.delete("g-0", "g-1", namespace="theirs")
    world.object("Workload", "w", spec, "theirs")
    world.pod("w-0", namespace="theirs", workload="w", gpus=1)
    world.run()
    world.object("Workload", "w", {**spec, "podGroups": [{"name": "a", "count": 7}]}, "theirs")
    for rank in range(1, 7):
        world.pod(f"w-{rank}", namespace="theirs", workload="w", gpus=1)
    world.run()
    world.delete("first")
    world.run()
    assert list(world.where()) == ["honest"]
    assert list(world.where(namespace="theirs")) == ["w-0"]


def test_what_was_given_up_is_not_taken_back_by_needing_it_again() -> None:
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=10)
    world.flavor()
    world.queue("cq", 64)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "theirs")

    def needs(minimum: int) -> None:
        group = {"name": "a", "count": 10, "minCount": minimum}
        world.object("Workload", "w", {"queueName": "queue", "podGroups": [group]}, "theirs")

    needs(2)
    for rank in range(10):
        world.pod(f"w-{rank}", namespace="theirs", workload="w")
    world.run()
    world.delete(*(f"w-{rank}" for rank in range(2, 10)), namespace="theirs")
    world.run()
    world.pod("first", queue="queue", gpus=8)
    world.run()
    world.pod("honest", queue="queue", gpus=8, priority=IMPORTANT, preempts=False)
    world.run()
    needs(10)
    for rank in range(10, 18):
        world.pod(f"w-{rank}", namespace="theirs", workload="w")
    world.run()
    world.delete("first")
    world.run()
    assert list(world.where()) == ["honest"]


def test_a_member_that_is_relabelled_and_runs_on_has_no_successor() -> None:
    world = running(onMemberLoss={"action": "Keep"})
    was = world.pods["theirs", "g-1"]
    labels = {**was.metadata.labels, "scheduling.tutti.dev/queue-name": "queue"}
    del labels["scheduling.tutti.dev/pod-group"]
    world.put(replaced(was, metadata=replaced(was.metadata, labels=labels)))
    member(world, "g-2")
    world.run()
    world.delete("first")
    world.pod("next", queue="queue", priority=IMPORTANT, gpus=0)
    world.pod("more", queue="queue", priority=IMPORTANT, gpus=1, preempts=False)
    world.delete("honest")
    world.pod("most", queue="queue", priority=IMPORTANT, gpus=5, preempts=False)
    world.run()
    assert set(world.where()) == {"next", "more", "most"}
    assert set(world.where(namespace="theirs")) == {"g-0", "g-1"}


SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=5)


@given(SIZES, st.lists(st.tuples(st.integers(0, 4), SIZES), max_size=3), st.sampled_from(["Restart", "Keep"]))
def test_nobody_gains_by_taking_members_of_his_own_away(
    sizes: list[int], rounds: list[tuple[int, list[int]]], action: str
) -> None:
    world = World(namespaces=("default", "theirs"))
    world.flavor()
    world.queue("cq", 64)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "theirs")
    world.node("n0", gpus=sum(sizes))
    world.pod_group("g", len(sizes), "theirs", queueName="queue", onMemberLoss={"action": action})
    for rank, gpus in enumerate(sizes):
        member(world, f"g-{rank}", gpus)
    world.run()
    for rank in range(40):
        world.pod(f"honest-{rank}", queue="queue", gpus=1, priority=IMPORTANT, preempts=False)
    world.run()
    had, made = sum(sizes), len(sizes)
    for place, more in rounds:
        mine = sorted(world.where(namespace="theirs"))
        world.delete(*mine[place : place + 1], namespace="theirs")
        for gpus in more:
            member(world, f"g-{made}", gpus)
            made += 1
        world.run()
        world.node(f"more-{made}", gpus=3)
        world.run()
        has = sum(
            int(world.pods["theirs", name].spec.containers[0].resources.requests["nvidia.com/gpu"])
            for name in world.where(namespace="theirs")
        )
        assert has <= had
