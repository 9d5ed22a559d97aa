"""The summary: which promises were kept, in words and for machines."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.demo import observed
from tutti_demo.picture import Picture
from tutti_demo.summary import Summary, summarize, to_json
from tutti_demo.track import Why

TANGO, WALTZ, SOLO = observed.job(), observed.job("waltz", team="speech"), observed.job("solo", 1)


def played() -> Picture:
    picture = observed.picture(observed.act(TANGO, SOLO), observed.act(WALTZ, number=2))
    for one, node, at in ((TANGO, "node-0", 11.0), (WALTZ, "node-1", 15.0), (SOLO, "node-0", 12.0)):
        finished_elsewhere(picture, one, node, at)
    return picture


def finished_elsewhere(picture: Picture, of, node: str, at: float) -> None:
    observed.arrive(picture, of, at=at)
    for index in range(of.members):
        picture.see_pod(observed.pod(of, index, node=f"{node}-{index}"), at=at + 1)
        picture.see_pod(observed.pod(of, index, node=f"{node}-{index}", phase="Succeeded"), at=at + 2)


def concluded(picture: Picture, *, at: float = 20.0) -> Summary:
    return summarize(picture, at=at, started_at=10.0, partly_bound_limit=5.0)


def test_a_play_in_which_everything_finished_keeps_all_promises():
    summary = concluded(played())

    assert summary.ok
    assert [(row.namespace, row.name, row.act, row.members, row.bound) for row in summary.gangs] == [
        ("vision", "tango", 1, 3, 3),
        ("speech", "waltz", 2, 3, 3),
    ]
    assert [row.name for row in summary.singles] == ["solo"]
    assert summary.median_single_wait_seconds == 1.0
    assert summary.seconds == 10.0


def test_times_count_from_the_beginning_of_the_play():
    gang = concluded(played()).gangs[0]

    assert (gang.waited_seconds, gang.placed_at, gang.finished_at) == (1.0, 2.0, 3.0)


def test_what_did_not_finish_is_named_with_why_it_waits():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=11.0)
    picture.see_why("vision", "tango", Why("Quota", "WaitingForQuota", "needs 12; 4 free"), at=12.0)

    assert concluded(picture).problems == ("vision/tango is not finished but waiting (Quota: needs 12; 4 free)",)


def test_what_never_arrived_is_not_finished_either():
    assert concluded(observed.picture(observed.act(TANGO))).problems == ("vision/tango is not finished but expected",)


@pytest.mark.parametrize(
    ("bound_again", "problem"),
    [
        (14.0, None),
        (15.5, None),
        (16.0, "gang vision/tango was partly bound for 5.5 s; at most 5 s are its bind window"),
    ],
)
def test_a_gang_may_be_partly_bound_for_its_bind_window_and_no_longer(bound_again: float, problem: str | None):
    picture = observed.picture(observed.act(TANGO), gpus=1000)
    observed.arrive(picture, TANGO, at=10.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=10.5)
    observed.bind(picture, TANGO, at=bound_again)
    observed.finish(picture, TANGO, at=19.0)

    assert concluded(picture).problems == ((problem,) if problem else ())


def test_a_gang_left_partly_bound_at_the_end_is_a_broken_promise_however_short():
    picture = observed.picture(observed.act(TANGO))
    observed.arrive(picture, TANGO, at=19.0)
    picture.see_pod(observed.pod(TANGO, 0, node="node-0"), at=19.5)

    assert "gang vision/tango is left partly bound: 1 of 3 members" in concluded(picture).problems


def test_a_pod_bound_twice_and_an_overfull_node_are_broken_promises():
    picture = played()
    picture.see_pod(observed.pod(SOLO, node="elsewhere", phase="Succeeded"), at=19.0)
    picture.overfull.append("node-1")

    assert concluded(picture).problems == (
        "pod vision/solo from node-0-0 to elsewhere: a pod was bound twice",
        "node node-1 was given more than its 8 GPUs",
    )


@pytest.mark.parametrize(
    ("spreads", "p50", "p99"),
    [([], None, None), ([3.0], 3.0, 3.0), ([2.0, 1.0], 1.0, 2.0), ([float(i) for i in range(1, 101)], 50.0, 99.0)],
)
def test_the_spread_of_binds_is_told_by_nearest_rank(spreads, p50, p99):
    summary = concluded(played())
    gangs = tuple(dataclasses.replace(summary.gangs[0], spread_seconds=spread) for spread in spreads)
    summary = dataclasses.replace(summary, gangs=gangs)
    assert (summary.bind_spread_seconds(50), summary.bind_spread_seconds(99)) == (p50, p99)


def test_machines_read_the_same():
    picture = played()
    picture.operator("killed", at=12.0)
    picture.operator("started again", at=13.0, restarted=True)

    read = json.loads(json.dumps(to_json(concluded(picture))))
    assert (read["ok"], read["problems"], read["operatorRestarts"]) == (True, [], 1)
    assert read["bindSpreadSeconds"] == {"p50": 0.0, "p99": 0.0}
    assert read["gangs"][0] == {
        "namespace": "vision",
        "name": "tango",
        "act": 1,
        "queue": "main",
        "members": 3,
        "bound": 3,
        "state": "finished",
        "placedAtSeconds": 2.0,
        "finishedAtSeconds": 3.0,
        "waitedSeconds": 1.0,
        "spreadSeconds": 0.0,
        "partlyBoundSeconds": 0.0,
        "waitedFor": [],
    }
    assert [row["name"] for row in read["singles"]] == ["solo"]
