"""A complete reservation is held until an annotation that asks for an approval is taken off."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE, free
from tests.engine.world import World

GATE = "scheduling.tutti.dev/admission-gate"


def held(**spec: Any) -> World:
    world = World()
    world.flavor()
    world.queue("cq", 8)
    world.node("n1", gpus=8)
    world.workload("w", {"count": 2, "template": TEMPLATE}, queueName="queue", scheduleTimeoutSeconds=30, **spec)
    return world


def annotate(world: World, kind: str, name: str, *, gate: str) -> None:
    """Ask for an approval on an object, or (with an empty text) no longer."""
    found = world.objects[kind, "default", name]
    meta = {**found["metadata"], "annotations": {GATE: gate} if gate else {}}
    world.put_object(kind, {**found, "metadata": meta})


def test_a_workload_holds_quota_and_room_until_it_is_approved():
    world = held()
    annotate(world, "Workload", "w", gate="finance")
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    assert world.where() == {}
    assert (world.used("cq"), free(world)) == (2, 6)
    why = world.why("Workload", "w")
    assert (why.gate, why.reason, why.details) == ("Permit", "WaitingForApproval", {"gate": "finance"})
    assert why.message == (
        "quota and nodes are reserved; Workload w asks for an approval (finance): take annotation "
        "scheduling.tutti.dev/admission-gate off to let it go (given back after 30 s)"
    )
    assert world.condition("Workload", "w", "Admitted")["status"] == "True"
    world.until(29)
    annotate(world, "Workload", "w", gate="")
    world.run()
    assert len(world.where()) == 2
    assert len(world.events("WaitingForApproval")) == 1


def test_an_approval_that_does_not_come_gives_everything_back_with_one_event_and_a_growing_backoff():
    world = held()
    annotate(world, "Workload", "w", gate="finance")
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    world.decide(advance=30)
    assert (world.used("cq"), free(world)) == (0, 8)
    assert world.reason("Workload", "w") == "PermitTimeout"
    (event,) = world.events("PermitTimeout")
    assert "not approved in time" in event.note
    assert world.now < world.engine.wakeup() <= world.now + 1.25
    world.until(2)
    assert world.used("cq") == 2  # reserved anew
    annotate(world, "Workload", "w", gate="")
    world.run()
    assert len(world.where()) == 2


def test_members_that_are_promised_and_an_approval_are_waited_for_in_one_time():
    world = held()
    annotate(world, "Workload", "w", gate="finance")
    world.pod("w-0", workload="w")
    world.run()
    assert world.reason("Workload", "w") == "WaitingForMembers"
    world.until(20)
    world.pod("w-1", workload="w")
    world.run()
    assert world.reason("Workload", "w") == "WaitingForApproval"
    assert "given back after 10 s" in world.why("Workload", "w").message
    world.until(11)
    assert len(world.events("PermitTimeout")) == 1


@pytest.mark.parametrize("on", ["PodGroup", "Pod"])
def test_a_gang_or_any_of_its_pods_may_ask_for_the_approval(on):
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    if on == "PodGroup":
        annotate(world, "PodGroup", "g", gate="me")
    world.pod("g-0", group="g")
    asking = world.pod("g-1", group="g", annotations={GATE: "me"} if on == "Pod" else {})
    world.run()
    assert world.where() == {}
    assert world.reason("PodGroup", "g") == "WaitingForApproval"
    if on == "PodGroup":
        annotate(world, "PodGroup", "g", gate="")
    else:
        meta = msgspec.structs.replace(asking.metadata, annotations={})
        world.put(msgspec.structs.replace(asking, metadata=meta))
    world.run()
    assert len(world.where()) == 2


def test_whoever_asks_still_is_named_when_another_has_approved():
    world = held()
    annotate(world, "Workload", "w", gate="finance")
    world.pod("w-0", workload="w", annotations={GATE: "legal"})
    world.pod("w-1", workload="w")
    world.run()
    world.until(10)
    annotate(world, "Workload", "w", gate="")
    world.run()
    why = world.why("Workload", "w")
    assert why.details == {"gate": "legal"}
    assert "pod w-0 asks for an approval (legal)" in why.message
    assert "(given back after 20 s)" in why.message
    world.until(20)
    assert world.reason("Workload", "w") == "PermitTimeout"


def test_a_pod_group_of_a_workload_may_ask_for_the_approval():
    world = held()
    world.pod_group("part", 2, workloadRef={"name": "w", "podGroup": "main"})
    annotate(world, "PodGroup", "part", gate="me")
    world.pod("w-0", workload="w")
    world.pod("w-1", workload="w")
    world.run()
    assert "PodGroup part asks for an approval (me)" in world.why("Workload", "w").message
    annotate(world, "PodGroup", "part", gate="")
    world.run()
    assert len(world.where()) == 2


def test_a_member_that_joins_a_running_gang_needs_no_approval():
    world = World()
    world.node("n1")
    world.gang("g", 2)
    world.run()
    world.pod("g-2", group="g", annotations={GATE: "me"})
    world.run()
    assert len(world.where()) == 3


@pytest.mark.parametrize(
    ("gang", "queue", "seconds"),
    [(7, 9, 7), (7, None, 7), (None, 9, 9), (None, None, 11)],
)
def test_the_timeout_is_that_of_the_gang_or_else_the_queue_or_else_the_configuration(gang, queue, seconds):
    world = World(permitTimeoutSeconds=11)
    world.flavor()
    world.queue("cq", 8, **({"scheduleTimeoutSeconds": queue} if queue else {}))
    world.node("n1")
    own = {"scheduleTimeoutSeconds": gang} if gang else {}
    world.workload("w", {"count": 1, "template": TEMPLATE}, queueName="queue", **own)
    world.run()
    assert world.why("Workload", "w").details["timeoutSeconds"] == str(seconds)
    world.until(seconds - 1)
    assert not world.events("PermitTimeout")
    world.until(1)
    assert len(world.events("PermitTimeout")) == 1


@pytest.mark.parametrize("queues", [True, False], ids=["by the rules of its queue", "by the priority of its pods"])
def test_nobody_is_taken_out_for_what_is_not_approved(queues: bool):
    """Its victims used to leave, it was not approved in time, and when they had come back it had them leave again."""
    world = World()
    world.flavor()
    world.queue("cq", 8, preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n1", gpus=8)
    queue = {"queueName": "queue"} if queues else {}
    world.workload("low", {"count": 8}, **queue)
    for rank in range(8):
        world.pod(f"low-{rank}", workload="low")
    world.run()
    world.workload("high", {"count": 2}, **queue, priority=10, scheduleTimeoutSeconds=30)
    annotate(world, "Workload", "high", gate="finance")
    for rank in range(2):
        world.pod(f"high-{rank}", workload="high", priority=10)
    world.until(100)
    assert len(world.where("low")) == 8
    assert world.reason("Workload", "high") != "WaitingForApproval"
    assert world.why("Workload", "high").message.endswith(
        "; nobody is taken out for it while Workload high asks for an approval (annotation "
        "scheduling.tutti.dev/admission-gate)"
    )
    annotate(world, "Workload", "high", gate="")
    world.run()
    assert len(world.where("high")) == 2
