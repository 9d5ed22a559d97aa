"""Room that gangs keep for members yet to be made yields to others by quota and by priority, and to nobody else."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import IN_QUEUE, held, template
from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.preemption import kept_room

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


def test_only_gangs_whose_room_helps_leave():
    """The least important and latest go first, but not those that keep room elsewhere."""
    world = begin(gpus=8, labels={"pool": "big"})
    keeper(world, "there", 9, pool="big")
    world.run()
    for index in range(6):
        world.now += 1
        world.node(f"s{index}", gpus=1, labels={"pool": f"p{index}"})
        keeper(world, f"elsewhere{index}", 2, pool=f"p{index}")
        world.run()
    world.pod("vip", gpus=8, priority=1, selector={"pool": "big"})
    world.run()
    assert world.where("vip") == {"vip": "n0"}
    assert [one.note.count("vip") for one in world.events("Preempted")] == [1]
    assert held(world) == 6


def test_of_gangs_on_one_node_as_many_leave_as_have_to_the_latest_first():
    world = begin(gpus=8)
    for name in ("first", "second", "third"):
        world.now += 1
        keeper(world, name, 3)
        world.run()
    assert held(world) == 6
    world.pod("vip", gpus=4, priority=1)
    world.run()
    assert set(world.where()) == {"vip", "first-0", "second-0"}
    assert held(world) == 4
    assert not world.replay().differences


def test_a_gang_leaves_with_its_pods_where_what_it_keeps_is_not_enough():
    world = begin(gpus=8)
    keeper(world, "keep", 8, leader=1)
    world.run()
    world.pod("vip", gpus=8, priority=1)
    world.until(5)
    assert set(world.where()) == {"vip"}


def test_freed_room_goes_to_whom_it_was_freed_for():
    world = begin(gpus=8)
    world.queue("a", 8)
    world.queue("b", 8, local="lb", namespace="others")
    keeper(world, "keep", 9)
    world.run()
    world.pod("vip", namespace="others", gpus=8, priority=5, queue="lb")
    world.pod("thief", gpus=8, queue="queue")
    world.run()
    assert set(world.where("vip", "others")) == {"vip"}
    assert "thief" not in world.where()
    assert len(world.events("Preempted")) == 1
    assert not world.engine.state.nominations.ours


def test_how_often_nodes_are_looked_for_does_not_grow_with_those_that_keep_room(monkeypatch):
    world = begin(gpus=0)
    for index in range(60):
        keeper(world, f"e{index}", 2, gpus=0)
    world.run()
    world.node("busy", gpus=8)
    world.pod("important", gpus=8, priority=100, node="busy")
    world.run()
    tries = []
    real = kept_room.place_together
    monkeypatch.setattr(kept_room, "place_together", lambda *args: tries.append(1) or real(*args))
    world.pod("vip", gpus=8, priority=5)
    world.decide()
    assert 1 <= len(tries) <= 2
    assert len(world.where("e")) == 60


def test_who_waits_for_the_same_pods_with_lower_priority_chooses_anew_at_once():
    """Else it would look for others only once these have gone, and wait for those in their turn."""
    world = begin(gpus=8)
    world.hold_evictions = True
    world.node("n1", gpus=1)
    top = world.owner(
        "LeaderWorkerSet",
        "keep",
        spec={
            "replicas": 1,
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"size": 8, "leaderTemplate": template(), "workerTemplate": template()},
        },
    )
    leaders = world.owner("StatefulSet", "keep", controller=top, spec={"replicas": 1, "template": template()})
    marks = {f"{LWS}group-key": "k", f"{LWS}name": "keep"}
    size = {f"{LWS}size": "8"}
    leader = world.pod("keep-0", owner=leaders, labels={**marks, f"{LWS}worker-index": "0"}, annotations=size)
    world.pod("low", node="n1", scheduler="another")
    world.run()
    above = OwnerReference("v1", "Pod", "keep-0", leader.metadata.uid, controller=True)
    workers = world.owner("StatefulSet", "keep-0", controller=above, spec={"replicas": 7, "template": template()})
    for index in (1, 2):
        labels = {**marks, f"{LWS}worker-index": str(index)}
        world.pod(f"keep-0-{index}", owner=workers, labels=labels, annotations=size)
    world.run()
    world.begin_deleting("keep-0-2")
    world.pod("middle", priority=5)
    world.run()
    assert "default/keep-0-2 on n0" in world.why("Pod", "middle").message
    world.pod("top", gpus=8, priority=10)
    world.run()
    assert "kept for members yet to be made" in world.why("Pod", "top").message
    assert "default/low on n1" in world.why("Pod", "middle").message
