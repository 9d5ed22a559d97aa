"""Pods with volumes are placed at once as they would be one after another, and by rules worked out node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, pod
from tests.placement.single_decision import decide
from tests.placement.storage import HOSTNAME, ZONE, at, claim, csi_node, storage_class, using, volume
from tutti.api.storage import PersistentVolume
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE

EVERYWHERE: dict[str, Any] = {}
WHERES = [
    None,
    at(HOSTNAME, "n0"),
    at(HOSTNAME, "n1", "n2"),
    at(ZONE, "a"),
    at(ZONE, "b", "c"),
    {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}]}},
    {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n0"]}]},
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n2"]}]},
            ]
        }
    },
]
SIZES = ["1Gi", "2Gi", "3Gi"]


@st.composite
def stores(draw: st.DrawFn) -> Cluster:
    """A few nodes, a class whose volumes are made in some zones or not at all, and free volumes here and there."""
    cluster = Cluster()
    for i in range(draw(st.integers(1, 4))):
        labels = {ZONE: draw(st.sampled_from("abc"))}
        cluster.put_node(node(f"n{i}", cpu=draw(st.integers(1, 6)), labels=labels, pods=10))
        limit = draw(st.sampled_from([None, 0, 1, 2, 5]))
        cluster.put_storage(csi_node(f"n{i}", csi_example_com=limit, kubernetes_io_no_provisioner=None))
    topologies = draw(st.sampled_from([(), ({ZONE: ["a"]},), ({ZONE: ["b", "c"]},)]))
    provisioner = draw(st.sampled_from(["csi.example.com", "kubernetes.io/no-provisioner"]))
    cluster.put_storage(storage_class(provisioner=provisioner, topologies=topologies))
    for i in range(draw(st.integers(0, 7))):
        where, size = draw(st.sampled_from(WHERES)), draw(st.sampled_from(SIZES))
        cluster.put_storage(volume(f"v{i}", size=size, where=where))
    for i in range(draw(st.integers(0, 3))):
        where = draw(st.sampled_from(sorted(cluster.nodes.rows)))
        cluster.put_storage(claim(f"used{i}", volume=f"u{i}"))
        cluster.put_storage(volume(f"u{i}", driver="csi.example.com", claim=f"used{i}", phase="Bound"))
        cluster.put_pod(pod(f"e{i}", node=where, cpu="", **using(f"used{i}")), keep=False)
    return cluster


def members(cluster: Cluster, count: int, sizes: list[str]) -> PodClass:
    """Waiting pods, each with claims of its own of these sizes."""
    for i in range(count):
        for j, size in enumerate(sizes):
            cluster.put_storage(claim(f"m{i}-d{j}", size=size))
        cluster.put_pod(pod(f"m{i}", **using(*(f"m{i}-d{j}" for j in range(len(sizes))))), keep=True)
    classes = {id(cluster.pods["default", f"m{i}"].pod_class) for i in range(count)}
    assert len(classes) == 1
    return cluster.pods["default", "m0"].pod_class


def trace(cluster: Cluster) -> Any:
    volumes = cluster.nodes.volumes
    taken = [name for name in volumes.book.volumes if volumes.pledges.is_taken(name)]
    counts = [volumes.attachments.count(name, "csi.example.com") for name in cluster.nodes.rows]
    return taken, counts, cluster.nodes.requested.copy().tolist()


@examples(300)
@given(stores(), st.integers(1, 6), st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
def test_equal_pods_with_volumes_go_where_sequential_decisions_put_them(cluster, count, sizes):
    pod_class = members(cluster, count, sizes)
    before = trace(cluster)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), DEFAULT_PROFILE)
        at_once = sorted(rows.tolist())
    with cluster.transaction() as transaction:
        whole = place_ask(cluster.nodes, transaction, Ask(pod_class, count), DEFAULT_PROFILE)
    assert trace(cluster) == before

    one_by_one: list[int] = []
    for i in range(count):
        record = cluster.pods["default", f"m{i}"]
        decision = decide(record.pod_class, cluster.nodes)
        if not len(decision.rows):
            break
        best = int(decision.rows[int(np.argmax(decision.total))]) if len(decision.total) else int(decision.rows[0])
        with cluster.transaction() as transaction:
            rows = place_ask(cluster.nodes, transaction, Ask(record.pod_class, 1), DEFAULT_PROFILE)
            assert rows.tolist() == [best]
            transaction.commit()
        cluster.assume(record, best)
        one_by_one.append(best)

    assert at_once == sorted(one_by_one)
    assert (whole is None) == (len(one_by_one) < count)
    for i in range(len(one_by_one)):
        cluster.forget(cluster.pods["default", f"m{i}"])
    assert trace(cluster) == before
    assert {id(cluster.pods["default", f"m{i}"].pod_class) for i in range(count)} == {id(pod_class)}


@examples(300)
@given(stores(), st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
def test_nodes_are_found_as_they_would_be_one_at_a_time(cluster, sizes):
    pod_class = members(cluster, 1, sizes)
    decision = decide(pod_class, cluster.nodes)
    for name, row in cluster.nodes.rows.items():
        fits = _limit_of(cluster, name) >= len(sizes) and _binds(cluster, name, sizes) and _has_cpu(cluster, row)
        assert (row in decision.rows.tolist()) == fits


def _has_cpu(cluster: Cluster, row: int) -> bool:
    return bool(cluster.nodes.allocatable[row, 0] >= 1000 + cluster.nodes.requested[row, 0])


def _limit_of(cluster: Cluster, name: str) -> int:
    """How many more volumes of the class's provisioner a node takes."""
    provisioner = cluster.nodes.volumes.book.classes["late"].provisioner
    limit = cluster.nodes.volumes.attachments.limits(name).get(provisioner, 100)
    return limit - cluster.nodes.volumes.attachments.count(name, provisioner)


