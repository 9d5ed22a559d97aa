"""Who is tried when, and what is told of it: nothing is polled and nothing is said twice."""

from __future__ import annotations

import pytest

from tests.engine.world import START, World
from tutti.api.selectors import Taint
from tutti.engine.records.decisions import Bind, EmitEvent, Evict, PatchStatus, SetPodCondition
from tutti.engine.records.observations import Synced
from tutti.engine.records.workloads import Phase


def evaluated(world: World) -> int:
    return world.engine.evaluated


def test_nothing_is_decided_before_everything_has_been_listed():
    world = World(synced=False)
    world.node("n1")
    world.gang("g", 2)
    assert world.decide() == []
    assert world.engine.wakeup() is None
    world.tell(Synced())
    world.run()
    assert len(world.where()) == 2


def test_a_second_decision_with_nothing_new_writes_nothing():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.gang("g", 3, queue="queue")
    world.gang("h", 3, queue="queue")
    world.run()
    for _ in range(3):
        assert world.decide(advance=1.0) == []


def test_what_failed_is_not_tried_again_before_something_happens_that_can_help():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1", gpus=2)
    world.gang("short-of-nodes", 3)
    world.gang("short-of-quota", 5, queue="queue")
    world.pod_group("gathering", 2)
    world.pod("gathering-0", group="gathering")
    world.pod("no-such-queue", queue="nowhere")
    world.run()
    before = evaluated(world)
    world.node("n2", gpus=1, cordoned=True)  # wakes those that lack a node
    world.run()
    assert evaluated(world) == before + 1
    world.node("n2", gpus=1, cordoned=True)  # the same again
    world.pod("elsewhere", scheduler="default-scheduler", node="n1")  # takes room, gives none
    world.pod_group("another", 2)
    world.gang("another-gang", 1, cpu="1000")
    world.run()
    assert evaluated(world) == before + 3  # the two new ones
    world.until(100.0)
    assert evaluated(world) == before + 3


@pytest.mark.parametrize(
    ("help_", "woken"),
    [
        (lambda world: world.delete("running"), "p"),
        (lambda world: world.finish("running"), "p"),
        (lambda world: world.node("n2", gpus=1), "p"),
        (lambda world: world.node("n1", gpus=2), "p"),
    ],
    ids=["a pod is deleted", "a pod ends", "a node comes", "a node grows"],
)
def test_room_that_appears_wakes_what_waits_for_it(help_, woken):
    world = World()
    world.node("n1", gpus=1)
    world.pod("running")
    world.run()
    world.pod(woken)
    world.run()
    assert woken not in world.where()
    help_(world)
    world.run()
    assert woken in world.where()


def test_a_node_that_loses_a_taint_or_a_cordon_wakes_what_waits():
    world = World()
    world.node("n1", cordoned=True)
    world.pod("p")
    world.run()
    world.node("n1", taints=[Taint("k", "v", "NoSchedule")])
    world.run()
    assert world.where() == {}
    world.node("n1", labels={"a": "b"})
    world.run()
    assert world.where() == {"p": "n1"}


def test_one_event_for_each_changed_reason():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.gang("g", 3, queue="queue")
    world.until(60.0)
    world.node("n1", gpus=1)
    world.until(60.0)
    world.node("n2", gpus=1)
    world.until(60.0)
    events = world.events("FailedScheduling")
    assert [(e.kind, e.name, e.type, e.action) for e in events] == [("PodGroup", "g", "Warning", "Scheduling")]
    world.queue("cq", 2)
    world.run()
    assert [e.note for e in world.events("FailedScheduling")][1:] == [world.why("PodGroup", "g").message]


def test_a_changed_text_under_the_same_reason_is_told_seldom():
    world = World()
    world.node("n1", gpus=1)
    world.gang("g", 3)
    world.run()
    (first, *_) = [d.message for d in world.log if isinstance(d, SetPodCondition)]
    said = len(world.log)
    world.node("n2", gpus=1)
    world.run()
    assert not [d for d in world.log[said:] if isinstance(d, SetPodCondition | PatchStatus)]
    world.until(10.0)
    told = [d.message for d in world.log[said:] if isinstance(d, SetPodCondition)]
    assert len(told) == 3
    assert first not in told
    assert "2 node(s) with room for only 2 of 3" in told[0]


