"""What of a cluster the engine of one shard is told."""

from __future__ import annotations

from typing import Any

from tutti.api.core import Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec
from tutti.api.devices import ResourceSlice, ResourceSliceSpec
from tutti.api.selectors import LabelSelector
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION, Shard
from tutti.engine.records.device_observations import SliceSeen
from tutti.engine.records.observations import (
    AnyObservation,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    ObjectUnread,
    PodGone,
    PodSeen,
)
from tutti.shards.ownership import NAMESPACE, NODE, Holding, Ownership
from tutti.shards.view import ShardView

SHARDS = [Shard(name="gpu", cohorts=["research"], nodes=LabelSelector({"pool": "gpu"}))]


def node(name: str, pool: str, has: str = "") -> NodeSeen:
    annotations = {SHARD_ANNOTATION: has} if has else {}
    room: dict[str, str | int | float] = {"cpu": "8", "pods": "10"}
    meta = ObjectMeta(name=name, labels={"pool": pool}, annotations=annotations)
    return NodeSeen(Node(meta, status=NodeStatus(room, room)))


def namespace(name: str, has: str = "") -> NamespaceSeen:
    return NamespaceSeen(Namespace(ObjectMeta(name=name, annotations={SHARD_ANNOTATION: has} if has else {})))


def pod(space: str, name: str, where: str = "", scheduler: str = "tutti", uid: str = "") -> PodSeen:
    meta = ObjectMeta(name=name, namespace=space, uid=uid or f"uid-{name}")
    return PodSeen(Pod(meta, PodSpec(scheduler_name=scheduler, node_name=where)))


def ours(kind: str, name: str, spec: dict[str, Any], space: str = "", has: str = "") -> ObjectSeen:
    meta: dict[str, Any] = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    meta |= {"namespace": space} if space else {}
    meta |= {"annotations": {SHARD_ANNOTATION: has}} if has else {}
    return ObjectSeen(kind, {"metadata": meta, "spec": spec})


class Told:
    """The view of a shard after everything was read, and what it passes on."""

    def __init__(self, shard: str) -> None:
        ownership = Ownership(SHARDS)
        ownership.put_local_queue("cats", "queue", "2026-01-01T00:00:00Z", "cats")
        ownership.put_cluster_queue("cats", "research", {SHARD_ANNOTATION: "gpu"})
        ownership.put_cluster_queue("other", "", {})
        ownership.put_namespace("cats", {SHARD_ANNOTATION: "gpu"})
        ownership.put_namespace("rest", {})
        ownership.put_node("g", {"pool": "gpu"}, {SHARD_ANNOTATION: "gpu"})
        ownership.put_node("d", {"pool": "cpu"}, {})
        self.told: list[AnyObservation] = []
        self.view = ShardView(shard, ownership, ["tutti"], self.told.append)

    def see(self, *observations: AnyObservation) -> list[AnyObservation]:
        self.told.clear()
        for one in observations:
            self.view.observe(one)
        return list(self.told)


def test_a_shard_is_told_of_its_nodes_and_namespaces_only():
    gpu, default = Told("gpu"), Told(DEFAULT_SHARD)
    seen = [node("g", "gpu", "gpu"), node("d", "cpu"), pod("cats", "a"), pod("rest", "b")]
    assert gpu.see(*seen) == [seen[0], seen[2]]
    assert default.see(*seen) == [seen[1], seen[3]]


def test_what_runs_on_its_nodes_for_others_takes_room_there_and_is_not_its_own():
    gpu = Told("gpu")
    [guest] = gpu.see(pod("rest", "b", "g"))
    assert isinstance(guest, PodSeen)
    assert guest.pod.spec.scheduler_name not in ("tutti", "")
    assert gpu.see(pod("rest", "daemon", "g", "default-scheduler"))[0].pod.spec.scheduler_name == "default-scheduler"
    gone = PodGone("rest", "b", "uid-b")
    assert gpu.see(gone) == [gone]


def test_late_news_does_not_take_back_where_a_guest_is():
    gpu = Told("gpu")
    gpu.see(pod("rest", "b", "g"))
    assert gpu.see(pod("rest", "b")) == []  # from before it was bound
    assert gpu.see(pod("rest", "b", uid="next")) == [PodGone("rest", "b", "uid-b")]


def test_a_node_of_others_on_which_it_has_work_is_lent_without_room():
    gpu = Told("gpu")
    gpu.see(node("d", "cpu"))
    lent, own = gpu.see(pod("cats", "a", "d"))
    assert isinstance(lent, NodeSeen)
    assert lent.node.metadata.name == "d"
    assert not lent.node.status.allocatable
    assert own == pod("cats", "a", "d")
    assert not gpu.see(node("d", "cpu"))[0].node.status.allocatable
    assert gpu.see(NodeGone("d")) == [NodeGone("d")]


def test_a_lent_node_is_told_although_its_pod_was_seen_first():
    gpu = Told("gpu")
    assert gpu.see(pod("cats", "a", "d")) == [pod("cats", "a", "d")]
    [lent] = gpu.see(node("d", "cpu"))
    assert not lent.node.status.allocatable


