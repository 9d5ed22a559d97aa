"""Nodes are chosen, and left alone, by what they were measured to use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.engine.world import World
from tutti.engine.records.measurements import Measured, NodeFigures

PROMETHEUS = {"source": "Prometheus", "address": "http://prometheus", "queries": {"temperature": "max(t)"}}
LEAST_USED = {"policy": "LeastUsed"}


def cluster(load: dict[str, Any], nodes: int = 2, **more: Any) -> World:
    world = World(profiles=[{"load": load}], measurements=PROMETHEUS | more)
    for number in range(nodes):
        world.node(f"n{number}", cpu=64)
    return world


def measured(world: World, *, ago: float = 0, **of: float | None) -> None:
    """The cpu of nodes in percent, measured so long ago; memory is at 10 %."""
    world.tell(
        Measured(["cpu", "memory"], {name: NodeFigures(world.now - ago, [cpu, 10.0]) for name, cpu in of.items()})
    )


@pytest.mark.parametrize("policy", ["LeastUsed", "Usage", "LoadVariationRiskBalancing"])
def test_a_pod_goes_where_less_is_used(policy: str):
    world = cluster({"policy": policy, "weight": 10})
    measured(world, n0=80, n1=20)
    world.pod("p", cpu="1", gpus="0")
    world.run()

    assert world.where() == {"p": "n1"}


def test_target_packing_fills_nodes_up_to_the_target_and_not_above():
    world = cluster({"policy": "TargetLoadPacking", "targetUtilization": 40, "weight": 100}, nodes=3)
    measured(world, n0=39.9, n1=10, n2=25)
    for number in range(12):
        world.pod(f"p{number}", cpu="1", gpus="0")
        world.run()

    # 1.5 cores each of 64, 2.3 %: n2 has room for six below 40 %, then n1 is filled
    assert Counter(world.where().values()) == {"n2": 6, "n1": 6}


def test_a_gang_does_not_herd_to_the_node_that_was_idle():
    """200 equal pods: the originals' first decision holds for all of them until the next measurement."""
    world = cluster({"policy": "LeastUsed", "weight": 100}, nodes=10)
    measured(world, n0=5, **{f"n{number}": 10.0 for number in range(1, 10)})
    world.gang("g", 200, cpu="1", gpus="0")
    world.run()

    placed = Counter(world.where().values())
    assert placed.total() == 200
    assert max(placed.values()) - min(placed.values()) <= 5  # 5 % of 64 cores are the work of 3.8 pods more


def test_what_came_since_the_measurement_counts_until_the_next_one_holds_it():
    world = cluster(LEAST_USED)
    measured(world, n0=10, n1=12)
    world.pod("big", cpu="20", gpus="0")
    world.run()
    assert world.where() == {"big": "n0"}
    load = world.engine.state.cluster.nodes.load
    row = world.engine.state.cluster.nodes.rows["n0"]
    assert load.fresh[row].any()

    world.start("big")
    world.now += 30
    measured(world, n0=15, n1=12)
    world.run()
    assert load.fresh[row].any()  # half of what was averaged was before it

    world.now += 60
    measured(world, n0=40, n1=12)
    world.run()
    assert not load.fresh[row].any()


def test_it_counts_the_same_after_a_restart():
    world = cluster(LEAST_USED)
    world.pod("old", cpu="20", gpus="0")
    world.run()
    world.start("old")
    world.now += 300
    world.pod("new", cpu="10", gpus="0")
    world.run()
    measured(world, n0=10, n1=10)
    world.run()
    before = {name: world.engine.state.cluster.nodes.load.fresh[row].tolist() for name, row in rows(world).items()}

    world.restart()
    measured(world, n0=10, n1=10)
    world.run()

    load = world.engine.state.cluster.nodes.load
    assert {name: load.fresh[row].tolist() for name, row in rows(world).items()} == before
    assert sum(load.requests.tolist()[row][0] for row in rows(world).values()) == 30_000


def rows(world: World) -> dict[str, int]:
    return dict(world.engine.state.cluster.nodes.rows)


def test_everything_is_taken_off_with_the_pods():
    world = cluster(LEAST_USED)
    measured(world, n0=10, n1=10)
    world.gang("g", 6, cpu="3", gpus="0")
    world.run()
    world.finish("g-0", "g-1")
    world.delete(*(f"g-{number}" for number in range(6)))
    world.run()

    load = world.engine.state.cluster.nodes.load
    assert not load.requests.any()
    assert not load.limits.any()
    assert not load.fresh.any()


def test_old_figures_say_nothing():
    world = cluster({"policy": "LeastUsed", "weight": 100, "maxAgeSeconds": 60})
    world.pod("there", cpu="1", gpus="0", node="n1")
    measured(world, ago=61, n0=90, n1=0)
    world.pod("p", cpu="1", gpus="0")
    world.run()

    assert world.where("p") == {"p": "n0"}  # by what is requested, as without figures


def test_a_node_without_figures_counts_as_the_average_of_the_others():
    world = cluster({"policy": "LeastUsed", "weight": 100}, nodes=3)
    measured(world, n0=90, n1=10)
    world.pod("p", cpu="1", gpus="0")
    world.run()
    assert world.where() == {"p": "n1"}

    world.node("n1", cordoned=True)
    world.pod("q", cpu="1", gpus="0")
    world.run()
    assert world.where("q") == {"q": "n2"}


