"""Which nodes a pod may go to, by what it says and what they say.

Rules: Kubernetes 1.36, plugins nodeunschedulable, tainttoleration and nodeaffinity, and the API's documentation of
node selectors: an absent label satisfies NotIn and DoesNotExist; an empty term matches nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.placement.scenes import node, pod
from tutti.api.core import Node
from tutti.api.selectors import NodeSelectorRequirement, NodeSelectorTerm, Toleration
from tutti.cluster.cluster import Cluster
from tutti.placement.diagnosis import diagnose
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.node_affinity import CONFLICT
from tutti.placement.profile import DEFAULT_PROFILE

NODES = [
    node("plain"),
    node("ssd", labels={"disk": "ssd", "gen": "4"}),
    node("hdd", labels={"disk": "hdd", "gen": "2"}),
    node("odd", labels={"gen": "four"}),
]


def may_go(nodes: list[Node], where: FlavorConstraints = NO_FLAVOR, **spec: Any) -> set[str]:
    cluster = Cluster()
    for one in nodes:
        cluster.put_node(one)
    pod_class = cluster.classes.of(pod("p", **spec).spec, "default")
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, 1000, where), DEFAULT_PROFILE)
    assert rows is not None
    return {cluster.nodes.names[row] for row in rows}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def labels(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


def fields(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchFields": list(expressions)}


ALL = {"plain", "ssd", "hdd", "odd"}
AFFINITY = {
    "In": (labels(expression("disk", "In", "ssd", "nvme")), {"ssd"}),
    "In of nothing": (labels(expression("disk", "In")), set()),
    "NotIn": (labels(expression("disk", "NotIn", "ssd")), {"plain", "hdd", "odd"}),
    "Exists": (labels(expression("disk", "Exists")), {"ssd", "hdd"}),
    "DoesNotExist": (labels(expression("disk", "DoesNotExist")), {"plain", "odd"}),
    "Gt": (labels(expression("gen", "Gt", "3")), {"ssd"}),
    "Gt itself": (labels(expression("gen", "Gt", "4")), set()),
    "Lt": (labels(expression("gen", "Lt", "3")), {"hdd"}),
    "Gt of no number": (labels(expression("gen", "Gt", "three")), set()),
    "an unknown operator": (labels(expression("disk", "Near", "ssd")), set()),
    "a label nobody has": (labels(expression("nowhere", "NotIn", "x")), ALL),
    "expressions of a term all hold": (
        labels(expression("disk", "Exists"), expression("gen", "Lt", "3")),
        {"hdd"},
    ),
    "an empty term": ({}, set()),
    "a name": (fields(expression("metadata.name", "In", "hdd")), {"hdd"}),
    "not a name": (fields(expression("metadata.name", "NotIn", "hdd")), ALL - {"hdd"}),
    "a name nobody has": (fields(expression("metadata.name", "In", "gone")), set()),
    "a field that is not the name": (fields(expression("metadata.uid", "NotIn", "x")), set()),
    "a name and a label": (
        {**fields(expression("metadata.name", "In", "hdd", "ssd")), **labels(expression("gen", "Gt", "3"))},
        {"ssd"},
    ),
}


MOST, MORE = "9223372036854775807", "9223372036854775808"


@pytest.mark.parametrize(
    ("compared", "nodes"),
    [
        (expression("gen", "Gt", "4"), {"most", "zeros"}),
        (expression("gen", "Gt", "007"), {"most"}),
        (expression("gen", "Lt", MOST), {"zeros"}),
        (expression("gen", "Gt", MOST), set()),
        (expression("gen", "Lt", MORE), set()),
        (expression("gen", "Gt", "1_0"), set()),
    ],
)
def test_numbers_are_compared_as_far_as_64_bits_hold_them(compared, nodes):
    """Source: kubernetes apimachinery/pkg/labels/selector.go (1.36): strconv.ParseInt of both sides, or no match."""
    gens = {"most": MOST, "more": MORE, "zeros": "007", "line": "1_0", "hex": "0x10", "point": "9.5", "none": ""}
    assert (
        may_go([node(name, labels={"gen": gen}) for name, gen in gens.items()], **required(labels(compared))) == nodes
    )
    selector = NodeSelectorTerm(match_expressions=[msgspec.convert(compared, NodeSelectorRequirement)])
    assert {name for name, gen in gens.items() if selector.matches({"gen": gen}, name)} == nodes


@pytest.mark.parametrize(("term", "nodes"), AFFINITY.values(), ids=AFFINITY.keys())
def test_required_node_affinity(term, nodes):
    assert may_go(NODES, **required(term)) == nodes


def test_one_of_the_terms_is_enough():
    terms = labels(expression("disk", "In", "ssd")), labels(expression("gen", "Lt", "3"))
    assert may_go(NODES, **required(*terms)) == {"ssd", "hdd"}


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ([("a", "b")], CONFLICT),
        ([("a", "b"), ("b", "c")], CONFLICT),
        ([("gone",)], "2 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        ([("a", "b"), ("gone",)], "2 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    ],
)
def test_terms_that_name_two_nodes_at_once_are_said_to_conflict(terms, said):
    """Source: kubernetes pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go (1.36), PreFilter."""
    cluster = Cluster()
    cluster.put_node(node("a"))
    cluster.put_node(node("b"))
    named = [fields(*(expression("metadata.name", "In", name) for name in term)) for term in terms]
    pod_class = cluster.classes.of(pod("p", **required(*named)).spec, "default")
    assert diagnose(cluster.nodes, Ask(pod_class, 0, 1), DEFAULT_PROFILE).message == f"0/2 nodes are available: {said}."


def test_no_terms_match_nothing():
    assert may_go(NODES, **required()) == set()


def test_the_node_selector_and_the_affinity_must_both_hold():
    assert may_go(NODES, nodeSelector={"disk": "ssd"}) == {"ssd"}
    assert may_go(NODES, nodeSelector={"disk": "ssd", "gen": "2"}) == set()
    assert may_go(NODES, nodeSelector={"disk": "ssd"}, **required(labels(expression("gen", "Lt", "3")))) == set()


def tainted(effect: str, key: str = "k", value: str = "v") -> Node:
    return node("tainted", taints=[{"key": key, "value": value, "effect": effect}])


@pytest.mark.parametrize(
    ("tolerations", "effects"),
    [
        ([], set()),
        ([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}], {"NoSchedule"}),
        ([{"key": "k", "value": "v"}], {"NoSchedule", "NoExecute"}),
        ([{"key": "k", "value": "other"}], set()),
        ([{"key": "k", "operator": "Exists"}], {"NoSchedule", "NoExecute"}),
        ([{"key": "other", "operator": "Exists"}], set()),
        ([{"operator": "Exists"}], {"NoSchedule", "NoExecute"}),
        ([{"operator": "Exists", "effect": "NoExecute"}], {"NoExecute"}),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}], {"NoExecute"}),
    ],
)
def test_a_taint_keeps_out_whoever_does_not_tolerate_it(tolerations, effects):
    for effect in ("NoSchedule", "NoExecute"):
        allowed = may_go([tainted(effect)], tolerations=tolerations) == {"tainted"}
        assert allowed == (effect in effects), effect
    assert may_go([tainted("PreferNoSchedule")], tolerations=tolerations) == {"tainted"}


def test_every_taint_must_be_tolerated():
    both = node("both", taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}])
    assert may_go([both], tolerations=[{"key": "a", "operator": "Exists"}]) == set()
    exists = [{"key": key, "operator": "Exists"} for key in "ab"]
    assert may_go([both], tolerations=exists) == {"both"}


def test_a_cordoned_node_takes_only_who_tolerates_that():
    cordoned = node("cordoned", unschedulable=True)
    assert may_go([cordoned]) == set()
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    assert may_go([cordoned], tolerations=[toleration]) == {"cordoned"}


def test_a_flavor_keeps_its_pods_on_its_nodes_and_helps_them_past_its_taints():
    nodes = [*NODES, node("spot", labels={"disk": "ssd"}, taints=[{"key": "spot", "effect": "NoSchedule"}])]
    assert may_go(nodes, FlavorConstraints((("disk", "ssd"),))) == {"ssd"}
    assert may_go(nodes, FlavorConstraints((("disk", "ssd"),), (Toleration("spot", "Exists"),))) == {"ssd", "spot"}


def test_what_was_found_out_of_a_class_is_found_out_anew_when_nodes_change():
    cluster = Cluster()
    cluster.put_node(node("n"))
    pod_class = cluster.classes.of(pod("p", nodeSelector={"disk": "ssd"}).spec, "default")

    def fits() -> bool:
        with cluster.transaction() as transaction:
            return place_ask(cluster.nodes, transaction, Ask(pod_class, 1), DEFAULT_PROFILE) is not None

    assert not fits()
    cluster.put_node(node("n", labels={"disk": "ssd"}))
    assert fits()
    cluster.put_node(node("n", labels={"disk": "ssd"}, unschedulable=True))
    assert not fits()
    cluster.remove_node("n")
    cluster.put_node(node("m", labels={"disk": "ssd"}))
    assert fits()
