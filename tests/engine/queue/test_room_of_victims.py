"""Who is tried where others might be taken out for him: who is above them, in the flavors that he has quota of."""

from __future__ import annotations

from tests.engine.preemption.hung_pods import MARGIN, nodes
from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, full, tried
from tests.engine.world import World
from tutti.engine.records.decisions import Evict


def test_who_may_preempt_in_his_queue_is_not_tried_where_nobody_there_is_below_him():
    world = full()
    world.queue("cq", 100, **LOWER)
    for number in range(3):
        world.delete(f"runs-{number}")
        world.pod(f"mine-{number}", gpus=8, node=f"n{number}", queue="queue")
    world.pod("small", gpus=4, queue="queue")
    world.node("n3", gpus=2)
    world.pod("on-n3", gpus=2, node="n3", queue="queue")
    world.run()
    world.finish("on-n3")
    assert tried(world) == 0, "4 do not fit in 2"
    world.finish("mine-1")
    world.run()
    assert world.where("small") == {"small": "n1"}


def test_who_is_above_others_is_not_tried_where_they_and_what_ended_are_too_small():
    world = full()
    world.node("n3", gpus=4)
    world.pod("low", gpus=1, node="n3", priority=-5)
    world.pod("ends", gpus=2, node="n3")
    world.pod("same", gpus=1, node="n3")
    for gpus in range(4, 9):
        world.pod(f"waits-{gpus}", gpus=gpus)
    world.run()
    world.finish("ends")
    assert tried(world) == 0, "3 may come free, and the least of them asks for 4"
    world.finish("same")
    world.run()
    assert [one.name for one in world.log if isinstance(one, Evict)] == ["low"]


def test_who_may_take_out_others_in_another_flavor_is_tried_when_there_is_quota_of_it():
    world = World()
    world.flavor("old", nodeLabels={"model": "old"})
    world.flavor("new", nodeLabels={"model": "new"})
    world.node("o", gpus=4, labels={"model": "old"})
    world.node("small", gpus=2, labels={"model": "old"})
    world.node("n", gpus=4, labels={"model": "new"})
    world.queue("cq", 5, flavors=("new", "old"))
    world.pod("foreign", gpus=4, node="n", scheduler="default-scheduler")
    world.pod("low", gpus=4, node="o", priority=-5)
    world.pod("ends", gpus=2, queue="queue", selector={"model": "old"})
    world.run()
    world.pod("waits", gpus=4, queue="queue")  # 5 of quota are left of new, 3 of old
    world.run()
    assert not [one for one in world.log if isinstance(one, Evict)]

    world.finish("ends")
    world.run()

    assert [one.name for one in world.log if isinstance(one, Evict)] == ["low"]


LOW = {"scheduling.tutti.dev/priority-class": "low"}


def mixed_gang() -> World:
    """A gang that is less important than one that waits, of which an important member spares the other."""
    world = World()
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "low", "uid": "u"}, "value": -5})
    for name, gpus in (("n", 8), ("m", 2), ("k", 1)):
        world.node(name, gpus=gpus)
    world.pod("elsewhere", gpus=1, node="k")
    return world


def evicted(world: World) -> list[str]:
    return sorted(one.name for one in world.log if isinstance(one, Evict))


def nobody_more_goes(world: World) -> bool:
    """Whether looking at everybody anew, which any change of a flavor does, has nobody else taken out."""
    told = evicted(world)
    world.flavor("unheard-of")
    world.run()
    return told == evicted(world)


def test_the_rest_of_a_gang_may_go_once_its_important_member_has_ended():
    world = mixed_gang()
    world.pod_group("g", 2)
    world.pod("g-0", group="g", gpus=8, priority=-5, labels=LOW)
    world.pod("g-1", group="g", gpus=2, priority=5, labels=LOW)
    world.run()
    world.pod("waits", gpus=8)
    world.run()
    assert evicted(world) == []
    world.finish("g-1")
    world.run()
    assert evicted(world) == ["g-0"]


def test_a_member_may_go_that_its_gang_has_come_to_do_without():
    world = mixed_gang()
    world.pod_group("g", 2)
    world.pod("g-1", group="g", gpus=1, priority=5, labels=LOW)
    world.pod("g-2", group="g", gpus=8, priority=-5, labels=LOW)
    world.run()
    world.pod("waits", gpus=8)
    world.run()
    assert evicted(world) == []
    world.pod("g-0", group="g", gpus=1, priority=5, labels=LOW)
    world.run()
    world.finish("elsewhere")
    world.run()
    assert nobody_more_goes(world)


