"""Objects of a tenant that change all the time: what is told of them has a bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.world import World
from tutti.engine.records.decisions import SetPodCondition
from tutti.engine.records.explanation import REFRESH_SECONDS
from tutti.engine.status.reporting import MOST_AHEAD_SECONDS, TOLD_A_SECOND

SIZE = 100
SECONDS = 8


def two_queues(world: World, number: int) -> None:
    """A queue that there is, and one that there is not."""
    world.pod_group("g", SIZE, queueName="queue" if number % 2 else "none")


def readable_or_not(world: World, number: int) -> None:
    world.pod_group("g", SIZE if number % 2 else -1, queueName="queue")


def there_or_not(world: World, number: int) -> None:
    if number % 2:
        world.pod_group("g", SIZE, queueName="queue")
    else:
        world.remove_object("PodGroup", "g")


def told(world: World) -> int:
    return sum(isinstance(one, SetPodCondition) for one in world.log)


@pytest.mark.parametrize("change", [two_queues, readable_or_not, there_or_not])
def test_a_gang_whose_object_changes_all_the_time_has_its_pods_told_now_and_then(
    change: Callable[[World, int], None],
) -> None:
    """Each of a hundred pods was told each time: one small write of a tenant was a hundred of the operator."""
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 4)
    world.pod_group("g", SIZE, queueName="queue")
    for rank in range(SIZE):
        world.pod(f"g-{rank}", group="g", gpus=8)
    world.run()
    world.log.clear()
    for number in range(20 * SECONDS):
        change(world, number)
        world.now += 0.05
        world.decide()
    assert SIZE < told(world) <= SIZE + TOLD_A_SECOND * (SECONDS + MOST_AHEAD_SECONDS)

    world.until(REFRESH_SECONDS)
    condition = world.pod_condition("g-0")
    assert condition is not None
    why = world.why("PodGroup", "g")
    assert why is not None
    assert (condition.reason, condition.message) == (why.pod_reason, why.message)


def test_a_few_new_reasons_are_told_at_once_to_however_many() -> None:
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 4)
    world.pod_group("g", 1000, queueName="queue")
    for rank in range(1000):
        world.pod(f"g-{rank}", group="g", gpus=8)
    world.run()
    for queue in ("none", "queue"):
        world.pod_group("g", 1000, queueName=queue)
        world.run()
        why = world.why("PodGroup", "g")
        assert why is not None
        assert world.pods["default", "g-999"].status.conditions[0].reason == why.pod_reason
