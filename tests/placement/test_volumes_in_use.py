"""What other pods on a node leave of volumes and disks: those for one pod, those that exclude others, so many of each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.placement.scenes import pod
from tests.placement.single_decision import decide
from tests.placement.storage import (
    attachment,
    claim,
    csi_node,
    storage_class,
    using,
    volume,
)
from tests.placement.volume_scenes import cluster_of, said, waiting
from tutti.placement.diagnosis import diagnose
from tutti.placement.gang import Ask, place_ask
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.profile import DEFAULT_PROFILE

ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
DISK = "node(s) had no available disk"
LIMIT = "node(s) exceed max volume count"


# plugins/volumerestrictions: preemption can help here.
def test_a_claim_for_one_pod_is_in_use_wherever_that_pod_is():
    cluster = cluster_of(claim("d", volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    assert said(cluster, **using("d")).rows.tolist() == [0, 1]

    cluster.put_pod(pod("user", node="n1", **using("d")), keep=False)

    decision = decide(waiting(cluster, **using("d")), cluster.nodes)
    assert decision.reasons == {ONCE: 2}
    assert not decision.final.any()

    cluster.remove_pod(("default", "user"))
    assert decide(waiting(cluster, **using("d")), cluster.nodes).rows.tolist() == [0, 1]


def test_a_claim_for_one_pod_is_given_to_one_pod_of_a_gang():
    cluster = cluster_of(claim("d", volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    waiting(cluster, "p0", **using("d"))
    pod_class = waiting(cluster, "p1", **using("d"))

    with cluster.transaction() as transaction:
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 2), DEFAULT_PROFILE) is None
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, 2), DEFAULT_PROFILE)
        assert rows is not None
        assert len(rows) == 1
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 1), DEFAULT_PROFILE) is None
    why = diagnose(cluster.nodes, Ask(pod_class, 2), DEFAULT_PROFILE)
    assert "Claim default/d is ReadWriteOncePod" in why.never


@pytest.mark.parametrize(
    ("here", "there", "conflict"),
    [
        ({"gcePersistentDisk": {"pdName": "x"}}, {"gcePersistentDisk": {"pdName": "x"}}, True),
        ({"gcePersistentDisk": {"pdName": "x"}}, {"gcePersistentDisk": {"pdName": "y"}}, False),
        (
            {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            False,
        ),
        (
            {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "x"}},
            True,
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "x", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "x", "readOnly": True}},
            True,
        ),
        ({"iscsi": {"iqn": "x"}}, {"iscsi": {"iqn": "x", "readOnly": True}}, True),
        ({"iscsi": {"iqn": "x"}}, {"gcePersistentDisk": {"pdName": "x"}}, False),
        ({"rbd": {"monitors": ["a", "b"], "image": "x"}}, {"rbd": {"monitors": ["b"], "image": "x"}}, True),
        ({"rbd": {"monitors": ["a"], "image": "x"}}, {"rbd": {"monitors": ["b"], "image": "x"}}, False),
        (
            {"rbd": {"monitors": ["a"], "image": "x"}},
            {"rbd": {"monitors": ["a"], "image": "x", "pool": "other"}},
            False,
        ),
    ],
)
def test_disks_that_pods_name_themselves(here, there, conflict):
    cluster = cluster_of()
    cluster.put_pod(pod("e", node="n0", volumes=[{"name": "v", **here}]), keep=False)

    decision = said(cluster, volumes=[{"name": "w", **there}])

    assert decision.rows.tolist() == ([1] if conflict else [0, 1])
    assert decision.reasons == ({DISK: 1} if conflict else {})
    assert not decision.final.any()


@pytest.mark.parametrize(("read_only", "most"), [(False, 2), (True, 6)])
def test_pods_with_one_disk_keep_apart_unless_they_only_read_it(read_only, most):
    cluster = cluster_of()
    disk = [{"name": "v", "gcePersistentDisk": {"pdName": "x", "readOnly": read_only}}]
    pod_class = waiting(cluster, volumes=disk)

    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, 6), DEFAULT_PROFILE)
        assert rows is not None
        assert len(rows) == most


# plugins/nodevolumelimits/csi.go.
def test_a_node_takes_so_many_volumes_of_a_driver():
    cluster = cluster_of(csi_node("n0", csi_example_com=2), csi_node("n1", csi_example_com=None), zones="abc")
    for name in ("d", "e", "f"):
        cluster.put_storage(claim(name, volume=name))
        cluster.put_storage(volume(name, driver="csi.example.com"))

    assert said(cluster, **using("d", "e")).rows.tolist() == [0, 1, 2]
    decision = decide(waiting(cluster, "q", **using("d", "e", "f")), cluster.nodes)

    assert decision.rows.tolist() == [1, 2]
    assert decision.reasons == {LIMIT: 1}
    assert not decision.final.any()


@pytest.mark.parametrize(
    ("existing", "fits"),
    [
        ([], True),
        ([using("other")], False),
        ([using("d")], True),
        ([using("d", "other")], True),
    ],
)
def test_a_volume_counts_once_on_a_node(existing, fits):
    cluster = cluster_of(csi_node("n0", csi_example_com=1), zones="a")
    for name in ("d", "other"):
        cluster.put_storage(claim(name, volume=name, modes=("ReadWriteMany",)))
        cluster.put_storage(volume(name, driver="csi.example.com"))
    for i, spec in enumerate(existing):
        cluster.put_pod(pod(f"e{i}", node="n0", **spec), keep=False)

    assert bool(len(said(cluster, **using("d")).rows)) == fits


@pytest.mark.parametrize(
    ("attached", "used", "fits"),
    [((), (), True), (("x",), (), False), (("x",), ("x",), False), (("d",), (), False), (("unknown",), (), True)],
)
def test_attachments_count_that_no_pod_accounts_for(attached, used, fits):
    """With a limit of 1: a volume that is attached already counts besides the same as a new one (csi.go)."""
    cluster = cluster_of(csi_node("n0", csi_example_com=1), zones="a")
    for name in ("d", "x"):
        cluster.put_storage(claim(name, volume=name))
        cluster.put_storage(volume(name, driver="csi.example.com"))
    for i, name in enumerate(attached):
        cluster.put_storage(attachment(f"va{i}", "n0", name))
    for name in used:
        cluster.put_pod(pod(f"e-{name}", node="n0", **using(name)), keep=False)

    assert bool(len(said(cluster, **using("d")).rows)) == fits
    for i, _ in enumerate(attached):
        cluster.drop_storage("VolumeAttachment", "", f"va{i}")
    for name in used:
        cluster.remove_pod(("default", f"e-{name}"))
    assert said(cluster, **using("d")).rows.tolist() == [0]


def test_a_volume_that_is_yet_to_be_made_counts_for_its_provisioner():
    cluster = cluster_of(storage_class(), csi_node("n0", csi_example_com=3), zones="a")
    for i in range(5):
        cluster.put_storage(claim(f"d{i}"))
    pod_classes = {id(waiting(cluster, f"p{i}", **using(f"d{i}"))) for i in range(5)}
    assert len(pod_classes) == 1

    with cluster.transaction() as transaction:
        pod_class = waiting(cluster, "p0", **using("d0"))
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 4), DEFAULT_PROFILE) is None
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 3), DEFAULT_PROFILE) is not None
        assert place_ask(cluster.nodes, transaction, Ask(pod_class, 1), DEFAULT_PROFILE) is None


def test_two_volumes_that_are_one_to_their_driver_count_once():
    cluster = cluster_of(csi_node("n0", csi_example_com=1), zones="a")
    for name in ("d", "e"):
        cluster.put_storage(claim(name, volume=name))
        cluster.put_storage(volume(name, driver="csi.example.com", handle="the same"))

    assert said(cluster, **using("d", "e")).rows.tolist() == [0]
    cluster.put_storage(volume("e", driver="csi.example.com", handle="another"))
    assert said(cluster, **using("d", "e")).reasons == {LIMIT: 1}


# plugins/volumerestrictions and nodevolumelimits: both give Unschedulable, so that preemption is tried.
@pytest.mark.parametrize("limited", [True, False])
def test_lower_priority_makes_room_for_volumes(limited):
    modes = ("ReadWriteOnce",) if limited else ("ReadWriteOncePod",)
    cluster = cluster_of(zones="a")
    for name in ("d", "e"):
        cluster.put_storage(claim(name, volume=name, modes=modes))
        cluster.put_storage(volume(name, driver="csi.example.com"))
    if limited:
        cluster.put_storage(csi_node("n0", csi_example_com=1))
    cluster.put_pod(pod("other", node="n0", cpu="1", priority=0), keep=False)
    cluster.put_pod(pod("user", node="n0", cpu="1", priority=0, **using("d")), keep=False)
    record = cluster.put_pod(pod("p", cpu="1", priority=9, **using("e" if limited else "d")), keep=True)
    assert record is not None

    lower = np.flatnonzero((cluster.pod_columns.row >= 0) & (cluster.pod_columns.priority < 9))
    found = choose_victims(
        cluster, [Ask(record.pod_class, 1)], VictimUnits.among(cluster, lower), profile=DEFAULT_PROFILE
    )

    assert found is not None
    assert [one.name for one in found.victims] == ["user"]
    assert cluster.nodes.volumes.attachments.count("n0", "csi.example.com") == 1
