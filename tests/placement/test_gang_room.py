"""How many pods fit, which of them are placed, and what is said when they do not fit.

Messages: kube-scheduler 1.36, framework/types.go (FitError): reasons with their counts, sorted as strings.
"""

from __future__ import annotations

import pytest

from tests.placement.scenes import node, pod, with_packing
from tutti.cluster.cluster import Cluster
from tutti.placement.diagnosis import FitError, diagnose
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.node_resources import AllocationScore
from tutti.placement.profile import DEFAULT_PROFILE, Profile


def cluster_of(*nodes) -> Cluster:
    cluster = Cluster()
    for one in nodes:
        cluster.put_node(one)
    return cluster


def counts(cluster: Cluster, ask: Ask, profile: Profile = DEFAULT_PROFILE) -> dict[str, int] | None:
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, ask, profile)
    if rows is None:
        return None
    names = [cluster.nodes.names[row] for row in rows]
    return {name: names.count(name) for name in sorted(set(names))}


def why_not(cluster: Cluster, ask: Ask) -> FitError:
    return diagnose(cluster.nodes, ask, DEFAULT_PROFILE)


def pod_class(cluster: Cluster, **spec):
    return cluster.classes.of(pod("p", **spec).spec, "default")


def test_a_gang_fits_whole_or_not_at_all():
    cluster = cluster_of(node("a", cpu=2), node("b", cpu=3))
    one = pod_class(cluster)
    assert sum(counts(cluster, Ask(one, 5)).values()) == 5
    before = cluster.nodes.requested.copy()
    assert counts(cluster, Ask(one, 6)) is None
    assert (cluster.nodes.requested == before).all()


def test_extra_pods_are_placed_where_there_is_room():
    cluster = cluster_of(node("a", cpu=2), node("b", cpu=3))
    one = pod_class(cluster)
    assert sum(counts(cluster, Ask(one, 2, 1)).values()) == 3
    assert sum(counts(cluster, Ask(one, 2, 9)).values()) == 5
    assert counts(cluster, Ask(one, 0, 0)) == {}


@pytest.mark.parametrize(
    ("offer", "fits"),
    [({"cpu": 3}, 3), ({"cpu": 9, "pods": 4}, 4), ({"cpu": 9, "pods": 0}, 0), ({"cpu": 0}, 0)],
)
def test_what_runs_short_first_limits_how_many_fit(offer, fits):
    cluster = cluster_of(node("a", **offer))
    assert sum(counts(cluster, Ask(pod_class(cluster), 0, 100)).values()) == fits


def test_a_resource_that_is_not_asked_for_never_limits():
    cluster = cluster_of(node("a", cpu=1))
    cluster.put_pod(pod("full", node="a", cpu="5"), keep=False)  # more than there is
    assert counts(cluster, Ask(pod_class(cluster, cpu=""), 2)) == {"a": 2}
    assert counts(cluster, Ask(pod_class(cluster), 1)) is None


def test_the_emptiest_nodes_or_the_fullest_ones_are_filled():
    cluster = cluster_of(node("a", cpu=4), node("b", cpu=4))
    cluster.put_pod(pod("there", node="a", cpu="2"), keep=False)
    one = pod_class(cluster)
    assert counts(cluster, Ask(one, 2)) == {"b": 2}
    assert counts(cluster, Ask(one, 4)) == {"a": 1, "b": 3}
    assert counts(cluster, Ask(one, 2), with_packing(AllocationScore(most=True))) == {"a": 2}
    assert counts(cluster, Ask(one, 3), with_packing(AllocationScore(most=True))) == {"a": 2, "b": 1}


def test_a_message_counts_every_node_under_the_first_reason_that_rules_it_out():
    cluster = cluster_of(
        node("cordoned", unschedulable=True, taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("elsewhere"),
        node("full", cpu=1, labels={"disk": "ssd"}),
        node("small", cpu=1, pods=0, labels={"disk": "ssd"}),
    )
    cluster.put_pod(pod("there", node="full", cpu="1"), keep=False)
    why = why_not(cluster, Ask(pod_class(cluster, nodeSelector={"disk": "ssd"}), 1))
    assert why.message == (
        "0/5 nodes are available: 1 Insufficient cpu, 1 Too many pods, "
        "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable."
    )
    assert (why.fits, why.wanted, why.never) == (0, 1, "")
    assert why.details["Insufficient cpu"] == "1"


def test_a_node_lacks_everything_that_it_lacks():
    cluster = cluster_of(node("a", cpu=1, memory=1))
    resources = {"requests": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}}
    one = pod_class(cluster, containers=[{"name": "c", "resources": resources}])
    why = why_not(cluster, Ask(one, 1))
    assert why.message == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Insufficient nvidia.com/gpu."
    )


def test_a_gang_that_fits_in_part_is_told_how_much_of_it_fits():
    cluster = cluster_of(node("a", cpu=2), node("b", cpu=1), node("c", cpu=0))
    why = why_not(cluster, Ask(pod_class(cluster), 4))
    assert (why.fits, why.wanted) == (3, 4)
    assert "2 node(s) with room for only 3 of 4 pods of the gang" in why.message


def test_what_no_node_could_ever_give_is_named():
    cluster = cluster_of(node("a", cpu=2), node("b", cpu=8))
    assert why_not(cluster, Ask(pod_class(cluster, cpu="9"), 1)).never == (
        "A pod asks for 9 cpu; the largest node offers 8: ask for less, or add larger nodes"
    )
    assert why_not(cluster, Ask(pod_class(cluster, cpu="8"), 3)).never == ""


def test_without_nodes_there_is_one_thing_to_say():
    cluster = Cluster()
    assert why_not(cluster, Ask(pod_class(cluster), 1)).message == "no nodes available to schedule pods"


def test_a_pod_that_cannot_be_read_says_so_instead():
    cluster = cluster_of(node("a"))
    why = why_not(cluster, Ask(pod_class(cluster, cpu="targets"), 1))
    assert "'targets' is not a quantity" in why.message
    assert why.never == why.message
