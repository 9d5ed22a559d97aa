"""What a queue has of its own is kept from those who would borrow it, while its head waits for it."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World


def two_queues(own: int = 2, *, nodes: int = 8, **spec) -> World:
    """A queue with its own quota and one that can only borrow, in one cohort."""
    world = World()
    world.node("node", gpus=nodes)
    world.flavor()
    world.queue("owner", own, cohort="all", local="owner", **spec)
    world.queue("borrower", 0, cohort="all", local="borrower")
    return world


def bound(world: World, name: str) -> bool:
    return name in world.where()


def test_an_owner_does_not_starve_behind_a_stream_of_borrowers():
    world = two_queues()
    world.pod("a1", queue="owner")
    world.run()
    world.pod("a2", queue="owner", gpus=2)  # one of its own two is free
    world.run()
    for number in range(50):  # each borrower ends when the next one has come
        world.pod(f"b{number}", queue="borrower")
        world.run()
        world.now += 10
        if number == 1:
            world.finish("a1")
            world.run()
        if number and bound(world, f"b{number - 1}"):
            world.finish(f"b{number - 1}")
            world.run()

    assert bound(world, "a2")


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_what_is_its_own_is_kept_for_a_head_that_only_borrowers_keep_from_it(strategy):
    world = two_queues(queueingStrategy=strategy)
    world.pod("b1", queue="borrower")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.run()
    world.pod("b2", queue="borrower")
    world.run()

    assert world.where() == {"b1": "node"}
    why = world.why("Pod", "b2")
    assert (why.gate, why.reason) == ("Quota", "WaitingForQuota")
    assert why.message == (
        "ClusterQueue borrower: needs 1 nvidia.com/gpu in default, which it would borrow; 1 is free, but held back for "
        "Pod/default/head of ClusterQueue owner, whose own quota that is"
    )
    world.finish("b1")
    world.run()
    assert bound(world, "head")
    assert not bound(world, "b2")


def test_others_borrow_what_the_owners_own_work_keeps_from_its_head():
    world = two_queues()
    world.pod("a1", queue="owner")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.now += 1
    world.pod("b1", queue="borrower")
    world.decide()
    assert not bound(world, "b1")  # not in the turn in which the head has just failed
    world.run()

    assert bound(world, "b1")
    world.finish("a1")
    world.run()
    world.pod("b2", queue="borrower")
    world.run()
    assert not bound(world, "b2")  # now only borrowers are in its way
    world.finish("b1")
    world.run()
    assert bound(world, "head")


def test_a_strict_head_keeps_what_is_free_of_its_queue_while_its_own_work_runs():
    world = two_queues(queueingStrategy="StrictFIFO")
    world.pod("a1", queue="owner")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.run()
    world.now += 1
    world.pod("b1", queue="borrower")
    world.run()

    assert not bound(world, "b1")


def test_an_owner_that_can_take_back_its_own_has_nothing_held_back():
    world = two_queues(preemption={"reclaimWithinCohort": "Any"})
    world.pod("a1", queue="owner")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.now += 1
    world.pod("b1", queue="borrower")
    world.decide()

    assert bound(world, "b1")


def test_another_owner_gets_its_own_while_something_is_held_back():
    world = two_queues(own=3)
    world.queue("third", 1, cohort="all", local="third")
    world.pod("b1", queue="borrower", gpus=2)
    world.run()
    world.pod("head", queue="owner", gpus=3, priority=9)
    world.run()
    world.pod("c1", queue="third")
    world.run()

    assert world.where() == {"b1": "node", "c1": "node"}


def test_borrowers_go_on_when_the_head_has_gone():
    world = two_queues()
    world.pod("b1", queue="borrower")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.run()
    world.pod("b2", queue="borrower")
    world.run()
    assert not bound(world, "b2")
    world.delete("head")
    world.run()

    assert bound(world, "b2")


def test_those_of_its_own_queue_are_not_kept_off():
    world = two_queues()
    world.pod("b1", queue="borrower")
    world.run()
    world.pod("head", queue="owner", gpus=2, priority=5)
    world.run()
    world.pod("small", queue="owner")
    world.run()

    assert bound(world, "small")


def test_surplus_members_do_not_take_what_is_held_back():
    world = two_queues(own=3)
    world.gang("gang", 2, min_count=1, queue="borrower")
    world.object("PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": 1}}, "queueName": "borrower"})
    world.pod("b1", queue="borrower")
    world.run()
    assert len(world.where()) == 3
    world.delete("gang-1")
    world.pod("head", queue="owner", gpus=3)
    world.run()
    assert not bound(world, "head")
    world.pod("gang-2", group="gang")
    world.run()

    assert not bound(world, "gang-2")
    world.finish("b1", "gang-0")
    world.run()
    assert bound(world, "head")


def test_a_borrower_takes_another_flavor_instead():
    world = World()
    for kind in ("old", "new"):
        world.node(kind, labels={"kind": kind})
        world.flavor(kind, nodeLabels={"kind": kind})
    world.queue("owner", 2, cohort="all", flavors=("old",), local="owner")
    world.queue("spare", 2, cohort="all", flavors=("new",), local="spare")
    world.queue("borrower", 0, cohort="all", flavors=("old", "new"), local="borrower")
    world.pod("b1", queue="borrower", selector={"kind": "old"})
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.run()
    world.pod("b2", queue="borrower")
    world.run()

    assert world.where() == {"b1": "old", "b2": "new"}


def test_what_is_held_back_is_found_again_after_a_restart():
    world = two_queues()
    world.pod("b1", queue="borrower")
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.pod("b2", queue="borrower")
    world.run()
    world.restart()
    world.run()
    assert world.where() == {"b1": "node"}
    assert world.used("borrower", resource=GPU) == 1
    world.finish("b1")
    world.run()
    assert world.where()["head"] == "node"


def test_nothing_is_decided_over_and_over_while_something_is_held_back():
    world = two_queues()
    world.pod("a1", queue="owner")
    world.pod("b1", queue="borrower")
    world.run()
    for number in range(5):
        world.pod(f"head{number}", queue="owner", gpus=2)
        world.pod(f"b{number + 2}", queue="borrower", gpus=2)
    world.run()
    tried = world.engine.evaluated
    world.until(3600)

    assert world.engine.evaluated == tried
