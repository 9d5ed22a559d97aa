"""Pods of lower priority make room for a workload, if all of it fits then; the room is held until it is bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World, replaced
from tutti.api.core import ObjectMeta, ObjectName, PriorityClass
from tutti.api.limits import DisruptionBudgetSpec, DisruptionBudgetStatus, PodDisruptionBudget
from tutti.api.selectors import LabelSelector
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import BudgetSeen, PriorityClassSeen


def evicted(world: World) -> list[str]:
    return [decision.name for decision in world.log if isinstance(decision, Evict)]


def full(nodes: int = 1, *, gpus: int = 8, priority: int = 0, **configuration: Any) -> World:
    """Nodes full of single pods of ours, `low-0` and so on, that take a while to leave."""
    world = World(**configuration)
    world.hold_evictions = True
    for node in range(nodes):
        world.node(f"n{node}", gpus=gpus)
    for number in range(nodes * gpus):
        world.pod(f"low-{number}", priority=priority)
    world.run()
    assert len(world.where("low")) == nodes * gpus
    return world


def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one():
    world = full()
    world.pod("high", priority=10)
    world.run()
    (victim,) = evicted(world)
    assert world.reason("Pod", "high") == "WaitingForVictims"
    assert f"default/{victim} on n0" in world.why("Pod", "high").message
    assert world.pods["default", "high"].status.nominated_node_name == "n0"
    assert world.where("high") == {}
    world.delete(victim)
    world.run()
    assert world.where("high") == {"high": "n0"}


def test_the_victim_is_marked_and_told_for_whom_it_leaves():
    world = full()
    world.pod("high", priority=10)
    world.run()
    (evict,) = [one for one in world.log if isinstance(one, Evict)]
    assert evict.reason == "PreemptionByScheduler"
    assert "Pod/default/high" in evict.message
    (event,) = world.events("Preempted", evict.name)
    assert "Pod/default/high, whose pods have priority 10" in event.note


def test_a_gang_takes_out_as_many_as_it_needs_and_starts_as_a_whole():
    world = full(2)
    world.gang("g", 4, gpus=2, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 8
    world.delete(*victims[:-1])
    world.run()
    assert world.where("g") == {}
    world.delete(victims[-1])
    world.run()
    assert len(world.where("g")) == 4
    assert len(evicted(world)) == 8


def test_nobody_goes_for_a_gang_that_would_not_fit_anyway():
    world = full(2)
    world.pod("big", gpus=8, priority=20, node="n0", scheduler="other")
    world.gang("g", 12, priority=10)
    world.run()
    assert evicted(world) == []
    assert world.reason("PodGroup", "g") == "Unschedulable"


def test_a_pod_that_preempts_nobody_waits():
    world = full()
    world.pod("high", priority=10, preempts=False)
    world.run()
    assert evicted(world) == []
    assert world.reason("Pod", "high") == "Unschedulable"


def test_equal_priority_takes_nobody_out():
    world = full(priority=10)
    world.pod("high", priority=10)
    world.run()
    assert evicted(world) == []


def test_pods_of_other_schedulers_go_too():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=1)
    world.pod("theirs", node="n0", scheduler="default-scheduler", priority=0)
    world.pod("high", priority=10)
    world.run()
    assert evicted(world) == ["theirs"]
    assert world.events("Preempted", "theirs")
    world.delete("theirs")
    world.run()
    assert world.where("high") == {"high": "n0"}


def test_freed_room_is_held_from_others_until_it_is_taken():
    world = full()
    world.gang("g", 2, gpus=4, priority=10)
    world.run()
    victims = evicted(world)
    for number in range(4):
        world.pod(f"same-{number}", priority=10)
        world.pod(f"lower-{number}", priority=5)
    world.delete(*victims[:4])
    world.run()
    assert world.where("same") == {}
    assert world.where("lower") == {}
    world.delete(*victims[4:])
    world.run()
    assert len(world.where("g")) == 2
    assert world.where("same") == {}
    assert len(evicted(world)) == 8


def test_a_higher_priority_may_take_room_that_is_held():
    world = full()
    world.pod("middle", gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    world.pod("top", gpus=8, priority=20)
    world.run()
    assert evicted(world) == victims
    world.delete(*victims)
    world.run()
    assert world.where("top") == {"top": "n0"}
    assert world.where("middle") == {}


def test_a_preemptor_that_vanishes_gives_up_what_is_held_for_it():
    world = full()
    world.pod("high", gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    world.delete("high")
    world.delete(*victims)
    world.pod("low-again", gpus=8)
    world.run()
    assert world.where("low-again") == {"low-again": "n0"}


def test_after_its_time_the_room_is_held_no_more_and_nobody_is_asked_twice():
    world = full(victims_timeout_seconds=60)
    world.pod("high", priority=10)
    world.run()
    (victim,) = evicted(world)
    world.until(200.0)
    assert evicted(world) == [victim]
    assert world.reason("Pod", "high") == "WaitingForVictims"
    world.delete(victim)
    world.run()
    assert world.where("high") == {"high": "n0"}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_in_between_takes_out_nobody_else(backwards):
    world = full(2)
    world.gang("g", 2, gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 16
    world.restart(backwards=backwards)
    world.run()
    assert evicted(world) == victims
    world.pod("lower", priority=5)
    world.delete(*victims[:8])
    world.run()
    assert world.where("lower") == {}
    world.delete(*victims[8:])
    world.run()
    assert len(world.where("g")) == 2
    assert evicted(world) == victims


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("asked", [slice(2), slice(2, None), slice(None, None, 2), slice(1), slice(3)])
def test_who_was_not_asked_before_the_operator_was_killed_is_asked_by_the_next_at_once(asked, backwards):
    world = full(2, gpus=4)
    world.gang("g", 2, gpus=2, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 4
    for name in set(victims) - set(victims[asked]):
        world.keep(name)
    world.restart(backwards=backwards)
    world.pod("lower", priority=5, preempts=False)
    world.run()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp]
    assert len(leaving) == 4
    assert set(victims[asked]) < set(leaving)
    assert world.reason("PodGroup", "g") == "WaitingForVictims"
    world.delete(*leaving)
    world.run()
    assert len(world.where("g")) == 2
    assert not world.where("lower")


def test_of_several_who_wait_on_one_node_each_has_its_victim_asked_by_the_next_operator():
    world = full()
    for number in range(4):
        world.pod(f"high-{number}", priority=10)
    world.run()
    victims = evicted(world)
    for name in victims[1:]:
        world.keep(name)
    world.restart()
    world.run()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp]
    assert len(leaving) == 4
    world.delete(*leaving)
    world.run()
    assert len(world.where("high")) == 4


def test_a_gang_that_is_disrupted_as_a_whole_leaves_as_a_whole():
    world = World()
    world.hold_evictions = True
    for node in ("n0", "n1"):
        world.node(node, gpus=2)
    world.pod_group("whole", 2, disruptionMode="PodGroup")
    for rank in range(2):
        world.pod(f"whole-{rank}", gpus=2, group="whole")
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["whole-0", "whole-1"]


def test_the_surplus_of_an_elastic_gang_goes_first_and_the_gang_runs_on():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=4)
    world.gang("e", 3, min_count=1)
    world.pod("low", priority=-5)
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 2
    assert all(name.startswith("e-") for name in victims)
    world.delete(*victims)
    world.run()
    assert world.where("high") == {"high": "n0"}
    assert len(world.where("e")) == 1
    assert world.condition("PodGroup", "e", "Scheduled")["status"] == "True"


def test_a_gang_that_has_lost_a_member_takes_out_others_to_be_whole_again():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    world.gang("g", 2, priority=10)
    world.run()
    world.delete("g-0")
    world.pod("low", scheduler="another", node="n0")  # which keeps nothing for anybody
    world.run()
    world.pod("g-2", group="g", priority=10)
    world.run()
    assert evicted(world) == ["low"]
    assert world.reason("PodGroup", "g") == "WaitingForVictims"
    world.delete("low")
    world.run()
    assert sorted(world.where("g")) == ["g-1", "g-2"]


def test_nobody_makes_room_for_members_beyond_what_a_gang_needs():
    world = World()
    world.node("n0", gpus=2)
    world.gang("g", 1, priority=10)
    world.pod("low")
    world.run()
    world.pod("g-1", group="g", priority=10)
    world.run()
    assert evicted(world) == []


def test_members_beyond_what_a_gang_needs_have_no_room_that_others_were_taken_out_for():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    world.gang("e", 2, min_count=1, gpus=1, priority=10)
    world.run()
    world.finish("e-1")
    world.pod("low", priority=-5)
    world.run()
    world.pod("e-2", group="e", priority=10)
    world.pod("high", priority=5)
    world.run()
    assert evicted(world) == ["low"]
    world.delete("low")
    world.run()
    assert sorted(world.where()) == ["e-0", "e-1", "high"]


def leaving_for_one_of_a_queue(**spec: Any) -> World:
    """A queue with a node full of two pods without a queue, and a pod in the queue for which they are leaving."""
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("cq", 8, **spec)
    world.node("n0", gpus=2)
    world.pod("low-0")
    world.pod("low-1")
    world.run()
    world.pod("high", gpus=2, priority=10, queue="queue")
    world.run()
    assert sorted(evicted(world)) == ["low-0", "low-1"]
    return world


def test_the_head_of_a_strict_queue_is_not_tried_again_and_again_while_its_victims_leave():
    world = leaving_for_one_of_a_queue(queueingStrategy="StrictFIFO")
    world.node("n1", gpus=1)
    world.pod("other", priority=20, queue="queue")
    world.run()
    assert world.where("other") == {"other": "n1"}
    tried = world.engine.evaluated
    world.finish("other")
    world.run()  # it gives quota back, and comes to rest
    assert world.engine.evaluated == tried
    assert world.reason("Pod", "high") == "WaitingForVictims"
    world.delete("low-0", "low-1")
    world.run()
    assert world.where("high") == {"high": "n0"}


def test_a_queue_that_is_put_on_hold_gives_up_what_is_held_for_its_workloads():
    world = leaving_for_one_of_a_queue()
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "stopPolicy": "Hold"})
    world.run()
    world.delete("low-0", "low-1")
    world.pod("late")
    world.run()
    assert world.where() == {"late": "n0"}
    assert world.used("cq") == 0


@pytest.mark.parametrize("lost", ["a member", "the group"])
def test_room_for_a_gang_that_is_not_whole_any_more_is_held_until_its_time_is_over(lost):
    world = full(gpus=4)
    world.gang("g", 4, priority=10)
    world.run()
    victims = evicted(world)
    if lost == "a member":
        world.delete("g-3")
    else:
        world.remove_object("PodGroup", "g")
    world.run()
    world.delete(*victims)
    world.pod("late")
    world.until(world.configuration.victims_timeout_seconds - 1)
    assert world.where() == {}
    world.until(2)
    assert world.where() == {"late": "n0"}


def test_victims_on_a_node_that_is_lost_are_not_waited_for():
    world = full()
    world.pod("high", priority=10)
    world.run()
    world.remove_node("n0")
    world.run()
    assert world.reason("Pod", "high") == "Unschedulable"
    world.node("n1")
    world.run()
    assert world.where("high") == {"high": "n1"}


def test_a_budget_is_spared_where_others_will_do():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    for name in ("kept", "other"):
        pod = world.pod(name, priority=0 if name == "kept" else 5)
        meta = replaced(pod.metadata, labels={"app": name})
        world.put(replaced(pod, metadata=meta))
    world.run()
    selector = DisruptionBudgetSpec(LabelSelector({"app": "kept"}))
    world.tell(BudgetSeen(PodDisruptionBudget(ObjectName("b", "default"), selector, DisruptionBudgetStatus(0))))
    world.pod("high", priority=10)
    world.run()
    assert evicted(world) == ["other"]


def test_room_that_another_scheduler_has_nominated_is_left_to_it():
    world = World()
    world.node("n0", gpus=1)
    theirs = world.pod("theirs", scheduler="default-scheduler", priority=10)
    world.put(replaced(theirs, status=replaced(theirs.status, nominated_node_name="n0")))
    world.pod("same", priority=10)
    world.run()
    assert world.where("same") == {}
    world.pod("top", priority=20)
    world.run()
    assert world.where("top") == {"top": "n0"}
    world.delete("top")
    world.delete("theirs")
    world.run()
    assert world.where("same") == {"same": "n0"}


def test_a_victim_that_could_not_be_asked_is_asked_again():
    world = World()
    world.node("n0", gpus=1)
    world.pod("theirs", node="n0", scheduler="default-scheduler", priority=0)
    world.refuse_evictions = True
    world.pod("high", priority=10)
    world.run()
    world.refuse_evictions = False
    world.until(30.0)
    assert evicted(world) == ["theirs", "theirs"]
    assert world.where("high") == {"high": "n0"}


def test_gangs_of_three_priorities_do_not_take_each_other_out_in_turns():
    """A-B-A: what has made room waits for room of its own and never takes its place back."""
    world = World()
    for node in ("n0", "n1"):
        world.node(node, gpus=4)
    priority = {"a": 1, "b": 2, "c": 3}
    for name in priority:
        world.pod_group(name, 2, disruptionMode="PodGroup")
        for again in range(3):  # the controllers of those that were taken out make their pods again
            for key in [key for key in priority if key <= name]:
                for rank in range(2):
                    if ("default", f"{key}-{rank}") not in world.pods:
                        world.pod(f"{key}-{rank}", gpus=4, group=key, priority=priority[key])
            world.until(50.0 * (again + 1))
    assert sorted(world.where()) == ["c-0", "c-1"]
    assert sorted(evicted(world)) == ["a-0", "a-1", "b-0", "b-1"]


def test_a_workload_with_quota_takes_out_others_for_nodes():
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("cq", 8)
    world.node("n0", gpus=4)
    for number in range(4):
        world.pod(f"theirs-{number}", node="n0", scheduler="default-scheduler", priority=0)
    world.gang("g", 2, gpus=2, queue="queue", priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 4
    assert world.used("cq") == 4
    world.delete(*victims)
    world.run()
    assert len(world.where("g")) == 2
    assert world.used("cq") == 4


def test_what_goes_before_it_in_the_queues_is_not_taken_out_by_the_priority_of_pods():
    world = World()
    world.flavor()
    world.queue("cq", 8)
    world.node("n0", gpus=1)
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "high", "uid": "u"}, "value": 1000})
    world.workload("w", {"count": 1}, queueName="queue", priorityClassRef={"name": "high"})
    world.pod("w-0", workload="w")
    world.run()
    world.pod("plain", queue="queue", priority=5)
    world.run()
    assert evicted(world) == []
    assert world.where() == {"w-0": "n0"}


def test_what_is_decided_can_be_replayed():
    world = full(2)
    world.gang("g", 2, gpus=8, priority=10)
    world.run()
    world.delete(*evicted(world))
    world.run()
    assert len(world.where("g")) == 2
    assert world.replay().differences == []


def test_who_may_be_taken_out_since_its_pod_group_says_less_makes_room_at_once():
    """Nothing has become free: whoever waits for nodes has to be told."""
    for change in ("gone", "class"):
        for reserves in ({}, {"backfill": "Reserved"}):
            world = World()
            world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="high"), 100)))
            world.flavor()
            world.node("n0", gpus=2)
            world.queue("q", 8, **reserves)
            world.pod_group("g", 2, priorityClassName="high")
            for rank in range(2):
                world.pod(f"g-{rank}", group="g", priority=5 * rank)
            world.run()
            world.pod("head", gpus=2, priority=10, queue="queue")
            world.run()
            assert set(world.where()) == {"g-0", "g-1"}
            if change == "gone":
                world.remove_object("PodGroup", "g")
            else:
                world.pod_group("g", 2)
            world.run()
            assert set(world.where()) == {"head"}, (change, reserves)


def test_members_that_a_gang_comes_not_to_need_make_room_at_once():
    world = World()
    world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="low"), 0)))
    world.node("n0", gpus=3)
    world.pod_group("g", 3, disruptionMode="PodGroup", priorityClassName="low")
    for rank, priority in enumerate((20, 0, 0)):
        world.pod(f"g-{rank}", group="g", priority=priority)
    world.run()
    for rank in range(3):
        world.now += 1
        world.start(f"g-{rank}")
    world.pod("head", gpus=2, priority=10)
    world.run()
    assert len(world.where()) == 3
    world.pod_group("g", 1, disruptionMode="PodGroup", priorityClassName="low")
    world.run()
    assert set(world.where("g")) == {"g-0"}
    assert world.where("head") == {"head": "n0"}


@pytest.mark.parametrize("many", [3, 8])
def test_equal_pods_of_higher_priority_that_come_together_each_take_the_place_of_one(many):
    """A victim that the first waits for, and the second as well, is counted once by the third."""
    world = full()
    for number in range(many):
        world.pod(f"high-{number}", priority=10)
    world.run()
    assert len(set(evicted(world))) == len(evicted(world)) == many
    world.delete(*evicted(world))
    world.run()
    assert len(world.where("high")) == many
