"""What a drain does to gangs: who keeps how much for whom and for how long, and what comes after; all of it tried."""

from __future__ import annotations

import pytest

from tests.cli.views import scene
from tests.cli.views.loss import gang, nodes
from tests.cli.views.scene import GPU, Json
from tests.cli.views.test_degraded import queues
from tests.cli.views.test_drain import drained
from tutti.cli.views.command_line import plain
from tutti.cli.views.drain.command import draw_drain
from tutti.cli.views.drain.trial import Drain, GangHit

RACK = {"schedulingConstraints": {"topology": [{"key": scene.RACK, "mode": "Required"}]}}


def hit(*made: Json, name: str = "a") -> GangHit:
    (found,) = drained(*made, name=name).gangs
    return found


def drawn(*made: Json, name: str = "a") -> str:
    return " ".join(plain(draw_drain(drained(*made, name=name))).split())


def busy(on: str, gpus: int = 8) -> Json:
    return scene.pod("d", f"busy-{on}", gpus, on=on, owner="Job")


def test_quota_of_what_leaves_is_kept_for_the_window_and_successors_that_fit_make_it_whole():
    made = [*nodes("a", "b", "c"), *queues(), *gang("a", "b", queue="q")]
    found = hit(*made)

    assert (found.breaks, found.whole, found.action, found.window) == (True, True, "Restart", 300)
    assert {one.resource: one.amount for one in found.kept}[GPU] == 8
    assert "degraded: 1 of 2 left; quota is kept for successors for 300 s: 8 nvidia.com/gpu (a100)" in drawn(*made)
    assert "whole again" in drawn(*made)


def test_members_that_fit_one_by_one_and_not_together_do_not_make_it_whole():
    made = [*nodes("a", "b", "c"), busy("b"), *gang("a", "a", gpus=4), busy("c", 4)]
    found = hit(*made)

    assert (found.breaks, found.whole) == (True, False)
    assert {one.name: one.fate for one in drained(*made, name="a").pods} == {"g-0": "Waits", "g-1": "Waits"}


def test_a_gang_that_finds_no_room_is_restarted_whole_and_it_is_said_where():
    """The two racks are full but for two nodes of another: there is no room near the others, and there is elsewhere."""
    racks = nodes("a", "b", "c", "d")
    for one, rack in zip(racks, ("r1", "r1", "r2", "r2"), strict=True):
        one["metadata"]["labels"][scene.RACK] = rack
    made = [*racks, *gang("a", "b", **RACK)]
    found = hit(*made)

    assert (found.breaks, found.whole, found.window, found.at_once) == (True, False, 300, "")
    assert found.again == {"c": 1, "d": 1}
    assert found.when_gone
    said = drawn(*made)
    assert "after 300 s, or at once when the Node is deleted, the gang is restarted whole" in said
    assert "(onMemberLoss): then it goes to c, d" in said


def test_a_restart_that_would_find_no_room_either_is_told_to_wait():
    made = [*nodes("a", "b"), *gang("a", "b")]
    found = hit(*made)

    assert (found.whole, found.again) == (False, {})
    assert "with room for only 1 of 2 pods of the gang" in found.again_why
    assert "after 300 s the gang is restarted whole (onMemberLoss): then it waits: 0/2 nodes are available" in drawn(
        *made
    )
    assert not found.when_gone


def test_a_gang_that_keeps_runs_on_with_what_is_left():
    made = [*nodes("a", "b"), *queues(), *gang("a", "b", queue="q", onMemberLoss={"action": "Keep"})]
    found = hit(*made)

    assert (found.breaks, found.whole, found.action, found.window) == (True, False, "Keep", None)
    assert "it runs on with 1 of 2 (onMemberLoss: Keep)" in drawn(*made)
    assert "quota is kept for successors until it has its members: 8 nvidia.com/gpu (a100)" in drawn(*made)


def test_a_window_of_its_own_counts():
    assert hit(*nodes("a", "b"), *gang("a", "b", onMemberLoss={"windowSeconds": 20})).window == 20


def test_a_gang_whose_queue_cannot_have_it_any_more_is_restarted_at_once():
    made = [*nodes("a", "b", "c"), *queues(8), *gang("a", "b", queue="q")]
    found = hit(*made)

    assert "can never have as much" in found.at_once
    assert "the gang is restarted whole at once: " in drawn(*made)


def test_members_that_nothing_makes_again_are_gone_with_their_gang_at_the_end_of_the_window():
    made = [*nodes("a", "b", "c"), *gang("a", "b")]
    for one in made[-2:]:
        one["metadata"].pop("ownerReferences")
    found = hit(*made)

    assert (found.breaks, found.whole, found.why) == (True, False, "nothing makes its pods again")
    assert "after 300 s what is left is taken out too (onMemberLoss), and nothing makes it again" in drawn(*made)


def test_who_leaves_when_its_own_gang_is_restarted_is_not_taken_out_for_another():
    found = drained(*nodes("a", "b", "c"), *queues(8), *gang("a", "b", queue="q"), name="a")

    assert found.taken_out == ()


def test_a_gang_that_has_enough_left_goes_on_and_nothing_is_kept():
    made = gang("a", "b", "c")
    made[0]["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2
    found = hit(*nodes("a", "b", "c"), *made)

    assert (found.breaks, found.kept, found.window, found.action) == (False, (), None, "")


@pytest.mark.parametrize("mode", ["Pod", "PodGroup"])
def test_it_is_said_that_a_drain_does_not_know_disruption_modes(mode: str):
    made = [*nodes("a", "b", "c"), *gang("a", "b", disruptionMode=mode)]

    assert hit(*made).breaks
    assert "kubectl drain evicts pods one by one" in drawn(*made)
    assert "kubectl drain evicts" not in drawn(*nodes("a", "b"), scene.pod("d", "p", 1, on="a", owner="Job"))


def test_a_gang_that_is_degraded_already_goes_on_with_its_window():
    found: Drain = drained(*nodes("a", "b", "c"), *gang("a", "b", lost=["c"]), name="a")
    (one,) = found.gangs

    assert (one.breaks, one.window) == (True, 180)


def test_a_gang_of_which_all_leaves_starts_again_whole_as_its_pods_come():
    """Nothing of it is left that could wait for successors: it is a gang that starts."""
    made = [*nodes("a", "b"), *gang("a", "a", gpus=4)]
    found = hit(*made)

    assert (found.breaks, found.whole, found.action, found.window) == (True, True, "", None)
    assert "all of it leaves" in drawn(*made)
    full = [*made, busy("b", 4)]
    assert "it starts again whole when there is room" in drawn(*full)
