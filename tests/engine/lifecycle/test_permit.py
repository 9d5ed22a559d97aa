"""A complete reservation is held for members that are promised and not created yet."""

from __future__ import annotations

import itertools

import pytest

from tests.engine.world import World
from tutti.api.selectors import Toleration
from tutti.engine.records.decisions import Evict

TEMPLATE = {
    "spec": {
        "schedulerName": "tutti",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}],
    }
}


def promising(count: int = 3, *, seconds: int = 30, **queue) -> World:
    world = World()
    world.flavor()
    world.queue("cq", **({"gpus": 8} | queue))
    world.node("n1", gpus=8)
    world.workload("w", {"count": count, "template": TEMPLATE}, queueName="queue", scheduleTimeoutSeconds=seconds)
    return world


def free(world: World) -> int:
    cluster = world.engine.state.cluster
    column = cluster.nodes.resource_index.column("nvidia.com/gpu")
    return int((cluster.nodes.allocatable - cluster.nodes.requested)[:, column].sum())


def test_quota_and_room_are_held_for_promised_members_until_they_come():
    world = promising()
    world.run()
    assert world.used("cq") == 3
    assert free(world) == 5
    assert world.why("Workload", "w").details == {"missing": "3", "timeoutSeconds": "30"}
    assert world.condition("Workload", "w", "Admitted")["status"] == "True"
    for rank in range(3):
        world.pod(f"w-{rank}", workload="w")
        world.run()
    assert len(world.where()) == 3
    assert (world.used("cq"), free(world)) == (3, 5)


def test_promised_members_are_held_quota_for_what_their_template_only_limits():
    world = World()
    world.flavor()
    world.queue("cq", gpus=8)
    world.node("n1", gpus=8)
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}
    world.workload("w", {"count": 3, "template": template}, queueName="queue")
    world.run()
    assert (world.used("cq"), free(world)) == (6, 2)


def test_no_member_is_bound_before_all_are_there():
    world = promising()
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    assert world.where() == {}
    assert free(world) == 5


def test_a_permit_that_runs_out_gives_everything_back_with_backoff_and_one_event():
    world = promising()
    world.pod("w-0", workload="w")
    world.run()
    assert free(world) == 5
    world.decide(advance=30.0)
    assert (world.used("cq"), free(world)) == (0, 8)
    assert len(world.events("PermitTimeout")) == 1
    assert world.reason("Workload", "w") == "PermitTimeout"
    assert world.status("Workload", "w")["requeue"]["attempts"] == 1
    due = world.engine.wakeup()
    assert world.now < due <= world.now + 1.25
    world.until(2.0)
    assert free(world) == 5  # reserved anew
    assert len(world.events("PermitTimeout")) == 1


def test_the_backoff_grows_with_every_permit_that_runs_out():
    world = promising(seconds=5)
    waits = []
    for _ in range(6):
        world.run()
        world.decide(advance=5.0)
        waits.append(world.engine.wakeup() - world.now)
        world.now = world.engine.wakeup()
    assert all(base <= wait <= 1.25 * base for base, wait in zip((1, 2, 4, 8, 10, 10), waits, strict=True))


def test_a_restart_does_not_begin_with_short_pauses_again():
    world = promising(seconds=5)
    for _ in range(6):
        world.run()
        world.decide(advance=5.0)
        world.run()
        world.now = world.engine.wakeup()
    assert world.status("Workload", "w")["requeue"]["attempts"] == 6
    world.restart()
    world.until(7)  # statuses tell whole seconds
    assert world.status("Workload", "w")["requeue"]["attempts"] == 7
    assert world.engine.state.workloads["Workload", "default", "w"].not_before - world.now > 7


def test_the_last_promised_member_and_the_end_of_the_permit_may_come_together():
    world = promising(1)
    world.run()
    world.pod("w-0", workload="w")
    world.now += 31
    world.run()
    assert world.where() == {"w-0": "n1"}
    assert not world.events("PermitTimeout")


def test_a_node_that_goes_takes_the_reservation_with_it():
    world = promising()
    world.run()
    world.remove_node("n1")
    world.run()
    assert world.used("cq") == 0
    assert world.why("Workload", "w").gate == "Placement"
    world.pod("w-0", workload="w")
    world.run()
    world.node("n2")
    world.run()
    assert free(world) == 5


