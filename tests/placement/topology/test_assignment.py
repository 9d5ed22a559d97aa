"""Pods of one ask placed near one another on nodes, and parties of several asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.scenes import node, pod
from tutti.api.kinds.flavors import HOSTNAME
from tutti.cluster.cluster import Cluster
from tutti.placement.diagnosis import diagnose
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.together import Diagnosis, place_together
from tutti.placement.topology.request import LevelRequest, Slice, Together, TopologyPlacement

LEVELS = ("block", "rack", HOSTNAME)
RACKS = ("block", "rack")


def cluster_of(rooms: dict[str, int]) -> Cluster:
    """Nodes written as `block/rack/name`, each with so many cores."""
    cluster = Cluster()
    for path, cpu in rooms.items():
        block, rack, name = path.split("/")
        cluster.put_node(node(name, cpu=cpu, pods=20, labels={"block": block, "rack": rack}))
    return cluster


def near(
    level: str = "rack", mode: Together = Together.REQUIRED, levels: tuple[str, ...] = LEVELS, **more
) -> TopologyPlacement:
    request = {key: more.pop(key) for key in ("slices", "within", "balanced") if key in more}
    return TopologyPlacement(
        levels, LevelRequest(mode, level, **request), **{"pod_set_group": "gang", "group": "gang", **more}
    )


def pod_class(cluster: Cluster, cpu: str = "1", **spec):
    return cluster.classes.of(pod("p", cpu=cpu, **spec).spec, "default")


def where(cluster: Cluster, ask: Ask) -> dict[str, int] | None:
    """Pods per node; nothing stays placed."""
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, ask, DEFAULT_PROFILE)
        if rows is not None:
            assert (cluster.nodes.requested <= cluster.nodes.allocatable).all()
    return None if rows is None else dict(sorted(Counter(cluster.nodes.names[row] for row in rows).items()))


def domains(cluster: Cluster, placed: dict[str, int], *keys: str) -> Counter:
    out: Counter = Counter()
    for name, count in placed.items():
        labels = cluster.nodes.labels[cluster.nodes.rows[name]]
        out[tuple(labels[key] for key in keys)] += count
    return out


SIX = {"b1/r1/a": 4, "b1/r1/b": 4, "b1/r2/c": 3, "b1/r2/d": 3, "b2/r3/e": 8, "b2/r4/f": 2}


@pytest.mark.parametrize(
    ("asked", "count", "racks"),
    [
        (near(), 6, {"r2": 6}),  # the tightest that fits
        (near(), 7, {"r1": 7}),  # of two with the same room the one with the lesser name
        (near(), 9, None),
        (near("block"), 9, {"r3": 8, "r4": 1}),
        (near(mode=Together.PREFERRED), 8, {"r1": 8}),
        (near(mode=Together.PREFERRED), 10, {"r3": 8, "r4": 2}),  # a level up: the tighter block
        (near(mode=Together.PREFERRED, within="block"), 15, None),
        (near(mode=Together.PREFERRED), 15, {"r1": 7, "r3": 8}),  # several blocks, and of all their racks the fewest
        (near("rack", levels=("rack",)), 6, {"r2": 6}),  # a label without a topology
        (near("rack", levels=("rack",)), 9, None),
    ],
)
def test_the_domain_that_fits_most_tightly(asked, count, racks):
    cluster = cluster_of(SIX)
    placed = where(cluster, Ask(pod_class(cluster), count, topology=asked))
    assert (placed is None) == (racks is None)
    if placed is not None:
        assert {rack: n for (rack,), n in domains(cluster, placed, "rack").items()} == racks


def test_nodes_in_a_rack_are_chosen_by_score_where_the_topology_ends_there():
    cluster = cluster_of({"b/r/x": 8, "b/r/y": 8, "b/q/z": 3})
    assert where(cluster, Ask(pod_class(cluster), 4, topology=near(levels=RACKS))) == {"x": 2, "y": 2}
    assert where(cluster, Ask(pod_class(cluster), 4, topology=near())) == {
        "x": 4
    }  # by the rules where it ends at the node


def test_every_slice_is_in_one_domain():
    cluster = cluster_of({"b/r1/a": 5, "b/r2/b": 5, "b/r3/c": 3})
    sliced = near("block", slices=(Slice("rack", 2),))
    placed = where(cluster, Ask(pod_class(cluster), 8, topology=sliced))
    assert all(n % 2 == 0 for n in domains(cluster, placed, "rack").values())
    assert where(cluster, Ask(pod_class(cluster), 12, topology=sliced)) is None  # 13 pods, but 5 slices
    nested = near("block", slices=(Slice("rack", 4), Slice(HOSTNAME, 2)))
    placed = where(cluster, Ask(pod_class(cluster), 8, topology=nested))
    assert placed == {"a": 4, "b": 4}


def test_a_slice_that_is_not_full_takes_the_room_of_a_whole_one():
    cluster = cluster_of({"b/r1/a": 3, "b/r2/b": 3})
    sliced = near("block", slices=(Slice("rack", 2),))
    placed = where(cluster, Ask(pod_class(cluster), 3, topology=sliced))
    assert sorted(placed.values()) == [1, 2]
    assert where(cluster, Ask(pod_class(cluster), 5, topology=sliced)) is None


def test_pods_go_where_more_of_them_may_come_later():
    cluster = cluster_of({"b/r1/a": 4, "b/r2/b": 8})
    assert set(where(cluster, Ask(pod_class(cluster), 4, topology=near()))) == {"a"}
    assert set(where(cluster, Ask(pod_class(cluster), 4, topology=near(growth=3)))) == {"b"}
    assert where(cluster, Ask(pod_class(cluster), 4, 9, topology=near())) == {
        "b": 8
    }  # extra ones stay in the same rack
    assert where(cluster, Ask(pod_class(cluster), 4, topology=near(growth=20))) == {"b": 4}


def rows(cluster: Cluster, *names: str) -> tuple[int, ...]:
    return tuple(cluster.nodes.rows[name] for name in names)


def test_a_replacement_joins_the_others_in_their_domain():
    cluster = cluster_of({"b1/r1/a": 1, "b1/r1/b": 9, "b1/r2/c": 1, "b2/r3/d": 1})
    there = near(there=rows(cluster, "a", "a"), own=rows(cluster, "a", "a"))
    assert where(cluster, Ask(pod_class(cluster), 0, 2, topology=there)) == {"b": 2}
    assert where(cluster, Ask(pod_class(cluster), 11, topology=there)) is None
    apart = near(there=rows(cluster, "a", "c"))
    assert where(cluster, Ask(pod_class(cluster), 1, topology=apart)) is None
    told = diagnose(cluster.nodes, Ask(pod_class(cluster), 1, topology=apart), DEFAULT_PROFILE)
    assert "All must be in one rack domain, and the members that run are in 2: b1/r1, b1/r2." in told.message
    rather = near(mode=Together.PREFERRED, there=rows(cluster, "c"))
    assert where(cluster, Ask(pod_class(cluster), 2, topology=rather)) == {"b": 1, "c": 1}  # as near as there is room


def test_a_slice_that_lost_a_member_gets_a_new_one_in_its_domain():
    cluster = cluster_of({"b/r1/a": 5, "b/r2/b": 5, "b/r3/c": 9})
    own = rows(cluster, "a", "a", "a", "b", "b", "b", "b")
    sliced = near("block", slices=(Slice("rack", 4),), there=own, own=own)
    assert where(cluster, Ask(pod_class(cluster), 0, 1, topology=sliced)) == {"a": 1}
    assert where(cluster, Ask(pod_class(cluster), 0, 5, topology=sliced))["a"] >= 1


def test_a_leader_goes_with_its_workers():
    cluster = cluster_of({"b/r1/a": 4, "b/r2/b": 7})
    worker, leader = pod_class(cluster), pod_class(cluster, cpu="2")
    asks = [Ask(worker, 4, topology=near(group="w")), Ask(leader, 1, topology=near(group="l"))]
    for order in (asks, asks[::-1]):
        with cluster.transaction() as transaction:
            placed = place_together(cluster.nodes, transaction, order, DEFAULT_PROFILE)
            assert not isinstance(placed, Diagnosis)
            names = {cluster.nodes.names[row] for found in placed for row in found}
        assert names == {"b"}
    with cluster.transaction() as transaction:
        asks = [replace(asks[0], required=6), asks[1]]
        told = place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE)
    assert isinstance(told, Diagnosis)
    assert (cluster.nodes.requested == 0).all()


@pytest.mark.parametrize(("cpus", "host"), [(("1", "4"), "a"), (("4", "1"), "b")])
def test_of_two_single_pods_the_one_listed_second_leads(cpus, host):
    # Kueue ff69552e, FindTopologyAssignmentsForFlavor, was asked both. Beside a leader of 4 cpu there is room for one
    # pod on a and for four on b; beside a leader of 1 cpu for one on each, and b has more room without it.
    cluster = cluster_of({"b/r/a": 5, "b/r/b": 8})
    asks = [Ask(pod_class(cluster, cpu=cpu), 1, topology=near()) for cpu in cpus]
    with cluster.transaction() as transaction:
        placed = place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE)
        assert not isinstance(placed, Diagnosis)
        assert {cluster.nodes.names[row] for found in placed for row in found} == {host}


def test_asks_of_one_party_may_know_of_different_levels():
    # Where no Topology says otherwise, each ask's levels are the labels that it names.
    cluster = cluster_of({"b1/r1/a": 4, "b1/r2/b": 4, "b2/r3/c": 8})
    lead = Ask(pod_class(cluster), 2, topology=near("block", levels=("block",)))
    work = Ask(pod_class(cluster, "2"), 2, topology=near("rack", levels=("rack",)))
    for asks in ([lead, work], [work, lead], [lead, replace(work, required=1)]):
        with cluster.transaction() as transaction:
            found = place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE)
        assert not isinstance(found, Diagnosis)


def test_a_gang_of_unlike_members_is_one_party():
    cluster = cluster_of({"b/r1/a": 5, "b/r2/b": 4, "b/r2/c": 4, "b/r3/d": 6})
    asks = [Ask(pod_class(cluster, cpu=str(cpu)), count, topology=near()) for cpu, count in ((1, 2), (2, 1), (4, 1))]
    with cluster.transaction() as transaction:
        placed = place_together(cluster.nodes, transaction, asks, DEFAULT_PROFILE)
        assert not isinstance(placed, Diagnosis)
        names = [cluster.nodes.names[row] for found in placed for row in found]
    assert len(names) == 4
    assert set(names) == {"b", "c"}


def test_pods_that_keep_apart_are_tried_in_one_domain_after_another():
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "power"}
            ]
        }
    }
    cluster = Cluster()
    for name, rack, power in (
        ("a", "r1", "p1"),
        ("b", "r1", "p1"),
        ("c", "r2", "p1"),
        ("d", "r2", "p2"),
        ("e", "r2", "p2"),
    ):
        labels = {"block": "b", "rack": rack, "power": power}
        cluster.put_node(node(name, cpu=4, labels=labels))
    one = cluster.classes.of(pod("p", labels={"app": "x"}, affinity=affinity).spec, "default", {"app": "x"})
    placed = where(cluster, Ask(one, 2, topology=near()))
    assert domains(cluster, placed, "rack") == {("r2",): 2}
    assert where(cluster, Ask(one, 3, topology=near())) is None


@pytest.mark.parametrize(
    ("count", "asked", "message"),
    [
        (9, near(), "No rack domain has room for all 9 pods; the best of 4, b1/r1, has room for 8."),
        (3, near("room"), "the topology has no level room"),
        (3, near("room", levels=("room",)), "no node has the label room"),
        (
            14,
            near("block", slices=(Slice("rack", 5),)),
            "No block domain has room for all 14 pods in slices of 5; the best of 2, b1, has room for 10.",
        ),
        (99, near(mode=Together.PREFERRED), "99 pods of the gang"),
    ],
)
def test_it_says_how_far_the_best_domain_goes(count, asked, message):
    cluster = cluster_of(SIX)
    told = diagnose(cluster.nodes, Ask(pod_class(cluster), count, topology=asked), DEFAULT_PROFILE)
    assert message in told.message


@st.composite
def clusters(draw):
    rooms = {}
    for block in range(draw(st.integers(1, 2))):
        for rack in range(draw(st.integers(1, 3))):
            for host in range(draw(st.integers(1, 3))):
                rooms[f"b{block}/r{block}{rack}/n{block}{rack}{host}"] = draw(st.integers(0, 5))
    return rooms


@given(
    clusters(),
    st.integers(1, 9),
    st.integers(1, 2),
    st.sampled_from(["block", "rack"]),
    st.sampled_from([LEVELS, RACKS]),
)
def test_required_pods_are_in_one_domain_whenever_there_is_one(rooms, count, cpu, level, levels):
    cluster = cluster_of(rooms)
    placed = where(cluster, Ask(pod_class(cluster, cpu=str(cpu)), count, topology=near(level, levels=levels)))
    room: Counter = Counter()
    for path, cores in rooms.items():
        room[path.rsplit("/", 1 if level == "rack" else 2)[0]] += cores // cpu
    enough = [n for n in room.values() if n >= count]
    assert (placed is not None) == bool(enough)
    if placed is not None:
        assert sum(placed.values()) == count
        found = domains(cluster, placed, *levels[: levels.index(level) + 1])
        assert len(found) == 1
        assert room["/".join(next(iter(found)))] == min(enough)


@given(clusters(), st.integers(1, 9), st.sampled_from(["block", "rack"]))
def test_preferred_pods_are_placed_wherever_there_is_room(rooms, count, level):
    cluster = cluster_of(rooms)
    placed = where(cluster, Ask(pod_class(cluster), count, topology=near(level, Together.PREFERRED)))
    assert (placed is not None) == (sum(rooms.values()) >= count)


@given(clusters(), st.integers(1, 9), st.integers(1, 3), st.sampled_from([LEVELS, RACKS]))
def test_slices_stay_whole(rooms, count, size, levels):
    cluster = cluster_of(rooms)
    sliced = near("block", levels=levels, slices=(Slice("rack", size),))
    placed = where(cluster, Ask(pod_class(cluster), count, topology=sliced))
    slices: Counter = Counter()
    for rack, cores in _per_rack(rooms).items():
        slices[rack.split("/")[0]] += cores // size
    assert (placed is not None) == any(n >= -(-count // size) for n in slices.values())
    if placed is not None:
        found = domains(cluster, placed, "block", "rack")
        assert sum(-(-n // size) for n in found.values()) == -(-count // size)


def _per_rack(rooms):
    out: Counter = Counter()
    for path, cores in rooms.items():
        out[path.rsplit("/", 1)[0]] += cores
    return out


@given(clusters(), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_a_leader_and_its_workers_find_a_rack_whenever_there_is_one(rooms, count, cpu, swapped):
    cluster = cluster_of(rooms)
    worker, leader = pod_class(cluster), pod_class(cluster, cpu=str(cpu), nodeSelector={})
    asks = [Ask(worker, count, topology=near(group="w")), Ask(leader, 1, topology=near(group="l"))]
    with cluster.transaction() as transaction:
        placed = place_together(cluster.nodes, transaction, asks[::-1] if swapped else asks, DEFAULT_PROFILE)
        fits = not isinstance(placed, Diagnosis)
        if fits:
            racks = {cluster.nodes.labels[row]["rack"] for found in placed for row in found}
            assert len(racks) == 1
            assert (cluster.nodes.requested <= cluster.nodes.allocatable).all()
    nodes_of = {rack: [c for path, c in rooms.items() if path.rsplit("/", 1)[0] == rack] for rack in _per_rack(rooms)}
    assert fits == any(sum(cores) - cpu >= count and max(cores) >= cpu for cores in nodes_of.values())


@given(clusters(), st.integers(1, 6), st.integers(0, 6))
def test_what_is_extra_stays_near(rooms, count, extra):
    cluster = cluster_of(rooms)
    asks = [Ask(pod_class(cluster), count, extra, topology=near())]
    placed = where(cluster, asks[0])
    best = max(_per_rack(rooms).values())
    if best < count:
        assert placed is None
        return
    assert len(domains(cluster, placed, "rack")) == 1
    assert sum(placed.values()) == min(best, count + extra)


def test_the_tree_follows_the_labels():
    cluster = cluster_of({"b/r1/a": 2, "b/r2/b": 2})
    assert where(cluster, Ask(pod_class(cluster), 4, topology=near())) is None
    cluster.put_node(node("b", cpu=2, labels={"block": "b", "rack": "r1"}))
    assert where(cluster, Ask(pod_class(cluster), 4, topology=near())) == {"a": 2, "b": 2}
    cluster.remove_node("a")
    assert where(cluster, Ask(pod_class(cluster), 2, topology=near())) == {"b": 2}
    cluster.put_node(node("b", cpu=2))
    assert where(cluster, Ask(pod_class(cluster), 1, topology=near())) is None
    assert np.array_equal(cluster.nodes.requested, np.zeros_like(cluster.nodes.requested))
