"""What was reserved for somebody is reserved again by the next operator before it tries others, and for no longer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_approval import GATE
from tests.engine.world import World
from tutti.engine.records.plugins import Enabled, Reservation
from tutti.plugins import Rooms, Wait

BOTH_WAYS = pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
KINDS = ("pod", "PodGroup")


def awaits_approval(kind: str) -> World:
    """Two of two GPUs are reserved for one that asks for an approval; an older pod has come too late."""
    world = World(permit_timeout_seconds=60)
    world.flavor()
    world.queue("cq", 2)
    world.queue("other", 2, local="others", stopPolicy="Hold")
    world.node("n1", gpus=2)
    world.pod("older", queue="others")
    world.now += 1
    asks: dict[str, Any] = {"annotations": {GATE: "finance"}}
    if kind == "pod":
        world.pod("held", gpus=2, queue="queue", **asks)
    else:
        world.pod_group("held", 2, queueName="queue")
        for rank in range(2):
            world.pod(f"held-{rank}", group="held", **asks)
    world.run()
    other = world.objects["ClusterQueue", "", "other"]["spec"]
    world.object("ClusterQueue", "other", {**other, "stopPolicy": "None"})
    world.run()
    assert world.where() == {}
    return world


@BOTH_WAYS
@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_for_an_approval_has_its_reservation_again(kind, backwards):
    world = awaits_approval(kind)
    world.restart(backwards=backwards)
    world.run()
    assert world.where() == {}
    assert world.used("cq") == 2


def test_restarts_do_not_hold_the_reservation_of_a_gang_for_longer():
    world = awaits_approval("PodGroup")
    world.until(40)
    world.restart()
    world.until(18)
    assert world.reason("PodGroup", "held") == "WaitingForApproval"
    world.until(3)
    assert set(world.where()) == {"older"}


def test_a_restart_writes_nothing_new_of_a_reservation():
    world = awaits_approval("PodGroup")
    world.until(5)
    world.restart()
    written = [one for one in world.run() if type(one).__name__ in ("PatchStatus", "SetPodCondition")]
    assert written == []


class Slow:
    """A plugin that holds every reservation, for two minutes at the most, and is asked again every ten seconds."""

    def permit(self, reservation: Reservation, rooms: Rooms, now: float) -> Wait:
        return Wait("not yet", timeout_seconds=120.0, again_after_seconds=10.0)


def test_restarts_do_not_have_a_plugin_hold_a_reservation_for_longer():
    world = World(plugins={"tutti": [Enabled("slow", Slow())]})
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.until(90)
    world.restart()
    world.until(28)
    assert world.reason("PodGroup", "g") == "HeldByPlugin"
    world.until(3)
    assert world.reason("PodGroup", "g") == "PermitTimeout"


def test_a_gang_that_was_made_whole_is_no_younger_after_a_restart():
    """By the last of its pods it would be the youngest, and so the first that has to leave."""
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("own", 4, cohort="c", local="own", preemption={"reclaimWithinCohort": "Any"})
    world.queue("guest", 0, cohort="c", local="guest")
    world.node("n1", gpus=4)
    for name in ("old", "young"):
        world.pod_group(name, 2, queueName="guest")
        for rank in range(2):
            world.pod(f"{name}-{rank}", group=name)
        world.until(60)
    world.delete("old-1")
    world.pod("old-2", group="old")
    world.until(60)
    assert len(world.where("old")) == 2
    world.restart()
    world.run()
    world.pod("mine", gpus=2, queue="own")
    world.run()
    assert {name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp} == {"young-0", "young-1"}
