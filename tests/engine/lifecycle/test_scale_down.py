"""Members that a gang needs are kept from scale-down, where that is asked for, and no others.

The keys: cluster-autoscaler 1.36, utils/drain (PodSafeToEvictKey); Karpenter, pkg/apis/v1/labels.go (DoNotDisrupt).
"""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.engine.records.decisions import AnnotatePod, Bind

EVICT, DISRUPT = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
MARK = "scheduling.tutti.dev/scale-down-protection"


def protected(world: World) -> list[str]:
    """Whom neither cluster-autoscaler nor Karpenter would evict."""
    said = {name: pod.metadata.annotations for (_, name), pod in sorted(world.pods.items())}
    return [name for name, one in said.items() if (one.get(EVICT), one.get(DISRUPT)) == ("false", "true")]


def asking(protection: str = "WhileNeeded") -> World:
    world = World()
    world.node("n0", gpus=16)
    world.flavor()
    world.queue("cq", 16, scaleDownProtection=protection)
    return world


def annotated(world: World) -> list[AnnotatePod]:
    return [one for one in world.log if isinstance(one, AnnotatePod)]


def test_the_members_of_a_gang_are_protected_with_the_bind_and_by_no_write_of_its_own():
    world = asking()
    world.gang("g", 2, queue="queue")
    world.run()
    assert protected(world) == ["g-0", "g-1"]
    assert all(one.annotations[MARK] == f"{EVICT},{DISRUPT}" for one in world.binds())
    assert not annotated(world)
    assert not world.replay().differences


@pytest.mark.parametrize("protection", ["Never", None])
def test_nobody_is_protected_who_does_not_ask_for_it(protection):
    world = asking(protection) if protection else World()
    world.node("n0", gpus=16)
    world.gang("g", 2, queue="queue" if protection else "")
    world.run()
    assert len(world.where()) == 2
    assert not any(MARK in one.annotations for one in world.log if isinstance(one, Bind))
    assert not annotated(world)


def test_a_single_pod_is_no_gang_and_may_go():
    world = asking()
    world.pod("p", queue="queue")
    world.run()
    assert (world.where(), protected(world)) == ({"p": "n0"}, [])


def test_members_beyond_the_minimum_may_go():
    world = asking()
    world.gang("g", 4, min_count=2, queue="queue")
    world.run()
    assert len(world.where()) == 4
    assert protected(world) == ["g-0", "g-1"]
    world.delete("g-0")
    world.run()
    assert len(protected(world)) == 2  # another is needed now
    assert not world.replay().differences


@pytest.mark.parametrize("said", ["WhileNeeded", "Never"])
def test_a_workload_decides_before_its_queue(said):
    world = asking("Never" if said == "WhileNeeded" else "WhileNeeded")
    world.workload("w", {"name": "g", "count": 2}, queueName="queue", scaleDownProtection=said)
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", group="g")
    world.run()
    assert len(world.where()) == 2
    assert protected(world) == (["w-0", "w-1"] if said == "WhileNeeded" else [])


def test_it_is_taken_off_when_nobody_asks_for_it_any_more_also_by_another_process():
    world = asking()
    world.gang("g", 2, queue="queue")
    world.run()
    world.restart()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "scaleDownProtection": "Never"})
    world.run()
    assert protected(world) == []
    assert not any(MARK in pod.metadata.annotations for pod in world.pods.values())
    world.object("ClusterQueue", "cq", spec)
    world.run()
    assert protected(world) == ["g-0", "g-1"]


def test_it_is_taken_off_those_that_outlive_their_gang():
    world = asking()
    world.workload(
        "w",
        *({"name": name, "count": 1} for name in ("lead", "helper")),
        queueName="queue",
        successPolicy={"podGroups": ["lead"]},
    )
    for name in ("lead", "helper"):
        world.pod(name, workload="w", group=name)
    world.run()
    assert protected(world) == ["helper", "lead"]
    world.become_ready("lead", "helper")
    world.finish("lead")
    world.run()
    assert world.engine.state.workloads["Workload", "default", "w"].phase == "Finished"
    assert protected(world) == ["lead"]  # it has ended, and is in nobody's way


def test_what_a_user_has_written_stands():
    world = asking()
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g", annotations={EVICT: "true"})
    world.pod("g-1", group="g", annotations={EVICT: "false", DISRUPT: "4h"})
    world.run()
    said = {name: pod.metadata.annotations for (_, name), pod in world.pods.items()}
    assert (said["g-0"][EVICT], said["g-0"][DISRUPT], said["g-0"][MARK]) == ("true", "true", DISRUPT)
    assert (said["g-1"][EVICT], said["g-1"][DISRUPT]) == ("false", "4h")
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "scaleDownProtection": "Never"})
    world.run()
    said = {name: pod.metadata.annotations for (_, name), pod in world.pods.items()}
    assert said["g-0"][EVICT] == "true"
    assert DISRUPT not in said["g-0"]
    assert (said["g-1"][EVICT], said["g-1"][DISRUPT]) == ("false", "4h")


def test_without_the_right_it_is_told_once_and_asked_for_again_after_a_while():
    world = asking()
    world.gang("g", 2, queue="queue")
    world.run()
    world.refuse_annotations = True
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "scaleDownProtection": "Never"})
    world.until(150)
    (event, _) = world.events("ScaleDownProtection")  # one for each pod
    assert "manifests/components/scale-down-protection" in event.note
    assert len(annotated(world)) == 6
    world.refuse_annotations = False
    world.until(70)
    assert protected(world) == []