def test_a_member_that_is_not_what_was_promised_is_placed_as_it_is():
    world = promising(2)
    world.run()
    world.pod("w-0", workload="w", gpus=2)
    world.pod("w-1", workload="w", gpus=2)
    world.run()
    assert len(world.where()) == 2
    assert (world.used("cq"), free(world)) == (4, 4)


@pytest.mark.parametrize("change", ["delete", "deactivate"])
def test_a_reservation_ends_with_its_workload(change):
    world = promising()
    world.run()
    if change == "delete":
        world.remove_object("Workload", "w")
    else:
        spec = {"podGroups": [{"count": 3, "template": TEMPLATE}], "queueName": "queue", "active": False}
        world.object("Workload", "w", spec)
    world.run()
    assert (world.used("cq"), free(world)) == (0, 8)


@pytest.mark.parametrize("order", [*itertools.permutations(["pods", "Workload", "LocalQueue"])], ids=" ".join)
def test_a_reservation_ends_with_its_namespace_in_whatever_order_that_is_emptied(order):
    world = promising(gpus=3)
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "gone")
    world.remove_object("Workload", "w")
    spec = {"podGroups": [{"name": "main", "count": 3, "template": TEMPLATE}], "queueName": "queue"}
    world.object("Workload", "w", spec, "gone")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", group="main", namespace="gone")
    world.run()
    world.gang("next", 3, queue="queue")
    world.run()
    assert (world.used("cq"), world.where("next")) == (3, {})
    for what in order:
        if what == "pods":
            world.delete("w-0", namespace="gone")
            world.decide()
            world.delete("w-1", namespace="gone")
        else:
            world.remove_object(what, "w" if what == "Workload" else "queue", "gone")
        world.decide()
    world.run()
    assert len(world.where("next")) == 3
    assert world.used("cq") == 3
    assert [key for key in world.engine.state.workloads if key[1] == "gone"] == []


def test_a_reservation_outlasts_the_quota_that_it_has_and_nobody_else_gets_of_it():
    world = promising(gpus=3)
    world.run()
    world.queue("cq", gpus=1)
    world.run()
    world.pod("next", queue="queue")
    world.run()
    assert world.used("cq") == 3
    assert "0 free now (0 of its own 1)" in world.why("Pod", "next").message
    for rank in range(3):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert set(world.where()) == {"w-0", "w-1", "w-2"}
    assert world.used("cq") == 3


def test_nothing_is_held_for_promised_members_while_the_gang_is_being_bound():
    world = promising(2)
    world.hold_binds = True
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.delete(second.name)
    world.until(5.0)
    assert free(world) == 7
    world.pod("w-2", workload="w")
    world.until(5.0)
    world.answer(world.pending_binds[0])
    world.run()
    assert len(world.where()) == 2
    assert (world.used("cq"), free(world)) == (2, 6)


def test_a_surplus_member_that_is_being_deleted_is_not_bound_with_the_others():
    world = World()
    world.flavor()
    world.queue("cq", 8)
    world.node("n1")
    groups = {"name": "a", "count": 2, "minCount": 1}, {"name": "b", "count": 1, "template": TEMPLATE}
    world.workload("w", *groups, queueName="queue")
    world.pod("a-0", workload="w", group="a")
    world.pod("a-1", workload="w", group="a")
    world.run()
    assert world.why("Workload", "w").gate == "Permit"
    world.begin_deleting("a-1")
    world.pod("b-0", workload="w", group="b")
    world.run()
    assert set(world.where()) == {"a-0", "b-0"}
    assert free(world) == 6


def test_a_reservation_shrinks_with_what_is_required():
    world = promising()
    world.pod("w-0", workload="w")
    world.run()
    assert world.used("cq") == 3
    group = {"count": 3, "minCount": 1, "template": TEMPLATE}
    world.workload("w", group, queueName="queue", scheduleTimeoutSeconds=30)
    world.run()
    assert world.where() == {"w-0": "n1"}
    assert (world.used("cq"), free(world)) == (1, 7)


def test_a_member_is_what_was_promised_though_the_api_server_has_added_tolerations():
    world = promising(2)
    world.run()
    workload = world.engine.state.workloads["Workload", "default", "w"]
    held, deadline = list(workload.groups["main"].holds), workload.deadline
    added = [
        Toleration(f"node.kubernetes.io/{state}", "Exists", effect="NoExecute", toleration_seconds=300)
        for state in ("not-ready", "unreachable")
    ]
    world.now += 5.0
    world.pod("w-0", workload="w", tolerations=added)
    world.run()
    assert workload.deadline == deadline  # it is the same reservation
    assert workload.groups["main"].holds == held[1:]
    assert (world.used("cq"), free(world)) == (2, 6)


