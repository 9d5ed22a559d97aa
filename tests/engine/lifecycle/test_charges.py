"""What runs uses what it holds, of what it was admitted in, whatever has been written since, and after any restart."""

from __future__ import annotations

import json

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, indexed
from tests.engine.ingest.owners import pods as owned_pods
from tests.engine.lifecycle.test_resized_charges import recounted
from tests.engine.world import GPU, World, replaced
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

# LocalQueues that are made anew.


def moved(*, same: bool = True) -> World:
    """A pod in each of two queues; then the LocalQueue of the first one leads to the second."""
    world = World()
    world.flavor("fa", nodeLabels={"kind": "a"})
    world.flavor("fb", nodeLabels={"kind": "b"})
    world.queue("qa", 4, flavors=("fa",), local="team")
    world.queue("qb", 4, flavors=("fa",) if same else ("fb",), local="other")
    for name, kind in (("n0", "a"), ("n1", "a"), ("n2", "b")):
        world.node(name, labels={"kind": kind})
    world.pod("a", gpus=4, queue="team")
    world.pod("o", gpus=4, queue="other")
    world.run()
    world.remove_object("LocalQueue", "team")
    world.run()
    world.object("LocalQueue", "team", {"clusterQueue": "qb"})
    world.run()
    return world


def usage(world: World) -> dict[str, int]:
    """What each queue uses, in all flavors."""
    state = world.engine.state
    return {queue: sum(n for (_, r), n in state.ledger.used(queue).items() if r == GPU) for queue in ("qa", "qb")}


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("later", [0.0, 100.0])
def test_what_runs_stays_in_its_queue_when_its_local_queue_is_made_anew(same, later):
    world = moved(same=same)
    before = usage(world)
    assert before == {"qa": 4, "qb": 4}
    world.until(later)
    world.restart()
    world.run()
    assert usage(world) == before
    world.object("LocalQueue", "third", {"clusterQueue": "qa"})
    world.pod("b", gpus=4, queue="third")
    world.run()
    assert world.where("b") == {}
    world.restart()
    world.run()
    assert usage(world) == before


def test_what_runs_stays_in_its_queue_when_it_names_another():
    world = World()
    world.flavor()
    world.node("n0")
    world.queue("qa", 4, local="one")
    world.queue("qb", 4, local="two")
    world.pod("a", gpus=4, queue="one")
    world.run()
    pod = world.pods["default", "a"]
    labels = {"scheduling.tutti.dev/queue-name": "two"}
    world.put(replaced(pod, metadata=replaced(pod.metadata, labels=labels)))
    world.run()
    assert usage(world) == {"qa": 4, "qb": 0}
    world.restart()
    world.run()
    assert usage(world) == {"qa": 4, "qb": 0}


@pytest.mark.parametrize("of", ["pod", "group"])
def test_what_runs_stays_in_its_queue_when_it_names_none_any_more(of):
    world = World()
    world.flavor()
    world.node("n0")
    world.queue("qa", 4, local="one")
    if of == "pod":
        world.pod("a", gpus=4, queue="one")
    else:
        world.pod_group("g", 1, queueName="one")
        world.pod("a", gpus=4, group="g")
    world.run()
    if of == "pod":
        pod = world.pods["default", "a"]
        world.put(replaced(pod, metadata=replaced(pod.metadata, labels={})))
    else:
        world.pod_group("g", 1)
    world.run()
    assert usage(world)["qa"] == 4
    world.restart()
    world.run()
    assert usage(world)["qa"] == 4


# Annotations that somebody has written over.


def annotate(world: World, name: str, queue: str, flavors: dict[str, str], *, label: str | None = None) -> None:
    pod = world.pods["default", name]
    said = json.dumps({"clusterQueue": queue, "flavors": flavors})
    labels = pod.metadata.labels if label is None else {"scheduling.tutti.dev/queue-name": label}
    annotations = {**pod.metadata.annotations, ADMISSION_ANNOTATION: said}
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations=annotations, labels=labels)))


def kinds() -> World:
    """A pod on a node of the second of two flavors; and a queue of another namespace that lets everybody in."""
    world = World(namespaces=("default", "elsewhere"))
    for kind in "ab":
        world.flavor(kind, nodeLabels={"kind": kind})
        world.node(f"n{kind}", labels={"kind": kind})
    world.queue("mine", 8, flavors=("a", "b"))
    world.queue("theirs", 8, flavors=("a", "b"), namespace="elsewhere")
    world.now += 10
    world.pod("p", gpus=4, queue="queue", selector={"kind": "b"})
    world.run()
    world.start("p")
    return world


