"""What users of Kueue complain of most: victims that leave in vain, or come back and take out those they made room for.

Each scenario plays what a controller does: whatever was evicted comes again under another name. The numbers of
evictions are worked out by hand, from who must leave so that all may run that have a right to; one more is a loop.
"""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import World, replaced
from tutti.api.core import Pod, PodStatus
from tutti.engine.records.decisions import Evict

ANY = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
STEP = 20.0
"""Seconds between one victim's departure and the next; in all less than room is held for a preemptor."""

departures = pytest.mark.parametrize("slowly", [False, True], ids=["at-once", "one-by-one"])


def cohort_of(*queues: tuple[str, int], fair: bool = False, **spec) -> World:
    """Queues of one cohort that may reclaim, each with a LocalQueue of its name."""
    world = World(fairSharing={"enable": fair})
    world.flavor()
    for name, nominal in queues:
        world.queue(name, nominal, cohort="c", local=name, **{"preemption": ANY, **spec})
    return world


def later(world: World) -> None:
    """What comes next is younger, and what has come is running."""
    world.run()
    world.now += 1.0


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def play(world: World, *, slowly: bool, steps: int = 25) -> None:
    """Let time pass: victims leave at once or one in each step, and their controllers make them anew.

    At the end nobody is leaving any more, and nothing has happened for a while.
    """
    serial, known = itertools.count(), dict[str, Pod]()
    world.hold_evictions = slowly
    for _ in range(steps):
        known |= {_base(pod): pod for pod in world.pods.values()}
        before = len(evicted(world))
        world.until(STEP)
        leaving = [pod for pod in world.pods.values() if pod.metadata.deletion_timestamp is not None]
        world.delete(*(pod.metadata.name for pod in leaving[:1]))
        there = {_base(pod) for pod in world.pods.values()}
        for base, pod in known.items():
            if base not in there:
                name = f"{base}_{next(serial)}"
                created = datetime.fromtimestamp(world.now, UTC)
                meta = replaced(pod.metadata, name=name, uid=name, creation_timestamp=created, deletion_timestamp=None)
                world.put(replaced(pod, metadata=meta, spec=replaced(pod.spec, node_name=""), status=PodStatus()))
    assert not leaving
    assert len(evicted(world)) == before


def _base(pod: Pod) -> str:
    return pod.metadata.name.partition("_")[0]


@departures
def test_two_reclaimers_of_what_one_borrower_has_take_it_once(slowly):
    """Kueue issues 13662 and 7101: victims come back while their preemptors wait for the rest, 33 times.

    a and b have 4 GPUs each, and c none: all 8 pods of c leave, and only once.
    """
    world = cohort_of(("a", 4), ("b", 4), ("c", 0))
    world.node("n0")
    for number in range(8):
        world.pod(f"c-{number}", queue="c")
        later(world)
    world.gang("a", 4, queue="a")
    world.gang("b", 4, queue="b")
    play(world, slowly=slowly)
    assert [len(world.where(name)) for name in "abc"] == [4, 4, 0]
    assert sorted(evicted(world)) == [f"c-{number}" for number in range(8)]


@departures
def test_two_reclaimers_of_one_gang_have_it_leave_once(slowly):
    """As above, with a borrower of 8 GPUs that leaves as a whole: its 8 pods."""
    world = cohort_of(("a", 4), ("b", 4), ("c", 0))
    world.node("n0")
    world.gang("c", 8, queue="c")
    later(world)
    world.gang("a", 4, queue="a")
    later(world)
    world.gang("b", 4, queue="b")
    play(world, slowly=slowly)
    assert [len(world.where(name)) for name in "abc"] == [4, 4, 0]
    assert sorted(evicted(world)) == [f"c-{number}" for number in range(8)]


@departures
@pytest.mark.parametrize("fair", [False, True], ids=["by-priority", "fair"])
def test_a_takes_from_b_and_b_does_not_take_it_back(fair, slowly):
    """Kueue issue 3779: A takes B's place, B comes back and takes A's, and so on.

    b has 8 of 12 GPUs where 4 are its own; a, with its own 4 unused, takes 4 back: one gang of b leaves, the younger.
    c2 waits beside c1, which uses all that c has.
    """
    world = cohort_of(("a", 4), ("b", 4), ("c", 4), fair=fair)
    world.node("n0", gpus=12)
    for name, queue in (("c1", "c"), ("b1", "b"), ("b2", "b")):
        world.gang(name, 4, queue=queue)
        later(world)
    assert len(world.where()) == 12
    world.gang("a1", 4, queue="a")
    world.gang("c2", 4, queue="c")
    play(world, slowly=slowly)
    assert {name: len(world.where(name)) for name in ("a1", "b1", "b2", "c1", "c2")} == {
        "a1": 4,
        "b1": 4,
        "b2": 0,
        "c1": 4,
        "c2": 0,
    }
    assert len(evicted(world)) == 4


