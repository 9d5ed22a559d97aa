"""Pods that use the same claims, each of them hundreds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import World
from tests.placement.storage import HOSTNAME, at, claim, storage_class, volume
from tutti.cluster.volume_needs import VolumeState
from tutti.cluster.volumes import VolumeNeeds

PODS, CLAIMS = 8, 10
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
