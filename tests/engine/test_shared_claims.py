"""Claims that several pods name: whoever waits is placed by what its claims ask of a node now, not by what they asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.storage import ZONE
from tests.engine.test_volumes import PROVISIONER
from tests.engine.world import World, replaced
from tests.placement.storage import HOSTNAME, at, claim, storage_class, volume
from tutti.api.core import Affinity, PodAffinity, PodAffinityTerm
from tutti.api.labels import LabelSelector
from tutti.engine.decisions import ReserveVolume, SelectNode

ONCE = ("ReadWriteOncePod",)
MANY = ("ReadWriteMany",)


def static(*volumes: Any, **configuration: Any) -> World:
    """One node, and a class whose volumes nobody makes."""
    world = World(volumeBindingTimeoutSeconds=30, **configuration)
    world.node("n0")
    world.storage.put(storage_class("local", provisioner=PROVISIONER), *volumes)
    return world


def once(**configuration: Any) -> World:
    """A claim for one pod, bound to a volume that every node reaches."""
    world = World(**configuration)
    bound = volume("pv", claim="data", uid="uid-data", phase="Bound", modes=ONCE, driver="csi.example.com")
    world.storage.put(storage_class(), bound, claim("data", volume="pv", modes=ONCE))
    return world


def left_over(world: World) -> tuple[bool, list[str]]:
    """Whether anything is promised or earmarked, and which volumes are taken."""
    pledges = world.engine.state.cluster.nodes.volumes.pledges
    return bool(pledges or pledges._earmarks or pledges._shared), [name for _, name in world.storage.objects if pledges.is_taken(name)]


@pytest.mark.parametrize("second", ["gated", "of a gang that is not complete", "too large", "of a gang too large"])
def test_a_pod_gets_the_volume_though_another_names_its_claim_meanwhile(second):
    world = static(claim("data", storage_class="local"))
    world.pod("p", claims=("data",))
    world.run()
    match second:
        case "gated":
            world.pod("q", claims=("data",), gated=True)
        case "of a gang that is not complete":
            world.pod_group("g", 2)
            world.pod("g-0", group="g", claims=("data",))
        case "too large":
            world.pod("q", claims=("data",), gpus=9)
        case _:
            world.pod_group("g", 2)
            for rank in range(2):
                world.pod(f"g-{rank}", group="g", claims=("data",), gpus=5)
    world.run()

    world.storage.put(volume("v0", storage_class="local", where=at(HOSTNAME, "n0")))
    world.run()

    assert [type(one) for one in world.storage.chosen] == [ReserveVolume]
    assert world.where() == {"p": "n0"}
    assert left_over(world) == (False, [])


def test_a_pod_gets_the_volume_when_the_other_that_named_its_claim_has_gone():
    world = static(claim("data", storage_class="local"))
    for name in ("p", "q"):
        world.pod(name, claims=("data",), gated=name == "q")
    world.run()
    world.delete("q")
    world.storage.put(volume("v0", storage_class="local", where=at(HOSTNAME, "n0")))
    world.run()
    assert world.where() == {"p": "n0"}
    assert left_over(world) == (False, [])


@pytest.mark.parametrize("scheduler", ["tutti", "default-scheduler"])
@pytest.mark.parametrize("waits", ["pod", "gang", "gang whose surplus uses it"])
def test_a_claim_for_one_pod_is_left_to_who_has_it_though_others_waited_longer(waits, scheduler):
    world = once()
    world.node("n0", gpus=1)
    match waits:
        case "pod":
            world.pod("p", gpus=2, claims=("data",))
        case "gang":
            world.pod_group("g", 2)
            world.pod("g-0", gpus=2, group="g", claims=("data",))
            world.pod("g-1", gpus=2, group="g")
        case _:
            world.pod_group("g", 1)
            world.pod("g-0", gpus=2, group="g")
            world.pod("g-1", gpus=2, group="g", claims=("data",))
    world.run()
    world.pod("q", gpus=1, claims=("data",), scheduler=scheduler, node="n0" if scheduler != "tutti" else "")
    world.run()
    assert world.where() == {"q": "n0"}

    world.node("n1", gpus=8)
    world.until(100)

    assert world.where() == {"q": "n0"} | ({"g-0": "n1"} if "surplus" in waits else {})
    world.finish("q")
    world.until(100)
    assert {"p", "g-0"} & world.where().keys()
    assert ("g-1" in world.where()) is (waits != "pod")


def test_of_two_that_wait_for_one_claim_each_goes_by_what_the_other_was_given_in_the_same_turn():
    """Both are tried in one turn: the second has to go where the volume is being made for the first."""
    world = World()
    for name in ("a", "b"):
        world.node(f"n-{name}", gpus=2, labels={ZONE: name})
    world.storage.put(storage_class(), claim("data", modes=MANY))
    world.storage.held = True
    world.pod("p", gpus=1, claims=("data",))
    world.pod("q", gpus=2, claims=("data",))
    world.run()
    (chosen,) = world.storage.chosen
    assert isinstance(chosen, SelectNode)
    reserved = {key[1]: member.pod.assumed for key, member in world.engine.state.members.items()}
    assert reserved["p"] == chosen.node
    assert reserved["q"] in ("", chosen.node)


def test_who_waits_keeps_off_a_pod_that_has_come_since_and_keeps_its_kind_away():
    """No selector read the label of p when it came; since q there is one."""
    world = World()
    world.node("n0", gpus=1)
    p = world.pod("p", gpus=2)
    world.put(replaced(p, metadata=replaced(p.metadata, labels={"app": "web"})))
    world.run()
    q = world.pod("q", gpus=1, gated=True)
    term = PodAffinityTerm(HOSTNAME, LabelSelector(match_labels={"app": "web"}))
    spec = replaced(q.spec, scheduling_gates=[], affinity=Affinity(pod_anti_affinity=PodAffinity([term])))
    world.put(replaced(q, spec=spec))
    world.run()
    assert world.where() == {"q": "n0"}

    world.node("n0", gpus=8)
    world.run()

    assert world.where() == {"q": "n0"}
    assert "anti-affinity" in world.why("Pod", "p").message


@pytest.mark.parametrize("waits", ["pod", "gang"])
def test_a_node_that_goes_wakes_who_waits_for_the_claim_of_a_pod_there(waits):
    world = once()
    world.node("n0", gpus=1)
    world.pod("q", claims=("data",))
    world.run()
    world.node("n1", gpus=2)
    if waits == "gang":
        world.pod_group("g", 2)
        world.pod("g-1", group="g")
        world.pod("g-0", group="g", claims=("data",))
    else:
        world.pod("p", claims=("data",))
    world.run()
    assert world.where() == {"q": "n0"}
    world.remove_node("n0")
    world.run()
    assert world.where() == {"q": "n0"} | ({"g-0": "n1", "g-1": "n1"} if waits == "gang" else {"p": "n1"})


def test_to_ask_what_would_be_without_the_pod_that_has_a_claim_wakes_nobody():
    """Who waits for a claim that a pod it may not take out has, is at rest."""
    world = once()
    world.node("n0", gpus=2)
    world.pod("q", claims=("data",), priority=5)
    world.pod("r", priority=0)
    world.run()
    world.pod("p", claims=("data",), gpus=1, priority=3)
    world.run()
    assert set(world.where()) == {"q", "r"}
    before = world.engine.evaluated
    world.run()
    assert world.engine.evaluated == before


def shapes(world: World, *members: tuple[int, tuple[str, ...]], name: str = "g", least: int | None = None) -> None:
    """A gang of members that ask for so many GPUs and name these claims."""
    world.pod_group(name, len(members) if least is None else least)
    for rank, (gpus, claims) in enumerate(members):
        world.pod(f"{name}-{rank}", group=name, gpus=gpus, claims=claims)


SHAPES = {
    "two shapes": ((1, ("data",)), (2, ("data",))),
    "three shapes": ((1, ("data",)), (2, ("data",)), (3, ("data",))),
    "one shape": ((1, ("data",)), (1, ("data",)), (1, ("data",))),
    "two of each": ((1, ("data",)), (1, ("data",)), (2, ("data",)), (2, ("data",))),
    "two claims, one in common": ((1, ("data",)), (2, ("data", "own"))),
    "two claims that all share": ((1, ("data", "more")), (2, ("data", "more"))),
    "two claims that overlap": ((1, ("data",)), (2, ("data", "more")), (3, ("more",))),
    "one that uses none": ((1, ("data",)), (2, ())),
}


@pytest.mark.parametrize("spare", [0, 2])
@pytest.mark.parametrize("members", SHAPES.values(), ids=SHAPES)
def test_a_gang_of_several_shapes_is_given_one_volume_for_each_claim_it_shares(members, spare):
    names = sorted({name for _, claims in members for name in claims})
    world = static(*(claim(name, storage_class="local", modes=MANY) for name in names))
    volumes = [f"v{i}" for i in range(len(names) + spare)]
    world.storage.put(*(volume(name, storage_class="local", modes=MANY) for name in volumes))
    shapes(world, *members)
    world.run()

    assert sorted(one.name for one in world.storage.chosen) == names
    assert all(isinstance(one, ReserveVolume) for one in world.storage.chosen)
    assert len(world.where()) == len(members)
    assert left_over(world) == (False, [])
    for i in range(spare):
        world.storage.put(claim(f"other-{i}", storage_class="local", modes=MANY))
        world.pod(f"p{i}", claims=(f"other-{i}",))
    world.run()
    assert len(world.where("p")) == spare


@pytest.mark.parametrize("members", SHAPES.values(), ids=SHAPES)
def test_a_gang_that_gives_up_its_volumes_leaves_them_to_others(members):
    names = sorted({name for _, claims in members for name in claims})
    world = static(*(claim(name, storage_class="local", modes=MANY) for name in names))
    world.storage.put(*(volume(f"v{i}", storage_class="local", modes=MANY) for i in range(len(names))))
    world.storage.held = True
    shapes(world, *members)
    world.run()
    assert left_over(world)[1] == [f"v{i}" for i in range(len(names))]

    world.delete(*(f"g-{rank}" for rank in range(len(members))))
    world.run()

    assert left_over(world) == (False, [])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("gone", range(3))
def test_a_member_that_goes_while_reserved_leaves_no_volume_behind(gone, restarts):
    world = static(claim("data", storage_class="local", modes=MANY))
    world.storage.put(volume("v0", storage_class="local", modes=MANY))
    world.storage.held = True
    shapes(world, *SHAPES["three shapes"])
    world.run()
    world.delete(f"g-{gone}")
    if restarts:
        world.restart()
    world.until(5.0)
    assert left_over(world) == (False, [])
    world.pod(f"g-{gone}", group="g", gpus=gone + 1, claims=("data",))
    world.until(5.0)
    assert left_over(world) == (True, ["v0"])
    world.storage.held = False
    world.storage.bind("data")
    world.run()
    assert len(world.where()) == 3
    assert left_over(world) == (False, [])


def test_a_volume_that_goes_while_a_gang_is_promised_it_is_replaced_by_another():
    world = static(claim("data", storage_class="local", modes=MANY))
    world.storage.put(volume("v0", storage_class="local", modes=MANY))
    world.storage.held = True
    shapes(world, *SHAPES["three shapes"])
    world.run()
    world.storage.drop("PersistentVolume", "v0")
    world.until(5.0)
    assert world.where() == {}
    assert left_over(world) == (False, [])
    world.storage.held = False
    world.storage.put(volume("v1", storage_class="local", modes=MANY))
    world.until(10.0)
    assert len(world.where()) == 3
    assert left_over(world) == (False, [])
