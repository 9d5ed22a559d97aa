"""Claims that several pods name: whoever waits is placed by what its claims ask of a node now, not by what they asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_volumes import PROVISIONER
from tests.engine.storage import ZONE
from tests.engine.world import World, replaced
from tests.placement.storage import HOSTNAME, at, claim, csi_node, storage_class, volume
from tutti.api.core import Affinity, PodAffinity, PodAffinityTerm
from tutti.api.labels import LabelSelector
from tutti.engine.records.decisions import ReserveVolume, SelectNode

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
    taken = [name for _, name in world.storage.objects if pledges.is_taken(name)]
    return bool(pledges or pledges._earmarks or pledges._shared), taken


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


def zonal(*rooms: tuple[str, int], known: bool = True, **configuration: Any) -> World:
    """Nodes in zones with so many GPUs, and a class of a driver whose volumes stay in a zone; `known`: it says so."""
    world = World(**configuration)
    for i, (zone, gpus) in enumerate(rooms):
        world.node(f"n{i}", gpus=gpus, labels={ZONE: zone})
        if known:
            world.storage.put(csi_node(f"n{i}", keys=(ZONE,), csi_example_com=None))
    world.storage.put(storage_class())
    return world


def zones(world: World, prefix: str = "g") -> set[str]:
    return {world.nodes[node].metadata.labels[ZONE] for node in world.where(prefix).values()}


ROOMS = [
    [("a", 1), ("b", 4)],
    [("b", 4), ("a", 1)],
    [("a", 3), ("b", 1), ("b", 2), ("b", 1)],
    [("a", 3), ("b", 3), ("c", 2), ("c", 2)],
    [("a", 8), ("b", 3)],
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("rooms", ROOMS)
@pytest.mark.parametrize("sizes", [(1, 2), (2, 2), (1, 1, 2), (1, 1, 1, 1), (1, 1, 1)])
def test_a_gang_that_shares_a_claim_goes_where_one_volume_is_used_by_all(sizes, rooms, known):
    world = zonal(*rooms, known=known)
    world.storage.put(claim("data", modes=MANY))
    shapes(world, *((size, ("data",)) for size in sizes))
    world.until(600)
    fits = [zone for zone in "abc" if fits_in([gpus for z, gpus in rooms if z == zone], sizes)]
    assert len(world.where()) == (len(sizes) if fits else 0)
    assert not fits or zones(world) <= set(fits)
    assert left_over(world) == (False, [])


def fits_in(rooms: list[int], sizes: tuple[int, ...]) -> bool:
    """Whether pods of these sizes fit into these rooms, by trying."""
    if not sizes:
        return True
    return any(
        room >= sizes[0] and fits_in([*rooms[:i], room - sizes[0], *rooms[i + 1 :]], sizes[1:])
        for i, room in enumerate(rooms)
    )


def test_a_gang_of_a_driver_that_says_how_far_volumes_reach_waits_until_one_zone_has_room_for_all():
    world = zonal(("a", 2), ("b", 2))
    world.storage.put(claim("data", modes=MANY))
    shapes(world, (1, ("data",)), (2, ("data",)))
    world.until(600)
    assert world.storage.chosen == []
    assert "out of reach of the volume of a claim that the pods share" in world.why("PodGroup", "g").message

    world.node("n2", gpus=1, labels={ZONE: "b"})
    world.until(600)

    assert zones(world) == {"b"}
    assert len(world.where()) == 2


def test_volumes_that_are_used_everywhere_let_a_gang_spread_over_zones():
    world = zonal(("a", 2), ("b", 2), known=False)
    for name in ("n0", "n1"):
        world.storage.put(csi_node(name, csi_example_com=None))
    world.storage.put(claim("data", modes=MANY))
    world.storage.held = True
    shapes(world, (1, ("data",)), (2, ("data",)))
    world.run()
    assert len(world.storage.chosen) == 1
    assert {m.pod.assumed for m in world.engine.state.members.values()} == {"n0", "n1"}


@pytest.mark.parametrize("known", [True, False])
def test_members_beyond_the_minimum_go_where_the_volume_of_the_others_is_used(known):
    world = zonal(("a", 2), ("b", 3), ("a", 1), known=known)
    world.storage.put(claim("data", modes=MANY))
    world.storage.held = True
    shapes(world, *((1, ("data",)) for _ in range(6)), least=2)
    world.run()
    placed = [m.pod.assumed for m in world.engine.state.members.values() if m.pod.assumed]
    assert len(placed) == 3
    assert len({world.nodes[name].metadata.labels[ZONE] for name in placed}) == 1


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("near", [{}, {"key": "rack"}], ids=["anywhere", "in one rack"])
def test_a_gang_goes_to_the_free_volume_that_all_of_it_can_use(near, known):
    """The smallest volume is where not all have room."""
    world = zonal(known=known)
    for i, (zone, rack) in enumerate(["ar", "br", "br", "cs"]):
        world.node(f"n{i}", gpus=2, labels={ZONE: zone, "rack": rack})
    world.storage.put(storage_class(provisioner=PROVISIONER), claim("data", modes=MANY))
    world.storage.put(volume("v0", size="1Gi", where=at(ZONE, "a"), modes=MANY))
    world.storage.put(volume("v1", size="2Gi", where=at(HOSTNAME, "n3"), modes=MANY))
    world.storage.put(volume("v2", size="3Gi", where=at(ZONE, "b", "c"), modes=MANY))
    topology = {"schedulingConstraints": {"topology": [near]}} if near else {}
    world.pod_group("g", 3, **topology)
    for rank, gpus in enumerate((1, 1, 2)):
        world.pod(f"g-{rank}", group="g", gpus=gpus, claims=("data",))
    world.run()
    assert [one.volume for one in world.storage.chosen] == ["v2"]
    assert zones(world) == {"b"} or not near
    assert len(world.where()) == 3
    assert left_over(world) == (False, [])


@pytest.mark.parametrize("known", [True, False])
def test_two_claims_that_parts_of_a_gang_share_are_made_where_each_part_is(known):
    """One claim is used by all in zone b or c, another by two of them where the first is."""
    world = zonal(("a", 2), ("b", 1), ("b", 1), ("c", 4), known=known)
    world.storage.put(claim("data", modes=MANY), claim("more", modes=MANY))
    shapes(world, (1, ("data",)), (1, ("data", "more")), (2, ("more",)))
    world.until(60)
    assert zones(world) == {"c"}
    assert len(world.where()) == 3


@pytest.mark.parametrize("volumes", [2, 3, 4])
def test_no_volume_is_given_to_two_claims(volumes):
    """Two claims are shared, and one is a member's own, so that three volumes are needed."""
    names = ("data", "more", "own")
    world = static(*(claim(name, storage_class="local", modes=MANY) for name in names))
    world.storage.put(*(volume(f"v{i}", storage_class="local", modes=MANY) for i in range(volumes)))
    shapes(world, (1, ("data",)), (1, ("data", "more")), (1, ("more",)), (1, ("own",)))
    world.run()
    assert len(world.where()) == (4 if volumes > 2 else 0)
    assert len({one.volume for one in world.storage.chosen}) == len(world.storage.chosen)
    assert left_over(world) == (False, [])