@departures
@pytest.mark.parametrize("fair", [False, True], ids=["by-priority", "fair"])
def test_who_is_more_important_does_not_take_back_what_is_not_its_own(fair, slowly):
    """ReclaimWithinCohort Any: what b has of a leaves for a whatever its priority, and is not let in again in its place.

    b has 8 GPUs where 4 are its own; a, of lower priority, takes its 4. c, as important as b, owns nothing, and waits.
    """
    world = cohort_of(("a", 4), ("b", 4), ("c", 0), fair=fair)
    world.node("n0")
    for name, queue in (("b1", "b"), ("b2", "b"), ("c", "c")):
        world.gang(name, 4, queue=queue, priority=9)
        later(world)
    world.gang("a", 4, queue="a")
    play(world, slowly=slowly)
    assert [len(world.where(name)) for name in ("a", "b1", "b2", "c")] == [4, 4, 0, 0]
    assert sorted(evicted(world)) == [f"b2-{rank}" for rank in range(4)]


@departures
@pytest.mark.parametrize("fair", [False, True], ids=["by-priority", "fair"])
def test_who_is_more_important_does_not_take_out_whoever_has_a_right_to_take_it_out(fair, slowly):
    """As above with quota to spare, so that nodes alone are short, and pods of higher priority could take them.

    a may take back its own from b, whose pods may take the nodes from a's: that would never end. b2 leaves, once.
    """
    world = cohort_of(("a", 4), ("b", 4), ("lender", 4), fair=fair)
    world.node("n0")
    for name in ("b1", "b2"):
        world.gang(name, 4, queue="b", priority=9)
        later(world)
    world.gang("a", 4, queue="a")
    play(world, slowly=slowly)
    assert [len(world.where(name)) for name in ("a", "b1", "b2")] == [4, 4, 0]
    assert sorted(evicted(world)) == [f"b2-{rank}" for rank in range(4)]


