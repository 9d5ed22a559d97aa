"""Placing over kinds of nodes gives what placing over all nodes gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import LABELS, node, one_after_another, pod, service, specs, with_packing
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask, place_ask
from tutti.placement.node_kinds import MOST_KINDS, NodeKinds
from tutti.placement.plugins.node_resources import AllocationScore
from tutti.placement.plugins.soft_spread import PreferredSpread
from tutti.placement.profile import DEFAULT_PROFILE

ZONE = "topology.kubernetes.io/zone"


@st.composite
def alike_clusters(draw: st.DrawFn) -> Cluster:
    """Up to 24 nodes that are copies of a few."""
    cluster = Cluster()
    sizes = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=3))
    for i in range(draw(st.integers(1, 24))):
        cpu, memory, pods = draw(st.sampled_from(sizes))
        labels = {ZONE: draw(st.sampled_from("ab"))} if draw(st.integers(0, 5)) else {}
        cluster.put_node(node(f"n{i}", cpu=cpu, memory=memory, pods=pods, labels=labels))
    if draw(st.booleans()):
        cluster.put_selecting(service("s", app="x"))
    for i in range(draw(st.integers(0, 5))):
        where = draw(st.sampled_from(sorted(cluster.nodes.rows)))
        cluster.put_pod(pod(f"e{i}", labels=draw(st.sampled_from(LABELS)), node=where, **draw(specs())), keep=False)
    return cluster


@examples(300)
@given(
    alike_clusters(),
    specs(),
    st.sampled_from(LABELS),
    st.integers(1, 30),
    st.sampled_from(["", "500m"]),
    st.sampled_from([AllocationScore(), AllocationScore(most=True)]),
)
def test_pods_that_mind_each_other_go_where_sequential_decisions_put_them(cluster, spec, labels, count, cpu, packing):
    pod_class = cluster.classes.of(pod("p", labels=labels, cpu=cpu, **spec).spec, "default", labels)
    profile = with_packing(packing)
    expected = one_after_another(cluster, pod_class, count, profile)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
    assert sorted(rows.tolist()) == sorted(expected)


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_more_kinds_than_are_worth_telling_apart_change_nothing(when):
    """Each host is a domain of its own: with so many, nodes are looked at one by one."""
    cluster = Cluster()
    for i in range(MOST_KINDS + 10):
        cluster.put_node(node(f"n{i}", cpu=1 + i % 5, labels={"rack": f"r{i}"}))
    spread = {
        "topologyKey": "rack",
        "maxSkew": 1,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    pod_class = cluster.classes.of(pod("p", topologySpreadConstraints=[spread]).spec, "default", {"app": "x"})
    expected = one_after_another(cluster, pod_class, 12, DEFAULT_PROFILE)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 12), DEFAULT_PROFILE)
    assert sorted(rows.tolist()) == sorted(expected)


def test_rows_are_of_one_kind_where_all_features_agree():
    zone, known = np.array([1, 1, 2, 2, 1]), np.array([True, True, True, True, False])
    kinds = NodeKinds.of(np.arange(5), np.array([5, 7, 3, 3, 9]), [zone, known], wanted=5)
    assert kinds is not None
    assert len(kinds) == 3
    by_first = {
        int(first): (int(size), kinds.row(kind))
        for kind, (first, size) in enumerate(zip(kinds.first, kinds.sizes, strict=True))
    }
    assert by_first == {0: (2, 1), 2: (2, 2), 4: (1, 4)}


@pytest.mark.parametrize(
    ("more", "first"),
    [(None, 0), ([0, 0, 0], 0), ([0, 2, 0], 0), ([0, 3, 0], 1), ([0, 0, 1], 4), ([0, 2, 1], 4)],
)
def test_of_kinds_worth_the_same_the_one_with_the_lowest_row_is_best(more, first):
    kinds = NodeKinds.of(np.arange(5), np.array([5, 3, 5, 3, 5]), [np.array([0, 1, 0, 1, 2])], wanted=5)
    assert kinds is not None
    worth = kinds.worth(np.arange(3), None if more is None else np.array(more))
    assert int(kinds.first[worth.argmax()]) == first
    assert worth.tolist() == [kinds.worth_of(kind, 0 if more is None else more[kind]) for kind in range(3)]


def test_a_kind_without_room_is_there_no_more_and_one_with_its_first_row_is():
    kinds = NodeKinds.of(np.arange(2), np.array([5, 7]), [np.array([0, 0])], wanted=5)
    assert kinds is not None
    more, new = kinds.branch(0)
    assert (more, new, kinds.there.tolist()) == (1, True, [True, False])
    assert kinds.move(0, more, 3)
    assert (kinds.row(more), kinds.there.tolist()) == (1, [True, True])
    assert not kinds.move(0, 0, 4)
    assert kinds.move(0, 0, None)
    assert kinds.there.tolist() == [False, True]


@examples(50)
@given(
    st.lists(st.integers(0, 5), min_size=60, max_size=60),
    st.lists(st.none() | st.integers(0, 5), min_size=19, max_size=19),
)
def test_of_one_kind_the_best_row_is_next_however_many_were_taken_before(fill, again):
    """Only the first few of a kind are at hand from the beginning."""
    kinds = NodeKinds.of(np.arange(60), np.array(fill), [np.arange(60) % 3], wanted=20)
    assert kinds is not None
    at_hand = set(kinds.at_hand().tolist())
    now = {row: fill[row] for row in range(0, 60, 3)}
    for score in again:
        best = min(now, key=lambda row: (-now[row], row))
        assert kinds.row(0) == best
        if best not in at_hand:
            at_hand.update(kinds.at_hand().tolist())
        assert best in at_hand
        if score is None and len(now) > 1:
            del now[best]
            kinds.move(0, 0, None)
        elif score is not None:
            now[best] = score
            kinds.move(0, 0, score)
        assert kinds.sizes[0] == len(now)


@examples(50)
@given(st.integers(1, 4), st.booleans(), st.lists(st.integers(0, 5), max_size=40))
def test_scores_of_a_soft_spread_are_the_same_whether_kept_or_computed_anew(skew, full, added):
    cluster = Cluster()
    for i in range(6):
        cluster.put_node(node(f"n{i}", labels={} if i == 5 and not full else {ZONE: f"z{i // (1 + (skew > 3))}"}))
    over = {"topologyKey": ZONE, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
    selector = {"labelSelector": {"matchLabels": {"app": "x"}}}
    pod_class = cluster.classes.of(pod("p", topologySpreadConstraints=[over | selector]).spec, "default", {"app": "x"})
    kept, anew = (PreferredSpread().pre_score(pod_class, cluster.nodes) for _ in range(2))
    assert kept is not None
    assert anew is not None
    rows = np.arange(6)
    for row in added:
        assert kept.scores(rows).tolist() == anew.scores(rows.copy()).tolist()
        kept.add(row)
        anew.add(row)
