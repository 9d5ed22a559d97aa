"""Who is where follows the pods, and answers are as if every pod had been asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tests.placement.scenes import LABELS, SELECTORS, node, pod
from tutti.api.selectors import LabelSelector
from tutti.cluster.cluster import Cluster
from tutti.cluster.label_index import LabelIndex, NamespaceIndex
from tutti.cluster.signatures import UNCONSTRAINED, InterPodConstraints, PodQuery, PodSignature, PodTerm
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE


def changed(one: Any, **metadata: Any) -> Any:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, **metadata))


def counted(cluster: Cluster) -> dict[tuple[Any, ...], int]:
    """What the pods on nodes should be, counted anew."""
    out: dict[tuple[Any, ...], int] = {}
    for record in cluster.pods.values():
        row = cluster.nodes.rows.get(record.place)
        if row is not None:
            key = (record.pod_signature, record.deleting, row)
            out[key] = out.get(key, 0) + 1
    return out


def scored(cluster: Cluster) -> np.ndarray:
    out = np.zeros_like(cluster.nodes.scored)
    for record in cluster.pods.values():
        if record.place in cluster.nodes.rows:
            out[cluster.nodes.rows[record.place]] += np.array(record.weight)
    return out


def tenants(cluster: Cluster) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What the columns of the pods say of each, by its name."""
    columns, axis = cluster.pod_columns, cluster.nodes.resource_index
    slots = np.flatnonzero(columns.row >= 0)
    held, weight = columns.held(slots, axis).tolist(), columns.weight(slots, axis).tolist()
    said = (columns.row, columns.priority, columns.started, columns.bound, columns.leaving)
    each = zip(columns.at(slots), *(column[slots].tolist() for column in said), held, weight, strict=True)
    return {record.key: tuple(rest) for record, *rest in each}


