"""Who of those that mount volumes is tried where a pod has left a node, and where volumes are others by now."""

from __future__ import annotations

import random

import pytest

from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, full, tried
from tests.engine.world import World
from tests.placement.storage import HOSTNAME, at, attachment, claim, csi_node, storage_class, volume
from tutti.engine.records.decisions import Bind, Evict

DRIVER = "csi.example.com"


def bind_volume(world: World, name: str, *, where: str = "", modes: tuple[str, ...] = ("ReadWriteMany",)) -> None:
    """A claim, and the volume that it is bound to."""
    there = at(HOSTNAME, where) if where else None
    world.storage.put(volume(f"of-{name}", driver=DRIVER, claim=name, uid=f"uid-{name}", where=there, modes=modes))
    world.storage.put(claim(name, volume=f"of-{name}", modes=modes))


def test_of_many_that_mount_a_volume_only_one_is_tried_for_the_room_of_one():
    world = full(queue="queue")
    bind_volume(world, "data")
    for gpus in range(1, 9):
        for cpu in range(1, 5):
            world.pod(f"waits-{gpus}-{cpu}", gpus=gpus, cpu=str(cpu), queue="queue", claims=("data",))
    world.run()

    world.finish("runs-1")

    assert tried(world) == len(world.binds()) > 0
    assert sum(int(one.name.split("-")[1]) for one in world.binds()) == 8, "the node is full again"


def full_of_volumes() -> World:
    """A node with room, whose only volume somebody has, and one that waits to mount another there."""
    world = World()
    for name in ("a", "b"):
        world.node(name)
        world.storage.put(csi_node(name, csi_example_com=1))
    bind_volume(world, "theirs")
    bind_volume(world, "mine", where="a")
    world.pod("has", gpus=1, node="a", claims=("theirs",))
    world.pod("ends", gpus=1, node="b")
    world.pod("waits", gpus=1, claims=("mine",))
    world.run()
    assert world.where("waits") == {}
    return world


def test_who_lacks_a_place_for_a_volume_is_tried_when_a_node_takes_more_of_them():
    world = full_of_volumes()
    world.storage.put(csi_node("a", csi_example_com=2))
    world.run()
    assert world.where("waits") == {"waits": "a"}


def test_who_lacks_a_place_for_a_volume_is_tried_when_another_is_taken_off_that_node():
    world = full_of_volumes()
    world.storage.put(attachment("left-behind", "b", "of-left"))
    world.run()
    world.finish("has")
    world.run()
    assert world.where("waits") == {"waits": "a"}


def test_who_waits_for_a_claim_that_one_pod_may_use_is_tried_when_that_ends_wherever_it_was():
    world = World()
    for name in ("a", "b"):
        world.node(name, gpus=2)
    bind_volume(world, "one", modes=("ReadWriteOncePod",))
    world.pod("has", gpus=2, node="a", claims=("one",))
    world.pod("waits", gpus=1, selector={HOSTNAME: "b"}, claims=("one",))
    world.run()
    assert world.where("waits") == {}
    world.finish("has")
    world.run()
    assert world.where("waits") == {"waits": "b"}


def test_who_lacks_a_volume_is_tried_when_one_that_was_promised_to_another_is_free_wherever_that_was(monkeypatch):
    world = World()
    world.node("a", gpus=1)
    world.node("b", gpus=2)
    world.storage.put(storage_class("late", provisioner="kubernetes.io/no-provisioner"))
    world.storage.put(volume("only"))
    for name in ("mine", "theirs"):
        world.storage.put(claim(name))
    monkeypatch.setattr(world.storage, "choose", world.storage.chosen.append)  # nothing of it is written
    world.pod("first", gpus=1, selector={HOSTNAME: "a"}, claims=("theirs",))
    world.run()
    world.pod("waits", gpus=2, selector={HOSTNAME: "b"}, claims=("mine",))
    world.run()

    world.delete("first")
    world.run()

    assert [(one.name, one.volume) for one in world.storage.chosen] == [("theirs", "only"), ("mine", "only")]


def drawn_storage(draw: random.Random) -> tuple[World, list[str], list[str]]:
    """Nodes, a queue and claims, of which some are bound."""
    world = World()
    world.flavor()
    policy = draw.choice([{}, LOWER, RECLAIM, BOTH])
    world.queue("one", draw.choice([6, 12, 100]), local="one", **policy)
    for name in ("late", "now"):
        world.storage.put(storage_class(name, late=name == "late"))
    nodes = [f"n{number}" for number in range(draw.randint(1, 5))]
    for name in nodes:
        world.node(name, gpus=draw.choice([2, 4, 8]), cpu=16)
        world.storage.put(csi_node(name, csi_example_com=draw.choice([None, 1, 2, 5])))
    claims = [f"c{number}" for number in range(7)]
    for name in claims:
        modes = draw.choice([("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod",)])
        if draw.random() < 0.6:
            bind_volume(world, name, where=draw.choice([*nodes, "", ""]), modes=modes)
        else:
            world.storage.put(claim(name, modes=modes))
    for number in range(2):
        world.storage.put(volume(f"v{number}", where=at(HOSTNAME, draw.choice(nodes))))
    return world, nodes, claims


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_waits_could_start(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, starts nobody more."""
    draw = random.Random(seed)
    world, nodes, claims = drawn_storage(draw)
    for number in range(70):
        world.storage.held = draw.random() < 0.3
        world.storage.refused = {one for one in claims if draw.random() < 0.1}
        match draw.randrange(9):
            case 0 | 1 | 2 | 3:
                more = {"queue": draw.choice(["one", ""]), "priority": draw.choice([0, 0, 0, -5, 5])}
                used = tuple(draw.sample(claims, draw.choice([0, 1, 1, 2])))
                world.pod(f"p{number}", gpus=draw.randint(0, 4), claims=used, **more)
            case 4:
                size, used = draw.randint(2, 3), tuple(draw.sample(claims, 1))
                world.pod_group(f"g{number}", size, queueName="one")
                for rank in range(size):
                    world.pod(f"g{number}-{rank}", group=f"g{number}", gpus=draw.randint(1, 3), claims=used)
            case 5 | 6 | 7 if world.where():
                world.finish(*draw.sample(sorted(world.where()), min(len(world.where()), draw.randint(1, 3))))
            case 8 if draw.random() < 0.5:
                world.storage.put(csi_node(draw.choice(nodes), csi_example_com=draw.choice([None, 1, 2, 5])))
            case 8:
                world.storage.put(attachment(f"a{draw.randrange(3)}", draw.choice(nodes), f"of-{draw.choice(claims)}"))
        if draw.random() < 0.7:
            world.run(200)
    world.storage.held, world.storage.refused = False, set()
    for name in claims:
        if world.storage.is_chosen(world.storage.claim(name)):
            world.storage.bind(name)
    world.run(200)
    world.flavor("unheard-of")
    again = world.run(200)
    assert [one.name for one in again if isinstance(one, (Bind, Evict))] == []
