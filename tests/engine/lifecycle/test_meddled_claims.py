"""Claims that somebody changes, forges or removes at any moment: one gang is concerned, and no device is promised twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.gangs_with_devices import gang, with_devices
from tests.engine.world import World
from tutti.api.devices import ClaimConsumer, ResourceClaim
from tutti.engine.lifecycle.device_pools import GRACE_SECONDS

NAME = "g-0"
Meddle = Callable[[World], None]


def changed(world: World, name: str, **status: Any) -> None:
    """Write some fields of the status of a claim."""
    claim = world.devices.claim(name)
    known = msgspec.to_builtins(claim.status)
    raw = {**known, **status}
    world.devices.put(msgspec.structs.replace(claim, status=msgspec.convert(raw, type(claim.status))))


def allocation(*devices: str, pool: str = "n0", driver: str = DRIVER, **more: Any) -> dict[str, Any]:
    """An allocation of some devices of a pool."""
    results = [{"request": "r", "driver": driver, "pool": pool, "device": one} for one in devices]
    return {"devices": {"results": results}, **more}


def gone(world: World) -> None:
    world.devices.drop("ResourceClaim", NAME)


def leaving(world: World) -> None:
    claim = world.devices.claim(NAME)
    meta = msgspec.structs.replace(claim.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    world.devices.put(msgspec.structs.replace(claim, metadata=meta))


def emptied(world: World) -> None:
    world.devices.free(NAME)


def unreserved(world: World) -> None:
    changed(world, NAME, reservedFor=[])


def of_others(world: World) -> None:
    users = [{"resource": "pods", "name": f"other-{i}", "uid": f"other-{i}"} for i in range(256)]
    changed(world, NAME, allocation=allocation("gpu-3"), reservedFor=users)


def forged(world: World) -> None:
    changed(world, NAME, allocation=allocation("gpu-99", "gpu-98", pool="nowhere", driver="other.example.org"))


def taken_from_neighbour(world: World) -> None:
    changed(world, NAME, allocation=allocation("gpu-1", pool="n1"))


def empty_results(world: World) -> None:
    changed(world, NAME, allocation={"devices": {}})


def nowhere(world: World) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["no-such-node"]}]}
    changed(world, NAME, allocation=allocation("gpu-2", nodeSelector={"nodeSelectorTerms": [term]}))


def absurd(world: World) -> None:
    huge = {"requests": "9" * 300, "memory": "-1e400"}
    results = [
        {"request": "ß" * 5000, "driver": DRIVER, "pool": "n0", "device": "\u202egpu-0", "consumedCapacity": huge},
        {"request": "", "driver": "", "pool": "", "device": "", "shareID": "\x00" * 100},
    ]
    changed(world, NAME, allocation={"devices": {"results": results}})


def another(world: World) -> None:
    """Somebody removes the claim, and makes another under its name that asks for more."""
    world.devices.drop("ResourceClaim", NAME)
    raw = {"metadata": {"name": NAME, "namespace": "default", "uid": "another"}, "spec": asks_for(2)}
    world.devices.put(decoded(raw, ResourceClaim))


MEDDLING: list[Meddle] = [
    *(gone, leaving, emptied, unreserved, of_others, forged, taken_from_neighbour, empty_results, nowhere),
    *(absurd, another),
]


def while_written(world: World) -> None:
    """Its claims are chosen, and one of two is written."""
    world.devices.held = True
    gang(world, 2, count=1)
    world.run()
    world.devices.held = False
    world.devices._waiting, rest = world.devices._waiting[:1], world.devices._waiting[1:]
    world.devices.write()
    world.devices._waiting = rest


def before_the_bind(world: World) -> None:
    """Its claims are written, and the operator dies before its pods are bound."""
    world.hold_binds = True
    gang(world, 2, count=1)
    world.run()
    world.hold_binds = False
    world.restart()


def bound(world: World) -> None:
    """It runs."""
    gang(world, 2, count=1)
    world.run()
    world.start(*world.where())


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("moment", [while_written, before_the_bind, bound])
@pytest.mark.parametrize("meddle", MEDDLING)
def test_whoever_meddles_with_a_claim_everybody_else_goes_on_and_no_device_is_given_twice(
    meddle: Meddle, moment: Meddle, restarts: bool
):
    world = with_devices(nodes=2, count=4)
    moment(world)
    ran = world.where("g-")
    meddle(world)
    given = len(world.devices.written)
    if restarts:
        world.devices.lose_writes()
        world.restart()
    world.devices.write()
    gang(world, 2, count=1, name="next")
    world.until(200)

    assert len(world.where("next-")) == 2
    assert world.where("g-").items() >= ran.items()
    ours = [one for decision in world.devices.written[given:] for one in _chosen(decision)]
    held = world.devices.taken()
    assert all(held.count(one) == 1 for one in set(ours) if one in held)
    if len(world.where("g-")) < 2:
        why = world.why("PodGroup", "g")
        assert why is not None
        assert why.message
    if not restarts:
        assert not world.replay().differences


def _chosen(decision: Any) -> list[str]:
    if getattr(decision, "change", "") != "allocate":
        return []
    return [f"{one.pool}/{one.device}" for one in decision.allocation.devices.results]


@pytest.mark.parametrize("meddle", [gone, leaving, emptied, unreserved, another])
def test_a_claim_that_changes_while_its_gang_waits_is_read_anew(meddle: Meddle):
    world = with_devices(nodes=1, count=1)
    gang(world, 2, count=1)
    world.run()
    assert world.where() == {}
    meddle(world)
    world.node("n1", gpus=0)
    world.devices.put(resource_slice("n1", 4))
    world.until(100)

    if meddle in (gone, leaving):
        assert world.where() == {}
        said = "could not find ResourceClaim" if meddle is gone else "is being deleted"
        assert said in world.why("PodGroup", "g").message
    else:
        assert len(world.where()) == 2
        assert len(world.devices.results(NAME)) == (2 if meddle is another else 1)


def test_a_driver_that_comes_back_with_other_names_gives_nothing_twice():
    """The devices of the old names are in use still; nobody knows which of the new ones they are."""
    world = with_devices(nodes=1, count=2)
    gang(world, 1, count=1)
    world.run()
    old = world.devices.results(NAME)
    world.devices.drop("ResourceSlice", f"n0-{DRIVER}")
    world.restart()
    gang(world, 1, count=1, name="waits")
    world.until(2 * GRACE_SECONDS)
    assert world.where("waits-") == {}
    raw = msgspec.to_builtins(resource_slice("n0", 2))
    raw["spec"]["devices"] = [{**one, "name": f"new-{at}"} for at, one in enumerate(raw["spec"]["devices"])]
    world.devices.put(msgspec.convert(raw, type(resource_slice("n0", 1))))
    world.until(4 * GRACE_SECONDS)

    assert world.where("waits-") == {"waits-0": "n0"}
    assert world.devices.results("waits-0")[0].startswith("n0/new-")
    assert world.devices.results(NAME) == old
    notes = [one.note for one in world.events("ResourcePoolInTrouble") if one.kind == "ResourceClaim"]
    assert any("gpu-0 is allocated" in note for note in notes), notes


def test_a_claim_reserved_for_somebody_unknown_is_shared_and_told_of_nothing():
    world = with_devices(nodes=1, count=1)
    world.devices.make_claim("mine", asks_for(1))
    changed(world, "mine", allocation=allocation("gpu-0"))
    claim = world.devices.claim("mine")
    users = [ClaimConsumer("", "pods", "unknown", "unknown")]
    world.devices.put(msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users)))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()

    assert world.where() == {"p": "n0"}
    assert [one.name for one in world.devices.claim("mine").status.reserved_for] == ["unknown", "p"]


def test_a_class_that_is_taken_away_stops_those_who_wait_and_nobody_else():
    world = with_devices(nodes=1, count=2)
    gang(world, 1, count=1)
    world.run()
    world.devices.drop("DeviceClass", "gpu")
    gang(world, 1, count=1, name="late")
    world.pod("plain", gpus=0)
    world.until(30)
    assert set(world.where()) == {NAME, "plain"}
    assert "device class gpu does not exist" in world.why("PodGroup", "late").message
    world.devices.put(device_class())
    world.until(60)

    assert "late-0" in world.where()


def test_who_is_placed_anew_asks_for_what_its_claim_needs_by_then():
    """Its claim lost its devices while a bind was under way, and then its node went: it is not tried with what it had."""
    world = with_devices(nodes=2)
    world.devices.make_claim("mine", asks_for(2))
    world.pod("first", gpus=0, device_claims=("mine",))
    world.run()
    world.delete("first")  # and leaves the claim its devices
    world.hold_binds = True
    world.pod("next", gpus=0, device_claims=("mine",))
    world.run()
    (bind,) = world.pending_binds
    world.devices.free("mine")
    world.run()
    world.remove_node(bind.node)
    world.hold_binds = False
    world.answer(bind, "Failed")
    world.decide(2.0)  # a fault would be raised here
    world.until(60)

    assert world.where("next") == {"next": ({"n0", "n1"} - {bind.node}).pop()}
    assert {one.partition("/")[0] for one in world.devices.results("mine")} == set(world.where("next").values())
    assert not world.replay().differences


def lost(world: World) -> list[tuple[str, str]]:
    return [(one.name, one.note) for one in world.events("DeviceClaimLost")]


@pytest.mark.parametrize(
    ("meddle", "said"),
    [
        (gone, "does not exist any more"),
        (emptied, "has no devices any more"),
        (another, "has no devices any more"),
        (unreserved, "is not reserved for it any more"),
        (of_others, "is not reserved for it any more"),
    ],
)
def test_who_runs_with_a_claim_that_is_not_its_own_any_more_is_told_so_once(meddle: Meddle, said: str):
    world = with_devices(nodes=2, count=4)
    bound(world)
    meddle(world)
    world.until(GRACE_SECONDS - 5)
    assert lost(world) == []
    world.until(3 * GRACE_SECONDS)
    [(name, note)] = lost(world)
    assert name == "g-0"
    assert f"ResourceClaim {NAME}, with whose devices it runs, {said}" in note
    assert len(world.where("g-")) == 2
    assert not world.replay().differences


@pytest.mark.parametrize("meddle", [gone, emptied, another, unreserved, of_others])
def test_what_befell_claims_while_nobody_was_there_is_told_as_well(meddle: Meddle):
    world = with_devices(nodes=2, count=4)
    bound(world)
    meddle(world)
    world.restart()
    world.until(3 * GRACE_SECONDS)
    assert [name for name, _ in lost(world)] == ["g-0"]
    assert not world.replay().differences


def test_who_runs_with_a_device_that_another_claim_is_given_is_told_so():
    world = with_devices(nodes=2, count=4)
    bound(world)
    (theirs,) = world.devices.results("g-1")
    pool, _, device = theirs.partition("/")
    changed(world, NAME, allocation=allocation(device, pool=pool))
    world.until(2 * GRACE_SECONDS)
    [(name, note)] = lost(world)
    assert name == "g-0"
    assert f"has device {DRIVER}/{theirs}, as another claim has" in note


def test_whose_claim_is_put_right_in_time_or_goes_with_its_pod_is_told_nothing():
    world = with_devices(nodes=2, count=4)
    bound(world)
    claim = world.devices.claim(NAME)
    emptied(world)
    world.until(GRACE_SECONDS / 2)
    world.devices.put(claim)
    world.until(2 * GRACE_SECONDS)
    world.delete("g-0", "g-1")
    world.run()
    for name in ("g-0", "g-1"):
        world.devices.drop("ResourceClaim", name)
    world.until(2 * GRACE_SECONDS)
    assert lost(world) == []


def test_a_pool_that_stays_between_two_generations_gives_nothing_and_takes_nothing_away():
    """Its driver died while it wrote the next generation: who runs there runs on, others wait or go elsewhere."""
    world = with_devices(nodes=2, count=2)
    gang(world, 1, count=1)
    world.run()
    (node,) = world.where("g-").values()
    raw = msgspec.to_builtins(resource_slice(node, 2))
    raw["metadata"]["name"] = "next"
    raw["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
    half = msgspec.convert(raw, type(resource_slice(node, 1)))
    world.devices.put(half)
    for rank in range(3):
        gang(world, 1, count=1, name=f"late{rank}")
    world.until(20 * GRACE_SECONDS)
    world.restart()
    world.until(GRACE_SECONDS / 2)

    elsewhere = {"n0", "n1"} - {node}
    placed = world.where("late")
    assert set(placed.values()) == elsewhere
    assert len(placed) == 2
    assert world.where("g-") == {"g-0": node}
    [told] = {(one.kind, one.name) for one in world.events("ResourcePoolInTrouble")}
    assert told == ("ResourceSlice", "next")
    raw["metadata"]["name"] = "rest"
    raw["spec"]["devices"] = [{**one, "name": f"more-{at}"} for at, one in enumerate(raw["spec"]["devices"])]
    world.devices.put(msgspec.convert(raw, type(half)))
    world.until(GRACE_SECONDS)
    assert len(world.where("late")) == 3
