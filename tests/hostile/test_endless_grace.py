"""Pods that ask for years to end in, as any pod may: whoever waits for their room waits for an hour, and looks elsewhere."""

from __future__ import annotations

from tests.engine.preemption.hung_pods import MARGIN, nodes
from tutti.cluster.pods import LONGEST_GRACE
from tutti.engine.records.decisions import Evict


def test_a_victim_that_takes_years_to_end_keeps_nobody_waiting_who_has_others_to_take_out():
    world = nodes(4, 4)
    world.pod("endless", gpus=4, priority=-1)
    world.run()
    world.pod("runs", gpus=4)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.run()
    world.begin_deleting("endless", grace=1e9)
    world.until(LONGEST_GRACE + MARGIN - 1)
    assert [one.name for one in world.log if isinstance(one, Evict)] == ["endless"]
    world.until(1)
    assert [one.name for one in world.log if isinstance(one, Evict)] == ["endless", "runs"]
    world.delete("runs")
    world.run()
    assert world.where("high")