def _binds(cluster: Cluster, name: str, sizes: list[str]) -> bool:
    """plugins/volumebinding/binder.go for one node: volumes by size, what is left must be made."""
    book = cluster.nodes.volumes.book
    labels = cluster.nodes.labels[cluster.nodes.rows[name]]
    free = [v for v in book.volumes.values() if v.spec.claim_ref is None and _reaches(v, labels, name)]
    left = 0
    for size in sorted(sizes):
        fitting = [v for v in free if v.size >= int(size[0]) << 30]
        if fitting:
            free.remove(min(fitting, key=lambda v: v.size))
        else:
            left += 1
    late = book.classes["late"]
    zones = [one.values for term in late.allowed_topologies for one in term.match_label_expressions]
    makes = late.provisions and (not zones or labels[ZONE] in zones[0])
    return not left or makes


def _reaches(one: PersistentVolume, labels: Any, name: str) -> bool:
    affinity = one.spec.node_affinity
    return affinity is None or affinity.required is None or affinity.required.matches(labels, name)


def late_cluster(*, topologies: Any = ()) -> Cluster:
    cluster = Cluster()
    for i, zone in enumerate("aab"):
        cluster.put_node(node(f"n{i}", cpu=2, labels={ZONE: zone}))
    cluster.put_storage(storage_class(topologies=topologies))
    return cluster


def test_members_with_claims_of_their_own_are_of_one_class():
    cluster = late_cluster()
    for i in range(3):
        cluster.put_storage(claim(f"data-{i}"))
        cluster.put_storage(claim(f"e{i}-scratch", owner=f"uid-default-e{i}"))
    named = [cluster.put_pod(pod(f"p{i}", **using(f"data-{i}")), keep=True) for i in range(3)]
    made = [cluster.put_pod(pod(f"e{i}", **using(scratch={})), keep=True) for i in range(3)]

    assert len({id(record.pod_class) for record in (*named, *made)}) == 1

    cluster.put_storage(claim("data-1", size="2Gi"))
    assert named[0].pod_class is named[2].pod_class
    assert named[1].pod_class is not named[0].pod_class


def test_bound_volumes_in_one_zone_leave_one_class():
    cluster = late_cluster()
    for i in range(3):
        cluster.put_storage(volume(f"v{i}", where=at(ZONE, "a"), driver="csi.example.com"))
        cluster.put_storage(claim(f"d{i}", volume=f"v{i}"))
    records = [cluster.put_pod(pod(f"p{i}", **using(f"d{i}")), keep=True) for i in range(3)]
    assert len({id(record.pod_class) for record in records}) == 1

    cluster.put_storage(volume("v1", where=at(ZONE, "b"), driver="csi.example.com"))

    assert records[1].pod_class is not records[0].pod_class


