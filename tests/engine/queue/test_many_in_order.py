"""A queue with an order in which many wait: what a turn costs there, in steps that are counted, not timed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.engine.world import World
from tutti.engine.records.line_order import LineOrder
from tutti.quota.queue_order import QueueOrder

SECONDS = "scheduling.tutti.dev/expected-seconds"
MANY = 400


def world_of(**queue: Any) -> World:
    world = World()
    world.node("n1", gpus=1, cpu=4000, extra={"pods": "9000"})
    world.flavor()
    world.queue("team", gpus=1, queueingStrategy="StrictFIFO", **queue)
    world.pod("first", queue="queue")
    world.run()
    for number in range(MANY):  # all unlike one another
        world.pod(f"p{number}", queue="queue", annotations={SECONDS: str(1000 * 2 ** (number % 8) + number)})
    world.run()
    return world


def test_a_turn_works_out_the_order_of_all_in_one_expression_and_of_few_by_themselves(monkeypatch):
    world = world_of(ordering={"factors": [{"factor": "Shortest"}, {"factor": "Age"}]})
    counted: Counter[str] = Counter()
    terms, columns, come = QueueOrder.terms, QueueOrder.columns, LineOrder.come

    def counting(name, act):
        def wrapped(*arguments):
            counted[name] += 1
            return act(*arguments)

        return wrapped

    monkeypatch.setattr(QueueOrder, "terms", counting("terms", terms))
    monkeypatch.setattr(QueueOrder, "columns", counting("columns", columns))
    monkeypatch.setattr(LineOrder, "come", counting("come", come))
    for _ in range(5):
        (name,) = (one for one, pod in world.pods.items() if pod.spec.node_name and pod.status.phase != "Succeeded")
        world.finish(name[1])
        world.run()
    assert 5 <= counted["columns"] <= 40
    assert counted["terms"] < 5 * MANY / 4  # of some that are near, not of each that waits, in each turn
    assert counted["come"] == 0


def test_without_an_order_nothing_of_it_is_asked(monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError

    for name in ("terms", "columns", "score"):
        monkeypatch.setattr(QueueOrder, name, never)
    monkeypatch.setattr("tutti.quota.holder_use.HolderUse.add", never)
    world = world_of()
    world.finish("first")
    world.run()
    assert len(world.where()) == 2