@pytest.mark.parametrize("known", [True, False])
def test_a_gang_takes_out_others_in_a_zone_where_all_of_it_fits(known):
    world = zonal(("a", 1), ("b", 2), ("b", 2), known=known)
    world.storage.put(claim("data", modes=MANY))
    for i in (1, 2):
        world.pod(f"low-{i}", gpus=1, node=f"n{i}", priority=-5)
    world.pod_group("g", 2)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", gpus=2, claims=("data",), priority=5)
    world.until(60)
    assert zones(world) == {"b"}
    assert len(world.where("g")) == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_restart_while_the_volume_is_made_leaves_the_gang_in_its_zone(known):
    world = zonal(("a", 1), ("b", 2), ("b", 2), known=known)
    world.storage.put(claim("data", modes=MANY))
    world.storage.held = True
    shapes(world, (2, ("data",)), (1, ("data",)))
    world.run()
    assert len(world.storage.chosen) == 1
    world.restart()
    world.run()
    world.storage.bind("data")
    world.until(60)
    assert zones(world) == {"b"}
    assert len(world.storage.chosen) == 1
    assert len(world.where()) == 2


def test_who_joins_a_claim_that_was_promised_a_free_volume_goes_where_that_is_though_one_could_be_made():
    world = zonal(("a", 1), ("b", 4))
    world.storage.put(claim("data", modes=MANY), volume("v0", where=at(ZONE, "a"), modes=MANY))
    world.storage.held = True
    world.pod("p", gpus=1, claims=("data",))
    world.node("n1", gpus=0, labels={ZONE: "b"})
    world.run()
    assert [one.volume for one in world.storage.chosen] == ["v0"]
    world.node("n1", gpus=4, labels={ZONE: "b"})
    world.pod("q", gpus=1, claims=("data",))
    world.run()
    assert world.engine.state.members["default", "q"].pod.assumed == ""

    world.node("n2", gpus=1, labels={ZONE: "a"})
    world.storage.held = False
    world.storage.bind("data")
    world.run()
    assert world.where() == {"p": "n0", "q": "n2"}
