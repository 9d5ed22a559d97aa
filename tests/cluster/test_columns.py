"""Columns exist for what nodes offer; whatever else pods name costs nothing, and is had nowhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tutti.api.core import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.cluster.cluster import Cluster
from tutti.cluster.columns import FIRST_RESOURCES, UNKNOWN_RESOURCE
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.node_resources import NodeResourcesFit

NAMES = [f"example.com/{number}" for number in range(5)]


def pod(name: str, node: str = "", **asks: str) -> Pod:
    container = Container("c", resources=ResourceRequirements({"cpu": "1", **asks}))
    return Pod(ObjectMeta(name=name, namespace="a", uid=name), PodSpec(node_name=node, containers=[container]))


def node(name: str, **offers: str) -> Node:
    return Node(ObjectMeta(name=name), status=NodeStatus({"cpu": "8", "pods": "10", **offers}))


def test_a_name_that_no_node_offers_makes_no_column():
    cluster = Cluster()
    cluster.put_node(node("n1"))
    record = cluster.put_pod(pod("p", **{f"example.com/{at}": "1" for at in range(1_000)}), keep=True)
    assert record is not None
    cluster.put_pod(pod("q", "n1", **{f"example.com/{at}": "9E" for at in range(1_000)}), keep=True)
    nodes = cluster.nodes
    assert nodes.vector(record.pod_class.requests).tolist() == [1000, 0, 0, 1, 1000]
    assert nodes.allocatable.shape == nodes.requested.shape == (1, len(FIRST_RESOURCES) + 1)
    assert nodes.requested[0, UNKNOWN_RESOURCE] == 1_000
    fit = NodeResourcesFit()
    assert fit.capacity(nodes, record.pod_class, nodes.present).tolist() == [0]
    (first, *_), rejections = NAMES, fit.pre_filter(record.pod_class, nodes, NO_FLAVOR).rejections()
    assert [one.reason for one in rejections[1:3]] == [f"Insufficient {first}", "Insufficient example.com/1"]
    assert all(one.final is True for one in rejections[1:-1])


def test_what_is_taken_of_a_resource_is_counted_once_a_node_offers_it():
    cluster = Cluster()
    cluster.put_node(node("n1"))
    cluster.put_pod(pod("p", "n1", **{NAMES[0]: "3", NAMES[1]: "1"}), keep=True)
    cluster.put_pod(pod("elsewhere", "n2", **{NAMES[0]: "2"}), keep=True)
    cluster.put_node(node("n2", **{NAMES[0]: "4"}))
    nodes, column = cluster.nodes, cluster.nodes.resource_index.column(NAMES[0])
    assert nodes.requested[:, column].tolist() == [3, 2]
    assert nodes.requested[:, UNKNOWN_RESOURCE].tolist() == [1, 0]
    assert (nodes.requested == recounted(cluster)).all()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["node", "node gone", "pod", "pod gone"]),
        st.sampled_from(["n1", "n2"]),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1", "7", "1E"]), max_size=3),
    ),
    max_size=25,
)


@given(STEPS)
def test_what_is_taken_adds_up_whatever_is_offered_first(steps):
    cluster, offered = Cluster(), set[str]()
    for what, where, number, amounts in steps:
        if what == "node":
            cluster.put_node(node(where, **amounts))
            offered.update(amounts)
        elif what == "node gone":
            cluster.remove_node(where)
        elif what == "pod":
            cluster.put_pod(pod(f"p{number}", where, **amounts), keep=True)
        else:
            cluster.remove_pod(("a", f"p{number}"))
        assert (cluster.nodes.requested == recounted(cluster)).all()
        assert set(cluster.nodes.resource_index.names) == {*FIRST_RESOURCES, "", *offered}