@pytest.mark.parametrize(
    ("queue", "flavors"),
    [
        ("mine", {}),
        ("mine", {"cpu": "b"}),
        ("mine", {GPU: "a"}),
        ("mine", {GPU: "none"}),
        ("mine", {GPU: ""}),
        ("theirs", {GPU: "b"}),
        ("theirs", {}),
        ("none", {GPU: "b"}),
        ("", {GPU: "b"}),
    ],
)
def test_a_pod_uses_what_it_holds_whatever_its_annotation_has_come_to_say(queue, flavors):
    world = kinds()
    annotate(world, "p", queue, flavors)
    world.run()
    for _ in range(2):
        assert (world.used("mine", "a"), world.used("mine", "b")) == (0, 4)
        assert (world.used("mine", "b", "cpu"), world.used("theirs", "b")) == (1000, 0)
        assert world.engine.state.ledger.queues() == ["mine"]
        world.restart()
        world.run()


def test_who_has_started_before_a_local_queue_was_made_anew_is_believed_and_nobody_else():
    world = kinds()
    world.remove_object("LocalQueue", "queue")
    world.now += 10
    world.object("LocalQueue", "queue", {"clusterQueue": "theirs"})  # as it could have been "mine" before
    world.run()
    world.now += 10
    world.pod("late", gpus=4, queue="queue", selector={"kind": "b"})
    world.run()
    world.start("late")
    annotate(world, "late", "mine", {GPU: "b"})
    world.restart()
    world.run()
    assert (world.used("mine", "b"), world.used("theirs", "b")) == (4, 4)


def test_a_pod_that_was_admitted_to_nothing_cannot_say_that_it_was():
    world = kinds()
    forged = json.dumps({"clusterQueue": "mine", "flavors": {GPU: "a"}})
    world.pod("free", annotations={ADMISSION_ANNOTATION: forged})
    world.run()
    assert world.where("free")
    world.restart()
    world.run()
    assert world.used("mine", "a") == 0


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "gang"])
def test_what_runs_outside_of_queues_stays_so_when_its_owner_comes_to_name_one(together):
    """No policy holds the labels of owners as it does those of pods."""
    world = a_world(16, quota=4)
    world.object("LocalQueue", "theirs", {"clusterQueue": "team"}, "others")
    spec = indexed(8) if together else {"parallelism": 8, "completions": 8}
    owned_pods(world, world.owner("Job", "t", spec=spec), 8)
    world.run()
    assert len(world.where()) == 8
    job = world.owner("Job", "t", labels=IN_QUEUE, spec=spec)
    world.run()
    world.pod("honest", namespace="others", queue="theirs", gpus=2)
    world.run()
    assert (world.used("team"), len(world.where(namespace="others"))) == (2, 1)
    world.restart()
    world.run()
    assert world.used("team") == 2
    if not together:  # what comes after the label is admitted by it, and nothing else with it
        world.pod("t-more", owner=job)
        world.run()
        assert world.used("team") == 3
        world.restart(backwards=True)
        world.run()
        assert (world.used("team"), len(world.where())) == (3, 9)


# Flavors follow nodes and queues, at once as after a restart.


def test_a_node_that_becomes_one_of_another_flavor_takes_its_pods_along():
    world = kinds()
    world.node("nb", labels={"kind": "a"})
    world.run()
    assert (world.used("mine", "a"), world.used("mine", "b")) == (4, 0)
    assert recounted(world, "mine", "a", GPU) == 4
    world.node("nb", labels={"kind": "neither"})
    world.run()
    assert recounted(world, "mine", "a", GPU) == 0
    assert recounted(world, "mine", "b", GPU) == 4


def test_a_flavor_that_its_queue_has_no_more_is_left_for_one_of_the_same_nodes():
    world = World()
    for name in ("old", "new"):
        world.flavor(name, nodeLabels={"kind": "x"})
    world.node("n", labels={"kind": "x"})
    world.queue("cq", 8, flavors=("old",))
    world.pod("p", gpus=4, queue="queue")
    world.run()
    world.queue("cq", 8, flavors=("new",))
    world.run()
    assert world.used("cq", "new") == 4
    assert recounted(world, "cq", "new", GPU) == 4