def test_members_are_what_was_promised_however_the_amounts_of_their_template_are_written():
    """A template is kept as it was written, mostly with numbers. What was held went to who stood before in line."""
    world = World()
    world.node("n1", gpus=8)
    world.pod("runs", gpus=4)
    world.run()
    world.pod("large", gpus=8)
    world.run()
    requests = {"cpu": 1, "memory": "1024Mi", "nvidia.com/gpu": 2}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": {"requests": requests}}]}}
    world.workload("w", {"count": 2, "template": template})
    world.run()
    workload = world.engine.state.workloads["Workload", "default", "w"]
    held, deadline = list(workload.groups["main"].holds), workload.deadline
    assert len(held) == 2

    world.finish("runs")
    world.now += 5.0
    world.pod("w-0", workload="w", gpus=2)
    world.run()
    assert world.where("large") == {}
    assert workload.deadline == deadline
    assert workload.groups["main"].holds == held[1:]


@pytest.mark.parametrize("how", ["it shrinks", "another has its name", "others fill it"])
def test_a_node_that_has_become_too_small_takes_the_reservation_with_it(how):
    world = promising(3)
    world.run()
    if how == "another has its name":
        world.remove_node("n1")
    if how != "others fill it":
        world.node("n1", gpus=2)
    else:
        world.pod("foreign", gpus=6, node="n1", scheduler="default-scheduler")
    for rank in range(3):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert world.where("w") == {}
    assert world.used("cq") == 0
    assert world.reason("Workload", "w") == "Unschedulable"
    world.node("n2", gpus=3)
    world.run()
    assert len(world.where("w")) == 3


def test_nothing_is_reserved_again_for_a_workload_that_has_finished():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.workload("w", {"count": 2, "template": TEMPLATE}, queueName="queue")
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    world.finish("w-0", "w-1")
    world.run()
    world.delete("w-0", "w-1")
    world.run()
    assert world.used("cq") == 0
    assert world.condition("Workload", "w", "Finished")["status"] == "True"
    world.restart()
    world.run()
    assert world.used("cq") == 0
    assert world.condition("Workload", "w", "Finished")["status"] == "True"


@pytest.mark.parametrize("policy", [{"withinClusterQueue": "LowerPriority"}, {}], ids=["by quota", "by priority"])
def test_room_that_others_make_is_held_for_members_that_are_only_promised(policy):
    world = World()
    world.flavor()
    world.queue("cq", 8 if policy else 20, preemption=policy)
    world.node("n1", gpus=8)
    for number in range(8):
        world.pod(f"low-{number}", queue="queue", priority=-1)
    world.run()
    world.hold_evictions = True
    world.workload("w", {"count": 3, "template": TEMPLATE}, queueName="queue")
    world.run()
    leaving = [one.name for one in world.log if isinstance(one, Evict)]
    assert len(leaving) == 3
    why = world.why("Workload", "w")
    assert why.reason == "WaitingForVictims"
    world.pod("late", queue="queue", priority=-1)
    world.delete(leaving[0])
    world.until(5)
    assert "late" not in world.where()
    assert world.why("Workload", "w") == why
    world.delete(*leaving[1:])
    world.run()
    assert world.reason("Workload", "w") == "WaitingForMembers"
    assert (world.used("cq"), free(world)) == (8, 0)
    world.remove_object("Workload", "w")
    world.run()
    assert "late" in world.where()


