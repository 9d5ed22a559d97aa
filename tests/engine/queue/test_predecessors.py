"""Workloads that start after others have ended."""

from __future__ import annotations

import cProfile
import pstats

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.queue.after import AFTER, a_queue, job, name_others, told
from tests.engine.world import START, World
from tutti.api.core import OwnerReference
from tutti.api.kinds.after import MOST_AFTER


def test_a_workload_starts_when_the_one_that_it_names_has_succeeded():
    world = a_queue()
    job(world, "prepare")
    job(world, "train", "prepare")
    world.run()
    assert list(world.where()) == ["prepare-0"]
    assert told(world, "train") == ("WaitingForWorkloads", "it starts after others: Workload prepare runs")
    assert world.why("Workload", "train").details == {"prepare": "Running"}
    world.finish("prepare-0")
    world.run()
    assert list(world.where()) == ["prepare-0", "train-0"]
    assert world.status("Workload", "train")["after"] == [{"workload": "prepare", "outcome": "Succeeded"}]


def test_who_waits_for_others_is_in_nobodys_way_and_uses_no_quota():
    world = a_queue(4, queueingStrategy="StrictFIFO")
    job(world, "train", "prepare", size=4)
    job(world, "other", size=4)
    world.run()
    assert len(world.where("other")) == 4
    assert told(world, "train")[0] == "WaitingForWorkloads"


def test_one_that_does_not_exist_yet_is_waited_for_and_named():
    world = a_queue()
    job(world, "train", "prepare")
    world.run()
    assert told(world, "train")[1] == "it starts after others: prepare does not exist yet"
    job(world, "prepare")
    world.run()
    world.finish("prepare-0")
    world.run()
    assert world.where("train") == {"train-0": "n"}


@pytest.mark.parametrize("backwards", [False, True])
def test_who_names_a_member_of_a_gang_is_told_what_to_name_in_its_place(backwards):
    world = a_queue()
    acts = [lambda: job(world, "train", "prepare-0"), lambda: job(world, "prepare", size=2)]
    for act in reversed(acts) if backwards else acts:
        act()
        world.run()
    reason, message = told(world, "train")
    assert reason == "WaitingForWorkloads"
    assert message == (
        "it starts after others: Pod prepare-0 of Workload prepare is one of several that end together: "
        "name prepare in its place"
    )
    assert world.why("Workload", "train").details == {"prepare-0": "Member"}


@pytest.mark.parametrize("restarts", [False, True])
def test_one_that_failed_is_waited_for_unless_any_end_will_do(restarts):
    world = a_queue()
    job(world, "prepare")
    job(world, "train", "prepare")
    job(world, "clean-up", "prepare:Finished")
    world.run()
    world.finish("prepare-0", phase="Failed")
    world.run()
    if restarts:
        world.delete("prepare-0")
        world.run()
        world.restart()
        world.run()
    assert list(world.where("clean-up")) == ["clean-up-0"]
    assert world.where("train") == {}
    reason, message = told(world, "train")
    assert reason == "PredecessorFailed"
    assert message == (
        "it starts after others: Workload prepare has failed and has to succeed; run what has failed again, "
        "or say when: Finished of it, or name it no longer"
    )
    job(world, "train")  # its user names it no longer
    world.run()
    assert list(world.where("train")) == ["train-0"]


@pytest.mark.parametrize("restarts", [False, True])
def test_one_that_has_succeeded_and_is_deleted_is_not_waited_for_again(restarts):
    world = a_queue()
    for name in ("load", "prepare"):
        job(world, name)
    job(world, "train", "load", "prepare")
    world.run()
    world.finish("load-0")
    world.run()
    world.delete("load-0")
    world.remove_object("Workload", "load")
    world.run()
    if restarts:
        world.restart()
        world.run()
    assert told(world, "train")[1] == "it starts after others: Workload prepare runs"
    if restarts:
        job(world, "load")  # of the next run
        world.restart(backwards=True)
        world.run()
    world.finish("prepare-0")
    world.run()
    assert "train-0" in world.where()


@pytest.mark.parametrize("restarts", [False, True])
def test_one_that_was_let_fail_is_waited_for_again_where_it_has_to_succeed_by_now(restarts):
    world = a_queue()
    job(world, "prepare")
    job(world, "train", "prepare:Finished", "load")
    world.run()
    world.finish("prepare-0", phase="Failed")
    world.run()
    assert world.status("Workload", "train")["after"] == [{"workload": "prepare", "outcome": "Failed"}]
    name_others(world, "train", "prepare")
    if restarts:
        world.restart(backwards=True)
    world.run()
    assert told(world, "train")[0] == "PredecessorFailed"
    world.delete("prepare-0")
    world.pod("prepare-0", workload="prepare")
    world.run()
    world.finish("prepare-0")
    world.run()
    assert world.where("train") == {"train-0": "n"}
    assert world.status("Workload", "train")["after"] == [{"workload": "prepare", "outcome": "Succeeded"}]


