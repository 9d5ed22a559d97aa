"""A gang placed at once goes where its pods would have gone one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tests.placement.scenes import LABELS, clusters, node, one_after_another, pod, specs, with_packing
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask, place_ask, place_in_turn
from tutti.placement.plugins.node_resources import AllocationScore

PACKINGS = [AllocationScore(), AllocationScore(most=True), AllocationScore(shape=((0, 0), (50, 10), (100, 3)))]


@examples(400)
@given(
    clusters(),
    specs(),
    st.sampled_from(LABELS),
    st.sampled_from(["", "300m", "1", "2"]),
    st.integers(1, 12),
    st.sampled_from(PACKINGS),
)
def test_equal_pods_go_where_sequential_decisions_put_them(cluster, spec, labels, cpu, count, packing):
    one = pod("p", labels=labels, cpu=cpu, **spec)
    pod_class = cluster.classes.of(one.spec, "default", labels)
    profile = with_packing(packing)
    before = cluster.nodes.label_index.snapshot()
    expected = one_after_another(cluster, pod_class, count, profile)

    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
        assert sorted(rows.tolist()) == sorted(expected)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, count), profile)
        assert (rows is None) == (len(expected) < count)
    assert in_turn(cluster, pod_class, count, profile) == expected
    assert cluster.nodes.label_index.snapshot() == before
    assert (cluster.nodes.requested == recounted(cluster)).all()


def placed(cluster, pod_class, count, profile):
    with cluster.transaction() as transaction:
        return sorted(place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile).tolist())


def in_turn(cluster, pod_class, count, profile):
    with cluster.transaction() as transaction:
        return place_in_turn(cluster.nodes, transaction, Ask(pod_class, 1), profile, count).tolist()


sizes = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from([0, 0, 1, 2]), st.sampled_from([4, 16, 64])),
    min_size=2,
    max_size=5,
)


@examples(200)
@given(
    sizes,
    st.lists(st.sampled_from([1, 5, 10, 100]), min_size=3, max_size=3),
    st.integers(1, 20),
    st.sampled_from(PACKINGS),
)
def test_preferences_are_scaled_anew_when_the_best_nodes_are_full(sizes, weights, count, packing):
    cluster = Cluster()
    for i, (pods, level, soft, cpu) in enumerate(sizes):
        taints = [{"key": f"k{n}", "effect": "PreferNoSchedule"} for n in range(soft)]
        cluster.put_node(node(f"n{i}", pods=pods, cpu=cpu, memory=64, labels={"level": str(level)}, taints=taints))
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "level", "operator": "In", "values": [str(level)]}]},
        }
        for level, weight in enumerate(weights)
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pod_class = cluster.classes.of(pod("p", cpu="1", affinity=affinity).spec)
    profile = with_packing(packing)

    expected = one_after_another(cluster, pod_class, count, profile)
    assert placed(cluster, pod_class, count, profile) == sorted(expected)
    assert in_turn(cluster, pod_class, count, profile) == expected


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from([2, 8, 64]), st.sampled_from([1, 16, 64])), min_size=1, max_size=8),
    st.integers(1, 60),
    st.sampled_from(["100m", "500m", "1"]),
    st.sampled_from(PACKINGS),
)
def test_one_node_can_be_worth_many_pods(sizes, count, cpu, packing):
    cluster = Cluster()
    for i, (cores, memory) in enumerate(sizes):
        cluster.put_node(node(f"n{i}", cpu=cores, memory=memory, pods=60))
    pod_class = cluster.classes.of(pod("p", cpu=cpu).spec)
    profile = with_packing(packing)

    expected = one_after_another(cluster, pod_class, count, profile)
    assert placed(cluster, pod_class, count, profile) == sorted(expected)
    assert in_turn(cluster, pod_class, count, profile) == expected


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_pods_that_like_or_dislike_their_own_kind_see_those_placed_before(side, key, packing):
    cluster = Cluster()
    for i in range(6):
        zone = {"topology.kubernetes.io/zone": "abc"[i % 3]}
        cluster.put_node(node(f"n{i}", cpu=8 + i % 2, labels=zone))
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    affinity = {side: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
    pod_class = cluster.classes.of(pod("p", affinity=affinity).spec, "default", {"app": "x"})
    profile = with_packing(packing)

    expected = one_after_another(cluster, pod_class, 10, profile)
    assert placed(cluster, pod_class, 10, profile) == sorted(expected)


def test_a_slight_preference_decides_once_the_strong_one_is_full():
    cluster = Cluster()
    for name, cpu, pods in (("best", 16, 1), ("good", 4, 9), ("fair", 64, 9)):
        cluster.put_node(node(name, cpu=cpu, memory=64, pods=pods, labels={"level": name}))
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "level", "operator": "In", "values": [level]}]},
        }
        for level, weight in (("best", 100), ("good", 2), ("fair", 1))
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pod_class = cluster.classes.of(pod("p", affinity=affinity).spec)
    profile = with_packing(AllocationScore())

    assert one_after_another(cluster, pod_class, 2, profile) == [0, 1]
    assert placed(cluster, pod_class, 2, profile) == [0, 1]
