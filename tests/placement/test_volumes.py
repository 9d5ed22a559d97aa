"""What the volumes of a pod ask of its node, and what nodes say to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.scenes import node
from tests.placement.storage import (
    BETA_ZONE,
    HOSTNAME,
    ZONE,
    at,
    capacity,
    claim,
    csi_driver,
    storage_class,
    using,
    volume,
)
from tests.placement.volume_scenes import cluster_of, said, waiting
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.diagnosis import diagnose
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE

REACH = "node(s) didn't match PersistentVolume's node affinity"
BIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONED = "node(s) had no available volume zone"


# kube-scheduler 1.36, plugins/volumerestrictions (PreFilter), volumebinding (podHasPVCs, GetPodVolumeClaims) and
# volumezone (getPVbyPod): what keeps a pod from any node, in the order in which they look.
@pytest.mark.parametrize(
    ("objects", "spec", "message"),
    [
        ([], using("d"), 'persistentvolumeclaim "d" not found'),
        (
            [],
            using(scratch={}),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
        ),
        (
            [claim("p-scratch", owner="uid-default-other")],
            using(scratch={}),
            "PVC default/p-scratch was not created for pod default/p (pod is not owner)",
        ),
        (
            [claim("d", volume="v", phase="Lost")],
            using("d"),
            'persistentvolumeclaim "d" bound to non-existent persistentvolume "v"',
        ),
        ([claim("d", deleting=True)], using("d"), 'persistentvolumeclaim "d" is being deleted'),
        ([claim("d", storage_class="")], using("d"), "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("d", storage_class="unknown")], using("d"), "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("d", storage_class="now")], using("d"), "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("d", volumeName="v")], using("d"), "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("d", volume="v")], using("d"), 'persistentvolume "v" not found'),
        ([claim("d", deleting=True)], using("d", "gone"), 'persistentvolumeclaim "gone" not found'),
        (
            [claim("d", size="targets")],
            using("d"),
            "persistentvolumeclaim \"d\" asks for 'targets' of storage, which is not",
        ),
    ],
)
def test_what_keeps_a_pod_from_any_node(objects, spec, message):
    cluster = cluster_of(storage_class(), storage_class("now", late=False))

    decision = said(cluster, *objects, **spec)

    assert decision.message.startswith(f"0/2 nodes are available: {message}")
    assert decision.rows.tolist() == []
    assert decision.final.tolist() == [True, True]
    pod_class = waiting(cluster, **spec)
    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 1), DEFAULT_PROFILE) is None
    assert diagnose(cluster.nodes, Ask(pod_class, 1), DEFAULT_PROFILE).message == decision.message


# plugins/volumebinding/binder.go, checkBoundClaims.
def test_a_bound_volume_is_used_where_it_can_be_reached():
    cluster = cluster_of(zones="aab")

    decision = said(cluster, claim("d", volume="v"), volume("v", where=at(ZONE, "b")), **using("d"))

    assert decision.rows.tolist() == [2]
    assert decision.reasons == {REACH: 2}
    assert decision.final.tolist() == [True, True, False]


def test_an_ephemeral_claim_whose_volume_is_gone_rules_out_every_node():
    cluster = cluster_of()

    decision = said(cluster, claim("p-s", volume="v", owner="uid-default-p"), **using(s={}))

    assert decision.reasons == {MISSING: 2}
    assert decision.final.all()


def test_a_claim_goes_to_the_node_that_was_chosen_for_it_before():
    cluster = cluster_of(storage_class(), zones="aab")

    decision = said(cluster, claim("d", selected="n1"), **using("d"))

    assert decision.rows.tolist() == [1]
    assert decision.reasons == {BIND: 2}


@pytest.mark.parametrize(
    ("topologies", "rows"),
    [
        ((), [0, 1, 2]),
        (({ZONE: ["b"]},), [1]),
        (({ZONE: ["b"]}, {ZONE: ["c"]}), [1, 2]),
        (({ZONE: ["b", "c"], HOSTNAME: ["n2"]},), [2]),
        (({},), []),
    ],
)
def test_a_volume_is_made_within_the_topologies_of_its_class(topologies, rows):
    cluster = cluster_of(storage_class(topologies=topologies), zones="abc")

    decision = said(cluster, claim("d"), **using("d"))

    assert decision.rows.tolist() == rows
    assert decision.reasons == ({BIND: 3 - len(rows)} if len(rows) < 3 else {})


# binder.go, hasEnoughCapacity: only for drivers that say so; the maximum volume size goes before the capacity.
@pytest.mark.parametrize(
    ("objects", "rows"),
    [
        ([], [0, 1]),
        ([csi_driver(tracks=False)], [0, 1]),
        ([csi_driver()], []),
        ([csi_driver(), capacity("c", capacity="10Gi", topology={"matchLabels": {ZONE: "a"}})], [0]),
        ([csi_driver(), capacity("c", capacity="4Gi", topology={"matchLabels": {ZONE: "a"}})], []),
        ([csi_driver(), capacity("c", capacity="10Gi")], []),
        ([csi_driver(), capacity("c", topology={})], []),
        ([csi_driver(), capacity("c", capacity="10Gi", topology={})], [0, 1]),
        ([csi_driver(), capacity("c", capacity="10Gi", maximumVolumeSize="4Gi", topology={})], []),
        ([csi_driver(), capacity("c", capacity="10Gi", storage_class="other", topology={})], []),
        (
            [
                csi_driver(),
                capacity("a", capacity="5Gi", topology={"matchLabels": {ZONE: "a"}}),
                capacity(
                    "b",
                    capacity="5Gi",
                    topology={"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
                ),
            ],
            [0, 1],
        ),
    ],
)
def test_a_volume_is_made_where_there_is_space_for_it(objects, rows):
    cluster = cluster_of(storage_class(), *objects)

    decision = said(cluster, claim("d", size="5Gi"), **using("d"))

    assert decision.rows.tolist() == rows
    assert decision.reasons == ({SPACE: 2 - len(rows)} if len(rows) < 2 else {})
    assert decision.final.tolist() == [i not in rows for i in range(2)]


# component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume.
@pytest.mark.parametrize(
    "unfit",
    [
        {"size": "4Gi"},
        {"storage_class": "other"},
        {"phase": "Pending"},
        {"phase": "Released"},
        {"claim": "other"},
        {"modes": ("ReadOnlyMany",)},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "fast"},
        {"labels": {"kind": "slow"}},
        {"deleting": True},
        {"where": at(ZONE, "elsewhere")},
        {"claim": "d", "uid": "uid-of-its-predecessor"},
    ],
)
def test_a_claim_is_bound_only_to_a_volume_that_suits_it(unfit):
    asked = claim("d", size="5Gi", selector={"matchLabels": {"kind": "fast"}})
    suitable: dict[str, Any] = {"size": "5Gi", "labels": {"kind": "fast"}}
    nothing_made = storage_class(provisioner="kubernetes.io/no-provisioner")
    free = cluster_of(nothing_made, volume("v", **suitable))
    assert said(free, asked, **using("d")).rows.tolist() == [0, 1]

    cluster = cluster_of(nothing_made, volume("v", **{**suitable, **unfit}))

    assert said(cluster, asked, **using("d")).reasons == {BIND: 2}


def test_a_volume_that_is_reserved_for_a_claim_is_the_only_one_for_it():
    cluster = cluster_of(
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        volume("any"),
        volume("mine", where=at(ZONE, "b"), claim="d", phase="Pending"),
    )

    decision = said(cluster, claim("d"), **using("d"))

    assert decision.rows.tolist() == [1]
    assert given(cluster, waiting(cluster, **using("d"))) == [("n1", ("mine",))]


# component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume: size and mode are looked at before whom it names.
@pytest.mark.parametrize("unfit", [{"size": "1Mi"}, {"volumeMode": "Block"}, {"volumeAttributesClassName": "fast"}])
def test_a_volume_that_is_reserved_for_a_claim_but_is_not_what_it_asks_for_leaves_it_others(unfit):
    cluster = cluster_of(
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        volume("any", where=at(ZONE, "a")),
        volume("mine", where=at(ZONE, "b"), claim="d", phase="Pending", **unfit),
    )

    decision = said(cluster, claim("d"), **using("d"))

    assert decision.rows.tolist() == [0]
    assert given(cluster, waiting(cluster, **using("d"))) == [("n0", ("any",))]


def test_of_several_volumes_that_are_reserved_for_a_claim_one_that_it_can_have_is_for_it():
    where = at(ZONE, "b")
    cluster = cluster_of(
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        volume("any", where=at(ZONE, "a")),
        volume("m1", where=where, claim="d", phase="Pending", size="1Mi"),
        volume("m2", where=where, claim="d", phase="Pending"),
    )

    decision = said(cluster, claim("d"), **using("d"))

    assert decision.rows.tolist() == [1]
    assert given(cluster, waiting(cluster, **using("d"))) == [("n1", ("m2",))]


def given(cluster: Cluster, pod_class: PodClass, count: int = 1) -> list[tuple[str, tuple[str, ...]]]:
    """The nodes and volumes that pods of a class would get."""
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, count), DEFAULT_PROFILE)
        assert rows is not None
        nodes = [cluster.nodes.names[row] for row in rows.tolist()]
        kept = {name: cluster.nodes.volumes.pledges.earmarks(pod_class, name) for name in nodes}
        return [(name, kept[name].pop(0) if kept[name] else ()) for name in nodes]


def test_the_smallest_volume_is_taken_first():
    cluster = cluster_of(
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        *(volume(f"v{size}", size=f"{size}Gi", where=at(HOSTNAME, "n0")) for size in (9, 2, 5, 1)),
    )
    cluster.put_storage(claim("small", size="2Gi"))
    cluster.put_storage(claim("large", size="3Gi"))

    pod_class = waiting(cluster, **using("large", "small"))

    assert given(cluster, pod_class) == [("n0", ("v2", "v5"))]


def test_a_volume_serves_one_claim_of_a_pod():
    cluster = cluster_of(
        storage_class(provisioner="kubernetes.io/no-provisioner"), volume("v0", where=at(ZONE, "a")), volume("any")
    )
    for name in ("x", "y"):
        cluster.put_storage(claim(name))

    decision = said(cluster, **using("x", "y"))

    assert decision.rows.tolist() == [0]
    assert decision.reasons == {BIND: 1}


def test_what_is_not_there_is_made_where_the_class_has_a_provisioner():
    cluster = cluster_of(storage_class(topologies=({ZONE: ["b"]},)), volume("v0", where=at(ZONE, "a")))

    decision = said(cluster, claim("d"), **using("d"))

    assert decision.rows.tolist() == [0, 1]
    pod_class = waiting(cluster, **using("d"))
    assert sorted(given(cluster, pod_class)) in ([("n0", ("v0",))], [("n1", ("",))])


def test_several_volumes_count_for_each_thing_that_is_the_matter():
    cluster = cluster_of(storage_class(topologies=({ZONE: ["a"]},)), zones="abb")

    bound = volume("v", where=at(HOSTNAME, "n0", "n1"), claim="d", phase="Bound")
    decision = said(cluster, claim("d", volume="v"), bound, claim("e"), **using("d", "e"))

    assert decision.rows.tolist() == [0]
    assert decision.reasons == {REACH: 1, BIND: 2}


# plugins/volumezone: old and new labels, sets of zones, nodes without any.
@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ({ZONE: "a"}, [0, 3]),
        ({ZONE: "a__b"}, [0, 1, 3]),
        ({ZONE: "a__"}, [0, 1, 2, 3]),
        ({BETA_ZONE: "b"}, [1, 3]),
        ({"topology.kubernetes.io/region": "r"}, [3]),
        ({"other": "x"}, [0, 1, 2, 3]),
    ],
)
def test_a_volume_is_used_in_its_zones(labels, rows):
    cluster = cluster_of(zones="abc-")

    decision = said(cluster, claim("d", volume="v"), volume("v", labels=labels), **using("d"))

    assert decision.rows.tolist() == rows
    assert decision.reasons == ({ZONED: 4 - len(rows)} if len(rows) < 4 else {})
    assert decision.final.tolist() == [i not in rows for i in range(4)]


def test_an_old_zone_label_of_a_node_goes_before_its_new_one():
    cluster = cluster_of(zones="")
    cluster.put_node(node("n", labels={BETA_ZONE: "old", ZONE: "new"}))

    assert said(cluster, claim("d", volume="v"), volume("v", labels={BETA_ZONE: "new"}), **using("d")).reasons == {
        ZONED: 1
    }


def test_the_zones_of_an_ephemeral_volume_do_not_matter():
    cluster = cluster_of()
    made = claim("p-s", volume="v", owner="uid-default-p")

    assert said(cluster, made, volume("v", labels={ZONE: "z"}), **using(s={})).rows.tolist() == [0, 1]
