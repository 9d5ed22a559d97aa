"""What is reserved is given back, and made elsewhere if it can be, once its node takes no such pods any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World
from tutti.api.selectors import Taint, Toleration
from tutti.engine.records.gang_membership import GATE_ANNOTATION

WORSE: dict[str, dict[str, Any]] = {
    "cordoned": {"cordoned": True},
    "tainted": {"taints": [Taint("maintenance", "", "NoSchedule")]},
    "evicting": {"taints": [Taint("node.kubernetes.io/not-ready", "", "NoExecute")]},
    "smaller": {"gpus": 2},
}


def reserved(name: str = "g", **pod: Any) -> World:
    """A gang of two that has both nodes there are, and waits for an approval."""
    world = World()
    world.flavor("spare", nodeLabels={}, tolerations=[{"key": "spare", "operator": "Exists"}])
    world.queue("cq", 16, flavors=("spare",))
    for node in ("n0", "n1"):
        world.node(node, gpus=4)
    world.gang(name, 2, gpus=4, queue="queue", annotations={GATE_ANNOTATION: "budget"}, **pod)
    world.run()
    assert assumed(world) == {"n0", "n1"}
    return world


def assumed(world: World) -> set[str]:
    return {member.pod.assumed for member in world.engine.state.members.values()} - {""}


def approve(world: World) -> None:
    for rank in range(2):
        pod = world.pods["default", f"g-{rank}"]
        meta = type(pod.metadata)(
            name=pod.metadata.name, namespace="default", uid=pod.metadata.uid, labels=pod.metadata.labels
        )
        world.put(type(pod)(meta, pod.spec, pod.status))


@pytest.mark.parametrize("how", WORSE)
def test_a_gang_that_is_approved_after_its_node_got_worse_goes_to_another(how: str) -> None:
    world = reserved()
    world.node("n1", **{"gpus": 4, **WORSE[how]})
    world.until(1)
    assert assumed(world) == set()
    assert world.used("cq", "spare") == 0

    world.node("n2", gpus=4)
    world.until(30)
    approve(world)
    world.until(30)
    assert sorted(world.where().values()) == ["n0", "n2"]
    assert not world.replay().differences


@pytest.mark.parametrize("tolerated", ["by the pods", "by the flavor", "by nobody, and it only prefers others"])
def test_a_taint_that_is_no_matter_leaves_the_reservation_as_it_is(tolerated: str) -> None:
    by_pods = tolerated == "by the pods"
    world = reserved(tolerations=[Toleration("maintenance", "Exists")] if by_pods else None)
    effect = "PreferNoSchedule" if tolerated.startswith("by nobody") else "NoSchedule"
    world.node("n1", gpus=4, taints=[Taint("spare" if tolerated == "by the flavor" else "maintenance", "", effect)])
    world.until(1)
    assert assumed(world) == {"n0", "n1"}

    approve(world)
    world.until(30)
    assert sorted(world.where().values()) == ["n0", "n1"]
    assert len(world.events("WaitingForApproval")) == 1


def test_room_that_is_held_for_members_to_come_is_looked_at_as_well() -> None:
    world = World()
    world.node("n0", gpus=1)
    world.node("n1", gpus=1)
    resources = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": resources}]}}
    world.workload("w", {"count": 2, "template": template})
    world.pod("w-0", workload="w")
    world.run()
    (held,) = (
        hold
        for group in world.engine.state.workloads["Workload", "default", "w"].groups.values()
        for hold in group.holds
    )
    world.node(held.node, gpus=1, cordoned=True)
    world.until(1)
    assert world.reason("Workload", "w") == "Unschedulable"
    world.node("n2", gpus=1)
    world.until(10)
    assert world.reason("Workload", "w") == "WaitingForMembers"
