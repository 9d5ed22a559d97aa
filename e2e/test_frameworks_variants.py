"""What every job framework's object must stand: too little room or quota, an operator that dies, owners seen late.

The objects, and what their controllers make of them step by step, are those of `e2e.harness.plays`. They are told on
any cluster, so on a real API server (envtest) and on real kubelets, too; only owners seen late take the embedded one:
no other server holds back what it has to tell.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.frameworks import QUEUE, Player
from e2e.harness.plays import PLAYS, Play
from e2e.harness.rights import late, watches
from e2e.harness.story import Story

PLENTY = 100
LATE_SECONDS = 1.5
"""How much later than pods their owners are seen: less than the operator has patience for."""

every_play = pytest.mark.parametrize("play", PLAYS, ids=str)
every_play_that_keeps_room = pytest.mark.parametrize("play", [play for play in PLAYS if play.keeps], ids=str)


@every_play
def test_with_room_for_one_pod_less_nothing_starts(story: Story, play: Play) -> None:
    player = Player(story, *play.kinds)
    story.queue(QUEUE, PLENTY)
    player.fill(play.room - 1)
    story.start_operator()
    _wait_for_room(player, play)


@every_play
def test_with_quota_for_one_pod_less_nothing_starts(story: Story, play: Play) -> None:
    player = Player(story, *play.kinds)
    story.queue(QUEUE, play.room)
    story.start_operator()
    rival = player.rival()
    story.wait(lambda: story.node_of(rival), "somebody else to have one of what is needed")
    acts = play.acts(player)
    expected = _to_the_first_start(acts)
    player.wait_waiting("WaitingForQuota", *_numbers(play))
    assert not player.bound()

    player.end(rival)

    player.wait_bound(expected)
    story.resize_queue(QUEUE, max(play.room, play.most))
    _to_the_end(player, acts)


@every_play
def test_an_operator_killed_between_any_two_steps_comes_to_the_same_end(story: Story, play: Play) -> None:
    player = Player(story, *play.kinds)
    story.queue(QUEUE, max(play.room, play.most))  # what is charged twice, or forgotten, does not start
    player.fill(max(play.room, play.most))
    player.start()
    for expected in play.acts(player):
        _wait_bound(player, expected)
        player.crash()
    player.wait_used(len(player.bound()))


@every_play_that_keeps_room
def test_what_is_kept_for_pods_that_come_later_is_kept_by_the_next_operator(story: Story, play: Play) -> None:
    player = Player(story, *play.kinds)
    story.queue(QUEUE, PLENTY)
    player.fill(play.room)
    player.start()
    acts = play.acts(player)
    player.wait_bound(_to_the_first_start(acts))
    story.kill_operator()
    rival = player.rival()
    player.start()
    story.wait(lambda: story.pod_condition(rival)[0] == "Unschedulable", "another pod to find no room")

    _to_the_end(player, acts)

    assert not story.node_of(rival)


@every_play
def test_pods_that_are_seen_before_their_owners_are_not_placed_alone(story: Story, play: Play) -> None:
    player = Player(story, *play.kinds)
    story.queue(QUEUE, PLENTY)
    player.fill(play.room - 1)
    plurals = {f"{kind.rpartition('/')[2].lower()}s" for kind in play.kinds} | {"jobs", "statefulsets"}
    with late(story, LATE_SECONDS, *sorted(plurals)):
        story.start_operator()
        story.wait(lambda: watches(story, "late") >= len(plurals), "the operator to watch owners")
        _wait_for_room(player, play)


def _wait_for_room(player: Player, play: Play) -> None:
    """Play where there is room for one pod less: nothing starts, until there is room for all."""
    acts = play.acts(player)
    expected = _to_the_first_start(acts)
    player.wait_waiting("Unschedulable", *_numbers(play))
    assert not player.bound()

    player.clear()

    player.wait_bound(expected)
    player.clear(max(0, play.most - play.room))
    _to_the_end(player, acts)


def _numbers(play: Play) -> tuple[int, ...]:
    """What a reason has to name: how many there must be room or quota for."""
    return (play.room,) if play.room > 1 else ()


def _to_the_first_start(acts: Iterator[int | None]) -> int:
    """Have the controller go on until pods are there that can start; returns how many those are."""
    return next(expected for expected in acts if expected)


def _wait_bound(player: Player, count: int | None) -> None:
    if count is not None:
        player.wait_bound(count)


def _to_the_end(player: Player, acts: Iterator[int | None]) -> None:
    """Have the controller go on; each pod counts in the queue, and once."""
    for expected in acts:
        _wait_bound(player, expected)
    player.wait_used(len(player.bound()))