def test_explanations_carry_numbers():
    world = World()
    world.flavor()
    world.queue("cq", 4, cohort="c")
    world.queue("other", 2, cohort="c", local="other")
    world.node("n1", gpus=4)
    world.gang("running", 3, queue="queue")
    world.run()
    world.gang("g", 4, queue="queue")
    world.run()
    why = world.why("PodGroup", "g")
    assert why.message == (
        "ClusterQueue cq: needs 4 nvidia.com/gpu in default; 3 free now (1 of its own 4, 2 of 2 to borrow)"
    )
    assert why.details == {"default/nvidia.com/gpu": "needed=4 free=3 nominal=4 most=6"}
    world.gang("h", 2, queue="queue")
    world.run()
    why = world.why("PodGroup", "h")
    said = "0/1 nodes are available in flavor default: 1 node(s) with room for only 1 of 2 pods of the gang."
    assert why.message.startswith(said)
    assert why.details["fits"] == "1"
    (reason,) = world.status("PodGroup", "h")["pendingReason"]["reasons"]
    assert reason["message"] == why.plain
    assert "1 node with room for only 1 of 2 pods" in why.plain
    assert world.pod_condition("h-0").message == why.message


def test_a_pod_that_lacks_a_node_says_so_in_words_that_autoscalers_read():
    world = World()
    world.flavor()
    world.queue("cq", 1)
    world.node("n1", gpus=1)
    world.pod("lacks-node", gpus=2)
    world.pod("lacks-quota", gpus=2, queue="queue")
    world.run()
    assert world.pod_condition("lacks-node").reason == "Unschedulable"
    assert world.pod_condition("lacks-quota").reason == "ExceedsMaxQuota"


def test_a_gang_that_is_gathering_is_told_in_its_status_only():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.run()
    assert world.pod_condition("g-0") is None
    assert not [d for d in world.log if isinstance(d, EmitEvent)]
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "WaitingForMembers"


def test_the_status_follows_the_gang_through_its_life():
    world = World()
    world.node("n1")
    world.gang("g", 2)
    world.run()

    def conditions():
        return {c["type"]: c["status"] for c in world.status("PodGroup", "g")["conditions"]}

    assert conditions() == {"Scheduled": "True", "PodsReady": "False"}
    world.become_ready("g-0", "g-1")
    world.run()
    assert conditions() == {"Scheduled": "True", "PodsReady": "True"}
    world.finish("g-0", "g-1")
    world.run()
    assert conditions() == {"Scheduled": "True", "PodsReady": "True", "Finished": "True"}
    assert world.status("PodGroup", "g")["phase"] == "Finished"
    world.pod("g-2", group="g")
    world.run()
    assert conditions()["Finished"] == "False"


def test_an_object_made_anew_under_its_name_is_told_everything_anew():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1", gpus=1)
    world.gang("g", 2, queue="queue")
    world.run()
    for kind, name in (("PodGroup", "g"), ("LocalQueue", "queue")):
        told = world.status(kind, name)
        spec = world.objects[kind, "default", name]["spec"]
        world.remove_object(kind, name)
        world.object(kind, name, spec)
        world.run()
        assert set(world.status(kind, name)) == set(told)


def test_queues_say_how_many_wait_and_run_and_what_they_use():
    world = World()
    world.flavor()
    world.queue("cq", 3, cohort="c")
    world.queue("lender", 2, cohort="c", local="")
    world.node("n1")
    for name in ("a", "b", "c"):
        world.gang(name, 2, queue="queue")
    world.run()
    status = world.status("ClusterQueue", "cq")
    assert (status["pendingWorkloads"], status["admittedWorkloads"]) == (1, 2)
    usage = {r["name"]: r for r in status["flavorsUsage"][0]["resources"]}
    gpus = usage["nvidia.com/gpu"]
    assert {field: gpus[field] for field in ("total", "borrowed")} == {"total": "4", "borrowed": "1"}
    assert world.status("LocalQueue", "queue")["pendingWorkloads"] == 1


def test_time_is_what_the_engine_is_told():
    world = World()
    world.node("n1")
    world.gang("g", 1)
    world.run()
    assert world.engine.state.now == START
    assert world.condition("PodGroup", "g", "Scheduled")["lastTransitionTime"] == "1970-01-12T13:46:40Z"


def test_a_workload_that_is_gone_is_not_tried_when_its_backoff_ends():
    world = World()
    world.node("n1")
    world.outcomes["p"] = ["Failed"]
    world.pod("p")
    world.run()
    world.delete("p")
    world.run()
    assert world.engine.wakeup() is None
    world.pod("p")  # another of the same name
    world.until(5.0)
    assert world.where() == {"p": "n1"}


