"""Gangs and pods of one class, one behind the other, go where each would have gone by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, one_after_another, pod, with_packing
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask, place_ask, place_in_turn
from tutti.placement.order_ahead import order_ahead
from tutti.placement.plugins.node_resources import AllocationScore

PACKINGS = [AllocationScore(), AllocationScore(most=True), AllocationScore(shape=((0, 0), (50, 10), (100, 3)))]
MEANWHILE = ["", "", "", "", "", "", "", "", "other", "ends", "cordon", "node", "grows", "rolled back", "in turn"]


ZONE = "topology.kubernetes.io/zone"
SELECTOR = {"matchLabels": {"app": "x"}}


def spread(key, when):
    over = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": SELECTOR}
    return {"topologySpreadConstraints": [over]}


def apart(key):
    term = {"topologyKey": key, "labelSelector": SELECTOR}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


MINDING = [
    spread(ZONE, "DoNotSchedule"),
    spread(ZONE, "ScheduleAnyway"),
    spread("kubernetes.io/hostname", "ScheduleAnyway"),
    apart("kubernetes.io/hostname"),
]


def sized(sizes):
    cluster = Cluster()
    for i, (cores, memory) in enumerate(sizes):
        cluster.put_node(node(f"n{i}", cpu=cores, memory=memory, pods=60, labels={ZONE: "abc"[i % 3]}))
    return cluster


def happen(cluster, what, number, pod_class, profile):
    """Have something change between two gangs."""
    match what:
        case "other":
            cluster.put_pod(pod(f"o{number}", node="n0", cpu="700m"), keep=False)
        case "ends":
            cluster.remove_pod(("default", f"o{number - 1}"), "")
        case "cordon":
            cluster.put_node(node(f"n{number % 3}", cpu=8, memory=64, pods=60, unschedulable=number % 2 == 0))
        case "node":
            cluster.put_node(node(f"m{number}", cpu=16, memory=32, pods=60))
        case "grows":
            cluster.put_node(node("n0", cpu=64, memory=64, pods=60))
        case "rolled back":
            with cluster.transaction() as transaction:
                place_ask(cluster.nodes, transaction, Ask(pod_class, 3), profile)
        case _:
            pass


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 64]), st.sampled_from([16, 64])), min_size=3, max_size=12),
    st.lists(st.tuples(st.integers(2, 9), st.sampled_from(MEANWHILE)), min_size=4, max_size=9),
    st.sampled_from(["", "100m", "500m", "1"]),
    st.sampled_from(PACKINGS),
)
def test_the_next_gang_goes_on_where_the_last_one_ended(sizes, gangs, cpu, packing):
    cluster, profile = sized(sizes), with_packing(packing)
    classes = [cluster.classes.of(pod("p", cpu=one).spec) for one in (cpu, "200m")]
    for number, (count, meanwhile) in enumerate(gangs):
        pod_class = classes[number == 5]
        happen(cluster, meanwhile, number, pod_class, profile)
        expected = one_after_another(cluster, pod_class, count, profile)
        with cluster.transaction() as transaction:
            if meanwhile == "in turn":
                rows = place_in_turn(cluster.nodes, transaction, Ask(pod_class, 1), profile, count).tolist()
                assert rows == expected
            else:
                rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
                assert sorted(rows.tolist()) == sorted(expected)
            transaction.commit()


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 64]), st.sampled_from([16, 64])), min_size=3, max_size=12),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(MEANWHILE[:-1])), min_size=4, max_size=9),
    st.sampled_from(["", "100m", "1", "3"]),
    st.sampled_from(PACKINGS),
    st.sampled_from(MINDING),
)
def test_gangs_that_mind_where_others_are_go_where_nodes_are_scored_anew(sizes, gangs, cpu, packing, spec):
    cluster, profile = sized(sizes), with_packing(packing)
    classes = [cluster.classes.of(pod("p", cpu=one, **spec).spec, "default", {"app": "x"}) for one in (cpu, "200m")]
    for number, (count, meanwhile) in enumerate(gangs):
        pod_class = classes[number == 5]
        happen(cluster, meanwhile, number, pod_class, profile)
        expected = one_after_another(cluster, pod_class, count, profile)
        with cluster.transaction() as transaction:
            rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
            assert sorted(rows.tolist()) == sorted(expected)
            transaction.commit()


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 64]), st.sampled_from([16, 64])), min_size=1, max_size=6),
    st.lists(st.sampled_from(MEANWHILE[:-1]), min_size=4, max_size=20),
    st.sampled_from(["", "100m", "1", "3"]),
    st.sampled_from(PACKINGS),
)
def test_pods_one_at_a_time_go_where_nodes_are_scored_anew(sizes, pods, cpu, packing):
    cluster, profile = sized(sizes), with_packing(packing)
    classes = [cluster.classes.of(pod("p", cpu=one).spec) for one in (cpu, "200m")]
    for number, meanwhile in enumerate(pods):
        pod_class = classes[number == 9]
        happen(cluster, meanwhile, number, pod_class, profile)
        expected = one_after_another(cluster, pod_class, 1, profile)
        assert place_at_most(cluster, pod_class, 1, profile) == expected


def place_at_most(cluster, pod_class, count, profile):
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile).tolist()
        transaction.commit()
        return rows


def place(cluster, pod_class, count, profile):
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, count), profile).tolist()
        transaction.commit()
        return rows


@pytest.fixture
def asked_twice():
    """A cluster where a gang was placed, and a like one."""
    cluster, profile = sized([(64, 64)] * 40), with_packing(AllocationScore())
    pod_class = cluster.classes.of(pod("p", cpu="100m").spec)
    for _ in range(2):
        place(cluster, pod_class, 10, profile)
    return cluster, pod_class, profile


def test_who_asks_again_finds_an_order(asked_twice):
    cluster, pod_class, profile = asked_twice
    ahead = order_ahead(cluster.nodes)
    before = len(ahead.left.rows)
    place(cluster, pod_class, 10, profile)
    assert len(ahead.left.rows) == before - 10


def test_an_order_by_other_scores_is_another(asked_twice):
    cluster, pod_class, profile = asked_twice
    fuller = replace(profile, fill=(AllocationScore(most=True),))
    expected = one_after_another(cluster, pod_class, 3, fuller)
    assert sorted(place(cluster, pod_class, 3, fuller)) == sorted(expected)
