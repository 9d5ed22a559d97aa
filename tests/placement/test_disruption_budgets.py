"""Which budgets are about a pod: found by a label, and of very many those that allow least."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import node, pod
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.preemption.victim_cost import MOST_COVERING, MOST_NEAR, Budget, Coverage

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
REQUIREMENTS = st.one_of(
    st.builds(
        LabelSelectorRequirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=2)
    ),
    st.builds(LabelSelectorRequirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.one_of(st.none(), st.builds(LabelSelector, LABELS, st.lists(REQUIREMENTS, max_size=2)))
BUDGETS = st.lists(
    st.builds(
        Budget,
        st.sampled_from(["default", "other"]),
        SELECTORS,
        st.integers(0, 3),
        st.sampled_from([frozenset(), frozenset({"p"})]),
    ),
    max_size=8,
)


def running(labels: dict[str, str]) -> PodRecord:
    cluster = Cluster()
    cluster.put_node(node("n"))
    cluster.put_pod(pod("p", node="n", labels=labels), keep=False)
    return cluster.pods["default", "p"]


@examples(300)
@given(BUDGETS, LABELS)
def test_the_budgets_of_a_pod_are_all_that_cover_it(budgets, labels):
    record = running(labels)
    found = Coverage(budgets).of(record)
    assert [budgets[index] for index in found] == [one for one in budgets if one.covers(record)]


def test_of_very_many_budgets_that_cover_a_pod_those_that_allow_least_count():
    budgets = [Budget("default", LabelSelector({"a": "x"}), 100 - i % 100) for i in range(2 * MOST_NEAR)]
    found = Coverage(budgets).of(running({"a": "x"}))
    assert len(found) == MOST_COVERING
    least = sorted(one.allowed for one in budgets)[:MOST_COVERING]
    assert sorted(budgets[index].allowed for index in found) == least


def test_a_label_that_all_budgets_ask_for_hides_none():
    budgets = [Budget("default", LabelSelector({"a": "x", "b": f"{i}"}), i) for i in range(2 * MOST_NEAR)]
    last = len(budgets) - 1
    assert Coverage(budgets).of(running({"a": "x", "b": f"{last}"})) == (last,)
    assert Coverage(budgets).of(running({"a": "x", "b": "none"})) == ()


def test_what_is_taken_from_budgets_can_be_given_back():
    record = running({"a": "x"})
    coverage = Coverage([Budget("default", LabelSelector({"a": "x"}), 1)])
    left = [1]
    assert (coverage.take(left, [record]), left) == (0, [0])
    assert (coverage.take(left, [record]), left) == (1, [-1])
    coverage.give_back(left, [record, record])
    assert left == [1]
