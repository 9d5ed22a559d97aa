"""Rings of cohorts and names of nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.flavors import FlavorGroup, Queue, QuotaProblem
from tutti.quota.references import cohort_problem, flavor_problem, queue_problem, ring_problem, rings

NAMES = st.sampled_from("abcdef")


@pytest.mark.parametrize(
    ("parents", "caught"),
    [
        ({}, {}),
        ({"a": "", "b": "a"}, {}),
        ({"a": "unknown"}, {}),
        ({"a": "a"}, {"a": ("a",)}),
        ({"b": "a", "a": "b"}, {"a": ("a", "b"), "b": ("a", "b")}),
        ({"c": "b", "b": "a", "a": "b"}, {"a": ("a", "b"), "b": ("a", "b"), "c": ("a", "b")}),
        ({"x": "x", "a": "b", "b": ""}, {"x": ("x",)}),
    ],
)
def test_rings_and_what_hangs_below_them_are_found(parents, caught):
    assert rings(parents) == caught


@given(st.dictionaries(NAMES, st.one_of(st.just(""), NAMES), max_size=6))
def test_what_is_not_caught_comes_to_an_end_and_what_is_never_does(parents):
    caught = rings(parents)
    for name in parents:
        at, steps = name, 0
        while at and steps <= len(parents):
            at, steps = parents.get(at, ""), steps + 1
        assert (name in caught) == bool(at)
    for ring in caught.values():
        assert ring[0] == min(ring)
        assert all(parents[one] == after for one, after in zip(ring, (*ring[1:], ring[0]), strict=True))


def test_a_ring_is_spelled_out_and_says_how_to_break_it():
    problem = ring_problem(("a", "b"))
    assert problem.reason == "CohortRing"
    assert "a -> b -> a; clear parentName of one of them" in problem.message


def test_a_queue_names_its_missing_flavors_once():
    queue = Queue("q", groups=(FlavorGroup(("cpu",), ("x", "y")), FlavorGroup(("gpu",), ("z", "x"))))
    problem = queue_problem(queue, {"y"}, {})
    assert problem is not None
    assert problem.message.startswith("ResourceFlavor x, z does not exist")
    assert queue_problem(queue, {"x", "y", "z"}, {}) is None


def test_what_cannot_be_read_is_told_before_what_is_missing():
    queue = Queue("q", groups=(FlavorGroup(("cpu",), ("x", "y")),))
    problem = queue_problem(queue, (), {}, unreadable={"y": "spec.a: wrong"})
    assert problem == ("FlavorInvalid", "ResourceFlavor y cannot be used: spec.a: wrong")
    problem = flavor_problem("racks", (), unreadable={"racks": "spec.b: wrong"})
    assert problem == ("TopologyInvalid", "Topology racks cannot be used: spec.b: wrong")


def test_a_cohort_above_that_cannot_be_read_is_told():
    parents, wrong = {"below": "top", "apart": ""}, {"top": "spec.c: wrong"}
    told = QuotaProblem("CohortInvalid", "Cohort top cannot be used: spec.c: wrong")
    assert cohort_problem("below", parents, unreadable=wrong) == cohort_problem("top", {}, unreadable=wrong) == told
    assert cohort_problem("apart", parents, unreadable=wrong) is None
    assert cohort_problem("", parents, unreadable=wrong) is None


def test_a_queue_in_a_ring_has_the_ring_as_its_problem():
    caught = rings({"a": "b", "b": "a"})
    assert queue_problem(Queue("q", cohort="a"), (), caught) == ring_problem(("a", "b"))
    assert queue_problem(Queue("q", cohort="c"), (), caught) is None


def test_a_flavor_names_its_missing_topology():
    problem = flavor_problem("racks", ())
    assert problem is not None
    assert "Topology racks does not exist" in problem.message
    assert flavor_problem("", ()) is None
    assert flavor_problem("racks", {"racks"}) is None
