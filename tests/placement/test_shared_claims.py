"""Gangs whose pods share claims without a volume are placed just where an arrangement exists: against trying them all."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, pod
from tests.placement.storage import HOSTNAME, ZONE, at, claim, csi_node, storage_class, using, volume
from tutti.cluster.cluster import Cluster
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.gang import Ask
from tutti.placement.plugins.volume_binding import VolumeBinding
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.together import Diagnosis, place_together

MANY = ("ReadWriteMany",)
WHERES = [None, at(ZONE, "a"), at(ZONE, "b"), at(HOSTNAME, "n0"), at(HOSTNAME, "n1", "n2")]
NAMES = ["x", "y"]
ZONES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4)
ROLES = st.lists(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.sampled_from([(), ("x",), ("y",), ("x", "y")])),
    min_size=1,
    max_size=3,
)
"""How many pods, how much each asks for, and which claims all of them share."""


def usable(where: dict | None, zone: str, name: str) -> bool:
    if where is None:
        return True
    (expression,) = where["required"]["nodeSelectorTerms"][0]["matchExpressions"]
    return {ZONE: zone, HOSTNAME: name}[expression["key"]] in expression["values"]


def exists(zones, rooms, pods, wheres, *, made: bool, known: bool) -> bool:
    """Whether there is an arrangement: each pod on a node with room, each claim with something that all its pods reach."""
    count = len(zones)
    # Each is the nodes where it can be used, and the volume, -1 for one that is made.
    ways = [(frozenset(i for i in range(count) if usable(w, zones[i], f"n{i}")), v) for v, w in enumerate(wheres)]
    if made:
        places = set(zones) if known else {""}
        ways += [(frozenset(i for i in range(count) if place in ("", zones[i])), -1) for place in places]
    used = sorted({name for _, claims in pods for name in claims})
    for given_to in product(ways, repeat=len(used)):
        volumes = [number for _, number in given_to if number >= 0]
        if len(set(volumes)) < len(volumes):
            continue
        of = {name: nodes for name, (nodes, _) in zip(used, given_to, strict=True)}
        for spots in product(range(count), repeat=len(pods)):
            left = list(rooms)
            for (amount, _), spot in zip(pods, spots, strict=True):
                left[spot] -= amount
            within = all(spot in of[name] for (_, claims), spot in zip(pods, spots, strict=True) for name in claims)
            if within and min(left) >= 0:
                return True
    return False


def test_nothing_is_kept_for_pods_whose_claims_are_all_bound():
    """Whoever is placed pod by pod is given what it needs, which may be nothing."""
    cluster = Cluster()
    cluster.put_node(node("n0", labels={ZONE: "a"}))
    cluster.put_storage(storage_class())
    cluster.put_storage(claim("x", volume="v", modes=MANY))
    cluster.put_storage(volume("v", claim="x", uid="uid-x", phase="Bound", where=at(ZONE, "a"), modes=MANY))
    cluster.put_pod(pod("p", **using("x")), keep=True)
    klass = cluster.pods["default", "p"].klass
    tally = VolumeBinding().tally(klass, cluster.nodes, NO_FLAVOR)
    with cluster.transaction() as transaction:
        transaction.put(np.array([0]), np.array([1]), klass)
        tally.add(0)
        tally.settle(transaction)
        transaction.commit()
    cluster.assume(cluster.pods["default", "p"], 0)
    assert not cluster.nodes.volumes.pledges._earmarks


@examples(150)
@given(
    zones=ZONES,
    rooms=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    roles=ROLES,
    wheres=st.lists(st.sampled_from(WHERES), max_size=3),
    made=st.booleans(),
    known=st.booleans(),
)
def test_pods_that_share_claims_are_placed_where_there_is_a_way(zones, rooms, roles, wheres, made, known):
    cluster = Cluster()
    for i, zone in enumerate(zones):
        cluster.put_node(node(f"n{i}", cpu=rooms[i], labels={ZONE: zone, HOSTNAME: f"n{i}"}, pods=10))
        cluster.put_storage(csi_node(f"n{i}", keys=(ZONE,) if known else (), csi_example_com=None))
    cluster.put_storage(storage_class(provisioner="csi.example.com" if made else "kubernetes.io/no-provisioner"))
    for number, where in enumerate(wheres):
        cluster.put_storage(volume(f"v{number}", where=where, modes=MANY))
    for name in NAMES:
        cluster.put_storage(claim(name, modes=MANY))
    pods = [(amount, claims) for count, amount, claims in roles for _ in range(count)]
    for i, (amount, claims) in enumerate(pods):
        cluster.put_pod(pod(f"p{i}", cpu=str(amount), **using(*claims)), keep=True)
    for name in NAMES:  # others name them as well, so that they are shared in any case
        for i in range(2):
            cluster.put_pod(pod(f"{name}{i}", cpu="1", **using(name)), keep=True)
    by_class: dict = {}
    for i in range(len(pods)):
        by_class.setdefault(cluster.pods["default", f"p{i}"].klass, []).append(i)
    asks = [Ask(klass, len(several)) for klass, several in by_class.items()]

    with cluster.transaction() as transaction:
        found = place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE)
        right = exists(zones, rooms[: len(zones)], pods, wheres, made=made, known=known)
        assert isinstance(found, Diagnosis) is not right
        if right:
            assert [len(rows) for rows in found] == [ask.required for ask in asks]
            assert (cluster.nodes.requested <= cluster.nodes.allocatable).all()
    pledges = cluster.nodes.volumes.pledges
    assert not pledges._earmarks
    assert not pledges._shared
    assert not pledges._taken
    assert not np.any(cluster.nodes.requested)
