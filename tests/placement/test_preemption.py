"""Preemption is a question: it says who would have to go, and leaves everything as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.scenes import LABELS, clusters, node, pod, specs
from tutti.api.labels import LabelSelector
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.judging import assess
from tutti.placement.preemption.budgets import Budget
from tutti.placement.preemption.harm import Harm
from tutti.placement.preemption.single import Preemption, Preemptor, preempt


def running(
    cluster: Cluster, name: str, where: str, *, priority: int = 0, cpu: str = "1", started: int = 0, app: str = ""
) -> None:
    one = pod(name, node=where, cpu=cpu, priority=priority, labels={"app": app} if app else {})
    status = msgspec.convert({"phase": "Running", "startTime": f"2026-01-01T00:00:{started:02}Z"}, type(one.status))
    cluster.put_pod(msgspec.structs.replace(one, status=status), keep=False)


def asked(cluster: Cluster, *budgets: Budget, priority: int = 100, cpu: str = "2", never: bool = False) -> Preemption:
    klass = cluster.classes.of(pod("p", cpu=cpu).spec)
    return preempt(cluster, Preemptor(klass, priority, never=never), assess(klass, cluster.nodes), budgets)


def chosen(cluster: Cluster, *budgets: Budget, **options: Any) -> tuple[str, list[str]]:
    candidate = asked(cluster, *budgets, **options).chosen
    assert candidate is not None
    return cluster.nodes.names[candidate.row], [record.name for record in candidate.victims]


def two_nodes() -> Cluster:
    cluster = Cluster()
    cluster.put_node(node("n0", cpu=2))
    cluster.put_node(node("n1", cpu=2))
    return cluster


# The five tie-breaks, in order: framework/preemption, pickOneNodeForPreemption.
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([("a", 9, 1, "2", "kept")], [("b", 50, 1, "2", "")]),
        ([("a", 50, 1, "2", "")], [("b", 9, 1, "2", "")]),
        ([("a", 9, 1, "1", ""), ("c", 9, 1, "1", "")], [("b", 9, 1, "1", ""), ("d", 3, 1, "1", "")]),
        ([("a", 9, 1, "1", ""), ("c", 9, 1, "1", "")], [("b", 9, 1, "2", "")]),
        ([("a", 9, 1, "2", "")], [("b", 9, 5, "2", "")]),
    ],
    ids=["budget", "highest priority", "sum of priorities", "number", "started last"],
)
def test_the_node_that_is_hurt_least_is_chosen(left, right):
    cluster = two_nodes()
    for where, pods in (("n0", left), ("n1", right)):
        for name, priority, started, cpu, app in pods:
            running(cluster, name, where, priority=priority, started=started, cpu=cpu, app=app)
    budget = Budget("default", LabelSelector(match_labels={"app": "kept"}), 0)
    assert chosen(cluster, budget)[0] == "n1"


def test_as_few_as_needed_go_and_the_most_important_stay():
    cluster = Cluster()
    cluster.put_node(node("n0", cpu=4))
    for name, priority, started in (("old", 5, 1), ("new", 5, 9), ("low", 1, 1), ("high", 7, 1)):
        running(cluster, name, "n0", priority=priority, started=started)
    assert chosen(cluster) == ("n0", ["new", "low"])


def test_a_pod_whose_budget_is_used_up_goes_last():
    cluster = Cluster()
    cluster.put_node(node("n0", cpu=2))
    running(cluster, "kept", "n0", priority=1, app="kept")
    running(cluster, "other", "n0", priority=9)
    selector = LabelSelector(match_labels={"app": "kept"})
    assert chosen(cluster, cpu="1") == ("n0", ["kept"])
    assert chosen(cluster, Budget("default", selector, 0), cpu="1") == ("n0", ["other"])
    assert chosen(cluster, Budget("default", selector, 1), cpu="1") == ("n0", ["kept"])
    assert chosen(cluster, Budget("default", selector, 0, frozenset({"kept"})), cpu="1") == ("n0", ["kept"])
    assert chosen(cluster, Budget("elsewhere", selector, 0), cpu="1") == ("n0", ["kept"])


def test_why_nobody_would_help_is_said_per_node():
    cluster = two_nodes()
    cluster.put_node(node("small", cpu=1))
    running(cluster, "a", "n0", priority=200, cpu="2")
    running(cluster, "b", "n1", priority=200, cpu="1")
    running(cluster, "c", "n1", priority=1, cpu="1")
    said = asked(cluster)
    assert said.chosen is None
    assert said.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    assert asked(cluster, never=True).message == "not eligible due to preemptionPolicy=Never."


def one_by_one(cluster: Cluster, klass: PodClass, priority: int, budgets: list[Budget]) -> tuple[str, set[str]] | None:
    """The rule as it is written down: each node by itself, one pod after another."""
    found = []
    for row, name in enumerate(cluster.nodes.names):
        lower = [one for one in cluster.on_node(name) if one.priority < priority]
        lower.sort(key=lambda one: (-one.priority, one.started if one.started is not None else float("inf")))
        left, over = [budget.allowed for budget in budgets], []
        for one in lower:
            for i, budget in enumerate(budgets):
                left[i] -= budget.covers(one)
            over += [one for i, budget in enumerate(budgets) if budget.covers(one) and left[i] < 0][:1]
        for one in lower:
            cluster.lift(one)
        gone = list(lower)
        if lower and (can := bool(assess(klass, cluster.nodes).feasible[row])):
            for one in sorted(lower, key=lambda one: one not in over):
                cluster.put_back(one)
                if assess(klass, cluster.nodes).feasible[row]:
                    gone.remove(one)
                else:
                    cluster.lift(one)
        for one in gone:
            cluster.put_back(one)
        if lower and can and not assess(klass, cluster.nodes).final[row]:
            found.append((Harm.of(gone, sum(one in over for one in gone)), row, {one.name for one in gone}))
    return (cluster.nodes.names[min(found)[1]], min(found)[2]) if found else None


@st.composite
def crowds(draw: st.DrawFn) -> Cluster:
    """Nodes that are full, or nearly, of pods of many priorities."""
    cluster = draw(clusters())
    for i in range(draw(st.integers(0, 8))):
        where = draw(st.sampled_from(sorted(cluster.nodes.rows)))
        spec = draw(specs()) if draw(st.integers(0, 5)) == 0 else {}
        one = pod(
            f"x{i}",
            node=where,
            cpu=draw(st.sampled_from(["500m", "1", "2"])),
            labels=draw(st.sampled_from(LABELS)),
            priority=draw(st.integers(-1, 2)),
            **spec,
        )
        status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{i:02}Z"} if draw(st.booleans()) else {}
        cluster.put_pod(msgspec.structs.replace(one, status=msgspec.convert(status, type(one.status))), keep=False)
    return cluster


def budgets() -> st.SearchStrategy[list[Budget]]:
    selector = st.sampled_from([LabelSelector({"app": "x"}), LabelSelector({"app": "y"}), LabelSelector()])
    return st.lists(st.builds(Budget, st.just("default"), selector, st.integers(0, 2)), max_size=2)


@settings(max_examples=300, deadline=None)
@given(crowds(), specs(), st.sampled_from(["1", "3"]), st.integers(0, 3), budgets())
def test_all_nodes_at_once_decide_as_one_by_one(cluster, spec, cpu, priority, protected):
    klass = cluster.classes.of(pod("p", cpu=cpu, **spec).spec, "default", {"app": "x"})
    said = assess(klass, cluster.nodes)
    if said.feasible.any():
        return
    expected = one_by_one(cluster, klass, priority, protected)
    found = preempt(cluster, Preemptor(klass, priority), said, protected).chosen
    assert (found is None) == (expected is None)
    if found is not None:
        assert (cluster.nodes.names[found.row], {record.name for record in found.victims}) == expected


@settings(max_examples=100, deadline=None)
@given(clusters(), st.sampled_from(["1", "3"]))
def test_nothing_is_changed_and_the_pod_would_fit(cluster, cpu):
    klass = cluster.classes.of(pod("p", cpu=cpu).spec, "default", {"app": "x"})
    before = (cluster.nodes.requested.copy(), cluster.nodes.scored.copy(), cluster.nodes.residents.snapshot())
    found = preempt(cluster, Preemptor(klass, 100), assess(klass, cluster.nodes))
    assert (cluster.nodes.requested == before[0]).all()
    assert (cluster.nodes.scored == before[1]).all()
    assert cluster.nodes.residents.snapshot() == before[2]
    if found.chosen is not None:
        for record in found.chosen.victims:
            cluster.remove_pod(record.key)
        assert found.chosen.row in np.flatnonzero(assess(klass, cluster.nodes).feasible)
