"""A workload that may run with fewer pods than it has starts with as many as fit quota and nodes together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import GPU, World


def world_of(quota: dict[str, int], nodes: dict[str, int]) -> World:
    """Flavors with so much quota of GPUs in one queue, and a node of each with so many."""
    world = World()
    for name in quota:
        world.flavor(name, nodeLabels={"kind": name})
        world.node(name, gpus=nodes[name], cpu=1000, labels={"kind": name})
    groups = [{"name": name, "resources": [{"name": GPU, "nominalQuota": amount}]} for name, amount in quota.items()]
    group = {"coveredResources": [GPU], "flavors": groups}
    plain = [{"name": what, "nominalQuota": "100000Gi"} for what in ("cpu", "memory")]
    world.flavor("any")
    rest = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": plain}]}
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group, rest]})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    return world


def submit(world: World, *groups: tuple[str, int, int], gpus: int = 1, name: str = "w") -> None:
    """A workload of pod groups (name, count, minCount), with all its pods."""
    said = [{"name": group, "count": count, "minCount": least} for group, count, least in groups]
    world.workload(name, *said, queueName="queue")
    for group, count, _ in groups:
        for rank in range(count):
            world.pod(f"{name}-{group}-{rank}", workload=name, group=group, gpus=gpus)
    world.run()


def counts(world: World, name: str = "w") -> dict[str, int]:
    out: dict[str, int] = {}
    for pod in world.where(f"{name}-"):
        group = pod.split("-")[1]
        out[group] = out.get(group, 0) + 1
    return out


@pytest.mark.parametrize(
    ("groups", "gpus", "expected"),
    [
        ([("a", 50, 20)], 2, {"a": 25}),  # Kueue, scheduler_test.go: 50 pods x 2 of 50, at least 20
        ([("a", 20, 20), ("b", 30, 10), ("c", 15, 5)], 1, {"a": 20, "b": 20, "c": 10}),  # likewise, of three pod sets
        ([("a", 60, 51)], 1, {}),
        ([("a", 50, 1)], 1, {"a": 50}),
    ],
)
@pytest.mark.parametrize("short_of", ["quota", "nodes"])
def test_as_many_start_as_fit(groups, gpus, expected, short_of):
    quota, nodes = (50, 100) if short_of == "quota" else (500, 50)
    world = world_of({"only": quota}, {"only": nodes})
    submit(world, *groups, gpus=gpus)
    assert counts(world) == expected


def test_flavors_are_chosen_for_all_that_start():
    world = world_of({"small": 5, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 20, 5))
    assert set(world.where().values()) == {"large"}


def test_the_nodes_of_a_flavor_count_as_its_quota_does():
    world = world_of({"small": 64, "large": 64}, {"small": 5, "large": 20})
    submit(world, ("a", 20, 5))
    assert set(world.where().values()) == {"large"}


def test_it_starts_with_fewer_rather_than_have_anybody_taken_out():
    """Kueue takes out the less important for the largest count that it could have so; here that is surplus."""
    world = world_of({"f": 8}, {"f": 8})
    cq = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**cq, "preemption": {"withinClusterQueue": "LowerPriority"}})
    world.pod("low", queue="queue", gpus=4, priority=-1)
    world.run()
    submit(world, ("a", 4, 2), gpus=2)
    assert counts(world) == {"a": 2}
    assert world.where("low") == {"low": "f"}


def test_who_was_left_out_starts_when_there_is_room():
    world = world_of({"only": 64}, {"only": 4})
    submit(world, ("a", 6, 2), ("b", 6, 2))
    assert counts(world) == {"a": 2, "b": 2}
    world.node("more", gpus=8, cpu=1000, labels={"kind": "only"})
    world.run()
    assert counts(world) == {"a": 6, "b": 6}


def grown(world: World, *, count: int = 6, least: int = 2) -> World:
    """A gang that may have more pods than those that have started, and a pod more of it."""
    world.workload("w", {"name": "a", "count": count, "minCount": least}, queueName="queue")
    world.pod(f"w-a-{sum(name.startswith('w-') for _, name in world.pods)}", workload="w", group="a")
    world.run()
    return world


def test_a_pod_set_has_one_flavor_when_it_grows():
    """Kueue: a pod set has one flavor per resource group, also where it is scaled up (elastic jobs)."""
    world = world_of({"small": 4, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 4, 4))
    assert set(world.where().values()) == {"small"}
    grown(world)
    assert len(world.where()) == 4  # quota of the other flavor is free, and not for it
    why = world.engine.state.workloads["Workload", "default", "w"].explanation
    assert why is not None
    assert (why.reason, "in small; 0 free now (0 of its own 4" in why.message) == ("WaitingForQuota", True)
    world.object(
        "ClusterQueue",
        "cq",
        world_of({"small": 5, "large": 20}, {"small": 1, "large": 1}).objects["ClusterQueue", "", "cq"]["spec"],
    )
    world.run()
    assert (len(world.where()), set(world.where().values())) == (5, {"small"})


@pytest.mark.parametrize("short_of", ["quota", "nodes"])
def test_what_starts_with_the_rest_later_keeps_to_the_flavor_of_those_before(short_of):
    quota, nodes = ({"small": 4, "large": 3}, {"small": 64, "large": 64})
    world = world_of(*((quota, nodes) if short_of == "quota" else (nodes, quota)))
    submit(world, ("a", 6, 2))
    assert set(world.where().values()) == {"small"}
    assert counts(world) == {"a": 4}


def test_other_pods_of_the_group_may_have_another_flavor():
    """Pods that ask for something else are another pod set, as in Kueue's pod groups."""
    world = world_of({"small": 4, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 4, 4))
    world.workload("w", {"name": "a", "count": 6, "minCount": 2}, queueName="queue")
    world.pod("w-a-4", workload="w", group="a", gpus=2)
    world.run()
    assert world.where("w-a-4") == {"w-a-4": "large"}


