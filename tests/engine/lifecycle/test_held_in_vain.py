"""Who holds quota and nodes in vain has others go first the next time, whatever it is that does not come."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, resource_slice
from tests.engine.gangs_with_devices import with_devices
from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.lifecycle.test_volumes import gang, late
from tests.engine.world import World
from tutti.api.configuration import TuttiConfiguration
from tutti.cluster.devices.claims import BINDING_SECONDS

TURN = 60
"""For how long somebody holds what there is, in seconds; devices have a time of their own."""


def members_that_nobody_makes() -> World:
    world = World()
    world.flavor()
    world.queue("cq", gpus=8)
    world.node("n1", gpus=8)
    for name in ("first", "second"):
        world.workload(name, {"count": 8, "template": TEMPLATE}, queueName="queue", scheduleTimeoutSeconds=TURN)
    world.run()
    world.now += 1
    world.pod("well", queue="queue")
    return world


def approvals_that_nobody_gives() -> World:
    world = World(permit_timeout_seconds=TURN)
    world.node("n1", gpus=1)
    for name in ("first", "second"):
        world.pod(name, annotations={"scheduling.tutti.dev/admission-gate": "ask ops"})
    world.run()
    world.now += 1
    world.pod("well")
    return world


def volumes_that_nobody_makes() -> World:
    world = late(nodes=1, volume_binding_timeout_seconds=TURN)
    world.storage.held = True
    for name in ("first", "second"):
        gang(world, 1, name=name)
    world.run()
    world.now += 1
    world.pod("well")
    return world


def devices_that_never_get_ready() -> World:
    world = with_devices(nodes=0)
    world.node("n0", gpus=1)
    world.devices.put(resource_slice("n0", 1, bindingConditions=["ready"]))
    for name in ("first", "second"):
        world.devices.make_claim(name, asks_for(1))
        world.pod(name, gpus=1, device_claims=(name,))
    world.run()
    world.now += 1
    world.pod("well", gpus=1)
    return world


@pytest.mark.parametrize(
    "broken",
    [
        members_that_nobody_makes,
        approvals_that_nobody_gives,
        volumes_that_nobody_makes,
        devices_that_never_get_ready,
    ],
)
def test_two_that_cannot_start_do_not_keep_a_third_from_it_by_turns(broken):
    world = broken()
    world.run()
    assert world.where() == {}
    turn = BINDING_SECONDS if broken is devices_that_never_get_ready else TURN
    world.until(2.5 * (turn + 1.25 * TuttiConfiguration().backoff.max_seconds))
    assert list(world.where()) == ["well"]
    assert not world.replay().differences


def test_who_has_run_stands_where_it_stood_before():
    world = volumes_that_nobody_makes()
    world.until(2 * TURN + 5)
    assert world.where() == {"well": "n0"}
    world.finish("well")
    world.storage.held = False
    world.storage.bind("first-0", "second-0")
    world.until(TURN)
    started = list(world.where("first") or world.where("second"))
    assert len(started) == 1
    name = started[0].removesuffix("-0")
    assert world.engine.state.workloads["PodGroup", "default", name].in_vain_at == 0


def test_two_that_are_taken_out_because_they_cannot_be_bound_whole_do_not_either():
    """Whoever owns them makes again what was taken out."""
    world = World(bind_window_seconds=20)
    world.node("n1", gpus=2)
    for name in ("first", "second"):
        world.outcomes[f"{name}-1"] = ["Failed"] * 1000
        world.gang(name, 2)
    world.run()
    world.now += 1
    world.pod("well", gpus=2)
    for _ in range(60):
        world.until(1)
        for name in ("first", "second"):
            if (pod := ("default", f"{name}-0")) not in world.pods:
                world.pod(pod[1], group=name)
    assert "well" in world.where()
