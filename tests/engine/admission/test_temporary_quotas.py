"""Quotas that hold for a time: they change at their times though nothing is observed, and everybody reckons with it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import GPU, START, World
from tutti.api.conditions import timestamp

HOUR = 3600.0


def once(
    name: str, gpus: int | str, begin: float | None = None, end: float | None = None, **more: Any
) -> dict[str, Any]:
    """A window from so many seconds after the start of the story on, until so many."""
    times = {"begin": begin, "end": end}
    said = {key: timestamp(START + after) for key, after in times.items() if after is not None}
    return {
        "name": name,
        **said,
        "flavors": [{"name": "default", "resources": [{"name": GPU, "nominalQuota": gpus, **more}]}],
    }


def nightly(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    """A window from 18:00 to 06:00 UTC; the stories start at 13:46:40 on a Monday (1970-01-12)."""
    quotas = [{"name": "default", "resources": [{"name": GPU, "nominalQuota": gpus}]}]
    return {"name": name, "schedule": "0 18 * * *", "durationSeconds": 12 * 3600, "flavors": quotas, **more}


TO_SIX = 18 * HOUR - (START % 86400)
"""How long after the start 18:00 is."""


def world_of(gpus: int, *windows: dict[str, Any], nodes: int = 4, **spec: Any) -> World:
    world = World()
    world.flavor()
    for number in range(nodes):
        world.node(f"n{number}", gpus=8)
    world.queue("cq", gpus, temporaryQuotas=list(windows), **spec)
    world.run()
    return world


def nominal(world: World, queue: str = "cq") -> int:
    """What its status says of its own quota."""
    (flavor,) = world.status("ClusterQueue", queue)["flavorsUsage"]
    return int(next(one["nominal"] for one in flavor["resources"] if one["name"] == GPU))


def note(world: World, queue: str = "cq") -> tuple[bool, str, str]:
    found = world.engine.state.catalog.windows.notes[queue]
    return found.is_on, found.reason, found.message


def test_quota_changes_at_the_times_of_a_window_without_any_observation():
    world = world_of(8, once("sale", 24, 100, 300))
    world.gang("large", 16, queue="queue")
    world.run()
    assert (world.where("large"), nominal(world)) == ({}, 8)
    assert world.engine.wakeup() <= START + 100
    world.until(99)
    assert world.where("large") == {}
    world.until(1)
    assert (len(world.where("large")), nominal(world)) == (16, 24)
    assert note(world) == (True, "WindowOn", f"window sale is on until {timestamp(START + 300)}")
    world.until(200)
    assert (len(world.where("large")), nominal(world)) == (16, 8)  # nobody is taken out for that


def test_before_a_window_it_is_told_when_the_quota_rises_and_nobody_is_told_never():
    world = world_of(8, once("sale", 24, 100, 300), once("feast", 16, 500))
    world.gang("large", 16, queue="queue")
    world.run()
    why = world.why("PodGroup", "large")
    assert (why.gate, why.reason) == ("Quota", "WaitingForQuota")
    assert f"its own is 24 from {timestamp(START + 100)} on (temporaryQuotas)" in why.message
    assert "never" not in why.message
    world.gang("larger", 32, queue="queue")
    world.run()
    assert world.why("PodGroup", "larger").reason == "ExceedsMaxQuota"
    assert note(world) == (False, "NoWindowOn", f"window sale begins at {timestamp(START + 100)}")


def test_what_was_given_in_a_window_is_overuse_after_it_as_if_the_quota_had_been_lowered():
    world = world_of(8, once("sale", 24, 0, 300))
    world.gang("large", 16, queue="queue")
    world.run()
    assert len(world.where("large")) == 16
    world.until(300)
    told = world.engine.state.overuses.reported["ClusterQueue", "", "cq"].message
    assert told.startswith(f"more is used than there is quota for: 16 of 8 {GPU} of flavor default")
    world.pod("small", queue="queue")
    world.run()
    assert world.where("small") == {}
    assert world.why("Pod", "small").reason == "WaitingForQuota"


def test_what_a_queue_has_lent_comes_back_when_its_window_begins():
    """As if an administrator had raised it: the lender reclaims from who borrows above what is left."""
    world = World()
    world.flavor()
    world.node("n0", gpus=8)
    world.queue(
        "own",
        0,
        cohort="all",
        local="own",
        preemption={"reclaimWithinCohort": "Any"},
        temporaryQuotas=[once("day", 6, 100)],
    )
    world.queue("other", 8, cohort="all", local="other", temporaryQuotas=[once("less", 2, 100)])
    for number in range(4):
        world.pod(f"borrower-{number}", gpus=2, queue="other")
    world.pod("lender", gpus=6, queue="own")
    world.run()
    assert len(world.where("borrower")) == 4
    world.until(100)
    assert list(world.where("lender")) == ["lender"]
    assert len(world.where("borrower")) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_window_comes_again_and_whoever_starts_in_its_middle_has_the_same_quota(restarted):
    world = world_of(8, nightly("night", 24))
    seen = []
    for _ in range(5):
        world.until(TO_SIX if not seen else 12 * HOUR)
        if restarted:
            world.now += 60
            world.restart()
            world.run()
            world.now -= 60
        seen.append((world.engine.state.ledger.tree.queues["cq"].nominal(("default", GPU)), note(world)[0]))
        if restarted:
            world.now += 60
            world.until(0)
            world.now -= 60
    assert seen == [(24, True), (8, False), (24, True), (8, False), (24, True)]


def test_a_schedule_is_that_of_its_time_zone():
    world = world_of(8, nightly("night", 24, timeZone="Europe/Berlin"))  # 18:00 there is 17:00 UTC in January
    world.until(TO_SIX - HOUR - 1)
    assert nominal(world) == 8
    world.until(1)
    assert nominal(world) == 24


def test_what_a_window_does_not_name_stays_and_the_first_of_several_counts():
    first, second = once("first", 24, 100, 300), once("second", 32, 200, 400)
    world = world_of(8, first, second)
    told = f"windows first and second overlap, and both name {GPU} of flavor default: first, which stands first, counts"
    assert note(world) == (False, "InvalidWindow", f"{told}; window first begins at {timestamp(START + 100)}")
    quotas = []
    for _ in range(5):
        quotas.append(nominal(world))
        world.until(100)
    assert quotas == [8, 24, 24, 32, 8]
    tree = world.engine.state.ledger.tree
    assert tree.queues["cq"].nominal(("default", "cpu")) == 10_000_000


def test_limits_of_a_cohort_are_others_meanwhile_where_a_window_says_so():
    """By day it may borrow nothing."""
    world = World()
    world.flavor()
    world.node("n0", gpus=8)
    world.queue("cq", 2, cohort="all", local="queue", temporaryQuotas=[once("day", 2, 0, 100, borrowingLimit=0)])
    world.queue("rest", 6, cohort="all", local="rest")
    world.pod("p", gpus=4, queue="queue")
    world.run()
    assert world.where("p") == {}
    world.until(100)
    assert list(world.where("p")) == ["p"]


def test_a_percentage_in_a_window_follows_the_nodes():
    world = world_of(1, once("sale", "50%", 0))
    assert nominal(world) == 16
    world.node("more", gpus=8)
    world.until(20)
    assert nominal(world) == 20


@pytest.mark.parametrize(
    ("window", "wrong"),
    [
        (nightly("odd", 24, schedule="0 25 * * *"), "window odd is left out: hour '25' of the schedule"),
        (nightly("odd", 24, schedule="0 0 30 2 *"), "never comes"),
        (nightly("odd", 24, timeZone="Mars/Olympus"), "there is no time zone 'Mars/Olympus'"),
        ({**once("odd", 24, 0), "flavors": [{"name": "other", "resources": [{"name": GPU, "nominalQuota": 1}]}]}, f"window odd names {GPU} of flavor other, of which resourceGroups has no quota"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_window_costs_its_queue_a_condition_and_nothing_else(window, wrong):
    world = world_of(8, window, once("fine", 16, 100))
    assert note(world)[1] == "InvalidWindow"
    assert wrong in note(world)[2]
    world.gang("g", 16, queue="queue")
    world.pod("p", queue="queue")
    world.run()
    assert list(world.where("p")) == ["p"]
    world.finish("p")
    world.until(100)
    assert len(world.where("g")) == 16


@pytest.mark.parametrize(
    "window",
    [
        once("odd", 24, 200, 100),
        once("odd", 24, 100, 100),
        {**once("odd", 24), "begin": "2026-02-30T00:00:00Z"},
        {**once("odd", 24), "begin": "tomorrow"},
        {**once("odd", 24), "begin": "9999-12-31T23:00:00-12:00"},
        once("odd", 24),
        nightly("odd", 24, begin="2026-02-20T00:00:00Z"),
        nightly("odd", 24, durationSeconds=10**12),
        nightly("odd", -24),
        nightly("odd", 24, schedule="* " * 1000),
        "odd",
    ],
)
def test_a_window_that_no_server_stores_makes_its_queue_inactive_and_stops_nobody_else(window):
    world = world_of(8, window)
    world.queue("fine", 8, local="fine")
    world.pod("mine", queue="queue")
    world.pod("other", queue="fine")
    world.run()
    assert list(world.where()) == ["other"]
    assert world.why("Pod", "mine").reason == "ClusterQueueInvalid"


def expected(world: World, name: str) -> float | None:
    """When a workload is told that it starts, seconds after the start."""
    world.until(120)  # positions are told anew every now and then
    found = world.status("Workload", name)["pending"].get("estimatedStart")
    return None if found is None else datetime.fromisoformat(found).timestamp() - START


def test_those_who_wait_are_told_that_they_start_when_a_window_begins():
    world = world_of(8, once("sale", 24, 10_000, 20_000))
    for name, gpus in (("small", 8), ("large", 16)):
        world.workload(name, {"name": "main", "count": 2}, queueName="queue")
        for rank in range(2):
            world.pod(f"{name}-{rank}", gpus=gpus // 2, workload=name)
        world.run()
    assert expected(world, "large") == 10_000
    world.until(10_000)
    assert len(world.where("large")) == 2


def test_who_starts_after_others_is_told_no_time_and_delays_nobody_elses():
    world = world_of(8, once("sale", 16, 10_000, 20_000))
    for name, more in (("small", {}), ("follower", {"after": [{"workload": "small"}]}), ("large", {})):
        world.workload(name, {"name": "main", "count": 2}, queueName="queue", **more)
        for rank in range(2):
            world.pod(f"{name}-{rank}", gpus=4, workload=name)
        world.run()
    assert expected(world, "large") == 10_000
    assert expected(world, "follower") is None


def reserving(gpus: int, *windows: dict[str, Any]) -> World:
    """One node of 8 GPUs, and a queue that keeps room for its head."""
    return world_of(gpus, *windows, nodes=1, backfill="Reserved")


def job(world: World, name: str, gpus: int, seconds: int | None = None) -> None:
    world.now += 0.001
    limit = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    world.workload(name, {"name": "main", "count": 1, "minCount": 1}, queueName="queue", **limit)
    world.pod(f"{name}-0", gpus=gpus, workload=name)
    world.run()


def test_a_head_has_room_kept_for_it_from_the_window_on_in_which_it_fits():
    world = reserving(4, once("sale", 8, 1000, 5000))
    job(world, "head", 6)
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 1000)
    job(world, "longer", 4, 1100)
    job(world, "short", 3, 900)
    assert list(world.where()) == ["short-0"]
    world.until(999)
    assert world.where() == {}  # its time was over
    world.until(1)
    assert "head-0" in world.where()


def test_a_head_for_which_a_window_ends_too_soon_is_told_of_the_next():
    """It fits by night only, and there is no room before the night is over."""
    world = reserving(4, once("night", 8, 0, 1000), once("next", 8, 3000, 4000))
    job(world, "runs", 8, 1500)
    job(world, "head", 6)
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 3000)


def test_more_is_kept_for_a_head_where_a_window_gives_less_when_it_starts():
    """5 GPUs of quota now and 3 when 2 of them come back: the head gets its 3 only if nobody takes what is free now."""
    world = world_of(5, once("less", 3, 500), nodes=2, backfill="Reserved")
    job(world, "runs", 3, 1000)
    job(world, "head", 3)
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 1000)
    job(world, "small", 2)
    assert "small-0" not in world.where()
    world.until(1000)
    assert list(world.where("head")) == ["head-0"]


_TIMES = st.integers(0, 40).map(lambda n: n * 25.0)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(_TIMES, _TIMES, st.integers(0, 12)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from([None, 50, 300])), min_size=1, max_size=6),
    st.sampled_from(["None", "BestEffort", "Reserved"]),
)
def test_nobody_is_given_more_than_holds_at_the_time_whatever_windows_there_are(windows, jobs, mode):
    """And whoever lists everything in the middle of it has the same quotas."""
    spans = [once(f"w{n}", gpus, min(a, b), max(a, b) + 25) for n, (a, b, gpus) in enumerate(windows)]
    world = world_of(6, *spans, nodes=2, backfill=mode)
    what = ("default", GPU)
    for number, (gpus, seconds) in enumerate(jobs):
        job(world, f"j{number}", gpus, seconds)
        before = set(world.where())
        world.until(170)
        now = world.now - START
        given = next((gpus for a, b, gpus in windows if min(a, b) <= now < max(a, b) + 25), 6)
        node = world.engine.state.ledger.tree.queues["cq"]
        assert node.nominal(what) == given
        used = node.usage.get(what, 0)
        assert used <= given or set(world.where()) <= before | {f"j{n}-0" for n in range(number + 1)}
    quotas = world.engine.state.ledger.tree.queues["cq"].quotas
    world.restart()
    world.run()
    assert world.engine.state.ledger.tree.queues["cq"].quotas == quotas


def sharing(*windows: dict[str, Any], gpus: int = 0) -> World:
    """A cohort with so many GPUs of its own, of which two queues without any may borrow."""
    world = World()
    world.flavor()
    world.node("n0", gpus=8)
    put_cohort(world, *windows, gpus=gpus)
    for name in ("one", "two"):
        world.queue(name, 0, cohort="all", local=name)
    world.run()
    return world


def put_cohort(world: World, *windows: dict[str, Any], gpus: int) -> None:
    quotas = [{"name": GPU, "nominalQuota": gpus}, {"name": "cpu", "nominalQuota": 100}]
    quotas.append({"name": "memory", "nominalQuota": "1Ti"})
    groups = [{"coveredResources": [GPU, "cpu", "memory"], "flavors": [{"name": "default", "resources": quotas}]}]
    world.object("Cohort", "all", {"resourceGroups": groups, "temporaryQuotas": list(windows)})


def cohort_note(world: World) -> tuple[bool, str, str]:
    found = world.engine.state.catalog.windows.notes["cohort/all"]
    return found.is_on, found.reason, found.message


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_cohort_shares_is_otherwise_for_a_time(restarted):
    world = sharing(once("sale", 6, 100, 300))
    world.pod("p", gpus=4, queue="one")
    world.run()
    assert world.where() == {}
    why = world.why("Pod", "p")
    assert (why.reason, "never" in why.message) == ("WaitingForQuota", False)
    assert f"that of cohort all is 6 from {timestamp(START + 100)} on (temporaryQuotas)" in why.message
    assert cohort_note(world) == (False, "NoWindowOn", f"window sale begins at {timestamp(START + 100)}")
    world.until(99)
    assert world.where() == {}
    world.until(1)
    if restarted:
        world.restart()
        world.run()
    assert list(world.where()) == ["p"]
    assert cohort_note(world)[:2] == (True, "WindowOn")
    assert [(one.kind, one.name) for one in world.events("QuotaChanged")] == [("Cohort", "all")]
    world.until(200)
    assert list(world.where()) == ["p"]  # nobody is taken out for that
    told = world.engine.state.overuses.reported["Cohort", "", "all"].message
    assert told.startswith(f"more is used than there is quota for: 4 of 0 {GPU} of flavor default")
    world.pod("q", gpus=1, queue="two")
    world.run()
    assert world.reason("Pod", "q") == "ExceedsMaxQuota"  # for there will never be more again


def test_windows_of_a_cohort_are_in_expected_starts_and_end_when_they_are_taken_away():
    world = sharing(once("sale", 6, 10_000, 20_000))
    world.workload("w", {"name": "main", "count": 1}, queueName="one")
    world.pod("w-0", gpus=4, workload="w")
    world.run()
    assert expected(world, "w") == 10_000
    world.until(11_000)
    assert list(world.where()) == ["w-0"]
    put_cohort(world, gpus=0)
    world.run()
    assert "cohort/all" not in world.engine.state.catalog.windows.notes
    assert world.engine.state.ledger.tree.cohorts["all"].nominal(("default", GPU)) == 0


def test_a_queue_and_a_cohort_of_one_name_have_windows_of_their_own():
    world = sharing(once("sale", 6, 100, 300))
    world.queue("all", 1, local="all", temporaryQuotas=[once("feast", 3, 100, 200)])
    world.until(150)
    tree = world.engine.state.ledger.tree
    assert (tree.queues["all"].nominal(("default", GPU)), tree.cohorts["all"].nominal(("default", GPU))) == (3, 6)
    world.until(100)
    tree = world.engine.state.ledger.tree
    assert (tree.queues["all"].nominal(("default", GPU)), tree.cohorts["all"].nominal(("default", GPU))) == (1, 6)


def test_a_head_has_room_kept_for_it_from_a_window_of_its_cohort_on():
    world = World()
    world.flavor()
    world.node("n0", gpus=8)
    put_cohort(world, once("sale", 8, 1000, 5000), gpus=4)
    world.queue("one", 0, cohort="all", backfill="Reserved")
    world.run()
    job(world, "head", 6)
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 1000)
    job(world, "longer", 4, 1100)
    job(world, "short", 3, 900)
    assert list(world.where()) == ["short-0"]
    world.until(1000)
    assert "head-0" in world.where()


def test_a_bad_window_of_a_cohort_costs_it_a_condition():
    world = sharing({**once("odd", 6), "schedule": "0 25 * * *", "durationSeconds": 60}, gpus=2)
    assert cohort_note(world)[1] == "InvalidWindow"
    world.pod("p", gpus=2, queue="one")
    world.run()
    assert list(world.where()) == ["p"]