def told(cluster: Cluster) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What they should say."""
    nodes = cluster.nodes
    return {
        record.key: (
            nodes.rows[record.place],
            record.priority,
            float("inf") if record.started is None else record.started,
            bool(record.node),
            record.deleting,
            nodes.vector(record.held).tolist(),
            list(record.weight),
        )
        for record in cluster.pods.values()
        if record.place in nodes.rows
    }


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "gone", "node", "no node", "end", "gang"]),
        st.integers(0, 5),
        st.integers(0, 2),
        st.sampled_from(LABELS),
        st.booleans(),
    ),
    max_size=30,
)


@examples(200)
@given(steps)
def test_columns_follow_whatever_happens_to_pods_and_nodes(history):
    cluster = Cluster()
    for what, i, j, labels, flag in history:
        name = f"p{i}"
        if what == "put":
            one = pod(name, labels=labels, node=f"n{j}" if flag else "", cpu="" if i % 2 else "1", priority=i * j)
            cluster.put_pod(one, keep=True)
        elif what == "gone":
            cluster.remove_pod(("default", name))
        elif what == "node":
            cluster.put_node(node(f"n{j}", cpu=2 + i))
        elif what == "no node":
            cluster.remove_node(f"n{j}")
        elif what == "end":
            one = changed(pod(name, labels=labels, node=f"n{j}"), deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
            cluster.put_pod(one, keep=True)
        elif what == "gang":
            waiting = [record for record in cluster.pods.values() if record.placeable]
            gang = [record for record in waiting if record.pod_class is waiting[0].pod_class]
            with cluster.transaction() as transaction:
                rows = (
                    place_ask(cluster.nodes, transaction, Ask(gang[0].pod_class, len(gang)), DEFAULT_PROFILE)
                    if gang
                    else None
                )
                if rows is not None and flag:
                    transaction.commit()
                    cluster.assume_all(gang, rows.tolist())
        assert cluster.nodes.label_index.snapshot() == counted(cluster)
        assert (cluster.nodes.scored == scored(cluster)).all()
        assert (cluster.nodes.requested == recounted(cluster)).all()
        assert tenants(cluster) == told(cluster)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(LABELS),
            st.sampled_from(["a", "b"]),
            st.integers(0, 3),
            st.sampled_from(["in", "out", "as"]),
            st.sets(st.sampled_from(range(len(SELECTORS)))),
        )
    )
)
def test_kept_answers_are_those_of_each_pod(changes):
    """Whenever something is asked first, and however often it is asked again."""
    index, around = LabelIndex(), NamespaceIndex()
    signatures: dict[tuple[Any, ...], PodSignature] = {}
    queries = [PodQuery.of(["a"], msgspec.convert(one, LabelSelector)) for one in SELECTORS]
    there: list[tuple[PodSignature, int]] = []
    for labels, namespace, row, what, asked in changes:
        pod_signature = signatures.setdefault(
            (namespace, *sorted(labels.items())), PodSignature(namespace, labels, UNCONSTRAINED)
        )
        if what == "in":
            index.add(pod_signature, row)
            there.append((pod_signature, row))
        elif what == "as":
            index.relabel(pod_signature, {**LABELS[row], "zone": "z"})
        elif (pod_signature, row) in there:
            index.add(pod_signature, row, count=-1)
            there.remove((pod_signature, row))
        for query in (queries[number] for number in sorted(asked)):
            rows, counts, _ = index.where(index.matching(query, around))
            found = sorted(row for row, count in zip(rows.tolist(), counts.tolist(), strict=True) for _ in range(count))
            assert found == sorted(
                row for pod_signature, row in there if query.matches(pod_signature.namespace, {}, pod_signature.labels)
            )


def test_a_pod_that_is_labelled_anew_shares_the_signature_of_those_with_the_same_labels_only():
    """The server labels a pod with the zone of its node: one that nobody is like stays the signature it is, as that."""
    cluster = Cluster()
    for name in ("one", "two"):
        cluster.put_pod(pod(name, labels={"app": name}), keep=True)
    first = cluster.pods["default", "one"].pod_signature
    cluster.put_pod(pod("one", labels={"app": "x", "zone": "a"}), keep=True)
    assert cluster.pods["default", "one"].pod_signature is first
    cluster.put_pod(pod("two", labels={"app": "x", "zone": "a"}), keep=True)
    assert cluster.pods["default", "two"].pod_signature is first
    cluster.put_pod(pod("two", labels={"app": "y", "zone": "a"}), keep=True)
    assert [record.pod_signature.labels["app"] for record in cluster.pods.values()] == ["x", "y"]
    for name in ("one", "two"):
        cluster.remove_pod(("default", name))
    assert len(cluster._signatures) == 0


def test_a_namespace_that_changes_its_labels_changes_the_answer():
    index, around = LabelIndex(), NamespaceIndex()
    index.add(PodSignature("a", {"app": "x"}, UNCONSTRAINED), 0)
    query = PodQuery.of([], LabelSelector(), LabelSelector(match_labels={"team": "red"}))

    assert not index.matching(query, around).any()
    around.put_namespace("a", {"team": "red"})
    assert index.matching(query, around).all()


@pytest.mark.parametrize("nodes", [3, 60])  # few are counted one by one
def test_many_rows_are_counted_at_once_as_one_by_one(nodes):
    cluster = Cluster()
    for number in range(nodes):
        cluster.put_node(node(f"n{number}"))
    pod_class = cluster.classes.of(pod("p", labels={"app": "x"}).spec, "default", {"app": "x"})
    index, signature = cluster.nodes.label_index, pod_class.pod_signature
    rows, counts = np.arange(nodes), np.arange(nodes) % 3 + 1
    index.add_counted(signature, rows, counts)
    index.add_counted(signature, rows[: nodes // 2], counts[: nodes // 2])
    assert index.snapshot() == {
        (signature, False, row): (row % 3 + 1) * (2 if row < nodes // 2 else 1) for row in range(nodes)
    }
    index.add_counted(signature, rows, -counts)
    assert index.snapshot() == {(signature, False, row): row % 3 + 1 for row in range(nodes // 2)}
    index.add_counted(signature, rows[: nodes // 2], -counts[: nodes // 2])
    assert index.snapshot() == {}
    assert signature.code < 0


def test_what_is_put_in_a_transaction_is_seen_only_while_it_lasts():
    cluster = Cluster()
    cluster.put_node(node("n0"))
    pod_class = cluster.classes.of(pod("p", labels={"app": "x"}).spec, "default", {"app": "x"})
    with cluster.transaction() as transaction:
        transaction.put(np.array([0]), np.array([2]), pod_class)
        assert transaction.unshown
        transaction.show()
        assert cluster.nodes.label_index.snapshot() == {(pod_class.pod_signature, False, 0): 2}
        transaction.rollback()
        assert cluster.nodes.label_index.snapshot() == {}
        assert not cluster.nodes.scored.any()
        transaction.put(np.array([0]), np.array([1]), pod_class)
        transaction.show()
        transaction.commit()
    assert cluster.nodes.label_index.snapshot() == {}
    assert cluster.nodes.scored[0].tolist() == list(pod_class.weight)


REQUIREMENTS: list[dict[str, Any]] = [
    {"key": "app", "operator": "In", "values": ["x", "y", "y"]},
    {"key": "app", "operator": "In", "values": ["x", *map(str, range(100))]},
    {"key": "app", "operator": "In", "values": []},
    {"key": "tier", "operator": "Exists"},
    {"key": "tier", "operator": "DoesNotExist"},
    {"key": "app", "operator": "NotIn", "values": ["x"]},
]


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([{}, {"app": "x"}, {"app": "x", "tier": "t"}, None]),
            st.lists(st.sampled_from(REQUIREMENTS), max_size=2),
            st.sampled_from(["a", "b"]),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.sampled_from(LABELS),
)
def test_terms_that_mean_a_pod_are_found_by_its_labels_each_once(terms, labels):
    index, around = LabelIndex(), NamespaceIndex()
    every = []
    for matched, expressions, namespace, everywhere in terms:
        asked = {"matchLabels": matched, "matchExpressions": expressions}
        selector = None if matched is None else msgspec.convert(asked, LabelSelector)
        query = PodQuery.of([namespace], selector, LabelSelector() if everywhere else None)
        every.append(PodTerm("zone", query, len(every)))
    about = InterPodConstraints(
        affinity=tuple(every[::3]), anti_affinity=tuple(every[1::3]), preferred=tuple(every[2::3])
    )
    signatures = [PodSignature("a", {}, about), PodSignature("b", {}, about)]
    for signature in signatures:
        index.add(signature, 0)

    def means(term: PodTerm) -> bool:
        return term.query.matches("a", around.namespace_labels("a"), labels)

    found = [(code, *own) for code, some in index.terms_about("a", labels) for own in some if means(own[1])]
    expected = [(one.code, *own) for one in signatures for own in about.by_kind if means(own[1])]
    assert sorted(found, key=repr) == sorted(expected, key=repr)

    for signature in signatures:
        index.add(signature, 0, count=-1)
    assert list(index.terms_about("a", labels)) == []
    assert not index._by_anchor
