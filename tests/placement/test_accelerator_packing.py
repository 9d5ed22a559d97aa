"""Accelerators are kept in whole nodes: single pods fill holes, a gang takes the fewest nodes, and none stays behind."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tests.placement.scenes import pod, service, with_packing
from tests.placement.single_decision import decide
from tutti.api.core import Node, Pod
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.accelerator_packing import AcceleratorPacking
from tutti.placement.plugins.node_resources import AllocationScore
from tutti.placement.profile import DEFAULT_PROFILE, Profile

GPU = "nvidia.com/gpu"
PACKED = Profile(packing=AcceleratorPacking(("nvidia.com/*",)))


def gpu_node(name: str, gpus: int, *, labels: dict[str, str] | None = None, resource: str = GPU, **spec: Any) -> Node:
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110", **({resource: str(gpus)} if gpus else {})}
    raw = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": offered},
    }
    return msgspec.convert(raw, Node)


def gpu_pod(name: str, gpus: int, *, resource: str = GPU, cpu: str = "1", **options: Any) -> Pod:
    requests = {"cpu": cpu, "memory": "1Gi", **({resource: str(gpus)} if gpus else {})}
    return pod(name, containers=[{"name": "c", "resources": {"requests": requests}}], **options)


def cluster_with(*free: int, size: int = 8) -> Cluster:
    """Nodes of 8 GPUs with so many of them free."""
    cluster = Cluster()
    for i, left in enumerate(free):
        cluster.put_node(gpu_node(f"n{i}", size))
        if left < size:
            cluster.put_pod(gpu_pod(f"there{i}", size - left, node=f"n{i}"), keep=False)
    return cluster


def placed(cluster: Cluster, one: Pod, count: int, profile: Profile = PACKED) -> list[int]:
    """How many of so many equal pods go to each node."""
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, count), profile)
    assert rows is not None
    return np.bincount(rows, minlength=cluster.nodes.count).tolist()


@pytest.mark.parametrize(
    ("free", "gpus", "goes_to"),
    [
        ((8, 3, 2), 1, 2),  # (6 + 1) / 8 in use is the most
        ((8, 3, 2), 2, 2),
        ((8, 3, 2), 3, 1),
        ((8, 3, 2), 4, 0),
        ((8, 8, 0), 1, 0),
        ((2, 1, 1), 1, 1),  # as tight as each other: the first
    ],
)
def test_a_single_pod_goes_where_it_fits_tightest(free, gpus, goes_to):
    assert placed(cluster_with(*free), gpu_pod("p", gpus), 1).index(1) == goes_to


def test_the_score_is_what_is_in_use_with_the_pod_by_what_there_is():
    cluster = cluster_with(8, 3, 2)
    pod_class = cluster.classes.of(gpu_pod("p", 2).spec)
    said = decide(pod_class, cluster.nodes, profile=PACKED)
    assert said.scores["AcceleratorPacking"].tolist() == [250, 870, 1000]  # 2/8, 7/8 and 8/8 in percent, times 10
    assert not {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} & set(said.scores)


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ((1, 2, 8, 1, 4), 8, [0, 0, 8, 0, 0]),  # one node, though there are holes
        ((1, 2, 8, 1, 4), 4, [0, 0, 0, 0, 4]),  # the tightest of the nodes that can take all
        ((8, 2, 8, 3, 8), 10, [8, 2, 0, 0, 0]),  # a whole node, and the hole that the rest just fills
        ((8, 2, 8, 3, 8), 19, [8, 0, 8, 3, 0]),
        ((8, 3, 5, 8), 9, [8, 1, 0, 0]),
        ((5, 5, 5), 12, [5, 5, 2]),
        ((3, 7, 6), 16, [3, 7, 6]),
    ],
)
def test_a_gang_takes_the_fewest_nodes_and_leaves_the_largest_holes(free, count, expected):
    assert placed(cluster_with(*free), gpu_pod("p", 1), count) == expected


def test_filling_the_fullest_nodes_scatters_a_gang():
    fullest = with_packing(AllocationScore(resources=((GPU, 1),), most=True))
    assert placed(cluster_with(1, 2, 8, 1, 4), gpu_pod("p", 1), 8, fullest) == [1, 2, 0, 1, 4]


def test_pods_that_ask_for_no_accelerator_are_scored_as_ever():
    cluster = cluster_with(8, 3, 2)
    pod_class = cluster.classes.of(gpu_pod("p", 0).spec)
    usual, packed = (decide(pod_class, cluster.nodes, profile=profile) for profile in (DEFAULT_PROFILE, PACKED))
    assert {name: column.tolist() for name, column in usual.scores.items()} == {
        name: column.tolist() for name, column in packed.scores.items()
    }


def test_a_wildcard_packs_each_profile_of_a_partitioned_device():
    cluster = Cluster()
    for i, taken in enumerate((0, 5, 3)):
        cluster.put_node(gpu_node(f"n{i}", 7, resource="nvidia.com/mig-1g.5gb"))
        if taken:
            cluster.put_pod(gpu_pod(f"e{i}", taken, resource="nvidia.com/mig-1g.5gb", node=f"n{i}"), keep=False)
    assert placed(cluster, gpu_pod("p", 1, resource="nvidia.com/mig-1g.5gb"), 1) == [0, 1, 0]


@pytest.mark.parametrize(("gpus", "expected"), [(1, [0, 1]), (2, [1, 0])])
def test_what_is_preferred_otherwise_is_weighed_against_it(gpus, expected):
    """A taint that is not liked costs 300 points; two GPUs of eight more in use are worth 250, four 500."""
    cluster = Cluster()
    taint = {"key": "k", "effect": "PreferNoSchedule"}
    cluster.put_node(gpu_node("liked-less", 8, taints=[taint]))
    cluster.put_node(gpu_node("liked", 8))
    cluster.put_pod(gpu_pod("there", 2 * gpus, node="liked-less"), keep=False)
    assert placed(cluster, gpu_pod("p", 1), 1) == expected


def test_members_that_must_keep_apart_do_so():
    cluster = cluster_with(8, 3, 2)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert placed(cluster, gpu_pod("p", 1, labels={"app": "x"}, affinity=apart), 3) == [1, 1, 1]


def one_by_one(cluster: Cluster, pod_class: PodClass, count: int, profile: Profile) -> list[int]:
    """Decide pod by pod, in plain words: the node that would hold the most of the gang, then the fullest, is best."""
    nodes, packing = cluster.nodes, profile.packing
    assert packing is not None
    request = nodes.vector(pod_class.requests)
    asked = np.flatnonzero(request)
    column, each = nodes.resource_index.column(GPU), pod_class.requests[GPU]
    before = nodes.requested.copy()
    first = decide(pod_class, nodes, NO_FLAVOR, profile)
    room = dict.fromkeys(range(len(nodes)), 0)
    for row in first.rows.tolist():
        free = nodes.allocatable[row] - nodes.requested[row]
        room[row] = min(count, *(int(free[one] // request[one]) for one in asked))
    most = max(1, *room.values())
    out: list[int] = []
    for done in range(count):
        said = decide(pod_class, nodes, NO_FLAVOR, profile)
        if not len(said.rows):
            break
        others = said.total - said.scores.get(packing.name, 0)
        worth = []
        for i, row in enumerate(said.rows.tolist()):
            mine = out.count(row)
            there = mine + min(room[row] - mine, count - done)
            offered = int(nodes.allocatable[row, column])
            used = min(int(before[row, column]) + there * each, offered) * 100 // offered
            worth.append(int(others[i]) * most + packing.weight * (100 * (there - 1) + used))
        row = int(said.rows[worth.index(max(worth))])
        out.append(row)
        nodes.requested[row] += request
        nodes.scored[row] += np.array(pod_class.weight)
        nodes.label_index.add(pod_class.pod_signature, row)
    for row in out:
        nodes.requested[row] -= request
        nodes.scored[row] -= np.array(pod_class.weight)
        nodes.label_index.add(pod_class.pod_signature, row, count=-1)
    return sorted(out)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Cluster, Pod]:
    """Nodes of several sizes, partly taken, some liked less than others; and a pod that may have likes of its own."""
    cluster = Cluster()
    for i in range(draw(st.integers(1, 7))):
        size = draw(st.sampled_from([2, 4, 8]))
        soft = [{"key": f"k{n}", "effect": "PreferNoSchedule"} for n in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
        labels = {"topology.kubernetes.io/zone": draw(st.sampled_from("ab")), "gen": draw(st.sampled_from("123"))}
        cluster.put_node(gpu_node(f"n{i}", size, labels=labels, taints=soft))
        taken = draw(st.integers(0, size))
        if taken:
            cluster.put_pod(gpu_pod(f"e{i}", taken, node=f"n{i}", labels={"app": "x"}), keep=False)
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        expression = {"key": "gen", "operator": "In", "values": ["1"]}
        preference = {"weight": 50, "preference": {"matchExpressions": [expression]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    if draw(st.integers(0, 3)) == 0:
        cluster.put_selecting(service("s", app="x"))
    return cluster, gpu_pod("p", draw(st.sampled_from([1, 1, 2, 3])), labels={"app": "x"}, **spec)


@examples(400)
@given(scenes(), st.integers(1, 24), st.sampled_from([1, 3, 10, 100]))
def test_a_gang_goes_where_deciding_pod_by_pod_would_put_it(scene, count, weight):
    cluster, one = scene
    profile = Profile(packing=AcceleratorPacking(("nvidia.com/*",), weight=weight))
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    expected = one_by_one(cluster, pod_class, count, profile)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
        assert rows is not None
        assert sorted(rows.tolist()) == expected
    assert (cluster.nodes.requested == recounted(cluster)).all()


@examples(200)
@given(scenes(), st.integers(0, 24))
def test_packing_never_leaves_a_pod_behind_that_fits(scene, beyond):
    cluster, one = scene
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    column, each = cluster.nodes.resource_index.column(GPU), pod_class.requests[GPU]
    free = cluster.nodes.allocatable[:, column] - cluster.nodes.requested[:, column]
    fits = int((free // each).sum())  # devices run out first on these nodes
    for required, extra, expected in ((fits, 0, fits), (fits, beyond, fits), (0, fits + beyond, fits)):
        with cluster.transaction() as transaction:
            rows = place_ask(cluster.nodes, transaction, Ask(pod_class, required, extra), PACKED)
            assert rows is not None
            assert len(rows) == expected
            assert (cluster.nodes.requested <= cluster.nodes.allocatable).all()
    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, fits + 1), PACKED) is None


@examples(100)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=8), st.integers(1, 30))
def test_no_gang_is_on_more_nodes_than_it_must_be(free, count):
    cluster = cluster_with(*free)
    count = min(count, sum(free))
    if not count:
        return
    rest, fewest = count, 0
    for left in sorted(free, reverse=True):
        if rest > 0:
            rest, fewest = rest - left, fewest + 1
    assert sum(n > 0 for n in placed(cluster, gpu_pod("p", 1), count)) == fewest
