"""How pods that are nominated count for the rules between pods, while they wait for their victims.

By kube-scheduler 1.36 (framework/runtime, RunFilterPluginsWithNominatedPods) filters must let a pod go to a node with
those added that are nominated there, of its priority or above, and without them as well; those nominated on other nodes
are not asked about, and scores count none. So is expected here, but where a row says otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import ObjectMeta, PodSpec
from tutti.engine.records.decisions import Evict

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def term(key: str, app: str = "x") -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def apart(key: str, app: str = "x") -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(key, app)]}}}


def near(key: str, app: str = "x") -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(key, app)]}}}


def both(key: str) -> dict[str, Any]:
    """Near others of app y, and apart from those of app x."""
    return {"affinity": {**near(key, "y")["affinity"], **apart(key)["affinity"]}}


def disliked(key: str) -> dict[str, Any]:
    weighted = [{"weight": 100, "podAffinityTerm": term(key)}]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


def spread(key: str, when: str = "DoNotSchedule", most: int = 1) -> dict[str, Any]:
    one = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": when, "nodeAffinityPolicy": "Ignore"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": {"app": "x"}}}]}


def port(number: int = 80) -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": number}]}]}


def disk() -> dict[str, Any]:
    return {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}


def put(
    world: World, name: str, spec: dict[str, Any], *, app: str = "", node: str = "", nominated: str = "", **more: Any
) -> None:
    """A pod that says more than `World.pod` can, on a node or nominated there by another scheduler."""
    other = {"scheduler": "another"} if node or nominated else {}
    pod = world.pod(name, gated=True, node=node, **{**other, **more})
    labels = {**pod.metadata.labels, **({"app": app} if app else {})}
    meta: ObjectMeta = msgspec.structs.replace(pod.metadata, labels=labels)
    plain = {**msgspec.to_builtins(pod.spec), **spec}
    plain.pop("schedulingGates")
    status = msgspec.structs.replace(pod.status, nominated_node_name=nominated)
    world.put(msgspec.structs.replace(pod, metadata=meta, spec=msgspec.convert(plain, PodSpec), status=status))


NODES = ("a0", "a1", "b0", "b1")
"""Two zones, a and b, of two nodes each."""


class Scene(NamedTuple):
    """Nodes a0 and a1 of one zone, b0 and b1 of another, and a pod of app x and priority 5 that may go to some of them.

    Attributes:
        says: What the pod says.
        nominated: On which node which pod is nominated, of app x and priority 5 where it does not say otherwise.
        open: Where the pod may go.
        there: On which nodes a pod of app x runs.
    """

    says: dict[str, Any]
    nominated: list[tuple[str, dict[str, Any]]]
    open: str
    there: str = ""


SCENES = {
    "apart on the node": Scene(apart(HOST), [("a0", {})], "a1 b0 b1"),
    "apart on the node, says the nominated one": Scene({}, [("a0", apart(HOST))], "a1 b0 b1"),
    "apart in the zone": Scene(apart(ZONE), [("a0", {})], "a1 b0 b1"),
    "apart in the zone, says the nominated one": Scene({}, [("a0", apart(ZONE))], "a1 b0 b1"),
    "apart from one of lower priority": Scene(apart(HOST), [("a0", {"priority": 4})], "a0 a1 b0 b1"),
    "apart where no node has the label": Scene(apart("none"), [("a0", {})], "a0 a1 b0 b1"),
    "apart from others": Scene(apart(HOST), [("a0", {"app": "y"})], "a0 a1 b0 b1"),
    "near others, and apart from the nominated": Scene(both(ZONE), [("a0", {})], "a1"),
    "near the nominated one alone": Scene(near(HOST, "y"), [("a0", {"app": "y"})], "a1"),
    "near its own, of which one is nominated": Scene(near(HOST), [("a0", {})], "a0 a1 b0 b1"),
    "spread, with one nominated": Scene(spread(HOST), [("a0", {})], "a1 b0 b1"),
    "spread, met by who is nominated elsewhere": Scene(spread(HOST), [("a0", {}), ("a1", {}), ("b0", {})], "", "b1"),
    "spread over zones": Scene(spread(ZONE), [("a0", {})], "a1 b0 b1"),
    "spread, where one nominated fills the emptiest": Scene(spread(ZONE), [("a0", {})], "a0 a1", "b0"),
    "spread, where two overfill the emptiest": Scene(spread(ZONE), [("a0", {}), ("a0", {})], "a1", "b0"),
    "spread, where the nominated one is not counted": Scene(spread(HOST), [("a0", {"app": "y"})], "a0 a1 b0 b1"),
    "a port": Scene(port(), [("a0", port())], "a1 b0 b1"),
    "another port": Scene(port(), [("a0", port(81))], "a0 a1 b0 b1"),
    "a disk": Scene(disk(), [("a0", disk())], "a1 b0 b1"),
}


def begun(scene: Scene, may: str) -> World:
    world = World()
    for name in NODES:
        world.node(name, labels={ZONE: name[0], "may": str(name in may.split()).lower()})
    for number, node in enumerate(scene.there.split()):
        put(world, f"there-{number}", {}, app="x", node=node, priority=9)
    put(world, "friend", {}, app="y", node="a1", priority=9)
    for number, (node, says) in enumerate(scene.nominated):
        said = dict(says)
        app, priority = said.pop("app", "x"), said.pop("priority", 5)
        put(world, f"nominated-{number}", said, app=app, nominated=node, priority=priority)
    put(world, "probe", scene.says, app="x", selector={"may": "true"}, priority=5)
    world.run()
    return world


@pytest.mark.parametrize("scene", SCENES)
def test_a_pod_may_go_where_it_may_both_with_those_who_are_nominated_there_and_without_them(scene):
    found = [node for node in NODES if begun(SCENES[scene], node).where("probe")]
    assert " ".join(found) == SCENES[scene].open


@pytest.mark.parametrize("says", [{}, spread(HOST, "ScheduleAnyway"), disliked(HOST), disliked(ZONE)])
def test_scores_count_nobody_who_is_nominated(says):
    """Of nodes that are worth the same the first is taken."""
    assert begun(Scene(says, [("a0", {})], ""), "a0 b0").where("probe") == {"probe": "a0"}


def test_the_members_of_a_gang_mind_those_who_are_nominated_and_one_another():
    world = World()
    for name in ("a0", "a1", "b0", "b1"):
        world.node(name, labels={ZONE: name[0]})
    put(world, "nominated", {}, app="x", nominated="a0", priority=5)
    world.pod_group("g", 3)
    for number in range(3):
        put(world, f"g-{number}", spread(HOST), app="x", group="g", priority=5)
    world.run()
    assert sorted(world.where("g").values()) == ["a1", "b0", "b1"]


@pytest.mark.parametrize("says", [apart(ZONE), spread(ZONE)])
def test_nobody_is_taken_out_in_a_zone_where_one_who_is_nominated_will_be_in_the_way(says):
    """kube-scheduler would have both wait in one zone, and the second look again when the first has come."""
    world = World()
    world.hold_evictions = True
    for node in NODES:
        world.node(node, gpus=1, labels={ZONE: node[0]})
        put(world, f"low-{node}", {}, app="y", node=node, priority=0 if node[0] == "a" else 1)
    for name in ("first", "second"):
        put(world, name, says, app="x", priority=5)
    world.run()
    zones = [nomination.nodes[0][0] for nomination in world.engine.state.nominations.ours.values()]
    assert sorted(zones) == ["a", "b"]
    assert len([one for one in world.log if isinstance(one, Evict)]) == 2


@pytest.mark.parametrize("says", [apart(ZONE), {}])
def test_nobody_is_taken_out_where_a_node_is_free_whose_zone_one_who_is_nominated_needs(says):
    world = World()
    world.hold_evictions = True
    for node in NODES:
        world.node(node, gpus=1, labels={ZONE: node[0]})
    for node in ("a0", "b0", "b1"):
        put(world, f"low-{node}", {}, app="y", node=node)
    put(world, "nominated", apart(ZONE), app="x", nominated="a0", priority=5)
    put(world, "probe", says, app="x", priority=5)
    world.run()
    assert world.where("probe") == {"probe": "a1"}
    assert not [one for one in world.log if isinstance(one, Evict)]
