"""What users of other gang schedulers have complained about, played from beginning to end; each test names the issue.

A run complains by itself where an invariant breaks or something that could run does not; a test says what else must be.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.run import play
from tests.simulation.steps import Step
from tests.simulation.stories import PREEMPTS, START, cluster, gang, on, story
from tests.simulation.told import bound, evicted, writes
from tests.simulation.world import World


def test_scheduler_plugins_117_two_gangs_that_hold_half_of_the_cluster_each():
    """Each needs 12 of 16 GPUs and both come member by member: they run one after the other, neither waits for ever."""
    when = bound(play(story(cluster(), gang("a", 3, gpus=4, spread=0.2), gang("b", 3, gpus=4, spread=0.2))))
    first, second = sorted(("a", "b"), key=lambda name: when[f"{name}-0"])
    assert max(when[f"{first}-{rank}"] for rank in range(3)) < min(when[f"{second}-{rank}"] for rank in range(3))


def test_scheduler_plugins_713_members_of_a_gang_that_waits_hold_nothing():
    """Two of five members have come; a gang that fits takes the room meanwhile."""
    incomplete = gang("late", 4, gpus=4, spread=10.0)
    when = bound(play(story(cluster(), incomplete, gang("quick", 4, at=5.0, gpus=4, seconds=3.0))))
    assert when["quick-3"] < 8.0 < when["late-0"]


def test_scheduler_plugins_874_an_old_gang_that_does_not_fit_blocks_nobody():
    """It asks for one node more than there is until another comes; the small ones behind it run at once."""
    node = Step(60.0, "node", {"name": "n4", "gpus": 4, "rack": "r1"})
    small = [step for number in range(4) for step in gang(f"s{number}", 1, at=5.0 + number)]
    when = bound(play(story(cluster(), gang("old", 5, gpus=4), small, [node], heal_at=70)))
    assert max(when[f"s{number}-0"] for number in range(4)) < 15.0
    assert 60.0 < when["old-0"] < 65.0


def test_scheduler_plugins_397_the_group_may_come_after_its_members():
    """Members first, their PodGroup half a minute later: they start as soon as it is there."""
    late = [Step(step.at + 30.0 * (step.do == "put"), step.do, step.args) for step in pods_before_group("g")]
    outcome = play(story(cluster(), late, heal_at=50))
    assert START + 30.0 < bound(outcome)["g-2"] < START + 32.0


def pods_before_group(name: str) -> list[Step]:
    """A gang whose user creates its pods without the PodGroup that they name, which comes by a step of its own."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    return [
        *gang(name, 3, how="pods of a PodGroup"),
        Step(START, "put", {"kind": "PodGroup", "name": name, "spec": spec}),
    ]


def test_scheduler_plugins_930_a_gang_that_cannot_be_bound_whole_is_taken_out():
    """One bind is refused for a minute: the two that were bound do not stay alone for longer than the bind window."""
    refused = {"what": "pods/binding", "method": "POST", "how": "refuse", "code": 403, "times": 10_000, "name": "g-2"}
    outcome = play(story(cluster(), gang("g", 3, seconds=200.0), [Step(0.0, "trouble", refused)], heal_at=60))
    assert sorted(set(evicted(outcome))) == ["g-0", "g-1"]
    assert bound(outcome)["g-2"] > 60.0


def test_volcano_4607_victims_leave_as_whole_gangs():
    """Four gangs of two fill the queue; one that is more important needs half: two gangs leave, not four halves."""
    low = [step for number in range(3) for step in gang(f"l{number}", 2, how="Workload", queue="q3", seconds=60.0)]
    high = gang("high", 2, at=10.0, how="Workload", queue="q3", priority=10, seconds=5.0)
    outcome = play(story(cluster(**PREEMPTS), low, high, heal_at=20))
    assert bound(outcome)["high-1"] < 20.0
    (victim,) = {name.split("-")[0] for name in evicted(outcome)}
    assert sorted(evicted(outcome)) == [f"{victim}-0", f"{victim}-1"]


def test_volcano_5805_a_gang_that_lost_a_node_is_completed_before_a_fresh_one_starts():
    """Four members on four nodes; one node is lost and its pod created anew: it gets the room, not the newcomer."""
    steps = [Step(10.0, "lose_node", {"name": "n1"}), Step(60.0, "node", {"name": "n1", "gpus": 4, "rack": "r0"})]
    fresh = gang("fresh", 4, at=30.0, gpus=4, seconds=5.0)
    outcome = play(story(cluster(), gang("old", 4, gpus=4, seconds=100.0), fresh, steps, heal_at=70))
    when = bound(outcome)
    assert max(when[f"old-{rank}"] for rank in range(4)) < min(when[f"fresh-{rank}"] for rank in range(4))


def counting(found: list[int], first: float, last: float) -> Callable[[World], None]:
    """Put down how often the operator has decided between two moments."""

    def prepare(world: World) -> None:
        for moment in (first, last):
            world.loop.call_at(moment, lambda: found.append(world.operators["a"].engine.decisions))

    return prepare


def test_scheduler_plugins_682_gangs_that_do_not_fit_for_fragmentation_are_not_tried_over_and_over():
    """A GPU is free on each node and nobody asks for so few: for ten minutes, nothing is decided and nothing written."""
    others = [
        Step(1.0, "foreign", {"name": f"f{node}", "node": f"n{node}", "gpus": 3, "seconds": 700.0}) for node in range(4)
    ]
    waiting = [step for number in range(6) for step in gang(f"g{number}", 3, at=3.0 + number, gpus=2)]
    turns: list[int] = []
    outcome = play(story(cluster(), others, waiting, heal_at=600), prepare=counting(turns, 30.0, 600.0))
    assert min(bound(outcome).values()) > 700.0
    assert (writes(outcome, 30.0, 600.0), turns[1] - turns[0]) == ([], 0)


