"""The cluster knows how much room each node has, whatever it is told and in which order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tutti.api.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.placed_pods import Hold

GPU = "nvidia.com/gpu"
LABELS = {GROUP_LABEL: "app", WORKLOAD_LABEL: "web"}


def node(name: str, gpus: int | str = 8) -> Node:
    return Node(ObjectMeta(name=name), status=NodeStatus({"cpu": "8", "pods": "110", GPU: str(gpus)}))


def pod(
    name: str, *, gpus: int = 1, on: str = "", phase: str = "Pending", uid: str = "", deleting: bool = False
) -> Pod:
    return Pod(
        ObjectMeta(
            name=name,
            namespace="default",
            uid=uid or f"uid-{name}",
            labels=LABELS,
            deletion_timestamp=datetime.fromtimestamp(0, UTC) if deleting else None,
        ),
        PodSpec(node_name=on, containers=[Container(resources=ResourceRequirements({"cpu": "1", GPU: str(gpus)}))]),
        PodStatus(phase=phase),
    )


def talking_cluster() -> Cluster:
    """A cluster that keeps load, and who talks to whom."""
    cluster = Cluster()
    cluster.nodes.load.on = cluster.nodes.network.on = True
    cluster.watch_labels((GROUP_LABEL, WORKLOAD_LABEL))
    return cluster


def used(cluster: Cluster, name: str, resource: str = GPU) -> int:
    return int(cluster.nodes.requested[cluster.nodes.rows[name], cluster.nodes.resource_index.column(resource)])


def take(cluster: Cluster, name: str, gpus: int) -> int:
    """Take room for one pod in a transaction, as placement does; returns its row."""
    pod_class = cluster.classes.of(pod("x", gpus=gpus).spec, "default", LABELS)
    row = cluster.nodes.rows[name]
    with cluster.transaction() as transaction:
        transaction.put(np.array([row]), np.array([1]), pod_class)
        transaction.commit()
    return row


def assume(cluster: Cluster, name: str, on: str, gpus: int = 1) -> None:
    cluster.assume(cluster.pods["default", name], take(cluster, on, gpus))


def test_a_pod_that_was_seen_before_its_node_is_charged_when_the_node_comes():
    cluster = Cluster()
    cluster.put_pod(pod("p", on="n"), keep=False)
    cluster.put_node(node("n"))
    assert used(cluster, "n") == 1


def test_a_node_that_comes_back_is_charged_with_what_is_still_there():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p", on="n"), keep=False)
    assert cluster.remove_node("n") == []
    cluster.put_node(node("n"))
    assert used(cluster, "n") == 1


def test_a_pod_that_has_ended_takes_no_room():
    cluster = Cluster()
    cluster.put_node(node("n"))
    for phase in ("Succeeded", "Failed"):
        cluster.put_pod(pod("p", on="n"), keep=False)
        assert used(cluster, "n") == 1
        cluster.put_pod(pod("p", on="n", phase=phase), keep=False)
        assert used(cluster, "n") == 0


def test_a_pod_that_is_being_deleted_takes_its_room_until_it_is_gone():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p", on="n", deleting=True), keep=False)
    assert used(cluster, "n") == 1
    cluster.remove_pod(("default", "p"))
    assert used(cluster, "n") == 0


def test_a_pod_nobody_asked_to_keep_is_forgotten_without_room():
    cluster = Cluster()
    assert cluster.put_pod(pod("p"), keep=False) is None
    assert cluster.pods == {}


def test_what_was_assumed_is_not_charged_twice_when_it_is_seen_bound():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p"), keep=True)
    assume(cluster, "p", "n")
    assert used(cluster, "n") == 1
    record = cluster.put_pod(pod("p", on="n"), keep=True)
    assert used(cluster, "n") == 1
    assert (record.node, record.assumed) == ("n", "")
    cluster.forget(record)  # too late: it is bound
    assert used(cluster, "n") == 1


def test_a_pod_bound_elsewhere_than_assumed_counts_where_it_is():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_node(node("m"))
    cluster.put_pod(pod("p"), keep=True)
    assume(cluster, "p", "n")
    cluster.put_pod(pod("p", on="m"), keep=True)
    assert (used(cluster, "n"), used(cluster, "m")) == (0, 1)


def test_a_pod_that_ends_where_it_was_assumed_takes_nothing():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p"), keep=True)
    assume(cluster, "p", "n")
    record = cluster.put_pod(pod("p", phase="Failed"), keep=True)
    assert used(cluster, "n") == 0
    assert not record.assumed


def test_assumed_pods_lose_their_place_with_the_node_and_bound_ones_keep_it():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("bound", on="n"), keep=True)
    cluster.put_pod(pod("assumed"), keep=True)
    assume(cluster, "assumed", "n")
    assert [record.name for record in cluster.remove_node("n")] == ["assumed"]
    assert [record.name for record in cluster.on_node("n")] == ["bound"]
    assert cluster.pods["default", "assumed"].placeable


def test_a_pod_of_the_same_name_replaces_its_predecessor():
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p", on="n", gpus=3, uid="old"), keep=True)
    cluster.put_pod(pod("p", uid="new"), keep=True)
    assert used(cluster, "n") == 0
    assert cluster.remove_pod(("default", "p"), uid="old") is None
    assert cluster.pods["default", "p"].uid == "new"


def test_held_room_is_handed_over_or_given_back():
    cluster = Cluster()
    cluster.put_node(node("n"))
    pod_class = cluster.classes.of(pod("p").spec, "default", LABELS)
    first, second = (cluster.held.hold(pod_class, take(cluster, "n", 1)) for _ in range(2))
    assert used(cluster, "n") == 2
    record = cluster.put_pod(pod("p"), keep=True)
    cluster.held.adopt(first, record)
    assert (used(cluster, "n"), record.assumed) == (2, "n")
    cluster.held.release(second)
    cluster.held.release(second)  # once is enough
    assert used(cluster, "n") == 1
    assert not cluster.held.is_held(first)


def test_held_room_is_lost_with_its_node_even_if_the_node_comes_back():
    cluster = Cluster()
    cluster.put_node(node("n"))
    hold = cluster.held.hold(cluster.classes.of(pod("p").spec, "default", LABELS), take(cluster, "n", 1))
    assert cluster.held.is_held(hold)
    cluster.remove_node("n")
    cluster.put_node(node("n"))
    assert not cluster.held.is_held(hold)
    cluster.held.release(hold)
    assert used(cluster, "n") == 0


def test_only_room_that_may_have_appeared_is_news():
    cluster = Cluster()

    def is_news(act) -> bool:
        before = cluster.freed.count
        act()
        return cluster.freed.count > before

    assert is_news(lambda: cluster.put_node(node("n")))
    assert not is_news(lambda: cluster.put_node(node("n")))
    assert not is_news(lambda: cluster.put_node(node("n", gpus=4)))
    assert is_news(lambda: cluster.put_node(node("n", gpus=8)))
    assert not is_news(lambda: cluster.put_pod(pod("p", on="n"), keep=False))
    assert not is_news(lambda: cluster.put_pod(pod("p", on="n", phase="Running"), keep=False))
    assert is_news(lambda: cluster.remove_pod(("default", "p")))


def test_a_pod_uses_the_room_that_was_held_for_it_from_when_it_has_come():
    cluster = talking_cluster()
    cluster.put_node(node("n"))
    load, network, row = cluster.nodes.load, cluster.nodes.network, cluster.nodes.rows["n"]
    pod_class = cluster.classes.of(pod("p").spec, "default", LABELS)
    hold = cluster.held.hold(pod_class, take(cluster, "n", 1))
    use = load.use_of(pod_class)
    assert (load.requests[row] == use.requests).all()
    assert not load.fresh.any()
    assert not len(network.pods_of("default", AppGroup("default", "app"), "web", cluster.nodes.rows)[0])

    record = cluster.put_pod(pod("p"), keep=True)
    assert record is not None
    cluster.held.adopt(hold, record)
    assert (load.requests[row] == use.requests).all()
    assert (load.fresh[row] == use.fresh).all()
    assert network.pods_of("default", AppGroup("default", "app"), "web", cluster.nodes.rows)[1].tolist() == [1]

    cluster.remove_pod(record.key)
    assert not load.requests.any()
    assert not load.fresh.any()
    assert not len(network.pods_of("default", AppGroup("default", "app"), "web", cluster.nodes.rows)[0])


def test_an_offer_that_cannot_be_read_counts_as_nothing_until_it_is_mended():
    cluster = Cluster()
    cluster.put_node(node("n", gpus="targets"))
    assert "'targets' is not a quantity" in cluster.unreadable["n"]
    cluster.put_node(node("n"))
    assert cluster.unreadable == {}


NODES = st.sampled_from(["n0", "n1", "n2"])
PODS = st.sampled_from([f"p{i}" for i in range(6)])
PHASES = st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"])


class Interleavings(RuleBasedStateMachine):
    """Everything that may happen to a cluster, in any order; what is bound stays bound, as in a real one.

    All pods are of one application, and nothing is ever measured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = talking_cluster()
        self.holds: list[tuple[Hold, PodClass]] = []
        self.serial = 0

    @rule(name=NODES, gpus=st.integers(0, 8))
    def put_node(self, name: str, gpus: int) -> None:
        self.cluster.put_node(node(name, gpus))

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)

    @rule(name=PODS, gpus=st.integers(0, 3), keep=st.booleans(), phase=PHASES, on=st.one_of(st.just(""), NODES))
    def put_pod(self, name: str, gpus: int, keep: bool, phase: str, on: str) -> None:
        known = self.cluster.pods.get(("default", name))
        if known is not None and known.node:
            on = known.node
        uid = known.uid if known is not None else f"uid-{self.serial}"
        self.serial += 1
        self.cluster.put_pod(pod(name, gpus=gpus, on=on, phase=phase, uid=uid), keep=keep)

    @rule(name=PODS, gpus=st.integers(0, 3))
    def replace_pod(self, name: str, gpus: int) -> None:
        self.serial += 1
        self.cluster.put_pod(pod(name, gpus=gpus, uid=f"uid-{self.serial}"), keep=True)

    @rule(name=PODS, stale=st.booleans())
    def remove_pod(self, name: str, stale: bool) -> None:
        self.cluster.remove_pod(("default", name), uid="stale" if stale else "")

    @rule(name=PODS, on=NODES)
    def assume(self, name: str, on: str) -> None:
        record = self.cluster.pods.get(("default", name))
        if record is not None and record.placeable and on in self.cluster.nodes.rows:
            row = self.cluster.nodes.rows[on]
            with self.cluster.transaction() as transaction:
                transaction.put(np.array([row]), np.array([1]), record.pod_class)
                transaction.commit()
            self.cluster.assume(record, row)

    @rule(name=PODS)
    def forget(self, name: str) -> None:
        record = self.cluster.pods.get(("default", name))
        if record is not None:
            self.cluster.forget(record)

    @rule(on=NODES, gpus=st.integers(0, 3))
    def hold(self, on: str, gpus: int) -> None:
        if on in self.cluster.nodes.rows:
            pod_class = self.cluster.classes.of(pod("x", gpus=gpus).spec, "default", LABELS)
            self.holds.append((self.cluster.held.hold(pod_class, take(self.cluster, on, gpus)), pod_class))

    @rule(data=st.data(), adopt=st.booleans())
    def end_hold(self, data: st.DataObject, adopt: bool) -> None:
        if not self.holds:
            return
        hold, pod_class = self.holds.pop(data.draw(st.integers(0, len(self.holds) - 1)))
        fitting = (one for one in self.cluster.pods.values() if one.placeable and one.pod_class is pod_class)
        record = next(fitting, None) if adopt else None
        if record is not None and self.cluster.held.is_held(hold):
            self.cluster.held.adopt(hold, record)
        else:
            self.cluster.held.release(hold)

    @rule(on=NODES, gpus=st.integers(1, 3))
    def try_in_vain(self, on: str, gpus: int) -> None:
        if on in self.cluster.nodes.rows:
            row = np.array([self.cluster.nodes.rows[on]])
            with self.cluster.transaction() as transaction:
                transaction.put(
                    row, np.array([2]), self.cluster.classes.of(pod("x", gpus=gpus).spec, "default", LABELS)
                )

    @invariant()
    def what_is_requested_is_what_the_pods_hold(self) -> None:
        assert (self.cluster.nodes.requested == recounted(self.cluster)).all()
        for name in self.cluster.nodes.rows:
            there = {record.key for record in self.cluster.pods.values() if record.place == name}
            assert {record.key for record in self.cluster.on_node(name)} == there

    @invariant()
    def what_is_expected_to_be_used_is_what_the_pods_use(self) -> None:
        load, rows, pods = self.cluster.nodes.load, self.cluster.nodes.rows, self.cluster.pods.values()
        use, requests = np.zeros_like(load.fresh), np.zeros_like(load.requests)
        for record in pods:
            if record.place in rows:
                use[rows[record.place]] += load.use_of(record.pod_class).fresh
                requests[rows[record.place]] += load.use_of(record.pod_class).requests
        for (name, _), pod_class in self.cluster.held.all():
            requests[rows[name]] += load.use_of(pod_class).requests
        assert (load.fresh == use).all()
        assert (load.requests == requests).all()

    @invariant()
    def the_pods_that_talk_are_those_on_nodes(self) -> None:
        rows = self.cluster.nodes.rows
        at, many = self.cluster.nodes.network.pods_of("default", AppGroup("default", "app"), "web", rows)
        there = Counter(rows[one.place] for one in self.cluster.pods.values() if one.place in rows)
        assert dict(zip(at.tolist(), many.tolist(), strict=True)) == there


Interleavings.TestCase.settings = examples(60, stateful_step_count=40)
TestInterleavings = Interleavings.TestCase
