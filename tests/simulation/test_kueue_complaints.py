"""What users of Kueue have complained about, played from beginning to end; each test names the issue.

Quota and nodes are decided on together here, so most of it is about what is decided by quota alone there.
"""

from __future__ import annotations

from tests.simulation.run import play
from tests.simulation.server import Json
from tests.simulation.steps import Step
from tests.simulation.stories import PREEMPTS, cluster, gang, on, story
from tests.simulation.told import bound, evicted
from tests.simulation.world import World
from tutti_sim.hollow.fate import Fates, PodDefaults

STARTUP = "sim.tutti.dev/startup-seconds"


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


def test_kueue_14570_two_queues_are_not_given_the_same_nodes_in_one_turn():
    """Both come at once, each has quota for all of the two nodes, and one after the other has them."""
    both = [*gang("a", 2, queue="q1", gpus=4), *gang("b", 2, queue="q2", gpus=4)]
    when = bound(play(story(cluster(nodes=2), both)))
    first, second = sorted(("a", "b"), key=lambda name: when[f"{name}-0"])
    assert when[f"{first}-1"] + 5.0 <= when[f"{second}-0"]


def test_kueue_4270_a_node_that_has_its_number_of_pods_is_full():
    """There is quota and room for 21 small pods, but a node takes 20: none is admitted before there is a second one."""
    small = gang("g", 21, queue="q3", gpus=0)
    one = gang("one", 1, at=5.0, queue="q3", gpus=1)
    node = Step(40.0, "node", {"name": "n1", "gpus": 4, "rack": "r0"})
    outcome = play(story(cluster(nodes=1), small, one, [node], heal_at=50))
    when = bound(outcome)
    assert when["one-0"] < 10.0
    assert min(when[f"g-{rank}"] for rank in range(21)) > 40.0


def test_kueue_12422_what_a_pod_asks_of_its_node_is_asked_before_it_has_quota():
    """The only node of that name is not there yet: its gang holds no quota, and another of the queue uses all of it."""
    picky = gang("picky", 1, queue="q3", gpus=4, each=on("n3"))
    whole = gang("whole", 3, at=5.0, queue="q3", gpus=2)
    node = Step(40.0, "node", {"name": "n3", "gpus": 4, "rack": "r1"})
    when = bound(play(story(cluster(nodes=3), picky, whole, [node], heal_at=50)))
    assert max(when[f"whole-{rank}"] for rank in range(3)) < 10.0
    assert when["picky-0"] > 40.0


def crowd(nodes: dict[str, int]) -> list[Step]:
    """So many pods of one GPU on nodes, unimportant and long."""
    each = {"how": "Workload", "queue": "q3", "seconds": 300.0}
    return [
        step
        for node, pods in nodes.items()
        for number in range(pods)
        for step in gang(f"{node}x{number}", 1, each=on(node), **each)
    ]


def test_kueue_5243_victims_leave_where_the_preemptor_can_use_what_they_had():
    """Quota is used all over; only on n3 does it make a place of four, and only who is there has to go."""
    others = [Step(1.0, "foreign", {"name": f"f{n}", "node": f"n{n}", "gpus": 3, "seconds": 400.0}) for n in range(3)]
    high = gang("high", 1, at=10.0, how="Workload", queue="q3", gpus=4, priority=10, seconds=5.0)
    running = crowd({"n0": 1, "n1": 1, "n3": 4})
    outcome = play(story(cluster(**PREEMPTS), others, running, high, heal_at=20))
    assert bound(outcome)["high-0"] < 20.0
    assert sorted(evicted(outcome)) == [f"n3x{number}-0" for number in range(4)]


