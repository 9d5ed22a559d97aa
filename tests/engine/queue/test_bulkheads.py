"""What one object makes the engine raise costs that object only: it is set aside and tried again, the others go on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.engine.histories.watched import Watched
from tests.engine.ingest.owners import IN_QUEUE, indexed, pods
from tests.engine.world import GPU
from tutti.api.conventions import reading
from tutti.cluster.class_book import ClassBook
from tutti.cluster.cluster import Cluster
from tutti.engine.cycle.engine import Engine
from tutti.engine.ingest import membership
from tutti.engine.records.decisions import EmitEvent, NoteFault, SetPodCondition
from tutti.engine.records.observations import PodSeen
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Workload

TURNS = {
    "settling": "tutti.engine.cycle.settling.specs.read_workload",
    "settling, to its end": "tutti.engine.cycle.settling.backfill.note_expected_end",
    "queueing": "tutti.engine.queue.scheduling_queue.queue_of",
    "queueing, half way": "tutti.engine.queue.scheduling_queue.pending_pod_sets",
    "admitting": "tutti.engine.cycle.admitting.reserve",
    "admitting, its nodes": "tutti.engine.admission.required_pods._place",
    "admitting, beyond the required": "tutti.engine.admission.admission._take_most",
    "admitting, to its binds": "tutti.engine.lifecycle.binding.send_binds",
    "settling, its limits": "tutti.engine.lifecycle.limits.watch_limits",
    "counting": "tutti.engine.status.reporting.statuses.count_in_queues",
    "telling": "tutti.engine.status.reporting.report_workload",
    "telling, its status": "tutti.engine.status.reporting.report_status",
}
"""Where a workload's turn may raise: what it is called in messages, and the function that does."""
ERRORS = {"RecursionError": RecursionError, "MemoryError": MemoryError, "KeyError": KeyError, "OSError": OSError}


