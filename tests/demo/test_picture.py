"""The picture: how far jobs have come, how long gangs were partly bound, and what has happened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.demo import observed
from tutti_demo.picture import Happening, Kind, Picture, State, Why
from tutti_demo.scenario import Job

TANGO = observed.job()
SOLO = observed.job("solo", 1)


def tango_on(picture: Picture):
    return picture.tracks["vision", "tango"]


def kinds(picture: Picture) -> list[Kind]:
    return [happening.kind for happening in picture.happenings]


def test_a_gang_goes_from_expected_over_waiting_and_binding_to_running_and_finished():
    picture = observed.picture(observed.act(TANGO))
    states = [tango_on(picture).state]
    observed.arrive(picture, TANGO, at=1.0)
    states.append(tango_on(picture).state)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=2.0)
    states.append(tango_on(picture).state)
    observed.bind(picture, TANGO, at=2.5)
    states.append(tango_on(picture).state)
    observed.finish(picture, TANGO, at=5.0)
    states.append(tango_on(picture).state)

    assert states == [State.EXPECTED, State.WAITING, State.BINDING, State.RUNNING, State.FINISHED]
    assert kinds(picture) == [Kind.ARRIVED, Kind.PLACED, Kind.FINISHED]
    assert picture.happenings[-1] == Happening(5.0, Kind.FINISHED, "vision/tango", "", TANGO)


def test_waiting_counts_from_the_first_pod_to_the_last_bind_and_spread_from_the_first_bind():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=1.0)
    for index, at in enumerate((4.0, 4.25, 4.5)):
        picture.see_pod(observed.pod(TANGO, index, node="node-0"), at=at)

    track = tango_on(picture)
    assert (track.waited_seconds, track.spread_seconds, track.placed_at) == (3.5, 0.5, 4.5)


def test_a_gang_that_is_not_whole_has_neither_waited_nor_spread():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=1.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=2.0)

    assert tango_on(picture).waited_seconds is None
    assert tango_on(picture).spread_seconds is None


def test_a_gang_left_half_bound_is_partly_bound_for_as_long_as_it_stays_so():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=0.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=2.0)
    picture.see_pod(observed.pod(TANGO, 1, node="node-0"), at=3.0)

    assert tango_on(picture).partly_bound_seconds(60.0) == 58.0


def test_the_longest_of_several_partly_bound_times_counts():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=0.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=1.0)
    picture.lose_pod("vision", "tango-0", at=8.0)
    picture.see_pod(observed.pod(TANGO, 0), at=9.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-1"), at=10.0)
    observed.bind(picture, TANGO, at=12.0, node="node-1")

    assert tango_on(picture).partly_bound_seconds(100.0) == 7.0


def test_members_that_finish_before_others_do_not_make_a_gang_partly_bound():
    picture = observed.picture(observed.act(TANGO))
    observed.bind(picture, TANGO, at=1.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0", phase="Succeeded"), at=2.0)
    picture.lose_pod("vision", "tango-0", at=3.0)

    assert tango_on(picture).partly_bound_seconds(50.0) == 0.0
    assert tango_on(picture).state is State.RUNNING


@given(st.lists(st.floats(0, 100, allow_nan=False), min_size=2, max_size=12))
def test_a_gang_bound_once_and_for_all_was_partly_bound_exactly_for_its_spread(times: list[float]):
    gang = observed.job(members=len(times))
    picture = observed.picture(observed.act(gang), gpus=1000)
    observed.arrive(picture, gang, at=0.0)
    for index, at in enumerate(sorted(times)):
        picture.see_pod(observed.pod(gang, index, node="node-0"), at=at)

    track = tango_on(picture)
    assert track.partly_bound_seconds(1e6) == track.spread_seconds == max(times) - min(times)


def test_a_pod_seen_on_a_second_node_was_bound_twice():
    picture = observed.picture(observed.act(SOLO))
    picture.see_pod(observed.pod(SOLO, node="node-0"), at=1.0)
    picture.see_pod(observed.pod(SOLO, node="node-0", phase="Running"), at=1.5)
    assert picture.tracks["vision", "solo"].moved == []

    picture.see_pod(observed.pod(SOLO, node="node-1"), at=2.0)
    assert picture.tracks["vision", "solo"].moved == ["vision/solo from node-0 to node-1"]


def test_another_pod_of_the_same_name_may_be_on_another_node():
    picture = observed.picture(observed.act(SOLO))
    picture.see_pod(observed.pod(SOLO, node="node-0", uid="first"), at=1.0)
    picture.see_pod(observed.pod(SOLO, node="node-1", uid="second"), at=2.0)

    assert picture.tracks["vision", "solo"].moved == []


def test_a_node_given_more_than_it_offers_is_noticed_once():
    picture = observed.picture(observed.act(TANGO))
    observed.bind(picture, TANGO, at=1.0)

    assert picture.overfull == ["node-0"]
    assert picture.used_on("node-0") == {"vision": 12}


def test_pods_that_are_done_take_no_room():
    picture = observed.picture(observed.act(TANGO, SOLO))
    picture.see_pod(observed.pod(TANGO, 0, node="node-0", phase="Succeeded"), at=1.0)
    picture.see_pod(observed.pod(TANGO, 1, node="node-0", phase="Running"), at=1.0)
    picture.see_pod(observed.pod(SOLO, node="node-0", phase="Running"), at=2.0)

    assert picture.used_on("node-0") == {"vision": 8}
    assert picture.overfull == []


def test_why_a_gang_waits_is_told_once_per_gate_and_not_while_it_gathers():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=0.0)
    for at, gate, message in (
        (1.0, "Gather", "2 of 3 members are there"),
        (2.0, "Quota", "needs 12; 4 free"),
        (3.0, "Quota", "needs 12; 8 free"),
        (4.0, "Placement", "0/2 nodes are available"),
    ):
        picture.see_why("vision", "tango", Why(gate, "Reason", message), at=at)

    told = [(one.at, one.text) for one in picture.happenings if one.kind is Kind.WAITS]
    assert told == [(2.0, "quota: needs 12; 4 free"), (4.0, "placement: 0/2 nodes are available")]
    assert tango_on(picture).gates == ["Quota", "Placement"]


def test_an_explanation_that_comes_after_the_binds_is_ignored():
    picture = observed.picture(observed.act(TANGO))
    observed.bind(picture, TANGO, at=1.0)
    picture.see_why("vision", "tango", Why("Placement", "Unschedulable", "no room"), at=2.0)

    assert tango_on(picture).why is None
    assert tango_on(picture).gates == []


def test_a_single_pod_says_itself_why_it_waits():
    picture = observed.picture(observed.act(SOLO))
    picture.see_pod(observed.pod(SOLO, why=Why("Placement", "Unschedulable", "0/2 nodes")), at=1.0)

    assert picture.tracks["vision", "solo"].gates == ["Placement"]


@pytest.mark.parametrize(
    ("why", "numbers"),
    [
        (Why("Placement", "Unschedulable", "0/20 nodes are available", room="10 of 12"), "room for 10 of 12 pods"),
        (
            Why("Quota", "WaitingForQuota", "ClusterQueue vision: needs 32 nvidia.com/gpu in a100-sxm; 16 free"),
            "needs 32 GPUs; 16 free",
        ),
        (Why("Queue", "BehindHead", "ClusterQueue vision is StrictFIFO"), "ClusterQueue vision is StrictFIFO"),
        (
            Why("Placement", "Unschedulable", "0/2 nodes are available in flavor a100-sxm: 2 full."),
            "0/2 nodes are available: 2 full.",
        ),
    ],
)
def test_explanations_are_cut_down_to_their_numbers(why: Why, numbers: str):
    assert why.numbers == numbers
    assert why.brief == f"{why.gate.lower()}: {numbers}"


def test_a_failed_pod_fails_its_gang_and_the_play_does_not_wait_for_it():
    picture = observed.picture(observed.act(TANGO))
    observed.bind(picture, TANGO, at=1.0)
    picture.see_pod(observed.pod(TANGO, 1, node="node-0", phase="Failed"), at=2.0)

    assert tango_on(picture).state is State.FAILED
    assert picture.finished()


def test_an_act_is_finished_before_the_play_is():
    first, second = observed.act(TANGO), observed.act(SOLO, number=2)
    picture = observed.picture(first, second)
    observed.finish(picture, TANGO, at=3.0)

    assert picture.finished(first)
    assert not picture.finished()


def test_pods_of_others_are_left_out():
    stranger: Job = observed.job("stranger", 1)
    picture = observed.picture(observed.act(TANGO))
    picture.see_pod(observed.pod(stranger, node="node-0"), at=1.0)
    picture.see_why("vision", "stranger", Why("Quota", "WaitingForQuota", "x"), at=1.0)
    picture.lose_pod("vision", "stranger", at=2.0)

    assert picture.happenings == []
    assert picture.used_on("node-0") == {}
