"""Who of those that must be near others, or are spread strictly, is tried where somebody has come or has left."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, nobody_could_start, tried
from tests.engine.world import World
from tutti.api.core import Affinity, LabelSelector, PodAffinity, PodAffinityTerm, TopologySpreadConstraint

HOST = "kubernetes.io/hostname"


def minds(world: World, name: str, *, near: str = "", spread: str = "", key: str = "zone", **spec: Any) -> None:
    """A pod that must be in a domain with one of an app, or that is spread with those of an app."""
    pod = world.pod(name, gated=True, **spec)
    affinity = Affinity(pod_affinity=PodAffinity([PodAffinityTerm(key, LabelSelector({"app": near}))]))
    evenly = TopologySpreadConstraint(
        topology_key=key, max_skew=1, when_unsatisfiable="DoNotSchedule", label_selector=LabelSelector({"app": spread})
    )
    made = replaced(
        pod.spec,
        affinity=affinity if near else None,
        topology_spread_constraints=[evenly] if spread else [],
        scheduling_gates=[],
    )
    world.put(replaced(pod, spec=made))


def relabel(world: World, name: str, app: str) -> None:
    pod = world.pods["default", name]
    world.put(replaced(pod, metadata=replaced(pod.metadata, labels={**pod.metadata.labels, "app": app})))


def zones(*rooms: int) -> World:
    """Two nodes in each of some zones: one with so much room, and one that a pod of no app fills."""
    world = World()
    world.flavor()
    for number, gpus in enumerate(rooms):
        for kind in ("free", "full"):
            world.node(f"{kind}-{number}", gpus=gpus if kind == "free" else 2, labels={"zone": f"z{number}"})
        world.pod(f"fills-{number}", gpus=2, node=f"full-{number}")
    return world


def test_of_many_that_must_be_near_others_only_one_is_tried_for_the_room_of_one():
    world = zones(8, 8)
    for number in range(2):
        world.pod(f"runs-{number}", gpus=8, node=f"free-{number}", labels={"app": "x"})
        relabel(world, f"fills-{number}", "x")
    for gpus in range(5, 9):
        minds(world, f"waits-{gpus}", near="x", gpus=gpus, labels={"app": "x"})
    world.run()
    world.finish("runs-1")
    assert tried(world) == 1, "those behind it fit nowhere any more, though it is one to be near of"
    assert len(world.binds()) == 1


def test_who_must_be_near_others_is_tried_in_their_zone_when_one_comes():
    world = zones(4, 4)
    minds(world, "waits", near="x", gpus=2)
    for gpus in range(5, 9):
        minds(world, f"large-{gpus}", near="x", gpus=gpus)
    world.run()
    assert world.where("waits") == {}
    world.pod("comes", gpus=0, node="full-1", labels={"app": "x"}, scheduler="default-scheduler")
    assert tried(world) == 1
    assert world.where("waits") == {"waits": "free-1"}


def test_who_must_be_near_others_is_tried_when_one_is_labelled_as_such():
    world = zones(4, 4)
    minds(world, "waits", near="x", gpus=2)
    world.run()
    relabel(world, "fills-0", "x")
    world.run()
    assert world.where("waits") == {"waits": "free-0"}


@pytest.mark.parametrize("change", ["ends", "is relabelled"])
def test_the_first_of_its_kind_needs_nobody_once_the_others_have_gone(change):
    world = zones(1, 4)
    world.pod("there", gpus=1, node="free-0", labels={"app": "x"})
    minds(world, "waits", near="x", gpus=2, labels={"app": "x"})
    world.run()
    assert world.where("waits") == {}, "there is room in the other zone only"
    if change == "ends":
        world.finish("there")
    else:
        relabel(world, "there", "y")
    world.run()
    assert world.where("waits") == {"waits": "free-1"}


def test_the_first_of_its_kind_needs_nobody_though_one_is_outside_of_all_zones():
    world = zones(1, 4)
    world.node("outside")
    world.pod("far", gpus=1, node="outside", labels={"app": "x"})
    world.pod("there", gpus=1, node="free-0", labels={"app": "x"})
    minds(world, "waits", near="x", gpus=2, labels={"app": "x"})
    world.run()
    world.finish("there")
    world.run()
    assert world.where("waits") == {"waits": "free-1"}


def test_who_is_spread_is_tried_in_all_of_a_zone_when_one_leaves_it():
    world = zones(4, 0)
    world.pod("there", gpus=0, node="full-0", labels={"app": "x"})
    minds(world, "waits", spread="x", gpus=2, labels={"app": "x"})
    world.run()
    assert world.where("waits") == {}, "the other zone has none and no room"
    world.finish("there")
    world.run()
    assert world.where("waits") == {"waits": "free-0"}


def test_who_is_spread_is_tried_when_one_of_a_zone_is_told_to_end():
    world = zones(4, 0)
    world.pod("there", gpus=0, node="full-0", labels={"app": "x"})
    minds(world, "waits", spread="x", gpus=2, labels={"app": "x"})
    world.run()
    world.begin_deleting("there", grace=1000.0)
    world.run()
    assert world.where("waits") == {"waits": "free-0"}


def test_who_is_spread_is_tried_in_other_zones_when_the_emptiest_gets_one():
    world = zones(4, 0)
    world.pod("there", gpus=0, node="full-0", labels={"app": "x"})
    minds(world, "waits", spread="x", gpus=2, labels={"app": "x"})
    for gpus in range(5, 9):
        minds(world, f"large-{gpus}", spread="x", gpus=gpus, labels={"app": "x"})
    world.run()
    assert world.where("waits") == {}
    world.pod("comes", gpus=0, node="full-1", labels={"app": "x"}, scheduler="default-scheduler")
    assert tried(world) == 1
    assert world.where("waits") == {"waits": "free-0"}


def test_of_many_that_are_spread_only_one_is_tried_for_the_room_of_one():
    world = zones(8, 8)
    for number in range(2):
        world.pod(f"runs-{number}", gpus=8, node=f"free-{number}", labels={"app": "x"})
    for gpus in range(5, 9):
        minds(world, f"waits-{gpus}", spread="x", gpus=gpus, labels={"app": "x"})
    world.run()
    world.finish("runs-1")
    assert tried(world) == 1
    assert len(world.binds()) == 1


def test_who_is_spread_softly_is_tried_where_there_is_room_alone():
    world = zones(8, 8)
    for number in range(2):
        world.pod(f"runs-{number}", gpus=8, node=f"free-{number}")
    softly = [TopologySpreadConstraint("zone", 1, "ScheduleAnyway", LabelSelector({"app": "x"}))]
    for gpus in range(5, 9):
        pod = world.pod(f"waits-{gpus}", gated=True, gpus=gpus, labels={"app": "x"})
        world.put(replaced(pod, spec=replaced(pod.spec, topology_spread_constraints=softly, scheduling_gates=[])))
    world.run()
    world.finish("runs-1")
    assert tried(world) == 1


def test_who_may_take_out_others_is_tried_wherever_they_are():
    world = zones(4, 4)
    for number in range(2):
        world.pod(f"low-{number}", gpus=4, node=f"free-{number}", priority=(-5, 9)[number])
    world.pod("there", gpus=0, node="full-0", labels={"app": "x"}, priority=9)
    minds(world, "waits", spread="x", gpus=3, labels={"app": "x"}, priority=5)
    world.run()
    assert world.where("waits") == {}
    world.pod("comes", gpus=0, node="full-1", labels={"app": "x"}, scheduler="default-scheduler")
    world.run()
    assert world.where("waits") == {"waits": "free-0"}


def test_who_is_spread_counts_those_who_wait_for_their_victims_as_there():
    world = zones(4, 4)
    world.pod("low", gpus=4, node="free-1", priority=-5)
    minds(world, "waits", spread="x", gpus=4, labels={"app": "y"}, preempts=False)
    world.pod("has", gpus=4, node="free-0", priority=9)
    world.run()
    cluster = world.engine.state.cluster
    cluster.freed.take()
    world.hold_evictions = True
    world.pod("comes", gpus=4, labels={"app": "x"}, priority=5)
    world.decide()
    exits = cluster.freed.take()
    assert exits is not None
    assert [cluster.nodes.names[row] for row in exits.company] == ["free-1"]
    assert world.reason("Pod", "comes") == "WaitingForVictims"


def test_those_who_may_find_room_on_very_many_nodes_are_all_tried():
    world = World()
    for number in range(70):
        world.node(f"n{number}", gpus=1, labels={"zone": "a"})
    minds(world, "waits", near="x", gpus=1)
    world.run()
    assert world.where("waits") == {}
    world.pod("comes", gpus=1, node="n3", labels={"app": "x"}, scheduler="default-scheduler")
    world.run()
    assert len(world.where("waits")) == 1


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_waits_could_start(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, starts nobody more."""
    draw = random.Random(seed)
    world = World()
    world.flavor()
    world.queue("one", draw.choice([6, 12, 100]), local="one", **draw.choice([{}, LOWER, RECLAIM, BOTH]))
    nodes = [f"n{number}" for number in range(draw.randint(2, 6))]
    for number, name in enumerate(nodes):
        labels = {"zone": f"z{number % 2}"} if draw.random() < 0.9 else {}
        world.node(name, gpus=draw.choice([2, 4, 8]), cpu=16, labels=labels)
    for number in range(80):
        befall(draw, world, nodes, number)
        if draw.random() < 0.7:
            world.run(300)
        if draw.random() < 0.1:
            world.run(300)
            nobody_could_start(world)
    world.run(300)
    nobody_could_start(world)