def test_a_member_that_is_replaced_comes_back_in_its_flavor():
    world = world_of({"small": 4, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 4, 4))
    world.finish("w-a-1", phase="Failed")
    world.run()
    world.pod("other", queue="queue")
    world.run()
    assert world.where("other") == {"other": "large"}  # the other flavor's quota is kept for the successor
    world.delete("w-a-1")
    world.pod("w-a-1", workload="w", group="a")
    world.run()
    assert world.where("w-a-1") == {"w-a-1": "small"}


def test_a_flavor_that_the_queue_has_no_more_binds_nobody():
    world = world_of({"small": 4, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 4, 4))
    other = world_of({"large": 20}, {"large": 64}).objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", other)
    grown(world)
    assert world.where("w-a-4") == {"w-a-4": "large"}


def test_a_restart_does_not_forget_the_flavor():
    world = world_of({"small": 4, "large": 20}, {"small": 64, "large": 64})
    submit(world, ("a", 4, 4))
    world.restart()
    grown(world)
    assert len(world.where()) == 4


def test_less_than_the_minimum_takes_nothing():
    world = world_of({"only": 3}, {"only": 64})
    submit(world, ("a", 6, 2), ("b", 6, 2))
    assert counts(world) == {}
    assert world.used("cq", "only") == 0
    assert world.reason("Workload", "w") == "ExceedsMaxQuota"


@given(
    quota=st.integers(0, 24),
    nodes=st.integers(0, 24),
    groups=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=3),
)
def test_nothing_is_left_that_one_more_could_have_had(quota, nodes, groups):
    world = world_of({"only": quota}, {"only": nodes})
    named = [(name, max(pair), min(pair)) for name, pair in zip("abc", groups, strict=False)]
    submit(world, *named)
    got, room = counts(world), min(quota, nodes)
    if sum(least for _, _, least in named) > room:
        assert got == {}
    else:
        assert all(least <= got.get(name, 0) <= count for name, count, least in named)
        assert sum(got.values()) == min(room, sum(count for _, count, _ in named))
    assert world.used("cq", "only") == sum(got.values())
