"""Whose turn it is among queues, which flavors are taken, and what wakes whom."""

from __future__ import annotations

import pytest

from tests.engine.queue.test_turns import evaluated
from tests.engine.world import GPU, World
from tutti.engine.records.decisions import Bind, SetPodCondition


def cohort_of(*queues: tuple[str, int], fair: bool = False, nodes: int = 64, **spec) -> World:
    """Queues of one cohort, each with a LocalQueue of its name."""
    world = World(fairSharing={"enable": fair})
    world.flavor()
    for name, gpus in queues:
        world.queue(name, gpus, cohort="c", local=name, **spec)
    world.node("n1", gpus=nodes)
    return world


def bound(world: World) -> list[str]:
    return [bind.name for bind in world.binds()]


def submit(world: World, *pods: tuple[str, str, int, int]) -> None:
    """Single pods (name, queue, GPUs, priority) that take out nobody, each a second younger than the one before."""
    for name, queue, gpus, priority in pods:
        world.now += 1.0
        world.pod(name, queue=queue, gpus=gpus, priority=priority, preempts=False)


def test_many_of_one_queue_are_admitted_in_one_turn():
    world = cohort_of(("a", 8))
    submit(world, *((f"p{i}", "a", 1, 0) for i in range(10)))
    assert sum(isinstance(one, Bind) for one in world.decide()) == 8


def test_who_needs_not_borrow_goes_before_who_does_whatever_the_priority():
    world = cohort_of(("a", 2), ("b", 2))
    submit(world, ("a-1", "a", 2, 0), ("a-2", "a", 1, 9), ("b-1", "b", 2, 0))
    world.run()
    assert bound(world) == ["a-2", "b-1"]  # a-2 within its own; then a-1 would borrow, and nothing is left of b's
    assert world.reason("Pod", "a-1") == "WaitingForQuota"


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
        {"ordering": {"factors": [{"factor": "Age", "weight": 1}], "among": "All"}},
    ],
    ids=["by age", "by past use", "by factors"],
)
def test_a_gang_that_has_quota_with_its_surplus_no_more_competes_without_it(order):
    """It was compared with all of its members while there was no node for it; meanwhile others borrowed that quota."""
    world = cohort_of(("b", 0), fair=True, nodes=3)
    world.queue("a", 3, cohort="c", local="a", preemption={"reclaimWithinCohort": "Any"}, **order)
    world.pod_group("g", 1, queueName="a")
    for rank in range(3):
        world.pod(f"g-{rank}", group="g", selector={"kind": "other"})
    world.run()
    submit(world, *((f"p{i}", "b", 1, 0) for i in range(3)))
    world.run()
    assert len(world.where("p")) == 3
    world.node("n2", gpus=3, labels={"kind": "other"})
    world.run()
    assert len(world.where("g")) == 1
    assert len(world.where("p")) == 2


@pytest.mark.parametrize("fair", [False, True])
def test_who_borrows_with_its_surplus_does_not_go_before_who_is_more_important(fair: bool):
    """Kueue orders heads by what they would be admitted with: of 12 the gang would take 8, four of them borrowed."""
    world = cohort_of(("a", 4), ("b", 8), fair=fair, nodes=12)
    world.workload("elastic", {"name": "g", "count": 8, "minCount": 2}, queueName="a", priority=0)
    for rank in range(8):
        world.pod(f"elastic-{rank}", workload="elastic", group="g", gpus=1)
    world.gang("whole", 10, queue="b", priority=5, gpus=1)
    world.run()

    assert len(world.where("whole")) == 10
    assert len(world.where("elastic")) == 2


