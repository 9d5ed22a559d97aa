"""How important pods are that do not exist yet: their template names a PriorityClass, or the cluster has a default."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import World
from tutti.api.core import ObjectMeta, PriorityClass
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import PriorityClassGone, PriorityClassSeen


def put_class(world: World, name: str, value: int, *, default: bool = False, policy: str = "") -> None:
    world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name=name), value, default, policy)))


def template(name: str = "") -> dict[str, Any]:
    return {"spec": {**TEMPLATE["spec"], **({"priorityClassName": name} if name else {})}}


def world_of(gpus: int = 2, **spec: Any) -> World:
    world = World()
    world.flavor()
    world.queue("cq", gpus, **spec)
    world.node("n1", gpus=2)
    put_class(world, "high", 100)
    put_class(world, "low", -100)
    return world


def submit(world: World, name: str, chosen: str = "", count: int = 2, **spec: Any) -> None:
    world.now += 1.0
    world.workload(name, {"count": count, "template": template(chosen)}, queueName="queue", **spec)


def held(world: World) -> list[str]:
    """The workloads for which room is held."""
    return [key[2] for key, one in world.engine.state.workloads.items() if any(g.holds for g in one.groups.values())]


def priority(world: World, name: str) -> int:
    return world.engine.state.workloads["Workload", "default", name].priority


@pytest.mark.parametrize(
    ("classes", "named", "expected"),
    [
        ({}, "high", 100),
        ({}, "", 0),
        ({"usual": 7}, "", 7),
        ({"usual": 7}, "high", 100),
        ({"usual": 7, "other": 3}, "", 3),  # kube-apiserver: of several defaults the lowest
        ({"usual": 7}, "missing", 0),
    ],
)
def test_a_template_has_the_priority_of_its_class_or_the_default(classes, named, expected):
    world = world_of()
    for name, value in classes.items():
        put_class(world, name, value, default=True)
    submit(world, "w", named)
    world.run()
    assert priority(world, "w") == expected


def test_who_is_promised_more_important_pods_goes_first():
    world = world_of()
    submit(world, "low", "low")
    submit(world, "none")
    submit(world, "high", "high")
    world.run()
    assert held(world) == ["high"]


def test_a_class_that_comes_or_changes_later_counts_from_then_on():
    world = world_of(gpus=0)
    submit(world, "w")
    world.run()
    put_class(world, "usual", 5, default=True)
    world.run()
    assert priority(world, "w") == 5
    put_class(world, "usual", 5)
    world.run()
    assert priority(world, "w") == 0
    put_class(world, "usual", 6, default=True)
    world.tell(PriorityClassGone("usual"))
    world.run()
    assert priority(world, "w") == 0


def test_pods_that_are_there_say_it_themselves():
    world = world_of()
    submit(world, "w", "high")
    world.pod("w-0", workload="w", priority=3)
    world.run()
    assert priority(world, "w") == 3


def test_the_class_and_the_number_of_the_object_go_before():
    world = world_of()
    submit(world, "w", "high", priority=9)
    world.run()
    assert priority(world, "w") == 9


@pytest.mark.parametrize(("policy", "victims"), [("", ["p"]), ("Never", [])])
def test_promised_pods_take_out_others_as_they_will_be_allowed_to(policy, victims):
    world = world_of(gpus=8)
    put_class(world, "usual", 50, default=True, policy=policy)
    world.pod("p", gpus=2, priority=10)
    world.run()
    submit(world, "w")
    world.run()
    assert [one.name for one in world.log if isinstance(one, Evict)] == victims
    assert held(world) == (["w"] if victims else [])


def test_only_who_may_go_by_a_priority_class_is_looked_at_when_one_changes():
    world = world_of()
    world.pod("runs", gpus=0)
    world.run()
    world.pod("waits", gpus=3)
    submit(world, "w", "high")
    world.run()
    state = world.engine.state
    put_class(world, "high", 100)
    state.renew()
    assert not state.dirty  # it is what it was
    put_class(world, "high", 7)
    state.renew()
    assert sorted(key[2] for key in state.dirty) == ["w", "waits"]
    world.run()
    assert priority(world, "w") == 7
