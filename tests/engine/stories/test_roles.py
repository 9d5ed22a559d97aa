"""Workloads of several roles, placed together by the engine; broken gangs are mended before new work starts."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.engine.world import World
from tutti.api.core import ObjectMeta, PodSpec

ZONE = "topology.kubernetes.io/zone"


def near(app: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def member(world: World, name: str, app: str, more: dict[str, Any], **options: Any) -> None:
    """A pod with a label `app` that asks for more than `World.pod` can say."""
    pod = world.pod(name, gated=True, **options)
    meta: ObjectMeta = msgspec.structs.replace(pod.metadata, labels={**pod.metadata.labels, "app": app})
    plain = {**msgspec.to_builtins(pod.spec), **more}
    plain.pop("schedulingGates")
    world.put(msgspec.structs.replace(pod, metadata=meta, spec=msgspec.convert(plain, PodSpec)))


def test_leader_and_workers_that_want_each_other_start_together():
    world = World()
    world.node("a", gpus=2, labels={ZONE: "a"})
    world.node("b0", gpus=2, labels={ZONE: "b"})
    world.node("b1", gpus=2, labels={ZONE: "b"})
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 3})
    member(world, "leader", "leader", near("worker"), workload="w", group="leader")
    for rank in range(3):
        member(world, f"worker-{rank}", "worker", near("leader"), workload="w", group="workers")
    world.run()
    assert set(world.where().values()) == {"b0", "b1"}
    assert len(world.where()) == 4


def test_a_workload_whose_roles_fit_only_one_at_a_time_says_so():
    world = World()
    world.node("n0", gpus=3, cpu=10)
    world.node("n1", gpus=3, cpu=8)
    world.workload("w", {"name": "trainer", "count": 2}, {"name": "loader", "count": 2})
    for rank in range(2):
        world.pod(f"trainer-{rank}", workload="w", group="trainer", gpus=2, cpu="4")
        world.pod(f"loader-{rank}", workload="w", group="loader", gpus=1, cpu="5")
    world.run()
    assert world.where() == {}
    assert world.why("Workload", "w").message.endswith("no arrangement was found in which all do.")


def test_a_broken_gang_is_mended_before_new_work_starts():
    world = World()
    for i in range(2):
        world.node(f"n{i}", gpus=1)
    world.gang("old", 2)
    world.run()
    assert len(world.where()) == 2

    world.pod("new", priority=1000, preempts=False)
    world.run()
    lost = next(name for name, node in world.where().items() if node == "n1")
    world.remove_node("n1")
    world.delete(lost)
    world.pod("old-2", group="old")
    world.run()
    assert "new" not in world.where()

    world.node("n2", gpus=1)
    world.run()
    assert world.where()["old-2"] == "n2"
    assert "new" not in world.where()