def test_who_borrows_from_nearer_goes_first():
    world = World()
    world.flavor()
    flavor = {"name": "default", "resources": [{"name": GPU, "nominalQuota": 1}]}
    world.object("Cohort", "near", {"parentName": "root"})
    world.object("Cohort", "far", {"parentName": "root", "resourceGroups": []})
    world.object("Cohort", "root", {"resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}]})
    for name, cohort, gpus in (("a", "near", 0), ("idle", "near", 1), ("b", "far", 0)):
        world.queue(name, gpus, cohort=cohort, local=name)
    world.node("n1")
    submit(world, ("b-1", "b", 1, 5), ("a-1", "a", 1, 0))
    world.run()
    assert bound(world) == ["a-1", "b-1"]


def test_the_order_is_worked_out_anew_after_each_admission():
    world = cohort_of(("a", 4), ("b", 2))
    submit(world, *((f"a-{i}", "a", 2, 5) for i in range(3)), ("b-1", "b", 2, 0))
    world.run()
    assert bound(world) == ["a-0", "a-1", "b-1"]  # by then a-2 would have to borrow


def test_priorities_are_compared_between_queues_with_their_offsets():
    world = World()
    world.flavor()
    world.queue("plain", 8, local="plain")
    world.queue("favoured", 8, local="favoured", priority={"offset": 10})
    world.queue("fenced", 8, local="fenced", priority={"offset": 7, "fence": True})
    submit(world, ("p-8", "plain", 1, 8), ("v-0", "favoured", 1, 0), ("f-0", "fenced", 1, 0), ("f-99", "fenced", 1, 99))
    world.node("n1", gpus=4)
    world.run()
    assert bound(world) == ["v-0", "p-8", "f-99", "f-0"]


def fungible(**fungibility: str) -> World:
    world = World()
    for name in ("first", "second"):
        world.flavor(name, nodeLabels={"kind": name})
        world.node(name, gpus=8, labels={"kind": name})
    world.queue("cq", 2, cohort="c", flavors=("first", "second"), flavorFungibility=fungibility)
    world.queue("lender", 2, cohort="c", flavors=("first", "second"), local="")
    return world


@pytest.mark.parametrize(
    ("fungibility", "order"),
    [
        ({}, ["first", "first", "second", "second"]),
        ({"whenCanBorrow": "TryNextFlavor"}, ["first", "second", "first", "second"]),
    ],
    ids=["borrow at once", "look past borrowing"],
)
def test_whether_a_flavor_is_borrowed_before_the_next_is_tried(fungibility, order):
    world = fungible(**fungibility)
    nodes = []
    for rank in range(4):
        world.pod(f"p{rank}", gpus=2, queue="queue")
        world.run()
        nodes.append(world.where()[f"p{rank}"])
    assert nodes == order


def test_a_flavor_whose_labels_the_pod_does_not_select_is_passed_over():
    world = fungible()
    world.pod("p", queue="queue", selector={"kind": "second"})
    world.run()
    assert world.where() == {"p": "second"}
    world.pod("q", queue="queue", selector={"kind": "third"})
    world.run()
    why = world.why("Pod", "q")
    assert (why.gate, why.reason) == ("Quota", "NoMatchingFlavor")
    assert "the labels of flavor first do not match the node selector or affinity" in why.message


def test_a_role_goes_to_the_next_flavor_where_the_nodes_of_the_first_have_no_room_for_both():
    world = fungible()
    world.node("first", gpus=2, labels={"kind": "first"})
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 2}, queueName="queue")
    world.pod("w-leader", workload="w", group="leader", gpus=1)
    for rank in range(2):
        world.pod(f"w-worker-{rank}", workload="w", group="workers", gpus=1, cpu="2")
    world.run()
    assert sorted(world.where().values()) in (["first", "second", "second"], ["first", "first", "second"])
    assert world.used("cq", "first") + world.used("cq", "second") == 3


def test_resource_groups_are_combined_until_quota_and_nodes_hold():
    world = World()
    for name in ("a100", "h100", "spot", "stable"):
        world.flavor(name, nodeLabels={name: "yes"})
    groups = [
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [flavor(one, cpu=99, memory=99) for one in ("spot", "stable")],
        },
        {"coveredResources": [GPU], "flavors": [flavor(one, **{GPU: 8}) for one in ("a100", "h100")]},
    ]
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": groups})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    world.node("n1", labels={"spot": "yes"})
    world.node("n2", labels={"stable": "yes", "h100": "yes"})
    world.pod("p", queue="queue", memory="1")
    world.run()
    assert world.where() == {"p": "n2"}
    assert (world.used("cq", "h100"), world.used("cq", "stable", "cpu")) == (1, 1000)


def flavor(name: str, **amounts: int) -> dict:
    return {"name": name, "resources": [{"name": what, "nominalQuota": n} for what, n in amounts.items()]}


def test_fair_sharing_serves_whoever_has_the_smaller_share_first():
    world = cohort_of(("a", 0), ("b", 0), ("lender", 6), fair=True)
    submit(world, *((f"a-{i}", "a", 1, 9) for i in range(6)), *((f"b-{i}", "b", 1, 0) for i in range(6)))
    world.run()
    assert {name[0]: sum(other[0] == name[0] for other in bound(world)) for name in ("a", "b")} == {"a": 3, "b": 3}
    assert bound(world)[:2] == ["a-0", "b-0"]


def test_fair_sharing_goes_by_weight():
    world = cohort_of(("lender", 6), fair=True)
    world.queue("a", 0, cohort="c", local="a", fairSharing={"weight": 2})
    world.queue("b", 0, cohort="c", local="b")
    submit(world, *((f"{queue}-{i}", queue, 1, 0) for i in range(6) for queue in ("b", "a")))
    world.run()
    assert sum(name.startswith("a") for name in bound(world)) == 4


def test_fair_sharing_goes_by_the_shares_of_cohorts_in_a_tree():
    world = World(fairSharing={"enable": True})
    world.flavor()
    for name in ("left", "right"):
        world.object("Cohort", name, {"parentName": "root"})
    world.queue("lender", 6, cohort="root", local="")
    for name, cohort in (("l1", "left"), ("l2", "left"), ("r1", "right")):
        world.queue(name, 0, cohort=cohort, local=name)
    world.node("n1", gpus=64)
    submit(world, *((f"{queue}-{i}", queue, 1, 0) for i in range(6) for queue in ("l1", "l2", "r1")))
    world.run()
    counts = {queue: sum(name.startswith(queue) for name in bound(world)) for queue in ("l1", "l2", "r1")}
    assert counts["r1"] == 3
    assert sorted((counts["l1"], counts["l2"])) == [1, 2]


