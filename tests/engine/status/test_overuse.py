"""Queues and cohorts that use more quota than there is are told so, and nothing else happens to what they run."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World

QUEUE = ("ClusterQueue", "", "a")


@pytest.fixture
def world():
    world = World()
    world.flavor()
    world.queue("a", 8)
    world.node("n", gpus=16)
    world.gang("g", 6, queue="queue")
    world.run()
    return world


def told(world):
    return {key[2]: one.message for key, one in world.engine.state.overuses.told.items()}


def test_a_queue_that_is_given_less_than_it_uses_is_told_once_and_runs_on(world):
    assert told(world) == {}
    world.queue("a", 4)
    world.pod("more", gpus=1, queue="queue")
    world.run()

    assert told(world)["a"].startswith(f"more is used than there is quota for: 6 of 4 {GPU} of flavor default; nobody")
    assert [one.kind for one in world.events("QuotaExceeded")] == ["ClusterQueue"]
    assert set(world.where("g-")) == {f"g-{i}" for i in range(6)}
    assert world.why("Pod", "more").gate == "Quota"
    assert world.where("more") == {}


def test_it_is_over_when_enough_has_ended_or_the_quota_is_raised(world):
    for mend in (lambda: world.queue("a", 8), lambda: world.finish(*(f"g-{i}" for i in range(6)))):
        world.queue("a", 4)
        world.run()
        assert set(told(world)) == {"a"}
        mend()
        world.run()
        assert told(world) == {}
    assert len(world.events("QuotaExceeded")) == 2


def test_new_figures_wait_so_that_no_storm_of_ends_becomes_one_of_writes(world):
    world.queue("a", 2)
    world.run()
    version = world.engine.state.overuses.version
    for member in ("g-0", "g-1", "g-2"):
        world.finish(member)
        world.run()
    assert " 6 of 2 " in told(world)["a"]
    assert world.engine.state.overuses.version == version

    world.until(world.now + 11.0)
    assert " 3 of 2 " in told(world)["a"]
    assert world.engine.state.overuses.version == version + 1
    assert world.engine.state.overuses.look_at is None
    assert len(world.events("QuotaExceeded")) == 1


def test_a_cohort_is_told_with_those_of_its_queues_that_borrow():
    world = World()
    world.flavor()
    group = {
        "coveredResources": [GPU],
        "flavors": [{"name": "default", "resources": [{"name": GPU, "nominalQuota": 8}]}],
    }
    world.object("Cohort", "c", {"resourceGroups": [group]})
    world.queue("a", 0, cohort="c")
    world.queue("b", 2, cohort="c", local="b")
    world.node("n", gpus=16)
    world.gang("g", 6, queue="queue")
    world.gang("h", 2, queue="b")
    world.run()
    group["flavors"][0]["resources"][0]["nominalQuota"] = 3
    world.object("Cohort", "c", {"resourceGroups": [group]})
    world.run()

    assert set(told(world)) == {"a", "c"}
    assert {(one.kind, one.name) for one in world.events("QuotaExceeded")} == {("Cohort", "c"), ("ClusterQueue", "a")}


def test_it_is_over_for_who_has_borrowed_when_enough_of_another_queue_has_ended():
    """Found by the simulation (seed 1524): only the queue was looked at that had given something back."""
    world = World()
    world.flavor()
    world.node("n", gpus=16)
    for name in ("a", "b"):
        world.queue(name, 4, cohort="c", local=name)
    world.gang("borrows", 6, queue="a")
    world.gang("own", 2, queue="b")
    world.run()
    world.queue("b", 3, cohort="c", local="b")
    world.run()
    assert set(told(world)) == {"a", "c"}
    world.finish("own-0", "own-1")
    world.run()
    assert told(world) == {}


def test_quota_that_is_a_part_of_what_nodes_offer_shrinks_with_them():
    world = World()
    world.flavor()
    world.queue("a", "100%")
    for name in ("n", "m"):
        world.node(name, gpus=4)
    world.gang("g", 6, queue="queue")
    world.run()
    world.node("m", gpus=4, cordoned=True)
    world.run()

    assert " 6 of 4 " in told(world)["a"]


def test_who_takes_over_tells_again_without_another_event(world):
    world.queue("a", 4)
    world.run()
    raw = world.objects[QUEUE]
    raw["status"]["conditions"] = [{"type": "QuotaExceeded", "status": "True"}]
    world.log.clear()
    world.restart()
    world.run()

    assert set(told(world)) == {"a"}
    assert world.events("QuotaExceeded") == []


def test_nobody_is_told_of_a_queue_that_is_gone(world):
    world.queue("a", 4)
    world.run()
    world.remove_object("ClusterQueue", "a")
    world.run()

    assert told(world) == {}


def test_a_message_names_a_few_and_counts_the_rest_in_one_order():
    world = World()
    flavors = tuple(f"f{i}" for i in range(7))
    for flavor in flavors:
        world.flavor(flavor, nodeLabels={"kind": flavor})
    world.queue("a", 2, flavors=flavors)
    for flavor in reversed(flavors):
        world.node(flavor, gpus=2, labels={"kind": flavor})
        world.pod(f"p-{flavor}", gpus=2, queue="queue", selector={"kind": flavor})
        world.run()
    world.queue("a", 1, flavors=flavors)
    world.run()

    message = told(world)["a"]
    assert [flavor for flavor in flavors if f"flavor {flavor}" in message] == list(flavors[:5])
    assert " and 2 more;" in message
    assert message.index("flavor f0") < message.index("flavor f1")
