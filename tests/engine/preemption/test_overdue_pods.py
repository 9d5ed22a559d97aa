"""Pods that should have left by now and have not: others make room in their place, once, and elsewhere.

kube-scheduler 1.36 waits without end where it has asked them itself (plugins/defaultpreemption,
PodEligibleToPreemptOthers), and so does Kueue 0.20 where they hold quota.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.preemption.hung_pods import MARGIN, nodes, three_low_one_high, with_stuck
from tests.engine.world import World
from tutti.engine.records.decisions import AnyDecision, Evict

IN_THEIR_PLACE = "WaitingForOtherVictims"


def evicted(world: World) -> list[str]:
    return [decision.name for decision in world.log if isinstance(decision, Evict)]


def waits(world: World, name: str, kind: str = "Pod") -> tuple[str, str]:
    why = world.why(kind, name)
    return why.reason, why.message


@pytest.mark.parametrize("kind", ["a pod", "a gang"])
def test_others_leave_in_the_place_of_what_should_have_left_and_is_none_of_its_victims(kind):
    world = with_stuck(kind)
    world.pod("high", gpus=4, priority=10)
    world.until(MARGIN - 1)
    assert evicted(world) == []
    assert waits(world, "high")[0] == "WaitingForVictims"
    assert "default/stuck" in waits(world, "high")[1]

    world.until(1)
    assert evicted(world) == ["runs"]
    reason, message = waits(world, "high")
    assert reason == IN_THEIR_PLACE
    assert "default/runs on n1" in message
    assert "default/stuck" in message
    world.delete("runs")
    world.run()
    assert world.where("high") == {"high": "n1"}


def test_what_is_overdue_already_is_not_waited_for():
    world = with_stuck("a pod")
    world.until(MARGIN)
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == ["runs"]


def test_a_victim_of_its_own_that_hangs_is_replaced_once_on_another_node():
    world = three_low_one_high()
    (first,) = evicted(world)
    world.until(MARGIN)
    second = evicted(world)[1]
    assert len(evicted(world)) == 2
    assert waits(world, "high")[0] == IN_THEIR_PLACE

    world.until(3600.0)  # the second hangs, too
    assert evicted(world) == [first, second]
    assert waits(world, "high")[0] == IN_THEIR_PLACE
    world.delete(first)
    world.until(1.0)
    assert world.where("high")
    assert evicted(world) == [first, second]


@pytest.mark.parametrize("backwards", [False, True])
def test_another_process_knows_that_somebody_was_replaced(backwards):
    world = three_low_one_high()
    world.until(MARGIN)
    assert len(evicted(world)) == 2
    world.restart(backwards=backwards)
    world.until(3600.0)
    assert len(evicted(world)) == 2
    assert waits(world, "high")[0] == IN_THEIR_PLACE


def test_another_process_counts_the_margin_from_when_the_pod_should_have_left():
    world = nodes(4, 4)
    for number in range(2):
        world.pod(f"low-{number}", gpus=4)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.until(MARGIN / 2)
    world.restart()
    world.until(MARGIN / 2 - 1)
    assert len(evicted(world)) == 1
    world.until(1)
    assert len(evicted(world)) == 2


def test_a_victim_that_became_overdue_while_no_operator_ran_is_replaced_at_once():
    world = nodes(4, 4)
    for number in range(2):
        world.pod(f"low-{number}", gpus=4)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.run()
    first = evicted(world)
    world.now += MARGIN + 60
    world.restart()
    world.run()
    assert sorted(evicted(world)) == ["low-0", "low-1"] != first


def test_nobody_is_replaced_on_the_same_node_whose_kubelet_may_hang():
    world = nodes(4)
    for number in range(4):
        world.pod(f"low-{number}")
    world.run()
    world.pod("high", priority=10)
    world.run()
    (victim,) = evicted(world)
    world.until(3600.0)
    assert evicted(world) == [victim]
    reason, message = waits(world, "high")
    assert reason == "WaitingForVictims"
    assert f"default/{victim} on n0, which should have left by 1970-01-12T13:46:40Z" in message


def test_who_finds_nobody_elsewhere_looks_again_later():
    world = nodes(4)
    world.pod("low", gpus=4)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.until(MARGIN)
    assert evicted(world) == ["low"]
    world.node("n1", gpus=4)
    world.pod("other", gpus=4, priority=5, node="n1")
    world.until(world.configuration.victims_timeout_seconds)
    assert evicted(world) == ["low", "other"]
    world.delete("other")
    world.run()
    assert world.where("high") == {"high": "n1"}


def test_no_more_room_is_made_than_what_is_overdue_leaves_lacking():
    world = nodes(4, 4, 4)
    world.pod("a", gpus=4, node="n0")
    world.pod("b", gpus=4, node="n1")
    world.pod("c", gpus=4, node="n2", priority=1)
    world.run()
    world.gang("high", 2, gpus=4, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["a", "b"]
    world.delete("a")
    world.pod("between", gpus=4, priority=10, preempts=False)  # has not what is held for the gang
    world.until(MARGIN)
    assert evicted(world)[2:] == ["c"]
    world.delete("c")
    world.run()
    assert sorted(world.where()) == ["b", "high-0", "high-1"]


def test_of_a_gang_that_leaves_the_member_that_hangs_is_told_apart():
    """What the others leave is room, and only what it lacks beside that is made elsewhere."""
    world = nodes(4, 4, 4)
    world.gang("low", 2, gpus=4)
    world.pod("runs", gpus=4, priority=5)
    world.run()
    world.gang("high", 2, gpus=4, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["low-0", "low-1"]
    at = world.where("low")["low-0"]
    world.delete("low-0")
    world.until(MARGIN)
    assert evicted(world)[2:] == ["runs"]
    world.delete("runs")
    world.run()
    assert len(world.where("high")) == 2
    assert at in world.where("high").values()


def test_a_gang_leaves_whole_in_the_place_of_what_is_overdue():
    world = nodes(4, 4)
    world.pod("stuck", gpus=4, priority=-1)
    world.run()
    world.gang("whole", 2, gpus=2)
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.run()
    assert evicted(world) == ["stuck"]
    world.until(MARGIN)
    assert sorted(evicted(world)[1:]) == ["whole-0", "whole-1"]


def test_a_gang_with_a_member_on_a_node_where_a_pod_is_overdue_is_not_taken_for_one():
    """It would have to leave whole, and might not."""
    world = nodes(4, 4)
    world.gang("across", 2, gpus=2)  # the emptiest node first: one on each
    world.pod("stuck", gpus=2, priority=-1)
    world.run()
    assert len(set(world.where("across").values())) == 2
    world.pod("rest", gpus=2, priority=10)
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.until(MARGIN + 60.0)
    assert evicted(world) == ["stuck"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_only_a_finalizer_holds_takes_no_room(phase):
    """Its kubelet has said that its containers have ended."""
    world = nodes(4)
    world.pod("low", gpus=4)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.run()
    world.finish("low", phase=phase)
    world.run()
    assert world.where("high") == {"high": "n0"}


def test_a_shorter_grace_counts_as_soon_as_it_is_asked_for():
    world = nodes(4, 4)
    world.pod("low", gpus=4)
    world.pod("more", gpus=4, priority=1)
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.begin_deleting("low", grace=3600.0)
    world.until(MARGIN)
    assert evicted(world) == []
    world.begin_deleting("low", grace=0.0)
    world.until(MARGIN)
    assert evicted(world) == ["more"]


def test_who_has_been_placed_may_have_others_replaced_when_it_waits_again():
    world = three_low_one_high(gang=True)
    world.until(MARGIN)
    assert len(evicted(world)) == 2
    world.delete(*evicted(world))
    world.run()
    assert world.where("high")
    assert not world.engine.state.nominations.chose_again


def test_nothing_is_remembered_of_who_has_gone():
    world = three_low_one_high()
    world.until(MARGIN)
    assert world.engine.state.nominations.chose_again
    world.delete("high")
    world.run()
    assert not world.engine.state.nominations.chose_again


def test_of_which_may_be_spared_yet_nobody_is_replaced():
    world = nodes(4, 4, 4)
    world.pod("stuck", gpus=4, node="n0")
    world.pod("kept", gpus=4, node="n1")
    world.pod("runs", gpus=4, node="n2", priority=5)
    world.run()
    world.begin_deleting("stuck")
    world.refuse_evictions = True
    world.gang("high", 2, gpus=4, priority=10)
    world.until(MARGIN)
    assert set(evicted(world)) == {"kept"}


def test_one_node_hangs_and_each_preemptor_replaces_its_victim_once():
    world = nodes(8, 8, 8)
    for node in range(3):
        for number in range(8):
            world.pod(f"low-{node}-{number}", node=f"n{node}", priority=node)
    world.run()
    for number in range(8):
        world.pod(f"high-{number}", priority=10)
    world.run()
    assert sorted(evicted(world)) == [f"low-0-{number}" for number in range(8)]
    world.until(MARGIN)
    assert sorted(evicted(world)[8:]) == [f"low-1-{number}" for number in range(8)]
    world.until(3600.0)
    assert len(evicted(world)) == 16
    for number in range(8):
        world.pod(f"lower-{number}", priority=5)
        world.delete(f"low-1-{number}")
    world.run()
    assert set(world.where("high").values()) == {"n1"}
    assert len(world.where("high")) == 8


def hung() -> st.SearchStrategy[dict[str, Any]]:
    """Pods that run and pods that come, GPUs and priorities, and which of the former never leave, on nodes of 4 GPUs."""
    low, high = (st.tuples(st.integers(1, 4), st.integers(*bounds)) for bounds in ((0, 3), (2, 6)))
    return st.fixed_dictionaries(
        {
            "low": st.lists(low, min_size=2, max_size=12),
            "gangs": st.lists(low, max_size=2),
            "high": st.lists(high, min_size=1, max_size=5),
            "gangs to come": st.lists(high, max_size=2),
            "hangs": st.lists(st.booleans(), min_size=40, max_size=40),
            "restarts": st.booleans(),
        }
    )


@examples(30)
@given(hung())
def test_however_many_hang_nobody_has_others_replaced_twice_and_it_comes_to_an_end(drawn):
    world = nodes(4, 4, 4, 4)
    for number, (gpus, priority) in enumerate(drawn["low"]):
        world.pod(f"low-{number}", gpus=gpus, priority=priority)
    for number, (gpus, priority) in enumerate(drawn["gangs"]):
        world.gang(f"old-{number}", 2, gpus=gpus, priority=priority)
    world.run()
    for number, (gpus, priority) in enumerate(drawn["high"]):
        world.pod(f"high-{number}", gpus=gpus, priority=priority)
    for number, (gpus, priority) in enumerate(drawn["gangs to come"]):
        world.gang(f"new-{number}", 2, gpus=gpus, priority=priority)
    hangs = dict(zip(sorted(name for _, name in world.pods), drawn["hangs"], strict=False))
    replaced_for: Counter[str] = Counter()
    for step in range(12):
        before = len(world.log)
        world.until(MARGIN / 2)
        replaced_for.update({one.message for one in world.log[before:] if _is_in_the_place_of_others(one)})
        gone = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp and not hangs[name]]
        world.delete(*gone)
        if drawn["restarts"] and step == 4:
            world.restart()
    assert max(replaced_for.values(), default=0) <= 1
    names = evicted(world)
    assert len(names) == len(set(names))  # nobody is asked twice
    world.until(3600.0)
    assert evicted(world) == names


def _is_in_the_place_of_others(decision: AnyDecision) -> bool:
    return isinstance(decision, Evict) and "in the place of" in decision.message