@departures
def test_the_older_of_equals_takes_the_place_of_the_newer_and_keeps_it(slowly):
    """WithinClusterQueue LowerOrNewerEqualPriority, room for one gang: the newer leaves once, and stays behind."""
    world = cohort_of(("a", 4), preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
    world.node("n0")
    world.pod_group("old", 4)
    later(world)
    world.gang("new", 4, queue="a")
    later(world)
    for rank in range(4):
        world.pod(f"old-{rank}", group="old", queue="a")
    play(world, slowly=slowly)
    assert (len(world.where("old")), len(world.where("new"))) == (4, 0)
    assert len(evicted(world)) == 4


@departures
def test_fair_shares_become_even_and_stay_so(slowly):
    """A and b share 8 GPUs of a lender: b gives up 4 of its 8, and no pod moves twice."""
    world = cohort_of(("a", 0), ("b", 0), ("lender", 8), fair=True)
    world.node("n0")
    for name in "ba":
        for number in range(8):
            world.gang(f"{name}{number}", 1, queue=name)
            later(world)
    play(world, slowly=slowly)
    assert len(world.where("a")) == len(world.where("b")) == 4
    assert len(evicted(world)) == 4


@departures
def test_three_ranks_each_leave_once_for_the_next(slowly):
    """Room for one gang of 4: low leaves for middle, middle for high: 8 pods, each once."""
    world = cohort_of(("a", 4))
    world.node("n0")
    for rank, name in enumerate(("low", "middle", "high")):
        world.gang(name, 4, queue="a", priority=rank)
        later(world)
    play(world, slowly=slowly)
    assert [len(world.where(name)) for name in ("low", "middle", "high")] == [0, 0, 4]
    assert len({name.partition("_")[0] for name in evicted(world)}) == len(evicted(world)) == 8


@departures
@pytest.mark.parametrize("fair", [False, True], ids=["by-priority", "fair"])
def test_what_leaves_frees_a_place_and_not_only_quota(fair, slowly):
    """Kueue issue 5243: 8 GPUs are freed on 4 nodes, for a pod that needs them on one.

    The last four of b are on four nodes; but four of two GPUs leave that share one.
    """
    world = cohort_of(("a", 8), ("b", 24), fair=fair)
    for number in range(4):
        world.node(f"n{number}")
    for _ in range(4):
        for number in range(4):
            world.pod(f"b-n{number}-{_}", gpus=2, queue="b", selector={"kubernetes.io/hostname": f"n{number}"})
            later(world)
    world.pod("a", gpus=8, queue="a")
    play(world, slowly=slowly)
    (node,) = world.where("a").values()
    assert sorted(evicted(world)) == [f"b-{node}-{_}" for _ in range(4)]


def test_nobody_leaves_a_node_that_stays_blocked_by_others():
    """Kueue issue 10497: the GPUs of a node are freed, and what has its processors stays.

    The blocker uses none of what is short of quota, so by the rules of quota it may not be taken out.
    """
    world = cohort_of(("a", 8), ("b", 0))
    world.node("n0", cpu=16)
    world.pod("blocker", gpus=0, cpu="12", queue="b")
    world.pod("b", gpus=8, queue="b")
    later(world)
    world.pod("a", gpus=8, cpu="8", queue="a")
    play(world, slowly=False)
    assert evicted(world) == []
    assert world.where("a") == {}


def test_nobody_leaves_for_a_rack_that_others_have_by_right():
    """Kueue issue 12478: a gang must have one rack, and on each somebody stays who uses no more than his own.

    b borrows 2 GPUs on each of two racks of 4, c has its own 2 on each: 4 of b's would be enough quota, but no rack.
    """
    world = cohort_of(("a", 4), ("b", 0), ("c", 4))
    for number in range(2):
        world.node(f"n{number}", gpus=4, labels={"rack": f"r{number}"})
        for name in "bc":
            world.gang(f"{name}{number}", 2, queue=name, selector={"rack": f"r{number}"})
    later(world)
    world.pod_group("a", 4, schedulingConstraints={"topology": [{"key": "rack"}]})
    for rank in range(4):
        world.pod(f"a-{rank}", group="a", queue="a")
    play(world, slowly=False)
    assert evicted(world) == []
    assert len(world.where()) == 8
    world.gang("small", 2, queue="a")
    play(world, slowly=False)
    assert len(world.where("small")) == 2
    assert len(evicted(world)) == 2


QUEUES = st.fixed_dictionaries(
    {
        "nominal": st.sampled_from([0, 2, 4]),
        "within": st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
        "reclaim": st.sampled_from(["LowerPriority", "Any"]),
        "while_borrowing": st.sampled_from(["Never", "LowerPriority"]),
        "strategy": st.sampled_from(["StrictFIFO", "BestEffortFIFO"]),
    }
)
GANGS = st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 4]), st.sampled_from([0, 9]))


@examples(60)
@given(
    queues=st.tuples(QUEUES, QUEUES),
    lender=st.booleans(),
    gpus=st.sampled_from([4, 8]),
    gangs=st.lists(GANGS, min_size=3, max_size=7),
    fair=st.booleans(),
    slowly=st.booleans(),
)
def test_whatever_the_policies_evictions_come_to_an_end(queues, lender, gpus, gangs, fair, slowly):
    """Each gang leaves at most once for each of those that it may have to leave for, and then there is rest."""
    world = cohort_of(fair=fair)
    world.node("n0", gpus=gpus)
    for name, queue in zip("ab", queues, strict=True):
        policy = {
            "withinClusterQueue": queue["within"],
            "reclaimWithinCohort": queue["reclaim"],
            "borrowWithinCohort": {"policy": queue["while_borrowing"]},
        }
        strategy = queue["strategy"]
        world.queue(name, queue["nominal"], cohort="c", local=name, preemption=policy, queueingStrategy=strategy)
    if lender:
        world.queue("lender", 4, cohort="c", local="lender")
    world.hold_evictions = slowly
    for number, (queue, size, priority) in enumerate(gangs):
        world.gang(f"g{number}", size, queue=queue, priority=priority)
        later(world)
    play(world, slowly=slowly, steps=40)
    left = Counter(name.partition("_")[0] for name in evicted(world))
    assert all(count < len(gangs) for count in left.values())
