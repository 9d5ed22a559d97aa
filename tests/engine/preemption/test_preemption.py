"""Pods of lower priority make room for a workload, if all of it fits then; the room is held until it is bound."""

from __future__ import annotations

import pytest

from tests.engine.preemption.full_nodes import evicted, full
from tests.engine.world import World, replaced
from tutti.api.core import ObjectName
from tutti.api.limits import DisruptionBudgetSpec, DisruptionBudgetStatus, PodDisruptionBudget
from tutti.api.selectors import LabelSelector
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import BudgetSeen


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