def test_who_names_others_again_and_again_has_no_more_of_them_in_its_status_than_it_may_name():
    """The API server refuses a longer list, and with it everything else that the status says."""
    world = a_queue(100)
    world.node("large", gpus=100, cpu=100)
    names = [f"p{number}" for number in range(32)]
    for name in names:
        job(world, name)
    world.run()
    world.finish(*(f"{name}-0" for name in names))
    world.run()
    for at in (0, 10, 17):
        name_others(world, "train", *names[at : at + 15], "never")
        world.run()
        noted = [one["workload"] for one in world.status("Workload", "train")["after"]]
        assert set(names[at : at + 15]) <= set(noted)
        assert len(noted) <= MOST_AFTER


@pytest.mark.parametrize("backwards", [False, True])
def test_of_members_that_name_different_others_the_same_ones_count_whoever_was_seen_first(backwards):
    world = a_queue()
    world.pod_group("train", 2)
    for rank, other in enumerate("ab"):
        world.pod(f"train-{rank}", group="train", annotations={AFTER: other})
    world.restart(backwards=backwards)
    world.run()
    assert world.why("PodGroup", "train").message == "it starts after others: a does not exist yet"


def test_who_was_taken_out_does_not_wait_again():
    world = a_queue()
    job(world, "prepare")
    job(world, "train", "prepare")
    world.run()
    world.finish("prepare-0")
    world.run()
    world.delete("prepare-0")
    world.remove_object("Workload", "prepare")
    world.run()
    world.delete("train-0")
    world.pod("train-1", workload="train")
    world.restart()
    world.run()
    assert list(world.where("train")) == ["train-1"]


RINGS = {
    "itself": ({"a": ["a"]}, {"a"}),
    "two": ({"a": ["b"], "b": ["a"]}, {"a", "b"}),
    "three and one behind, one before": (
        {"a": ["b"], "b": ["c"], "c": ["a", "first"], "behind": ["a"], "first": []},
        {"a", "b", "c"},
    ),
    "two rings with one in common": ({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, {"a", "b", "c"}),
    "a diamond is none": ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["x"]}, set()),
}


@pytest.mark.parametrize(("after", "rings"), RINGS.values(), ids=RINGS)
@pytest.mark.parametrize("backwards", [False, True])
def test_those_in_a_ring_are_told_and_nobody_else(after, rings, backwards):
    world = a_queue()
    for name in list(after)[:: -1 if backwards else 1]:
        job(world, name, *after[name])
        world.run()
    world.restart(backwards=backwards)
    world.run()
    assert {name for name in after if told(world, name)[0] == "AfterItself"} == rings
    for name in rings:
        text = told(world, name)[1]
        assert all(f"Workload {other}" in text for other in rings - {name})


def test_a_ring_that_is_broken_starts_in_its_order():
    world = a_queue()
    job(world, "a", "b")
    job(world, "b", "a")
    world.run()
    assert told(world, "a")[0] == told(world, "b")[0] == "AfterItself"
    world.workload("a", {"count": 1}, queueName="queue")
    world.run()
    assert list(world.where()) == ["a-0"]
    assert told(world, "b") == ("WaitingForWorkloads", "it starts after others: Workload a runs")
    world.finish("a-0")
    world.run()
    assert "b-0" in world.where()


def test_nobody_is_looked_at_before_somebody_it_waits_for_fares_otherwise():
    world = a_queue()
    job(world, "prepare")
    for number in range(20):
        job(world, f"train-{number}", "prepare", "load")
    world.run()
    before = world.engine.evaluated
    for number in range(10):
        job(world, f"other-{number}")
        world.run()
    assert world.engine.evaluated - before <= 20
    assert world.engine.wakeup() is None or world.engine.wakeup() > START + 1


def test_a_long_chain_costs_no_more_than_its_length():
    world = World()
    for number in reversed(range(2000)):
        world.object("Workload", f"w{number}", {"podGroups": [{"count": 1}], "after": [{"workload": f"w{number + 1}"}]})
    world.run()
    assert told(world, "w0")[0] == "WaitingForWorkloads"
    world.object("Workload", "w2000", {"podGroups": [{"count": 1}], "after": [{"workload": "w0"}]})
    world.until(1)
    assert {told(world, f"w{n}")[0] for n in range(2001)} == {"AfterItself"}


