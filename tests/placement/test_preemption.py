"""Preemption is a question: it says who would have to go, and leaves everything as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import LABELS, clusters, node, pod, specs
from tutti.api.labels import LabelSelector
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victim_cost import Budget
from tutti.placement.preemption.victims import ChosenVictims, choose_victims
from tutti.placement.profile import DEFAULT_PROFILE, filter_nodes


def running(
    cluster: Cluster, name: str, where: str, *, priority: int = 0, cpu: str = "1", started: int = 0, app: str = ""
) -> None:
    one = pod(name, node=where, cpu=cpu, priority=priority, labels={"app": app} if app else {})
    status = msgspec.convert({"phase": "Running", "startTime": f"2026-01-01T00:00:{started:02}Z"}, type(one.status))
    cluster.put_pod(msgspec.structs.replace(one, status=status), keep=False)


def asked(cluster: Cluster, *budgets: Budget, priority: int = 100, cpu: str = "2", **spec: Any) -> ChosenVictims | None:
    ask = Ask(cluster.classes.of(pod("p", cpu=cpu, **spec).spec, "default", {"app": "x"}), 1)
    lower = np.flatnonzero((cluster.tenants.row >= 0) & (cluster.tenants.priority < priority))
    return choose_victims(cluster, [ask], VictimUnits.among(cluster, lower), profile=DEFAULT_PROFILE, budgets=budgets)


def chosen(cluster: Cluster, *budgets: Budget, **options: Any) -> tuple[str, list[str]]:
    found = asked(cluster, *budgets, **options)
    assert found is not None
    return cluster.nodes.names[int(found.rows[0][0])], sorted(record.name for record in found.victims)


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
    assert chosen(cluster) == ("n0", ["low", "new"])


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


def test_nobody_goes_where_that_does_not_help():
    cluster = two_nodes()
    running(cluster, "a", "n0", priority=200, cpu="2")
    running(cluster, "b", "n1", priority=200, cpu="1")
    running(cluster, "c", "n1", priority=1, cpu="1")
    assert asked(cluster) is None
    assert chosen(cluster, cpu="1") == ("n1", ["c"])


PORT = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]}


def test_a_node_that_one_who_may_leave_keeps_closed_is_chosen_where_that_hurts_least():
    cluster = two_nodes()
    cluster.put_pod(pod("low", node="n0", priority=1, **PORT), keep=False)
    running(cluster, "high", "n1", priority=50, cpu="2")
    assert chosen(cluster, **PORT) == ("n0", ["low"])
    cluster.put_pod(pod("other", node="n0", cpu="0", priority=60, **PORT), keep=False)
    assert chosen(cluster, **PORT) == ("n1", ["high"])


def test_a_pod_in_another_zone_does_not_leave_for_nothing():
    """Two keep a zone closed, each from its own node: clearing one of these is no help."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    cluster = Cluster()
    for i, zone in enumerate("aab"):
        cluster.put_node(node(f"n{i}", cpu=2, labels={"zone": zone}))
    for i in range(2):
        cluster.put_pod(pod(f"low{i}", node=f"n{i}", priority=1, **apart), keep=False)
    running(cluster, "high", "n2", priority=50, cpu="2")
    assert chosen(cluster) == ("n2", ["high"])
    cluster.remove_pod(("default", "low1"))
    assert chosen(cluster) == ("n0", ["low0"])


def test_one_who_uses_a_budget_up_leaves_the_less_important_of_two():
    """kube-scheduler lets the budget cover the more important one, which it then takes out."""
    cluster = Cluster()
    cluster.put_node(node("n0", cpu=2))
    running(cluster, "less", "n0", priority=1, app="kept")
    running(cluster, "more", "n0", priority=9, app="kept")
    budget = Budget("default", LabelSelector(match_labels={"app": "kept"}), 1)
    assert chosen(cluster, budget, cpu="1") == ("n0", ["less"])


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


@examples(150)
@given(crowds(), specs(), st.sampled_from(["1", "3"]))
def test_nothing_is_changed_and_the_pod_would_fit(cluster, spec, cpu):
    before = (cluster.nodes.requested.copy(), cluster.nodes.scored.copy(), cluster.nodes.residents.snapshot())
    found = asked(cluster, cpu=cpu, **spec)
    assert (cluster.nodes.requested == before[0]).all()
    assert (cluster.nodes.scored == before[1]).all()
    assert cluster.nodes.residents.snapshot() == before[2]
    if found is not None:
        for record in found.victims:
            cluster.remove_pod(record.key)
        klass = cluster.classes.of(pod("p", cpu=cpu, **spec).spec, "default", {"app": "x"})
        assert found.rows[0][0] in np.flatnonzero(filter_nodes(klass, cluster.nodes).feasible)
