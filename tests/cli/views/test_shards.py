"""Views of a cluster that several processes schedule: each workload is answered for by the shard that schedules it."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.views import scene
from tutti.api.configuration import TuttiConfiguration
from tutti.api.selectors import LabelSelector
from tutti.api.shards import SHARD_ANNOTATION, Shard
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.gangs import gangs
from tutti.cli.views.nodes import top
from tutti.cli.views.quota_tree import forest, in_shards
from tutti.cli.views.what_if import ObservedCluster

KEY = ("PodGroup", "fast", "wide")


def owned(made: scene.Json) -> scene.Json:
    made["metadata"]["annotations"] = {SHARD_ANNOTATION: "fast"}
    return made


def asked(*, sharded: bool = True) -> ObservedCluster:
    """Two nodes, of which one is a shard's, and a gang of that shard that would need both."""
    made = [
        scene.node("slow-1", "A", "r"),
        owned(scene.node("fast-1", "B", "r")),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slow"}},
        owned({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fast"}}),
        scene.ours("ResourceFlavor", "any", {}),
        scene.queue("slow", "", "any", 16),
        owned(scene.queue("fast", "", "any", 16)),
        *(scene.ours("LocalQueue", "main", {"clusterQueue": name}, name) for name in ("slow", "fast")),
        scene.group("fast", "wide", 2),
        scene.group("slow", "one", 1),
        *(scene.pod("fast", f"wide-{rank}", 8, gang="wide") for rank in range(2)),
        scene.pod("slow", "one-0", 8, gang="one"),
    ]
    shards = [Shard(name="fast", cluster_queues=["fast"], nodes=LabelSelector({scene.MODEL: "B"}))]
    configuration = TuttiConfiguration(shards=shards if sharded else [])
    return replace(scene.told(made), configuration=configuration)


def test_a_workload_is_explained_by_the_nodes_of_its_shard():
    alone, sharded = asked(sharded=False), asked().around("Namespace", "fast")
    assert alone.what_if(alone.listed.seen, KEY) is None
    found = explanation_of(sharded, sharded.stock().state, KEY)
    assert found.shard == "fast"
    assert "Placement" in {step.gate for step in found.steps if step.verdict == "Waits"}
    assert len(found.rooms) == 1


def test_without_shards_nothing_is_said_of_them():
    alone = asked(sharded=False)
    assert alone.around("Namespace", "fast") is alone
    assert alone.shards() == [alone]
    assert explanation_of(alone, alone.stock().state, KEY).shard == ""


def test_gangs_of_all_shards_are_listed_each_by_its_own():
    found = {one.name: one.gate for one in gangs(asked())}
    assert found == {"one": "", "wide": "Placement"}


def test_queues_and_nodes_say_whose_they_are():
    cluster = asked()
    state = cluster.stock().state
    roots = [in_shards(one, cluster) for one in forest(state)]
    assert {one.name: one.notes for one in roots} == {"fast": ("shard fast",), "slow": ("shard default",)}
    nodes = top(state, [scene.GPU], None, lambda node: cluster.shard_of("Node", node)).nodes
    assert {one.node: one.notes for one in nodes} == {"fast-1": ("shard fast",), "slow-1": ("shard default",)}
