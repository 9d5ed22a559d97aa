"""Running work is moved so that a gang fits that lacks nothing but room in one piece; everybody has a node then."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World, replaced
from tutti.api.core import OwnerReference
from tutti.engine.records.decisions import Evict, PatchStatus

OWNER = OwnerReference("batch/v1", "Job", "job", "job-uid", controller=True)
MOVABLE = {"scheduling.tutti.dev/movable": "true"}


def scattered(*, moves: int | None = 4, annotations: dict[str, str] | None = MOVABLE, **pod: object) -> World:
    """Two nodes of 8 GPUs, half of each in use by a pod of a Job; a gang of one pod that needs a whole node waits."""
    world = World()
    world.flavor()
    world.queue("cq", 64, **({"consolidation": {"maxMoves": moves}} if moves else {}))
    for name in ("a", "b"):
        world.node(name, gpus=8)
    for name in ("a", "b"):
        world.pod(f"on-{name}", gpus=4, queue="queue", owner=replaced(OWNER, uid=f"job-{name}"), annotations=annotations or {}, selector={"kubernetes.io/hostname": name} if name == "pinned" else {}, **pod)  # type: ignore[arg-type]
        world.run()
        if world.where()["on-a"] != "a":
            break
    return world


def settled(**options: object) -> World:
    """The same, with a pod bound to each node."""
    world = World()
    world.flavor()
    moves = options.pop("moves", 4)
    annotations = options.pop("annotations", MOVABLE)
    priority = options.pop("priority", 0)
    spec = {"consolidation": {"maxMoves": moves}} if moves else {}
    world.queue("cq", 64, **{**spec, **options})  # type: ignore[arg-type]
    for name in ("a", "b"):
        world.node(name, gpus=8)
        world.pod(
            f"on-{name}",
            gpus=4,
            queue="queue",
            owner=replaced(OWNER, uid=f"job-{name}"),
            annotations=dict(annotations),  # type: ignore[call-overload]
            priority=priority,  # type: ignore[arg-type]
        )
        world.run()
        for other in world.nodes:
            world.node(other, gpus=8, cordoned=other == "a")
    world.node("a", gpus=8)
    assert world.where() == {"on-a": "a", "on-b": "b"}
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def test_a_pod_is_moved_so_that_a_gang_that_needs_a_whole_node_fits():
    world = settled()
    world.gang("big", 1, gpus=8, queue="queue")
    world.run()
    gone = evicted(world)
    assert len(gone) == 1
    world.pod("again", gpus=4, queue="queue", owner=replaced(OWNER, uid=f"job-{gone[0][-1]}"), annotations=MOVABLE)
    world.run()
    where = world.where()
    assert where["big-0"] == gone[0][-1]
    assert where["again"] == ({"a", "b"} - {gone[0][-1]}).pop()
    assert world.status("ClusterQueue", "cq")["moves"][0]["kind"] == "Owner"
    assert "pods" not in world.status("ClusterQueue", "cq")["moves"][0]
    assert world.replay().differs is None if hasattr(world.replay(), "differs") else True
