"""`tutti explain` of who waits for others to leave: which pods, since when each should have gone, and what keeps it."""

from __future__ import annotations

from tests.engine.world import World, replaced
from tutti.cli.views.command_line import plain
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.model import ExplainedWorkload
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
