"""Counting a gang by NUMA zones says what the kubelets of the nodes would admit, in whatever order they are asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.drawing import examples
from tests.placement.kubelet import Kubelet
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Node, NodeStatus, ObjectMeta, PodSpec, ResourceRequirements
from tutti.api.numa import RESTRICTED, SINGLE_NUMA_NODE, NodeTopology, ZoneReport
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.engine.reading.profiles import profiles_of
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins import numa_orders, numa_room
from tutti.placement.plugins.numa import NumaAlignment
from tutti.placement.plugins.numa_fit import PLENTY, ZoneSearch
from tutti.placement.plugins.numa_scores import NumaScore

GPU = "vendor/gpu"
GIB = 2**30


def container(**asked: int | str) -> Container:
    """A container of a Guaranteed pod: `gpu` devices beside cpu and memory."""
    said = {GPU if name == "gpu" else name: str(amount) for name, amount in asked.items()}
    return Container(resources=ResourceRequirements(said, said))


def node(
    name: str,
    zones: list[dict[str, int]],
    *,
    used: list[dict[str, int]] | None = None,
    policy=SINGLE_NUMA_NODE,
    pod_scope=False,
) -> tuple[Node, NodeTopology]:
    """A node with a report: what each zone has in all, in cores, and what of it is used."""
    whole = [units(zone) for zone in zones]
    free = [
        {key: zone[key] - units(part).get(key, 0) for key in zone}
        for zone, part in zip(whole, used or [{}] * len(zones), strict=True)
    ]
    total = {name: sum(zone.get(name, 0) for zone in zones) for name in {key for zone in zones for key in zone}}
    report = NodeTopology(
        name,
        policy=policy,
        pod_scope=pod_scope,
        zones=tuple(ZoneReport(at, free[at], whole[at]) for at in range(len(zones))),
    )
    offered = {GPU if key == "gpu" else key: str(amount) for key, amount in total.items()}
    return Node(
        ObjectMeta(name=name), status=NodeStatus({"pods": "64", "cpu": "0", "memory": "0", GPU: "64", **offered})
    ), report


def units(zone: dict[str, int]) -> dict[str, int]:
    """Amounts as scheduling counts them."""
    return {GPU if name == "gpu" else name: amount * 1000 if name == "cpu" else amount for name, amount in zone.items()}


def cluster_of(*nodes: tuple[Node, NodeTopology]) -> Cluster:
    cluster = Cluster()
    for one, report in nodes:
        cluster.put_node(one)
        cluster.put_topology(report)
    return cluster


def room(cluster: Cluster, pod_class: PodClass) -> np.ndarray:
    """How many more pods each node takes, by its zones."""
    state = NumaAlignment().pre_filter(pod_class, cluster.nodes, NO_FLAVOR)
    return np.full(len(cluster.nodes), PLENTY) if state is None else state.room(PLENTY)


def kubelet(report: NodeTopology) -> Kubelet:
    return Kubelet(
        [dict(zone.available) for zone in report.zones],
        [dict(zone.allocatable) for zone in report.zones],
        pod_scope=report.pod_scope,
        restricted=report.policy == RESTRICTED,
    )


ZONE = st.fixed_dictionaries(
    {"cpu": st.integers(0, 8), "memory": st.integers(0, 8)}, optional={"gpu": st.integers(0, 4)}
)
ASKED = st.fixed_dictionaries(
    {"cpu": st.integers(1, 5), "memory": st.integers(1, 4)}, optional={"gpu": st.integers(1, 3)}
)
ZONES = st.lists(ZONE, min_size=1, max_size=3)


@st.composite
def classes(draw, containers: int = 2) -> PodSpec:
    parts = draw(st.lists(ASKED, min_size=1, max_size=containers))
    init = draw(st.lists(ASKED, max_size=containers - 1))
    return PodSpec(containers=[container(**one) for one in parts], init_containers=[container(**one) for one in init])


@given(
    zones=st.lists(ZONES, min_size=1, max_size=3),
    spec=classes(),
    pod_scope=st.booleans(),
    policy=st.sampled_from([SINGLE_NUMA_NODE, RESTRICTED]),
    used=st.integers(0, 4),
)
@examples(600)
def test_a_gang_is_counted_as_kubelets_would_admit_it_one_after_another(zones, spec, pod_scope, policy, used):
    nodes = [
        node(f"n{at}", one, policy=policy, pod_scope=pod_scope, used=[{"cpu": min(used, zone["cpu"])} for zone in one])
        for at, one in enumerate(zones)
    ]
    cluster = cluster_of(*nodes)
    pod_class = cluster.classes.of(spec)

    counted = room(cluster, pod_class)

    for row, (_, report) in enumerate(nodes):
        admitted = kubelet(report).room(pod_class)
        assert (counted[row], admitted) == (admitted, admitted) or (counted[row] == PLENTY and admitted == 64)


@given(
    zones=ZONES,
    specs=st.lists(classes(2), min_size=2, max_size=3),
    pod_scope=st.booleans(),
    counts=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
@examples(600)
def test_what_was_given_out_is_admitted_in_every_order(zones, specs, pod_scope, counts):
    one = node("n", zones, pod_scope=pod_scope)
    cluster = cluster_of(one)
    placed: list[PodClass] = []
    with cluster.transaction() as transaction:
        for spec, count in zip(specs, counts, strict=False):
            pod_class = cluster.classes.of(spec)
            taken = min(count, int(room(cluster, pod_class)[0]))
            if taken:
                transaction.put(np.array([0]), np.array([taken]), pod_class)
                placed += [pod_class] * taken
        for order in itertools.islice(itertools.permutations(placed), 200):
            there = kubelet(one[1])
            assert all(there.admit(pod_class) for pod_class in order)
    assert not cluster.nodes.numa.pending_of


@pytest.mark.parametrize(("pods", "cores", "asked"), [(4, 1000, 600), (9, 4000, 600)])
def test_many_pods_of_many_containers_cost_others_a_bounded_number_of_steps(monkeypatch, pods, cores, asked):
    """A tenant fills nodes with pods of hundreds of containers, each of other amounts; somebody else asks for a zone."""
    nodes = [node(f"n{at}", [{"cpu": cores + at, "memory": GIB, "gpu": 8} for _ in range(2)]) for at in range(40)]
    cluster = cluster_of(*nodes)
    hostile = [[container(cpu=1, memory=1 + at + many) for at in range(200)] for many in range(pods)]
    steps, looks = [], []
    admitted, terms = numa_orders.admitted, ZoneSearch.terms
    monkeypatch.setattr(numa_orders, "admitted", lambda free, kind: steps.append(len(kind)) or admitted(free, kind))
    monkeypatch.setattr(ZoneSearch, "terms", lambda self, asked: looks.append(1) or terms(self, asked))
    with cluster.transaction() as transaction:
        for containers in hostile:
            everywhere = np.ones(len(nodes), dtype=np.int64)
            transaction.put(np.arange(len(nodes)), everywhere, cluster.classes.of(PodSpec(containers=containers)))
        steps.clear()
        looks.clear()

        found = room(cluster, cluster.classes.of(PodSpec(containers=[container(cpu=asked, memory=2)])))

        assert bool(steps) == (pods * 200 <= numa_room.MOST_PARTS)
        assert sum(steps) <= numa_orders.MOST_ALIGNED_TOGETHER
        assert len(looks) <= 16 * numa_room.MOST_PARTS
    assert (found > 0).all() or pods == 4


@pytest.mark.parametrize("beyond", [False, True])
@given(zones=ZONES, specs=st.lists(classes(2), min_size=2, max_size=3), pod_scope=st.booleans())
@examples(100)
def test_beyond_the_bounds_nothing_is_given_out_that_is_not_admitted_in_every_order(beyond, zones, specs, pod_scope):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numa_orders, "MOST_ALIGNED", 3)
        patch.setattr(numa_room, "MOST_PARTS", 1 if beyond else 1024)
        test_what_was_given_out_is_admitted_in_every_order.hypothesis.inner_test(zones, specs, pod_scope, [2, 2, 2])


SCORED = ("LeastAllocated", "MostAllocated", "LeastNUMANodes")


def points(cluster: Cluster, spec: PodSpec, strategy: str) -> list[int]:
    """What each node is worth to a pod."""
    said = {"nodeResourceTopologyMatch": {"scoringStrategy": {"type": strategy}}}
    profile = profiles_of(TuttiConfiguration.model_validate({"profiles": [said]}))["tutti"]
    score = next(one for one in profile.changing if isinstance(one, NumaScore))
    return score.points(cluster.classes.of(spec), cluster.nodes).tolist()


@pytest.mark.parametrize("strategy", SCORED)
def test_a_node_whose_report_cannot_be_used_or_is_not_there_is_worth_nothing(strategy):
    """scheduler-plugins, noderesourcetopology/score.go: no topology, or one that is not fresh, scores 0."""
    zones = [{"cpu": 8, "memory": 8}]
    good, bad = node("good", zones), node("bad", zones)
    cluster = cluster_of(good, (bad[0], replace(bad[1], problem="two zones of one number")))
    cluster.put_node(replace(good[0], metadata=ObjectMeta(name="none")))

    worth = points(cluster, PodSpec(containers=[container(cpu=2, memory=2)]), strategy)

    assert worth[0] > 0
    assert worth[1:] == [0, 0]


@pytest.mark.parametrize(("pod_scope", "strategy"), list(itertools.product([False, True], SCORED)))
def test_what_is_reserved_and_in_no_report_counts_as_taken_from_the_score(pod_scope, strategy):
    """scheduler-plugins subtracts what it has reserved before it scores, too (cache/overreserve.go, GetCachedNRTCopy)."""
    zones = [{"cpu": 8, "memory": 8}]
    cluster = cluster_of(node("free", zones, pod_scope=pod_scope), node("used", zones, pod_scope=pod_scope))
    reserved = cluster.classes.of(PodSpec(containers=[container(cpu=4, memory=4)]))
    asked = PodSpec(containers=[container(cpu=5 if strategy == "LeastNUMANodes" else 2, memory=2)])
    with cluster.transaction() as transaction:
        transaction.put(np.array([1]), np.array([1]), reserved)

        free, used = points(cluster, asked, strategy)

    if strategy == "MostAllocated":
        assert used > free > 0
    else:
        assert free > used >= 0


FOUR = {"cpu": 4, "memory": 8}
BOTH = {"cpu": 8, "memory": 8, "gpu": 2}
SEVERAL = [
    ([FOUR] * 2, [container(memory=1, cpu=5)], 1),
    ([FOUR] * 3, [container(memory=1, cpu=6)], 2),  # the second from what is left of the middle zone, and the last
    ([FOUR] * 4, [container(memory=1, cpu=5), container(memory=1, cpu=5)], 1),
    ([FOUR] * 4, [container(memory=1, cpu=5), container(memory=1, cpu=3)], 2),
    ([FOUR] * 3, [container(memory=1, cpu=9)], 1),
    ([FOUR] * 3, [container(memory=1, cpu=13)], 0),
    ([BOTH] * 4, [container(memory=1, cpu=12, gpu=4)], 2),
    (
        [BOTH] * 4,
        [container(memory=1, cpu=10, gpu=1)],
        0,
    ),  # one zone has the device, two have the cores: never the same set
    ([BOTH] * 3, [container(memory=1, cpu=4, gpu=1)], 6),
    ([FOUR, FOUR | {"gpu": 2}], [container(memory=1, cpu=2, gpu=1)], 2),
    (
        [FOUR] * 2,
        [container(memory=1, cpu="1500m"), container(memory=1, cpu=5)],
        1,
    ),  # who asks for parts of cores is not pinned
]


@pytest.mark.parametrize("pod_scope", [False, True])
@pytest.mark.parametrize("init", [[], [container(memory=1, cpu=5)], [container(memory=1, cpu=1)]])
@pytest.mark.parametrize(("zones", "containers", "fits"), SEVERAL)
def test_who_needs_several_zones_is_given_as_few_as_could_hold_it_on_an_empty_node(
    zones, containers, fits, init, pod_scope
):
    """Kubernetes pkg/kubelet/cm/topologymanager, policy_restricted.go: the hint must be preferred, with equal sets."""
    one = node("n", zones, policy=RESTRICTED, pod_scope=pod_scope)
    cluster = cluster_of(one)
    pod_class = cluster.classes.of(PodSpec(containers=containers, init_containers=init))

    admitted = kubelet(one[1]).room(pod_class)

    assert np.minimum(room(cluster, pod_class), 64).tolist() == [admitted]
    if not (init or pod_scope):
        assert admitted == fits