def test_trees_of_others_are_not_told_and_doors_of_their_namespaces_neither():
    gpu, default = Told("gpu"), Told(DEFAULT_SHARD)
    seen = [
        ours("ClusterQueue", "cats", {"cohortName": "research"}, has="gpu"),
        ours("ClusterQueue", "other", {}),
        ours("LocalQueue", "queue", {"clusterQueue": "cats"}, "cats"),
        ours("ResourceFlavor", "default", {}),
    ]
    assert gpu.see(*seen) == [seen[0], seen[2], seen[3]]
    assert default.see(*seen) == [seen[1], seen[3]]


def test_a_queue_that_is_to_leave_is_closed_meanwhile():
    gpu = Told("gpu")
    gpu.see(ours("ClusterQueue", "cats", {"cohortName": "research"}, has="gpu"))
    [told] = gpu.see(ours("ClusterQueue", "cats", {"cohortName": "else"}, has="gpu"))
    assert told.raw["spec"] == {"cohortName": "else", "stopPolicy": "Hold"}
    gpu.view.restate()
    assert len(gpu.told) == 1  # it is closed already


def test_what_is_taken_by_another_is_lost():
    gpu = Told("gpu")
    gpu.see(node("g", "cpu", "gpu"))
    assert not gpu.view.lost()
    gpu.see(node("g", "cpu", DEFAULT_SHARD))
    assert gpu.view.lost() == {Holding(NODE, "g")}


def test_what_was_made_just_now_is_the_default_shards_at_once():
    gpu, default = Told("gpu"), Told(DEFAULT_SHARD)
    new = node("new", "cpu")
    assert default.see(new) == [new]
    assert gpu.see(node("own", "gpu")) == []
    assert default.see(node("own", "gpu")) == []  # due to another; it is to be handed over first


def test_a_pod_that_is_seen_before_its_node_takes_room_there_all_the_same():
    default = Told(DEFAULT_SHARD)
    assert len(default.see(pod("cats", "a", "new"), node("new", "cpu"))) == 2


def test_a_node_is_taken_with_those_who_run_there():
    gpu = Told("gpu")
    gpu.see(node("d", "gpu", "gpu"))
    assert gpu.view.arrived() == [Holding(NODE, "d")]
    gpu.told.clear()
    gpu.view.take_node("d", node("d", "gpu", "gpu").node, [pod("rest", "b", "d").pod])
    assert isinstance(gpu.told[0], NodeSeen)
    assert gpu.told[0].node.status.allocatable
    assert gpu.told[1].pod.spec.scheduler_name not in ("tutti", "")


def test_a_namespace_of_which_nothing_was_passed_over_is_taken_with_what_was_kept():
    gpu = Told("gpu")
    gpu.see(namespace("new"))
    door = ours("LocalQueue", "queue", {"clusterQueue": "cats"}, "new")
    assert gpu.see(door, pod("new", "a")) == []
    assert gpu.view.is_fresh("new")
    gpu.told.clear()
    gpu.view.take_namespace("new")
    assert gpu.told == [door, pod("new", "a")]


def test_a_namespace_of_which_something_was_passed_over_cannot_be_taken_by_an_engine_that_runs():
    gpu = Told("gpu")
    gpu.see(namespace("new"), pod("new", "a"), ours("LocalQueue", "queue", {"clusterQueue": "cats"}, "new"))
    assert not gpu.view.is_fresh("new")


def test_a_namespace_whose_work_was_told_is_not_given_up_by_an_engine_that_runs():
    default = Told(DEFAULT_SHARD)
    default.see(namespace("new"))
    assert default.view.is_untouched("new")
    default.see(pod("new", "a"))
    assert not default.view.is_untouched("new")
    assert Holding(NAMESPACE, "new") in default.view.held


def test_devices_that_nodes_share_are_the_default_shards():
    gpu, default = Told("gpu"), Told(DEFAULT_SHARD)
    shared = SliceSeen(ResourceSlice(ObjectMeta(name="s"), ResourceSliceSpec(all_nodes=True)))
    own = SliceSeen(ResourceSlice(ObjectMeta(name="o"), ResourceSliceSpec(node_name="g")))
    assert gpu.see(shared, own) == [own]
    assert default.see(shared, own) == [shared, own]


def test_a_node_that_cannot_be_read_concerns_who_knows_it():
    gpu, default = Told("gpu"), Told(DEFAULT_SHARD)
    unread = ObjectUnread("Node", "", "g", "it is no node")
    assert gpu.see(unread) == [unread]
    assert default.see(unread) == []


def test_what_is_seen_before_its_namespace_is_told_once_that_is_there():
    default = Told(DEFAULT_SHARD)
    assert default.see(pod("new", "a")) == []
    assert default.see(namespace("new")) == [namespace("new"), pod("new", "a")]


def test_a_queue_that_is_seen_before_its_namespace_leaves_it_fresh():
    gpu = Told("gpu")
    gpu.see(ours("LocalQueue", "queue", {"clusterQueue": "cats"}, "new"), namespace("new"))
    assert gpu.view.is_fresh("new")
    gpu.see(pod("else", "a"), namespace("else"))
    assert not gpu.view.is_fresh("else")
