"""Plugins of users in the engine: asked once per class, kept, and never able to stop it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.decision_writers import merged
from tests.engine.world import GPU, START, World
from tutti.engine.records.decisions import NotePluginFault
from tutti.engine.records.plugins import Enabled
from tutti.plugins import Go, Refuse, Wait


class Keeps:
    """Rules out nodes by a label, and counts how often it is asked."""

    def __init__(self, answer=None):
        self.calls = 0
        self.answer = answer

    def filter(self, pods, nodes, now):
        self.calls += 1
        if self.answer is not None:
            return self.answer(pods, nodes, now)
        return {"node(s) kept free": nodes.marked("free", lambda value: value == "yes")}


class Prefers:
    def __init__(self, answer=None):
        self.calls = 0
        self.answer = answer or (lambda nodes: nodes.numbers("points", int, 0).astype(np.int64))

    def score(self, pods, nodes, now):
        self.calls += 1
        return self.answer(nodes)


class Deadlines:
    annotations = ("example.com/deadline",)

    def sort(self, workload):
        return float(workload.annotations.get("example.com/deadline", "inf"))


class Gatekeeper:
    """Answers by a rule."""

    def __init__(self, rule):
        self.rule = rule
        self.asked = []

    def permit(self, reservation, rooms, now):
        taken = int(rooms.taken(GPU).sum())
        self.asked.append((reservation.workload.name, len(reservation.placed[0].rows), taken, reservation.held_seconds))
        return self.rule(reservation, rooms, now)


def budget(most, **wait):
    """Let go what leaves no more than so many devices taken."""
    return lambda reservation, rooms, now: Go() if rooms.taken(GPU).sum() <= most else Wait("over budget", **wait)


def hosting(*plugins, **configuration) -> World:
    enabled = [one if isinstance(one, Enabled) else Enabled(type(one).__name__.lower(), one) for one in plugins]
    return World(plugins={"tutti": enabled}, **configuration)


def faults(world: World) -> list[tuple[str, str]]:
    return [(one.plugin, one.point) for one in world.log if isinstance(one, NotePluginFault)]


def test_a_filter_rules_nodes_out_and_its_reason_is_told():
    world = hosting(Keeps())
    world.node("n1", labels={"free": "yes"})
    world.node("n2", gpus=1)
    world.pod("a")
    world.pod("b")
    world.run()
    assert world.where() == {"a": "n2"}
    assert "1 node(s) kept free" in world.why("Pod", "b").message
    assert world.why("Pod", "b").pod_reason == "Unschedulable"
    assert world.replay().differences == []


def test_a_filter_is_asked_once_for_a_gang_and_again_only_when_nodes_change():
    plugin = Keeps()
    world = hosting(plugin)
    for i in range(4):
        world.node(f"n{i}", gpus=2)
    world.gang("g", 8)
    world.run()
    assert len(world.where()) == 8
    assert plugin.calls == 1
    world.pod("late")
    world.run()
    assert plugin.calls == 1
    world.node("n9", gpus=1)
    world.run()
    assert plugin.calls == 2
    assert world.where()["late"] == "n9"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda pods, nodes, now: 1 // 0, "ZeroDivisionError"),
        (lambda pods, nodes, now: [True], "not with a mapping"),
        (lambda pods, nodes, now: {"no": np.ones(1, dtype=bool)}, "not with bool[2]"),
        (lambda pods, nodes, now: {"no": np.zeros(2, dtype=np.int64)}, "with int64[2], not with bool[2]"),
        (lambda pods, nodes, now: {"": np.zeros(2, dtype=bool)}, "must be a text"),
    ],
)
def test_a_filter_that_fails_has_its_pods_wait_and_says_so(answer, said):
    world = hosting(Keeps(answer))
    world.node("n1")
    world.node("n2")
    world.pod("a")
    world.run()
    why = world.why("Pod", "a")
    assert (why.reason, why.pod_reason) == ("PluginFailed", "PluginFailed")  # no autoscaler can help
    assert "keeps" in why.message
    assert said in why.message
    assert faults(world) == [("keeps", "filter")]
    assert world.replay().differences == []


def test_what_a_plugin_does_with_its_answer_afterwards_changes_nothing():
    mask = np.zeros(1, dtype=bool)
    world = hosting(Keeps(lambda pods, nodes, now: {"no": mask}))
    world.node("n1")
    world.pod("a")
    world.run()
    mask[:] = True
    world.pod("b")
    world.run()
    assert len(world.where()) == 2


def test_a_filter_that_goes_by_the_time_is_asked_again_after_its_time():
    class Window(Keeps):
        recheck_seconds = 60.0

    start = World().now
    plugin = Window(lambda pods, nodes, now: {"node(s) in maintenance": nodes.present & (now < start + 100)})
    world = hosting(plugin)
    world.node("n1")
    world.pod("a")
    world.run()
    assert world.where() == {}
    world.until(59.0)
    assert plugin.calls == 1
    world.until(30.0)
    assert (plugin.calls, world.where()) == (2, {})
    world.until(40.0)
    assert world.where() == {"a": "n1"}
    assert world.replay().differences == []


def test_pods_are_told_apart_by_the_labels_that_a_filter_reads():
    class Teams(Keeps):
        pod_labels = ("scheduling.tutti.dev/pod-group",)

    plugin = Teams(
        lambda pods, nodes, now: {f"not for {pods.labels}": nodes.present & ("g" not in pods.labels.values())}
    )
    world = hosting(plugin)
    world.node("n1")
    world.gang("g", 2)
    world.gang("h", 2)
    world.run()
    assert set(world.where()) == {"g-0", "g-1"}
    assert plugin.calls == 2


@pytest.mark.parametrize(("weight", "best"), [(100, "n1"), (1, "n2")])
def test_a_score_counts_by_its_weight(weight, best):
    world = hosting(Enabled("prefers", Prefers(), weight))
    world.node("n0", labels={"points": "1"})
    world.node("n1", labels={"points": "7"})
    world.node("n2", labels={"points": "6"}, cpu=64)
    world.pod("filler", cpu="60", memory="480Gi", node="n1", gpus=0)
    world.pod("a")
    world.run()
    assert world.where("a") == {"a": best}
    assert world.replay().differences == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda nodes: 1 // 0,
        lambda nodes: np.zeros(7, dtype=np.int64),
        lambda nodes: np.zeros(2),
        lambda nodes: np.array([-1, 0]),
        lambda nodes: np.array([2**62, 0]),
    ],
)
def test_a_score_that_fails_is_left_out(answer):
    world = hosting(Enabled("prefers", Prefers(answer), 100))
    world.node("n1", cpu=4)
    world.node("n2", cpu=64)
    world.pod("a")
    world.run()
    assert world.where() == {"a": "n2"}
    assert faults(world) == [("prefers", "score")]


def test_a_score_without_an_opinion_is_none():
    world = hosting(Prefers(lambda nodes: None))
    world.node("n1")
    world.pod("a")
    world.run()
    assert world.where() == {"a": "n1"}
    assert faults(world) == []


def test_a_sort_plugin_goes_before_priority_and_age():
    world = hosting(Deadlines())
    world.pod("none", priority=100, preempts=False)
    world.pod("late", annotations={"example.com/deadline": "200"})
    world.pod("soon", annotations={"example.com/deadline": "100", "other": "1"})
    world.node("n1", gpus=1)
    world.run()
    assert world.where() == {"soon": "n1"}
    world.finish("soon")
    world.run()
    assert set(world.where()) == {"soon", "late"}
    assert world.replay().differences == []


def test_the_annotations_of_a_gang_are_its_objects():
    world = hosting(Deadlines())
    world.node("n1", gpus=0)
    world.gang("g", 1)
    raw = world.objects["PodGroup", "default", "g"]
    world.put_object("PodGroup", merged(raw, {"metadata": {"annotations": {"example.com/deadline": "5"}}}))
    world.run()
    assert world.engine.state.workloads["PodGroup", "default", "g"].rank == 5.0


@pytest.mark.parametrize("place", ["soon", float("nan"), None])
def test_a_sort_plugin_that_fails_puts_the_workload_last(place):
    class Odd:
        def sort(self, workload):
            return place if workload.name == "odd" else 1.0

    world = hosting(Odd())
    world.pod("odd", priority=1000, preempts=False)
    world.pod("even")
    world.node("n1", gpus=1)
    world.run()
    assert world.where() == {"even": "n1"}
    assert set(faults(world)) == {("odd", "sort")}


def gang(world: World, name: str = "g", size: int = 2) -> None:
    world.gang(name, size)
    world.run()


def free(world: World) -> int:
    nodes = world.engine.state.cluster.nodes
    column = nodes.resource_index.column("nvidia.com/gpu")
    return int((nodes.allocatable - nodes.requested)[:, column].sum())


def test_a_permit_that_says_go_binds_at_once():
    keeper = Gatekeeper(budget(2))
    world = hosting(keeper)
    world.node("n1", gpus=4)
    gang(world)
    assert len(world.where()) == 2
    assert keeper.asked == [("g", 2, 2, 0.0)]


def test_a_held_reservation_keeps_its_room_and_binds_when_it_may():
    world = hosting(Gatekeeper(budget(2)))
    world.node("n1", gpus=4)
    world.pod("other", gpus=1, node="n1", scheduler="default")
    gang(world)
    assert (world.where("g"), free(world)) == ({}, 1)
    why = world.why("PodGroup", "g")
    assert (why.gate.value, why.reason, why.details) == ("Permit", "HeldByPlugin", {"plugin": "gatekeeper"})
    assert "over budget" in why.message
    assert len(world.events("HeldByPlugin")) == 1
    world.delete("other")
    world.run()
    assert len(world.where("g")) == 2
    assert world.replay().differences == []


def test_a_held_reservation_is_asked_about_again_after_the_time_it_names():
    def rule(reservation, rooms, now):
        return Go() if reservation.held_seconds >= 20 else Wait("not yet", again_after_seconds=10.0)

    keeper = Gatekeeper(rule)
    world = hosting(keeper)
    world.node("n1", gpus=4)
    gang(world)
    world.until(9.0)
    assert {held for *_, held in keeper.asked} == {0.0}
    world.until(12.0)
    assert len(world.where()) == 2
    assert {held for *_, held in keeper.asked} == {0.0, 10.0, 20.0}
    assert world.replay().differences == []


def test_a_reservation_that_is_held_too_long_is_given_back_with_backoff():
    world = hosting(Gatekeeper(budget(1, timeout_seconds=30.0)))
    world.node("n1", gpus=4)
    gang(world)
    world.decide(advance=30.0)
    assert free(world) == 4
    why = world.why("PodGroup", "g")
    assert why.reason == "PermitTimeout"
    assert "over budget" in why.message
    assert world.now < world.engine.wakeup() <= world.now + 1.25
    world.until(2.0)
    assert free(world) == 2  # held anew
    assert world.why("PodGroup", "g").reason == "HeldByPlugin"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda *_: Refuse("no budget left"), "no budget left"),
        (lambda *_: 1 // 0, "it failed (ZeroDivisionError"),
        (lambda *_: True, "not with Go, Wait or Refuse"),
    ],
)
def test_a_refused_reservation_is_given_back_at_once_with_backoff(rule, said):
    world = hosting(Gatekeeper(rule))
    world.node("n1", gpus=4)
    gang(world)
    assert (world.where(), free(world)) == ({}, 4)
    why = world.why("PodGroup", "g")
    assert why.reason == "RefusedByPlugin"
    assert "gatekeeper" in why.message
    assert said in why.message
    assert world.engine.wakeup() > world.now
    assert world.replay().differences == []


def test_members_that_join_a_running_gang_are_asked_about_and_not_held():
    world = hosting(Gatekeeper(lambda r, rooms, now: budget(2 if now < START + 1 else 3)(r, rooms, now)))
    world.node("n1", gpus=4)
    gang(world)
    world.pod("g-2", group="g")
    world.run()
    assert (len(world.where()), free(world)) == (2, 2)
    assert "over budget" in world.why("PodGroup", "g").message
    world.until(2.0)
    assert len(world.where()) == 3


def test_a_held_reservation_whose_node_goes_is_placed_again_and_asked_about_anew():
    def rule(reservation, rooms, now):
        return Wait("n1 is not for it") if rooms.names[reservation.placed[0].rows[0]] == "n1" else Go()

    world = hosting(Gatekeeper(rule))
    world.node("n1", gpus=4)
    gang(world)
    world.node("n2", gpus=4)
    world.remove_node("n1")
    world.run()
    assert set(world.where().values()) == {"n2"}


def test_a_workload_that_goes_while_held_leaves_nothing():
    world = hosting(Gatekeeper(budget(0)))
    world.node("n1", gpus=4)
    world.pod("a")
    world.run()
    world.delete("a")
    world.run()
    assert free(world) == 4
    assert world.engine.state.plugin_holds == {}
    world.pod("a")
    world.run()
    assert world.reason("Pod", "a") == "HeldByPlugin"


def test_the_same_failure_is_told_once_a_minute():
    class Odd:
        def sort(self, workload):
            raise ValueError("never")

    world = hosting(Odd())
    world.pod("a")
    world.run()
    for _ in range(3):
        world.put(world.pods["default", "a"])
        world.decide(advance=10.0)
    assert len(faults(world)) == 1
    world.put(world.pods["default", "a"])
    world.decide(advance=30.0)
    assert len(faults(world)) == 2
