"""Quota that is taken back, or preempted: whom, by which rule, and that it ends."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World
from tutti.engine.records.decisions import Bind, Evict

ANY = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def cohort_of(*queues: tuple[str, int], gpus: int, fair: bool = False, **spec) -> World:
    """Queues of one cohort that may reclaim, each with a LocalQueue of its name, on nodes of 8 GPUs."""
    world = World(fairSharing={"enable": fair})
    world.flavor()
    spec.setdefault("preemption", ANY)
    for name, nominal in queues:
        world.queue(name, nominal, cohort="c", local=name, **spec)
    for number, left in enumerate(range(gpus, 0, -8)):
        world.node(f"n{number}", gpus=min(8, left))
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def later(world: World) -> None:
    """What comes next is younger, and what has come is running."""
    world.run()
    world.now += 1.0


def test_quota_that_was_lent_is_taken_back():
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    world.gang("b-own", 4, queue="b")
    world.run()
    later(world)
    world.gang("b-borrows", 4, queue="b")
    world.run()
    assert len(world.where("b")) == 8
    world.gang("a", 2, queue="a")
    world.run()
    assert evicted(world) == [f"b-borrows-{rank}" for rank in range(4)]
    assert len(world.where("a")) == 2
    assert world.reason("PodGroup", "b-borrows") == "WaitingForMembers"  # its pods are gone
    assert world.used("a") == 2


def test_while_victims_leave_the_preemptor_says_whom_it_waits_for_and_nobody_takes_its_place():
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    for number in range(8):
        world.pod(f"b-{number}", queue="b")
        later(world)
    world.run()
    world.hold_evictions = True
    world.gang("a", 3, queue="a")
    world.run()
    assert sorted(evicted(world)) == ["b-5", "b-6", "b-7"]  # the last that came in
    why = world.why("PodGroup", "a")
    assert (why.gate, why.reason) == ("Victims", "WaitingForVictims")
    assert "waits for 3 workloads to leave (Pod/default/b-5 of b, InCohortReclamation;" in why.message
    assert world.why("Pod", "b-7").message.startswith("it makes room for PodGroup/default/a: ClusterQueue a ")
    world.delete("b-7", "b-6")
    world.pod("b-new", queue="b")
    world.run()
    assert world.where("a") == {}
    assert world.reason("Pod", "b-new") == "WaitingForQuota"
    assert len(evicted(world)) == 3
    world.delete("b-5")
    world.run()
    assert len(world.where("a")) == 3
    assert len(evicted(world)) == 3


def test_nobody_is_taken_out_for_a_gang_that_would_have_quota_and_no_nodes():
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    world.node("n0", gpus=8, labels={"zone": "one"})
    for number in range(8):
        world.pod(f"b-{number}", queue="b")
    world.run()
    world.gang("a", 3, queue="a", selector={"zone": "two"})
    world.run()
    assert evicted(world) == []
    assert world.where("a") == {}


def test_victims_are_those_whose_nodes_help():
    world = cohort_of(("a", 4), ("b", 12), gpus=16, preemption=ANY)
    world.node("n0", gpus=8, labels={"zone": "one"})
    world.node("n1", gpus=8, labels={"zone": "two"})
    for number in range(8):
        world.pod(f"b-one-{number}", queue="b", selector={"zone": "one"})
        world.pod(f"b-two-{number}", queue="b", selector={"zone": "two"})
        later(world)
        for zone in ("one", "two"):
            world.start(f"b-{zone}-{number}")
    world.run()
    world.pod("a", gpus=2, queue="a", selector={"zone": "one"})
    world.run()
    assert world.where("a") == {"a": "n0"}
    assert sorted(evicted(world)) == ["b-one-6", "b-one-7"]


def test_a_more_important_workload_of_the_same_queue_takes_the_place_of_lesser_ones():
    world = cohort_of(("a", 4), gpus=8)
    world.gang("low", 4, queue="a")
    world.run()
    later(world)
    world.gang("high", 4, queue="a", priority=10)
    world.run()
    assert len(world.where("high")) == 4
    assert evicted(world) == [f"low-{rank}" for rank in range(4)]


@pytest.mark.parametrize(("policy", "taken"), [("LowerPriority", False), ("LowerOrNewerEqualPriority", True)])
def test_whether_the_newer_of_equals_gives_way(policy, taken):
    world = cohort_of(("a", 4), gpus=8, preemption={"withinClusterQueue": policy})
    world.pod_group("old", 4, queueName="a")
    later(world)
    world.gang("new", 4, queue="a")
    world.run()
    for rank in range(4):
        world.pod(f"old-{rank}", group="old")
    world.run()
    assert bool(world.where("old")) == taken


def test_without_a_policy_nobody_is_taken_out():
    world = cohort_of(("a", 4), ("b", 4), gpus=8, preemption={})
    world.gang("b", 8, queue="b")
    world.run()
    world.gang("a", 4, queue="a")
    world.run()
    assert evicted(world) == []
    assert (
        "4 lent to b, which it does not take back: its reclaimWithinCohort is Never"
        in world.why("PodGroup", "a").message
    )


def test_who_has_not_run_long_enough_is_spared_until_it_has():
    spec = {"preemption": {**ANY, "minimumRuntimeSeconds": 100}}
    world = cohort_of(("a", 4), ("b", 4), gpus=8, **spec)
    world.gang("b", 8, queue="b")
    world.run()
    world.gang("a", 4, queue="a")
    world.until(99.0)
    assert evicted(world) == []
    world.until(2.0)
    assert len(evicted(world)) == 8
    assert len(world.where("a")) == 4


def test_a_preemptor_that_goes_away_gives_back_what_was_held_for_it():
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    for number in range(8):
        world.pod(f"b-{number}", queue="b")
    world.run()
    world.hold_evictions = True
    world.pod("a", gpus=4, queue="a")
    world.run()
    gone = evicted(world)
    assert len(gone) == 4
    world.delete("a")
    world.run()
    world.delete(*gone)
    for name in gone:
        world.pod(f"{name}-again", queue="b")
    world.run()
    assert len(world.where("b")) == 8
    assert world.used("a") == 0


def test_a_more_important_preemptor_takes_what_is_held_for_a_lesser_one():
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    for number in range(8):
        world.pod(f"b-{number}", queue="b")
        later(world)
    world.run()
    world.hold_evictions = True
    world.pod("low", gpus=4, queue="a", priority=1)
    world.run()
    gone = evicted(world)
    world.pod("high", gpus=4, queue="a", priority=5)
    world.run()
    assert evicted(world) == gone
    world.delete(*gone)
    world.run()
    assert world.where("high")
    assert not world.where("low")


def test_a_strict_head_that_waits_for_its_victims_is_not_overtaken():
    world = cohort_of(("a", 4), ("b", 4), gpus=8, queueingStrategy="StrictFIFO")
    for number in range(8):
        world.pod(f"b-{number}", queue="b")
    world.run()
    world.hold_evictions = True
    world.gang("head", 3, queue="a")
    later(world)
    world.pod("behind", queue="a")
    world.run()
    assert len(evicted(world)) == 3
    assert world.reason("PodGroup", "head") == "WaitingForVictims"
    assert world.reason("Pod", "behind") == "BehindHead"
    world.hold_evictions = False
    world.delete(*evicted(world))
    world.run()
    assert len(world.where("head")) == 3
    assert world.where("behind")


def test_preemption_in_a_later_flavor_is_looked_for_where_the_policy_says_so():
    world = World()
    for name in ("first", "second"):
        world.flavor(name, nodeLabels={"kind": name})
        world.node(name, gpus=2, labels={"kind": name})
    world.queue("cq", 2, flavors=("first", "second"), preemption={"withinClusterQueue": "LowerPriority"})
    world.pod("low-1", gpus=2, queue="queue")
    world.pod("low-2", gpus=2, queue="queue", priority=1)
    world.run()
    world.pod("high", gpus=2, queue="queue", priority=9, selector={"kind": "second"})
    world.run()
    assert world.where("high") == {"high": "second"}
    assert len(evicted(world)) == 1


def test_victims_of_a_cohort_tree_leave_by_the_hierarchy():
    """Kueue, TestHierarchicalPreemptions "preempt with hierarchical advantage"."""
    world = World()
    world.flavor()
    flavor = {"name": "default", "resources": [{"name": GPU, "nominalQuota": 2}]}
    world.object("Cohort", "root", {})
    group = {"coveredResources": [GPU], "flavors": [flavor]}
    world.object("Cohort", "c", {"parentName": "root", "resourceGroups": [group]})
    world.queue("q", 0, cohort="c", local="q", preemption={"reclaimWithinCohort": "Any"})
    world.queue("borrowing", 0, cohort="root", local="borrowing")
    world.node("n1", gpus=2)
    world.pod("b", gpus=2, queue="borrowing")
    world.run()
    assert world.where() == {"b": "n1"}
    world.pod("mine", gpus=2, queue="q")
    world.run()
    assert world.where() == {"mine": "n1"}


def test_the_status_of_a_victim_says_for_whom_and_why():
    world = cohort_of(("a", 4), gpus=8)
    world.workload("low", {"name": "main", "count": 4}, queueName="a")
    for rank in range(4):
        world.pod(f"low-{rank}", workload="low")
    world.run()
    later(world)
    world.workload("high", {"name": "main", "count": 4}, queueName="a")
    for rank in range(4):
        world.pod(f"high-{rank}", workload="high", priority=10)
    world.run()
    assert sum(isinstance(one, Bind) for one in world.log) == 8
    preempted = world.condition("Workload", "low", "Preempted")
    assert (preempted["status"], preempted["reason"]) == ("True", "InClusterQueue")
    assert "it makes room for Workload/default/high: it is in the same ClusterQueue a" in preempted["message"]
    assert world.condition("Workload", "low", "Evicted")["reason"] == "Preempted"


def test_what_is_held_for_one_preemptor_does_not_stand_in_the_way_of_another():
    """What victims still use and what is held for their preemptor is the same quota: it must not count twice."""
    world = cohort_of(("a", 4), ("b", 4), gpus=8)
    for name in ("a", "b"):
        world.gang(f"{name}-low", 4, queue=name)
    later(world)
    world.hold_evictions = True
    world.gang("a-high", 4, queue="a", priority=10)
    world.gang("b-high", 4, queue="b", priority=10)
    world.run()
    assert len(evicted(world)) == 8
    world.delete(*(f"a-low-{rank}" for rank in range(4)))
    world.gang("a-low2", 4, queue="a")
    world.run()
    assert {name: len(world.where(name)) for name in ("a-high", "a-low2")} == {"a-high": 4, "a-low2": 0}
    world.delete(*(f"b-low-{rank}" for rank in range(4)))
    world.run()
    assert len(world.where("b-high")) == 4
    assert len(evicted(world)) == 8


def test_what_one_that_leaves_anyway_hands_over_is_told_as_used_once():
    world = cohort_of(("a", 4), gpus=8)
    world.gang("low", 4, queue="a")
    later(world)
    world.hold_evictions = True
    spec = world.objects["ClusterQueue", "", "a"]["spec"]
    world.object("ClusterQueue", "a", {**spec, "stopPolicy": "HoldAndDrain"})
    world.run()
    world.object("ClusterQueue", "a", spec)
    world.run()
    world.gang("high", 2, queue="a", priority=10)
    world.run()
    assert world.reason("PodGroup", "high") == "WaitingForVictims"
    reserved = world.engine.state.counts.of("default/a").reserved
    assert reserved["default", GPU] == 4


def test_two_reclaimers_share_what_one_gang_leaves():
    """It leaves once; the first reclaimer takes half of it, the second the rest; one that goes gives back its half."""
    world = cohort_of(("a", 4), ("b", 4), ("c", 0), gpus=8)
    world.gang("c", 8, queue="c")
    later(world)
    world.hold_evictions = True
    world.gang("a", 4, queue="a")
    world.run()
    world.gang("b", 4, queue="b")
    world.run()
    assert [world.reason("PodGroup", name) for name in ("a", "b")] == ["WaitingForVictims"] * 2
    assert [world.used(name) for name in "abc"] == [4, 4, 0]
    world.delete(*(f"a-{rank}" for rank in range(4)))
    world.run()
    assert [world.used(name) for name in "abc"] == [0, 4, 4]
    world.delete(*(f"c-{rank}" for rank in range(8)))
    world.run()
    assert len(world.where("b")) == 4
    assert len(evicted(world)) == 8


def test_the_queue_of_a_victim_counts_again_what_its_preemptor_gives_up():
    """Found by the simulation: its LocalQueue went on saying less than the victim used until it was gone."""
    world = cohort_of(("a", 4), ("c", 0), gpus=8)
    world.gang("c", 4, queue="c")
    later(world)
    world.hold_evictions = True
    world.gang("a", 4, queue="a")
    world.run()

    def counted() -> int:
        return world.engine.state.counts.of("default/c").reserved.get(("default", GPU), 0)

    assert (world.used("c"), counted()) == (0, 0)
    world.delete(*(f"a-{rank}" for rank in range(4)))
    world.run()
    assert (world.used("c"), counted()) == (4, 4)


def test_quota_of_a_victim_whose_node_is_lost_is_free_though_nobody_tells_that_the_victim_has_gone():
    """The simulation (seed 141) once had it chosen again in turn after turn, since it left no node any more."""
    world = cohort_of(("a", 4), gpus=8)
    world.node("n1", gpus=8)
    world.gang("low", 4, queue="a", selector={"kubernetes.io/hostname": "n1"})
    later(world)
    world.hold_evictions = True
    world.gang("first", 2, queue="a", priority=10)
    world.run()
    world.remove_node("n1")
    world.run()
    world.gang("second", 2, queue="a", priority=20)  # tried when the node is gone already
    world.run()
    assert [len(world.where(name)) for name in ("first", "second")] == [2, 2]


def test_who_was_to_go_to_a_node_that_is_lost_is_tried_again_at_once():
    world = cohort_of(("a", 4), gpus=8)
    world.gang("low", 4, queue="a")
    later(world)
    world.hold_evictions = True
    world.gang("high", 4, queue="a", priority=10)
    world.run()
    assert set(world.engine.state.nominations.nodes.values()) == {"n0"}
    world.node("n1", gpus=8)
    world.remove_node("n0")
    world.run()
    assert set(world.where("high").values()) == {"n1"}
    assert len(evicted(world)) == 4


def test_who_could_take_others_out_for_quota_is_tried_again_when_there_are_nodes():
    """Found by the simulation (seed 377): it waited for quota alone, which nobody was going to give back."""
    world = cohort_of(("a", 4), gpus=8)
    world.gang("low", 2, gpus=2, queue="a")
    later(world)
    world.gang("high", 1, gpus=4, queue="a", priority=10, selector={"zone": "one"})
    world.run()
    assert world.reason("PodGroup", "high") == "WaitingForQuota"
    assert evicted(world) == []
    world.node("n1", gpus=8, labels={"zone": "one"})
    world.run()
    assert world.where("high") == {"high-0": "n1"}
    assert evicted(world) == ["low-0", "low-1"]


def test_for_pods_placed_by_topology_those_leave_too_who_use_no_quota_that_is_contested():
    # Kueue, TestScheduleForTASCohorts: workloads with cpu and with devices leave for one that needs both on a node
    world = World()
    world.object("Topology", "nodes", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
    world.flavor(topologyName="nodes")
    world.node("n", gpus=8, cpu=8)
    world.queue("a", 8, local="a", preemption=ANY)
    world.pod("devices", queue="a", gpus=8, cpu="1", priority=-1)
    world.pod("cores", queue="a", gpus=0, cpu="5", priority=-1)
    later(world)
    world.pod_group("high", 1, schedulingConstraints={"topology": [{"key": "kubernetes.io/hostname"}]})
    world.pod("high", group="high", queue="a", gpus=8, cpu="6")
    world.run()

    assert sorted(evicted(world)) == ["cores", "devices"]
    assert world.where() == {"high": "n"}


@pytest.mark.parametrize("fair", [False, True])
def test_nobody_is_taken_out_in_place_of_who_leaves_already(fair):
    world = cohort_of(("a", 4), ("b", 2), ("d", 2), gpus=8, fair=fair)
    for number in range(5):
        world.pod(f"b-{number}", queue="b")
    world.gang("d", 3, queue="d")
    later(world)
    world.hold_evictions = True
    spec = world.objects["ClusterQueue", "", "d"]["spec"]
    world.object("ClusterQueue", "d", {**spec, "stopPolicy": "HoldAndDrain"})
    world.run()
    assert sorted(evicted(world)) == ["d-0", "d-1", "d-2"]
    world.gang("a", 2, queue="a")
    world.run()
    assert world.reason("PodGroup", "a") == "WaitingForVictims"
    assert len(evicted(world)) == 3


def test_what_a_victim_leaves_beyond_what_it_left_for_is_counted_on_in_the_same_turn():
    world = cohort_of(("a", 1), ("b", 1), ("c", 5), ("d", 0), gpus=7, fair=True)
    for number in range(4):
        world.pod(f"b-{number}", queue="b")
    later(world)
    world.gang("d", 3, queue="d")
    later(world)
    world.hold_evictions = True
    world.pod("a", queue="a")
    world.pod("c", queue="c")
    world.run()
    assert sorted(evicted(world)) == ["d-0", "d-1", "d-2"]
