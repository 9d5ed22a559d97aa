"""Victims for pods that ask for devices: by trying everybody, on clusters small enough for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.drawing import examples
from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.placement.scenes import node, pod
from tutti.api.devices import ResourceClaim
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask
from tutti.placement.preemption.device_wish import DeviceWish
from tutti.placement.preemption.units import GangUnit, VictimUnits
from tutti.placement.preemption.victims import ChosenVictims, choose_victims
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.together import Diagnosis, place_together

ROOT = "resource.kubernetes.io/pcieRoot"


@dataclass
class Holder:
    """A pod with devices of its node, alone or with the holder before it."""

    name: str
    where: str
    devices: list[int]
    priority: int = 0
    shares: str = ""

    @property
    def claim(self) -> str:
        return self.shares or self.name


@dataclass
class Scene:
    """Nodes with equal devices, who has which, and what a gang asks for."""

    nodes: int = 2
    count: int = 4
    holders: list[Holder] = field(default_factory=list)
    size: int = 1
    asked: dict[str, Any] = field(default_factory=lambda: asks_for(2))
    cpu: int = 16
    pods: int = 10

    def cluster(self, gone: frozenset[str] = frozenset()) -> tuple[Cluster, list[Ask]]:
        """All of it without some pods, and without the claims that only these use."""
        out = Cluster()
        out.device_users.put(device_class())
        for at in range(self.nodes):
            out.put_node(node(f"n{at}", cpu=self.cpu, pods=self.pods))
            out.device_users.put(resource_slice(f"n{at}", self.count))
        there = [one for one in self.holders if one.name not in gone]
        for claim in dict.fromkeys(one.claim for one in there):
            out.device_users.put(self._held(claim, [one for one in there if one.claim == claim]))
        for one in there:
            claims = [{"name": "d", "resourceClaimName": one.claim}]
            found = pod(one.name, node=one.where, priority=one.priority, resourceClaims=claims)
            out.put_pod(found, keep=False)
        members = []
        for rank in range(self.size):
            raw = {"metadata": {"name": f"g{rank}", "namespace": "default"}, "spec": self.asked}
            out.device_users.put(decoded(raw, ResourceClaim))
            claims = [{"name": "d", "resourceClaimName": f"g{rank}"}]
            members.append(out.put_pod(pod(f"g{rank}", resourceClaims=claims), keep=True))
        return out, [Ask(members[0].pod_class, self.size)]

    def _held(self, claim: str, users: list[Holder]) -> ResourceClaim:
        results = [
            {"request": "r", "driver": "gpu.example.com", "pool": users[0].where, "device": f"gpu-{at}"}
            for one in self.holders
            if one.claim == claim
            for at in one.devices
        ]
        used = [{"resource": "pods", "name": one.name, "uid": f"uid-default-{one.name}"} for one in users]
        raw = {
            "metadata": {"name": claim, "namespace": "default"},
            "spec": asks_for(len(results)),
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": used},
        }
        return decoded(raw, ResourceClaim)

    def fits(self, gone: frozenset[str]) -> bool:
        cluster, asks = self.cluster(gone)
        with cluster.transaction() as transaction:
            return not isinstance(place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE), Diagnosis)

    def choose(self, *parties: str) -> ChosenVictims | None:
        """Choose among all holders; those of a party leave together."""
        cluster, asks = self.cluster()
        gangs = [
            GangUnit(pods, max(one.priority for one in pods))
            for pods in ([cluster.pods["default", name] for name in party.split()] for party in parties)
        ]
        columns = cluster.pod_columns
        singles = columns.row >= 0
        singles[[one.slot for gang in gangs for one in gang.pods]] = False
        units = VictimUnits.among(cluster, np.flatnonzero(singles), gangs)
        before = list(cluster.nodes.devices.rows.own_uses)
        found = choose_victims(cluster, asks, units, profile=DEFAULT_PROFILE)
        cluster.nodes.devices.columns(asks[0].pod_class.devices, cluster.nodes.device_view(asks[0].pod_class.devices))
        assert not before or before == cluster.nodes.devices.rows.own_uses
        return found

    def victims(self, *parties: str) -> set[str] | None:
        found = self.choose(*parties)
        return None if found is None else {one.name for one in found.victims}


def test_those_who_have_the_devices_leave_and_no_more_than_needed():
    scene = Scene(holders=[Holder("a", "n0", [0, 1]), Holder("b", "n0", [2]), Holder("c", "n1", [0, 1, 2, 3])])
    assert scene.victims() in ({"a"}, {"b"})


def test_devices_that_are_free_and_do_not_match_one_another_are_no_help():
    apart = [Holder("a", "n0", [0]), Holder("b", "n0", [2], priority=3)]
    scene = Scene(nodes=1, holders=apart, asked=asks_for(2, match=ROOT))
    assert scene.victims() == {"a"}


def test_devices_of_the_least_important_go_first():
    scene = Scene(holders=[Holder("a", "n0", [0, 1, 2, 3], 5), Holder("b", "n1", [0, 1, 2, 3], 2)])
    assert scene.victims() == {"b"}
    scene.size = 4
    assert scene.victims() == {"a", "b"}


def test_a_claim_that_several_use_is_free_when_all_of_them_have_left():
    scene = Scene(nodes=1, holders=[Holder("a", "n0", [0, 1, 2, 3]), Holder("b", "n0", [], 2, shares="a")])
    assert scene.victims() == {"a", "b"}


def test_a_gang_that_has_devices_leaves_as_a_whole():
    scene = Scene(holders=[Holder("a", "n0", [0, 1, 2, 3]), Holder("b", "n1", [0, 1, 2, 3])])
    assert scene.victims("a b") == {"a", "b"}


def test_nobody_leaves_for_what_nodes_have_not_got():
    scene = Scene(holders=[Holder("a", "n0", [0])], asked=asks_for(5))
    assert scene.victims() is None


def test_nobody_leaves_for_devices_of_pods_that_have_gone():
    scene = Scene(nodes=1, holders=[Holder("a", "n0", [0, 1]), Holder("b", "n0", [2, 3], 5)])
    cluster, asks = scene.cluster()
    cluster.remove_pod(("default", "a"))
    units = VictimUnits.among(cluster, np.flatnonzero(cluster.pod_columns.row >= 0))
    found = choose_victims(cluster, asks, units, profile=DEFAULT_PROFILE)
    assert found is not None
    assert found.victims == ()
    with cluster.transaction() as transaction:
        assert isinstance(place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE), Diagnosis)


def test_devices_of_a_claim_whose_users_were_struck_out_are_held_until_they_are_taken_away():
    scene = Scene(nodes=1, holders=[Holder("a", "n0", [0, 1]), Holder("b", "n0", [2, 3], 5)])
    cluster, asks = scene.cluster()
    cluster.remove_pod(("default", "a"))
    claim = cluster.nodes.devices.book.claims["default", "a"]
    left = replace(claim, status=replace(claim.status, reserved_for=[]))
    cluster.device_users.put(left)
    ledger, pool = cluster.nodes.devices.ledger, ("gpu.example.com", "n0")
    for _ in range(2):  # and it is no different the next time
        units = VictimUnits.among(cluster, np.flatnonzero(cluster.pod_columns.row >= 0))
        found = choose_victims(cluster, asks, units, profile=DEFAULT_PROFILE)
        assert found is not None
        assert found.victims == ()
        assert [ledger.holders(pool, f"gpu-{at}") for at in range(4)] == [1, 1, 1, 1]
        with cluster.transaction() as transaction:
            assert isinstance(place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE), Diagnosis)
    cluster.device_users.put(replace(left, status=replace(left.status, allocation=None)))
    assert [ledger.holders(pool, f"gpu-{at}") for at in range(4)] == [0, 0, 1, 1]
    with cluster.transaction() as transaction:
        assert not isinstance(place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE), Diagnosis)


def test_users_of_one_claim_are_not_asked_about_one_by_one():
    asked_for = {}
    for count in (8, 128):
        holders = [Holder("h0", "n0", [0, 1, 2, 3])]
        holders += [Holder(f"h{i}", "n0", [], shares="h0") for i in range(1, count)]
        scene, asked = Scene(nodes=1, holders=holders, size=2, cpu=count + 2, pods=count + 2), []
        cluster, asks = scene.cluster()
        units = VictimUnits.among(cluster, np.flatnonzero(cluster.pod_columns.row >= 0))
        found = choose_victims(
            cluster, asks, units, profile=DEFAULT_PROFILE, enough=lambda gone, asked=asked: not asked.append(gone)
        )
        assert found is not None
        assert len(found.victims) == count
        asked_for[count] = len(asked)
    assert asked_for[128] <= asked_for[8] + 4  # halving: log2(128 / 8)


def test_users_of_a_claim_stay_whose_devices_are_not_needed():
    """They fill the node; who asks finds other devices there, and room once one of them has left."""
    holders = [Holder("h0", "n0", [0, 1]), *(Holder(f"h{i}", "n0", [], shares="h0") for i in range(1, 6))]
    for asked in (asks_for(2), asks_for(2, match=ROOT)):
        found = Scene(nodes=1, holders=holders, asked=asked, cpu=6).victims()
        assert found is not None
        assert len(found) == 1


LOOKS = {"name": "looks", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
FIRST_ONE = {
    "name": "t",
    "exactly": {
        "deviceClassName": "gpu",
        "count": 1,
        "selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].index == 0"}}],
    },
}


@pytest.mark.parametrize(
    ("more", "request_", "free", "held"),
    [
        ([], [2], [[2, 3]], [[2, 1]]),
        ([LOOKS], [2], [[2, 3]], [[2, 1]]),
        ([FIRST_ONE], [2, 1], [[2, 3], [0, 1]], [[2, 1], [1, 0]]),
    ],
    ids=["one request", "looked at only", "another kind"],
)
def test_what_claims_ask_is_so_many_devices_of_each_kind(more, request_, free, held):
    """By that victims are chosen on columns; who has none of a kind that is short is not tried."""
    scene = Scene(holders=[Holder("a", "n0", [0, 1]), Holder("b", "n1", [2])], asked=asks_for(2))
    scene.asked["devices"]["requests"] += more
    cluster, asks = scene.cluster()

    wish = DeviceWish.of(cluster, asks[0].pod_class)

    assert wish is not None
    assert wish.request.tolist() == request_
    assert wish.free.tolist() == free
    slots = np.array([cluster.pods["default", name].slot for name in ("a", "b")])
    assert wish.held(slots).tolist() == held


def test_what_claims_of_a_pod_ask_alike_is_one_amount():
    cluster, _ = Scene().cluster()
    for name in ("x", "y"):
        raw = {"metadata": {"name": name, "namespace": "default"}, "spec": asks_for(2)}
        cluster.device_users.put(decoded(raw, ResourceClaim))
    claims = [{"name": name, "resourceClaimName": name} for name in ("x", "y")]
    found = cluster.put_pod(pod("both", resourceClaims=claims), keep=True)
    assert found is not None
    wish = DeviceWish.of(cluster, found.pod_class)
    assert wish is not None
    assert wish.request.tolist() == [4]


def test_nothing_is_said_in_amounts_of_devices_that_several_can_have():
    scene = Scene()
    cluster, asks = scene.cluster()
    for at in range(2):
        cluster.device_users.put(resource_slice(f"n{at}", 2, allowMultipleAllocations=True))
    assert DeviceWish.of(cluster, asks[0].pod_class) is None


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    nodes, count = draw(st.integers(1, 3)), draw(st.sampled_from([2, 4]))
    holders: list[Holder] = []
    for at in range(nodes):
        free = list(range(count))
        while free and len(holders) < 5 and draw(st.booleans()):
            mine = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
            free = [one for one in free if one not in mine]
            holders.append(Holder(f"h{len(holders)}", f"n{at}", sorted(mine), draw(st.integers(0, 2))))
            shares = holders[-1].name
            for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2, 3]))):
                if len(holders) < 5:
                    holders.append(Holder(f"h{len(holders)}", f"n{at}", [], draw(st.integers(0, 2)), shares))
    match = draw(st.sampled_from(["", ROOT]))
    asked = asks_for(draw(st.integers(1, 2)), match=match)
    if not draw(st.integers(0, 5)):
        asked = asks_for(0, allocationMode="All")
        del asked["devices"]["requests"][0]["exactly"]["count"]
    return Scene(nodes, count, holders, draw(st.integers(1, 3)), asked, cpu=draw(st.sampled_from([4, 16])))


@given(scenes())
@examples(60)
def test_victims_are_found_where_there_are_any_and_none_of_them_could_stay(scene: Scene):
    names = [one.name for one in scene.holders]
    found = scene.victims()
    sets = [frozenset(some) for size in range(len(names) + 1) for some in combinations(names, size)]
    enough = [some for some in sets if scene.fits(some)]
    if not enough:
        assert found is None
        return
    assert found is not None
    assert found in enough
    assert not any(other < found for other in enough)
    of = {one.name: one.priority for one in scene.holders}
    least = min(max((of[name] for name in some), default=-1) for some in enough)
    assert max((of[name] for name in found), default=-1) == least
