"""What users' plugins take is served by plugin and profile, under kube-scheduler's name; nothing where there are none."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from tests.engine.world import World
from tutti.controller.metrics import Metrics
from tutti.controller.plugin_times import PluginTimes
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.observations import NodeSeen, PodSeen, Synced
from tutti.engine.records.plugins import Enabled
from tutti.placement.extension import PluginCall
from tutti.placement.policy_file import PolicyFile, read_policy, write_policy
from tutti.plugins import Go

COUNT = "scheduler_plugin_execution_duration_seconds_count"
SUM = "scheduler_plugin_execution_duration_seconds_sum"


class Everything:
    def filter(self, pods, nodes, now):
        return {}

    def score(self, pods, nodes, now):
        raise KeyError("lost")

    def sort(self, workload):
        return 0

    def permit(self, reservation, rooms, now):
        return Go()


def test_every_point_of_a_plugin_is_measured_by_profile_and_failures_apart():
    policy = read_policy(write_policy(PolicyFile(features=("cpuFree",), output=(1.0,))))
    world = World(plugins={"tutti": [Enabled("own", Everything()), Enabled("learnedScore", policy)]})
    metrics = Metrics()
    engine = Engine(world.configuration, world.plugins, stopwatch=metrics.plugin_times)
    world.node("n1")
    world.pod("a")
    for one in (*map(NodeSeen, world.nodes.values()), *map(PodSeen, world.pods.values()), Synced()):
        engine.observe(one)
    decisions = engine.decide(world.now)
    assert [one.node for one in decisions if type(one).__name__ == "Bind"] == ["n1"]

    def count(plugin: str, point: str, status: str) -> float | None:
        labels = {"plugin": plugin, "extension_point": point, "status": status, "profile": "tutti"}
        return metrics.registry.get_sample_value(COUNT, labels)

    for point in ("Filter", "QueueSort", "Permit"):
        assert count("own", point, "Success") >= 1, point
    assert count("own", "Score", "Error") >= 1
    assert count("own", "Score", "Success") is None
    assert count("learnedScore", "Score", "Success") >= 1


def test_what_a_call_raises_is_let_out_and_its_time_counts():
    registry, times = CollectorRegistry(), iter([10.0, 12.5, 20.0, 20.5])
    measured = PluginTimes(registry, lambda: next(times))
    assert measured(PluginCall("tutti", "own", "filter"), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        measured(PluginCall("tutti", "own", "filter"), lambda: 1 / 0)
    labels = {"plugin": "own", "extension_point": "Filter", "profile": "tutti"}
    assert registry.get_sample_value(SUM, {**labels, "status": "Success"}) == 2.5
    assert registry.get_sample_value(SUM, {**labels, "status": "Error"}) == 0.5


def test_without_plugins_there_is_no_series():
    assert list(Metrics().registry.collect())
    text = [one for family in Metrics().registry.collect() for one in family.samples]
    assert not [one for one in text if one.name == COUNT]
