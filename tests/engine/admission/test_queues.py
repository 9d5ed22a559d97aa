"""Who may start, and when: quota, borrowing, order, flavors, and pods that others have placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.world import GPU, World
from tutti.api.selectors import Taint, Toleration
from tutti.engine.admission.shortages import _shortage
from tutti.quota.policy import Preemptible, PreemptionPolicy


def with_queue(gpus: int, **spec) -> World:
    world = World()
    world.flavor()
    world.queue("cq", gpus, **spec)
    world.node("n1", gpus=8)
    return world


def later(world: World) -> None:
    """What comes next is younger."""
    world.now += 1.0


def test_a_gang_waits_for_quota_and_is_admitted_when_it_is_given_back():
    world = with_queue(4)
    world.gang("a", 3, queue="queue")
    world.run()
    world.gang("b", 2, queue="queue")
    world.run()
    assert world.reason("PodGroup", "b") == "WaitingForQuota"
    world.finish("a-0")
    world.run()
    assert set(world.where("b")) == {"b-0", "b-1"}
    assert world.used("cq") == 4


def test_a_gang_gets_quota_and_nodes_together_or_neither():
    world = with_queue(16)
    world.gang("too-big-for-the-nodes", 9, queue="queue")
    world.run()
    assert world.used("cq") == 0
    world.gang("b", 8, queue="queue")
    world.run()
    assert len(world.where("b")) == 8


def test_queues_of_a_cohort_lend_each_other_what_they_do_not_use():
    world = with_queue(2, cohort="c")
    world.queue("lender", 4, cohort="c", local="lender")
    world.gang("a", 5, queue="queue")
    world.run()
    assert len(world.where("a")) == 5
    world.gang("b", 2, queue="lender")
    world.run()
    assert world.where("b") == {}
    assert (
        "1 free now (1 of its own 4, 0 of 2 to borrow), 3 lent to cq, which it does not take back: its reclaimWithinCohort is Never"
        in world.why("PodGroup", "b").message
    )
    world.finish("a-0")
    world.run()
    assert len(world.where("b")) == 2


def test_what_is_free_is_told_apart_by_whose_it_is_and_never_reads_as_more_than_there_is():
    """Of 14 that the queue may use at most, 8 are its own and free; the other 6 are in use by those who lend them."""
    world = with_queue(8, cohort="c")
    world.queue("lender", 6, cohort="c", local="lender")
    world.gang("theirs", 6, queue="lender")
    world.run()
    world.gang("mine", 12, queue="queue")
    world.run()
    assert world.why("PodGroup", "mine").message == (
        "ClusterQueue cq: needs 12 nvidia.com/gpu in default; 8 free now (8 of its own 8, 0 of 6 to borrow)"
    )


@pytest.mark.parametrize(("limits", "fits"), [({"borrow": 1}, 3), ({"borrow": 0}, 2), ({}, 6)])
def test_nobody_borrows_beyond_the_limit(limits, fits):
    world = with_queue(2, cohort="c", **limits)
    world.queue("lender", 4, cohort="c", local="lender")
    for rank in range(8):
        world.pod(f"p-{rank}", queue="queue")
    world.run()
    assert len(world.where()) == fits


def test_nobody_lends_beyond_the_limit():
    world = with_queue(2, cohort="c")
    world.queue("lender", 4, cohort="c", lend=1, local="lender")
    for rank in range(8):
        world.pod(f"p-{rank}", queue="queue")
    world.run()
    assert len(world.where()) == 3


def test_a_big_gang_waits_whole_while_small_ones_go_by():
    world = with_queue(8)
    world.pod("running", gpus=2, queue="queue")
    world.run()
    world.gang("big", 8, queue="queue")
    later(world)
    world.gang("small", 2, queue="queue")
    world.run()
    assert world.where("big") == {}
    assert len(world.where("small")) == 2
    world.finish("running", "small-0", "small-1")
    world.run()
    assert len(world.where("big")) == 8


def test_the_head_of_a_strict_queue_holds_the_others_back():
    world = with_queue(4, queueingStrategy="StrictFIFO")
    world.pod("running", gpus=3, queue="queue")
    world.run()
    world.gang("head", 2, queue="queue")
    later(world)
    world.gang("behind", 1, queue="queue")
    world.run()
    assert world.where("behind") == {}
    assert (
        world.why("PodGroup", "behind").message
        == "ClusterQueue cq is StrictFIFO and PodGroup/default/head is before it"
    )
    world.finish("running")
    world.run()
    assert len(world.where()) == 4


def test_the_head_of_a_strict_queue_holds_nobody_back_once_it_is_gone():
    world = with_queue(4, queueingStrategy="StrictFIFO")
    world.gang("head", 5, queue="queue")
    later(world)
    world.pod("behind", queue="queue")
    world.run()
    assert world.where() == {}
    world.delete(*(f"head-{rank}" for rank in range(5)))
    world.remove_object("PodGroup", "head")
    world.run()
    assert world.where() == {"behind": "n1"}


def test_the_head_of_a_strict_queue_holds_nobody_back_while_it_gathers():
    world = with_queue(4, queueingStrategy="StrictFIFO")
    world.gang("head", 5, queue="queue")
    later(world)
    world.pod("behind", queue="queue")
    world.run()
    assert world.where() == {}
    world.delete("head-0")
    world.run()
    assert world.where() == {"behind": "n1"}


def test_surplus_of_a_running_gang_does_not_hold_a_strict_queue_back():
    world = with_queue(4, queueingStrategy="StrictFIFO")
    world.gang("head", 4, min_count=3, gpus=1, queue="queue")
    world.pod_group("wide", 1)
    world.delete("head-3")
    world.run()
    world.pod("head-4", group="head", gpus=2, queue="queue")
    later(world)
    world.pod("behind", queue="queue")
    world.run()
    assert "head-4" not in world.where()
    assert "behind" in world.where()


def test_a_strict_queue_does_not_hold_back_others():
    world = with_queue(1, queueingStrategy="StrictFIFO")
    world.queue("other", 4, local="other")
    world.gang("head", 2, queue="queue")
    later(world)
    world.pod("elsewhere", queue="other")
    world.run()
    assert world.where() == {"elsewhere": "n1"}


def test_priority_goes_before_age_and_age_before_name():
    world = with_queue(8)
    world.node("n1", gpus=0)
    for name, priority in (("b-old", 0), ("a-young", 0), ("z-important", 10)):
        world.pod(name, queue="queue", priority=priority)
        later(world)
    world.run()
    order = []
    for gpus in (1, 2, 3):
        world.node("n1", gpus=gpus)
        world.run()
        order += [name for name in world.where() if name not in order]
    assert order == ["z-important", "b-old", "a-young"]


def test_the_priority_class_of_a_workload_decides_its_order():
    world = with_queue(8)
    world.node("n1", gpus=0)
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "high", "uid": "u"}, "value": 1000})
    world.pod("plain", queue="queue", priority=5)
    later(world)
    world.workload("w", {"count": 1}, queueName="queue", priorityClassRef={"name": "high"})
    world.pod("w-0", workload="w")
    world.run()
    world.node("n1", gpus=1)
    world.run()
    assert world.where() == {"w-0": "n1"}


def flavored() -> World:
    world = World()
    world.flavor("first", nodeLabels={"kind": "first"})
    world.flavor("second", nodeLabels={"kind": "second"})
    world.queue("cq", 2, flavors=("first", "second"))
    return world


def test_flavors_are_tried_in_order_until_quota_and_nodes_both_hold():
    world = flavored()
    world.node("f", gpus=1, labels={"kind": "first"})
    world.node("s", gpus=8, labels={"kind": "second"})
    world.gang("g", 2, queue="queue")  # quota in both flavors, nodes only in the second
    world.run()
    assert set(world.where("g").values()) == {"s"}
    assert (world.used("cq", "first"), world.used("cq", "second")) == (0, 2)
    world.pod("p", queue="queue")
    world.run()
    assert world.where("p") == {"p": "f"}
    world.pod("q", queue="queue")  # quota in the first, nodes in the second
    world.run()
    why = world.why("Pod", "q")
    assert why.gate == "Placement"
    assert why.message.startswith("0/2 nodes are available in flavor first: ")
    assert "; or: ClusterQueue cq: needs 1 nvidia.com/gpu in second; 0 free now (0 of its own 2)" in why.message


def test_quota_that_is_given_back_in_one_flavor_wakes_who_lacked_nodes_in_another():
    world = flavored()
    world.node("s", gpus=0, labels={"kind": "second"})
    world.node("lost", gpus=2, labels={"kind": "first"})
    for name in ("a-0", "a-1"):
        world.pod(name, queue="queue")
    world.run()
    world.remove_node("lost")
    world.node("f", gpus=2, labels={"kind": "first"})
    world.pod("b", queue="queue")
    world.run()
    assert world.where("b") == {}
    world.delete("a-0")  # it held quota, and no room any more
    world.run()
    assert world.where("b") == {"b": "f"}


def test_surplus_keeps_to_the_flavor_that_its_gang_has():
    world = flavored()
    world.node("f", gpus=8, labels={"kind": "first"})
    world.node("s", gpus=8, labels={"kind": "second"})
    world.gang("g", 4, min_count=2, queue="queue")
    world.run()
    assert sorted(world.where("g").values()) == ["f", "f"]


def test_a_flavor_brings_its_tolerations_and_keeps_out_who_does_not_tolerate_its_taints():
    taint = {"key": "spot", "effect": "NoSchedule"}
    world = World()
    world.flavor("spot", nodeTaints=[taint])
    world.flavor("tolerant", nodeTaints=[taint], tolerations=[{"key": "spot", "operator": "Exists"}])
    world.queue("cq", 8, flavors=("spot",))
    world.queue("kind", 8, flavors=("tolerant",), local="kind")
    world.node("n1", taints=[Taint("spot", "", "NoSchedule")])
    world.pod("plain", queue="queue")
    world.pod("tolerates", queue="queue", tolerations=[Toleration("spot", "Exists")])
    world.pod("helped", queue="kind")
    world.run()
    assert set(world.where()) == {"tolerates", "helped"}
    assert world.reason("Pod", "plain") == "NoMatchingFlavor"


def test_pods_of_other_schedulers_take_room():
    world = World()
    world.node("n1", gpus=4)
    world.pod("foreign", gpus=3, node="n1", scheduler="default-scheduler")
    world.gang("g", 2)
    world.run()
    assert world.where("g") == {}
    world.delete("foreign")
    world.run()
    assert len(world.where("g")) == 2


def test_pods_of_other_schedulers_are_not_ours_to_place():
    world = World()
    world.node("n1")
    world.pod("foreign", scheduler="default-scheduler")
    world.run()
    assert world.binds() == []


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_queue_on_hold_admits_nobody_and_lets_what_runs_run(kind):
    world = with_queue(8)
    world.gang("a", 2, queue="queue")
    world.run()
    name = "cq" if kind == "ClusterQueue" else "queue"
    spec = world.objects[kind, "" if kind == "ClusterQueue" else "default", name]["spec"]
    world.object(kind, name, {**spec, "stopPolicy": "Hold"})
    world.gang("b", 2, queue="queue")
    world.run()
    assert len(world.where("a")) == 2
    assert world.reason("PodGroup", "b") == "OnHold"
    world.object(kind, name, spec)
    world.run()
    assert len(world.where("b")) == 2


def test_a_namespace_that_a_queue_does_not_select_is_not_admitted():
    world = with_queue(8, namespaceSelector={"matchLabels": {"team": "a"}})
    world.pod("p", queue="queue")
    world.run()
    assert world.reason("Pod", "p") == "NamespaceNotAllowed"


def test_where_a_queue_is_required_a_pod_without_one_waits():
    world = World(require_queue=True)
    world.node("n1")
    world.pod("p")
    world.run()
    assert world.where() == {}
    assert world.reason("Pod", "p") == "NoQueue"


def test_less_quota_stops_nothing_that_runs():
    world = with_queue(4)
    world.gang("a", 4, queue="queue")
    world.run()
    world.queue("cq", 2, local="")
    world.gang("b", 1, queue="queue")
    world.run()
    assert len(world.where("a")) == 4
    assert world.where("b") == {}
    world.finish("a-0", "a-1", "a-2")
    world.run()
    assert len(world.where("b")) == 1


@pytest.mark.parametrize(
    ("reclaim", "said"),
    [
        (Preemptible.NEVER, "which it does not take back: its reclaimWithinCohort is Never"),
        (Preemptible.LOWER_PRIORITY, "which it may take back from lower priorities"),
        (Preemptible.ANY, "which it may take back"),
    ],
)
def test_a_shortage_says_what_is_asked_free_own_and_lent_to_whom_and_whether_it_can_be_had_back(reclaim, said):
    world = World()
    world.flavor("h100")
    world.node("n1", gpus=200, cpu=200)
    world.queue("team-a", 96, cohort="all", flavors=("h100",))
    world.queue("team-b", 40, cohort="all", flavors=("h100",), local="b")
    world.gang("mine", 32, queue="queue")
    world.gang("guest", 64, queue="b")
    world.run()

    state = world.engine.state
    queue = replace(state.catalog.queues["team-a"], policy=PreemptionPolicy(reclaim=reclaim))
    assert _shortage(state, queue, ("h100", GPU), 64) == (
        f"needs 64 nvidia.com/gpu in h100; 40 free now (40 of its own 96, 0 of 40 to borrow), 24 lent to team-b, {said}"
    )


def two_flavors(**quotas: tuple[int, int]) -> World:
    """Flavors one and two, each with its node, and a queue with so much of each resource in one and in two."""
    world = World()
    resources = list(quotas)
    flavors = []
    for index, name in enumerate(("one", "two")):
        world.flavor(name, nodeLabels={"type": name})
        world.node(name, labels={"type": name})
        amounts = [{"name": key, "nominalQuota": quotas[key][index]} for key in resources]
        flavors.append({"name": name, "resources": amounts})
    group = {"coveredResources": resources, "flavors": flavors}
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    return world


def test_pod_groups_of_one_name_get_one_flavor_without_a_topology():
    world = two_flavors(cpu=(4, 9), memory=(64, 64))
    together = {"mode": "Unconstrained", "groupName": "set"}
    groups = [
        {"name": "leader", "count": 1, "topology": together},
        {"name": "worker", "count": 4, "topology": together},
    ]
    world.workload("wl", *groups, queueName="queue")
    world.pod("leader", workload="wl", group="leader", cpu="1", gpus=0, memory="0")  # would fit in the first by itself
    for rank in range(4):
        world.pod(f"worker-{rank}", workload="wl", group="worker", cpu="2", gpus=0, memory="0")
    world.run()

    assert set(world.where().values()) == {"two"}
    assert len(world.where()) == 5
    assert world.used("cq", "two", "cpu") == 9000


def test_of_several_resource_groups_that_are_short_the_one_that_is_never_enough_is_told():
    world = World()
    world.node("n")
    for name in ("a", "b"):
        world.flavor(name)
    groups = [
        {"coveredResources": [resource], "flavors": [{"name": name, "resources": [{"name": resource, **quota}]}]}
        for name, resource, quota in (("a", "cpu", {"nominalQuota": 3}), ("b", GPU, {"nominalQuota": 1}))
    ]
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": groups})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    world.pod("running", queue="queue", gpus=0, memory="0")
    world.run()
    world.pod("more", queue="queue", gpus=2, cpu="3", memory="0")
    world.run()

    why = world.why("Pod", "more")
    assert why.reason == "ExceedsMaxQuota"
    assert why.message.startswith(f"ClusterQueue cq: needs 2 {GPU} in b")
    assert "needs 3 cpu in a; 2 free now" in why.message


def test_a_member_that_is_done_gives_back_its_place_among_the_pods_of_a_queue():
    world = two_flavors(pods=(3, 0), cpu=(100, 0), memory=(64, 0))
    world.workload("wl", {"name": "main", "count": 3}, queueName="queue")
    for rank in range(3):
        world.pod(f"wl-{rank}", workload="wl", group="main", gpus=0, memory="0")
    world.run()
    world.pod("next", queue="queue", gpus=0, memory="0")
    world.run()
    assert world.used("cq", "one", "pods") == 3
    assert "next" not in world.where()
    world.finish("wl-0")
    world.run()

    assert "next" in world.where()
    assert world.used("cq", "one", "pods") == 3
    assert world.used("cq", "one", "cpu") == 3000
