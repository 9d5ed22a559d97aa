"""A gang placed at once goes where its pods would have gone one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.scenes import LABELS, clusters, one_after_another, pod, specs
from tutti.placement.gang import Ask, place
from tutti.placement.profile import profile_of
from tutti.placement.scores import Packing

PACKINGS = [Packing(), Packing(most=True), Packing(shape=((0, 0), (50, 10), (100, 3)))]


@settings(max_examples=400, deadline=None)
@given(
    clusters(),
    specs(),
    st.sampled_from(LABELS),
    st.sampled_from(["", "300m", "1", "2"]),
    st.integers(1, 12),
    st.sampled_from(PACKINGS),
)
def test_equal_pods_go_where_sequential_decisions_put_them(cluster, spec, labels, cpu, count, packing):
    one = pod("p", labels=labels, cpu=cpu, **spec)
    klass = cluster.classes.of(one.spec, "default", labels)
    profile = profile_of(packing)
    before = cluster.nodes.residents.snapshot()
    expected = one_after_another(cluster, klass, count, profile)

    with cluster.transaction() as transaction:
        rows = place(cluster.nodes, transaction, Ask(klass, 0, count), profile)
        assert sorted(rows.tolist()) == sorted(expected)
    with cluster.transaction() as transaction:
        rows = place(cluster.nodes, transaction, Ask(klass, count), profile)
        assert (rows is None) == (len(expected) < count)
    assert cluster.nodes.residents.snapshot() == before
    assert (cluster.nodes.requested == cluster.recount()).all()