def befall(draw: random.Random, world: World, nodes: list[str], number: int) -> None:
    """One thing that befalls pods or nodes."""
    more: dict[str, Any] = {"queue": draw.choice(["one", ""]), "priority": draw.choice([0, 0, 0, -5, 5])}
    labels, key, app, gpus = (
        {"app": draw.choice("xyz")},
        draw.choice([HOST, "zone"]),
        draw.choice("xyz"),
        draw.randint(0, 4),
    )
    if draw.random() < 0.2:
        more["selector"] = {HOST: draw.choice(nodes)}
    here, name = sorted(world.where()), f"p{number}"
    match draw.randrange(16):
        case 0 | 1:
            world.pod(name, gpus=gpus, labels=labels, **more)
        case 2 | 3 | 4:
            minds(world, name, near=app, key=key, gpus=gpus, labels=labels, **more)
        case 5 | 6 | 7:
            minds(world, name, spread=app, key=key, gpus=gpus, labels=labels, **more)
        case 8:
            minds(world, name, near=app, spread=labels["app"], key=key, gpus=gpus, labels=labels, **more)
        case 9:
            world.pod(
                name, gpus=draw.randint(0, 1), labels=labels, node=draw.choice(nodes), scheduler="default-scheduler"
            )
        case 10 | 11 | 12 if here:
            world.finish(*draw.sample(here, min(len(here), draw.randint(1, 3))))
        case 13 if here:
            relabel(world, draw.choice(here), draw.choice("xyz"))
        case 14 if here:
            world.begin_deleting(draw.choice(here), grace=1000.0)
        case 15 if draw.random() < 0.5:
            zone = {"zone": draw.choice(["z0", "z1", "z2"])} if draw.random() < 0.8 else {}
            world.node(draw.choice(nodes), gpus=draw.choice([2, 4, 8]), cpu=16, labels=zone)
        case 15 if here:
            world.delete(draw.choice(here))
