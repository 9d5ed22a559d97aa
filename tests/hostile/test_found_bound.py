"""Pods that a tenant binds himself, into a queue that never admitted them."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.api.selectors import Taint
from tutti.engine.records.gang_membership import ADMISSION_ANNOTATION


@pytest.mark.parametrize("named", ["queue", "group"])
def test_a_pod_that_names_a_dead_node_itself_takes_no_quota_of_its_cohort(named: str) -> None:
    """It asks for any amount, and no kubelet is there to refuse it."""
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=8)
    world.node("dead", gpus=8, taints=[Taint("node.kubernetes.io/unreachable", effect="NoSchedule")])
    world.flavor()
    world.queue("honest", 4, cohort="all")
    world.queue("theirs", 4, cohort="all", namespace="theirs")
    world.pod_group("g", 1, "theirs", queueName="queue")
    names = {"queue": "queue"} if named == "queue" else {"group": "g"}
    world.pod("t", namespace="theirs", node="dead", gpus=1000, **names)
    world.run()
    world.pod("works", queue="queue", gpus=4)
    world.run()
    assert world.where() == {"works": "n0"}
    world.restart()
    world.run()
    assert world.used("theirs") == 0


KOORDINATOR = "gang.scheduling.koordinator.sh/"
OURS = {f"{KOORDINATOR}name": "g", f"{KOORDINATOR}min-available": "1"}
THEIRS = {f"{KOORDINATOR}name": "h", f"{KOORDINATOR}min-available": "1"}
BOTH = {f"{KOORDINATOR}groups": '["default/g", "theirs/h"]'}


def neighbours() -> World:
    """Two namespaces, each with a queue of its own, and room for both."""
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=8)
    world.flavor()
    world.queue("honest", 4)
    world.queue("theirs", 4, namespace="theirs", local="yard")
    world.now += 1
    return world


@pytest.mark.parametrize("annotated", [False, True])
def test_a_pod_that_names_a_gang_of_another_namespace_takes_no_quota_of_it(*, annotated: bool) -> None:
    """The queues of a gang of several namespaces are those of the first: one of it has to say so, too."""
    admission = {ADMISSION_ANNOTATION: '{"clusterQueue": "honest", "flavors": {"nvidia.com/gpu": "default"}}'}
    world = neighbours()
    said = {**THEIRS, **BOTH, **(admission if annotated else {})}
    named = "yard" if annotated else "queue"
    world.pod("h-0", namespace="theirs", queue=named, node="n0", gpus=4, annotations=said)
    world.run()
    assert world.used("honest") == 0
    world.restart()
    world.pod("works", queue="queue", gpus=4)
    world.run()
    assert world.where() == {"works": "n0"}
    assert world.used("honest") == 4


@pytest.mark.parametrize("queue", ["queue", "none", "yard"])
def test_who_names_a_gang_of_another_namespace_is_told_of_his_own_and_counted_there(queue: str) -> None:
    world = neighbours()
    world.pod("h-0", namespace="theirs", queue=queue, annotations={**THEIRS, **BOTH})
    world.until(60)
    (told,) = [one.message for one in world.pods["theirs", "h-0"].status.conditions]
    if queue == "yard":
        assert told.endswith(" is still gathering: no pod of default/g has come that says how many they are")
    else:
        assert told == f"LocalQueue theirs/{queue} does not exist; this namespace has: yard"
    assert world.status("ClusterQueue", "honest")["pendingWorkloads"] == 0
    assert world.status("LocalQueue", "queue")["pendingWorkloads"] == 0


@pytest.mark.parametrize("backwards", [False, True])
def test_a_gang_of_two_namespaces_stays_one_when_those_have_ended_whose_queue_it_goes_by(*, backwards: bool) -> None:
    world = neighbours()
    world.pod("h-0", namespace="theirs", annotations={**THEIRS, **BOTH})
    world.run()
    world.pod("g-0", queue="queue", annotations={**OURS, **BOTH})
    world.run()
    assert (world.where(), world.where(namespace="theirs")) == ({"g-0": "n0"}, {"h-0": "n0"})
    assert world.used("honest") == 2
    world.finish("g-0")
    world.run()
    world.delete("g-0")
    world.run()
    world.restart(backwards=backwards)
    world.until(3600)
    assert world.where(namespace="theirs") == {"h-0": "n0"}
    assert world.used("honest") == 1
    world.delete("h-0", namespace="theirs")
    world.run()
    assert world.used("honest") == 0
    assert [key for key in world.objects if key[0] == "PodGroup"] == []
