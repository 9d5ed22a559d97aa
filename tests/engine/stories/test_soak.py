"""Two weeks of churn leave no more in memory than a fresh start on what is left has."""

from __future__ import annotations

import gc
from collections import Counter

from tests.engine.world import World

DAYS = 14
GANGS_A_DAY = 40


def objects_of(world: World) -> Counter[str]:
    """Live objects of ours by type, of what belongs to the engine."""
    gc.collect()
    seen: dict[int, object] = {}
    todo: list[object] = [world.engine]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen[id(one)] = one
            todo += gc.get_referents(one)
    return Counter(type(one).__name__ for one in seen.values() if type(one).__module__.startswith("tutti."))


def test_two_weeks_of_churn_leave_nothing_behind():
    world = World()
    for name in ("n1", "n2"):
        world.node(name, gpus=4)
    world.flavor()
    world.queue("cq", 8)
    for number in range(DAYS * GANGS_A_DAY):
        name = f"g{number}"
        world.gang(name, 2 + number % 3, queue="queue" if number % 4 else "", priority=number % 2)
        world.until(1800.0)
        members = list(world.where(f"{name}-"))
        if number % 5:
            world.finish(*members)
            world.until(60.0)
        world.delete(*[pod for (_, pod) in list(world.pods) if pod.startswith(f"{name}-")])
        world.remove_object("PodGroup", name)
        world.until(300.0)
        world.log.clear()
        world.journal.seek(0)
        world.journal.truncate()
    world.gang("left", 3)
    world.until(60.0)
    churned = objects_of(world)
    world.restart()
    world.until(60.0)
    fresh = objects_of(world)
    grown = {kind: (count, fresh[kind]) for kind, count in churned.items() if count > fresh[kind] + 5}
    assert not grown
