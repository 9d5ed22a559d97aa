"""Gangs whose members are all unlike one another, so that each of them is placed by itself, beside an honest pod."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.world import World
from tutti.engine.preemption import quota_victims
from tutti.placement import arrangement
from tutti.placement.topology import colocation

MEMBERS, RACKS, NODES_OF_A_RACK = 100, 40, 4
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often one ask was placed, by who had it placed."""
    counts = Counter[str]()
    for module in (colocation, arrangement):
        place_ask = module.place_ask

        def counted(*asked: Any, _place: Any = place_ask, _by: str = module.__name__, **more: Any) -> Any:
            counts[_by] += 1
            return _place(*asked, **more)

        monkeypatch.setattr(module, "place_ask", counted)
    return counts


def racks(gpus_of_last: int = 8) -> World:
    world = World()
    for rack in range(RACKS):
        for number in range(NODES_OF_A_RACK):
            gpus = gpus_of_last if rack == RACKS - 1 else 8
            world.node(f"n{rack}-{number}", gpus=gpus, labels={"rack": f"r{rack:02}"})
    return world


def unlike_gang(world: World, *, large: int, gpus: int) -> None:
    """Each member asks for another amount of processor; so many of them ask for so many GPUs as well."""
    world.pod_group("g", MEMBERS, **RACK)
    for number in range(MEMBERS):
        world.pod(f"g-{number}", group="g", gpus=gpus if number < large else 0, cpu=f"{number + 1}m", memory="1Mi")


def test_a_gang_of_unlike_members_that_fits_in_no_rack_is_not_placed_member_by_member_in_each(placed) -> None:
    """Two hundred pods of a thousandth of a processor kept all others waiting for 13 s, at each change of their gang."""
    world = racks()
    unlike_gang(world, large=NODES_OF_A_RACK + 1, gpus=5)  # there are GPUs enough in each rack, but not on its nodes
    world.pod("honest")
    world.run()
    assert set(world.where()) == {"honest"}
    assert 0 < placed.total() < 20 * MEMBERS


def test_a_rack_that_has_not_enough_for_all_unlike_members_is_no_try(placed) -> None:
    world = racks(gpus_of_last=16)
    unlike_gang(world, large=9, gpus=4)  # of which a rack of nodes with 8 takes eight
    world.pod("honest", selector={"rack": "r00"})
    world.run()
    assert {node.partition("-")[0] for node in world.where("g-").values()} == {f"n{RACKS - 1}"}
    assert len(world.where()) == MEMBERS + 1
    assert placed.total() <= 3 * MEMBERS


def test_for_a_gang_of_unlike_members_it_is_not_tried_without_end_who_has_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All members were placed anew for each pod that might go, twice: a gang of 64 took half a minute of everybody."""
    tries, rows = 0, quota_victims._Trial.rows

    def counted(self: Any, gone: Any) -> Any:
        nonlocal tries
        tries += 1
        return rows(self, gone)

    monkeypatch.setattr(quota_victims._Trial, "rows", counted)
    monkeypatch.setattr(quota_victims, "MOST_PLACED", 256)
    world = World()
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}]})
    world.flavor(topologyName="racks")
    world.queue("cq", 1000, preemption={"withinClusterQueue": "LowerPriority"})
    for number in range(12):
        world.node(f"n{number}", labels={"rack": f"r{number // 2}"})
        for at in range(8):
            world.pod(f"runs-{number}-{at}", queue="queue", node=f"n{number}")
    world.pod_group("g", 16, queueName="queue", **RACK)
    for number in range(16):
        world.pod(f"g-{number}", group="g", cpu=f"{number + 1}m", priority=5)
    world.pod("honest", gpus=0)
    world.run()
    assert len(world.where("g-")) == 16  # whom it takes out by its priority is found by halving
    assert world.where("honest")
    assert 0 < tries <= 256 // 16 + 8
    assert world.replay().differences == []