def test_nothing_is_held_any_more_where_nothing_is_promised_any_more():
    world = World()
    world.flavor()
    world.queue("cq", 8, preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n1", gpus=8)
    world.gang("low", 8, queue="queue", priority=-1)
    world.run()
    world.hold_evictions = True
    world.workload("w", {"count": 3, "template": TEMPLATE}, queueName="queue")
    world.run()
    assert world.engine.state.nominations.ours
    world.workload("w", {"count": 3}, queueName="queue")
    world.run()
    assert not world.engine.state.nominations.ours
    assert world.reason("Workload", "w") == "WaitingForMembers"


# Without a queue ResourceQuotas say who may be made.


def promised_alone(count: int = 4) -> World:
    world = World()
    world.node("n1", gpus=8)
    world.workload("w", {"count": count, "template": TEMPLATE})
    return world


@pytest.mark.parametrize("count", [1, 4, 100_000])
def test_what_is_promised_and_may_not_be_made_holds_no_room(count):
    world = promised_alone(count)
    world.allowance("none", pods=0)
    world.run()
    assert (free(world), world.reason("Workload", "w")) == (8, "WaitingForMembers")
    assert f"0 of {count} member" in world.why("Workload", "w").message
    world.pod("honest", gpus=8)
    world.until(400.0)
    assert set(world.where()) == {"honest"}


@pytest.mark.parametrize(
    ("hard", "used", "held"),
    [
        ({}, {}, 4),
        ({"pods": 4}, {}, 4),
        ({"pods": 4}, {"pods": 1}, 0),
        ({"count/pods": 3}, {}, 0),
        ({"cpu": 4}, {}, 4),
        ({"requests_cpu": "3500m"}, {}, 0),
        ({"memory": "4Gi"}, {"memory": "1"}, 0),
        ({"requests_nvidia.com/gpu": 4}, {}, 4),
        ({"requests_nvidia.com/gpu": 3}, {}, 0),
        ({"limits_cpu": 0, "services": 0, "requests_example.com/other": 0}, {}, 4),
        ({"pods": "many"}, {}, 0),
    ],
)
def test_room_is_held_as_far_as_all_of_them_may_be_made(hard, used, held):
    """Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go: what of a pod counts against which name."""
    world = promised_alone()
    world.allowance("some", used=used, **hard)
    world.allowance("plenty", pods=100)
    world.allowance("elsewhere", "other", pods=0)
    world.run()
    assert free(world) == 8 - held
    world.restart()
    world.run()
    assert free(world) == 8 - held


def test_a_promise_counts_as_soon_as_its_members_may_be_made():
    world = promised_alone()
    world.allowance("none", pods=0)
    world.run()
    assert free(world) == 8
    world.allowance("none", pods=4)
    world.run()
    assert free(world) == 4
    other = promised_alone()
    other.allowance("none", pods=0)
    other.run()
    other.remove_allowance("none")
    other.run()
    assert free(other) == 4
    assert other.engine.state.unpaid == {}


def test_members_that_exist_need_no_room_in_a_resource_quota():
    world = promised_alone(2)
    world.allowance("two", used={"pods": 1}, pods=2)
    world.pod("w-0", workload="w")
    world.run()
    assert free(world) == 6
    world.allowance("two", used={"pods": 2}, pods=2)
    world.pod("w-1", workload="w")
    world.run()
    assert set(world.where()) == {"w-0", "w-1"}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_what_is_held_for_others_of_a_namespace_counts_as_made(restarts):
    world = promised_alone(3)
    world.allowance("five", pods=5)
    for name in ("x", "y"):
        world.workload(name, {"count": 3, "template": TEMPLATE})
    world.run()
    if restarts:
        world.restart()
        world.run()
    assert free(world) == 5
    world.allowance("five", pods=6)
    world.run()
    assert free(world) == 2


def test_what_is_held_no_more_is_there_for_others_of_its_namespace():
    world = promised_alone(3)
    world.allowance("five", pods=5)
    world.workload("x", {"count": 3, "template": TEMPLATE})
    world.run()
    assert free(world) == 5
    world.remove_object("Workload", "w")
    world.run()
    assert free(world) == 5
    assert world.reason("Workload", "x") == "WaitingForMembers"
    assert "nodes are reserved" in world.why("Workload", "x").message
    assert not world.replay().differences


def test_a_promise_holds_no_more_than_its_queue_has():
    world = promising(count=9)
    world.node("n2", gpus=8)
    world.run()
    assert (world.used("cq"), free(world)) == (0, 16)
    assert world.why("Workload", "w").gate == "Quota"


def test_what_was_promised_through_a_queue_is_held_no_longer_than_the_permit_when_the_queue_is_taken_off():
    world = promising(seconds=30)
    world.run()
    assert free(world) == 5
    world.allowance("none", pods=0)
    world.workload("w", {"count": 3, "template": TEMPLATE}, scheduleTimeoutSeconds=30)
    world.until(31.0)
    assert (world.used("cq"), free(world)) == (0, 8)
    world.until(600.0)
    assert free(world) == 8
