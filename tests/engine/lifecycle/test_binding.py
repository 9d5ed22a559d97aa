"""Binds may fail, come late or never; a gang ends up bound whole or not at all."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.engine.world import World
from tutti.engine.ingest.specs import reads_the_same
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import BindAnswer, BindFinished, EvictFinished, PodSeen
from tutti.engine.records.workloads import Phase


def test_a_member_whose_bind_failed_is_placed_again():
    world = World()
    world.node("n1", gpus=2)
    world.node("n2", gpus=2)
    world.outcomes["g-1"] = ["Failed"]
    world.gang("g", 2)
    world.until(5.0)
    assert len(world.where()) == 2
    (event,) = world.events("BindFailed")
    assert "g-1" in event.note
    assert "the server said Failed" in event.note
    assert len(world.events("Scheduled")) == 1


@pytest.mark.parametrize("answer_first", [True, False])
def test_only_what_is_seen_of_a_bound_pod_has_its_workload_looked_at(answer_first):
    """That a bind took effect changes nothing by itself, before the pod is seen on its node as after."""
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    state, binds = world.engine.state, list(world.pending_binds)
    for bind in binds:
        world.land(bind, seen=not answer_first)
    world.run()
    for bind in binds:
        world.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer.BOUND, ""))
    assert not state.dirty
    for bind in binds:
        world.tell(PodSeen(world.pods[bind.namespace, bind.name]))
    world.run()
    assert state.workloads["PodGroup", "default", "g"].phase is Phase.SCHEDULED
    assert not any(member.pod.assumed for member in state.members.values())
    assert len(world.events("Scheduled")) == 1


def test_a_gang_of_which_only_binds_took_effect_is_not_read_again():
    """The same pods of the same objects ask for the same; what has come along with a bind is read."""
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    state, gang = world.engine.state, ("PodGroup", "default", "g")
    for bind in list(world.pending_binds):
        world.land(bind, seen=False)
    alike, other = world.pods["default", "g-0"], world.pods["default", "g-1"]
    world.tell(PodSeen(alike))
    assert state.dirty == {gang: True}
    assert reads_the_same(state, state.workloads[gang])
    world.tell(PodSeen(structs.replace(other, metadata=structs.replace(other.metadata, generation=7))))
    assert state.dirty == {gang: False}
    world.run()
    assert state.workloads[gang].phase is Phase.SCHEDULED


def test_many_binds_that_fail_together_are_one_failure():
    world = World()
    world.node("n1")
    world.outcomes = {f"g-{rank}": ["Failed"] for rank in range(8)}
    world.gang("g", 8)
    world.run()
    assert len(world.events("BindFailed")) == 1
    assert world.engine.wakeup() <= world.now + 1.25
    world.until(2.0)
    assert len(world.where()) == 8


def test_a_gang_none_of_whose_members_was_bound_waits_like_any_other():
    world = World()
    world.flavor()
    world.queue("cq", 2)
    world.node("n1")
    world.outcomes = {"g-0": ["Failed"], "g-1": ["Failed"]}
    world.gang("g", 2, queue="queue")
    world.run()
    assert world.used("cq") == 0
    assert world.reason("PodGroup", "g") == "BindFailed"
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "BindFailed"


def test_a_gang_that_cannot_be_completed_in_its_bind_window_is_taken_out():
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.remove_node(second.node)
    world.until(59.0)
    assert len(world.where()) == 1
    world.until(2.0)
    assert world.where() == {}
    (event,) = world.events("RolledBack")
    assert "1 required member could not be bound within 60 s" in event.note
    evicted = [d for d in world.log if isinstance(d, Evict)]
    assert [d.name for d in evicted] == [first.name]


def test_after_a_rollback_the_gang_starts_again_whole():
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = world.hold_evictions = True
    world.gang("g", 2)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.remove_node(second.node)
    world.until(61.0)
    world.node("n3", gpus=8)
    world.run()
    assert not world.pending_binds  # the evicted member still ends
    world.delete(first.name)
    world.hold_binds = False
    world.until(20.0)
    assert world.where() == {}  # one member is missing
    world.pod(first.name, group="g")
    world.until(20.0)
    assert set(world.where()) == {"g-0", "g-1"}


def test_binds_that_are_answered_after_the_window_still_complete_the_gang():
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    world.now += 120
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.run()
    assert len(world.where()) == 2
    assert world.events("Scheduled")
    assert not world.events("RolledBack")


def test_binds_that_are_out_when_the_window_ends_are_waited_for_without_haste():
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    world.answer(world.pending_binds[0])
    world.until(100.0)
    assert not world.events("RolledBack")
    assert world.engine.wakeup() is None
    world.answer(world.pending_binds[0], "Failed")
    world.until(100.0)
    assert world.where() == {}
    assert world.events("RolledBack")


def test_a_bind_that_was_answered_and_is_not_seen_yet_is_not_sent_again():
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.pod("p")
    world.run()
    world.answer(world.pending_binds[0], seen=False)
    world.until(30.0)
    assert not world.pending_binds
    world.put(world.pods["default", "p"])
    world.run()
    assert len(world.binds()) == 1
    assert world.events("Scheduled")


def test_a_pod_seen_on_its_node_before_the_answer_is_bound_whatever_the_answer():
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.pod("p")
    world.run()
    (bind,) = world.pending_binds
    world.land(bind)
    world.run()
    world.answer(bind, "BoundElsewhere")
    world.until(30.0)
    assert world.where() == {"p": "n1"}
    assert not world.events("BindFailed")
    assert len(world.binds()) == 1


def test_a_pod_that_another_scheduler_bound_is_counted_where_it_is():
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = True
    world.pod("p")
    world.run()
    (bind,) = world.pending_binds
    other = "n2" if bind.node == "n1" else "n1"
    world.bound_by_another("p", other)
    world.answer(bind, "BoundElsewhere")
    world.hold_binds = False
    world.pod("q")
    world.until(30.0)
    assert world.where() == {"p": other, "q": bind.node}


def test_a_node_that_vanishes_while_its_pods_are_on_their_way():
    world = World()
    world.node("n1", gpus=2)
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    world.remove_node("n1")
    world.node("n2", gpus=2)
    world.run()
    for bind in list(world.pending_binds):
        world.answer(bind, "Failed")
    world.hold_binds = False
    world.until(30.0)
    assert set(world.where().values()) == {"n2"}


def test_a_node_that_vanishes_under_a_running_pod():
    world = World()
    world.flavor()
    world.queue("cq", 1)
    world.node("n1", gpus=1)
    world.pod("p", queue="queue")
    world.run()
    world.remove_node("n1")
    world.run()
    assert world.used("cq") == 1  # until the pod is gone
    world.delete("p")
    world.run()
    assert world.used("cq") == 0
    world.node("n1", gpus=1)
    world.pod("q", queue="queue")
    world.run()
    assert world.where() == {"q": "n1"}


def test_a_pod_deleted_while_its_bind_is_out_gives_room_and_quota_back():
    world = World()
    world.flavor()
    world.queue("cq", 1)
    world.node("n1", gpus=1)
    world.hold_binds = True
    world.pod("p", queue="queue")
    world.run()
    (bind,) = world.pending_binds
    world.delete("p")
    world.pod("q", queue="queue")
    world.run()
    world.answer(bind)
    assert [b.name for b in world.pending_binds] == ["q"]
    assert world.used("cq") == 1


def test_a_pod_deleted_while_bound_gives_room_and_quota_back():
    world = World()
    world.flavor()
    world.queue("cq", 1)
    world.node("n1", gpus=1)
    world.pod("p", queue="queue")
    world.pod("q", queue="queue")
    world.run()
    assert set(world.where()) == {"p"}
    world.begin_deleting("p")
    world.run()
    assert set(world.where()) == {"p"}  # it holds its room until it is gone
    world.delete("p")
    world.run()
    assert set(world.where()) == {"q"}


def test_an_eviction_that_was_refused_is_asked_for_again():
    world = World()
    world.node("n1", gpus=1)
    world.hold_binds = world.hold_evictions = True
    world.gang("g", 2)
    world.node("n2", gpus=1)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.remove_node(second.node)
    world.until(61.0)
    (evict,) = [d for d in world.log if isinstance(d, Evict)]
    world.keep(evict.name)
    world.tell(EvictFinished("default", evict.name, evict.uid, done=False, message="a disruption budget"))
    world.until(30)
    assert len([d for d in world.log if isinstance(d, Evict)]) == 2


def test_a_gang_one_of_whose_members_fails_before_the_last_is_bound_is_not_taken_out():
    """The last of a thousand binds may land seconds after the first pod has crashed."""
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 3)
    world.run()
    first, second, third = world.pending_binds
    world.answer(first)
    world.answer(second)
    world.finish(first.name, phase="Failed")
    world.run()
    world.answer(third)
    world.until(200.0)
    assert not [d for d in world.log if isinstance(d, Evict)]
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"
    assert len(world.events("Scheduled")) == 1


def test_members_that_failed_in_an_earlier_run_complete_no_gang():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.run()
    world.finish("g-0", "g-1", phase="Failed")
    world.run()
    world.hold_binds = True
    world.pod("g-2", group="g")
    world.pod("g-3", group="g")
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.pod("another", node="n1", scheduler="default-scheduler")
    world.until(61.0)
    assert {d.name for d in world.log if isinstance(d, Evict)} == {first.name}


@pytest.mark.parametrize(
    ("answer", "same_node", "room", "told"),
    [
        # What the server said of g-1: whether it is sent to the same node, whether its room is taken meanwhile, and
        # whether it is told to people.
        ("Failed", False, 0, True),  # refused, or a server error after all tries
        ("BoundElsewhere", False, 0, True),  # another scheduler was faster
        ("Gone", False, 0, True),  # deleted
        ("Gated", False, 0, True),  # a gate was added
        ("Unknown", True, 1, False),  # nobody knows: the same bind is sent again, and its room stays taken
    ],
)
def test_what_becomes_of_a_member_by_what_the_server_said_of_its_bind(answer, same_node, room, told):
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    first, second = sorted(world.pending_binds, key=lambda bind: bind.name)
    world.answer(first)
    world.node("n3", gpus=1)
    world.answer(second, answer)
    world.run()
    assert len(world.events("BindFailed")) == told
    cluster = world.engine.state.cluster
    row, column = cluster.nodes.rows[second.node], cluster.nodes.resource_index.column("nvidia.com/gpu")
    assert cluster.nodes.requested[row, column] == room
    if answer == "Gone":
        world.delete("g-1")
        world.pod("g-1", group="g")
    elif answer == "Gated":
        world.ungate("g-1")  # seen again as it is
    elif answer == "BoundElsewhere":
        world.bound_by_another("g-1", "n3")
        world.until(5)
        assert world.pending_binds == []
        assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"
        return
    world.remove_node("n3" if same_node else second.node)
    world.until(5)
    (again,) = world.pending_binds
    assert again.node == (second.node if same_node else "n3")
    world.answer(again)
    world.run()
    assert world.where() == {"g-0": first.node, "g-1": again.node}  # nobody else was moved


def half_bound(**spec) -> World:
    """A gang of two on two nodes of which one is lost before its member was bound."""
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = True
    world.pod_group("g", 2, **spec)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.remove_node(second.node)
    return world


@pytest.mark.parametrize("spec", [{}, {"onBindFailure": "Rollback"}])
def test_a_gang_that_cannot_be_completed_is_taken_out_unless_it_says_otherwise(spec):
    world = half_bound(**spec)
    world.until(61)
    assert world.where() == {}
    assert len(world.events("RolledBack")) == 1


def test_a_gang_that_wants_to_be_tried_on_keeps_its_bound_members():
    world = half_bound(onBindFailure="Retry")
    world.until(130)
    assert len(world.where()) == 1
    assert not [d for d in world.log if isinstance(d, Evict)]
    assert not world.events("RolledBack")
    world.until(1000)
    (told,) = world.events("BindWindowOver")  # once, however many windows pass
    assert "the 1 bound member stays, and the others are tried on" in told.note
    world.hold_binds = False
    world.node("n3", gpus=1)
    world.run()
    assert len(world.where()) == 2
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"


def test_the_policy_of_a_workload_counts_for_its_pod_groups():
    world = World()
    world.node("n1", gpus=1)
    world.node("n2", gpus=1)
    world.hold_binds = True
    world.workload("w", {"name": "main", "count": 2}, onBindFailure="Retry")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.remove_node(second.node)
    world.until(130)
    assert len(world.where()) == 1


def test_a_member_whose_node_is_gone_before_it_is_bound_goes_elsewhere_and_its_gang_is_whole():
    world = World()
    for node in ("n1", "n2"):
        world.node(node, gpus=1)
    world.flavor()
    world.queue("cq", 2)
    world.hold_binds = True
    world.workload("w", {"count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.remove_node(second.node)
    world.pending_binds.remove(second)
    world.tell(BindFinished("default", second.name, second.uid, second.node, BindAnswer.FAILED, "the node is gone"))
    world.run()
    (event,) = world.events("BindFailed")
    assert event.note == f"pod {second.name} was not bound to {second.node}: the node is gone"

    world.node("n3", gpus=1)
    world.hold_binds = False
    world.until(5.0)
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.run()

    assert world.where() == {first.name: first.node, second.name: "n3"}
    assert world.used("cq") == 2
    assert not [decision for decision in world.log if isinstance(decision, Evict)]
