"""What is done once a turn for many costs one object, or one part of the turn, where it raises; the rest goes on."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.engine.admission.test_throttling import throttle, world_of
from tests.engine.ingest.owners import indexed
from tests.engine.queue.test_bulkheads import Broken, begin, faults, gang
from tests.engine.world import World
from tutti.engine.records.decisions import EmitEvent, NoteFault, PatchStatus

PARTS = {
    "taking over queues": "reading.catalog:in_units_of",
    "following what nodes offer": "cycle.state:State.follow_nodes",
    "following what drivers publish": "cycle.state:State.follow_devices",
    "counting the pods of throttles": "records.throttled_pods:ThrottleBook.recount",
    "looking at who is not paid for": "ingest.promises:look_at_unpaid",
    "finding who waits for himself": "queue.predecessors:follow_rings",
    "following moves": "preemption.moves:follow_moves",
    "going on with moves": "preemption.moves:restore_moves",
    "following what is kept": "backfill.backfill:refresh_reservations",
    "following whose turn is overdue": "backfill.overdue_heads:refresh_turns",
    "telling queues": "status.reporting:report_objects",
    "telling who uses too much": "status.queue_statuses:report_overuse",
    "looking at what is free": "status.queue_statuses:_look_at_nodes",
    "telling positions": "status.reporting:refresh_positions",
    "telling throttles": "status.throttle_statuses:report_throttles",
}
"""The parts of a turn that concern nobody in particular, and what does each."""


class Raises:
    """A function of the engine that raises as long as it is not mended, for one object where `when` tells which."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str, when: Any = lambda *_: True) -> None:
        self.mended, self.times = False, 0
        module, *inside, name = path.split(":", maxsplit=1)[0], *path.split(":")[1].split(".")
        owner: Any = importlib.import_module(f"tutti.engine.{module}")
        for one in inside:
            owner = getattr(owner, one)
        real = getattr(owner, name)

        def raising(*args: Any, **more: Any) -> Any:
            if not self.mended and when(*args):
                self.times += 1
                raise RecursionError("too deep")
            return real(*args, **more)

        monkeypatch.setattr(owner, name, raising)


def parts_that_raised(world: World) -> set[str]:
    return {one.name for one in world.log if isinstance(one, NoteFault) and one.kind == "Engine"}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_turn_that_raises_is_left_out_and_the_rest_goes_on(monkeypatch, part):
    world = begin()
    gang(world, "early", 2)
    world.run()
    broken = Raises(monkeypatch, PARTS[part])
    world.restart()
    world.flavor("another")
    world.node("n3")
    world.gang(
        "late", 2, queue="" if part == "taking over queues" else "queue"
    )  # queues that are not known admit nobody
    world.until(300.0)
    assert len(world.where("late")) == 2
    assert parts_that_raised(world) == ({part} if broken.times else set())
    assert broken.times < 20 + 300 / world.configuration.backoff.max_seconds  # and nothing waits for it in a circle
    assert not world.replay().differences
    broken.mended = True
    gang(world, "later", 2)
    world.until(600.0)
    assert len(world.where("later")) == 2
    world.check_state()


def test_most_parts_are_gone_through_by_the_test_above(monkeypatch):
    """One that is never called would pass it without a fault."""
    world, called = begin(), []
    for part, path in PARTS.items():
        Raises(monkeypatch, path, when=lambda *_, part=part: called.append(part))
    gang(world, "one", 20)
    world.restart()
    world.until(60.0)
    assert set(called) == set(PARTS)


@pytest.mark.parametrize("what", ["quotas_in", "queue_in"])
def test_a_queue_that_cannot_be_compiled_counts_as_one_that_cannot_be_read(monkeypatch, what):
    world = begin()
    gang(world, "running", 2)
    world.run()
    world.queue("bad", 16, local="elsewhere")
    catalog = world.engine.state.catalog
    broken = Raises(
        monkeypatch, f"reading.catalog:{what}", when=lambda *_: catalog.looked_at == ("ClusterQueue", "", "bad")
    )
    gang(world, "late", 2)
    world.gang("other", 2, queue="elsewhere")
    world.until(60.0)
    assert broken.times == 1
    assert (len(world.where("late")), world.where("other"), world.used("cq")) == (2, {}, 4)
    assert {(one.kind, one.name) for one in world.log if isinstance(one, NoteFault)} == {("ClusterQueue", "bad")}
    assert any("RecursionError" in one.note for one in world.events("Invalid", "bad"))
    broken.mended = True
    world.queue("bad", 17, local="elsewhere")
    world.until(60.0)
    assert len(world.where("other")) == 2
    world.check_state()


