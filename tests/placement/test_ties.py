"""Of nodes worth the same, pods that ask for nothing take the one with the fewest pods on it, all others the first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, one_after_another, pod
from tutti.cluster.cluster import Cluster
from tutti.placement.alike import place_alike
from tutti.placement.arrangement import ArrangementSearch
from tutti.placement.framework import MAX_SCORE
from tutti.placement.gang import Ask, place_ask, place_in_turn
from tutti.placement.node_kinds import MOST_KINDS
from tutti.placement.plugins.accelerator_packing import AcceleratorPacking
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation
from tutti.placement.profile import DEFAULT_PROFILE, Profile
from tutti.placement.ties import MOST_PODS, ascending, best_first, fewest_pods, the_first
from tutti.placement.together import place_together

GPU = "example.com/gpu"
MINDS = {
    "topologySpreadConstraints": [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "nobody"}},
        }
    ]
}
"""Pods go one after another, though nothing that is said of any node differs."""
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
}
LIKES = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "preference": {"matchExpressions": [{"key": "hall", "operator": "In", "values": ["warm"]}]},
                }
            ]
        }
    }
}


def holding(*pods, places=100, labels=None):
    """Nodes on which there are so many pods that ask for nothing, and so large that no score tells of them."""
    cluster = Cluster()
    for i, many in enumerate(pods):
        cluster.put_node(node(f"n{i}", cpu=1000, memory=2000, pods=places, labels=labels))
        for nth in range(many):
            cluster.put_pod(pod(f"e{i}-{nth}", node=f"n{i}", cpu=""), keep=False)
    return cluster


def class_of(cluster, spec):
    return cluster.classes.of(pod("p", cpu="", labels={"app": "x"}, **spec).spec, "default", {"app": "x"})


def singles(cluster, spec, count, profile=DEFAULT_PROFILE):
    return [row for _ in range(count) for row in gang(cluster, spec, 1, profile)]


def gang(cluster, spec, count, profile=DEFAULT_PROFILE):
    pod_class = class_of(cluster, spec)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, count), profile).tolist()
        transaction.commit()
    for row in rows:
        cluster.nodes.label_index.add(pod_class.pod_signature, row)
    return rows


def gangs(cluster, spec, count, profile=DEFAULT_PROFILE):
    """Gangs of two, so that the third goes on where the second ended."""
    return [row for _ in range(count // 2) for row in gang(cluster, spec, 2, profile)]


def in_turn(cluster, spec, count, profile=DEFAULT_PROFILE):
    with cluster.transaction() as transaction:
        return place_in_turn(cluster.nodes, transaction, Ask(class_of(cluster, spec), 1), profile, count).tolist()


WAYS = [singles, gang, gangs, in_turn]
SPECS = [{}, MINDS, LIKES]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ([5, 0, 2], [1, 1, 1, 1, 2, 2]),
        ([0, 0, 0], [0, 0, 1, 1, 2, 2]),
        ([1, 0], [0, 0, 0, 1, 1, 1]),
        ([9, 9, 3, 9], [2, 2, 2, 2, 2, 2]),
    ],
)
def test_where_fewer_pods_are_goes_first(there, taken, way, spec):
    assert sorted(way(holding(*there), spec, 6)) == taken


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("way", [singles, in_turn])
def test_each_pod_counts_for_the_next(way, spec):
    assert way(holding(1, 0, 1), spec, 6) == [1, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("way", WAYS)
def test_who_has_no_place_left_is_passed_over(way, spec):
    assert sorted(way(holding(1, 3, places=4), spec, 4)) == [0, 0, 0, 1]


@pytest.mark.parametrize("way", WAYS)
def test_worth_counts_before_pods(way):
    cluster = holding(0, 3)
    cluster.put_node(node("n2", cpu=1000, memory=2000, pods=100, labels={"hall": "warm"}))
    for nth in range(7):
        cluster.put_pod(pod(f"e2-{nth}", node="n2", cpu=""), keep=False)
    assert way(cluster, LIKES, 6) == [2] * 6


@pytest.mark.parametrize("way", WAYS)
def test_pods_that_go_to_nodes_of_their_own_begin_with_those_with_the_fewest(way):
    assert sorted(way(holding(2, 1, 0, 3, 0, 5), APART, 4)) == [0, 1, 2, 4]


@pytest.mark.parametrize("way", WAYS)
def test_of_many_nodes_those_with_the_fewest_are_taken(way):
    """With so many, those that their first pod rules out are not looked at."""
    cluster = holding(*[1] * 700)
    for name in ("n640", "n77", "n311"):
        cluster.put_node(node(f"free-{name}", cpu=1000, memory=2000, pods=100))
    assert sorted(way(cluster, {}, 4)) == [0, 700, 701, 702]


def test_of_more_kinds_than_are_told_apart_those_with_the_fewest_are_taken():
    cluster = Cluster()
    for i in range(MOST_KINDS + 10):
        cluster.put_node(node(f"n{i}", cpu=1000, memory=2000, labels={"rack": f"r{i}"}))
        if i not in (7, 1030):
            cluster.put_pod(pod(f"e{i}", node=f"n{i}", cpu=""), keep=False)
    spread = replaced_key(MINDS, "rack")
    assert sorted(gang(cluster, spread, 3)) == [0, 7, 1030]


def replaced_key(spec, key):
    (one,) = spec["topologySpreadConstraints"]
    return {"topologySpreadConstraints": [one | {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}]}


def test_asks_that_are_alike_go_on_from_one_to_the_next():
    cluster = holding(1, 0, 1)
    asks = [Ask(class_of(cluster, {}), many) for many in (2, 3)]
    with cluster.transaction() as transaction:
        found = place_alike(cluster.nodes, transaction, asks, DEFAULT_PROFILE, within=cluster.nodes.present)
    assert [rows.tolist() for rows in found] == [[0, 1], [0, 1, 2]]


def test_who_looks_for_another_arrangement_begins_with_those_with_the_fewest():
    cluster = holding(2, 0, 1)
    ask = Ask(class_of(cluster, APART), 2)
    with cluster.transaction() as transaction:
        search = ArrangementSearch(cluster.nodes, transaction, [ask], DEFAULT_PROFILE)
        (rows,) = search.run([0], 0)
    assert sorted(rows.tolist()) == [1, 2]


GATHERING = [
    AllocationScore(most=True),
    AllocationScore(shape=((0, 0), (100, 10))),
    AllocationScore(shape=((0, 2), (50, 10), (100, 3))),
]
SPREADING = [AllocationScore(), AllocationScore(shape=((0, 10), (100, 0))), AllocationScore(shape=((0, 1), (100, 1)))]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("score", GATHERING)
def test_where_fuller_nodes_go_first_pods_gather_on_the_first(score, way, spec):
    profile = Profile(fill=(score, BalancedAllocation()))
    assert way(holding(3, 0, 1), spec, 6, profile) == [0] * 6


@pytest.mark.parametrize("score", SPREADING)
def test_where_emptier_nodes_go_first_or_none_does_pods_are_spread(score):
    profile = Profile(fill=(score, BalancedAllocation()))
    assert gang(holding(1, 0), {}, 5, profile) == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("profile", [DEFAULT_PROFILE, Profile(packing=AcceleratorPacking((GPU,)))])
def test_pods_that_ask_for_devices_gather_and_others_are_spread(profile):
    """What is left of a node with devices is to be whole for those who want all of it."""
    cluster = Cluster()
    for i in range(3):
        one = node(f"n{i}", cpu=1000, memory=2000, pods=100)
        one.status.allocatable[GPU] = "8"
        cluster.put_node(one)
    cluster.put_pod(pod("e", node="n0", cpu=""), keep=False)
    asking = pod("p", cpu="")
    asking.spec.containers[0].resources.requests[GPU] = "1"
    with_devices = cluster.classes.of(asking.spec, "default", {})
    with cluster.transaction() as transaction:
        rows = [place_ask(cluster.nodes, transaction, Ask(with_devices, 2), profile).tolist() for _ in range(5)]
    assert rows == [[0, 0], [0, 0], [0, 0], [0, 0], [1, 1]]
    assert gang(cluster, {}, 2, profile) == [1, 2]


@pytest.mark.parametrize("spec", SPECS)
def test_pods_that_ask_for_anything_take_the_first(spec):
    cluster = holding(3, 0)
    small = pod("p", cpu="1m", labels={"app": "x"}, **spec)
    pod_class = cluster.classes.of(small.spec, "default", {"app": "x"})
    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 4), DEFAULT_PROFILE).tolist() == [0] * 4


def test_room_that_is_kept_for_others_counts_as_theirs():
    cluster = holding(0, 0)
    with cluster.transaction() as transaction:
        place = Ask(class_of(cluster, {}), 1)
        (first,) = place_together(cluster.nodes, transaction, [place], DEFAULT_PROFILE)
        (second,) = place_together(cluster.nodes, transaction, [place], DEFAULT_PROFILE)
    assert (first.tolist(), second.tolist()) == ([0], [1])


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from([1, 4, 1000]), st.integers(0, 6)), min_size=1, max_size=7),
    st.integers(1, 40),
    st.sampled_from([{}, MINDS, LIKES, replaced_key(MINDS, "hall"), replaced_key(MINDS, "kubernetes.io/hostname")]),
    st.sampled_from(GATHERING + SPREADING),
    st.sampled_from([4, 20]),
)
def test_all_ways_agree_with_one_pod_after_another(sizes, count, spec, score, places):
    cluster = Cluster()
    for i, (cpu, there) in enumerate(sizes):
        labels = {"hall": ["warm", "cold"][i % 2]}
        cluster.put_node(node(f"n{i}", cpu=cpu, memory=2 * cpu, pods=places, labels=labels))
        for nth in range(there):
            cluster.put_pod(pod(f"e{i}-{nth}", node=f"n{i}", cpu=""), keep=False)
    profile = Profile(fill=(score, BalancedAllocation()))
    pod_class = class_of(cluster, spec)
    expected = one_after_another(cluster, pod_class, count, profile)
    assert in_turn(cluster, spec, count, profile) == expected
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
    assert sorted(rows.tolist()) == sorted(expected)
    even = expected[: len(expected) // 2 * 2]
    assert gangs(cluster, spec, len(even), profile) == [
        row for at in range(0, len(even), 2) for row in sorted(even[at : at + 2])
    ]


def test_a_point_of_worth_is_more_than_all_pods_that_a_node_has_room_for():
    cluster = holding(5, 0, places=110)
    rule, rows = fewest_pods(cluster.nodes), np.arange(2)
    assert rule.step == 128
    assert rule.keys(np.array([7, 7]), rows).tolist() == [7 * 128 - 5, 7 * 128]
    assert rule.keys(np.array([[7, 7], [6, 5]]), rows, np.array([[0], [1]])).tolist() == [
        [7 * 128 - 5, 7 * 128],
        [6 * 128 - 6, 5 * 128 - 1],
    ]
    assert rule.keys(np.array([8, 7]), rows).argmax() == 0
    assert the_first(cluster.nodes).keys(np.array([7, 7]), rows).tolist() == [7, 7]


def test_more_pods_than_keys_have_room_for_count_as_the_most():
    cluster = holding(0, 0, places=10**12)
    rule = fewest_pods(cluster.nodes)
    assert rule.step == MOST_PODS
    keys = rule.keys(np.array([3, 2]), np.arange(2), np.array([10**9, 0]))
    assert keys.tolist() == [3 * MOST_PODS - (MOST_PODS - 1), 2 * MOST_PODS]


def test_the_most_that_keys_are_made_of_fits_into_64_bits():
    """The weight of an extender may be 1,000,000, that of a score 100."""
    assert np.iinfo(np.int64).max > ((1 << 27) - 1) * MOST_PODS * (1 << 20)
    assert MAX_SCORE * (1_000_000 + 100 * 100) < 1 << 27


@examples(100)
@given(st.lists(st.integers(0, 9) | st.integers(0, 1 << 17) | st.integers(0, 1 << 40), max_size=50))
def test_order_is_that_of_a_stable_sort(values):
    column = np.array(values, dtype=np.int64)
    assert ascending(column).tolist() == np.argsort(column, kind="stable").tolist()
    assert best_first(column - 5).tolist() == np.argsort(-column, kind="stable").tolist()