def test_equal_workloads_are_looked_at_once_and_told_alike():
    world = cohort_of(("a", 4))
    submit(world, *((f"p{i}", "a", 5, 0) for i in range(50)), ("other", "a", 6, 0))
    world.run()
    assert evaluated(world) == 2
    assert {world.reason("Pod", f"p{i}") for i in range(50)} == {"ExceedsMaxQuota"}
    assert all(world.pod_condition(f"p{i}").reason == "ExceedsMaxQuota" for i in range(50))
    world.pod("late", gpus=5, queue="a", preempts=False)
    world.run()
    assert evaluated(world) == 2
    assert world.reason("Pod", "late") == "ExceedsMaxQuota"


def test_quota_given_back_wakes_those_of_its_own_cohort_only():
    world = cohort_of(("a", 1), ("b", 1))
    world.queue("apart", 1, local="apart")
    submit(world, ("a-1", "a", 2, 0), ("apart-1", "apart", 1, 0))
    world.run()
    submit(world, ("b-1", "b", 2, 0), ("apart-2", "apart", 1, 0))
    world.run()
    before = evaluated(world)
    world.finish("apart-1")
    world.run()
    assert evaluated(world) == before + 1
    assert "apart-2" in world.where()
    world.finish("a-1")
    world.run()
    assert evaluated(world) == before + 2
    assert "b-1" in world.where()


def test_a_node_wakes_those_that_lack_nodes_and_not_those_that_lack_quota():
    world = cohort_of(("a", 8), nodes=1)
    submit(world, ("nodes", "a", 2, 0), ("quota", "a", 9, 0))
    world.run()
    before = evaluated(world)
    world.node("n2", gpus=1)
    world.run()
    assert evaluated(world) == before + 1


def test_the_numbers_of_one_are_not_written_to_all_that_wait_with_it():
    world = cohort_of(("a", 6))
    submit(world, ("running-1", "a", 2, 0), ("running-2", "a", 2, 0))
    world.run()
    submit(world, *((f"p{i}", "a", 5, 0) for i in range(20)))
    world.run()
    said = len(world.log)
    world.finish("running-1")
    world.until(30.0)
    told = [one.name for one in world.log[said:] if isinstance(one, SetPodCondition)]
    assert told == ["p0"]
    assert "4 free now (4 of its own 6)" in world.why("Pod", "p19").message  # whoever looks is told what holds now


def test_who_lends_and_whether_it_can_be_had_back_is_told():
    world = cohort_of(("a", 4), ("b", 4))
    submit(world, ("b-1", "b", 7, 0))
    world.run()
    submit(world, ("a-1", "a", 3, 0))
    world.run()
    assert world.why("Pod", "a-1").message == (
        "ClusterQueue a: needs 3 nvidia.com/gpu in default; 1 free now (1 of its own 4, 0 of 4 to borrow), "
        "3 lent to b, which it does not take back: its reclaimWithinCohort is Never"
    )


def test_a_later_head_of_a_strict_queue_that_goes_first_is_not_held_back():
    world = cohort_of(("a", 4), queueingStrategy="StrictFIFO")
    submit(world, ("running", "a", 3, 0), ("head", "a", 2, 0))
    world.run()
    submit(world, ("urgent", "a", 1, 5), ("behind", "a", 1, 0))
    world.run()
    assert set(world.where()) == {"running", "urgent"}
    assert world.why("Pod", "behind").message == "ClusterQueue a is StrictFIFO and Pod/default/head is before it"


def test_the_next_head_of_a_strict_queue_is_told_once_it_is_its_turn():
    world = cohort_of(("a", 4), queueingStrategy="StrictFIFO")
    submit(world, ("head", "a", 6, 0), ("next", "a", 5, 0), ("last", "a", 1, 0))
    world.run()
    assert [world.reason("Pod", name) for name in ("head", "next", "last")] == [
        "ExceedsMaxQuota",
        "BehindHead",
        "BehindHead",
    ]
    world.delete("head")
    world.run()
    assert [world.reason("Pod", name) for name in ("next", "last")] == ["ExceedsMaxQuota", "BehindHead"]
    assert world.why("Pod", "last").message == (
        "ClusterQueue a is StrictFIFO and Pod/default/next is before it, which asks for more than it can ever have "
        "there: take it back, or raise the quota"
    )
    world.delete("next")
    world.run()
    assert world.where() == {"last": "n1"}


@pytest.mark.parametrize("fair", [False, True])
def test_a_broken_gang_is_mended_before_new_work_of_any_queue(fair):
    world = cohort_of(("a", 8), ("b", 8), nodes=4, fair=fair)
    world.gang("g", 4, queue="a")
    world.run()
    world.delete("g-0")
    submit(world, ("urgent", "b", 1, 100))
    world.pod("g-4", group="g")
    world.run()
    assert "g-4" in world.where()
    assert world.reason("Pod", "urgent") == "Unschedulable"
