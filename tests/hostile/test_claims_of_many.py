"""Pods that use the same claims, each of them hundreds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import World
from tests.placement.scenes import pod
from tests.placement.storage import HOSTNAME, at, capacity, claim, csi_driver, storage_class, volume
from tests.placement.volume_scenes import cluster_of, said
from tutti.api.selectors import LabelSelector, NodeSelector
from tutti.api.storage import PersistentVolume
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import Disk
from tutti.cluster.volume_needs import VolumeState
from tutti.cluster.volumes import UnboundClaim, VolumeNeeds
from tutti.placement.framework import Mask
from tutti.placement.plugins import node_affinity
from tutti.placement.plugins.static_volumes import Ranks, Shelf

PODS, CLAIMS, VOLUMES, PLACES = 8, 10, 20, 20
MOST_TRIES = 3
NUMBERS = st.integers(0, 3)
SIZES = st.sampled_from(["1Gi", "2Gi"])
CHANGES = st.one_of(
    st.tuples(st.just("pod"), NUMBERS, st.frozensets(NUMBERS, min_size=1)),
    st.tuples(st.just("pod gone"), NUMBERS, st.none()),
    st.tuples(st.just("claim"), NUMBERS, SIZES),
    st.tuples(st.just("claim gone"), NUMBERS, st.none()),
    st.tuples(st.just("volume"), NUMBERS, SIZES),
    st.tuples(st.just("turn"), NUMBERS, st.none()),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often it was worked out what the volumes of a pod ask."""
    out, needs = Counter[str](), VolumeState.needs

    def counted(self: VolumeState, *of: Any) -> VolumeNeeds:
        out["times"] += 1
        return needs(self, *of)

    monkeypatch.setattr(VolumeState, "needs", counted)
    return out


def sharing(*, pods: int = PODS, claims: int = CLAIMS) -> World:
    """Pods that all use the same claims, of which no volume is made yet."""
    world = World()
    world.storage.held = True
    world.node("n")
    world.storage.put(storage_class())
    names = tuple(f"c{number}" for number in range(claims))
    for name in names:
        world.storage.put(claim(name, modes=("ReadWriteMany",)))
    for number in range(pods):
        world.pod(f"p{number}", claims=names)
    return world


def test_what_pods_of_the_same_claims_ask_is_worked_out_once_when_their_volumes_are_chosen(
    asked: Counter[str],
) -> None:
    """It was once for each pod, each other pod and each claim: 200 pods of 200 claims took 77 s of one turn."""
    world = sharing()
    world.run()
    assert len(world.storage.chosen) == CLAIMS
    assert asked["times"] <= 3 * PODS


def test_a_claim_that_changes_is_asked_about_once_for_all_who_use_the_same(asked: Counter[str]) -> None:
    world = sharing()
    asked.clear()
    world.storage.put(claim("c0", modes=("ReadWriteMany",), size="2Gi"))
    assert asked["times"] <= 1


def one_of_many_claims(*volumes: PersistentVolume) -> World:
    """A pod of many claims beside free volumes."""
    world = World()
    for number in range(VOLUMES):
        world.node(f"n{number:02d}")
    world.storage.put(storage_class(provisioner="kubernetes.io/no-provisioner"), *volumes)
    names = tuple(f"c{number}" for number in range(CLAIMS))
    world.storage.put(*(claim(name) for name in names))
    world.pod("one", claims=names)
    return world


def test_free_volumes_are_looked_through_once_for_claims_that_ask_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was once for each claim: a pod of 64 beside 5,000 local volumes took 15 s, and no node had room for it."""
    looked_at, free_volumes = Counter[str](), VolumeState.free_volumes

    def counted(self: VolumeState, wanted: UnboundClaim) -> Iterator[PersistentVolume]:
        for one in free_volumes(self, wanted):
            looked_at["volumes"] += 1
            yield one

    monkeypatch.setattr(VolumeState, "free_volumes", counted)
    world = one_of_many_claims(*(volume(f"v{i}", where=at(HOSTNAME, f"n{i:02d}")) for i in range(VOLUMES)))
    world.run()
    assert world.why("Pod", "one").reason == "Unschedulable"
    assert 0 < looked_at["volumes"] <= MOST_TRIES * VOLUMES


def test_no_columns_are_compared_for_claims_that_no_volume_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were of as many volumes as there are claims, for each pair of claims and each node."""
    asked, first = Counter[str](), Shelf.first

    def counted(self: Shelf) -> Ranks:
        asked["shelves"] += 1
        return first(self)

    monkeypatch.setattr(Shelf, "first", counted)
    world = sharing(pods=2)
    world.run()
    assert len(world.storage.chosen) == CLAIMS
    assert not asked["shelves"]


