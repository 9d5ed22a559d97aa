"""Who of those that keep away from others is tried where one of these has left a node: wherever it kept them off."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace as replaced

from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, tried
from tests.engine.world import World
from tutti.api.core import Affinity, LabelSelector, PodAffinity, PodAffinityTerm
from tutti.engine.records.decisions import Bind, Evict

HOST = "kubernetes.io/hostname"


def keeps_away(world: World, name: str, key: str, app: str, **spec) -> None:
    """A pod that may not be in one domain with those of an app."""
    pod = world.pod(name, gated=True, **spec)
    affinity = Affinity(pod_anti_affinity=PodAffinity([PodAffinityTerm(key, LabelSelector({"app": app}))]))
    world.put(replaced(pod, spec=replaced(pod.spec, affinity=affinity, scheduling_gates=[])))


def two_zones() -> World:
    """Two nodes of one zone, of which one is small, and a full one of another."""
    world = World()
    for name, zone, gpus in (("a", "z", 1), ("b", "z", 8), ("c", "y", 8)):
        world.node(name, gpus=gpus, labels={"zone": zone})
    world.pod("fills", gpus=8, node="c")
    return world


def test_of_many_that_keep_away_from_each_other_only_one_is_tried_for_the_room_of_one():
    world = World()
    for number in range(3):
        world.node(f"n{number}")
        world.pod(f"runs-{number}", gpus=8, node=f"n{number}")
    for gpus in range(5, 9):
        keeps_away(world, f"waits-{gpus}", HOST, "x", gpus=gpus, labels={"app": "x"})
    world.run()
    world.finish("runs-1")
    assert tried(world) == 1
    assert [one.node for one in world.binds()] == ["n1"]


def test_who_was_kept_off_a_zone_is_tried_wherever_there_is_room_in_it():
    world = two_zones()
    world.pod("there", gpus=1, node="a", labels={"app": "x"})
    keeps_away(world, "waits", "zone", "x", gpus=4)
    world.run()
    assert world.where("waits") == {}
    world.finish("there")
    world.run()
    assert world.where("waits") == {"waits": "b"}


def test_who_is_too_large_for_a_zone_is_not_tried():
    world = two_zones()
    world.pod("there", gpus=1, node="a", labels={"app": "x"})
    world.pod("has", gpus=4, node="b")
    for gpus in range(5, 9):
        keeps_away(world, f"waits-{gpus}", "zone", "x", gpus=gpus)
    world.run()
    world.finish("there")
    assert tried(world) == 0, "4 are left in the zone"


@pytest.mark.parametrize("scheduler", ["tutti", "default-scheduler"])
def test_who_was_kept_off_by_a_pod_is_tried_when_that_is_labelled_otherwise(scheduler):
    world = two_zones()
    there = world.pod("there", gpus=1, node="a", labels={"app": "x"}, scheduler=scheduler)
    keeps_away(world, "waits", "zone", "x", gpus=4)
    world.run()
    assert world.where("waits") == {}
    world.put(replaced(there, metadata=replaced(there.metadata, labels={"app": "y"})))
    world.run()
    assert world.where("waits") == {"waits": "b"}


def test_who_was_kept_off_by_a_label_is_tried_when_that_is_taken_away():
    world = two_zones()
    there = world.pod("there", gpus=1, node="a", labels={"app": "x"})  # nobody asks for the label yet
    keeps_away(world, "waits", "zone", "x", gpus=4)
    world.run()
    world.put(replaced(there, metadata=replaced(there.metadata, labels={})))
    world.run()
    assert world.where("waits") == {"waits": "b"}


def test_each_is_tried_however_many_labels_they_go_by():
    world = World()
    labels = {f"level-{number}": "same" for number in range(20)}
    world.node("a", gpus=1, labels=labels)
    world.node("b", gpus=20, labels=labels)
    world.pod("there", gpus=1, node="a", labels={"app": "x"})
    for number in range(20):
        keeps_away(world, f"waits-{number}", f"level-{number}", "x", gpus=1)
    world.run()
    assert not world.binds()
    world.finish("there")
    world.run()
    assert len(world.binds()) == 20


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_waits_could_start(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, starts nobody more."""
    draw = random.Random(seed)
    world = World()
    world.flavor()
    policy = draw.choice([{}, LOWER, RECLAIM, BOTH])
    world.queue("one", draw.choice([6, 12, 100]), local="one", **policy)
    for number in range(draw.randint(2, 6)):
        world.node(f"n{number}", gpus=draw.choice([2, 4, 8]), cpu=16, labels={"zone": f"z{number % 2}"})
    for number in range(70):
        more = {"queue": draw.choice(["one", ""]), "priority": draw.choice([0, 0, 0, -5, 5])}
        labels = {"app": draw.choice("xyz")}
        match draw.randrange(8):
            case 0 | 1:
                world.pod(f"p{number}", gpus=draw.randint(0, 4), labels=labels, **more)
            case 2 | 3 | 4:
                key, app = draw.choice([HOST, "zone"]), draw.choice("xyz")
                keeps_away(world, f"p{number}", key, app, gpus=draw.randint(0, 4), labels=labels, **more)
            case 5 | 6 if world.where():
                world.finish(*draw.sample(sorted(world.where()), min(len(world.where()), draw.randint(1, 3))))
            case 7 if world.where():
                pod = world.pods["default", draw.choice(sorted(world.where()))]
                world.put(replaced(pod, metadata=replaced(pod.metadata, labels={**pod.metadata.labels, **labels})))
        if draw.random() < 0.7:
            world.run(200)
    world.run(200)
    world.flavor("unheard-of")
    again = world.run(200)
    assert [one.name for one in again if isinstance(one, (Bind, Evict))] == []
