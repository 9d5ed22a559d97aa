"""Features that nodes declare and pods need."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.placement.scenes import node, pod
from tests.placement.test_plugin_rules import cluster_of, decided

RESTARTS = {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}
INIT_RESTARTS = {"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}


# component-helpers/nodedeclaredfeatures/features, 1.36: what each registered feature infers from a pod's spec.
@pytest.mark.parametrize(
    ("spec", "feature"),
    [
        ({}, ""),
        (RESTARTS, "RestartAllContainersOnContainerExits"),
        (INIT_RESTARTS, "RestartAllContainersOnContainerExits"),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ""),
        ({"hostNetwork": True, "hostUsers": False}, "UserNamespacesHostNetworkSupport"),
        ({"hostNetwork": True, "hostUsers": True}, ""),
        ({"hostNetwork": True}, ""),
        ({"hostUsers": False}, ""),
    ],
)
def test_a_node_must_declare_what_a_pod_takes_for_granted(spec, feature):
    declaring = msgspec.structs.replace(node("new"), status=declared(feature or "SomethingElse"))
    cluster = cluster_of(node("old"), declaring)

    decision = decided(cluster, pod("p", **spec))

    assert decision.rows.tolist() == ([1] if feature else [0, 1])
    expected = {"node(s) didn't match Pod's required features": 1} if feature else {}
    assert decision.reasons == expected
    assert decision.final.tolist() == [bool(feature), False]


def declared(*features: str) -> Any:
    return msgspec.structs.replace(node("n").status, declared_features=list(features))


def test_a_node_that_comes_to_declare_a_feature_is_seen_to():
    cluster = cluster_of(node("n"))
    one = pod("p", hostNetwork=True, hostUsers=False)
    assert decided(cluster, one).rows.tolist() == []
    freed = cluster.freed.count

    cluster.put_node(msgspec.structs.replace(node("n"), status=declared("UserNamespacesHostNetworkSupport")))

    assert decided(cluster, one).rows.tolist() == [0]
    assert cluster.freed.count > freed


def test_a_node_counts_for_its_features_only_where_nothing_else_rules_it_out():
    cluster = cluster_of(node("full", cpu=1), node("free"))

    decision = decided(cluster, pod("p", cpu="2", hostNetwork=True, hostUsers=False))

    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's required features."
    )
