"""The longest stall of the event loop is remembered for a while, and no longer."""

import pytest

from tutti.controller.event_loops import Heartbeat, LongestStall
from tutti.controller.health import Check


@pytest.mark.parametrize(
    ("stalls", "longest"),
    [
        ([(1.0, 0.2)], 0.2),
        ([(1.0, 0.2), (2.0, 0.1)], 0.2),
        ([(1.0, 0.2), (61.0, 0.1)], 0.2),  # the term before still counts
        ([(1.0, 0.2), (61.0, 0.1), (121.0, 0.05)], 0.1),
        ([(1.0, 0.2), (500.0, 0.0)], 0.0),
        ([(1e6, 0.3)], 0.3),  # whatever the clock begins with
    ],
)
def test_the_longest_of_this_term_and_the_one_before(stalls, longest):
    kept = LongestStall(60.0)
    assert [kept.add(at, stall) for at, stall in stalls][-1] == longest


def test_a_loop_that_has_not_come_round_for_a_minute_is_not_there():
    now = [100.0]
    pulse = Heartbeat(lambda: now[0])
    now[0] += 59
    assert pulse.is_there()
    assert pulse.check().detail == "it has not come round for 59 s"
    now[0] += 1
    assert not pulse.check().ok
    pulse.beat()
    assert pulse.check() == Check(ok=True)
