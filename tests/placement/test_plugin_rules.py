"""Rules of single plugins that the recorded decisions do not reach: arguments other than the defaults, and edges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.placement.scenes import node, pod
from tests.placement.single_decision import Decision, decide
from tutti.api.core import NodeAffinity as AffinitySpec
from tutti.cluster.cluster import Cluster
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.node_affinity import NodeAffinity
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation, NodeResourcesFit
from tutti.placement.plugins.node_state import ImageLocality
from tutti.placement.plugins.preferred_pod_affinity import PreferredPodAffinity
from tutti.placement.profile import Profile

FIRST = np.ones(1, dtype=np.int64)


def cluster_of(*nodes: Any) -> Cluster:
    cluster = Cluster()
    for one in nodes:
        cluster.put_node(one)
    return cluster


def decided(
    cluster: Cluster, one: Any, profile: Profile | None = None, where: FlavorConstraints = NO_FLAVOR
) -> Decision:
    pod_class = cluster.classes.of(one.spec, one.metadata.namespace, one.metadata.labels)
    return decide(pod_class, cluster.nodes, where, profile or Profile())


def with_requests(**requests: str) -> Any:
    containers = [{"name": "c", "resources": {"requests": {key.replace("_", "/"): v for key, v in requests.items()}}}]
    return pod("p", containers=containers)


def fit(cluster: Cluster, one: Any, packing: AllocationScore) -> list[int]:
    pod_class = cluster.classes.of(one.spec)
    rows = np.arange(len(cluster.nodes))
    return packing.scores(pod_class, cluster.nodes, rows, FIRST)[0].tolist()


# Numbers: kube-scheduler 1.36, plugins/noderesources/requested_to_capacity_ratio.go, worked out by hand.
@pytest.mark.parametrize(
    ("shape", "cpu", "expected"),
    [
        (((0, 0), (100, 10)), "1", 25),
        (((0, 10), (100, 0)), "1", 75),
        (((0, 10), (100, 0)), "4", 0),
        (((0, 0), (50, 10), (100, 5)), "3", 75),
        (((20, 3), (80, 9)), "500m", 30),
    ],
)
def test_a_shape_says_what_a_utilization_is_worth(shape, cpu, expected):
    cluster = cluster_of(node("n0", cpu=4))
    assert fit(cluster, with_requests(cpu=cpu), AllocationScore(resources=(("cpu", 1),), shape=shape)) == [expected]


def test_a_shape_averages_only_what_is_worth_something_and_rounds():
    cluster = cluster_of(node("n0", cpu=4, memory=8))
    shape = ((0, 0), (100, 10))
    packing = AllocationScore(resources=(("cpu", 1), ("memory", 2)), shape=shape)
    assert fit(cluster, with_requests(cpu="1", memory="6Gi"), packing) == [58]  # (25 + 2 * 75) / 3
    assert fit(cluster, with_requests(cpu="0", memory="6Gi"), packing) == [75]


def test_a_container_that_says_nothing_counts_a_little_in_the_score():
    cluster = cluster_of(node("n0", cpu=1, memory=1))
    assert fit(cluster, pod("p", cpu=""), AllocationScore()) == [85]  # cpu 90, memory 100 * (1024 - 200) / 1024 = 80


def test_an_extended_resource_scores_only_pods_that_ask_for_it():
    gpus = msgspec.convert(
        {"metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "4", "pods": "9", "a.com/gpu": "4"}}},
        type(node("x")),
    )
    cluster = cluster_of(gpus)
    packing = AllocationScore(resources=(("cpu", 1), ("a.com/gpu", 3)))
    assert fit(cluster, with_requests(cpu="1"), packing) == [75]
    assert fit(cluster, with_requests(cpu="1", **{"a.com_gpu": "2"}), packing) == [56]  # (75 + 3 * 50) / 4


def test_balance_of_three_resources_is_their_deviation():
    cluster = cluster_of(node("n0", cpu=10, memory=10, pods=10))
    pod_class = cluster.classes.of(with_requests(cpu="5", memory="5Gi").spec)
    scorer = BalancedAllocation(resources=("cpu", "memory", "pods"))
    scores = scorer.scores(pod_class, cluster.nodes, np.array([0]), FIRST)
    # parts 0.5, 0.5, 0.1: deviation sqrt(0.32 / 9) = 0.1886, so 81; without the pod 100
    assert scores.tolist() == [[50 + (50 + 81 - 100) // 2]]


def test_ignored_resources_do_not_limit():
    cluster = cluster_of(node("n0", cpu=4))
    one = with_requests(cpu="1", **{"a.com_gpu": "1"})
    assert decided(cluster, one).message == "0/1 nodes are available: 1 Insufficient a.com/gpu."
    for fit_filter in (
        NodeResourcesFit(ignored=frozenset({"a.com/gpu"})),
        NodeResourcesFit(ignored_groups=frozenset({"a.com"})),
    ):
        profile = Profile(fit=fit_filter)
        assert decided(cluster, one, profile).best == ["n0"]
        pod_class = cluster.classes.of(one.spec)
        with cluster.transaction() as transaction:
            assert len(place_ask(cluster.nodes, transaction, Ask(pod_class, 2), profile)) == 2


def test_affinity_that_the_profile_adds_is_told_apart():
    cluster = cluster_of(node("n0", labels={"pool": "a"}), node("n1"))
    expression = {"key": "pool", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    added = msgspec.convert({"requiredDuringSchedulingIgnoredDuringExecution": required}, AffinitySpec)
    profile = Profile(filters=(NodeAffinity(added),))
    assert decided(cluster, pod("p"), profile).names == ("n0",)
    said = decided(cluster, pod("p", nodeSelector={"pool": "b"}), profile)
    assert said.message == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match scheduler-enforced node affinity."
    )


def test_a_flavor_keeps_pods_on_its_nodes_and_brings_its_tolerations():
    taint = {"key": "k", "effect": "NoSchedule"}
    cluster = cluster_of(node("n0", labels={"pool": "a"}, taints=[taint]), node("n1"))
    where = msgspec.convert(
        {"node_labels": [["pool", "a"]], "tolerations": [{"key": "k", "operator": "Exists"}]}, FlavorConstraints
    )
    assert decided(cluster, pod("p"), where=where).names == ("n0",)
    assert decided(cluster, pod("p")).names == ("n1",)


def test_images_count_less_where_few_nodes_hold_them():
    mib = 1024 * 1024
    plain = node("n0")
    holder = msgspec.structs.replace(
        plain,
        metadata=msgspec.structs.replace(plain.metadata, name="n1"),
        status=msgspec.convert(
            {"allocatable": {"cpu": "4", "pods": "9"}, "images": [{"names": ["a/b:latest"], "sizeBytes": 500 * mib}]},
            type(plain.status),
        ),
    )
    cluster = cluster_of(plain, holder)
    pod_class = cluster.classes.of(pod("p", containers=[{"name": "c", "image": "a/b"}]).spec)
    # half of the nodes hold it: 250 MiB, between 23 and 1000
    assert ImageLocality().points(pod_class, cluster.nodes).tolist() == [0, 100 * (250 - 23) // (1000 - 23)]
    cluster.put_node(msgspec.structs.replace(holder, status=plain.status))
    assert ImageLocality().points(pod_class, cluster.nodes).tolist() == [0, 0]


def required_near(app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_required_term_of_a_pod_on_a_node_draws_whom_it_means():
    cluster = cluster_of(node("n0"), node("n1"))
    cluster.put_pod(pod("e", node="n1", affinity=required_near("x")), keep=False)
    one = pod("p", labels={"app": "x"})
    assert decided(cluster, one).scores["InterPodAffinity"].tolist() == [0, 200]
    assert "InterPodAffinity" not in decided(cluster, pod("q")).scores
    for deaf in (PreferredPodAffinity(hard_weight=0), PreferredPodAffinity(ignore_existing=True)):
        assert "InterPodAffinity" not in decided(cluster, one, Profile(neighbours=(deaf,))).scores


def test_a_pod_that_is_being_deleted_counts_for_affinity_and_not_for_spreading():
    cluster = cluster_of(node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"}))
    gone = pod("e", labels={"app": "x"}, node="n0")
    meta = msgspec.structs.replace(gone.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    cluster.put_pod(msgspec.structs.replace(gone, metadata=meta), keep=False)
    assert decided(cluster, pod("p", affinity=required_near("x"))).names == ("n0",)
    constraint = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    spread = pod("s", labels={"app": "x"}, topologySpreadConstraints=[constraint])
    assert decided(cluster, spread).names == ("n0", "n1")


def test_a_namespace_selector_that_excludes_a_namespace_does_not_mean_it():
    cluster = cluster_of(node("n0"))
    cluster.put_namespace("a", {"team": "red"})
    cluster.put_namespace("b", {})
    cluster.put_pod(pod("e", namespace="a", labels={"app": "x"}, node="n0"), keep=False)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert decided(cluster, pod("p", namespace="b", affinity=affinity)).names == ("n0",)


@pytest.mark.parametrize(
    ("mine", "other", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"containerPort": 80}, {"hostPort": 80}, True),
    ],
)
def test_a_port_is_taken_by_number_protocol_and_address(mine, other, fits):
    cluster = cluster_of(node("n0"))
    cluster.put_pod(pod("e", node="n0", containers=[{"name": "c", "ports": [other]}]), keep=False)
    said = decided(cluster, pod("p", containers=[{"name": "c", "ports": [mine]}]))
    assert bool(len(said.rows)) == fits


def test_a_port_that_two_have_is_taken_until_both_have_gone():
    """One of them gets the kubelet's refusal; kube-scheduler forgets the port when that one has failed (drawn 1305.6)."""
    cluster = cluster_of(node("n0"))
    same = [{"name": "c", "ports": [{"hostPort": 80}]}]
    for name in ("refused", "runs"):
        cluster.put_pod(pod(name, node="n0", containers=same), keep=False)
    feasible = []
    for name in ("refused", "runs"):
        cluster.remove_pod(("default", name))
        feasible.append(decided(cluster, pod("p", containers=same)).names)
    assert feasible == [(), ("n0",)]


def test_a_preference_that_kube_scheduler_refuses_is_taken_at_its_word():
    cluster = cluster_of(node("n0", labels={"gen": "5"}), node("n1"))
    expression = {"key": "gen", "operator": "Gt", "values": ["-1"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    one = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert decided(cluster, one).scores["NodeAffinity"].tolist() == [200, 0]
    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(cluster.classes.of(one.spec), 1), Profile()) is not None


def test_the_first_of_pods_that_want_their_own_kind_needs_no_one():
    cluster = cluster_of(node("n0"), node("n1"))
    pod_class = cluster.classes.of(pod("p", affinity=required_near("x")).spec, "default", {"app": "x"})
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 4), Profile())
        assert rows.tolist() == [0, 0, 0, 0]
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 1), Profile()) is None
