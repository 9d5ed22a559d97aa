"""`tutti explain` of who waits for others to leave: which pods, since when each should have gone, and what keeps it."""

from __future__ import annotations

import pytest
from rich.console import Group

from tests.engine.preemption.hung_pods import MARGIN, three_low_one_high, with_stuck
from tests.engine.world import World, replaced
from tutti.cli.views.command_line import plain
from tutti.cli.views.drawing import WIDE
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.leaving import draw_leaving
from tutti.cli.views.explain.model import ExplainedWorkload, LeavingPod
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster


def hung() -> World:
    """A pod waits for one with a finalizer that is leaving."""
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=4)
    world.pod("low", gpus=4)
    world.run()
    low = world.pods["default", "low"]
    world.put(replaced(low, metadata=replaced(low.metadata, finalizers=["example.com/drain"])))
    world.pod("high", gpus=4, priority=10)
    world.run()
    return world


def explained(world: World) -> tuple[ExplainedWorkload, str]:
    asked = ObservedCluster(Listed(world.listed()), world.now)
    found = explanation_of(asked, asked.stock().state, ("Pod", "default", "high"), trying=False)
    return found, plain(draw_explained(found, asked.at))


def test_a_pod_that_should_have_left_is_named_with_since_when_and_its_finalizers():
    world = hung()
    world.until(600.0)
    found, drawn = explained(world)
    (one,) = found.leaving
    assert (one.name, one.node, one.leaves_by, one.finalizers) == (
        "default/low",
        "n0",
        1_000_000.0,
        ("example.com/drain",),
    )
    assert "should have left by 1970-01-12T13:46:40Z, 10m ago; finalizers: example.com/drain" in " ".join(drawn.split())


def test_one_that_has_time_left_is_told_with_how_much():
    world = hung()
    world.begin_deleting("low", grace=30.0)
    world.run()
    _, drawn = explained(world)
    assert "is to leave by 1970-01-12T13:47:10Z, in 30s" in " ".join(drawn.split())


def test_who_waits_for_nobody_to_leave_is_told_of_none():
    world = hung()
    world.delete("low")
    world.run()
    found, drawn = explained(world)
    assert found.leaving == ()
    assert "to leave" not in drawn


def held(world: World, name: str) -> None:
    """Somebody's finalizer keeps a pod."""
    pod = world.pods["default", name]
    world.put(replaced(pod, metadata=replaced(pod.metadata, finalizers=["example.com/drain"])))


@pytest.mark.parametrize(("kind", "stuck"), [("a pod", ["stuck"]), ("a gang", ["stuck-0", "stuck-1"])])
def test_in_whose_place_others_leave_is_named_with_since_when_and_its_finalizers(kind, stuck):
    world = with_stuck(kind)
    for name in stuck:
        held(world, name)
    world.pod("high", gpus=4, priority=10)
    world.until(MARGIN)
    found, drawn = explained(world)
    assert found.reason == "WaitingForOtherVictims"
    assert [(one.name, one.node, one.overdue, one.replaced) for one in found.leaving] == [
        *((f"default/{name}", "n0", True, True) for name in stuck),
        ("default/runs", "n1", False, False),
    ]
    assert all(one.finalizers == ("example.com/drain",) for one in found.leaving[:-1])
    (gate,) = (step.message for step in found.steps if step.gate == "Victims")
    assert "default/runs on n1" in gate
    assert "in the place of default/stuck" in gate
    said = "should have left by 1970-01-12T13:46:40Z, 2m ago; others leave in its place; finalizers: example.com/drain"
    assert " ".join(drawn.split()).count(said) == len(stuck)


def test_who_is_waited_for_is_named_in_its_condition_as_long_as_it_hangs():
    world = three_low_one_high()
    world.until(MARGIN)
    world.until(3600.0)  # the second hangs, too
    found, _ = explained(world)
    hung, second = found.leaving
    assert (hung.overdue, hung.replaced, second.overdue, second.replaced) == (True, True, True, False)
    assert f"in the place of {hung.name} on " in world.why("Pod", "high").message
    world.restart()
    world.run()
    assert f"in the place of {hung.name} on " in world.why("Pod", "high").message


def test_who_hangs_where_it_could_not_run_is_not_waited_for():
    world = with_stuck("a pod")
    world.node("small", gpus=1)
    world.pod("elsewhere", gpus=1, priority=1)
    world.run()
    world.begin_deleting("elsewhere")
    world.pod("high", gpus=4, priority=10)
    world.until(MARGIN)
    found, _ = explained(world)
    assert [one.name for one in found.leaving] == ["default/stuck", "default/runs"]


def test_of_many_the_first_are_drawn_and_all_that_are_overdue():
    pods = [LeavingPod(f"d/p{number}", "n0", 1000.0 + number) for number in range(320)]
    drawn = plain(Group(*draw_leaving(pods, 0.0, WIDE)))
    assert "d/p9 " in drawn
    assert "d/p10 " not in drawn
    assert "and 310 more" in drawn
    late = [replaced(one, overdue=number < 20) for number, one in enumerate(pods)]
    assert "and 300 more" in plain(Group(*draw_leaving(late, 1020.0, WIDE)))
    hung = [replaced(one, overdue=True) for one in pods]
    assert "and 290 more" in plain(Group(*draw_leaving(hung, 2000.0, WIDE)))
    assert "more" not in plain(Group(*draw_leaving(pods[:10], 0.0, WIDE)))
