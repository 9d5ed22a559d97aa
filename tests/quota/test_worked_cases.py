"""The cases that Kueue works out for its quota tree, by hand.

Source: Kueue 0.20, pkg/cache/scheduler/resource_test.go, TestAvailable; amounts are cpu, in milli-cores here.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tutti.quota.tree import Quota, QuotaTree

CPU = ("default", "cpu")


def cores(amount: float) -> int:
    return int(amount * 1000)


def quota(nominal: float, *, borrow: float | None = None, lend: float | None = None) -> dict:
    return {CPU: Quota(cores(nominal), *(None if limit is None else cores(limit) for limit in (borrow, lend)))}


class Case(NamedTuple):
    queues: dict
    cohorts: dict
    usage: dict
    available: dict
    potential: dict


CASES = {
    "lending and borrowing limits respected": Case(
        queues={
            "cq1": ("c", quota(10)),
            "cq2": ("c", quota(10, borrow=2)),
            "cq3": ("c", quota(10, lend=5)),
        },
        cohorts={"c": ("", quota(10))},
        usage={"cq1": 20, "cq2": 10, "cq3": 6},
        available={"cq1": 4, "cq2": 2, "cq3": 4},
        potential={"cq1": 35, "cq2": 12, "cq3": 40},
    ),
    "cqs with cohort": Case(
        queues={"cq1": ("c", quota(10)), "cq2": ("c", quota(10, lend=9))},
        cohorts={"c": ("", quota(10))},
        usage={"cq1": 1, "cq2": 0.5},
        available={"cq1": 28, "cq2": 28.5},
        potential={"cq1": 29, "cq2": 30},
    ),
    "cq oversubscription spills into cohort": Case(
        queues={"cq1": ("c", quota(10)), "cq2": ("c", quota(10, borrow=0, lend=0))},
        cohorts={"c": ("", quota(10))},
        usage={"cq1": 31},
        available={"cq1": 0, "cq2": 0},
        potential={"cq1": 20, "cq2": 10},
    ),
    "hierarchical cohort": Case(
        queues={"cq1": ("left", quota(10)), "cq2": ("right", quota(10, lend=0))},
        cohorts={"root": ("", quota(0)), "left": ("root", quota(10)), "right": ("root", quota(10))},
        usage={"cq1": 10, "cq2": 5},
        available={"cq1": 20, "cq2": 25},
        potential={"cq1": 30, "cq2": 40},
    ),
    "hierarchical cohort respects borrowing limit": Case(
        queues={
            "l1": ("left", quota(10)),
            "l2": ("left", quota(10, borrow=5)),
            "r": ("right", quota(10)),
        },
        cohorts={"root": ("", {}), "left": ("root", quota(10, borrow=5)), "right": ("root", quota(10))},
        usage={},
        available={"l1": 35, "l2": 15, "r": 50},
        potential={"l1": 35, "l2": 15, "r": 50},
    ),
    "hierarchical cohort respects lending limit": Case(
        queues={
            "l1": ("left", quota(10, lend=5)),
            "l2": ("left", quota(10)),
            "r": ("right", quota(0)),
            "q": ("root", quota(0)),
        },
        cohorts={"root": ("", {}), "left": ("root", quota(0, lend=5)), "right": ("root", quota(0))},
        usage={},
        available={"l1": 20, "l2": 15, "r": 5, "q": 5},
        potential={"l1": 20, "l2": 15, "r": 5, "q": 5},
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request) -> Case:
    return request.param


def available(tree: QuotaTree) -> dict:
    return {name: node.available(CPU) for name, node in tree.queues.items()}


def potential(tree: QuotaTree) -> dict:
    return {name: node.potential(CPU) for name, node in tree.queues.items()}


def test_what_is_available_and_what_ever_could_be(case):
    tree = QuotaTree(case.queues, case.cohorts)
    for queue, amount in case.usage.items():
        tree.add(queue, {CPU: cores(amount)})
    left = {name: max(0, amount) for name, amount in available(tree).items()}  # as upstream shows overuse
    assert left == {name: cores(amount) for name, amount in case.available.items()}
    assert potential(tree) == {name: cores(amount) for name, amount in case.potential.items()}


def test_before_any_use_all_that_ever_could_be_is_available(case):
    tree = QuotaTree(case.queues, case.cohorts)
    assert available(tree) == potential(tree)


def test_removing_all_usage_restores_the_tree(case):
    tree = QuotaTree(case.queues, case.cohorts)
    before = available(tree)
    for queue, amount in case.usage.items():
        tree.add(queue, {CPU: cores(amount)})
    for queue, amount in reversed(case.usage.items()):
        tree.remove(queue, {CPU: cores(amount)})
    assert available(tree) == before


def test_a_cohort_that_is_only_named_exists():
    tree = QuotaTree({"a": ("c", quota(4)), "b": ("c", quota(2))}, {})
    assert tree.queues["a"].available(CPU) == cores(6)


def test_usage_of_a_queue_that_does_not_exist_uses_nothing():
    tree = QuotaTree({"a": ("", quota(4))}, {})
    tree.add("nobody", {CPU: 1})
    tree.remove("nobody", {CPU: 1})
    assert tree.queues["a"].available(CPU) == cores(4)


def test_a_queue_that_uses_more_than_its_own_borrows():
    tree = QuotaTree({"a": ("c", quota(4)), "b": ("c", quota(4))}, {})
    tree.add("a", {CPU: cores(6)})
    assert tree.queues["a"].borrowed(CPU) == cores(2)
    assert tree.queues["b"].borrowed(CPU) == 0
    assert tree.fits("b", {CPU: cores(2)})
    assert not tree.fits("b", {CPU: cores(2) + 1})
