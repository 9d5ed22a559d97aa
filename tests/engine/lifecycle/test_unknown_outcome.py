"""A bind of which nobody knows whether it took effect: its room stays taken, and the same bind is sent again."""

from __future__ import annotations

from bench.simulation.recounting import recounted
from tests.engine.world import World
from tutti.engine.records.decisions import Bind, Evict
from tutti.engine.records.observations import BindAnswer, BindFinished


def held_gang() -> tuple[World, list[Bind]]:
    world = World()
    world.hold_binds = True
    world.node("n1", gpus=2)
    world.node("n2", gpus=2)
    world.gang("g", 2)
    return world, [d for d in world.decide() if isinstance(d, Bind)]


def lose(world: World, bind: Bind) -> None:
    world.pending_binds.remove(bind)
    world.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer.UNKNOWN, "connection lost"))


def test_a_bind_of_unknown_outcome_is_sent_again_to_the_same_node():
    world, (first, second) = held_gang()
    world.answer(second)
    lose(world, first)
    assert not [d for d in world.decide() if isinstance(d, Bind)]  # not before its backoff

    again = [d for d in world.until(15) if isinstance(d, Bind)]

    assert [(d.name, d.uid, d.node, d.again) for d in again] == [(first.name, first.uid, first.node, True)]
    assert not first.again
    world.answer(again[0])
    world.run()
    assert len(world.where("g")) == 2


def test_the_room_of_a_bind_of_unknown_outcome_stays_taken():
    world, (first, second) = held_gang()
    world.answer(second)
    lose(world, first)
    world.gang("h", 3)
    world.decide()

    assert world.why("PodGroup", "h").gate == "Placement"  # only two of four GPUs are free for certain
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()


def test_a_bind_that_took_effect_without_an_answer_is_not_sent_again():
    world, (first, second) = held_gang()
    world.answer(second)
    lose(world, first)
    pod = world.pods["default", first.name]
    world.bound_by_another(first.name, first.node)
    assert world.pods["default", first.name].metadata.uid == pod.metadata.uid

    assert not [d for d in world.until(15) if isinstance(d, Bind)]
    assert len(world.where("g")) == 2


def test_a_bind_of_unknown_outcome_is_not_sent_again_for_a_pod_that_has_ended():
    world, (first, second) = held_gang()
    world.answer(second)
    lose(world, first)
    world.finish(first.name, phase="Failed")

    assert not [d for d in world.until(15) if isinstance(d, Bind)]
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()


def test_a_bind_of_unknown_outcome_to_a_node_that_is_gone_has_failed():
    world, (first, second) = held_gang()
    world.answer(second, "Failed")
    world.remove_node(first.node)
    lose(world, first)
    world.run()

    assert world.reason("PodGroup", "g") == "BindFailed"


def test_a_gang_that_backs_off_says_so():
    world, (first, second) = held_gang()
    for bind in (first, second):
        lose(world, bind)
    world.begin_deleting(first.name, second.name)
    for rank in (2, 3):
        world.pod(f"g-{rank}", group="g")
    world.run()

    assert world.reason("PodGroup", "g") == "BackingOff"
    world.hold_binds = False
    world.until(15)
    assert set(world.where("g")) == {"g-2", "g-3"}


def test_a_pod_does_not_wait_for_the_backoff_of_its_predecessor():
    world = World()
    world.node("n1")
    world.outcomes["p"] = ["Failed"]
    world.pod("p")
    world.run()
    world.pod("p")  # another of the same name
    world.run()

    assert world.where() == {"p": "n1"}


def test_a_gang_bound_in_part_is_given_up_though_nobody_ever_knows_what_became_of_the_rest():
    """Found by the simulation (seed 2104): a server that failed at one bind for ever kept the others on their nodes."""
    world = World(bindWindowSeconds=20)
    world.node("n", gpus=8)
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    for _ in range(10):
        for bind in list(world.pending_binds):
            world.answer(bind, "Unknown")
        world.until(5.0)
    assert [one.name for one in world.log if isinstance(one, Evict)][:2] == [first.name, second.name]
