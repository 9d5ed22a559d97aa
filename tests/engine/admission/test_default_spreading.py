"""Pods that do not say how they are spread are spread by what selects them: a Service, or their owner.

Rules: kube-scheduler 1.36, plugins/podtopologyspread (system defaults: hosts with maxSkew 3, zones with maxSkew 5, both
ScheduleAnyway) and plugins/helper/spread.go (whose selectors count).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement
from tutti.cluster.label_index import PodSelecting
from tutti.engine.records.observations import SelectingGone, SelectingSeen

ZONE = "topology.kubernetes.io/zone"


def world_of_zones(**configuration: Any) -> World:
    """Zone a has the emptiest nodes by far, so that without spreading everything goes there."""
    world = World(**configuration)
    for zone, cpu, count in (("a", 640, 4), ("b", 64, 2), ("c", 64, 2)):
        for i in range(count):
            world.node(f"{zone}{i}", cpu=cpu, labels={ZONE: zone})
    return world


def put(world: World, name: str, *, owner: OwnerReference | None = None, app: str = "web", **options: Any) -> None:
    pod = world.pod(name, gated=True, cpu="8", gpus=0, **options)
    meta = msgspec.structs.replace(
        pod.metadata, labels={**pod.metadata.labels, "app": app}, owner_references=[owner] if owner else []
    )
    world.put(msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, scheduling_gates=[])))


def select(world: World, kind: str = "Service", name: str = "web", **labels: str) -> None:
    world.tell(SelectingSeen(PodSelecting(kind, "default", name, LabelSelector(match_labels=labels))))


def zones(world: World) -> dict[str, int]:
    return dict(Counter(node[0] for node in world.where().values()))


def test_pods_of_a_service_are_spread_over_zones():
    alone = world_of_zones()
    served = world_of_zones()
    select(served, app="web")
    for world in (alone, served):
        for i in range(6):
            put(world, f"p{i}")
        world.run()
    assert zones(alone) == {"a": 6}
    assert zones(served) == {"a": 2, "b": 2, "c": 2}
    assert served.replay().differences == []


@pytest.mark.parametrize("gang", [False, True], ids=["one by one", "a gang"])
@pytest.mark.parametrize(("labels", "nodes"), [({}, 4), ({ZONE: "a"}, 3)], ids=["no zones", "one node in a zone"])
def test_pods_of_a_service_are_placed_where_nodes_are_in_no_zone(labels, nodes, gang):
    """Who is in none has no points of them, and so goes before who is in one (scoring.go, Score)."""
    world = World()
    for i in range(3):
        world.node(f"n{i}", cpu=64)
    world.node("n3", cpu=64, labels=labels)
    select(world, app="web")
    if gang:
        world.pod_group("g", 4)
    for i in range(4):
        put(world, f"p{i}", group="g" if gang else "")
    world.run()
    assert len(world.where()) == 4
    assert len(set(world.where().values())) == nodes


def test_members_of_a_gang_are_spread_by_the_same_rule():
    world = world_of_zones()
    select(world, app="web")
    world.pod_group("g", 6)
    for i in range(6):
        put(world, f"g-{i}", group="g")
    world.run()
    assert zones(world) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("kind", "version", "spread"),
    [
        ("ReplicaSet", "apps/v1", True),
        ("StatefulSet", "apps/v1", True),
        ("ReplicationController", "v1", True),
        ("ReplicaSet", "extensions/v1beta1", False),
        ("Job", "batch/v1", False),
    ],
)
def test_pods_are_spread_by_the_selector_of_their_owner(kind, version, spread):
    world = world_of_zones()
    select(world, kind, "owner", app="web")
    owner = OwnerReference(version, kind, "owner", "uid", controller=True)
    for i in range(6):
        put(world, f"p{i}", owner=owner)
    world.run()
    assert zones(world) == ({"a": 2, "b": 2, "c": 2} if spread else {"a": 6})


def test_an_owner_that_is_no_controller_does_not_count():
    world = world_of_zones()
    select(world, "ReplicaSet", "owner", app="web")
    for i in range(3):
        put(world, f"p{i}", owner=OwnerReference("apps/v1", "ReplicaSet", "owner", "uid"))
    world.run()
    assert zones(world) == {"a": 3}


def test_only_pods_that_the_service_and_the_owner_both_select_are_counted():
    world = world_of_zones()
    select(world, app="web")
    selector = LabelSelector(match_expressions=[LabelSelectorRequirement("app", "NotIn", ["old"])])
    world.tell(SelectingSeen(PodSelecting("ReplicaSet", "default", "owner", selector)))
    for i in range(3):
        put(world, f"old{i}", app="old", node="a0")  # the Service does not select them
    owner = OwnerReference("apps/v1", "ReplicaSet", "owner", "uid", controller=True)
    for i in range(3):
        put(world, f"p{i}", owner=owner)
    world.run()
    assert Counter(node[0] for name, node in world.where("p").items()) == {"a": 1, "b": 1, "c": 1}


def test_what_selected_pods_and_is_gone_does_not_spread_them():
    world = world_of_zones()
    select(world, app="web")
    select(world, "ReplicaSet", "owner", app="web")
    world.tell(SelectingGone("Service", "default", "web"))
    world.tell(SelectingGone("ReplicaSet", "default", "owner"))
    world.tell(SelectingGone("Service", "default", "unheard-of"))
    for i in range(3):
        put(world, f"p{i}", owner=OwnerReference("apps/v1", "ReplicaSet", "owner", "uid", controller=True))
    world.run()
    assert zones(world) == {"a": 3}


def test_what_comes_to_select_pods_later_spreads_those_that_come_then():
    world = world_of_zones()
    for i in range(2):
        put(world, f"p{i}")
    world.run()
    assert zones(world) == {"a": 2}
    select(world, app="web")
    for i in range(2, 6):
        put(world, f"p{i}")
    world.run()
    assert zones(world) == {"a": 2, "b": 2, "c": 2}
    select(world, app="other")  # it selects others now
    put(world, "p6")
    world.run()
    assert world.where("p6")["p6"][0] == "a"


STRICT = {
    "schedulerName": "tutti",
    "podTopologySpread": {
        "defaultingType": "List",
        "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    },
}


def test_a_strict_default_keeps_pods_waiting_until_the_other_zones_have_theirs():
    world = world_of_zones(profiles=[STRICT])
    select(world, app="web")
    for name in ("b0", "b1", "c0", "c1"):
        world.node(name, cpu=1, labels={ZONE: name[0]})  # no room for any of them
    for i in range(2):
        put(world, f"p{i}")
    world.run()
    assert zones(world) == {"a": 1}
    why = world.why("Pod", "p1").message
    assert "4 node(s) didn't match pod topology spread constraints" in why

    for zone in "bc":  # other schedulers' pods, which the Service selects
        put(world, f"other-{zone}", scheduler="other", node=f"{zone}0")
    world.run()
    assert world.where("p1")["p1"][0] == "a"


def test_a_strict_default_holds_only_as_long_as_something_selects_the_pod():
    world = world_of_zones(profiles=[STRICT])
    select(world, app="web")
    for name in ("b0", "b1", "c0", "c1"):
        world.node(name, cpu=1, labels={ZONE: name[0]})
    for i in range(2):
        put(world, f"p{i}")
    world.run()
    assert zones(world) == {"a": 1}
    world.tell(SelectingGone("Service", "default", "web"))
    world.run()
    assert zones(world) == {"a": 2}
