"""The time that the engine is told goes on evenly, whatever is done to the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.test_cycle import Recorder, running
from tutti.controller.cycle import FOLLOWED_SECONDS, SLEW, Cycle, SteadyTime
from tutti.controller.metrics import Metrics

HOUR = 3600.0


class Machine:
    """A machine whose time of day may be set, and which may be suspended."""

    def __init__(self) -> None:
        self.wall, self.tick = 1_000_000.0, 50.0
        self.time = SteadyTime(lambda: self.wall, lambda: self.tick)

    def go_on(self, seconds: float, *, reads: int = 1) -> float:
        for _ in range(reads):
            self.wall += seconds / reads
            self.tick += seconds / reads
            now = self.time()
        return now


def test_it_is_the_time_of_day_while_nobody_sets_that():
    machine = Machine()
    assert machine.time() == machine.wall
    for seconds in (0.0, 0.001, 1.0, 7 * HOUR):
        machine.go_on(seconds)
        assert machine.time() == machine.wall


def test_a_leap_forward_that_is_corrected_ends_nothing_and_holds_nothing_up():
    machine = Machine()
    began = machine.time()
    machine.wall += 5 * HOUR
    leapt = machine.go_on(30.0, reads=30)
    assert leapt - began <= 30.0 * (1 + SLEW) + 1e-6
    machine.wall -= 5 * HOUR
    later = machine.go_on(20.0, reads=20)
    assert later - leapt >= 20.0 * (1 - SLEW) - 1e-6
    machine.go_on(60.0, reads=60)
    assert machine.time() == pytest.approx(machine.wall)


@pytest.mark.parametrize("hours", [5, -5])
def test_a_clock_that_was_wrong_is_followed_bit_by_bit(hours):
    machine = Machine()
    machine.time()
    machine.wall += hours * HOUR
    for _ in range(int(abs(hours) / SLEW)):
        before = machine.time()
        now = machine.go_on(HOUR, reads=60)
        assert HOUR * (1 - SLEW) - 1e-3 <= now - before <= HOUR * (1 + SLEW) + 1e-3
    machine.go_on(HOUR, reads=60)
    assert machine.time() == pytest.approx(machine.wall, abs=FOLLOWED_SECONDS)


def test_a_second_ahead_is_followed_at_once():
    machine = Machine()
    machine.time()
    machine.wall += FOLLOWED_SECONDS
    assert machine.time() == machine.wall


def test_while_a_machine_is_suspended_time_passes_where_its_clock_counts_that():
    machine = Machine()
    began = machine.time()
    assert machine.go_on(8 * HOUR) == began + 8 * HOUR


def test_where_nothing_counts_a_suspension_it_has_not_happened_to_what_runs():
    machine = Machine()
    began = machine.time()
    machine.wall += 8 * HOUR
    assert machine.time() == began
    assert machine.go_on(100.0) <= began + 100.0 * (1 + SLEW) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1e6, 1e6)), max_size=30))
def test_it_never_goes_back_and_never_leaps(steps):
    machine = Machine()
    before = machine.time()
    for seconds, set_by in steps:
        machine.wall += set_by
        now = machine.go_on(seconds)
        assert before <= now <= before + seconds * (1 + SLEW) + FOLLOWED_SECONDS + 1e-3
        assert now >= before + seconds * (1 - SLEW) - 1e-3
        before = now


async def test_the_engine_is_told_a_time_that_a_clock_set_for_a_moment_does_not_move():
    wall, tick = [100.0], [0.0]

    class Set(Recorder):
        def decide(self, at, *, most=None, enough=None):
            tick[0] += 1.0
            wall[0] += 1.0 + {1: HOUR, 2: -HOUR}.get(len(self.asked), 0.0)
            return super().decide(at, most=most)

    engine = Set(alarms=[0.0] * 6)
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), clock=lambda: wall[0], ticks=lambda: tick[0])
    cycle.lead()
    cycle.synced()
    await running(cycle, engine.until(lambda: len(engine.asked) > 5))
    steps = [later - sooner for sooner, later in zip(engine.asked, engine.asked[1:], strict=False)]
    assert all(1.0 - SLEW - 1e-6 <= step <= 1.0 + SLEW + 1e-6 for step in steps[:5])