def test_scheduler_plugins_429_what_changes_elsewhere_wakes_nobody():
    """The same, and on one node pods come and go that leave too little each time: the others are left in peace."""
    others = [
        Step(1.0, "foreign", {"name": f"f{node}", "node": f"n{node}", "gpus": 3, "seconds": 700.0}) for node in range(4)
    ]
    passing = [
        Step(40.0 + 10 * number, "foreign", {"name": f"p{number}", "node": "n0", "gpus": 1, "seconds": 5.0})
        for number in range(50)
    ]
    waiting = [step for number in range(6) for step in gang(f"g{number}", 3, at=3.0 + number, gpus=2)]
    outcome = play(story(cluster(), others, waiting, passing, heal_at=600))
    assert min(bound(outcome).values()) > 700.0
    assert [line for line in writes(outcome, 30.0, 600.0) if "/clusterqueues/" not in line] == []


def test_volcano_4949_what_was_reclaimed_is_not_lent_to_its_victim_again():
    """The victim's queue has the least then, and its gang comes back at once: it waits, and nobody is taken out twice."""
    borrower = [step for number in range(2) for step in gang(f"b{number}", 2, queue="q1", gpus=2, seconds=200.0)]
    owner = gang("owner", 2, at=20.0, queue="q2", gpus=2, seconds=100.0)
    outcome = play(story(cluster(**PREEMPTS), borrower, owner, heal_at=30))
    when = bound(outcome)
    assert when["owner-1"] < 30.0
    (victim,) = {name.split("-")[0] for name in evicted(outcome)}
    assert sorted(evicted(outcome)) == [f"{victim}-0", f"{victim}-1"]
    assert when[f"{victim}-0"] > 120.0


def test_volcano_5131_a_member_that_would_fit_as_it_is_keeps_nobody_from_making_room_for_the_others():
    """One node is free and has room for one of two; for the other there is neither quota nor room before others leave."""
    low = [
        step
        for node in range(1, 4)
        for step in gang(f"l{node}", 1, how="Workload", queue="q3", gpus=2, seconds=200.0, each=on(f"n{node}"))
    ]
    high = gang("high", 2, at=10.0, how="Workload", queue="q3", gpus=3, priority=10, seconds=5.0)
    outcome = play(story(cluster(**PREEMPTS), low, high, heal_at=20))
    when = bound(outcome)
    assert when["high-0"] < 20.0
    assert when["high-1"] < 20.0


SMALL = [step for n in range(40) for step in gang(f"s{n}", 1, at=4.0 + 3 * n, queue="q3", gpus=2, seconds=8.0)]


def test_volcano_748_in_a_strict_queue_small_ones_starve_no_large_one():
    """There is a small one at any moment that would fit; behind the large one they wait."""
    large = gang("large", 3, at=30.5, queue="q3", gpus=2)
    when = bound(play(story(cluster(strategy="StrictFIFO"), SMALL, large, heal_at=130)))
    assert 30.5 < when["large-2"] < 40.0


def test_volcano_3950_room_is_kept_for_the_head_of_a_queue_that_backfills():
    """With room kept for the head, only those go before it that do not delay it: it starts when it could have at once."""
    small = [
        step
        for n in range(40)
        for step in gang(
            f"s{n}", 1, at=4.0 + 3 * n, how="Workload", queue="q3", gpus=2, seconds=8.0, maximumExecutionTimeSeconds=10
        )
    ]
    large = gang("large", 3, at=30.5, how="Workload", queue="q3", gpus=2, seconds=5.0, maximumExecutionTimeSeconds=10)
    when = bound(play(story(cluster(backfill="Reserved"), small, large, heal_at=130)))
    assert 30.5 < when["large-2"] < 40.0


def test_volcano_3670_those_who_wait_for_one_node_block_nobody_who_asks_for_another():
    """Forty wait for n1, which is full, and stand before it in line; one that asks for n2 starts at once."""
    full = gang("full", 1, gpus=4, seconds=60.0, each=on("n1"))
    crowd = [step for n in range(40) for step in gang(f"c{n}", 1, at=4.0, gpus=4, seconds=1.0, each=on("n1"))]
    late = gang("late", 2, at=10.0, gpus=2, each=on("n2"))
    when = bound(play(story(cluster(), full, crowd, late, heal_at=60)))
    assert when["late-1"] < 11.0
    assert min(when[f"c{n}-0"] for n in range(40)) > 60.0


def test_a_head_of_a_strict_queue_that_is_taken_back_is_named_by_nobody_any_more():
    """Found on call: a minute later those behind it still said that it was before them, and another was."""
    waiting = [step for number in range(3) for step in gang(f"w{number}", 6, at=5.0 + number, queue="q3", seconds=3.0)]
    running = gang("runs", 6, queue="q3", seconds=200.0)
    cancelled = [Step(20.0, "cancel", {"gang": "w0"})]
    when = bound(play(story(cluster(strategy="StrictFIFO"), running, waiting, cancelled, heal_at=250)))
    assert "w0-0" not in when
    assert 200.0 < when["w1-0"] < when["w2-0"]