class Broken:
    """A function that raises for objects of which the name begins with `bad`, as long as it is not mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str, error: type[Exception] = RecursionError) -> None:
        self.mended = False
        self._error = error
        module, _, name = path.rpartition(".")
        owner: Any = None
        parts = module.split(".")
        for depth in range(len(parts), 0, -1):
            try:
                owner = importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError:
                continue
            for part in parts[depth:]:
                owner = getattr(owner, part)
            break
        self._real: Callable[..., Any] = getattr(owner, name)
        monkeypatch.setattr(owner, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._real(*args, **kwargs)  # what it changes is changed when it raises
        if not self.mended and any(_is_bad(one) for one in args):
            raise self._error("maximum depth exceeded at <object at 0x7f3a>")
        return result


def _is_bad(given: object) -> bool:
    if isinstance(given, Workload):
        return given.key[2].startswith("bad")
    if isinstance(given, QueueEntry):
        return _is_bad(given.workload)
    return _is_bad(getattr(given, "workload", None)) if hasattr(given, "workload") else False


class Aside(Watched):
    """A world in which what is told of some may be out of date, because telling it raises."""

    def check(self) -> None:
        self.check_room()
        self.check_quota()
        self.check_gangs()


def begin(**configuration: Any) -> Watched:
    world = Aside(**configuration)
    world.may_raise = True
    world.flavor()
    world.queue("cq", 16)
    for name in ("n1", "n2"):
        world.node(name)
    return world


def faults(world: Watched, name: str) -> list[NoteFault]:
    return [one for one in world.log if isinstance(one, NoteFault) and one.name.startswith(name)]


def gang(world: Watched, name: str, size: int = 2, **said: Any) -> None:
    world.gang(name, size, queue="queue", **said)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", TURNS)
def test_a_turn_that_raises_costs_one_workload_until_it_is_mended(monkeypatch, where, error):
    world = begin()
    broken = Broken(monkeypatch, TURNS[where], ERRORS[error])
    gang(world, "bad", 3, min_count=2)
    gang(world, "good", 2)
    world.pod("bad-alone", queue="queue")
    world.until(2.0)
    gang(world, "late", 2)
    world.until(20.0)
    assert len(world.where("good")) == len(world.where("late")) == 2
    assert faults(world, "bad")
    assert where.partition(",")[0] in {one.during for one in faults(world, "bad")}
    assert "Engine" not in {one.kind for one in world.log if isinstance(one, NoteFault)}
    assert not faults(world, "good") + faults(world, "late")
    assert all("0x7f3a" not in one.error for one in faults(world, "bad"))
    world.check()
    assert not world.replay().differences
    broken.mended = True
    world.until(1200.0)
    assert len(world.where("bad")) == 4
    world.check_state()
    before = len(faults(world, "bad"))
    world.delete(*list(dict(world.where())))
    world.until(60.0)
    assert len(faults(world, "bad")) == before
    assert not world.engine.state.cluster.nodes.requested.any()


def test_a_single_pod_that_could_not_be_read_is_among_those_whose_priority_does_not_tell_all(monkeypatch):
    world = begin()
    Broken(monkeypatch, "tutti.engine.ingest.specs.settle_promises")
    world.pod("bad-alone", queue="queue")
    world.pod("good-alone", queue="queue")
    world.pod("plain")
    world.run()
    assert {name for _, _, name in world.engine.state.unlike_singles} == {"bad-alone", "good-alone"}


@pytest.mark.parametrize("where", ["settling", "queueing", "admitting", "telling, its status"])
def test_a_workload_that_is_set_aside_says_so_and_what_was_raised(monkeypatch, where):
    world = begin()
    Broken(monkeypatch, TURNS[where])
    gang(world, "bad", 20)
    world.run()
    why = world.why("PodGroup", "bad")
    assert (why.gate, why.reason) == ("Gather", "SetAside")
    assert "raised RecursionError: maximum depth exceeded" in why.message
    told = [one for one in world.log if isinstance(one, EmitEvent) and "RecursionError" in one.note]
    assert {(one.kind, one.name, one.type) for one in told} == {("PodGroup", "bad", "Warning")}
    assert len(told) <= len(faults(world, "bad")) + 1
    if where != "telling, its status":
        conditions = [one for one in world.log if isinstance(one, SetPodCondition) and one.reason == "SetAside"]
        assert {one.name for one in conditions} == {f"bad-{rank}" for rank in range(20)}
        assert world.condition("PodGroup", "bad", "Scheduled")["reason"] == "SetAside"


def test_it_is_tried_again_less_and_less_often(monkeypatch):
    world = begin()
    Broken(monkeypatch, TURNS["admitting"])
    gang(world, "bad")
    world.until(3600.0)
    most = world.configuration.backoff.max_seconds
    assert 5 < len(faults(world, "bad")) < 20 + 3600 / most
    times = int(world.why("PodGroup", "bad").details["times"])
    assert times > 5
    world.pod("bad-2", group="bad", queue="queue")  # a change alone does not have it tried before its time
    before = len(faults(world, "bad"))
    world.run()
    assert len(faults(world, "bad")) == before


def test_what_runs_of_a_workload_that_is_set_aside_stays_charged_and_counted(monkeypatch):
    world = begin()
    gang(world, "bad", 4)
    world.run()
    broken = Broken(monkeypatch, TURNS["settling"])
    world.restart()
    world.run()
    broken.mended = True
    world.until(600.0)
    assert world.used("cq", resource=GPU) == 4
    broken.mended = False
    world.pod("bad-4", group="bad", queue="queue")
    world.until(5.0)
    assert world.used("cq", resource=GPU) == 4
    gang(world, "good", 13)
    world.until(10.0)
    assert not world.where("good")
    world.check_state()


def test_a_reader_that_raises_costs_the_pod_that_it_reads(monkeypatch):
    world = begin()
    real = reading.READERS["pfnet"]

    def read(pod, settings):
        if pod.metadata.name.startswith("bad"):
            raise RecursionError("too deep")
        return real(pod, settings)

    monkeypatch.setattr(reading, "READERS", {**reading.READERS, "pfnet": read})
    world.pod("bad", queue="queue")
    world.pod("bad-runs", queue="queue", node="n1", gpus=3)
    gang(world, "good")
    world.run()
    assert len(world.where("good")) == 2
    assert "raises RecursionError: too deep" in world.why("Pod", "bad").message
    assert {(one.name, one.during) for one in faults(world, "bad")} == {("bad", "reading"), ("bad-runs", "reading")}
    world.check_room()
    assert not world.replay().differences


def test_a_pod_that_cannot_be_taken_in_takes_its_room_or_closes_its_node(monkeypatch):
    world = begin()
    real = ClassBook.of

    def of(self, spec, *args, **more):
        if any(one.name == "bad" for one in spec.containers):
            raise MemoryError
        return real(self, spec, *args, **more)

    monkeypatch.setattr(ClassBook, "of", of)
    for name, node in (("bad-waits", ""), ("bad-runs", "n1")):
        pod = world.pod(name, node=node)
        named = msgspec.structs.replace(pod.spec.containers[0], name="bad")
        spec = msgspec.structs.replace(pod.spec, containers=[named])
        world.delete(name)
        world.tell(PodSeen(msgspec.structs.replace(pod, spec=spec)))
    world.node("n1")  # it is seen again, and stays closed while the pod is there
    gang(world, "good", 8)
    world.run()
    assert set(world.where("good").values()) == {"n2"}
    (said,) = [one for one in world.log if isinstance(one, SetPodCondition) and one.name == "bad-waits"]
    assert "seeing it raised MemoryError" in said.message
    assert "how much Pod default/bad-runs takes" in world.engine.state.cluster.unreadable["n1"]
    world.check_room()
    assert not world.replay().differences


@pytest.mark.parametrize("where", ["ingest.owned_gangs.gang_of", "ingest.membership.marked"])
def test_what_a_bound_pod_uses_stays_charged_when_seeing_it_raises_also_after_a_restart(monkeypatch, where):
    world = begin()
    world.follow_owners()
    for name in ("bad", "good"):
        pods(world, world.owner("Job", name, labels=IN_QUEUE, spec=indexed(2)), 2)
    world.run()
    assert world.used("cq") == 4
    module, _, name = f"tutti.engine.{where}".rpartition(".")
    owner = importlib.import_module(module)
    real = getattr(owner, name)

    def raises(given: Any, *args: Any, **more: Any) -> Any:
        if given.name.startswith("bad"):
            raise RecursionError("too deep")
        return real(given, *args, **more)

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, raises)
        world.owner("Job", "bad", labels=IN_QUEUE | {"kueue.x-k8s.io/max-exec-time-seconds": "600"}, spec=indexed(2))
        world.run()
        assert world.used("cq") == 4
        world.restart()
        world.run()
        assert (world.used("cq"), len(world.where())) == (4, 4)
        assert faults(world, "bad")
        world.check_room()
    world.become_ready("bad-0", "bad-1")
    world.run()
    assert world.used("cq") == 4
    world.delete("bad-0", "bad-1")
    world.run()
    assert world.used("cq") == 2
    world.check_room()


def test_an_owner_at_which_one_pod_raises_is_taken_in_for_the_others(monkeypatch):
    world = begin()
    world.follow_owners()
    top = world.owner("Job", "top", spec={"parallelism": 4, "completions": 4})
    pods(world, top, 4)
    real = membership.assign_member

    def raises(state: Any, member: Any) -> None:
        if member.pod.name == "top-0":
            raise RecursionError("too deep")
        real(state, member)

    monkeypatch.setattr(membership, "assign_member", raises)
    world.owner("Job", "top", labels=IN_QUEUE, spec=indexed(3))
    world.run()
    (gang_of_three,) = [one for key, one in world.engine.state.workloads.items() if key[0] == "PodGroup"]
    assert [one.pod.name for one in gang_of_three.members()] == ["top-1", "top-2", "top-3"]
    assert faults(world, "top-0")


def test_a_node_that_cannot_be_taken_in_takes_no_new_pods(monkeypatch):
    world = begin()
    real = Cluster.put_node

    def put_node(self, node):
        if node.metadata.labels.get("odd"):
            raise ValueError("odd")
        return real(self, node)

    monkeypatch.setattr(Cluster, "put_node", put_node)
    world.node("n1", labels={"odd": "x"})
    gang(world, "good", 8)
    world.run()
    assert set(world.where("good").values()) == {"n2"}
    world.node("n1")
    gang(world, "more", 8)
    world.run()
    assert set(world.where("more").values()) == {"n1"}
    assert not world.replay().differences


@pytest.mark.parametrize("kind", ["PodGroup", "ClusterQueue"])
def test_an_object_of_ours_that_cannot_be_taken_in_counts_as_unreadable(monkeypatch, kind):
    world = begin()
    path = "tutti.engine.reading.objects.parse_object"
    real = importlib.import_module("tutti.engine.reading.objects").parse_object

    def parse(kind, raw):
        if raw["metadata"]["name"].startswith("bad"):
            raise RecursionError("too deep")
        return real(kind, raw)

    monkeypatch.setattr(path, parse)
    if kind == "PodGroup":
        gang(world, "bad")
    else:
        world.queue("bad", 4, local="bad")
        world.pod("bad-0", queue="bad")
    gang(world, "good")
    world.run()
    assert len(world.where("good")) == 2
    assert not world.where("bad")
    assert any("RecursionError: too deep" in one.note for one in world.log if isinstance(one, EmitEvent))
    assert not world.replay().differences


def test_a_turn_that_raises_at_nobody_in_particular_is_begun_anew(monkeypatch):
    world = begin()
    real, times = Engine._reconcile, 0

    def reconcile(self):
        nonlocal times
        done = real(self)
        times += 1
        if 4 <= times <= 5:
            raise ZeroDivisionError
        return done

    monkeypatch.setattr(Engine, "_reconcile", reconcile)
    gang(world, "one", 8)
    world.run()
    gang(world, "two", 8)
    world.run()
    assert len(world.where()) == 16
    assert {one.kind for one in world.log if isinstance(one, NoteFault)} == {"Engine"}
    world.check_state()


def test_a_turn_that_always_raises_at_nobody_in_particular_ends_the_run(monkeypatch):
    world = begin()

    def reconcile(self):
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "_reconcile", reconcile)
    gang(world, "one", 8)
    with pytest.raises(ZeroDivisionError):
        world.run()
