"""What is heard of a claim that was written, in either order: whose workload is looked at again for it, and read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.devices import written
from tests.engine.gangs_with_devices import gang, with_devices
from tests.engine.world import World
from tutti.api.devices import ClaimConsumer, ResourceClaim
from tutti.engine.ingest.specs import reads_the_same
from tutti.engine.records.decisions import WriteDeviceClaim
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.engine.records.workloads import Phase

GANG = ("PodGroup", "default", "g")


def waiting(*, shared: str = "") -> tuple[World, list[WriteDeviceClaim]]:
    """A gang of two whose claims are being written, and what is to be written."""
    world = with_devices(nodes=2)
    world.devices.held = True
    gang(world, 2, count=4, shared=shared)
    world.run()
    assert world.engine.state.workloads[GANG].phase is Phase.RESERVED
    return world, [one for one in world.devices.lose_writes() if isinstance(one, WriteDeviceClaim)]


def answered(write: WriteDeviceClaim, version: str = "100", **more: Any) -> DeviceClaimWritten:
    """What the writer says of it."""
    about = (write.namespace, write.name, write.uid, write.change)
    return DeviceClaimWritten(*about, **{"done": True, "version": version, **more})


def as_written(world: World, write: WriteDeviceClaim, version: str = "100") -> ResourceClaim:
    """The claim as it is then."""
    claim = written(world.devices.claim(write.name), write)
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, resource_version=version))


@pytest.mark.parametrize("answer_first", [True, False])
def test_only_what_is_seen_of_a_written_claim_has_its_workload_looked_at(answer_first):
    """What was written counts once it is seen; and the same pods of the same objects ask for the same."""
    world, writes = waiting()
    state = world.engine.state
    for write in writes:
        if answer_first:
            world.tell(answered(write))
            assert not state.dirty
        world.tell(DeviceClaimSeen(as_written(world, write)))
        assert state.dirty == {GANG: True}
        assert reads_the_same(state, state.workloads[GANG])
        if write is writes[0]:
            world.run()
            assert world.where() == {}
            assert not state.dirty
    world.run()
    assert len(world.where()) == 2
    if not answer_first:
        for write in writes:
            world.tell(answered(write))
        assert not state.dirty


def test_a_write_that_failed_has_its_workload_looked_at():
    world, (first, _) = waiting()
    world.tell(answered(first, done=False, version="", message="no"))
    assert world.engine.state.dirty == {GANG: False}


def test_what_was_written_and_is_there_no_more_when_it_is_known_to_be_has_its_workload_looked_at():
    """Somebody has struck out the user before the answer came."""
    world, (first, _) = waiting()
    seen = as_written(world, first, "101")
    world.tell(
        DeviceClaimSeen(msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, reserved_for=[])))
    )
    world.run()
    assert not world.engine.state.dirty
    world.tell(answered(first))
    assert world.engine.state.dirty == {GANG: False}
    world.run()
    assert "is there no more" in world.why(*GANG[::2]).message


def test_who_came_to_share_a_claim_while_it_was_written_is_looked_at_when_that_is_known():
    world, (write,) = waiting(shared="both")
    world.pod("late", gpus=0, device_claims=("both",))
    world.run()
    state = world.engine.state
    assert state.workloads["Pod", "default", "late"].phase is Phase.RESERVED
    world.tell(DeviceClaimSeen(as_written(world, write)))
    world.run()
    assert set(world.where()) == {"g-0", "g-1"}
    assert not state.dirty
    world.tell(answered(write))
    assert set(state.dirty) == {("Pod", "default", "late")}
    world.run()
    joined = [one for one in world.devices.lose_writes() if isinstance(one, WriteDeviceClaim)]
    assert [one.pods for one in joined] == [(("late", world.pods["default", "late"].metadata.uid),)]


def test_a_pod_that_waits_for_a_node_is_read_again_when_its_claim_is_another():
    world = with_devices(nodes=0)
    gang(world, 2)
    world.run()
    world.tell(DeviceClaimSeen(seen_by_another(world, "g-0")))
    assert world.engine.state.dirty == {GANG: False}


def seen_by_another(world: World, name: str) -> ResourceClaim:
    """A claim that somebody else uses by now."""
    claim = world.devices.claim(name)
    users = [ClaimConsumer("", "pods", "other", "other")]
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users))
