"""What must hold of every placement into the domains of a topology."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import unhurried
from tutti.api.taints import Taint, Toleration
from tutti.placement.topology.request import HOSTNAME, Slice, Together, TopologyRequest
from tutti.quota.domains import DomainTree, Place, pods_in, with_pod
from tutti.quota.flavors import Flavor
from tutti.quota.fungibility import Mode, Rank
from tutti.quota.outcome import Choice, Chosen, PodSetChoice, Verdict
from tutti.quota.podsets import PodSet
from tutti.quota.topologies import Occupied, Placing, Topologies
from tutti.quota.topology import Misplaced, Placement, Placer

LEVELS = ("block", "rack", HOSTNAME)
LOOSE = TopologyRequest()


@st.composite
def topologies(draw):
    """Up to three blocks of up to three racks of up to three nodes, some of whose room is taken."""
    places, taken = [], []
    for block in range(draw(st.integers(1, 3))):
        for rack in range(draw(st.integers(1, 3))):
            for host in range(draw(st.integers(1, 3))):
                name = f"n{block}{rack}{host}"
                labels = {"block": f"b{block}", "rack": f"r{rack}", HOSTNAME: name}
                places.append(Place(name, labels, {"cpu": draw(st.integers(0, 6)), "pods": draw(st.integers(0, 6))}))
                taken.append(((name,), {"cpu": 1}, draw(st.integers(0, 1))))
    tree = DomainTree(LEVELS, places)
    for one in taken:
        tree.take(*one)
    return tree


@st.composite
def requests(draw):
    together = draw(st.sampled_from(Together))
    level = "" if together is Together.ANYWHERE else draw(st.sampled_from(LEVELS))
    slices = draw(
        st.sampled_from([(), (Slice("rack", 2),), (Slice(HOSTNAME, 2),), (Slice("rack", 4), Slice(HOSTNAME, 2))])
    )
    return TopologyRequest(together, level, slices)


def pods(count, request, cpu=1, **more):
    return PodSet("main", count, {"cpu": cpu}, topology=request, **more)


def room(tree, cpu=1, extra=None):
    """How many pods find room in each leaf."""
    left = tree.left()
    for values, amounts in (extra or {}).items():
        for name, amount in amounts.items():
            left[name][tree.leaf_of[values]] -= amount
    return dict(zip(tree.values, pods_in(with_pod({"cpu": cpu}), left, len(tree.values)).tolist(), strict=True))


def per_domain(tree, domains, level):
    """Pods per domain of a level."""
    depth = LEVELS.index(level) + 1
    counts = Counter()
    for values, count in domains:
        labels = next(place.labels for place in tree.places if place.name == values[0])
        counts[tuple(labels[one] for one in LEVELS[:depth])] += count
    return counts


def is_known(request):
    """Whether the slices are within what the request names."""
    return (
        not request.slices or not request.level or LEVELS.index(request.level) <= LEVELS.index(request.slices[0].level)
    )


@unhurried
@given(topologies(), requests(), st.integers(1, 6), st.integers(1, 2))
def test_pods_are_where_there_is_room_and_where_they_asked_to_be(tree, request, slices, cpu):
    count = slices * (request.slices[0].size if request.slices else 1)
    found = Placer(tree).place([pods(count, request, cpu)])["main"]
    if not is_known(request):
        assert isinstance(found, Misplaced)
    if isinstance(found, Misplaced):
        return
    assert found.levels == (HOSTNAME,)
    assert sum(n for _, n in found.domains) == count
    assert all(0 < n <= room(tree, cpu)[values] for values, n in found.domains)
    if request.together is Together.REQUIRED:
        assert len(per_domain(tree, found.domains, request.level)) == 1
    for one in request.slices:
        assert not [n for n in per_domain(tree, found.domains, one.level).values() if n % one.size]


@unhurried
@given(topologies(), st.sampled_from(Together), st.sampled_from(LEVELS), st.integers(1, 12))
def test_pods_are_refused_only_where_there_is_no_room(tree, together, level, count):
    request = TopologyRequest(together, "" if together is Together.ANYWHERE else level)
    found = Placer(tree).place([pods(count, request)])["main"]
    by_domain = per_domain(tree, list(room(tree).items()), level)
    whole = max(by_domain.values())
    enough = whole if together is Together.REQUIRED else by_domain.total()
    assert isinstance(found, Placement) == (count <= enough)
    if isinstance(found, Misplaced):
        assert found.fits == enough
    elif together is Together.PREFERRED and count <= whole:
        assert len(per_domain(tree, found.domains, level)) == 1


@unhurried
@given(topologies(), st.sampled_from(LEVELS[:2]), st.integers(1, 8))
def test_a_leader_is_in_the_same_domain_as_its_workers(tree, level, count):
    request = TopologyRequest(Together.REQUIRED, level)
    leader = PodSet("leader", 1, {"cpu": 2}, topology=request, group="g")
    workers = PodSet("workers", count, {"cpu": 1}, topology=request, group="g")
    found = Placer(tree).place([leader, workers])
    if isinstance(found["workers"], Misplaced):
        assert found["leader"] == found["workers"]
        return
    together = (*found["leader"].domains, *found["workers"].domains)
    assert len(per_domain(tree, together, level)) == 1
    ((home, one),) = found["leader"].domains
    assert one == 1
    left = room(tree, extra={home: with_pod({"cpu": 2})})
    assert all(n <= left[values] for values, n in found["workers"].domains)


@unhurried
@given(topologies(), st.integers(1, 6), st.integers(1, 6))
def test_pod_sets_do_not_take_each_others_room(tree, first, second):
    sets = [PodSet("one", first, {"cpu": 1}, topology=LOOSE), PodSet("two", second, {"cpu": 2}, topology=LOOSE)]
    found = Placer(tree).place(sets)
    if any(isinstance(one, Misplaced) for one in found.values()):
        return
    extra = {values: {"cpu": n, "pods": n} for values, n in found["one"].domains}
    left = room(tree, 2, extra)
    assert all(n <= left[values] for values, n in found["two"].domains)


def one_rack(*cpus, **more):
    labels = [{"block": "b", "rack": "r", HOSTNAME: f"x{i}"} for i in range(len(cpus))]
    return DomainTree(
        LEVELS,
        [Place(f"x{i}", labels[i], {"cpu": cpu, "pods": 10}, **more) for i, cpu in enumerate(cpus)],
    )


def placed(tree, count, request, **more):
    found = Placer(tree, **more).place([pods(count, request)])["main"]
    return found if isinstance(found, Misplaced) else {values[0]: n for values, n in found.domains}


def test_pods_that_may_be_anywhere_fill_up_the_fullest_nodes_first():
    # Kueue, KEP-2724: nodes 6, 5, 4, 3, 2 with slices of 2 and 10 pods
    request = TopologyRequest(slices=(Slice(HOSTNAME, 2),))
    assert placed(one_rack(6, 5, 4, 3, 2), 10, request) == {"x1": 2, "x2": 4, "x3": 2, "x4": 2}


def test_pods_that_should_be_together_fill_the_widest_nodes_and_the_tightest_last():
    # Kueue, KEP-2724: nodes 6, 5, 4, 3, 2 with slices of 2 and 12 pods
    request = TopologyRequest(Together.PREFERRED, "rack", (Slice(HOSTNAME, 2),))
    assert placed(one_rack(6, 5, 4, 3, 2), 12, request) == {"x0": 6, "x2": 4, "x4": 2}


def test_a_tainted_node_takes_only_pods_that_tolerate_it():
    tree = one_rack(4, taints=(Taint("gpu", "", "NoSchedule"),))
    assert isinstance(placed(tree, 1, LOOSE), Misplaced)
    assert placed(tree, 1, LOOSE, tolerations=(Toleration("gpu", "Exists"),)) == {"x0": 1}


def test_as_if_nothing_were_placed_there_is_more_room():
    tree = one_rack(4)
    tree.take(("x0",), {"cpu": 1}, 3)
    assert isinstance(placed(tree, 2, LOOSE), Misplaced)
    assert placed(tree, 2, LOOSE, empty=True) == {"x0": 2}
    tree.take(("x0",), {"cpu": 1}, -3)
    assert placed(tree, 2, LOOSE) == {"x0": 2}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (TopologyRequest(Together.REQUIRED, "room"), "the topology has no level room"),
        (TopologyRequest(slices=(Slice("rack", 0),)), "slices of 0 pods cannot be; give a size of 1 or more"),
        (
            TopologyRequest(Together.REQUIRED, HOSTNAME, (Slice("rack", 2),)),
            f"slices cannot be kept in rack, which is wider than {HOSTNAME}",
        ),
        (
            TopologyRequest(slices=(Slice("rack", 4), Slice(HOSTNAME, 3))),
            "slices of 4 pods cannot be divided into slices of 3",
        ),
        (
            TopologyRequest(slices=(Slice("rack", 4), Slice("block", 2))),
            "slices in block must be within those in rack",
        ),
    ],
)
def test_a_request_that_cannot_be_met_anywhere_says_why(request_, message):
    assert placed(one_rack(4), 4, request_).message == message


def test_a_node_counts_once_for_all_flavors_that_have_it():
    shared = Topologies({"a": one_rack(4), "b": one_rack(4)})
    taken = [Occupied("a", ("x0",), {"cpu": 1}, 3)]
    shared.take(taken)
    assert shared.fits([Occupied("b", ("x0",), {"cpu": 1}, 1)])
    assert not shared.fits([Occupied("b", ("x0",), {"cpu": 1}, 2)])
    shared.take(taken, -1)
    assert shared.fits([Occupied("b", ("x0",), {"cpu": 1}, 4)])


def chosen(count):
    pod_set = PodSetChoice("main", count, {"cpu": count}, {"cpu": Chosen("a", Rank(Mode.FIT))})
    pod_set.topology_of = "a"
    return Choice([pod_set])


@pytest.mark.parametrize(("count", "verdict"), [(1, Verdict.FIT), (3, Verdict.PREEMPT), (5, Verdict.NO_FIT)])
def test_what_fits_by_quota_needs_a_place_too(count, verdict):
    tree = one_rack(4)
    tree.take(("x0",), {"cpu": 1}, 3)
    choice = chosen(count)
    Placing(Topologies({"a": tree}), {"a": Flavor("a", levels=LEVELS)}).settle(choice, [pods(count, LOOSE)])
    assert choice.verdict is verdict
    assert (choice.pod_sets[0].placement is not None) == (verdict is Verdict.FIT)
