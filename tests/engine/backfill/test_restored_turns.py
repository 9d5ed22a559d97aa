"""Who has had its turn against the order of shares is known by the next operator, too."""

from __future__ import annotations

from tests.engine.backfill.test_owing import end_one, full, gang
from tests.engine.world import World, replaced
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION


def after_its_turn() -> World:
    """A gang of 4 GPUs runs out of turn; queues that may take others' out have smaller shares."""
    world = full()
    for queue in (1, 2):
        found = world.objects["ClusterQueue", "", f"q{queue}"]["spec"]
        world.object("ClusterQueue", f"q{queue}", {**found, "preemption": {"reclaimWithinCohort": "Any"}})
    world.until(61.0)
    for _ in range(8):
        end_one(world)
    assert len(world.where("large")) == 2
    return world


def more_comes(world: World) -> None:
    for number in range(4):
        gang(world, f"g1more{number}", 1, 1)
    world.until(30.0)


def test_who_went_out_of_turn_is_not_taken_out_for_smaller_shares_after_a_restart():
    world = after_its_turn()
    world.restart()
    more_comes(world)
    assert len(world.where("large")) == 2


def test_a_queue_whose_first_has_had_its_turn_owes_also_after_a_restart():
    world = after_its_turn()
    world.restart()
    world.until(400.0)
    assert world.engine.state.share_debts.of["q0"].seconds > 200


def test_a_pod_that_says_itself_that_it_went_out_of_turn_is_not_believed():
    world = after_its_turn()
    for (_, name), pod in list(world.pods.items()):
        if name.startswith("large"):
            said = '{"clusterQueue":"q0","flavors":{"nvidia.com/gpu":"default"},"outOfTurn":true}'
            meta = replaced(pod.metadata, annotations={ADMISSION_ANNOTATION: said})
            world.pods["default", name] = replaced(pod, metadata=meta, status=replaced(pod.status, conditions=[]))
    world.restart()
    more_comes(world)
    assert world.where("large") == {}
