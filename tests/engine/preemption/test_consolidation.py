"""Running work is moved so that a gang fits that lacks nothing but room in one piece; everybody has a node then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World, replaced
from tutti.api.core import ObjectMeta, OwnerReference
from tutti.api.limits import DisruptionBudgetSpec, DisruptionBudgetStatus, PodDisruptionBudget
from tutti.api.selectors import LabelSelector
from tutti.engine.preemption.consolidation import SEARCH_SECONDS
from tutti.engine.preemption.moves import WAITING_FOR_MOVES
from tutti.engine.records.decisions import Evict
from tutti.engine.records.explanation import LifecycleStep
from tutti.engine.records.moves import AGAIN_SECONDS
from tutti.engine.records.observations import BudgetGone, BudgetSeen

JOB = OwnerReference("batch/v1", "Job", "job", "", controller=True)
MOVABLE = "scheduling.tutti.dev/movable"
YES, NO = {MOVABLE: "true"}, {MOVABLE: "false"}
WINDOW = 300


def owner(name: str, *, controller: bool = True) -> OwnerReference:
    return replaced(JOB, uid=f"job-of-{name}", controller=controller)


def two_nodes(*, moves: int | None = 4, **queue: Any) -> World:
    """Two nodes of 8 GPUs, and a queue whose workloads may have others moved."""
    world = World()
    world.flavor()
    spec = {"consolidation": {"maxMoves": moves}} if moves else {}
    world.queue("cq", 64, **{**spec, **queue})
    world.node("a")
    world.node("b")
    return world


def settle(world: World, name: str, node: str, **pod: Any) -> None:
    """A pod of a Job that gets its place on a node while the others take none."""
    world.pod(name, **{"gpus": 4, "queue": "queue", "owner": owner(name), **pod})
    let_in(world, node)


def let_in(world: World, node: str) -> None:
    """Decide while only one node takes pods."""
    for other in list(world.nodes):
        world.node(other, gpus=world.nodes[other].status.allocatable["nvidia.com/gpu"], cordoned=other != node)
    world.run()
    for other in list(world.nodes):
        world.node(other, gpus=world.nodes[other].status.allocatable["nvidia.com/gpu"])


def scattered(*, pod: dict[str, Any] | None = None, **queue: Any) -> World:
    """Half of each node is in use, by a pod on each."""
    world = two_nodes(**queue)
    said = {"annotations": YES} if pod is None else pod
    settle(world, "on-a", "a", **said)
    settle(world, "on-b", "b", **said)
    assert world.where() == {"on-a": "a", "on-b": "b"}
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def again(world: World, name: str, **pod: Any) -> None:
    """The controller makes a pod in the place of one that is gone."""
    world.pod(f"{name}-again", **{"gpus": 4, "queue": "queue", "owner": owner(name), "annotations": YES, **pod})


def big(world: World, **pod: Any) -> None:
    """A gang of one pod that wants a whole node."""
    world.gang("big", 1, gpus=8, queue="queue", **pod)
    world.run()


def test_a_pod_is_moved_so_that_a_gang_that_needs_a_whole_node_fits():
    world = scattered()
    big(world)
    (gone,) = evicted(world)
    assert all(one.within_budgets for one in world.log if isinstance(one, Evict))
    again(world, gone)
    world.run()
    was, other = gone[-1], {"a": "b", "b": "a"}[gone[-1]]
    assert world.where() == {"big-0": was, f"on-{other}": other, f"{gone}-again": other}
    (told,) = world.status("ClusterQueue", "cq")["moves"]
    assert (told["kind"], told["name"], told["movedFor"]) == ("Owner", f"job-of-{gone}", "PodGroup/default/big")
    assert "pods" not in told
    assert world.used("cq") == 16
    assert not world.engine.state.moves.plans
    assert world.replay().differences == []


def test_nobody_leaves_before_the_moves_are_written_down():
    world = scattered()
    world.gang("big", 1, gpus=8, queue="queue")
    decided = world.decide()
    assert not any(isinstance(one, Evict) for one in decided)
    why = world.why("PodGroup", "big")
    assert why is not None
    assert why.reason == WAITING_FOR_MOVES
    assert "moves from" in why.message
    (move,) = world.status("ClusterQueue", "cq")["moves"]
    assert [one["name"] for one in move["pods"]] == ["on-a"] or [one["name"] for one in move["pods"]] == ["on-b"]
    assert any(isinstance(one, Evict) for one in world.decide())


def test_what_is_not_written_down_in_time_costs_nobody_anything():
    world = scattered()
    world.gang("big", 1, gpus=8, queue="queue")
    cq = world.objects["ClusterQueue", "", "cq"]
    world.decide()
    assert world.engine.state.moves.plans
    world.objects["ClusterQueue", "", "cq"] = cq
    world.engine.state.moves.heard.clear()  # the write was lost
    world.until(WINDOW + 1.0)
    first = world.engine.state.moves.plans.get("cq")
    assert evicted(world) == [] or first is not None
    assert world.where("on-") != {}


@pytest.mark.parametrize(
    ("pod", "moved"),
    [
        ({"annotations": YES}, True),
        ({}, False),
        ({"annotations": NO}, False),
        ({"annotations": {MOVABLE: "yes"}}, False),
        ({"annotations": {**YES, "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, False),
        ({"annotations": YES, "owner": None}, True),
        ({"annotations": YES, "priority": 1}, False),
        ({"annotations": YES, "queue": ""}, True),
        ({"annotations": YES, "scheduler": "tutti"}, True),
    ],
    ids=["opted in", "says nothing", "says no", "says what is nothing", "not safe to evict", "bare but opted in",
         "more important", "without a queue", "ours"],
)  # fmt: skip
def test_only_who_lets_itself_be_moved_is(pod, moved):
    world = scattered(pod=pod)
    big(world)
    assert bool(evicted(world)) is moved
    if not moved:
        assert world.reason("PodGroup", "big") == "Unschedulable"


@pytest.mark.parametrize(("controlled", "moved"), [(True, True), (False, False)])
def test_a_queue_may_let_all_be_moved_that_would_come_back(controlled, moved):
    said = {"owner": owner("it", controller=controlled)}
    world = scattered(pod=said, consolidation={"maxMoves": 1, "movable": True})
    big(world)
    assert bool(evicted(world)) is moved


def test_where_the_queue_does_not_say_so_nobody_is_moved_for_its_workloads():
    world = scattered(moves=None)
    big(world)
    assert evicted(world) == []


def test_a_tenant_cannot_have_work_moved_that_has_not_opted_in_whatever_his_queue_says():
    world = two_nodes(moves=64)
    world.queue("theirs", 64, local="theirs")
    for node in "ab":
        settle(world, f"on-{node}", node, queue="theirs")
    big(world)
    assert evicted(world) == []


def test_no_more_pods_are_moved_than_the_queue_allows():
    world = two_nodes(moves=1)
    for node in ("a", "b"):
        for number in range(2):
            settle(world, f"on-{node}{number}", node, gpus=2, annotations=YES)
    big(world)
    assert evicted(world) == []
    world.object(
        "ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "consolidation": {"maxMoves": 2}}
    )
    world.until(SEARCH_SECONDS + 1)
    assert len(evicted(world)) == 2


def test_nobody_is_moved_where_not_everybody_would_have_a_node():
    world = two_nodes()
    settle(world, "on-a", "a", gpus=5, annotations=YES)
    settle(world, "on-b", "b", gpus=5, annotations=YES)
    world.gang("wide", 1, gpus=6, queue="queue")
    world.run()
    assert evicted(world) == []
    assert world.reason("PodGroup", "wide") == "Unschedulable"


def test_a_disruption_budget_without_room_keeps_its_pods_where_they_are():
    world = scattered(pod={"annotations": YES, "labels": {"app": "web"}})
    budget(world, allowed=0)
    big(world)
    assert evicted(world) == []
    budget(world, allowed=1)
    world.node("c", gpus=1)
    world.until(SEARCH_SECONDS + 1)
    assert len(evicted(world)) == 1


@pytest.mark.parametrize("gone", [False, True], ids=["raised", "deleted"])
def test_a_disruption_budget_that_lets_more_go_is_enough_to_have_them_moved(gone):
    world = scattered(pod={"annotations": YES, "labels": {"app": "web"}})
    budget(world, allowed=0)
    big(world)
    world.until(2 * SEARCH_SECONDS)
    assert evicted(world) == []
    if gone:
        world.tell(BudgetGone("default", "web"))
    else:
        budget(world, allowed=1)
    world.until(SEARCH_SECONDS + 1)
    assert len(evicted(world)) == 1
    assert world.replay().differences == []


def test_a_disruption_budget_wakes_nobody_whose_queue_moves_nobody():
    world = scattered(pod={"annotations": YES, "labels": {"app": "web"}}, moves=None)
    budget(world, allowed=0)
    big(world)
    tried = world.engine.evaluated
    budget(world, allowed=1)
    world.run()
    assert world.engine.evaluated == tried


def budget(world: World, *, allowed: int) -> None:
    meta, spec = ObjectMeta(name="web", namespace="default"), DisruptionBudgetSpec(LabelSelector({"app": "web"}))
    world.tell(BudgetSeen(PodDisruptionBudget(meta, spec, DisruptionBudgetStatus(allowed))))


def test_members_that_their_gang_can_do_without_are_moved_first():
    world = two_nodes()
    world.pod_group("elastic", 1, queueName="queue")
    for rank, node in enumerate("ab"):
        world.pod(f"elastic-{rank}", group="elastic", gpus=4, owner=owner("elastic"))
        let_in(world, node)
        world.start(f"elastic-{rank}")
        world.now += 10
    settled = world.where()
    big(world)
    assert len(settled) == 2
    assert evicted(world) == ["elastic-1"]
    assert "elastic-0" in world.where()
    world.pod("elastic-2", group="elastic", gpus=4, owner=owner("elastic"))
    world.run()
    assert world.where()["elastic-2"] == settled["elastic-0"]
    assert world.where()["big-0"] == settled["elastic-1"]


def gang_of_two(world: World, *, annotations: dict[str, str] | None = None) -> None:
    world.pod_group("two", 2, queueName="queue")
    for rank in range(2):
        world.pod(f"two-{rank}", group="two", gpus=4, owner=owner("two"), annotations=annotations or {})
    world.node("a", gpus=4)
    world.node("b", gpus=4)
    world.run()
    world.node("a")
    world.node("b")
    world.node("c", gpus=4)
    assert set(world.where("two").values()) == {"a", "b"}


def test_a_gang_is_moved_whole_and_its_place_is_kept_until_its_successors_are_bound():
    world = two_nodes()
    gang_of_two(world, annotations=YES)
    big(world)
    assert sorted(evicted(world)) == ["two-0", "two-1"]
    assert world.used("cq") == 16  # that of the successors is kept
    for thief in ("first", "second"):
        world.pod(f"thief-{thief}", gpus=4, queue="queue")
        world.run()
    assert len(world.where("thief")) == 1  # of 12 GPUs beside the gang 8 are kept
    for rank in (2, 3):
        world.pod(f"two-{rank}", group="two", gpus=4, owner=owner("two"), annotations=YES)
        world.run()
    where = world.where()
    assert len({where["two-2"], where["two-3"]} - {where["big-0"]}) == 2
    assert "it is moved so that PodGroup/default/big fits" in world.condition("PodGroup", "two", "Evicted")["message"]
    assert world.used("cq") == 20  # with the one that has taken what was nobody's


def test_an_object_of_a_gang_may_opt_in_for_it():
    world = two_nodes()
    gang_of_two(world)
    raw = world.objects["PodGroup", "default", "two"]
    world.put_object("PodGroup", {**raw, "metadata": {**raw["metadata"], "annotations": YES}})
    big(world)
    assert sorted(evicted(world)) == ["two-0", "two-1"]


def test_what_was_moved_is_not_moved_again_within_an_hour():
    world = scattered()
    big(world)
    (gone,) = evicted(world)
    again(world, gone)
    world.run()
    world.finish("big-0")
    world.run()
    world.delete("big-0")
    world.remove_object("PodGroup", "big")
    other = {"on-a": "on-b", "on-b": "on-a"}[gone]
    world.delete(other)
    node = world.where()[f"{gone}-again"]
    settle(world, "third", {"a": "b", "b": "a"}[node], annotations=NO)
    world.gang("next", 1, gpus=8, queue="queue")
    world.run()
    assert evicted(world) == [gone]
    world.restart()
    world.until(AGAIN_SECONDS - 60)
    assert evicted(world) == [gone]
    world.until(120 + SEARCH_SECONDS)
    assert evicted(world) == [gone, f"{gone}-again"]


def test_a_move_that_is_refused_in_the_end_is_given_up_and_who_runs_runs_on():
    world = scattered()
    world.refuse_evictions = True
    big(world)
    asked = len(evicted(world))
    assert asked >= 1
    world.until(WINDOW + SEARCH_SECONDS)
    assert set(world.where("on-")) == {"on-a", "on-b"}
    assert world.used("cq") >= 8


def test_a_place_is_given_back_when_no_successor_comes():
    world = scattered()
    big(world)
    (gone,) = evicted(world)
    world.run()
    assert "big-0" in world.where()
    assert world.used("cq") == 16
    world.until(2 * WINDOW + 1)
    assert world.used("cq") == 12
    world.pod("other", gpus=4, queue="queue")
    world.run()
    assert world.where()["other"] == {"a": "b", "b": "a"}[gone[-1]]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_an_operator_that_is_killed_comes_to_the_same_end(backwards, turns):
    world = two_nodes()
    for number in range(2):
        for node in ("a", "b"):
            settle(world, f"on-{node}{number}", node, gpus=2, annotations=YES)
    world.gang("big", 1, gpus=8, queue="queue")
    world.hold_evictions = True
    for _ in range(turns):
        world.decide()
    leaving = [key[1] for key, pod in world.pods.items() if pod.metadata.deletion_timestamp is not None]
    for name in leaving[:1]:
        world.delete(name)
        again(world, name, gpus=2)
    if turns > 1:
        assert len(leaving) == 2
        world.keep(leaving[1])  # killed before it was asked to
    world.restart(backwards=backwards)
    world.hold_evictions = False
    world.run()
    for name in evicted(world):
        if f"{name}-again" not in {key[1] for key in world.pods}:
            again(world, name, gpus=2)
    world.run()
    where = world.where()
    assert len(where) == 5, where
    assert where["big-0"] not in {node for name, node in where.items() if name != "big-0"}


def test_who_is_moved_takes_nobody_out_and_has_nobody_moved():
    world = scattered(preemption={"withinClusterQueue": "LowerPriority"})
    settle(world, "low", "b", gpus=4, annotations=NO, priority=-1)
    big(world)
    assert len(evicted(world)) <= 1


@pytest.mark.parametrize(
    ("queue", "moved"),
    [({}, True), ({"queueingStrategy": "StrictFIFO"}, False), ({"preemption": {"minimumRuntimeSeconds": 60}}, False)],
    ids=["as it is", "strict", "protected for a while"],
)
def test_who_might_not_be_admitted_again_at_once_stays(queue, moved):
    world = two_nodes()
    world.queue("theirs", 64, local="theirs", **queue)
    for node in "ab":
        settle(world, f"on-{node}", node, queue="theirs", annotations=YES)
    big(world)
    assert bool(evicted(world)) is moved


def test_who_was_seen_on_its_node_after_the_answer_to_its_bind_is_moved_as_well():
    world = two_nodes()
    world.hold_binds = True
    for node in "ab":
        settle(world, f"on-{node}", node, annotations=YES)
        (bind,) = world.pending_binds
        world.answer(bind, seen=False)
        world.put(world.pods["default", f"on-{node}"])
        world.run()
    world.hold_binds = False
    big(world)
    assert len(evicted(world)) == 1


def test_moves_are_counted_and_told():
    world = scattered()
    world.gang("big", 1, gpus=8, queue="queue")
    world.decide()
    steps = [one for one in world.engine.lifecycle_events if one.step is LifecycleStep.HAS_MOVED]
    assert [(one.workload[2], one.queue, one.pods) for one in steps] == [("big", "cq", 1)]
    world.run()
    assert [one.name for one in world.events("Moved")] == evicted(world)


def test_gangs_of_one_queue_that_wait_in_vain_keep_nobody_else_from_being_looked_for():
    """Searches are bounded per turn: those of one queue leave others their part, however many wait there."""
    world = World()
    world.flavor()
    spec = {"consolidation": {"maxMoves": 4}}
    world.node("a")
    world.node("b")
    world.queue("crowded", 640, local="crowded", **spec)
    world.queue("good", 64, local="queue", **spec)
    settle(world, "on-a", "a", annotations=YES)
    settle(world, "on-b", "b", annotations=YES)
    for name in "cde":
        apart = {"x": "y", "kubernetes.io/hostname": name}
        world.node(name, labels=apart)
        world.pod(f"crowd-{name}", gpus=4, queue="crowded", selector=apart, annotations=NO)
    world.run()
    for number in range(40):  # none of them can ever have 5 of the 4 that are left on each node
        world.gang(f"vain{number}", 1, gpus=5, queue="crowded", cpu=f"{100 + number}m", selector={"x": "y"})
    world.now += 1
    world.gang("good", 1, gpus=8, queue="queue")
    for number in range(6):
        world.now += 1
        world.pod(f"tick{number}", gpus=0, cpu="100m")
        world.run()
        world.delete(f"tick{number}")
        world.run()

    assert world.where("good") in ({"good-0": "a"}, {"good-0": "b"})


def test_what_others_victims_still_use_is_not_taken_from_where_somebody_is_moved():
    """A third one would fit beside both once those victims are gone; until then the moved one has no other place."""
    world = two_nodes()
    settle(world, "on-a", "a", gpus=2, annotations=YES)
    settle(world, "low", "b", gpus=6, annotations=NO, priority=-10)
    world.hold_evictions = True
    big(world)
    assert evicted(world) == ["on-a"]
    world.gang("next", 1, gpus=4, queue="queue")
    world.run()
    assert evicted(world) == ["on-a", "low"]

    world.now += 1
    world.pod("third", gpus=2, queue="queue", preempts=False)
    world.run()

    assert world.where("third") == {}
