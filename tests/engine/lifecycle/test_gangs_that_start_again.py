"""Which gangs that have lost members start again, when, and before whom."""

from __future__ import annotations

from tests.engine.admission.test_extenders import FILTER, tell
from tests.engine.lifecycle.degraded_gangs import WINDOW, evicted, running, successors
from tests.engine.world import World


def test_a_gang_that_starts_again_goes_before_others_of_its_priority_that_waited_longer():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n0", gpus=4)
    world.pod_group("rival", 4, queueName="queue")
    world.now += 10
    world.pod_group("g", 4, queueName="queue")
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    for rank in range(4):
        world.pod(f"rival-{rank}", group="rival")
    world.run()
    assert len(world.where("g")) == 4
    world.hold_evictions = True
    world.delete("g-0")
    world.until(WINDOW + 1)
    leaving = evicted(world)
    assert leaving == ["g-1", "g-2", "g-3"]
    for name in leaving:
        world.delete(name)
        world.run()
    assert not world.where("rival")
    successors(world, 0, 1, 2, 3)
    assert len(world.where("g")) == 4
    assert not world.where("rival")


def test_what_is_kept_for_a_gang_that_starts_again_is_free_when_it_had_its_turn_or_time():
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-1")
    world.until(WINDOW + 1)
    assert not world.where("g")
    assert "rival" not in world.where()
    world.until(WINDOW)
    assert "rival" in world.where()  # nobody has made its members again


def test_a_gang_bound_to_a_rack_that_has_lost_a_node_for_good_starts_again_elsewhere_at_once():
    world = World()
    for rack in ("a", "b"):
        for index in range(2):
            world.node(f"{rack}{index}", gpus=2, labels={"rack": rack})
    constraints = {"topology": [{"key": "rack", "mode": "Required"}]}
    world.pod_group("g", 4, schedulingConstraints=constraints)
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    (rack,) = {node[0] for node in world.where("g").values()}
    other = "b" if rack == "a" else "a"
    lost = [name for name, node in world.where("g").items() if node == f"{rack}1"]
    world.remove_node(f"{rack}1")
    world.delete(*lost)
    world.run()
    assert evicted(world) == []
    successors(world, 0, 1)
    assert len(evicted(world)) == 2  # the others
    successors(world, 2, 3)
    assert {node[0] for node in world.where("g").values()} == {other}
    assert len(world.where("g")) == 4


def pass_all(world: World) -> None:
    """The extender lets pass whatever it is asked about."""
    while world.asks:
        tell(world, *world.asks[0].nodes, ask=world.asks[0])


def in_a_rack_that_has_lost_a_node(**configuration) -> World:
    """A gang of four in one of two racks of two nodes, one of which is deleted, with the two members on it."""
    world = World(**configuration)
    for rack in ("a", "b"):
        for index in range(2):
            world.node(f"{rack}{index}", gpus=2, labels={"rack": rack})
    world.pod_group("g", 4, schedulingConstraints={"topology": [{"key": "rack", "mode": "Required"}]})
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    pass_all(world)
    node = max(world.where("g").values())
    lost = [name for name, where in world.where("g").items() if where == node]
    assert len(lost) == 2
    world.remove_node(node)
    world.delete(*lost)
    world.node(node + "-anew", gpus=2, labels={"rack": node[0]})
    world.run()
    return world


def test_successors_that_an_extender_is_asked_about_do_not_have_their_gang_start_again():
    world = in_a_rack_that_has_lost_a_node(extenders=[FILTER])
    successors(world, 0, 1)
    assert world.why("PodGroup", "g").reason == "WaitingForExtender"
    assert evicted(world) == []
    pass_all(world)
    assert len(world.where("g")) == 4
    assert evicted(world) == []


def test_successors_whose_volumes_are_missing_do_not_have_their_gang_start_again():
    """In no other rack would they find any."""
    world = in_a_rack_that_has_lost_a_node()
    for rank in (0, 1):
        world.pod(f"g-{rank}-again", group="g", claims=("missing",))
    world.run()
    assert world.why("PodGroup", "g").reason == "VolumesNotReady"
    assert evicted(world) == []
    world.until(WINDOW + 1)
    assert len(evicted(world)) == 2


def test_a_gang_whose_queue_has_become_too_small_does_not_wait_for_the_end_of_the_window():
    world = running()
    world.delete("g-1")
    world.run()
    world.queue("cq", 3, local="")
    world.pod("g-1-again", group="g")
    world.until(1)
    assert len(evicted(world)) == 3
    assert "can never have" in world.condition("PodGroup", "g", "Evicted")["message"]


def test_a_time_that_is_yet_to_come_makes_no_window_longer():
    world = running()
    world.delete("g-1")
    world.run()
    raw = world.objects["PodGroup", "default", "g"]
    conditions = [{**one, "lastTransitionTime": "2999-01-01T00:00:00Z"} for one in raw["status"]["conditions"]]
    world.objects["PodGroup", "default", "g"] = {**raw, "status": {**raw["status"], "conditions": conditions}}
    world.restart()
    world.until(WINDOW + 1)
    assert len(evicted(world)) == 3


def test_a_gang_is_not_taken_out_while_its_queue_could_not_admit_it_again():
    world = running()
    world.delete("g-1")
    world.run()
    world.queue("cq", 4, local="", stopPolicy="Hold")
    world.until(10 * WINDOW)
    assert evicted(world) == []
    world.queue("cq", 4, local="")
    world.until(1)
    assert len(evicted(world)) == 3