def test_a_throttle_that_raises_lets_nobody_start_whom_it_is_about_and_is_told_so(monkeypatch):
    world = world_of()
    world.may_raise = True
    broken = Raises(monkeypatch, "records.throttled_pods:Throttle.limits_at", when=lambda one, *_: one.name == "bad")
    raw = throttle(4)
    raw["metadata"] |= {"name": "bad", "uid": "u-bad"}
    raw["spec"]["selector"] = {"selectorTerms": [{"podSelector": {"matchLabels": {"app": "y"}}}]}
    world.throttle("Throttle", raw)
    world.throttle("Throttle", throttle(4))
    world.gang("a", 3, labels={"app": "x"})
    world.gang("b", 3, labels={"app": "y"})
    world.pod("c")
    world.until(60.0)
    assert sorted(world.where()) == ["a-0", "a-1", "a-2", "c"]
    why = world.why("PodGroup", "b")
    assert (why.gate, why.reason) == ("Throttle", "SetAside")
    assert "Throttle default/bad is set aside" in why.message
    (told, *_) = [one for one in world.log if isinstance(one, EmitEvent) and one.name == "bad"]
    assert (told.kind, told.uid, told.reason) == ("Throttle", "u-bad", "SetAside")
    assert 2 < broken.times < 12
    assert not world.replay().differences
    broken.mended = True
    world.until(600.0)
    assert len(world.where("b")) == 3


def test_a_queue_of_which_the_status_raises_is_told_when_it_does_not_any_more(monkeypatch):
    world = begin()
    world.queue("other", 16, local="elsewhere")
    world.run()
    broken = Raises(monkeypatch, "status.queue_statuses:_of_cluster_queue", when=lambda _, name: name == "cq")
    gang(world, "a", 2)
    world.gang("b", 2, queue="elsewhere")
    world.until(30.0)
    assert len(world.where()) == 4

    def admitted(queue: str) -> list[int]:
        said = [one for one in world.log if isinstance(one, PatchStatus) and one.name == queue]
        return [one.status["admittedWorkloads"] for one in said if one.status.get("admittedWorkloads")]

    assert (admitted("cq"), admitted("other")) == ([], [1])
    assert {one.name for one in world.log if isinstance(one, NoteFault)} == {"cq"}
    broken.mended = True
    world.until(600.0)
    assert admitted("cq") == [1]


@pytest.mark.parametrize("fair", [False, True])
def test_a_head_that_raises_is_set_aside_and_those_behind_it_have_their_turn(monkeypatch, fair):
    world = begin(fairSharing={"enable": fair})
    gang(world, "bad", 2)
    world.pod("bad-alone", queue="queue")
    gang(world, "good", 2)
    Broken(monkeypatch, "tutti.engine.queue.heads.assign_flavors")
    world.until(30.0)
    assert len(world.where("good")) == 2
    assert {one.kind for one in faults(world, "bad")} == {"PodGroup", "Pod"}
    assert not parts_that_raised(world)
    assert world.why("PodGroup", "bad").reason == "SetAside"
    assert not world.replay().differences


def test_a_nomination_that_raises_costs_whom_it_is_for(monkeypatch):
    world = begin()
    world.gang("low", 16)
    world.run()
    world.hold_evictions = True
    for name in ("bad", "good"):
        world.gang(name, 2, priority=100)
    world.until(5.0)
    assert ("PodGroup", "default", "bad") in world.engine.state.nominations.ours
    broken = Raises(monkeypatch, "preemption.nominations:_refresh", when=lambda _, key, *__: key[2] == "bad")
    world.delete(*[name for name in world.where("low") if world.pods["default", name].metadata.deletion_timestamp])
    world.until(60.0)
    assert len(world.where("good")) == 2
    assert broken.times
    assert faults(world, "bad")
    assert "Engine" not in {one.kind for one in world.log if isinstance(one, NoteFault)}


def test_an_object_that_is_to_be_started_and_raises_costs_itself(monkeypatch):
    world = begin()
    world.follow_owners()
    world.queue("held", 8, local="held", manage="Suspend")
    for name in ("bad", "good"):
        label = {"kueue.x-k8s.io/queue-name": "held"}
        world.owner("Job", name, labels=label, spec=indexed(2) | {"suspend": True})
    Raises(monkeypatch, "ingest.managed_owners:_file", when=lambda _, found: found.name == "bad")
    world.flavor("another")  # queues are written anew, so all that is held is looked at again
    world.until(30.0)
    assert {one.name for one in world.log if isinstance(one, NoteFault)} == {"bad"}
    assert ("PodGroup", "default", "good") in world.engine.state.workloads or world.engine.state.managed_owners
