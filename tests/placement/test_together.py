"""Roles of one gang are placed together: a gang that fits is not refused because of the order it was looked at in."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, pod, with_packing
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.arrangement import MOST_STEPS, Backtracking
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.gang import Ask
from tutti.placement.plugins.node_resources import AllocationScore
from tutti.placement.profile import DEFAULT_PROFILE, filter_nodes
from tutti.placement.together import Diagnosis, place_together
from tutti.placement.topology.request import LevelRequest, Together, TopologyPlacement
from tutti.placement.upper_bounds import has_affinity_satisfied, may_defer_affinity, without_affinity

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(*, near: dict[str, str] | None = None, apart: dict[str, str] | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if near:
        required = [term(app, key) for app, key in near.items()]
        out["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if apart:
        required = [term(app, key) for app, key in apart.items()]
        out["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": out} if out else {}


def cluster_of(*nodes) -> Cluster:
    cluster = Cluster()
    for one in nodes:
        cluster.put_node(one)
    return cluster


def role(cluster: Cluster, app: str, *, cpu: str = "1", memory: str = "", **spec: Any) -> PodClass:
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec}
    labels = {"app": app}
    cluster.classes.watch(["app"])
    return cluster.classes.of(pod("p", labels=labels, **spec).spec, "default", labels)


def together(cluster: Cluster, *asks: Ask, profile=DEFAULT_PROFILE) -> list[list[str]] | Diagnosis:
    before, residents = cluster.nodes.requested.copy(), cluster.nodes.label_index.snapshot()
    with cluster.transaction() as transaction:
        found = place_together(cluster.nodes, transaction, asks, profile)
        if isinstance(found, Diagnosis):
            assert (cluster.nodes.requested == before).all()
            return found
    assert (cluster.nodes.requested == before).all()
    assert cluster.nodes.label_index.snapshot() == residents
    return [sorted(cluster.nodes.names[row] for row in rows) for rows in found]


def test_the_hardest_role_goes_first():
    cluster = cluster_of(node("a", cpu=4), node("b", cpu=2))
    assert together(cluster, Ask(role(cluster, "s"), 2), Ask(role(cluster, "l", cpu="4"), 1)) == [["b", "b"], ["a"]]


def test_all_or_nothing():
    cluster = cluster_of(node("a", cpu=4), node("b", cpu=2))
    found = together(cluster, Ask(role(cluster, "s"), 3), Ask(role(cluster, "l", cpu="4"), 1))
    assert isinstance(found, Diagnosis)
    assert (found.index, found.fit_error.fits, found.fit_error.wanted) == (0, 2, 3)
    assert "room for only 2 of 3" in found.fit_error.message


def test_the_hardest_role_does_not_take_the_only_node_that_another_may_use():
    cluster = cluster_of(node("only", cpu=8, labels={"disk": "ssd"}), node("other", cpu=4))
    large = role(cluster, "large", cpu="4")  # would go to the emptier node
    bound = role(cluster, "bound", cpu="6", nodeSelector={"disk": "ssd"})
    small = role(cluster, "small", cpu="3", nodeSelector={"disk": "ssd"})
    assert together(cluster, Ask(large, 1), Ask(bound, 1)) == [["other"], ["only"]]
    assert together(cluster, Ask(large, 1), Ask(small, 2)) == [["other"], ["only", "only"]]


def test_roles_that_take_different_things_share_nodes():
    """Neither order helps: the two of each role must be split over the nodes, which packing does not do by itself."""
    cluster = cluster_of(node("a", cpu=4, memory=4), node("b", cpu=4, memory=4))
    cores, bytes_ = role(cluster, "c", cpu="2", memory="1Gi"), role(cluster, "m", cpu="1", memory="3Gi")
    most = with_packing(AllocationScore(most=True))
    assert together(cluster, Ask(cores, 2), Ask(bytes_, 2), profile=most) == [["a", "b"], ["a", "b"]]


def test_workers_follow_their_leader_to_a_zone_with_room_for_all():
    cluster = cluster_of(
        node("a0", cpu=8, labels={ZONE: "a"}),
        *(node(f"b{i}", cpu=3, labels={ZONE: "b"}) for i in range(4)),
    )
    leader = role(cluster, "leader", cpu="2")  # alone it would go to the largest node
    worker = role(cluster, "worker", cpu="2", **affinity(near={"leader": ZONE}))
    assert together(cluster, Ask(leader, 1)) == [["a0"]]
    assert together(cluster, Ask(leader, 1), Ask(worker, 3)) == [["a0"], ["a0"] * 3]
    large = role(cluster, "worker", cpu="3", **affinity(near={"leader": ZONE}))
    found = together(cluster, Ask(leader, 1), Ask(large, 3))
    assert {name[0] for names in found for name in names} == {"b"}


def test_two_roles_that_want_each_other_are_placed_though_neither_can_be_first():
    cluster = cluster_of(
        node("a", cpu=2, labels={ZONE: "a"}),
        node("b", cpu=4, labels={ZONE: "b"}),
        node("b2", cpu=4, labels={ZONE: "b"}),
    )
    leader = role(cluster, "leader", cpu="2", **affinity(near={"worker": ZONE}))
    worker = role(cluster, "worker", cpu="2", **affinity(near={"leader": ZONE}))
    found = together(cluster, Ask(leader, 1), Ask(worker, 2))
    assert {name[0] for names in found for name in names} == {"b"}
    assert isinstance(together(cluster, Ask(leader, 1), Ask(worker, 4)), Diagnosis)


def test_what_defers_its_affinity_has_it_met_in_the_end():
    """A worker may be placed before the leader it wants, but not where no leader comes."""
    cluster = cluster_of(node("a", cpu=2), node("b", cpu=2))
    leader = role(cluster, "leader", cpu="2", **affinity(near={"worker": HOST}))
    worker = role(cluster, "worker", cpu="2", **affinity(near={"leader": HOST}))
    assert isinstance(together(cluster, Ask(leader, 1), Ask(worker, 1)), Diagnosis)


def test_a_leader_and_workers_that_exclude_each_other():
    cluster = cluster_of(
        *(node(f"a{i}", cpu=4, labels={ZONE: "a"}) for i in range(3)), node("b", cpu=16, labels={ZONE: "b"})
    )
    leader = role(cluster, "leader", cpu="1", **affinity(apart={"worker": ZONE}))
    worker = role(cluster, "worker", cpu="4", **affinity(apart={"worker": HOST}))
    assert together(cluster, Ask(leader, 1), Ask(worker, 3)) == [["b"], ["a0", "a1", "a2"]]


def test_one_role_that_stays_in_one_zone_finds_the_zone_with_room():
    cluster = cluster_of(
        node("a", cpu=16, pods=2, labels={ZONE: "a"}),
        *(node(f"b{i}", cpu=4, labels={ZONE: "b"}) for i in range(3)),
    )
    one = role(cluster, "x", cpu="3", **affinity(near={"x": ZONE}))
    assert together(cluster, Ask(one, 3)) == [["b0", "b1", "b2"]]
    found = together(cluster, Ask(one, 4))
    assert isinstance(found, Diagnosis)
    assert found.tried == 0  # no zone has room for four, so nothing is worth trying


def test_a_role_that_wants_its_own_kind_is_never_split():
    cluster = cluster_of(*(node(f"{z}{i}", cpu=1, labels={ZONE: z}) for z in "ab" for i in range(2)))
    one = role(cluster, "x", **affinity(near={"x": ZONE}))
    other = role(cluster, "y", cpu="100m")
    assert isinstance(together(cluster, Ask(one, 4)), Diagnosis)
    assert isinstance(together(cluster, Ask(one, 4), Ask(other, 1)), Diagnosis)


def test_what_is_required_of_all_comes_before_what_is_extra_of_any():
    cluster = cluster_of(node("a", cpu=4))
    elastic, fixed = role(cluster, "e", cpu="2"), role(cluster, "f", cpu="1")
    assert together(cluster, Ask(elastic, 1, 3), Ask(fixed, 2)) == [["a"], ["a", "a"]]
    assert together(cluster, Ask(elastic, 1, 3), Ask(fixed, 1, 3)) == [["a"], ["a", "a"]]
    assert together(cluster, Ask(elastic, 0, 3), Ask(fixed, 0, 3)) == [["a", "a"], []]


def test_a_gang_that_cannot_fit_is_not_searched_for():
    cluster = cluster_of(node("a", cpu=4), node("b", cpu=4))
    found = together(cluster, Ask(role(cluster, "x", cpu="3"), 2), Ask(role(cluster, "y", cpu="2"), 2))
    assert isinstance(found, Diagnosis)
    assert found.tried == 0


def test_the_more_unlike_members_a_gang_has_the_fewer_steps_are_tried():
    cluster = cluster_of(*(node(f"n{i}", cpu=4, labels={ZONE: f"z{i // 8}"}) for i in range(24)))
    near = [{f"a{i % 6}": ZONE} | ({"a0": ZONE} if i % 6 == 1 else {}) for i in range(24)]
    pods = [role(cluster, f"a{i % 6}", cpu=f"{3000 + i}m", **affinity(near=one)) for i, one in enumerate(near)]
    asks = [Ask(pod_class, 1) for pod_class in pods]
    with cluster.transaction() as transaction:
        search = Backtracking(cluster.nodes, transaction, asks, DEFAULT_PROFILE, MOST_STEPS)
        assert search.run(range(len(asks))) is None
    assert search.tried <= MOST_STEPS / 2


def test_a_role_that_can_never_be_placed_says_so():
    cluster = cluster_of(node("a"))
    found = together(cluster, Ask(role(cluster, "x"), 1), Ask(role(cluster, "y", cpu="targets"), 1))
    assert isinstance(found, Diagnosis)
    assert "'targets' is not a quantity" in found.fit_error.never


def test_a_surplus_role_that_can_never_be_placed_holds_up_nobody():
    cluster = cluster_of(node("a"))
    assert together(cluster, Ask(role(cluster, "x"), 1), Ask(role(cluster, "y", cpu="targets"), 0, 1)) == [["a"], []]


# ---- brute force ----------------------------------------------------------------------------------------------------

KEYS = [HOST, ZONE]
APPS = ["x", "y", "z"]


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Cluster, list[Ask]]:
    cluster = Cluster()
    for i in range(draw(st.integers(1, 3))):
        labels = {ZONE: draw(st.sampled_from("ab")), **({"disk": "ssd"} if draw(st.booleans()) else {})}
        size = {"cpu": draw(st.integers(1, 6)), "memory": draw(st.integers(1, 6)), "pods": draw(st.integers(1, 4))}
        cluster.put_node(node(f"n{i}", labels=labels, **size))
    asks, left = [], 4
    for app in APPS[: draw(st.integers(1, 3))]:
        required = draw(st.integers(1, min(2, left)))
        left -= required
        rules: dict[str, Any] = {}
        kind = draw(st.sampled_from(["", "", "near", "apart", "both", "spread"]))
        if kind in ("near", "both"):
            rules["near"] = {draw(st.sampled_from(APPS)): draw(st.sampled_from(KEYS))}
        if kind in ("apart", "both"):
            rules["apart"] = {draw(st.sampled_from(APPS)): draw(st.sampled_from(KEYS))}
        spec = affinity(**rules)
        if kind == "spread":
            spec["topologySpreadConstraints"] = [
                {
                    "topologyKey": draw(st.sampled_from(KEYS)),
                    "maxSkew": 1,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": draw(st.sampled_from(APPS))}},
                }
            ]
        if draw(st.booleans()):
            spec["nodeSelector"] = {"disk": "ssd"}
        cpu, memory = draw(st.sampled_from(["1", "2", "3"])), draw(st.sampled_from(["", "1Gi", "2Gi"]))
        asks.append(Ask(role(cluster, app, cpu=cpu, memory=memory, **spec), required))
        if not left:
            break
    return cluster, asks


def brute_force(cluster: Cluster, asks: list[Ask]) -> bool:
    """Whether any assignment of pods to nodes, reached in any order, keeps every rule; company may come later."""
    pods = [ask.pod_class for ask in asks for _ in range(ask.required)]
    deferred = [may_defer_affinity(one, pods, cluster.nodes) for one in pods]
    rows = range(len(cluster.nodes))
    for where in product(rows, repeat=len(pods)):
        for order in sorted(set(permutations(range(len(pods))))):
            if reaches(cluster, pods, deferred, where, order):
                return True
    return False


def fits(pod_class: PodClass, cluster: Cluster, row: int) -> bool:
    """Whether a pod of a class may go to a node as things are now."""
    return bool(filter_nodes(pod_class, cluster.nodes, NO_FLAVOR, DEFAULT_PROFILE).feasible[row])


def reaches(cluster: Cluster, pods: list[PodClass], deferred: list[bool], where, order) -> bool:
    with cluster.transaction() as transaction:
        owing = []
        for i in order:
            pod_class, row = pods[i], where[i]
            transaction.show()
            if not fits(pod_class, cluster, row):
                if not deferred[i] or not fits(without_affinity(pod_class), cluster, row):
                    return False
                owing.append(i)
            transaction.put(np.array([row]), np.ones(1, dtype=np.int64), pod_class)
        transaction.show()
        return all(has_affinity_satisfied(pods[i], [where[i]], cluster.nodes) for i in owing)


@examples(60)
@given(gangs(), st.sampled_from([False, True]))
def test_a_gang_is_placed_whenever_any_arrangement_of_it_fits(scene, most):
    cluster, asks = scene
    found = together(cluster, *asks, profile=with_packing(AllocationScore(most=most)))
    if isinstance(found, Diagnosis):
        assert not brute_force(cluster, asks)
    else:
        assert [len(rows) for rows in found] == [ask.required for ask in asks]
        rows = [cluster.nodes.rows[name] for names in found for name in names]
        pods = [ask.pod_class for ask in asks for _ in range(ask.required)]
        deferred = [may_defer_affinity(one, pods, cluster.nodes) for one in pods]
        assert any(reaches(cluster, pods, deferred, rows, order) for order in permutations(range(len(pods))))


def near(mode: Together, level: str, party: str = "") -> TopologyPlacement:
    return TopologyPlacement(("block", "rack"), LevelRequest(mode, level), party)


def blocks(**gpus: tuple[int, ...]) -> Cluster:
    """Nodes by block, each in a rack of its own, with so many cores."""
    cluster = Cluster()
    for block, sizes in gpus.items():
        for i, cpu in enumerate(sizes):
            cluster.put_node(node(f"{block}{i}", cpu=cpu, labels={"block": block, "rack": f"{block}{i}"}))
    return cluster


def places(cluster: Cluster, *asks: tuple[str, int, TopologyPlacement | None]) -> list[list[str]] | None:
    made = [
        Ask(cluster.classes.of(pod(f"p{i}", cpu=cpu).spec), count, topology=how)
        for i, (cpu, count, how) in enumerate(asks)
    ]
    before = cluster.nodes.requested.copy()
    with cluster.transaction() as transaction:
        found = place_together(cluster.nodes, transaction, made, DEFAULT_PROFILE)
    assert (cluster.nodes.requested == before).all()
    return None if isinstance(found, Diagnosis) else [[cluster.nodes.names[row] for row in rows] for rows in found]


def test_pods_that_may_go_anywhere_leave_the_only_domain_to_those_that_may_not():
    cluster = blocks(y=(3,), x=(2,))
    block = near(Together.REQUIRED, "block")
    assert places(cluster, ("1", 3, block), ("2", 1, None)) == [["y0", "y0", "y0"], ["x0"]]
    assert places(cluster, ("1", 3, block), ("2", 2, None)) is None


def test_a_party_leaves_the_domain_to_another_that_needs_it():
    cluster = blocks(x=(2, 2), y=(3,))
    one, other = near(Together.REQUIRED, "block", "one"), near(Together.REQUIRED, "block", "other")
    assert places(cluster, ("2", 2, one), ("1", 3, other)) == [["x0", "x1"], ["y0", "y0", "y0"]]
    assert places(cluster, ("2", 2, one), ("1", 4, other)) is None


def test_parts_of_one_domain_are_arranged_in_it():
    """One part fills a node of each pair however it is placed first, but for one way."""
    cluster = blocks(x=(3, 4), y=(1,))
    block = near(Together.REQUIRED, "block", "one")
    found = places(cluster, ("2", 2, block), ("3", 1, block))
    assert found is not None
    assert sorted(found[0]) == ["x1", "x1"]
    assert found[1] == ["x0"]
