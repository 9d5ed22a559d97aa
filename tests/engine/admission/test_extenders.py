"""HTTP extenders in the engine: asked once per class, their answers are masks and scores, and failures are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import GPU, World
from tutti.engine.records.decisions import AskExtender
from tutti.engine.records.observations import ExtenderAnswered

URL, OTHER = "http://first", "http://second"
FILTER: dict[str, Any] = {"urlPrefix": URL, "filterVerb": "filter"}
SCORE: dict[str, Any] = {"urlPrefix": OTHER, "prioritizeVerb": "prioritize", "weight": 1}


def extended(*extenders: dict[str, Any], nodes: int = 3, gpus: int = 2, **more: Any) -> World:
    world = World(extenders=list(extenders or (FILTER,)), **more)
    for i in range(nodes):
        world.node(f"n{i}", gpus=gpus)
    return world


def asked(world: World) -> AskExtender:
    (ask,) = world.asks
    return ask


def tell(world: World, *nodes: str, ask: AskExtender | None = None, **answer: Any) -> None:
    """Answer an ask, the only one if none is named, and let the engine go on."""
    ask = ask or asked(world)
    world.asks.remove(ask)
    world.tell(ExtenderAnswered(ask.ask, list(nodes), **answer))
    world.run()


def test_a_gang_is_asked_about_once_with_the_nodes_that_pass_our_own_filters():
    world = extended()
    world.node("cordoned", cordoned=True)
    world.node("full", gpus=0)
    world.gang("g", 4)
    world.run()
    ask = asked(world)
    assert (ask.extender, ask.verb, ask.name, ask.uid) == (
        URL,
        "filter",
        "g-0",
        world.pods["default", "g-0"].metadata.uid,
    )
    assert ask.nodes == ["n0", "n1", "n2"]
    why = world.why("PodGroup", "g")
    assert (why.gate.value, why.reason) == ("Placement", "WaitingForExtender")
    assert world.events("FailedScheduling") == []
    tell(world, "n0", "n2")
    assert set(world.where().values()) == {"n0", "n2"}
    assert len(world.where()) == 4
    assert world.asks == []
    assert world.replay().differences == []


def test_what_it_rules_out_is_told_in_its_own_words():
    world = extended()
    world.pod("a")
    world.run()
    tell(world, failed={"n0": "no licence"}, unresolvable={"n1": "wrong model", "n2": "wrong model"})
    why = world.why("Pod", "a")
    assert why.message.startswith("0/3 nodes are available: 1 no licence, 2 wrong model.")
    assert why.pod_reason == "Unschedulable"
    assert world.replay().differences == []


def test_a_node_that_it_does_not_mention_is_ruled_out():
    world = extended(nodes=1)
    world.pod("a")
    world.run()
    tell(world)
    assert f"1 node(s) ruled out by extender {URL}" in world.why("Pod", "a").message


def test_extenders_filter_one_after_the_other_and_score_together():
    second = {**SCORE, "filterVerb": "filter"}
    third = {"urlPrefix": "http://third", "prioritizeVerb": "rank", "weight": 3}
    world = extended(FILTER, second, third)
    world.pod("a")
    world.run()
    tell(world, "n0", "n1", "n2")
    assert (asked(world).extender, asked(world).verb) == (OTHER, "filter")
    tell(world, "n1", "n2")
    assert [(ask.extender, ask.verb, ask.nodes) for ask in world.asks] == [
        (OTHER, "prioritize", ["n1", "n2"]),
        ("http://third", "prioritize", ["n1", "n2"]),
    ]
    tell(world, ask=world.asks[0], scores={"n1": 10, "n2": 1})
    assert world.where() == {}
    tell(world, scores={"n1": 0, "n2": 10})
    assert world.where() == {"a": "n2"}
    assert world.replay().differences == []


@pytest.mark.parametrize(("weight", "best"), [(1, "n1"), (100, "n0")])
def test_a_score_counts_ten_times_its_weight(weight, best):
    """schedule_one.go: score * weight * MaxNodeScore / MaxExtenderPriority."""
    world = extended({**SCORE, "weight": weight}, nodes=2)
    world.pod("filler", cpu="50", memory="400Gi", node="n0", gpus=0)
    world.pod("a")
    world.run()
    tell(world, scores={"n0": 1})
    assert world.where("a") == {"a": best}


def test_with_one_node_left_nothing_is_scored():
    world = extended(SCORE, nodes=1)
    world.pod("a")
    world.run()
    assert world.asks == []
    assert world.where() == {"a": "n0"}


def test_pods_that_ask_for_nothing_it_manages_are_not_its_business():
    world = extended({**FILTER, "managedResources": [{"name": GPU}]})
    world.pod("plain", gpus=0)
    world.run()
    assert set(world.where()) == {"plain"}
    world.pod("a")
    world.run()
    assert asked(world).name == "a"


def test_a_resource_that_it_alone_counts_is_not_counted_here():
    world = extended(
        {**FILTER, "managedResources": [{"name": "example.com/slice", "ignoredByScheduler": True}]}, nodes=0
    )
    world.node("n0")
    pod = world.pod("a")
    from tests.engine.world import replaced

    container = replaced(
        pod.spec.containers[0],
        resources=replaced(pod.spec.containers[0].resources, requests={"cpu": "1", "example.com/slice": "1"}),
    )
    world.put(replaced(pod, spec=replaced(pod.spec, containers=[container])))
    world.run()
    assert asked(world).nodes == ["n0"]
    tell(world, "n0")
    assert world.where() == {"a": "n0"}


def test_without_a_node_of_ours_nobody_is_asked():
    world = extended(gpus=0)
    world.pod("a")
    world.run()
    assert world.asks == []
    assert "Insufficient nvidia.com/gpu" in world.why("Pod", "a").message


def test_a_failure_is_told_and_it_is_asked_again_after_a_while():
    world = extended()
    world.pod("a")
    world.run()
    tell(world, error="it broke")
    why = world.why("Pod", "a")
    assert (why.reason, why.pod_reason) == ("ExtenderFailed", "ExtenderFailed")
    assert URL in why.message
    assert "it broke" in why.message
    assert world.asks == []
    waits = []
    for _ in range(4):
        waits.append(world.engine.wakeup() - world.now)
        world.until(waits[-1])
        tell(world, error="it broke")
    assert waits == sorted(waits)
    assert 1 <= waits[0] <= 1.25
    assert 8 <= waits[3] <= 10
    world.until(12.5)
    tell(world, "n1")
    assert world.where() == {"a": "n1"}
    assert world.replay().differences == []


def test_the_failure_of_one_that_may_be_ignored_is():
    world = extended({**FILTER, "ignorable": True}, {**FILTER, "urlPrefix": OTHER})
    world.pod("a")
    world.run()
    tell(world, error="it broke")
    assert (asked(world).extender, asked(world).nodes) == (OTHER, ["n0", "n1", "n2"])
    tell(world, "n1")
    assert world.where() == {"a": "n1"}


def test_a_failure_to_score_is_ignored():
    """schedule_one.go, prioritizeNodes: others then decide."""
    world = extended(SCORE)
    world.pod("a")
    world.run()
    tell(world, error="it broke")
    assert len(world.where()) == 1


def test_a_node_that_it_was_not_asked_about_is_a_failure():
    world = extended()
    world.pod("a")
    world.run()
    tell(world, "n0", "elsewhere")
    assert world.reason("Pod", "a") == "ExtenderFailed"
    assert "elsewhere" in world.why("Pod", "a").message


def test_workloads_of_one_class_share_an_answer_and_it_is_asked_again_once_room_was_taken():
    world = extended()
    world.gang("g", 2)
    world.gang("h", 2)
    world.run()
    assert len(world.asks) == 1
    tell(world, "n0", "n1")
    assert set(world.where()) == {"g-0", "g-1"}
    assert world.reason("PodGroup", "h") == "WaitingForExtender"
    tell(world, "n0", "n1")
    assert len(world.where()) == 4


def test_an_answer_holds_while_nothing_of_it_has_changed():
    world = extended(nodes=1)
    world.gang("g", 3)
    world.run()
    tell(world, "n0")
    assert world.reason("PodGroup", "g") == "Unschedulable"
    world.gang("h", 3)
    world.run()
    assert world.asks == []
    assert world.reason("PodGroup", "h") == "Unschedulable"


def test_what_it_manages_not_counts_as_unchanged():
    world = extended({**FILTER, "managedResources": [{"name": GPU}]}, nodes=1)
    world.gang("g", 3)
    world.run()
    tell(world, "n0")
    world.pod("plain", gpus=0)
    world.run()
    world.delete("plain")
    world.run()
    assert world.asks == []


def test_a_node_that_came_while_it_was_asked_is_asked_about_in_turn():
    world = extended(nodes=1)
    world.gang("g", 4)
    world.run()
    world.node("late", gpus=2)
    world.run()
    tell(world, "n0")
    assert asked(world).nodes == ["n0", "late"]
    tell(world, "n0", "late")
    assert len(world.where()) == 4
    assert world.replay().differences == []


def test_an_answer_that_has_just_come_is_good_though_something_has_changed():
    world = extended(nodes=2)
    world.pod("a")
    world.run()
    world.pod("other", gpus=0, node="n1", scheduler="default")
    world.run()
    tell(world, "n0", "n1")
    assert len(world.where("a")) == 1


def test_looking_for_more_than_is_required_uses_no_answer_up():
    """A random history found it: what had been got for the required pods could not be had once more."""
    world = extended(gpus=1)
    world.pod_group("g", 2)
    for name in ("g-0", "g-1", "g-2", "g-3"):
        world.pod(name, group="g")
    world.run()
    ask = asked(world)
    world.node("n2", gpus=1, cordoned=True)
    tell(world, "n0", "n1", "n2", ask=ask)
    assert set(world.where().values()) == {"n0", "n1"}
    assert world.replay().differences == []


def test_a_pod_that_went_meanwhile_is_replaced_by_another_of_its_class():
    world = extended()
    world.pod("a")
    world.pod("b")
    world.run()
    ask = asked(world)
    world.delete(ask.name)
    world.run()
    tell(world, gone=True)
    assert asked(world).name == "b"
    tell(world, "n0")
    assert world.where() == {"b": "n0"}


def test_of_a_gang_that_is_only_promised_it_gets_a_pod_as_it_would_be():
    world = extended()
    world.flavor()
    world.queue("cq", 8)
    world.workload("w", {"count": 2, "template": TEMPLATE}, queueName="queue")
    world.run()
    ask = asked(world)
    assert (ask.name, ask.stand_in.metadata.namespace) == ("", "default")
    assert ask.stand_in.spec.containers[0].resources.requests[GPU] == "1"
    tell(world, "n0")
    assert world.reason("Workload", "w") == "WaitingForMembers"


def test_roles_are_asked_about_at_the_same_time():
    world = extended()
    world.workload("w", {"name": "leader", "count": 1}, {"name": "worker", "count": 2})
    world.pod("lead", workload="w", group="leader", cpu="4")
    for rank in range(2):
        world.pod(f"work-{rank}", workload="w", group="worker")
    world.run()
    assert len(world.asks) == 2
    for ask in tuple(world.asks):
        tell(world, "n0", "n1", ask=ask)
    assert len(world.where()) == 3


def test_a_surplus_member_waits_for_its_own_answer():
    world = extended(nodes=2)
    world.gang("g", 2)
    world.run()
    tell(world, "n0")
    world.pod("g-2", group="g")
    world.run()
    tell(world, "n1")
    assert world.where()["g-2"] == "n1"


def test_of_several_flavors_the_first_is_asked_about_before_the_second_is_tried():
    world = World(extenders=[FILTER])
    world.flavor("fast", nodeLabels={"speed": "fast"})
    world.flavor("slow", nodeLabels={"speed": "slow"})
    world.queue("cq", 8, flavors=("fast", "slow"))
    world.node("f", labels={"speed": "fast"})
    world.node("s", labels={"speed": "slow"})
    world.gang("g", 2, queue="queue")
    world.run()
    assert asked(world).nodes == ["f"]
    tell(world)
    assert asked(world).nodes == ["s"]
    assert world.used("cq", "fast") == world.used("cq", "slow") == 0
    tell(world, "s")
    assert set(world.where().values()) == {"s"}
    assert world.used("cq", "slow") == 2
    assert world.replay().differences == []


def test_an_answer_of_an_earlier_life_is_not_taken():
    world = extended()
    world.pod("a")
    world.run()
    old = asked(world)
    world.asks.clear()
    world.restart()
    world.run()
    new = asked(world)
    world.tell(ExtenderAnswered(old.ask + 100, ["n0"]))
    world.run()
    assert world.where() == {}
    tell(world, "n1", ask=new)
    assert world.where() == {"a": "n1"}


def test_the_condition_of_a_gang_says_that_an_extender_is_asked_until_the_last_has_answered():
    world = extended(FILTER, SCORE)
    world.gang("g", 2)
    world.run()
    asking = world.condition("PodGroup", "g", "Scheduled")
    assert (asking["status"], asking["reason"]) == ("False", "WaitingForExtender")
    assert asking["message"] == "an HTTP extender has been asked about its pods"
    tell(world, "n0", "n1")
    assert world.condition("PodGroup", "g", "Scheduled") == asking
    tell(world, scores={"n0": 1})
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "Scheduled"
    assert world.replay().differences == []
