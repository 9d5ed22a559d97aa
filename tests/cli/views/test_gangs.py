"""Gangs as a model: how far each has come, and why it waits."""

from __future__ import annotations

import pytest

from tests.cli.views import scene
from tutti.cli.views.command_line import plain
from tutti.cli.views.gangs import FITS, MemberMarks, draw_gangs, drawn_members, gangs, member_marks


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
    ("marks", "drawn"),
    [
        ((0, 0, 0, 0, 2), "··"),
        ((2, 0, 0, 1, 0), "●●○"),
        ((3, 0, 0, 0, 0), "●●●"),
        ((1, 0, 0, 1, 2), "●○··"),
        ((1, 2, 1, 0, 0), "●✓✓✗"),
        ((100, 0, 0, 100, 200), "●●●●○○○○········"),
        ((0, 0, 0, 0, 0), "·"),
    ],
)
def test_members_are_marks(marks: tuple[int, ...], drawn: str):
    assert drawn_members(MemberMarks(*marks)).plain == drawn


def test_members_that_have_ended_are_not_marked_as_those_that_wait():
    made = scene.objects()
    for one in made:
        if (one["kind"], one["metadata"]["name"]) in (("Pod", "tune-0"), ("Pod", "tune-1")):
            one["status"] = {"phase": "Succeeded" if one["metadata"]["name"] == "tune-0" else "Failed"}
    (found,) = gangs(scene.told(made), namespace="speech")

    assert member_marks(found) == MemberMarks(bound=1, succeeded=1, failed=1, waiting=0, missing=0)