def test_of_unlike_surplus_members_one_is_bound_when_room_comes_for_it_though_another_lacks_quota():
    world = World()
    world.flavor()
    world.queue("cq", 2)
    world.node("full", gpus=1)
    world.pod_group("g", 1, queueName="queue")
    world.pod("g-0", group="g")
    world.run()
    world.pod("g-1", group="g", gpus=2)
    world.pod("g-2", group="g", gpus=1)
    world.run()
    assert world.where("g") == {"g-0": "full"}
    assert world.reason("PodGroup", "g") == "WaitingForQuota"
    world.node("new", gpus=1)
    world.run()
    assert world.where("g") == {"g-0": "full", "g-2": "new"}


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_turn_that_tries_only_some_goes_on_at_once_and_ends_as_one_that_tries_all(most, strategy):
    def played(tries):
        world = World()
        world.most = tries
        world.flavor()
        world.queue("cq", 9, queueingStrategy=strategy)
        for number in range(4):
            world.node(f"n{number}", gpus=4)
        for number in range(6):
            world.gang(f"g{number}", number % 3 + 1, queue="queue")
            world.pod(f"single-{number}", gpus=number % 2 + 1)
        world.gang("too-large", 20)
        world.run(turns=60)
        assert world.replay().differences == []
        whys = {key: one.explanation.reason for key, one in world.engine.state.workloads.items() if one.explanation}
        nodes = {name: pod.spec.node_name for (_, name), pod in world.pods.items()}
        assert any(nodes.values())
        assert whys
        return nodes, whys

    assert played(most) == played(None)


def test_whoever_is_left_for_the_next_turn_is_tried_without_anything_being_observed():
    world = World()
    world.most = 2
    world.node("n1", gpus=8)
    for number in range(5):
        world.pod(f"p{number}", cpu=f"{1 + number}")
    assert [sum(isinstance(one, Bind) for one in world.decide()) for _ in range(3)] == [2, 2, 1]
    assert world.engine.wakeup() != world.now


def test_of_equal_single_pods_four_use_a_turn_up_as_one_that_is_tried():
    world = World()
    world.most = 2
    world.node("n1", gpus=16)
    for number in range(12):
        world.pod(f"p{number:02}")
    assert [sum(isinstance(one, Bind) for one in world.decide()) for _ in range(3)] == [5, 5, 2]


def test_large_gangs_use_a_turn_up_sooner_than_small_ones():
    """Each of the two tries is as good as 16 pods."""
    world = World()
    world.most = 2
    for name in ("n0", "n1", "n2"):
        world.node(name, gpus=40)
    for number, size in enumerate((20, 20, 33, 1, 1)):
        world.gang(f"g{number}", size)
    assert [sum(isinstance(one, Bind) for one in world.decide()) for _ in range(3)] == [40, 33, 2]


def test_whoever_is_left_for_the_next_turn_stands_in_line_and_nothing_is_written_of_that():
    world = World()
    world.most = 2
    world.node("n1", gpus=8)
    for number in range(5):
        world.pod(f"p{number}", cpu=f"{1 + number}")
    world.decide()
    left = [one for one in world.engine.state.workloads.values() if one.phase is Phase.WAITING]
    assert [(one.explanation.gate, one.explanation.reason) for one in left] == [("Queue", "InLine")] * 3
    assert not [one for one in world.log if isinstance(one, SetPodCondition | EmitEvent) and "line" in str(one)]
    world.run()
    assert len(world.where()) == 5


def test_whoever_fits_is_reached_though_something_wakes_those_before_it_at_every_turn():
    world = World()
    world.most = 2
    for name in ("n0", "n1"):
        world.node(name)
    for number in range(8):
        world.pod(f"other-{number}", node="n0", scheduler="other")
    for number in range(9):
        world.pod(f"too-large-{number}", gpus=9 + number, priority=1)
    world.pod("small")
    for number in range(8):
        world.delete(f"other-{number}")
        world.decide()
    assert "small" in world.where()
    world.run()
    before = evaluated(world)
    world.node("n2")
    world.decide()
    assert evaluated(world) == before + 2  # as few in a turn as before
    assert world.replay().differences == []


def test_equal_ones_behind_a_head_with_victims_take_out_their_own_when_it_has_started():
    world = World()
    world.flavor()
    preempts = {"withinClusterQueue": "LowerPriority", "minimumRuntimeSeconds": 50}
    world.queue("cq", 4, preemption=preempts, queueingStrategy="StrictFIFO")
    world.node("n0", gpus=4)
    for number in range(4):
        world.pod(f"low-{number}", queue="queue")
    world.run()
    world.hold_evictions = True
    for name in ("first", "second"):
        world.pod(name, queue="queue", priority=10)
    world.until(60)
    assert world.reason("Pod", "first") == "WaitingForVictims"
    assert world.reason("Pod", "second") == "BehindHead"
    (victim,) = (one.name for one in world.log if isinstance(one, Evict))
    world.delete(victim)
    world.decide()
    assert "first" in world.where()
    told = [one.message for one in world.log if isinstance(one, SetPodCondition) and one.name == "second"]
    assert not any(victim in message for message in told)
    assert len({one.name for one in world.log if isinstance(one, Evict)}) == 2
