"""What a profile of the configuration changes; its defaults are kube-scheduler's default profile."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import yaml

from tests.engine.world import World
from tests.placement.scenes import node, pod, service
from tests.placement.single_decision import Decision, decide
from tutti.api.configuration import load
from tutti.api.core import Node, NodeStatus, ObjectMeta
from tutti.cluster.cluster import Cluster
from tutti.engine.reading.profiles import profile_of
from tutti.placement.profile import DEFAULT_PROFILE, Profile


def profile(text: str = "") -> Profile:
    return profile_of(load(f"profiles:\n- schedulerName: tutti\n{text}").profiles[0])


def decided(cluster: Cluster, one: Any, chosen: Profile) -> Decision:
    return decide(
        cluster.classes.of(one.spec, one.metadata.namespace, one.metadata.labels), cluster.nodes, profile=chosen
    )


def cluster_of(*nodes: Node) -> Cluster:
    cluster = Cluster()
    for one in nodes:
        cluster.put_node(one)
    return cluster


def gpu_node(name: str, **offered: str) -> Node:
    resources = {key.replace("__", "/").replace("_", "-"): amount for key, amount in offered.items()}
    meta = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name})
    return Node(meta, status=NodeStatus({"cpu": "10", "memory": "10Gi", "pods": "10", **resources}))


def test_the_defaults_are_the_default_profile():
    mine = profile()
    for one in fields(Profile):
        assert getattr(mine, one.name) == getattr(DEFAULT_PROFILE, one.name), one.name


def test_each_scheduler_name_has_its_own_profile():
    world = World(
        profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "scoringStrategy": {"type": "MostAllocated"}}]
    )
    a, b = (world.engine.state.profiles[name] for name in ("a", "b"))
    assert [one.fill[0].most for one in (a, b)] == [False, True]


# kube-scheduler 1.36, noderesources/requested_to_capacity_ratio.go: cpu 2 of 10 with the shape 0:0, 100:10 is 20.
def test_a_shape_says_what_a_utilization_is_worth():
    cluster = cluster_of(node("n0", cpu=10), node("n1", cpu=4))
    chosen = profile(
        """
  scoringStrategy:
    type: RequestedToCapacityRatio
    resources: [{name: cpu}]
    requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
"""
    )
    assert decided(cluster, pod("p", cpu="2"), chosen).scores["NodeResourcesFit"].tolist() == [20, 50]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("[{name: nvidia.com/*}]", [50, 80]),
        ("[{name: nvidia.com/mig-*}]", [50, 80]),
        ("[{name: amd.com/*}]", [0, 0]),
        ("[{name: cpu}, {name: nvidia.com/*, weight: 3}]", [60, 82]),  # (90 + 3 * 50) / 4, (90 + 3 * 80) / 4
        ("[{name: nvidia.com/*}, {name: nvidia.com/mig-1g.5gb, weight: 3}]", [50, 80]),
        ("[{name: nvidia.com/*, weight: 2}, {name: cpu}, {name: nvidia.com/mig-*}]", [70, 85]),  # the longest: 1
    ],
)
def test_a_wildcard_stands_for_every_extended_resource_that_is_asked_for(resources, expected):
    cluster = cluster_of(
        gpu_node("n0", **{"nvidia.com__mig_1g.5gb": "2"}), gpu_node("n1", **{"nvidia.com__mig_1g.5gb": "5"})
    )
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/mig-1g.5gb": "1"}
    one = pod("p", containers=[{"name": "c", "resources": {"requests": requests}}])
    chosen = profile(f"  scoringStrategy: {{resources: {resources}}}")
    assert decided(cluster, one, chosen).scores["NodeResourcesFit"].tolist() == expected
    plain = decided(cluster, pod("q"), profile("  scoringStrategy: {resources: [{name: nvidia.com/*}, {name: cpu}]}"))
    assert plain.scores["NodeResourcesFit"].tolist() == [90, 90]


def test_balance_may_be_between_devices_and_cores():
    cluster = cluster_of(gpu_node("n0", **{"nvidia.com__gpu": "2"}), gpu_node("n1", **{"nvidia.com__gpu": "10"}))
    one = pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}])
    chosen = profile("  balancedAllocation: {resources: [{name: cpu}, {name: nvidia.com/*}]}")
    # parts 0.1 and 0.5 deviate by 0.2: 50 + (50 + 80 - 100) / 2; 0.1 and 0.1 by nothing: 75
    assert decided(cluster, one, chosen).scores["NodeResourcesBalancedAllocation"].tolist() == [65, 75]


def test_ignored_resources_do_not_limit():
    cluster = cluster_of(node("n0"))
    one = pod("p", containers=[{"name": "c", "resources": {"requests": {"a.com/x": "1"}}}])
    assert decided(cluster, one, profile()).message == "0/1 nodes are available: 1 Insufficient a.com/x."
    for text in ("  ignoredResources: [a.com/x]", "  ignoredResourceGroups: [a.com]"):
        assert decided(cluster, one, profile(text)).best == ["n0"]


def test_added_affinity_is_required_and_preferred_of_every_pod():
    cluster = cluster_of(*(node(f"n{i}", labels={"pool": "ab"[i % 2], "gen": str(i)}) for i in range(4)))
    chosen = profile(
        """
  nodeAffinity:
    addedAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 5
        preference: {matchExpressions: [{key: gen, operator: Gt, values: ["1"]}]}
