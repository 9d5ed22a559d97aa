"""What workloads have come to, step by step: every step once, and none that was reached before a start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep

ANNOTATION = "scheduling.tutti.dev/gate"


class Watched(World):
    """A world that remembers the milestones of all turns."""

    def __init__(self, **configuration: Any) -> None:
        self.reached: list[LifecycleEvent] = []
        super().__init__(**configuration)

    def decide(self, advance: float = 0.0) -> list[Any]:
        decisions = super().decide(advance)
        self.reached += self.engine.milestones
        return decisions

    def steps(self, name: str) -> list[str]:
        return [one.step.value for one in self.reached if one.workload[2] == name]

    def of(self, step: LifecycleStep) -> LifecycleEvent:
        (found,) = [one for one in self.reached if one.step is step]
        return found


@pytest.fixture
def world() -> Watched:
    world = Watched()
    world.flavor()
    world.queue("cq", 8)
    world.node("n", gpus=8)
    return world


def test_a_gang_is_admitted_scheduled_and_finished_with_the_times_between(world):
    world.gang("g", 3, queue="queue")
    world.now += 5.0
    world.run()
    world.now += 7.0
    world.finish("g-0", "g-1", "g-2")
    world.run()

    assert world.steps("g") == ["Admitted", "Scheduled", "Finished"]
    admitted, finished = world.of(LifecycleStep.ADMITTED), world.of(LifecycleStep.FINISHED)
    assert (admitted.queue, admitted.seconds, admitted.pods) == ("cq", 5.0, 3)
    assert (finished.seconds, finished.pods, finished.reason) == (7.0, 3, "Succeeded")


def test_a_pod_without_a_queue_comes_to_the_same(world):
    world.pod("p")
    world.run()
    world.finish("p", phase="Failed")
    world.run()

    assert world.steps("p") == ["Admitted", "Scheduled", "Finished"]
    assert world.of(LifecycleStep.ADMITTED).queue == ""
    assert world.of(LifecycleStep.FINISHED).reason == "Failed"


def test_what_waits_has_come_to_nothing(world):
    world.gang("g", 9, queue="queue")
    world.run()

    assert world.reached == []


def test_a_reservation_that_is_held_is_let_go_when_its_members_come(world):
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]}}
    world.workload("w", {"name": "main", "count": 2, "template": template}, queueName="queue")
    world.run()
    assert world.steps("w") == ["Admitted"]
    world.now += 11.0
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", gpus=2, cpu="0", memory="0")
    world.run()

    assert world.steps("w") == ["Admitted", "LetGo", "Scheduled"]
    assert world.of(LifecycleStep.LET_GO).seconds == 11.0
    assert world.of(LifecycleStep.ADMITTED).pods == 2


def test_a_reservation_that_nobody_comes_for_is_given_back(world):
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]}}
    world.workload(
        "w", {"name": "main", "count": 2, "template": template}, queueName="queue", scheduleTimeoutSeconds=30
    )
    world.run()
    world.until(31)

    assert world.steps("w")[:2] == ["Admitted", "GivenBack"]
    assert next(one for one in world.reached if one.step is LifecycleStep.GIVEN_BACK).seconds == 30.0


def test_a_victim_says_by_which_rule_and_for_which_queue_it_leaves():
    world = Watched()
    world.flavor()
    rules = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for name in ("a", "b"):
        world.queue(name, 4, cohort="c", local=name, preemption=rules)
    world.node("n", gpus=8)
    world.gang("lent", 8, queue="b")
    world.run()
    world.now += 60.0
    world.gang("own", 4, queue="a")
    world.run()

    victim = world.of(LifecycleStep.EVICTED)
    assert (victim.workload[2], victim.queue, victim.for_queue) == ("lent", "b", "a")
    assert (victim.reason, victim.rule, victim.pods, victim.seconds) == ("Preempted", "InCohortReclamation", 8, 60.0)
    assert world.of(LifecycleStep.MAKES_ROOM)[1:] == (("PodGroup", "default", "own"), "a", "a", 0.0, 8, "", "", "")
    assert world.steps("own")[-2:] == ["Admitted", "Scheduled"]


def test_what_runs_or_has_ended_already_when_it_is_found_comes_to_nothing_new(world):
    world.gang("g", 2, queue="queue")
    world.pod("over")
    world.run()
    world.finish("over")
    world.run()
    world.reached.clear()
    world.restart()
    world.run()

    assert world.reached == []


def test_tries_are_counted_by_what_came_of_them(world):
    world.pod("p")
    world.gang("g", 9, queue="queue")
    world.gang("h", 2, queue="queue")
    world.run()

    assert world.engine.state.tried == {(True, True, "tutti"): 1, (False, True, "tutti"): 1, (False, False, "tutti"): 1}
