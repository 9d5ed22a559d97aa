"""What agents write of NUMA zones is read as scheduler-plugins reads it, and what cannot be right is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tutti.api.numa import NodeResourceTopology, NodeTopology, ZoneReport, read_topology
from tutti.kube.decoding import object_decoder

GIB = 2**30


def resource(name: str, available: Any, allocatable: Any = None) -> dict[str, Any]:
    found = {"name": name, "available": available}
    return found if allocatable is None else {**found, "allocatable": allocatable}


def zone(name: str, *resources: dict[str, Any], kind: str = "Node", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "resources": list(resources), **more}


def read(**body: Any) -> NodeTopology:
    """What is read of an object as it comes over the wire."""
    text = msgspec.json.encode({"metadata": {"name": "worker", "uid": "u"}, **body})
    return read_topology(object_decoder(NodeResourceTopology)(text), "topology.node.k8s.io/v1alpha2")


def test_zones_are_read_in_scheduling_units_and_in_order():
    found = read(
        zones=[
            zone("node-1", resource("cpu", "1500m", "4"), costs=[{"name": "node-0", "value": 20}]),
            zone("socket-0", resource("cpu", "99"), kind="Socket"),
            zone(
                "node-0", resource("memory", "1Gi"), costs=[{"name": "node-0", "value": 10}, {"name": "x", "value": 1}]
            ),
            zone("node-75", resource("cpu", "99")),
        ]
    )
    assert found.zones == (
        ZoneReport(0, {"memory": GIB}, {}, {0: 10}),
        ZoneReport(1, {"cpu": 1500}, {"cpu": 4000}, {0: 20}),
    )
    assert not found.problem


# scheduler-plugins, noderesourcetopology/nodeconfig/topologymanager_test.go: what each part says, and in which order.
CONFIGURATIONS = [
    ([], [], ("none", False, 8)),
    (["SingleNUMANodePodLevel"], [], ("single-numa-node", True, 8)),
    (["SingleNUMANodeContainerLevel", "SingleNUMANodePodLevel"], [], ("single-numa-node", False, 8)),
    (["RestrictedPodLevel"], [], ("restricted", True, 8)),
    (["BestEffortContainerLevel"], [], ("best-effort", False, 8)),
    (["Restricted"], [], ("none", False, 8)),
    (["SingleNUMANodePodLevel"], [("topologyManagerPolicy", "restricted")], ("restricted", True, 8)),
    (["SingleNUMANodePodLevel"], [("topologyManagerScope", "container")], ("single-numa-node", False, 8)),
    (["SingleNUMANodePodLevel"], [("topologyManagerScope", "nonsense")], ("single-numa-node", True, 8)),
    (
        [],
        [("topologyManagerPolicy", "single-numa-node"), ("topologyManagerScope", "pod")],
        ("single-numa-node", True, 8),
    ),
    ([], [("topologyManagerMaxNUMANodes", "16")], ("none", False, 16)),
    ([], [("topologyManagerMaxNUMANodes", "1")], ("none", False, 8)),
    ([], [("topologyManagerMaxNUMANodes", "x")], ("none", False, 8)),
    ([], [("topologyManagerMaxNUMANodes", "5000")], ("none", False, 1024)),
    # updateFromAttributes goes through them in order: of what stands there twice, the last counts that it knows
    ([], [("topologyManagerPolicy", "restricted"), ("topologyManagerPolicy", "none")], ("none", False, 8)),
    ([], [("topologyManagerPolicy", "restricted"), ("topologyManagerPolicy", "nonsense")], ("restricted", False, 8)),
    ([], [("topologyManagerScope", "pod"), ("topologyManagerScope", "none")], ("none", True, 8)),
    ([], [("topologyManagerMaxNUMANodes", "16"), ("topologyManagerMaxNUMANodes", "1")], ("none", False, 16)),
]


@pytest.mark.parametrize(("policies", "attributes", "expected"), CONFIGURATIONS)
def test_how_the_kubelet_aligns_is_read_from_policies_and_attributes(policies, attributes, expected):
    found = read(topologyPolicies=policies, attributes=[{"name": name, "value": value} for name, value in attributes])
    assert (found.policy, found.pod_scope, found.max_zones) == expected


def test_which_pods_a_report_knows_and_when_it_was_written():
    fields = [{"manager": "a", "time": "2026-01-01T00:00:00Z"}, {"manager": "b", "time": "2026-01-01T00:01:00Z"}, {}]
    meta = {"name": "worker", "managedFields": fields, "annotations": {"topology.node.k8s.io/fingerprint": "old"}}
    found = read(metadata=meta)
    assert (found.written, found.fingerprint) == (1767225660.0, "old")
    attributes = [
        {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001"},
        {"name": "nodeTopologyPodsFingerprintMethod", "value": "with-exclusive-resources"},
    ]
    found = read(metadata=meta, attributes=attributes)
    assert (found.fingerprint, found.fingerprint_method) == ("pfp0v001", "with-exclusive-resources")


WRONG = [
    ([zone("node-0"), zone("node-0")], "two of them are node-0"),
    ([zone("node-0", resource("cpu", "many"))], "node-0: cpu: 'many' is not a quantity"),
    ([zone("node-0", resource("cpu", "-1"))], "node-0: cpu: '-1' is below zero"),
    ([zone("node-0", resource("cpu", None))], "node-0 cpu: available must be a quantity"),
    ([zone("node-0", resource("cpu", True))], "node-0 cpu: available must be a quantity"),
    ([zone("node-0", {"available": "1"})], "node-0 has a resource without a name"),
    ([zone("node-0", resource("\x1b[2J", "1"))], "is no name of a resource"),
    ([zone("node-0", *(resource(f"a/{i}", "1") for i in range(40)))], "more than 32 resources"),
]


@pytest.mark.parametrize(("zones", "said"), WRONG)
def test_what_cannot_be_right_is_told(zones, said):
    found = read(zones=zones)
    assert said in found.problem
    assert not found.zones
    assert "\x1b" not in found.problem


@pytest.mark.parametrize("zones", [None, 1, "x", {}, [None, 1, "x", []], [{"name": 1, "type": 2}], [zone("node-x")]])
def test_what_is_no_zone_is_left_out(zones):
    assert read(zones=zones, attributes=zones, topologyPolicies=zones) == NodeTopology("worker", "u")