"""
    )
    said = decided(cluster, pod("p"), chosen)
    assert said.names == ("n0", "n2")
    assert said.scores["NodeAffinity"].tolist() == [0, 200]
    assert said.reasons == {"node(s) didn't match scheduler-enforced node affinity": 2}


def spread_cluster() -> Cluster:
    return cluster_of(
        node("a1", labels={"zone": "a"}), node("a2", labels={"zone": "a"}), node("b1", labels={"zone": "b"})
    )


def test_default_constraints_of_a_list_replace_the_systems():
    cluster = spread_cluster()
    cluster.put_selecting(service("s", app="x"))
    cluster.put_pod(pod("e", labels={"app": "x"}, node="a1"), keep=False)
    one = pod("p", labels={"app": "x"})
    strict = "  podTopologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone, maxSkew: 1, "
    assert decided(cluster, one, profile()).names == ("a1", "a2", "b1")
    assert decided(cluster, one, profile(f"{strict}whenUnsatisfiable: DoNotSchedule}}]}}")).names == ("b1",)
    soft = decided(cluster, one, profile(f"{strict}whenUnsatisfiable: ScheduleAnyway}}]}}"))
    # two domains: ln 4 * 1 rounded is 1 in zone a and 0 in b: 100 * (1 + 0 - s) / 1, times 2
    assert soft.scores["PodTopologySpread"].tolist() == [0, 0, 200]
    none = decided(cluster, one, profile("  podTopologySpread: {defaultingType: List}"))
    assert "PodTopologySpread" not in none.scores
    alone = pod("q", labels={"app": "other"})
    assert decided(cluster, alone, profile(f"{strict}whenUnsatisfiable: DoNotSchedule}}]}}")).names[0] == "a1"


def test_affinity_between_pods_counts_as_the_profile_says():
    cluster = cluster_of(node("n0"), node("n1"))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.put_pod(pod("e", labels={"app": "x"}, node="n1", affinity=near), keep=False)
    one = pod("p", labels={"app": "x"})
    assert decided(cluster, one, profile()).scores["InterPodAffinity"].tolist() == [0, 200]
    for text in ("hardPodAffinityWeight: 0", "ignorePreferredTermsOfExistingPods: true"):
        assert "InterPodAffinity" not in decided(cluster, one, profile(f"  interPodAffinity: {{{text}}}")).scores


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("disabled: [{name: ImageLocality}, {name: NodeResourcesFit}]", {"TaintToleration": 300}),
        ("enabled: [{name: TaintToleration, weight: 7}]", {"TaintToleration": 700, "NodeResourcesFit": 85}),
        ("enabled: [{name: NodeResourcesFit, weight: 2}], disabled: [{name: '*'}]", {"NodeResourcesFit": 170}),
        ("enabled: [{name: TaintToleration}]", {"TaintToleration": 100}),
        ("disabled: [{name: '*'}]", {}),
    ],
)
def test_scores_are_weighted_or_left_out_by_name(plugins, expected):
    cluster = cluster_of(node("n0", cpu=10, memory=1), node("n1", cpu=10, memory=1))
    said = decided(cluster, pod("p", cpu="1"), profile(f"  plugins: {{score: {{{plugins}}}}}"))
    known = {name: int(column[0]) for name, column in said.scores.items()}
    assert {name: known[name] for name in expected} == expected
    if "disabled" in plugins:
        assert not {"ImageLocality", "NodeResourcesFit"} & (set(known) - set(expected))
    if "*" in plugins:
        assert known == expected
    assert isinstance(said.total, np.ndarray)
    assert len(said.best) == 2


@pytest.mark.parametrize(
    ("text", "bound_to"),
    [("", {"p": "n0"}), ("{}", {"p": "n1"}), ("{resources: [amd.com/gpu]}", {"p": "n0"})],
)
def test_accelerators_are_packed_where_the_profile_says_so(text, bound_to):
    packing = {"acceleratorPacking": yaml.safe_load(text)} if text else {}
    world = World(profiles=[{"schedulerName": "tutti", **packing}])
    world.node("n0", gpus=8)
    world.node("n1", gpus=8)
    world.pod("there", gpus=5, node="n1", scheduler="other")
    world.pod("p", gpus=2)
    world.run()
    assert world.where("p") == bound_to
