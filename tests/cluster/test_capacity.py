"""Sums over the nodes of one kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.api.core import Node, NodeSpec, NodeStatus, ObjectMeta
from tutti.api.taints import Taint, Toleration
from tutti.cluster.capacity import allocatable_of_nodes, free_capacity
from tutti.cluster.cluster import Cluster

TAINTS = {
    "": None,
    "not-ready": Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
    "dedicated": Taint("dedicated", "x", "NoSchedule"),
    "soft": Taint("soft", "", "PreferNoSchedule"),
}
NODES = st.lists(
    st.tuples(st.sampled_from("ab"), st.booleans(), st.sampled_from(sorted(TAINTS)), st.integers(0, 8)), max_size=8
)


def cluster_of(nodes: list[tuple[str, bool, str, int]]) -> Cluster:
    cluster = Cluster()
    for number, (kind, cordoned, taint, gpus) in enumerate(nodes):
        found = TAINTS[taint]
        cluster.put_node(
            Node(
                ObjectMeta(name=f"n{number}", labels={"kind": kind}),
                NodeSpec(cordoned, [found] if found else []),
                NodeStatus({"gpu": str(gpus)}),
            )
        )
    return cluster


@given(NODES)
def test_what_nodes_offer_is_the_sum_of_those_that_are_ready_and_take_pods(nodes):
    cluster = cluster_of(nodes)
    column = cluster.nodes.axis.column("gpu")
    fit = [gpus for kind, cordoned, taint, gpus in nodes if kind == "a" and not cordoned and taint != "not-ready"]
    amounts = allocatable_of_nodes(cluster.nodes, [("kind", "a")])
    assert (amounts[column] if column < len(amounts) else 0) == sum(fit)


@given(NODES, st.booleans(), st.booleans())
def test_what_is_free_leaves_out_taints_that_are_not_the_flavors(nodes, own, tolerated):
    cluster = cluster_of(nodes)
    column = cluster.nodes.axis.column("gpu")
    taint = TAINTS["dedicated"]
    assert taint is not None
    room = free_capacity(
        cluster.nodes,
        [("kind", "a")],
        [taint] if own else [],
        [Toleration("dedicated", "Exists")] if tolerated else [],
    )
    shut = {"not-ready"} if own or tolerated else {"not-ready", "dedicated"}
    fit = [gpus for kind, cordoned, what, gpus in nodes if kind == "a" and not cordoned and what not in shut]
    assert (room.total[column] if column < len(room.total) else 0) == sum(fit)
    assert (room.most[column] if column < len(room.most) else 0) == max(fit, default=0)


def test_a_label_that_no_node_has_offers_nothing():
    cluster = cluster_of([("a", False, "", 8)])
    assert not allocatable_of_nodes(cluster.nodes, [("kind", "z")]).any()
    assert not allocatable_of_nodes(cluster.nodes, [("other", "a")]).any()


def test_supply_grows_when_it_changes_and_only_then():
    cluster = cluster_of([("a", False, "", 8)])
    before = cluster.nodes.supply
    same = Node(ObjectMeta(name="n0", labels={"kind": "a"}), NodeSpec(), NodeStatus({"gpu": "8"}))
    cluster.put_node(same)
    assert cluster.nodes.supply == before
    cluster.put_node(Node(ObjectMeta(name="n0", labels={"kind": "a"}), NodeSpec(), NodeStatus({"gpu": "7"})))
    cluster.put_node(Node(ObjectMeta(name="n0", labels={"kind": "a"}), NodeSpec(True), NodeStatus({"gpu": "7"})))
    cluster.remove_node("n0")
    assert cluster.nodes.supply == before + 3
