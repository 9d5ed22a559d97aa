"""Conditions of nodes that are configured keep new work off, and nothing else."""

from __future__ import annotations

import msgspec

from tests.engine.world import World
from tutti.api.core import PodCondition
from tutti.api.selectors import Toleration
from tutti.engine.records.observations import NodeSeen

DEADLOCK = {"nodeHealth": {"conditions": [{"type": "KernelDeadlock"}, {"type": "GPUHealthy", "status": "False"}]}}


def says(world: World, name: str, **conditions: str) -> None:
    """A monitor writes conditions of a node."""
    found = [PodCondition(kind, status) for kind, status in {"Ready": "True", **conditions}.items()]
    node = world.nodes[name]
    world.nodes[name] = msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=found))
    world.tell(NodeSeen(world.nodes[name]))


def cluster(**configuration: object) -> World:
    world = World(**configuration)
    for name in ("n0", "n1"):
        world.node(name)
    return world


def test_a_gang_keeps_off_a_node_that_is_not_well_and_comes_when_it_is_again():
    world = cluster(**DEADLOCK)
    says(world, "n0", KernelDeadlock="True")
    world.gang("g", 16)
    world.run()

    why = world.why("PodGroup", "g")
    assert why is not None
    assert why.message.startswith(
        "0/2 nodes are available: 1 node(s) had the condition KernelDeadlock, "
        "1 node(s) with room for only 8 of 16 pods of the gang."
    )
    world.restart()
    world.run()
    assert not world.where("g")

    says(world, "n0", KernelDeadlock="False")
    world.run()
    assert len(world.where("g")) == 16


def test_what_runs_there_goes_on_and_nobody_is_taken_out_for_room_there():
    world = cluster(**DEADLOCK)
    world.pod("runs", node="n0", gpus="8")
    world.pod("too", node="n1", gpus="8")
    says(world, "n0", GPUHealthy="False")
    world.pod("high", gpus="8", priority=10)
    world.run()

    assert world.where() == {"runs": "n0", "high": "n1"}


def test_who_is_there_to_repair_tolerates_it():
    world = cluster(**DEADLOCK)
    for name in ("n0", "n1"):
        says(world, name, KernelDeadlock="True")
    world.pod("repair", tolerations=[Toleration(key="scheduling.tutti.dev/condition", operator="Exists")])
    world.pod("work")
    world.run()

    assert list(world.where()) == ["repair"]


def test_nothing_is_looked_at_where_nothing_is_configured():
    world = cluster()
    for name in ("n0", "n1"):
        says(world, name, KernelDeadlock="True")
    world.pod("work")
    world.run()

    assert list(world.where()) == ["work"]
