"""Selectors (Kubernetes 1.36, apimachinery/pkg/labels and component-helpers/scheduling/corev1/nodeaffinity)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)

LABELS = {"zone": "a", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("zone", "In", [], False),
        ("absent", "In", ["a"], False),
        ("empty", "In", [""], True),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("absent", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("empty", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("zone", "in", ["a"], False),
        ("zone", "", ["a"], False),
    ],
)
def test_label_operators(key, operator, values, matches):
    for requirement in (LabelSelectorRequirement, NodeSelectorRequirement):
        assert requirement(key=key, operator=operator, values=values).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("cores", "Gt", ["7"], True),
        ("cores", "Gt", ["8"], False),
        ("cores", "Lt", ["9"], True),
        ("cores", "Lt", ["8"], False),
        ("cores", "Gt", ["10"], False),
        ("cores", "Gt", ["-1"], True),
        ("cores", "Gt", [], False),
        ("cores", "Gt", ["1", "2"], False),
        ("cores", "Gt", ["seven"], False),
        ("zone", "Gt", ["1"], False),
        ("absent", "Lt", ["1"], False),
        ("cores", "Gt", ["1_0"], False),
    ],
)
def test_gt_and_lt_compare_integers_and_nothing_else(key, operator, values, matches):
    assert NodeSelectorRequirement(key=key, operator=operator, values=values).matches(LABELS) is matches
    assert not LabelSelectorRequirement(key=key, operator=operator, values=values).matches(LABELS)


def test_an_empty_label_selector_matches_everything():
    assert LabelSelector().matches({})
    assert LabelSelector().matches(LABELS)


def test_all_of_a_label_selector_must_hold():
    exists = LabelSelectorRequirement(key="cores", operator="Exists")
    assert LabelSelector(match_labels={"zone": "a"}, match_expressions=[exists]).matches(LABELS)
    assert not LabelSelector(match_labels={"zone": "b"}, match_expressions=[exists]).matches(LABELS)
    assert not LabelSelector(match_labels={"zone": "a"}, match_expressions=[exists]).matches({"zone": "a"})


def test_terms_are_alternatives_and_an_empty_term_matches_nothing():
    zone = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key="zone", operator="In", values=["a"])])
    assert not NodeSelectorTerm().matches(LABELS, "n1")
    assert not NodeSelector().matches(LABELS, "n1")
    assert not NodeSelector(node_selector_terms=[NodeSelectorTerm()]).matches(LABELS, "n1")
    assert NodeSelector(node_selector_terms=[NodeSelectorTerm(), zone]).matches(LABELS, "n1")


def test_fields_match_the_name_only_and_together_with_expressions():
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=["n1"])
    zone = NodeSelectorRequirement(key="zone", operator="In", values=["a"])
    assert NodeSelectorTerm(match_fields=[name]).matches({}, "n1")
    assert not NodeSelectorTerm(match_fields=[name]).matches({}, "n2")
    assert NodeSelectorTerm(match_fields=[name], match_expressions=[zone]).matches(LABELS, "n1")
    assert not NodeSelectorTerm(match_fields=[name], match_expressions=[zone]).matches({}, "n1")
    other = NodeSelectorRequirement(key="spec.unschedulable", operator="NotIn", values=["true"])
    assert not NodeSelectorTerm(match_fields=[other]).matches({}, "n1")


def test_selectors_decode_from_the_wire_names():
    raw = b'{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}],"unknown":1}]}'
    assert msgspec.json.decode(raw, type=NodeSelector).matches(LABELS, "n1")


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
    st.sampled_from("abc"),
    st.lists(st.sampled_from("xyz")),
)
def test_each_negative_operator_is_the_opposite_of_its_positive_one(labels, key, values):
    for positive, negative in (("In", "NotIn"), ("Exists", "DoesNotExist")):
        yes = LabelSelectorRequirement(key=key, operator=positive, values=values).matches(labels)
        no = LabelSelectorRequirement(key=key, operator=negative, values=values).matches(labels)
        assert yes is not no
