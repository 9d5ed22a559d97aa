"""The turn as `engine.py` tells it: each step asks what it needs once, and nothing that has nothing to say."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tests.house.walk import Walk, walked
from tutti.engine.admission import extenders, quota_holdback, usage_history
from tutti.engine.backfill import backfill
from tutti.engine.lifecycle import early_starts, permits
from tutti.engine.preemption import nominations
from tutti.engine.records.decisions import Bind

SILENT = (
    extenders.consult,
    quota_holdback.refused_by_holdback,
    usage_history.count_admission,
    backfill.explain_reservations,
    permits.recheck_held,
    early_starts.end_patience,
    nominations.spare_victims,
)
"""What a plain pod has no use for."""


def world() -> World:
    one = World()
    for name in ("n1", "n2"):
        one.node(name)
    one.flavor()
    return one


def turn(one: World) -> Walk:
    """Decide once, and count what is called meanwhile."""
    return walked(lambda: one.log.extend(one.engine.decide(one.now)))


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_flavors_of_a_head_are_asked_for_once_before_each_try(heads):
    one = world()
    for number in range(heads):
        one.queue(f"cq{number}", 8, local=f"queue{number}")
        one.pod(f"p{number}", queue=f"queue{number}", gpus=2)
    walk = turn(one)
    assert len([decision for decision in one.log if isinstance(decision, Bind)]) == heads
    # Before the first try all heads are asked what they could have, before each of the others one that is left.
    assert walk.calls["engine/admission/attempt.py", "assign_flavors"] == heads + (heads - 1)


def test_a_plain_pod_meets_nobody_who_has_nothing_to_say():
    one = world()
    one.queue("cq", 8)
    one.pod("p", queue="queue")
    called = {name for _, name in turn(one).calls}
    assert "reserve" in called
    assert not called & {function.__name__ for function in SILENT}
