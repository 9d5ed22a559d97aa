"""What running work draws is estimated by the models of its profile, and adds up to what nodes in use draw."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.world import World
from tutti.engine.admission.energy import energy_of, watts_by_queue
from tutti.engine.records.measurements import Measured, NodeFigures
from tutti.placement.plugins.power_estimate import node_watts, power_rule

MODELS = {
    "nodeLabel": "example.com/machine",
    "models": [{"value": "new", "k0": 100, "k1": 50, "k2": 0.01}, {"value": "old", "k0": 300, "k1": 10, "k2": 0.02}],
}
PEAKS = {"policy": "Peaks", "power": MODELS}


def cluster(load: dict[str, Any] | None = PEAKS, **more: Any) -> World:
    settings: dict[str, Any] = {"profiles": [{"load": load}], "measurements": {}} if load else {}
    world = World(**settings, **more)
    world.node("n0", cpu=64, labels={"example.com/machine": "new"})
    world.node("n1", cpu=64, labels={"example.com/machine": "old"})
    world.node("n2", cpu=64)
    return world


def runs(world: World, name: str, node: str, cpu: str, **pod: Any) -> None:
    world.pod(name, cpu=cpu, gpus="0", selector={"kubernetes.io/hostname": node}, **pod)
    world.run()
    world.start(name)
    world.run()


def watts(world: World, name: str) -> float | None:
    found = energy_of(world.engine.state, world.engine.state.workloads["Pod", "default", name])
    return None if found is None else found.watts


def test_it_is_what_the_machine_draws_by_its_model():
    """Half of the cpu is requested: 100 + 50 e^(0.01 * 50) = 182.4 W; nothing says what n2 draws."""
    world = cluster()
    runs(world, "p", "n0", "32")
    runs(world, "q", "n2", "32")

    assert watts(world, "p") == pytest.approx(182.436, abs=0.001)
    assert watts(world, "q") is None


def test_what_was_measured_counts_while_it_is_young_and_is_shared_by_requests():
    """At 80 % the machine draws 100 + 50 e^0.8 = 211.3 W; p has three quarters of what is requested there."""
    world = cluster()
    runs(world, "p", "n0", "24")
    runs(world, "q", "n0", "8")
    world.tell(Measured(["cpu"], {"n0": NodeFigures(world.now, [80.0])}))
    world.run()

    assert watts(world, "p") == pytest.approx(0.75 * 211.277, abs=0.001)
    assert watts(world, "q") == pytest.approx(0.25 * 211.277, abs=0.001)

    world.now += 3600
    world.tell(Measured(["cpu"], {}))
    world.run()
    assert watts(world, "p") == pytest.approx(0.75 * 182.436, abs=0.001)  # by what is requested again


def test_energy_is_that_for_as_long_as_it_runs_and_queues_add_up():
    world = cluster()
    world.flavor()
    world.queue("cq", 100)
    runs(world, "p", "n0", "32", queue="queue")
    runs(world, "q", "n1", "64", queue="queue")
    world.now += 7200
    world.run()

    state = world.engine.state
    found = energy_of(state, state.workloads["Pod", "default", "p"])
    assert found is not None
    assert found.kwh == pytest.approx(2 * 0.182436, abs=0.0001)
    assert watts_by_queue(state) == {"cq": pytest.approx(182.436 + 373.890, abs=0.001)}  # 300 + 10 e^2


def test_without_models_nobody_draws_anything():
    world = cluster(load=None)
    runs(world, "p", "n0", "32")

    assert watts(world, "p") is None
    assert watts_by_queue(world.engine.state) == {}


@given(st.lists(st.tuples(st.sampled_from(["n0", "n1"]), st.integers(1, 20)), min_size=1, max_size=6))
def test_the_parts_of_all_pods_are_what_the_nodes_in_use_draw(placed: list[tuple[str, int]]):
    world = cluster()
    for number, (node, cpu) in enumerate(placed):
        world.pod(f"p{number}", cpu=str(cpu), gpus="0", selector={"kubernetes.io/hostname": node})
    world.run()

    state = world.engine.state
    nodes, rule = state.cluster.nodes, power_rule(state.profiles["tutti"])
    assert rule is not None
    used = set(world.where().values())
    drawn = node_watts(rule, nodes)
    assert watts_by_queue(state)[""] == pytest.approx(sum(float(drawn[nodes.rows[node]]) for node in used))
