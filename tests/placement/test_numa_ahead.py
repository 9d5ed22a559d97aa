"""The zones that are told beforehand are those from which kubelets give out cores, whoever else is pending."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.kubelet import Kubelet
from tests.placement.test_numa import ZONES, classes, cluster_of, container, kubelet, node
from tutti.api.core import Container, PodSpec
from tutti.api.numa import RESTRICTED
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.zones import ZonesAhead
from tutti.cluster.numa_needs import own_part, zone_needs
from tutti.placement.plugins.numa_ahead import MOST_CONTAINERS, zones_ahead

TWO = [{"cpu": 8, "memory": 8}, {"cpu": 8, "memory": 8}]


def told(cluster: Cluster, pod_class: PodClass) -> tuple[int | None, ...]:
    """The zones of the next pods on the only node."""
    found = zones_ahead(pod_class, cluster.nodes)
    return () if found is None else found.orders[found.order_of[0]]


def hold(cluster: Cluster, pod_class: PodClass, count: int) -> None:
    cluster.nodes.numa.hold(pod_class, np.array([0]), np.array([count]), 1)


def zones_of(there: Kubelet, pod_class: PodClass, name: str) -> set[int]:
    """The zones of which a kubelet gives a pod cores or devices; none where it refuses it."""
    if not there.run(name, pod_class):
        return set()
    guaranteed = zone_needs(pod_class).guaranteed
    return {at for at, taken in there.pinned[name] if there.pod_scope or own_part(taken, guaranteed=guaranteed)}


@given(
    zones=ZONES,
    specs=st.lists(classes(2), min_size=1, max_size=3),
    pod_scope=st.booleans(),
    counts=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    mine=st.integers(0, 2),
)
@examples(600)
def test_what_is_told_comes_true_in_every_order(zones, specs, pod_scope, counts, mine):
    there = node("n", zones, pod_scope=pod_scope)
    cluster = cluster_of(there)
    own, *others = (cluster.classes.of(replaced) for replaced in (PodSpec(containers=one.containers) for one in specs))
    others = [one for one in others if one is not own]
    pending = [one for one, count in zip(others, counts, strict=False) for _ in range(count)]
    for one, count in zip(others, counts, strict=False):
        hold(cluster, one, count)
    if mine:
        hold(cluster, own, mine)
    ahead = told(cluster, own)[:2]
    for order in set(itertools.permutations([*pending, *[own] * (mine + len(ahead))])):
        kubelet_, nth = kubelet(there[1]), 0
        for at, one in enumerate(order):
            found = zones_of(kubelet_, one, str(at))
            if one is own:
                zone = ahead[nth - mine] if nth >= mine else None
                assert zone is None or found in ({zone}, set())
                nth += 1


@given(
    reports=st.lists(ZONES, min_size=4, max_size=4),
    specs=st.lists(classes(2), min_size=2, max_size=2),
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.sampled_from(["hold", "take back", "report"])), max_size=8
    ),
)
@examples(200)
def test_what_is_told_of_nodes_that_have_changed_is_what_is_told_of_all_anew(reports, specs, steps):
    cluster = cluster_of(*(node(f"n{at}", zones) for at, zones in enumerate(reports[:3])))
    asked = [cluster.classes.of(one) for one in specs]
    held = Counter[tuple[int, int]]()
    for which, row, step in steps:
        if step == "report":
            cluster.put_topology(node(f"n{row}", reports[3])[1])
        elif step == "hold" or held[which, row]:
            sign = 1 if step == "hold" else -1
            cluster.nodes.numa.hold(asked[which], np.array([row]), np.array([1]), sign)
            held[which, row] += sign
        kept, before = zones_ahead(asked[0], cluster.nodes), dict(cluster.nodes.derived)
        cluster.nodes.derived.clear()
        asked[0].cache.clear()
        anew = zones_ahead(asked[0], cluster.nodes)
        assert _by_row(kept) == _by_row(anew)
        cluster.nodes.derived.update(before)


def _by_row(found: ZonesAhead | None) -> list[tuple[int | None, ...]] | None:
    return None if found is None else [found.orders[at] for at in found.order_of.tolist()]


def test_pods_alike_take_one_zone_after_another_and_those_that_are_pending_come_first():
    cluster = cluster_of(node("n", TWO))
    pod_class = cluster.classes.of(PodSpec(containers=[container(cpu=4, memory=1)]))
    assert told(cluster, pod_class) == (0, 0, 1, 1)
    hold(cluster, pod_class, 1)
    assert told(cluster, pod_class) == (0, 1, 1)
    elsewhere = PodSpec(containers=[container(cpu=4, memory=1)], node_selector={"rack": "r1"})
    hold(cluster, cluster.classes.of(elsewhere), 1)
    assert told(cluster, pod_class) == (1, 1)


def test_nothing_is_told_where_nothing_is_pinned_or_it_is_not_sure():
    cluster = cluster_of(node("n", TWO))
    fraction = PodSpec(containers=[container(cpu="1500m", memory=1)])
    wide = PodSpec(containers=[container(cpu=3, memory=1), container(cpu=7, memory=1)])
    many = PodSpec(containers=[container(cpu=1, memory=1) for _ in range(MOST_CONTAINERS + 1)])
    for spec in (fraction, wide, many):
        assert told(cluster, cluster.classes.of(spec)) == ()
    restricted = cluster_of(node("n", TWO, policy=RESTRICTED))
    assert told(restricted, restricted.classes.of(PodSpec(containers=[container(cpu=4, memory=1)]))) == ()


def test_containers_stay_where_the_kubelet_has_pinned_an_init_container():
    """They get its cores again, and are refused where these are of another zone than they would have to be in."""
    zones = [{"cpu": 5, "memory": 8}, {"cpu": 8, "memory": 8}]
    main = container(cpu=4, memory=1)

    def ahead(*before: Container, pod_scope: bool = False) -> tuple[int | None, ...]:
        cluster = cluster_of(node("n", zones, pod_scope=pod_scope))
        return told(cluster, cluster.classes.of(PodSpec(containers=[main], init_containers=list(before))))

    assert ahead(container(cpu=4, memory=1)) == (0, 1, 1)
    assert ahead(container(cpu="500m", memory=1)) == (0, 1, 1)  # nothing is pinned for it
    assert ahead(container(cpu=1, memory=1)) == (0,)  # then it is of zone 0, which has no four for the second pod
    assert ahead(container(cpu=6, memory=1)) == ()  # it is of zone 1, and has the container with it
    assert ahead(container(cpu=6, memory=1), pod_scope=True) == (1,)
    assert ahead(*[container(cpu=1, memory=1)] * MOST_CONTAINERS) == ()

    zones = [{"cpu": 16, "memory": 8}] * 2
    assert ahead(container(cpu=6, memory=1)) == ()  # while it is there, zone 0 has less for the second pod


def test_a_pod_that_may_be_in_any_zone_leaves_it_open_only_where_that_matters():
    cluster = cluster_of(node("n", TWO))
    large, small, other = (cluster.classes.of(PodSpec(containers=[container(cpu=c, memory=1)])) for c in (6, 1, 3))
    hold(cluster, other, 1)
    assert told(cluster, large) == ()
    assert told(cluster, small) == (0, 0, 0, 0, 0, None, None, None, 1, 1)
