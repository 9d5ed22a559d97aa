"""Many that take others out in one turn: each chooses as if it looked at everything anew."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import World
from tutti.engine.preemption import PreemptionState, by_priority
from tutti.engine.preemption.nominated_columns import NominatedColumns


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
    """Play one, with two more turns in which the first victims leave."""
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
    return world


@examples(60)
@given(histories())
def test_each_chooses_as_if_it_looked_at_everything_anew(drawn):
    kept = played(drawn)
    units, follow = by_priority._kept_units, NominatedColumns.follow

    def looking_anew(state: PreemptionState, *arguments):
        state.candidates.forget()
        return units(state, *arguments)

    def reading_anew(self: NominatedColumns, *arguments):
        self.forget()
        follow(self, *arguments)

    with (
        mock.patch.object(by_priority, "_kept_units", looking_anew),
        mock.patch.object(NominatedColumns, "follow", reading_anew),
    ):
        anew = played(drawn)
    assert kept.log == anew.log