def test_where_thousands_wait_one_that_changes_does_not_have_all_walked_through_each_time():
    """Rings are told all the same, a moment later, and those of other namespaces at once."""
    world = World(namespaces=("default", "other"))
    for number in range(1200):
        world.object("Workload", f"w{number}", {"podGroups": [{"count": 1}], "after": [{"workload": f"w{number + 1}"}]})
    world.until(10)
    followers = world.engine.state.followers
    walks = 0
    for number in range(20):
        before = followers.next_due()
        world.object("Workload", "new", {"podGroups": [{"count": 1}], "after": [{"workload": f"w{number}"}]})
        world.decide(0.01)
        walks += followers.next_due() is None and before is not None
    assert walks <= 1
    for one, other in ("ab", "ba"):
        spec = {"podGroups": [{"count": 1}], "after": [{"workload": other}]}
        world.object("Workload", one, spec, "other")
    world.decide()
    assert world.why("Workload", "a", "other").reason == "AfterItself"
    world.object("Workload", "new", {"podGroups": [{"count": 1}], "after": [{"workload": "new"}]})
    world.until(5)
    assert world.why("Workload", "new").reason == "AfterItself"
    assert world.replay().differences == []


def test_whether_an_object_has_begun_is_not_asked_of_all_its_pods_for_each_of_them():
    calls = [calls_for_pods_of_one_object(count) for count in (100, 400)]
    assert calls[1] < 5 * calls[0]


def test_a_pod_elsewhere_that_names_the_same_owner_does_not_make_it_have_begun():
    world = World(namespaces=("default", "evil"))
    world.node("n")
    owner = OwnerReference("example.com/v1", "Thing", "things", "uid-things", controller=True)
    world.pod("forged", owner=owner, namespace="evil")
    world.run()
    world.pod("waits", owner=owner, annotations={AFTER: "nobody"})
    world.run()
    assert list(world.where("", "evil")) == ["forged"]
    assert world.where() == {}
    world.pod("forged-late", owner=owner, namespace="evil", annotations={AFTER: "nobody"})
    world.run()
    assert "forged-late" in world.where("", "evil")


def calls_for_pods_of_one_object(count: int) -> int:
    """How many functions are called until so many pods of one object wait for somebody."""
    world = World()
    owner = OwnerReference("example.com/v1", "Thing", "things", "uid-things", controller=True)
    for number in range(count):
        world.pod(f"p{number}", owner=owner, annotations={AFTER: "nobody"})
    profile = cProfile.Profile()
    profile.runcall(world.run)
    assert world.why("Pod", "p0").reason == "WaitingForWorkloads"
    return int(pstats.Stats(profile).total_calls)


NAMES = st.sampled_from("abcd")


@settings(max_examples=60)
@given(
    st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=4),
    st.lists(st.tuples(st.sampled_from(["finish", "fail", "delete", "restart"]), NAMES), max_size=8),
)
def test_nobody_starts_before_those_it_names_have_succeeded(after, acts):
    """And whoever's others have all succeeded does start, whatever else happens."""
    world, succeeded = a_queue(), set()
    for name, others in after.items():
        job(world, name, *others)
    world.run()
    for act, name in acts:
        runs = f"{name}-0" in world.where()
        if act == "restart":
            world.restart()
        elif act == "delete" and ("Workload", "default", name) in world.objects:
            world.remove_object("Workload", name)
            world.delete(f"{name}-0")
        elif act in ("finish", "fail") and runs and world.pods["default", f"{name}-0"].status.phase != "Succeeded":
            world.finish(f"{name}-0", phase="Succeeded" if act == "finish" else "Failed")
            succeeded |= {name} if act == "finish" else set()
        world.run()
        for other in world.where():
            assert set(after[other[0]]) <= succeeded
    for name, others in after.items():
        there = ("Workload", "default", name) in world.objects
        if there and set(others) <= succeeded and not set(others) & {one for one in succeeded if one not in after}:
            known = all(("Workload", "default", one) in world.objects for one in others)
            assert not known or f"{name}-0" in world.where()


@pytest.mark.timeout(100)
@pytest.mark.parametrize("ring", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"]}])
def test_a_turn_ends_in_which_those_of_a_ring_fare_otherwise_than_they_were_told(ring):
    """Each had the next one looked at, and that one the first, for as long as nobody was told anew: for ever."""
    world = a_queue()
    for name, after in ring.items():
        job(world, name, *after)
    world.run()
    for active in (False, True):
        for name, after in ring.items():
            said = [{"workload": one} for one in after]
            world.workload(name, {"count": 1}, queueName="queue", after=said, active=active)
        world.run()
        assert {told(world, name)[0] for name in ring} == {"AfterItself" if active else "Deactivated"}
    assert world.where() == {}