def test_kueue_10497_who_is_in_the_way_leaves_also_without_what_is_asked_for():
    """The GPUs of the node are free; a pod that has none takes the CPUs that go with them."""
    greedy = gang(
        "greedy",
        1,
        how="Workload",
        queue="q3",
        gpus=0,
        seconds=300.0,
        each={"requests": {"cpu": "31"}, "spec": on("n0")["spec"]},
    )
    cpus: Json = {"requests": {"cpu": "8"}}
    high = gang("high", 1, at=10.0, how="Workload", queue="q3", gpus=4, priority=10, seconds=5.0, each=cpus)
    outcome = play(story(cluster(nodes=1, **PREEMPTS), greedy, high, heal_at=20))
    assert bound(outcome)["high-0"] < 20.0
    assert evicted(outcome) == ["greedy-0"]


def lingering(world: World) -> None:
    """Pods take the whole of their grace period to end, half a minute."""
    for worker in world.server._workers:
        if hasattr(worker, "_fates"):
            worker._fates = Fates(PodDefaults(stop_seconds="3600"))


def test_kueue_6143_who_waits_for_victims_to_end_holds_up_nobody_else():
    """Half a minute until the victim is gone: what does not need its quota starts meanwhile, in its queue and in others."""
    low = gang("low", 1, how="Workload", queue="q3", gpus=4, seconds=300.0)
    high = gang("high", 1, at=10.0, how="Workload", queue="q3", gpus=4, priority=10, seconds=60.0)
    small = gang("small", 2, at=15.0, how="Workload", queue="q3", gpus=1)
    other = gang("other", 2, at=15.0, how="Workload", queue="q1", gpus=2)
    outcome = play(story(cluster(**PREEMPTS), low, high, small, other, heal_at=20), prepare=lingering)
    when = bound(outcome)
    assert evicted(outcome) == ["low-0"]
    assert max(when[name] for name in ("other-1", "small-1")) < 16.0
    assert 40.0 <= when["high-0"] < 42.0


def test_kueue_4803_each_workload_has_its_own_time_to_be_ready_and_stops_nobody():
    """One is slow to start: with a time of its own it is taken out and tried again, without it is waited for."""
    slow: Json = {"annotations": {STARTUP: "30"}}
    limited = gang(
        "limited", 2, how="Workload", queue="q1", seconds=5.0, each=slow, readyTimeoutSeconds=10, requeue={"limit": 2}
    )
    patient = gang("patient", 2, how="Workload", queue="q2", seconds=5.0, each=slow)
    late = gang("late", 2, at=6.0, how="Workload", queue="q1", seconds=5.0)
    outcome = play(story(cluster(), limited, patient, late, heal_at=20))
    when = bound(outcome)
    assert when["late-1"] < 7.0
    assert sorted(evicted(outcome)) == ["limited-0"] * 3 + ["limited-1"] * 3
    assert when["patient-0"] < 4.0


def test_kueue_14811_a_workload_without_pods_holds_no_quota():
    """Its pods go while nobody hears of it, and it stays; once they are missed, the next one has all of the quota."""
    whole = gang("whole", 3, how="Workload", queue="q3", gpus=2, seconds=500.0)
    following = gang("following", 3, at=8.0, how="Workload", queue="q3", gpus=2, seconds=5.0)
    unseen = [
        Step(10.0, "down", {"seconds": 5.0}),
        Step(11.0, "cancel", {"gang": "whole", "stays": True}),
        Step(40.0, "cancel", {"gang": "whole"}),
    ]
    when = bound(play(story(cluster(), whole, following, unseen, heal_at=50)))
    assert when["following-2"] < 40.0


def test_kueue_15277_slices_that_do_not_come_out_even_are_not_placed_in_part():
    """Five members in slices of two to a rack: two slices and the one that is left over start together."""
    near = {"mode": "Preferred", "level": "rack", "sliceSize": 2, "sliceLevel": "rack"}
    group = {"name": "main", "count": 5, "minCount": 5, "topology": near}
    outcome = play(story(cluster(), gang("g", 5, how="Workload", podGroups=[group])))
    when = bound(outcome)
    assert sorted(when) == [f"g-{rank}" for rank in range(5)]
    assert max(when.values()) - min(when.values()) < 3.0
