"""Gangs as a model: how far each has come, and why it waits."""

from __future__ import annotations

import pytest

from tests.cli.views import scene
from tutti.cli.views.command_line import plain
from tutti.cli.views.gangs import FITS, draw_gangs, gangs, member_dots


def test_gangs_are_told_with_what_they_wait_for_and_pods_by_themselves_are_none():
    found = {one.name: one for one in gangs(scene.told())}

    assert list(found) == ["batch", "llm", "tune", "train-1", "train-2", "warmup"]
    assert {name: one.gate for name, one in found.items() if one.gate} == {
        "batch": "Queue",
        "llm": "Placement",
        "train-2": "Quota",
        "warmup": "Gather",
    }
    assert (found["tune"].phase, found["tune"].bound, found["tune"].nodes) == ("Scheduled", 3, 3)
    assert (found["warmup"].required, found["warmup"].members, found["warmup"].bound) == (4, 2, 0)


def test_they_can_be_narrowed():
    assert [one.name for one in gangs(scene.told(), namespace="vision")] == ["train-1", "train-2", "warmup"]
    assert [one.name for one in gangs(scene.told(), namespace="vision", waiting=True)] == ["train-2", "warmup"]


def test_one_that_has_lost_a_member_says_so_and_waits_for_nothing():
    made = [one for one in scene.objects() if one["metadata"]["name"] != "tune-1"]
    gang = next(one for one in made if (one["kind"], one["metadata"]["name"]) == ("PodGroup", "tune"))
    gang["status"] = {"started": 3, "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled"}]}
    (found,) = gangs(scene.told(made), namespace="speech")

    assert (found.phase, found.gate, found.why) == ("Scheduled", "", "")
    assert found.degraded is not None
    assert (found.degraded.has, found.degraded.required, found.degraded.missing) == (2, 3, 1)
    assert "2 of 3 for 0s; waits for 1 successor to be created" in plain(draw_gangs([found], scene.AT))
    assert gangs(scene.told(made), namespace="speech", waiting=True) == ()


def test_one_that_fits_waits_for_nothing_but_the_operator():
    """It is told by where it is on the cluster, not by where the engine that was asked would have put it."""
    made = [
        scene.node("n", "m", "r"),
        scene.ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d"),
    ]
    (found,) = gangs(scene.told([*made, scene.pod("d", "g-0", 1, gang="g")]))

    assert (found.phase, found.bound, found.gate, found.why) == ("Waiting", 0, "", FITS)


@pytest.mark.parametrize(
    ("bound", "there", "required", "drawn"),
    [
        (0, 0, 2, "··"),
        (2, 3, 3, "●●○"),
        (3, 3, 2, "●●●"),
        (1, 2, 4, "●○··"),
        (100, 200, 400, "●●●●○○○○········"),
        (0, 0, 0, "·"),
    ],
)
def test_members_are_dots(bound: int, there: int, required: int, drawn: str):
    assert member_dots(bound, there, required).plain == drawn