def test_members_that_may_go_one_by_one_once_they_run_do():
    world = mixed_gang()
    world.pod_group("g", 2, disruptionMode="Pod")
    world.pod("g-0", group="g", gpus=8, priority=-5, labels=LOW)
    world.pod("g-1", group="g", gpus=2, priority=5, labels=LOW)
    world.hold_binds = True
    world.run()
    world.pod("waits", gpus=8)
    world.run()
    assert evicted(world) == []
    world.hold_binds = False
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.run()
    world.finish("elsewhere")
    world.run()
    assert nobody_more_goes(world)


def test_one_who_has_waited_for_longer_is_tried_in_the_place_of_his_like():
    """Of two equal ones the older one came last into the line; among those that run are some newer than he is."""
    world = World()
    world.flavor()
    world.queue("cq", 100, **BOTH)
    world.node("n0")
    world.pod("old", gpus=8, queue="queue")
    world.run()
    world.now += 60
    world.finish("old")
    world.pod("newer", gpus=3, queue="queue")
    world.pod("also-newer", gpus=3, queue="queue")
    world.pod("ends", gpus=2, queue="queue")
    world.run()
    world.now += 60
    world.pod("young", gpus=5, queue="queue")
    world.run()
    now, world.now = world.now, world.now - 120
    world.pod("older", gpus=5, queue="queue")
    world.now = now
    world.run()
    evicted = [one.name for one in world.log if isinstance(one, Evict)]

    world.finish("ends")
    world.run()

    assert not evicted
    assert len([one for one in world.log if isinstance(one, Evict)]) == 1


def test_who_came_to_be_below_one_that_waits_is_taken_out_for_him():
    """Nobody was below him when he was tried; what has ended since is too small for him, but not with what is below."""
    world = World()
    world.flavor()
    world.queue("cq", 100, **LOWER)
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "low", "uid": "u"}, "value": -5})
    world.node("n0")
    world.pod("stays", gpus=5, node="n0", queue="queue")
    world.pod("ends", gpus=2, node="n0", queue="queue")
    world.pod("waits", gpus=3, queue="queue")
    world.run()
    world.pod("below", gpus=1, queue="queue", labels={"scheduling.tutti.dev/priority-class": "low"})
    world.run()
    assert world.where("below") == {"below": "n0"}

    world.finish("ends")
    world.run()

    assert [one.name for one in world.log if isinstance(one, Evict)] == ["below"]


def test_who_came_to_borrow_is_taken_out_for_one_that_waits():
    """Nobody borrowed when the owner was tried; what has ended since is too small for him."""
    world = World()
    world.flavor()
    world.queue("owner", 16, cohort="all", local="owner", **RECLAIM)
    world.queue("other", 2, cohort="all", local="other")
    world.node("n0")
    world.pod("stays", gpus=1, node="n0", queue="owner")
    world.pod("ends", gpus=1, node="n0", queue="owner")
    world.pod("theirs", gpus=2, queue="other")
    world.pod("waits", gpus=5, queue="owner")
    world.run()
    world.now += 60
    world.pod("borrows", gpus=2, queue="other")
    world.run()
    assert world.where("borrows") == {"borrows": "n0"}

    world.finish("ends")
    world.run()

    assert [one.name for one in world.log if isinstance(one, Evict)] == ["borrows"]


def test_room_that_was_held_for_whom_others_leave_is_told_of_when_he_starts_elsewhere():
    world = World()
    for name, gpus in (("a", 8), ("b", 12), ("c", 6)):
        world.node(name, gpus=gpus)
    for name in ("a", "c"):  # so that these are the last to be chosen
        world.pod(f"busy-{name}", gpus=0, cpu="60", memory="400Gi", node=name, priority=9)
    world.pod("low", gpus=6, node="c", priority=-5)
    world.pod("ends", gpus=12, node="b", priority=9)
    world.run()
    world.hold_evictions = True
    world.pod_group("large", 2)
    for rank in range(2):
        world.pod(f"large-{rank}", gpus=6, group="large", priority=5)
    world.run()
    assert world.reason("PodGroup", "large") == "WaitingForVictims"
    world.pod("waits", gpus=8)
    world.run()
    assert world.where("waits") == {}, "what is free is held"
    world.finish("ends")
    world.delete("low")
    world.run()
    assert set(world.where("large").values()) == {"b"}
    assert world.where("waits") == {"waits": "a"}


def test_room_that_was_held_for_whom_others_leave_is_told_of_when_they_leave_elsewhere():
    world = nodes(8, 8, 1)
    world.pod("low", gpus=4, node="n0", priority=-5)
    world.pod("runs", gpus=8, node="n1", priority=1)
    world.pod("ends", gpus=1, node="n2", priority=9)
    world.run()
    world.pod("high", gpus=8, priority=5)
    world.pod("waits", gpus=4)
    world.run()
    world.finish("ends")
    world.run()
    assert world.where("waits") == {}, "what is free is held"
    world.until(MARGIN)
    assert [one.name for one in world.log if isinstance(one, Evict)] == ["low", "runs"]
    assert world.where("waits") == {"waits": "n0"}
