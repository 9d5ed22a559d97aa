"""What users of other schedulers have complained about, played from beginning to end; each test names the issue.

A run complains by itself where an invariant breaks or something that could run does not; a test says what else must be.
"""

from __future__ import annotations

from tests.simulation.run import Outcome, play
from tests.simulation.scenario import Step
from tests.simulation.stories import START, cluster, gang, story

PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}}


def bound(outcome: Outcome) -> dict[str, float]:
    """When each pod was last bound."""
    assert outcome.violations == []
    lines = [line.split() for line in outcome.trace if "/binding 201" in line]
    return {line[3].split("/")[-2]: float(line[0]) for line in lines}


def evicted(outcome: Outcome) -> list[str]:
    """The pods that were deleted by the operator, in order."""
    lines = [line.split() for line in outcome.trace if " DELETE /api/v1/" in line and line.endswith(" 200")]
    return [line[3].split("/")[-1] for line in lines]


def test_scheduler_plugins_117_two_gangs_that_hold_half_of_the_cluster_each():
    """Each needs 12 of 16 GPUs and both come member by member: they run one after the other, neither waits for ever."""
    when = bound(play(story(cluster(), gang("a", 3, gpus=4, spread=0.2), gang("b", 3, gpus=4, spread=0.2))))
    first, second = sorted(("a", "b"), key=lambda name: when[f"{name}-0"])
    assert max(when[f"{first}-{rank}"] for rank in range(3)) < min(when[f"{second}-{rank}"] for rank in range(3))


def test_scheduler_plugins_713_members_of_a_gang_that_waits_hold_nothing():
    """Two of five members have come; a gang that fits takes the room meanwhile."""
    incomplete = gang("late", 4, gpus=4, spread=10.0)
    when = bound(play(story(cluster(), incomplete, gang("quick", 4, at=5.0, gpus=4, seconds=3.0))))
    assert when["quick-3"] < 6.0 < when["late-0"]


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


def test_kueue_4329_what_has_quota_but_no_nodes_is_not_admitted():
    """Two pods of three GPUs have quota, and one node of four: they wait without quota, and a small one goes first."""
    node = Step(40.0, "node", {"name": "n1", "gpus": 4, "rack": "r0"})
    small = gang("s", 1, at=5.0, queue="q3", gpus=4)
    when = bound(play(story(cluster(nodes=1), gang("g", 2, queue="q3", gpus=3), small, [node], heal_at=50)))
    assert when["s-0"] < 10.0
    assert when["g-0"] > 40.0


def test_kueue_8309_the_head_of_a_strict_queue_is_waited_for():
    """The same with a strict queue: the small one behind the head that waits for a node waits, too."""
    node = Step(40.0, "node", {"name": "n1", "gpus": 4, "rack": "r0"})
    small = gang("s", 1, at=5.0, queue="q3", gpus=1)
    strict = cluster(nodes=1, strategy="StrictFIFO")
    when = bound(play(story(strict, gang("g", 2, queue="q3", gpus=3), small, [node], heal_at=50)))
    assert 40.0 < when["g-0"] < when["s-0"]


def test_kueue_13662_victims_do_not_come_back_before_their_preemptor():
    """The victims are created anew at once; the room they left stays the preemptor's, and nobody leaves twice."""
    low = gang("low", 3, how="Workload", queue="q3", gpus=2, seconds=40.0)
    high = gang("high", 3, at=10.0, how="Workload", queue="q3", gpus=2, priority=10, seconds=20.0)
    outcome = play(story(cluster(**PREEMPTS), low, high, heal_at=20))
    when = bound(outcome)
    assert max(when[f"high-{rank}"] for rank in range(3)) < min(when[f"low-{rank}"] for rank in range(3))
    assert sorted(evicted(outcome)) == ["low-0", "low-1", "low-2"]


def test_kueue_15424_a_replacement_waits_until_the_old_pod_is_gone_and_then_runs():
    """A member is deleted while it runs and created anew under its name: it joins the gang that runs on."""
    lost = Step(10.0, "delete_pod", {"name": "g-1"})
    outcome = play(story(cluster(), gang("g", 3, queue="q1", seconds=30.0), [lost], heal_at=20))
    when = bound(outcome)
    assert evicted(outcome) == []
    assert when["g-0"] < 10.0 < when["g-1"] < 20.0
