"""A head for which room is kept: it is not starved, nobody delays it, and nothing is wasted that others can use."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.backfill import MODES, Mode, Simulation
from bench.simulation.recounting import recounted
from tests.engine.backfill.heads import easy, ends, job, reserved, runs
from tests.engine.world import START, World
from tests.quota.trees import unhurried
from tutti.api.conditions import timestamp

# The rule of EASY.


@pytest.mark.parametrize(
    ("gpus", "seconds", "goes"),
    [(2, 90, True), (2, 101, False), (2, None, False), (1, None, True), (1, 101, True), (3, 10, False)],
    ids=["ends in time", "ends too late", "ends nobody knows when", "fits beside", "beside, late", "does not fit now"],
)
def test_who_ends_before_the_head_starts_or_fits_beside_is_let_by(gpus, seconds, goes):
    world = easy()
    job(world, "small", gpus, seconds)
    world.run()
    assert runs(world, "small") == goes
    world.until(100)
    assert runs(world, "head")


@pytest.mark.parametrize(("mode", "goes"), [("None", False), ("BestEffort", True)])
def test_the_other_modes_let_nobody_or_everybody_by(mode, goes):
    world = easy(mode)
    job(world, "small", 2)
    world.run()
    assert runs(world, "small") == goes
    ends(world, "hundred")
    assert runs(world, "head") != goes


def test_only_so_many_fit_beside():
    world = easy()
    for name in ("first", "second"):
        job(world, name, 1)
        world.run()
    assert [runs(world, name) for name in ("first", "second")] == [True, False]


@pytest.mark.parametrize(
    ("strategy", "goes"), [("StrictFIFO", False), ("BestEffortFIFO", True)], ids=["StrictFIFO", "BestEffortFIFO"]
)
def test_without_a_mode_the_strategy_tells(strategy, goes):
    world = World()
    world.flavor()
    world.queue("cq", 8, queueingStrategy=strategy)
    world.node("n0")
    job(world, "running", 7)
    world.run()
    job(world, "head", 2)
    job(world, "small", 1)
    world.run()
    assert runs(world, "small") == goes


def test_a_mode_counts_instead_of_the_strategy_and_messages_say_so():
    world = easy("None")
    job(world, "small", 1)
    world.run()
    why = world.why("Workload", "small")
    assert why.reason == "BehindHead"
    assert why.message == "ClusterQueue cq is strict (backfill None) and Workload/default/head is before it"


# What is told.


def test_the_head_is_told_when_it_starts_and_where():
    world = easy()
    why = world.why("Workload", "head")
    at = timestamp(START + 100)
    assert why.message.endswith(f"; it starts at {at} at the latest, on node n0 kept for it")
    assert (why.details["startsAt"], why.details["keptNodes"]) == (at, "1")
    assert (why.gate, why.reason) == ("Placement", "Unschedulable") or why.reason == "WaitingForQuota"


def test_who_is_kept_off_is_told_whom_it_would_delay():
    world = easy()
    job(world, "late", 2, 500)
    world.run()
    why = world.why("Workload", "late")
    assert (why.gate, why.reason) == ("Queue", "WouldDelay")
    assert why.message == (
        f"would delay Workload/default/head, which starts at {timestamp(START + 100)} at the latest; "
        "it would have to end before (it may run for longer)"
    )
    assert world.pods["default", "late-0"].status.conditions[0].reason == "WouldDelay"


def test_who_would_not_fit_anyway_is_told_what_it_lacks():
    world = easy()
    job(world, "large", 3)
    world.run()
    assert world.why("Workload", "large").reason in ("Unschedulable", "WaitingForQuota")


def test_the_equal_ones_behind_the_head_are_promised_nothing():
    world = easy()
    job(world, "same", 5)
    world.run()
    assert "startsAt" not in world.why("Workload", "same").details


def test_the_head_is_told_when_it_starts_sooner():
    world = reserved()
    job(world, "long", 4, 500)
    job(world, "short", 4, 300)
    world.run()
    job(world, "head", 8)
    world.run()
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 500)
    ends(world, "long")
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 300)
    assert "head" in str(world.objects["Workload", "default", "head"])
    ends(world, "short")
    assert runs(world, "head")


# Quota.


def test_quota_is_kept_like_room():
    world = reserved(gpus=8, nodes=4)
    job(world, "hundred", 4, 100)
    world.run()
    job(world, "head", 8)  # there are nodes, but not the quota
    job(world, "late", 2, 500)
    job(world, "soon", 2, 50)
    world.run()
    assert [runs(world, name) for name in ("head", "late", "soon")] == [False, False, True]
    assert world.why("Workload", "head").reason == "WaitingForQuota"
    assert world.why("Workload", "late").reason == "WouldDelay"


def test_what_is_a_queue_s_own_is_not_kept_from_it():
    world = World()
    world.flavor()
    world.queue("big", 4, cohort="c", local="big", backfill="Reserved")
    world.queue("own", 4, cohort="c", local="own")
    world.queue("none", 0, cohort="c", local="none")
    for number in range(4):
        world.node(f"n{number}", gpus=8)
    job(world, "running", 2, 100, queue="own")
    world.run()
    job(world, "head", 8, queue="big")
    world.run()
    assert world.why("Workload", "head").reason == "WaitingForQuota"
    job(world, "borrower", 1, queue="none")
    world.run()
    assert world.why("Workload", "borrower").reason == "WouldDelay"
    job(world, "owner", 2, queue="own")
    world.run()
    assert runs(world, "owner")


# Nodes, other queues, priorities.


def test_room_is_kept_from_other_queues_and_from_pods_without_one():
    world = easy()
    world.queue("other", 8, local="other")
    job(world, "theirs", 2, queue="other")
    world.pod("alone", gpus=2)
    world.run()
    assert not runs(world, "theirs")
    assert world.why("Pod", "alone").reason == "WouldDelay"
    ends(world, "hundred")
    assert runs(world, "head")
    assert "alone" not in world.where()


def test_room_is_not_kept_from_higher_priority():
    world = easy()
    world.queue("other", 8, local="other", priority={"offset": 1})
    job(world, "theirs", 2, queue="other")
    world.run()
    assert runs(world, "theirs")


def test_a_more_important_workload_becomes_the_head():
    world = easy()
    world.object("WorkloadPriorityClass", "high", {})
    job(world, "high", 3, priority=10)
    world.run()
    assert "startsAt" in world.why("Workload", "high").details
    ends(world, "hundred")
    assert runs(world, "high")


def test_only_the_nodes_that_the_head_will_use_are_kept():
    world = reserved(gpus=100, nodes=3)
    job(world, "a", 8, 100)
    job(world, "b", 8, 200)
    job(world, "c", 4, 300)
    world.run()
    job(world, "head", 8, pods=2)
    world.run()
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 200)
    job(world, "beside", 4)
    world.run()
    assert world.where()["beside-0"] == world.where()["c-0"]


def test_two_heads_are_kept_for_side_by_side_and_the_first_goes_first():
    world = World()
    world.flavor()
    for name in ("a", "b"):
        world.queue(name, 16, local=name, backfill="Reserved")
    for number in range(2):
        world.node(f"n{number}", gpus=8)
    job(world, "one", 8, 100, queue="a")
    job(world, "two", 8, 200, queue="b")
    world.run()
    job(world, "first", 8, 50, queue="a")
    job(world, "second", 8, 50, queue="b")
    world.run()
    assert world.why("Workload", "first").details["startsAt"] == timestamp(START + 100)
    assert world.why("Workload", "second").details["startsAt"] == timestamp(START + 200)
    world.until(90)
    ends(world, "one")
    assert runs(world, "first")
    assert world.why("Workload", "second").details["startsAt"] == timestamp(START + 140)
    ends(world, "first")
    assert runs(world, "second")


@unhurried
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 300) | st.none()), min_size=2, max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.integers(1, 3),
            st.sampled_from([1, 2, 4, 8]),
            st.none() | st.integers(1, 300),
            st.integers(0, 60),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_several_heads_all_start_in_the_end_and_nobody_gets_more_than_there_is(running, stream):
    world = World()
    world.flavor()
    for name, mode in (("a", "Reserved"), ("b", "Reserved"), ("c", "BestEffort")):
        spec = {"reservationSeconds": 50} if mode == "Reserved" else {}
        world.queue(name, 12, cohort="all", local=name, backfill=mode, **spec)
    for number in range(3):
        world.node(f"n{number}", gpus=8)
    for number, (gpus, seconds) in enumerate(running):
        job(world, f"r{number}", gpus, seconds, queue="c")
    world.run()
    for number, (queue, pods, gpus, seconds, pause) in enumerate(stream):
        job(world, f"s{number}", gpus, seconds, pods=pods, queue=queue)
        world.until(pause)
        nodes = world.engine.state.cluster.nodes
        assert (nodes.requested == recounted(world.engine.state.cluster)).all()
        assert (nodes.requested[:3] <= nodes.allocatable[:3]).all()
    assert not world.replay().differences
    for _ in range(len(running) + len(stream)):  # whoever runs ends, one after the other
        ends(world, *dict.fromkeys(pod.rsplit("-", 1)[0] for pod in world.where()))
    world.until(50 * 16 * 4)
    left = {pod.rsplit("-", 1)[0] for _, pod in world.pods} - {pod.rsplit("-", 1)[0] for pod in world.where()}
    assert all("deactivated" in world.reason("Workload", name).lower() for name in left)


@unhurried
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(10, 300)), min_size=3, max_size=8),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 8), st.none() | st.integers(1, 400), st.integers(1, 30)), max_size=12),
)
def test_a_head_starts_no_later_than_it_was_first_told(running, pods, stream):
    world = reserved(gpus=1000, nodes=3)
    world.queue("other", 1000, local="other")
    for number, (gpus, seconds) in enumerate(running):
        job(world, f"r{number}", gpus, seconds)
    world.run()
    job(world, "head", 8, pods=pods)
    world.run()
    assume(not runs(world, "head"))
    promised = world.engine.state.backfill_reservations.of["cq"].starts_at
    assert promised is not None
    for number, (gpus, seconds, pause) in enumerate(stream):
        job(world, f"s{number}", gpus, seconds, queue=("queue", "other")[number % 2])
        world.until(pause)
    world.until(max(0.0, promised - world.now) + 0.01)
    assert runs(world, "head")


# The whole of it: a stream of small jobs and a gang, as `python -m bench.backfill` shows at large.


def simulated(mode: Mode) -> dict[str, float | None]:
    simulation = Simulation(mode, hours=5, nodes=2, members=2)
    simulation.run()
    return simulation.figures()


def test_a_stream_of_small_jobs_starves_a_gang_unless_room_is_kept_for_it():
    strict, best_effort, known, unknown = (simulated(mode) for mode in MODES)
    assert best_effort["waited_minutes"] is None
    assert strict["waited_minutes"] is not None
    assert unknown["waited_minutes"] is not None
    assert known["waited_minutes"] is not None
    assert known["promised_minutes"] is not None
    assert known["waited_minutes"] <= known["promised_minutes"]
    assert known["used_while_it_waited_percent"] > strict["used_while_it_waited_percent"]


def test_what_is_kept_for_a_head_makes_nobody_of_its_queue_a_borrower():
    """The head wants more than the queue has left of its own. Who runs there within that is no victim of fair sharing."""
    world = World(fairSharing={"enable": True, "patienceSeconds": 0})
    world.flavor()
    world.queue("a", 6, cohort="c", local="a", backfill="Reserved")
    world.queue("b", 2, cohort="c", lend=0, local="b", preemption={"reclaimWithinCohort": "Any"})
    world.node("n0", gpus=16)
    world.pod("own", queue="b", gpus=2)
    world.pod("within", queue="a", gpus=4, priority=2)
    world.run()
    world.now += 1
    world.gang("head", 4, queue="a")
    world.run()
    world.now += 1
    world.pod("p", queue="b")
    world.run()
    assert world.reason("Pod", "p") == "WouldDelay"
    assert sorted(world.where()) == ["own", "within"]
