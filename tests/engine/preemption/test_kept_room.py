"""Room that gangs keep for members yet to be made yields to others by quota and by priority, and to nobody else."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import IN_QUEUE, held, template
from tests.engine.world import World

LWS = "leaderworkerset.sigs.k8s.io/"


def keeper(
    world: World, name: str, size: int, *, gpus: int = 1, leader: int = 0, pool: str = "", **more: dict[str, str]
) -> None:
    """A leader on a node of a pool, with room for the rest of its group."""
    lead, work = template(leader), template(gpus)
    for one in (lead, work) if pool else ():
        one["spec"]["nodeSelector"] = {"pool": pool}
    spec = {
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {"size": size, "leaderTemplate": lead, "workerTemplate": work},
    }
    top = world.owner("LeaderWorkerSet", name, spec=spec, **more)
    world.pod(
        f"{name}-0",
        owner=top,
        gpus=leader,
        selector={"pool": pool} if pool else None,
        labels={f"{LWS}group-key": name, f"{LWS}worker-index": "0"},
        annotations={f"{LWS}size": str(size)},
    )


def begin(**node: object) -> World:
    world = World(namespaces=("default", "others"))
    world.follow_owners()
    world.flavor()
    world.node("n0", **node)
    return world


@pytest.mark.parametrize("by", ["cohort", "priority"])
def test_quota_that_is_used_by_kept_room_is_taken_back_like_any_other(by):
    world = begin()
    if by == "cohort":
        world.queue("team", 0, cohort="c")
        world.queue("owner", 8, cohort="c", local="mine", preemption={"reclaimWithinCohort": "Any"})
    else:
        world.queue("team", 8, local="mine", preemption={"withinClusterQueue": "LowerPriority"})
        world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    keeper(world, "keep", 8, leader=1, labels=IN_QUEUE)
    world.run()
    assert (world.used("team"), held(world)) == (8, 7)
    world.pod("honest", queue="mine", gpus=8, priority=1000)
    world.until(60)
    assert (list(world.where()), held(world)) == (["honest"], 0)
    assert len(world.events("Preempted")) == 1
    assert not world.replay().differences


def test_quota_that_is_used_by_kept_room_stays_with_who_may_not_be_preempted():
    world = begin()
    world.queue("team", 8, local="mine", preemption={"withinClusterQueue": "LowerPriority"})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    keeper(world, "keep", 8, leader=1, labels=IN_QUEUE)
    world.run()
    world.pod("equal", queue="mine", gpus=8)
    world.until(60)
    assert (list(world.where()), held(world)) == (["keep-0"], 7)
