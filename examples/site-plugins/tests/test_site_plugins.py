"""The plugins on columns made by hand: no cluster and no operator is needed."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import numpy as np
from tutti.api.core import Node, PodSpec
from tutti.cluster.cluster import Cluster
from tutti.plugins import Go, Nodes, Placed, Pods, Reservation, Rooms, Wait, Waiting

from site_plugins.budget import Budget, BudgetArguments
from site_plugins.deadline import DEADLINE, Deadline
from site_plugins.maintenance import RUNS_HOURS, Maintenance, MaintenanceArguments
from site_plugins.power import Power, PowerArguments

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
GPU = "nvidia.com/gpu"


def cluster_of(*labels: dict[str, str]) -> Cluster:
    cluster = Cluster()
    for i, one in enumerate(labels):
        raw = {"metadata": {"name": f"n{i}", "labels": one}, "status": {"allocatable": {GPU: "8"}}}
        cluster.put_node(msgspec.convert(raw, Node))
    return cluster


def pods(requests: dict[str, int] | None = None, **labels: str) -> Pods:
    return Pods("default", labels, requests or {}, PodSpec())


def waiting(**annotations: str) -> Waiting:
    return Waiting("Pod", "default", "p", "", 0, 0.0, annotations)


def ruled_out(plugin: Maintenance, asking: Pods, nodes: Nodes) -> list[list[int]]:
    return [np.flatnonzero(mask).tolist() for mask in plugin.filter(asking, nodes, NOON).values()]


def test_nodes_before_their_maintenance_are_kept_free():
    window = "example.com/maintenance-window"
    nodes = Nodes(cluster_of({window: "20261121T130000Z"}, {window: "20261123T000000Z"}, {}, {window: "soon"}).nodes)
    plugin = Maintenance(MaintenanceArguments(hours_before=12))
    assert ruled_out(plugin, pods(), nodes) == [[0], [3]]
    assert ruled_out(plugin, pods(**{RUNS_HOURS: "1"}), nodes) == [[], [3]]
    assert ruled_out(plugin, pods(**{RUNS_HOURS: "48"}), nodes) == [[0, 1], [3]]


def test_a_node_that_draws_less_has_more_points():
    cluster = cluster_of({"example.com/watts": "300"}, {"example.com/watts": "900"}, {}, {"example.com/watts": "lots"})
    points = Power(PowerArguments(watts=500)).score(pods(), Nodes(cluster.nodes), NOON)
    assert points.dtype == np.int64
    assert points.tolist() == [600, 0, 400, 400]


def test_the_nearest_deadline_comes_first():
    plugin = Deadline()
    soon, late = "2026-11-21T12:30:00Z", "2026-11-21T13:30:00+01:00"
    assert plugin.sort(waiting(**{DEADLINE: soon})) == plugin.sort(waiting(**{DEADLINE: late})) == NOON + 1800
    assert plugin.sort(waiting()) == plugin.sort(waiting(**{DEADLINE: "tomorrow"})) == float("inf")


def test_a_gang_is_held_while_it_would_be_too_dear():
    cluster = cluster_of({"example.com/device-price": "3"}, {"example.com/device-price": "1.5"}, {})
    column = cluster.nodes.resource_index.column(GPU)
    cluster.nodes.requested[:, column] = [4, 2, 8]
    rooms = Rooms(cluster.nodes)
    asking = Reservation(waiting(), [Placed(pods({GPU: 1}), np.array([0, 1]))])
    assert Budget(BudgetArguments(most_per_hour=15)).permit(asking, rooms, NOON) == Go()
    verdict = Budget(BudgetArguments(most_per_hour=14)).permit(asking, rooms, NOON)
    assert isinstance(verdict, Wait)
    assert "would cost 15 an hour, and the budget is 14" in verdict.reason
    other = Reservation(waiting(), [Placed(pods({"cpu": 1000}), np.array([0]))])
    assert Budget(BudgetArguments(most_per_hour=0)).permit(other, rooms, NOON) == Go()
