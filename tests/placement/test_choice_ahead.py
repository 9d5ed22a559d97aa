"""Pods that mind each other go on where the last ones of their class ended, and go where each would have gone."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, one_after_another, pod, with_packing
from tutti.api.core import ContainerImage
from tutti.cluster.cluster import Cluster
from tutti.placement.choice_ahead import choice_ahead
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints
from tutti.placement.gang import Ask, place_ask, place_in_turn
from tutti.placement.plugins.node_resources import AllocationScore
from tutti.placement.profile import DEFAULT_PROFILE

ZONE = "topology.kubernetes.io/zone"
RACK = "rack"
LABELS = {"app": "x"}
CONTAINER = {"name": "c", "image": "big:latest", "resources": {"requests": {"cpu": "1"}}}
SELECTOR = {"matchLabels": LABELS}


def spread(key, when, skew=1):
    over = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": SELECTOR}
    return {"topologySpreadConstraints": [over]}


def near(kind, key):
    term = {"topologyKey": key, "labelSelector": SELECTOR}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def rather(kind, key):
    term = {"weight": 10, "podAffinityTerm": {"topologyKey": key, "labelSelector": SELECTOR}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


MINDING = [
    spread(ZONE, "DoNotSchedule"),
    spread(ZONE, "DoNotSchedule", 2),
    spread(ZONE, "ScheduleAnyway"),
    spread(RACK, "ScheduleAnyway", 2),
    near("podAffinity", ZONE),
    near("podAntiAffinity", RACK),
    rather("podAffinity", ZONE),
    rather("podAntiAffinity", ZONE),
    spread(ZONE, "DoNotSchedule", 3) | rather("podAffinity", RACK),
]
MEANWHILE = ["", "", "", "", "", "alike", "ends", "other", "wanting", "cordon", "zone", "grows", "rolled back", "turn"]


def sized(sizes):
    cluster = Cluster()
    for i, (cores, memory) in enumerate(sizes):
        cluster.put_node(labelled(i, cores, memory, "abc"[i % 3]))
    return cluster


def labelled(i, cores, memory, zone):
    return node(f"n{i}", cpu=cores, memory=memory, pods=60, labels={ZONE: zone, RACK: f"r{i // 2}"})


def happen(cluster, what, number, pod_class, profile):
    """Have something change between two gangs."""
    match what:
        case "alike":
            cluster.put_pod(pod(f"o{number}", node="n1", cpu="1m", labels=LABELS), keep=False)
        case "ends":
            cluster.remove_pod(("default", f"o{number - 1}"), "")
        case "other":
            cluster.put_pod(pod(f"o{number}", node="n0", cpu="700m"), keep=False)
        case "wanting":
            cluster.put_pod(pod(f"o{number}", node="n2", cpu="1m", **rather("podAffinity", RACK)), keep=False)
        case "cordon":
            cluster.put_node(node(f"n{number % 3}", cpu=8, memory=64, pods=60, unschedulable=number % 2 == 0))
        case "zone":
            cluster.put_node(labelled(0, 64, 64, "bd"[number % 2]))
        case "grows":
            cluster.put_node(labelled(1, 64, 64, "b"))
        case "rolled back":
            with cluster.transaction() as transaction:
                place_ask(cluster.nodes, transaction, Ask(pod_class, 3), profile)
        case _:
            pass


def count(cluster, pod_class, rows):
    """Have pods that were placed be seen on their nodes."""
    for row, many in sorted(Counter(rows).items()):
        cluster.nodes.label_index.add(pod_class.pod_signature, row, count=many)


def place(cluster, pod_class, many, profile, *, in_turn=False):
    with cluster.transaction() as transaction:
        if in_turn:
            rows = place_in_turn(cluster.nodes, transaction, Ask(pod_class, 1), profile, many).tolist()
        else:
            rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, many), profile).tolist()
        transaction.commit()
    count(cluster, pod_class, rows)
    return rows


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 64]), st.sampled_from([16, 64])), min_size=3, max_size=12),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(MEANWHILE)), min_size=4, max_size=9),
    st.sampled_from(["100m", "1", "3"]),
    st.sampled_from([AllocationScore(), AllocationScore(most=True)]),
    st.sampled_from(MINDING),
)
def test_the_next_gang_goes_on_where_the_last_one_ended(sizes, gangs, cpu, packing, spec):
    cluster, profile = sized(sizes), with_packing(packing)
    classes = [cluster.classes.of(pod("p", cpu=one, **spec).spec, "default", LABELS) for one in (cpu, "200m")]
    for number, (many, meanwhile) in enumerate(gangs):
        pod_class = classes[number == 5]
        happen(cluster, meanwhile, number, pod_class, profile)
        expected = one_after_another(cluster, pod_class, many, profile)
        rows = place(cluster, pod_class, many, profile, in_turn=meanwhile == "turn")
        if meanwhile == "turn":
            assert rows == expected
        assert sorted(rows) == sorted(expected)


def placed_twice(spec, *, nodes=12):
    """A cluster where two gangs of a class were placed, with the class and the choice that more can go on with."""
    cluster = sized([(4, 64)] * nodes)
    cluster.put_pod(pod("o", node="n1", cpu="1m", labels=LABELS), keep=False)
    pod_class = cluster.classes.of(pod("p", cpu="1", **spec).spec, "default", LABELS)
    for _ in range(2):
        place(cluster, pod_class, 3, DEFAULT_PROFILE)
    begun = choice_ahead(cluster.nodes).begun
    assert begun is not None
    return cluster, pod_class, begun


@pytest.mark.parametrize("spec", [one for one in MINDING if one != near("podAntiAffinity", RACK)])
def test_who_asks_again_finds_a_choice_begun(spec):
    cluster, pod_class, begun = placed_twice(spec)
    left = begun.left
    for _ in range(2):
        expected = one_after_another(cluster, pod_class, 3, DEFAULT_PROFILE)
        assert sorted(place(cluster, pod_class, 3, DEFAULT_PROFILE)) == sorted(expected)
    assert choice_ahead(cluster.nodes).begun is begun
    assert begun.left == left - 6


def anew(cluster, pod_class, begun, *, where=NO_FLAVOR):
    """Whether the next gang goes where each of its pods would have gone by itself, by a choice begun anew."""
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, 4, where=where), DEFAULT_PROFILE).tolist()
    if where is NO_FLAVOR:
        assert sorted(rows) == sorted(one_after_another(cluster, pod_class, 4, DEFAULT_PROFILE))
    return choice_ahead(cluster.nodes).begun is not begun


@pytest.mark.parametrize(
    "spec",
    [
        spread(ZONE, "DoNotSchedule"),
        spread(ZONE, "ScheduleAnyway"),
        near("podAffinity", ZONE),
        rather("podAntiAffinity", ZONE),
    ],
)
def test_where_a_pod_counts_no_more_it_is_counted_anew(spec):
    cluster, pod_class, begun = placed_twice(spec)
    cluster.put_pod(pod("o", node="n1", cpu="1m"), keep=False)
    assert anew(cluster, pod_class, begun)


def test_where_a_node_is_fuller_it_is_scored_anew():
    cluster, pod_class, begun = placed_twice(spread(ZONE, "DoNotSchedule"))
    cluster.nodes.scored[9] += np.array([0, 48 << 30])
    assert anew(cluster, pod_class, begun)


def test_where_a_node_is_of_another_zone_kinds_are_told_apart_anew():
    cluster, pod_class, begun = placed_twice(spread(ZONE, "ScheduleAnyway"))
    cluster.put_node(labelled(11, 4, 64, "a"))
    assert anew(cluster, pod_class, begun)


def test_where_other_nodes_are_open_they_are_looked_at_anew():
    cluster, pod_class, begun = placed_twice(spread(ZONE, "ScheduleAnyway"))
    assert anew(cluster, pod_class, begun, where=FlavorConstraints(node_labels=((RACK, "r5"),)))


def test_where_an_image_has_come_it_counts():
    cluster, pod_class, begun = placed_twice(spread(ZONE, "ScheduleAnyway") | {"containers": [CONTAINER]})
    found, images = labelled(5, 4, 64, "c"), [ContainerImage(["big:latest"], 900 << 20)]
    status = msgspec.structs.replace(found.status, images=images)
    cluster.put_node(msgspec.structs.replace(found, status=status))
    assert anew(cluster, pod_class, begun)


def test_many_on_one_node_are_scored_by_what_it_has_in_use_by_then():
    """So deep that a node has to be asked again, which counts some of the pods by then."""
    cluster, profile = sized([(64, 64), (8, 16), (4, 64)]), with_packing(AllocationScore(most=True))
    pod_class = cluster.classes.of(pod("p", cpu="500m", **spread(ZONE, "ScheduleAnyway", 5)).spec, "default", LABELS)
    for many in (2, 3, 7, 9, 11, 12):
        expected = one_after_another(cluster, pod_class, many, profile)
        assert sorted(place(cluster, pod_class, many, profile)) == sorted(expected)