class TestThresholds:
    HOT: dict[str, Any] = {"thresholds": [{"metric": "cpu", "above": 65}, {"metric": "temperature", "above": 85}]}

    def test_nodes_beyond_one_take_nobody_until_less_is_measured(self):
        world = cluster(self.HOT)
        measured(world, n0=70, n1=66)
        world.pod("p", cpu="1", gpus="0")
        world.run()
        assert world.where() == {}
        assert "measured cpu above 65" in world.why("Pod", "p").message

        measured(world, n0=70, n1=60)
        world.run()
        assert world.where() == {"p": "n1"}

    def test_a_metric_of_ones_own_counts_too(self):
        world = cluster(self.HOT)
        figures = {"n0": NodeFigures(world.now, [90.0]), "n1": NodeFigures(world.now, [None])}
        world.tell(Measured(["temperature"], figures))
        for name in ("p", "q"):
            world.pod(name, cpu="1", gpus="0")
        world.run()

        assert set(world.where().values()) == {"n1"}

    def test_when_nobody_measures_any_more_nodes_are_open_again_without_anything_being_seen(self):
        world = cluster({**self.HOT, "maxAgeSeconds": 90})
        measured(world, n0=70, n1=66)
        world.pod("p", cpu="1", gpus="0")
        world.run()
        assert world.where() == {}

        world.until(120)
        assert world.where() == {"p": "n0"}

    def test_a_gang_does_not_go_beyond_one_by_what_it_is_expected_to_use(self):
        """By koordinator's rule a node of 64 cores that uses 32 has room for 11 pods of 1 core below 65 %."""
        bound = {"metric": "cpu", "above": 65, "countExpected": True}
        world = cluster({"thresholds": [bound]}, nodes=3)
        measured(world, n0=50, n1=50, n2=66)
        world.gang("g", 22, cpu="1", gpus="0")
        world.run()
        world.pod("p", cpu="1", gpus="0")
        world.run()
        assert Counter(world.where().values()) == {"n0": 11, "n1": 11}
        assert "expected cpu above 65" in world.why("Pod", "p").message

        world.now += 30
        measured(world, n0=50, n1=50, n2=64.5)
        world.run()
        assert world.where("p") == {}  # 64.5 % and 0.85 cores are 65.8 %, rounded 66
        measured(world, n0=50, n1=50, n2=63.9)
        world.run()
        assert world.where("p") == {"p": "n2"}

    def test_who_waits_for_an_estimate_is_tried_when_figures_are_too_old(self):
        bound = {"metric": "cpu", "above": 65, "countExpected": True}
        world = cluster({"thresholds": [bound], "maxAgeSeconds": 90}, nodes=1)
        measured(world, n0=64)
        world.pod("p", cpu="8", gpus="0")
        world.run()
        assert world.where() == {}
        world.until(120)
        assert world.where() == {"p": "n0"}

    def test_nobody_is_taken_out_for_load(self):
        world = cluster(self.HOT)
        world.pod("low", cpu="1", gpus="0", priority=0, node="n0")
        measured(world, n0=70, n1=66)
        world.pod("high", cpu="1", gpus="0", priority=1000)
        world.run()

        assert world.where("low") == {"low": "n0"}


def test_strange_figures_are_left_out():
    world = cluster(LEAST_USED)
    world.tell(
        Measured(
            ["cpu", "memory"],
            {
                "n0": NodeFigures(world.now, [float("nan"), 1e300]),
                "n1": NodeFigures(float("inf"), [5.0, 5.0]),
                "nobody": NodeFigures(world.now, []),
            },
        )
    )
    world.pod("p", cpu="1", gpus="0")
    world.run()

    assert len(world.where()) == 1


def test_what_is_no_node_any_more_is_forgotten():
    world = cluster(LEAST_USED)
    measured(world, n0=10, n1=10, pod=3)
    world.remove_node("n1")
    measured(world, n0=10, other=5)
    world.run()

    for name in ("n1", "pod"):
        world.node(name)
    world.run()
    nodes = world.engine.state.cluster.nodes
    cpu = nodes.load.values("cpu")
    assert cpu is not None
    assert {name for name, row in nodes.rows.items() if not np.isnan(cpu[row])} == {"n0"}


def test_a_replay_decides_the_same():
    world = cluster({"policy": "LowRiskOverCommitment"})
    measured(world, n0=80, n1=20)
    world.gang("g", 4, cpu="2", gpus="0")
    world.run()

    assert not world.replay().differences


class TestHotNodes:
    """Volcano's: pods on the way to a node that is hot already are expected to use more."""

    CPU_ALONE: dict[str, Any] = {"policy": "Usage", "weight": 100, "resourceWeights": {"cpu": 1, "memory": 0}}

    def world(self) -> World:
        return cluster(self.CPU_ALONE, estimates={"requestRatio": 0.5, "riskFactor": 3.0, "riskLoad": 0.5})

    def test_by_the_weights_of_the_resources(self):
        world = self.world()
        for node in ("n0", "n1"):
            world.pod(f"there-{node}", cpu="20", gpus="0", node=node)
        figures = {"n0": NodeFigures(world.now, [30.0, 95.0]), "n1": NodeFigures(world.now, [40.0, 10.0])}
        world.tell(Measured(["cpu", "memory"], figures))
        world.pod("p", cpu="1", gpus="0")
        world.run()

        assert world.where("p") == {"p": "n0"}

    def test_by_what_is_on_its_way_to_it_too(self):
        world = self.world()
        world.pod("there", cpu="20", gpus="0", node="n0")
        measured(world, n0=40, n1=65)  # with 10 of 64 cores to come n0 is at 56 %, so that they become 20
        world.pod("p", cpu="1", gpus="0")
        world.run()

        assert world.where("p") == {"p": "n1"}
