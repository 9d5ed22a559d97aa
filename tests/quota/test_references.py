"""Rings of cohorts and names of nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.flavors import FlavorGroup, Queue, QuotaProblem
from tutti.quota.references import (
    MOST_COHORTS_ABOVE,
    cohort_problem,
    flavor_problem,
    is_own_ancestor,
    misplaced_cohorts,
    queue_problem,
)

NAMES = st.sampled_from("abcdef")


def ring_problem(*spelled):
    text = " -> ".join(spelled)
    return QuotaProblem("CohortRing", f"cohorts are their own ancestors: {text}; clear parentName of one of them")


@pytest.mark.parametrize(
    ("parents", "misplaced"),
    [
        ({}, {}),
        ({"a": "", "b": "a"}, {}),
        ({"a": "unknown"}, {}),
        ({"a": "a"}, {"a": "aa"}),
        ({"b": "a", "a": "b"}, {"a": "aba", "b": "aba"}),
        ({"c": "b", "b": "a", "a": "b"}, {"a": "aba", "b": "aba", "c": "aba"}),
        ({"x": "x", "a": "b", "b": ""}, {"x": "xx"}),
    ],
)
def test_rings_and_what_hangs_below_them_are_found(parents, misplaced):
    assert misplaced_cohorts(parents) == {name: ring_problem(*ring) for name, ring in misplaced.items()}


@given(st.dictionaries(NAMES, st.one_of(st.just(""), NAMES), max_size=6))
def test_what_is_misplaced_comes_to_no_end_and_all_else_does(parents):
    misplaced = misplaced_cohorts(parents)
    for name in parents:
        at, steps = name, 0
        while at and steps <= len(parents):
            at, steps = parents.get(at, ""), steps + 1
        assert (name in misplaced) == bool(at)
        above, at = set(), parents[name]
        while at and at not in above:
            above.add(at)
            at = parents.get(at, "")
        assert is_own_ancestor(name, parents) == (name in above)


def chain(length, end=""):
    return {f"c{number}": f"c{number + 1}" if number + 1 < length else end for number in range(length)}


@pytest.mark.parametrize("turned", [False, True])
def test_a_cohort_may_have_a_hundred_above_it_and_no_more(turned):
    parents = chain(3000)
    given_in_turn = dict(reversed(parents.items())) if turned else parents
    misplaced = misplaced_cohorts(given_in_turn)
    assert {name for name in parents if name not in misplaced} == {f"c{number}" for number in range(2899, 3000)}
    assert {one.reason for one in misplaced.values()} == {"CohortTooDeep"}
    assert misplaced_cohorts(chain(MOST_COHORTS_ABOVE + 1, end="not there")).keys() == {"c0"}


def test_a_long_ring_is_not_spelled_out_in_full():
    problem = misplaced_cohorts(chain(3000, end="c0"))["c7"]
    assert problem.reason == "CohortRing"
    assert "c0 -> c1 -> c2 -> c3 -> c4 -> c5 -> c6 -> c7 -> c8 -> c9 -> (2990 more) -> c0" in problem.message


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
    misplaced = misplaced_cohorts({"a": "b", "b": "a"})
    assert queue_problem(Queue("q", cohort="a"), (), misplaced) == ring_problem("a", "b", "a")
    assert queue_problem(Queue("q", cohort="c"), (), misplaced) is None


def test_a_flavor_names_its_missing_topology():
    problem = flavor_problem("racks", ())
    assert problem is not None
    assert "Topology racks does not exist" in problem.message
    assert flavor_problem("", ()) is None
    assert flavor_problem("racks", {"racks"}) is None