def test_pods_are_classed_anew_as_their_claims_come():
    cluster = late_cluster()
    record = cluster.put_pod(pod("p", **using("d")), keep=True)
    assert "not found" in record.pod_class.refusal
    freed = cluster.freed.count

    assert cluster.put_storage(claim("d")) == [("default", "p")]

    assert not record.pod_class.refusal
    assert cluster.freed.count > freed
    cluster.drop_storage("PersistentVolumeClaim", "default", "d")
    assert "not found" in record.pod_class.refusal
    cluster.put_storage(claim("d"))
    cluster.drop_storage("StorageClass", "", "late")
    assert record.pod_class.refusal == "pod has unbound immediate PersistentVolumeClaims"


def test_a_claim_that_a_gang_shares_is_decided_by_its_first_pod_and_keeps_no_other_away():
    cluster = late_cluster(topologies=({ZONE: ["a"]},))
    cluster.put_storage(claim("shared", modes=("ReadWriteMany",)))
    records = [cluster.put_pod(pod(f"p{i}", **using("shared")), keep=True) for i in range(3)]
    other = cluster.put_pod(pod("other", **using("shared")), keep=True)
    pod_class = records[0].pod_class
    assert all(record.pod_class is pod_class for record in (*records, other))

    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 3), DEFAULT_PROFILE)
        assert sorted(set(rows.tolist())) == [0, 1]
        transaction.commit()
    cluster.assume_all(records, rows.tolist())

    pledge = cluster.nodes.volumes.pledges.of(("default", "shared"))
    assert pledge.node == cluster.nodes.names[rows[0]]
    assert list(pledge.pods) == [record.key for record in records]
    assert decide(other.pod_class, cluster.nodes).rows.tolist() in ([], [cluster.nodes.rows[pledge.node]])
    for record in records:
        cluster.forget(record)
    assert cluster.nodes.volumes.pledges.of(("default", "shared")) is None
    assert other.pod_class is pod_class


def test_a_free_volume_that_a_gang_shares_is_taken_once():
    cluster = late_cluster(topologies=({ZONE: ["nowhere"]},))
    cluster.put_storage(volume("v0", where=at(ZONE, "a"), modes=("ReadWriteMany",)))
    cluster.put_storage(volume("v1", where=at(ZONE, "b"), modes=("ReadWriteMany",), size="2Gi"))
    cluster.put_storage(claim("shared", modes=("ReadWriteMany",)))
    records = [cluster.put_pod(pod(f"p{i}", **using("shared")), keep=True) for i in range(4)]
    pod_class = records[0].pod_class

    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 5), DEFAULT_PROFILE) is None
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 2), DEFAULT_PROFILE)
        more = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, 2), DEFAULT_PROFILE)
        transaction.commit()
    where = [*rows.tolist(), *more.tolist()]
    cluster.assume_all(records[: len(where)], where)

    volumes = cluster.nodes.volumes
    pledge = volumes.pledges.of(("default", "shared"))
    reach = {0, 1} if pledge.volume == "v0" else {2}
    assert set(where) <= reach
    assert [name for name in ("v0", "v1") if volumes.pledges.is_taken(name)] == [pledge.volume]


def test_a_volume_that_one_gang_is_to_get_is_none_for_another():
    cluster = late_cluster()
    cluster.put_storage(storage_class(provisioner="kubernetes.io/no-provisioner"))
    cluster.put_storage(volume("v", where=at(HOSTNAME, "n2")))
    for name in ("x", "y"):
        cluster.put_storage(claim(name))
    first, second = (cluster.put_pod(pod(f"p-{name}", **using(name)), keep=True) for name in ("x", "y"))

    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(first.pod_class, 1), DEFAULT_PROFILE)
        transaction.commit()
    cluster.assume(first, rows[0])
    assert decide(second.pod_class, cluster.nodes).rows.tolist() == []

    cluster.forget(first)
    assert decide(second.pod_class, cluster.nodes).rows.tolist() == [2]
