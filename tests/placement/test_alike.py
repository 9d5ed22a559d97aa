"""Asks that nothing tells apart get, placed as one, the nodes that each would have got after those before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import clusters, node, pod, specs, with_packing
from tutti.api.core import PodSpec
from tutti.cluster.cluster import Cluster
from tutti.placement.alike import are_alike, minds_nodes_alone, place_alike
from tutti.placement.framework import Rows
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.measured_load import LoadRules, MeasuredLoad
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation
from tutti.placement.profile import Profile

NOW = 1_700_000_000.0
PACKINGS = [AllocationScore(), AllocationScore(most=True), AllocationScore(shape=((0, 0), (50, 10), (100, 3)))]


def asks_of(cluster: Cluster, spec: PodSpec, counts: dict[str, int]) -> list[Ask]:
    """Pods of one spec in parts that a label tells apart."""
    cluster.watch_labels(["part"])
    classed = [cluster.classes.of(spec, "default", {"part": part}) for part in counts]
    return [Ask(one, required=many) for one, many in zip(classed, counts.values(), strict=True)]


def one_by_one(cluster: Cluster, asks: list[Ask], profile: Profile, within: Rows) -> list[list[int]] | None:
    with cluster.transaction() as transaction:
        placed = [place_ask(cluster.nodes, transaction, ask, profile, within=within) for ask in asks]
        found = [rows.tolist() for rows in placed if rows is not None]
    return found if len(found) == len(asks) else None


def as_one(cluster: Cluster, asks: list[Ask], profile: Profile, within: Rows) -> list[list[int]] | None:
    with cluster.transaction() as transaction:
        placed = place_alike(cluster.nodes, transaction, asks, profile, within=within)
        return None if placed is None else [rows.tolist() for rows in placed]


def may_be_one(cluster: Cluster, asks: list[Ask], profile: Profile) -> bool:
    with cluster.transaction() as transaction:
        each = [minds_nodes_alone(ask.pod_class, cluster.nodes, transaction, profile) for ask in asks]
    return all(each) and all(are_alike(asks[0], other, cluster.nodes, profile) for other in asks[1:])


@examples(300)
@given(
    clusters(),
    specs(),
    st.sampled_from(["300m", "1", "2"]),
    st.lists(st.integers(1, 6), min_size=2, max_size=3),
    st.sampled_from(PACKINGS),
    st.sets(st.integers(0, 5)),
)
def test_alike_asks_go_where_they_would_go_one_after_another(cluster, spec, cpu, counts, packing, left_out):
    parts = {f"p{i}": many for i, many in enumerate(counts)}
    asks, profile = asks_of(cluster, pod("p", cpu=cpu, **spec).spec, parts), with_packing(packing)
    assume(may_be_one(cluster, asks, profile))
    within = np.array([row not in left_out for row in range(len(cluster.nodes))])
    before = cluster.nodes.requested.copy()
    assert as_one(cluster, asks, profile, within) == one_by_one(cluster, asks, profile, within)
    assert np.array_equal(cluster.nodes.requested, before)


@examples(150)
@given(
    st.lists(st.tuples(st.sampled_from([8, 64]), st.floats(0, 8)), min_size=1, max_size=8),
    st.lists(st.integers(1, 30), min_size=2, max_size=3),
    st.sampled_from([0.0, 1.0]),
)
def test_so_do_those_that_are_placed_by_measured_load(sizes, counts, dominant):
    cluster = measured(sizes)
    load = MeasuredLoad("LeastUsed", LoadRules(dominant_weight=dominant))
    profile = Profile(fill=(AllocationScore(), BalancedAllocation(), load))
    asks = asks_of(cluster, pod("p", cpu="1").spec, {f"p{i}": many for i, many in enumerate(counts)})
    assert may_be_one(cluster, asks, profile)
    within = np.ones(len(cluster.nodes), dtype=np.bool_)
    assert as_one(cluster, asks, profile, within) == one_by_one(cluster, asks, profile, within)


def measured(sizes: list[tuple[int, float]], unknown: int = 0) -> Cluster:
    """Nodes of so many cores, of which so many are in use, and some without figures."""
    cluster = Cluster()
    cluster.nodes.load.on, cluster.nodes.load.now = True, NOW
    for i, (cores, _) in enumerate(sizes):
        cluster.put_node(node(f"n{i}", cpu=cores, memory=64, pods=60))
    found = {f"n{i}": (NOW, [used * 1000]) for i, (_, used) in enumerate(sizes[unknown:], unknown)}
    cluster.nodes.load.measure(["cpu-used"], found)
    return cluster


NEAR = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
MINDING = {
    "affinity": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}},
    "preferred": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NEAR}]
            }
        }
    },
    "spread": {"topologySpreadConstraints": [{**NEAR, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
    "ports": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
}


@pytest.mark.parametrize("spec", MINDING.values(), ids=MINDING)
def test_who_minds_others_is_placed_after_those_before_it(spec):
    cluster = Cluster()
    cluster.put_node(node("n0", labels={"rack": "r0"}))
    asks = asks_of(cluster, pod("p", **spec).spec, {"p0": 1, "p1": 1})
    assert not may_be_one(cluster, asks, Profile())


def test_pods_of_other_requests_are_not_alike():
    cluster = Cluster()
    cluster.put_node(node("n0"))
    asks = [asks_of(cluster, pod("p", cpu=cpu).spec, {part: 1})[0] for part, cpu in (("p0", "1"), ("p1", "2"))]
    assert not are_alike(*asks, cluster.nodes, Profile())


@pytest.mark.parametrize(
    ("policy", "unknown"), [("Peaks", 0), ("Usage", 0), ("TargetLoadPacking", 0), ("LeastUsed", 1)]
)
def test_scores_that_do_not_go_on_are_asked_for_anew(policy, unknown):
    cluster = measured([(8, 1.0), (8, 2.0)], unknown)
    asks = asks_of(cluster, pod("p", cpu="1").spec, {"p0": 1, "p1": 1})
    assert not may_be_one(cluster, asks, Profile(fill=(MeasuredLoad(policy),)))


def test_terms_of_pods_that_run_tell_pods_apart():
    cluster = Cluster()
    cluster.put_node(node("n0", labels={"rack": "r0"}))
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}
    cluster.put_pod(pod("e", node="n0", affinity=apart), keep=False)
    assert not may_be_one(cluster, asks_of(cluster, pod("p").spec, {"p0": 1, "p1": 1}), Profile())