def test_a_volume_that_names_its_node_and_more_is_asked_about_no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a column of all nodes: one claim beside 5,000 such volumes took 1.1 s."""
    columns, matches = Counter[str](), node_affinity.matches_any_term

    def counted(nodes: NodeColumns, selector: NodeSelector) -> Mask:
        columns["of all nodes"] += 1
        return matches(nodes, selector)

    monkeypatch.setattr(node_affinity, "matches_any_term", counted)
    volumes = []
    for i in range(VOLUMES):
        said = at(HOSTNAME, f"n{i:02d}")
        said["required"]["nodeSelectorTerms"][0]["matchExpressions"].append({"key": HOSTNAME, "operator": "Exists"})
        volumes.append(volume(f"v{i}", where=said))
    one_of_many_claims(*volumes).run()
    assert not columns


def test_what_is_left_of_storage_is_looked_through_once_for_claims_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was once for each size: a pod of 100 claims beside 1,000 places of a driver took 3.7 s."""
    looked_at, matches = Counter[str](), node_affinity.matches_label_selector

    def counted(nodes: NodeColumns, selector: LabelSelector) -> Mask:
        looked_at["places"] += 1
        return matches(nodes, selector)

    monkeypatch.setattr(node_affinity, "matches_label_selector", counted)
    world = World()
    world.node("n")
    world.storage.put(storage_class(), csi_driver())
    for number in range(PLACES):
        world.storage.put(capacity(f"at-{number}", capacity="10Gi", topology={"matchLabels": {HOSTNAME: "n"}}))
    names = tuple(f"c{number}" for number in range(CLAIMS))
    world.storage.put(*(claim(name, size=f"{number + 1}Mi") for number, name in enumerate(names)))
    world.pod("one", claims=names)
    world.decide()
    assert len(world.storage.chosen) == CLAIMS
    assert 0 < looked_at["places"] <= MOST_TRIES * PLACES


def test_disks_that_pods_name_are_compared_only_with_their_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was with each: 300 pods that name 50 disks took 79 ms each."""
    compared, conflicts = Counter[str](), Disk.conflicts

    def counted(self: Disk, other: Disk) -> bool:
        compared["times"] += 1
        return conflicts(self, other)

    monkeypatch.setattr(Disk, "conflicts", counted)
    cluster = cluster_of(zones="a" * (PODS + 1))
    for number in range(PODS):
        cluster.put_pod(pod(f"p{number}", node=f"n{number}", volumes=disks(f"d{number}")), keep=False)
    cluster.put_pod(pod("other", node=f"n{PODS}", volumes=disks("d")), keep=False)
    compared.clear()
    assert said(cluster, volumes=disks("d")).rows.tolist() == list(range(PODS))
    assert compared["times"] <= 2 * CLAIMS


def disks(name: str) -> list[dict[str, Any]]:
    """Volumes of a pod that names disks itself."""
    return [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"{name}-{i}"}} for i in range(CLAIMS)]


@given(st.lists(CHANGES, max_size=20), st.booleans())
def test_each_pod_that_waits_is_of_the_class_that_its_volumes_ask_for_whoever_uses_them_as_well(
    changes: list[tuple[str, int, Any]], held: bool
) -> None:
    world = World()
    world.storage.held = held
    for number in range(2):
        world.node(f"n{number}", gpus=2)
    world.storage.put(storage_class())
    for change in changes:
        _make(world, *change)
        cluster = world.engine.state.cluster
        for record in cluster.pods.values():
            if record.uses and not record.place and not record.terminated:
                asks = cluster.nodes.volumes.needs(record.key, record.uid, record.uses)
                assert record.pod_class.volumes == asks


def _make(world: World, what: str, number: int, more: Any) -> None:
    match what:
        case "pod":
            if f"p{number}" not in world.pods:
                world.pod(f"p{number}", claims=tuple(f"c{one}" for one in sorted(more)))
        case "pod gone":
            if f"p{number}" in world.pods:
                world.delete(f"p{number}")
        case "claim":
            world.storage.put(claim(f"c{number}", modes=("ReadWriteMany",), size=more))
        case "claim gone":
            if ("PersistentVolumeClaim", f"c{number}") in world.storage.objects:
                world.storage.drop("PersistentVolumeClaim", f"c{number}")
        case "volume":
            where = at(HOSTNAME, f"n{number % 2}")
            world.storage.put(volume(f"v{number}", modes=("ReadWriteMany",), size=more, where=where))
        case _:
            world.decide()
