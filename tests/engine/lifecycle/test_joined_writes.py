"""Pods that come to use one claim are written on it together, and none is forgotten when that fails."""

from __future__ import annotations

from tests.engine.devices import asks_for, device_class, replaced, resource_slice
from tests.engine.world import World
from tutti.api.devices import MOST_CONSUMERS, ClaimConsumer


def sharing(size: int, **world) -> World:
    """Single pods that share one claim."""
    out = World(**world)
    out.devices.put(device_class(), resource_slice("n0", 2))
    out.node("n0", gpus=0)
    out.devices.make_claim("ours", asks_for(1))
    more(out, range(size))
    return out


def more(world: World, numbers: range) -> None:
    for number in numbers:
        world.pod(f"p-{number}", gpus=0, cpu="1", device_claims=("ours",))


def writes(world: World) -> list[tuple[str, list[str]]]:
    return [(one.change, sorted(name for name, _ in one.pods)) for one in world.devices.written]


def users(world: World) -> list[str]:
    return sorted(one.name for one in world.devices.claim("ours").status.reserved_for)


def test_pods_that_share_a_claim_are_written_on_it_in_one_write():
    world = sharing(5)
    world.run()

    assert writes(world) == [("allocate", [f"p-{number}" for number in range(5)])]
    assert len(world.where()) == 5
    assert not world.replay().differences


def test_those_who_come_while_it_is_written_follow_in_one_more():
    world = sharing(2)
    world.devices.held = True
    world.run()
    more(world, range(2, 6))
    world.run()
    assert world.where() == {}

    world.devices.held = False
    world.devices.write()
    world.run()
    assert writes(world) == [("allocate", ["p-0", "p-1"]), ("reserve", ["p-2", "p-3", "p-4", "p-5"])]
    assert users(world) == [f"p-{number}" for number in range(6)]
    assert len(world.where()) == 6
    assert not world.replay().differences


def test_all_who_were_written_together_try_again_when_that_fails():
    world = sharing(3)
    world.devices.conflicts = {"ours"}
    world.run()
    assert world.where() == {}

    world.devices.conflicts.clear()
    world.until(60)
    assert len(world.where()) == 3
    assert users(world) == ["p-0", "p-1", "p-2"]
    assert not world.replay().differences


def test_no_more_are_written_together_than_a_claim_can_have():
    world = sharing(1)
    world.run()
    claim = world.devices.claim("ours")
    others = [ClaimConsumer("", "pods", f"other-{at}", f"uid-other-{at}") for at in range(MOST_CONSUMERS - 3)]
    users = [*claim.status.reserved_for, *others]
    world.devices.put(replaced(claim, status=replaced(claim.status, reserved_for=users)))
    world.run()

    more(world, range(1, 5))
    world.run()
    assert len(world.devices.claim("ours").status.reserved_for) == MOST_CONSUMERS
    assert len(world.where()) == 3
    assert not world.replay().differences


def test_an_operator_that_died_after_a_write_for_several_binds_them_all():
    world = sharing(4)
    world.devices.held = True
    world.run()
    world.devices.write()
    world.restart()
    world.devices.held = False
    world.run()

    assert len(world.where()) == 4
    assert users(world) == [f"p-{number}" for number in range(4)]
