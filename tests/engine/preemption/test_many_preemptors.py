"""Many that take others out in one turn: each chooses as if it looked at everything anew."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import World
from tutti.engine.admission import batches
from tutti.engine.preemption import PreemptionState, early_fits, lower_priority, nominations
from tutti.engine.preemption.nominated_columns import NominatedColumns
from tutti.engine.records.decisions import Evict


def histories() -> st.SearchStrategy[dict[str, list[tuple[int, int]]]]:
    """Pods and gangs that run, and those that come in one turn: GPUs and priorities, 8 GPUs to a node."""
    low, high = (st.tuples(st.integers(1, 4), st.integers(*bounds)) for bounds in ((0, 4), (3, 9)))
    return st.fixed_dictionaries(
        {
            "singles": st.lists(low, min_size=4, max_size=16),
            "gangs": st.lists(low, max_size=3),
            "preemptors": st.lists(high, min_size=2, max_size=12),
            "gangs to come": st.lists(high, max_size=2),
        }
    )


def played(drawn: dict[str, list[tuple[int, int]]]) -> World:
    """Play one, with further turns in which some victims leave, one by one and with a node, and others come."""
    world = World()
    world.hold_evictions = True
    for node in range(4):
        world.node(f"n{node}", gpus=8)
    for number, (gpus, priority) in enumerate(drawn["singles"]):
        world.pod(f"low-{number}", gpus=gpus, priority=priority)
    for number, (gpus, priority) in enumerate(drawn["gangs"]):
        world.gang(f"old-{number}", 2, gpus=gpus, priority=priority)
    world.run()
    for number, (gpus, priority) in enumerate(drawn["preemptors"]):
        world.pod(f"high-{number}", gpus=gpus, priority=priority)
    for number, (gpus, priority) in enumerate(drawn["gangs to come"]):
        world.gang(f"new-{number}", 2, gpus=gpus, priority=priority)
    world.run()
    for name in sorted(world.where("low"))[::2]:
        world.delete(name)
    world.run()
    for number, name in enumerate(sorted(world.where("low"))[:3]):
        world.delete(name)
        world.pod(f"later-{number}", gpus=2, priority=number * 4)
        world.run()
    world.delete("high-0")
    world.run()
    world.remove_node("n0")
    world.run()
    for name in sorted(world.where("old")):
        world.delete(name)
    world.run()
    return world


@examples(60)
@given(histories())
def test_each_chooses_as_if_it_looked_at_everything_anew(drawn):
    kept = played(drawn)
    units, follow = lower_priority.victim_units, NominatedColumns.follow

    def looking_anew(state: PreemptionState, *arguments):
        state.candidates.forget()
        return units(state, *arguments)

    def reading_anew(self: NominatedColumns, *arguments):
        self.forget()
        follow(self, *arguments)

    with (
        mock.patch.object(lower_priority, "victim_units", looking_anew),
        mock.patch.object(nominations, "_hinges_on", return_value=None),
        mock.patch.object(NominatedColumns, "follow", reading_anew),
    ):
        anew = played(drawn)
    assert kept.log == anew.log


def filled(drawn: dict[str, list[tuple[int, int]]], small: int) -> World:
    """Play one whose victims are leaving while equal pods come that want one GPU each."""
    world = played(drawn)
    for number in range(4, 8):
        world.node(f"n{number}", gpus=8)
    for number in range(small):
        world.pod(f"small-{number}", gpus=1, priority=number // 8 * 5)
    world.run()
    return world


@examples(60)
@given(histories(), st.integers(2, 24))
def test_equal_pods_that_come_while_others_are_nominated_go_where_each_would_go_by_itself(drawn, small):
    together = filled(drawn, small)
    with mock.patch.object(batches, "batch_of", lambda _state, head, *_: [head]):
        alone = filled(drawn, small)
    assert together.where("small") == alone.where("small")
    assert [one for one in together.log if isinstance(one, Evict)] == [
        one for one in alone.log if isinstance(one, Evict)
    ]


def waiting_for_victims(many: int) -> World:
    """Pods that each wait for what fills a node to leave it, beside a node with four of higher priority."""
    world = World()
    world.hold_evictions = True
    for number in range(many):
        world.node(f"n{number}", gpus=8)
        world.pod(f"low-{number}", gpus=8, node=f"n{number}")
    world.node("busy", gpus=8)
    for number in range(4):
        world.pod(f"busy-{number}", gpus=2, priority=9, node="busy")
    world.run()
    for number in range(many):
        world.pod(f"high-{number}", gpus=8, priority=5)
    return world


def looks_in_a_turn_of_six(world):
    """How often who may be taken out is looked for in a turn in which six are."""
    with mock.patch.object(lower_priority, "_candidates", wraps=lower_priority._candidates) as looked:
        world.run()
    assert sum(isinstance(one, Evict) for one in world.log) == 6
    return looked.call_count


def test_everybody_who_may_be_taken_out_is_looked_at_once_for_all_preemptors_of_a_turn():
    world = waiting_for_victims(6)
    assert looks_in_a_turn_of_six(world) == 1


def test_preemptors_of_several_priorities_look_once_for_each():
    world = waiting_for_victims(6)
    for number in range(3):
        world.delete(f"high-{number}")
        world.pod(f"higher-{number}", gpus=8, priority=6)
    assert looks_in_a_turn_of_six(world) == 2


def test_who_waits_for_victims_is_tried_by_now_only_where_as_much_is_free():
    world = waiting_for_victims(3)
    world.run()
    for number in range(3):
        world.now += 5
        world.finish(f"busy-{number}")
        before = world.engine.evaluated
        world.run()
        assert world.engine.evaluated == before
    world.now += 5
    world.finish("busy-3")
    world.run()
    assert list(world.where("high").values()) == ["busy"]


def test_however_often_room_becomes_free_who_waits_for_victims_is_looked_at_once_in_a_while():
    world = waiting_for_victims(3)
    world.run()
    with mock.patch.object(early_fits._RoomBeside, "of", wraps=early_fits._RoomBeside.of) as looked:
        world.now += nominations.REFIT_SECONDS
        for number in range(4):
            world.now += nominations.REFIT_SECONDS / 10
            world.finish(f"busy-{number}")
            world.run()
        assert looked.call_count == 1
        assert world.where("high") == {}
        world.now += nominations.REFIT_SECONDS
        world.run()
    assert looked.call_count == 2
    assert list(world.where("high").values()) == ["busy"]
