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


def test_nothing_is_held_back_for_one_behind_a_head_that_lacks_nodes():
    """Whoever comes to stand before it in a strict line keeps it from its quota, and asks for none that is lent away."""
    world = two_queues(queueingStrategy="StrictFIFO")
    world.pod("b1", queue="borrower")
    world.run()
    world.pod("second", queue="owner", gpus=2)
    world.run()
    world.pod("b2", queue="borrower")
    world.run()
    assert not bound(world, "b2")

    world.pod("head", queue="owner", gpus=1, priority=5, selector={"there": "is none"})
    world.run()
    assert world.why("Pod", "head").gate == "Placement"
    assert bound(world, "b2")

    world.delete("head")
    world.run()
    world.finish("b1")
    world.run()
    world.pod("b3", queue="borrower")
    world.run()
    assert not bound(world, "b3"), "it is held back for the second again, who is the head"


def test_a_head_that_has_come_to_borrow_keeps_nothing_from_those_before_it():
    """It would have had its own, until one before it in its queue was given some of that."""
    world = two_queues(4, nodes=16, queueingStrategy="StrictFIFO")
    world.queue("lender", 2, cohort="all", local="lender")
    world.pod("b1", queue="borrower", gpus=3)
    world.run()
    world.pod("b2", queue="borrower", gpus=2, gated=True)
    world.now += 10
    world.pod("head", queue="owner", gpus=4)
    world.run()
    world.ungate("b2")
    world.run()
    assert not bound(world, "b2")
    world.pod("urgent", queue="owner", gpus=1, priority=5)
    world.run()
    assert bound(world, "urgent")
    assert bound(world, "b2")


@pytest.mark.parametrize("first", ["head", "b2"])
def test_a_head_that_would_borrow_keeps_nothing_from_its_equals_after_its_turn(first):
    """Both would borrow and came at one time; who of them is tried first does not decide for ever."""
    world = two_queues(4, queueingStrategy="StrictFIFO")
    world.queue("lender", 2, cohort="all", local="lender")
    world.pod("a1", queue="owner", gpus=2)
    world.pod("b1", queue="borrower")
    world.run()
    asks = {"head": ("owner", 4), "b2": ("borrower", 1)}  # 3 are free, 2 of these the owner's
    for name in sorted(asks, key=lambda name: name != first):
        world.pod(name, queue=asks[name][0], gpus=asks[name][1])
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


def of_one_large_borrower() -> World:
    """All is used by one gang of a queue that owns half of it; another may only take back, and has the greater weight."""
    world = World(fairSharing={"enable": True, "patienceSeconds": 0})
    world.node("node", gpus=8)
    world.flavor()
    quotas = [{"name": GPU, "nominalQuota": 2}]
    pool = [{"coveredResources": [GPU], "flavors": [{"name": "default", "resources": quotas}]}]
    world.object("Cohort", "all", {"resourceGroups": pool})
    world.queue("owner", 2, cohort="all", local="owner", queueingStrategy="StrictFIFO")
    takes = {"preemption": {"reclaimWithinCohort": "Any"}, "fairSharing": {"weight": "3"}}
    world.queue("borrower", 0, cohort="all", local="borrower", **takes)
    world.pod_group("large", 4, queueName="owner", disruptionMode="PodGroup")
    for rank in range(4):
        world.pod(f"large-{rank}", group="large")
    world.run()
    world.now += 1
    return world


@pytest.mark.parametrize("head", [False, True])
def test_nobody_leaves_for_quota_that_is_held_back_for_another_queue(head: bool):
    """What leaves comes again, and would have to leave again: the borrower cannot have its quota while the head waits."""
    world = of_one_large_borrower()
    if head:
        world.pod("head", queue="owner", gpus=2)
        world.run()
        world.now += 1
    world.pod("p", queue="borrower", gpus=3)
    world.run()
    assert bound(world, "p") != head
    assert len(world.where("large")) == (4 if head else 0)
    if head:
        world.delete("head")
        world.run()
        assert bound(world, "p")


def test_what_others_have_left_for_a_borrower_is_not_held_back_from_it():
    """It is kept for it while they leave; a head that comes meanwhile waits for what comes free later."""
    world = of_one_large_borrower()
    world.hold_evictions = True
    world.pod("p", queue="borrower", gpus=3)
    world.run()
    world.pod("head", queue="owner", gpus=2)
    world.run()
    world.delete(*(name for name in world.where("large")))
    world.run()
    assert bound(world, "p")
    assert not bound(world, "head")
