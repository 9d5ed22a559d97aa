"""A pod that is seen again, changed in whatever it may be changed in, is what it is to whoever sees it only now.

Nearly every pod is seen again as it was, but for its node. What is passed over for that must not be passed over where a
spec, a label or an annotation is another, whatever its generation says: servers before 1.33 do not count it.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tutti.api.configuration import TuttiConfiguration
from tutti.api.conventions.order_annotations import EXPECTED_SECONDS
from tutti.api.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
    TopologySpreadConstraint,
)
from tutti.api.kinds.consolidation import MOVABLE_ANNOTATION
from tutti.api.selectors import LabelSelector, Toleration
from tutti.cluster.signatures import PodQuery
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.gang_membership import GATE_ANNOTATION, SAFE_TO_EVICT
from tutti.engine.records.observations import NodeSeen, PodSeen

ZONE = "topology.kubernetes.io/zone"
GANG = "gang-scheduling.preferred.jp/gang-"
KEY = ("default", "p")


def some(values: dict[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(said) for key, said in values.items()})


LABELS = some({"app": ("a", "b"), "tier": ("x",), ZONE: ("z1", "z2")})
ANNOTATIONS = some(
    {
        f"{GANG}name": ("g", "h"),
        f"{GANG}size": ("2", "3"),
        EXPECTED_SECONDS: ("60", "90"),
        GATE_ANNOTATION: ("yes",),
        MOVABLE_ANNOTATION: ("true", "false"),
        SAFE_TO_EVICT: ("false",),
        "nobody-reads": ("this",),
    }
)
SPREAD = TopologySpreadConstraint(ZONE, label_selector=LabelSelector({"app": "a"}))
SPECS = st.builds(
    lambda cpu, **said: PodSpec(
        "tutti", containers=[Container("c", resources=ResourceRequirements({"cpu": cpu}))], **said
    ),
    st.sampled_from(["1", "2", "much"]),
    node_name=st.sampled_from(["", "n1", "n2", "nowhere"]),
    tolerations=st.sampled_from([[], [Toleration("dedicated", "Exists")]]),
    topology_spread_constraints=st.sampled_from([[], [SPREAD]]),
    priority=st.sampled_from([None, 0, 5]),
    preemption_policy=st.sampled_from(["", "Never"]),
    scheduling_gates=st.sampled_from([[], [SchedulingGate("later")]]),
)
QUERIES = [
    PodQuery.of(("default",), LabelSelector({key: value}))
    for key, value in (("app", "a"), ("app", "b"), ("tier", "x"), (ZONE, "z1"), (ZONE, "z2"))
]
OWNER = OwnerReference("apps/v1", "ReplicaSet", "r", "uid-r", controller=True)
PODS = st.builds(
    Pod,
    st.builds(
        lambda **said: ObjectMeta("p", "default", "uid-p", **said),
        generation=st.integers(0, 2),
        labels=LABELS,
        annotations=ANNOTATIONS,
        owner_references=st.sampled_from([[], [OWNER]]),
    ),
    SPECS,
    st.builds(
        PodStatus,
        st.sampled_from(["Pending", "Running"]),
        conditions=st.sampled_from([[], [PodCondition("Ready", "True")]]),
        nominated_node_name=st.sampled_from(["", "n2"]),
    ),
)


def that_saw(*pods: Pod) -> Engine:
    """An engine that knows two nodes, reads all labels, and has seen a pod like this, the last as it is now."""
    engine = Engine(TuttiConfiguration(), {})
    engine.state.cluster.watch_labels(("app", "tier", ZONE))
    for name in ("n1", "n2"):
        engine.observe(NodeSeen(Node(ObjectMeta(name=name), status=NodeStatus({"cpu": "8", "pods": "110"}))))
    for pod in pods:
        engine.observe(PodSeen(pod))
    return engine


def known(engine: Engine) -> dict[str, object]:
    """All that is known of the pod, in values that can be compared."""
    cluster = engine.state.cluster
    member, record = engine.state.members[KEY], cluster.pods[KEY]
    assert member.pod is record
    of_member = (
        "claim problem annotation kept ended never_preempts nominated scale_down marks owned gate movable "
        "plugin_annotations topology hints parsed_from"
    )
    of_record = "node assumed held weight uses device_uses priority generation scheduler phase gated deleting ready lost counted"
    seen = record.pod_signature
    return {
        **{name: getattr(member, name) for name in of_member.split()},
        **{name: getattr(record, name) for name in of_record.split()},
        "class": (record.pod_class.signature, record.pod_class.problem, record.pod_class.labels),
        "seen as": (seen.namespace, dict(seen.labels), seen.inter_pod, seen.holders, seen.key),
        "found by": [int(cluster.nodes.label_index.matching(one, cluster.nodes.namespaces).sum()) for one in QUERIES],
        "filed": engine.state.pod_group_of[KEY],
        "members": [list(group.members) for one in engine.state.workloads.values() for group in one.groups.values()],
    }


@examples(300)
@given(st.lists(PODS, min_size=2, max_size=3))
def test_a_pod_that_is_seen_again_is_what_it_is_now(pods):
    often, once = that_saw(*pods), that_saw(pods[-1])
    assert known(often) == known(once)
    for engine in (often, once):
        np.testing.assert_array_equal(engine.state.cluster.nodes.requested, recounted(engine.state.cluster))
