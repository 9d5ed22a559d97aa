"""What those who may write pods and workloads in their own namespace cannot do: go first, take others' quota or nodes,
or have more written than an API server takes.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import Container, ResourceRequirements, Taint, Toleration
from tutti.api.messages import LONGEST_TEXT, MOST_ENTRIES
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

FORGED = '{"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": "default", "cpu": "default", "memory": "default"}}'


def shared(**spec) -> World:
    """A queue of two GPUs in a flavor of one node, and a node beside it that is no part of it."""
    world = World()
    world.node("inside", gpus=2, labels={"kind": "inside"})
    world.node(
        "outside", gpus=8, labels={"kind": "outside"}, taints=[Taint(key="kind", value="outside", effect="NoSchedule")]
    )
    world.flavor("default", nodeLabels={"kind": "inside"})
    world.queue("cq", 2, **spec)
    return world


EVERYTHING = {"preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}}


@pytest.mark.parametrize(
    ("spec", "template"),
    [
        ({"priority": 2_000_000_000}, {}),
        ({"priorityClassRef": {"name": "imagined"}, "priority": 2_000_000_000}, {}),
        ({}, {"priority": 2_000_000_000}),
        ({}, {"priorityClassName": "imagined", "priority": 2_000_000_000}),
    ],
)
def test_a_number_makes_no_workload_go_first_and_takes_nobody_out(spec, template):
    world = shared(**EVERYTHING)
    world.pod("runs", queue="queue", gpus=2)
    world.run()
    world.now += 1
    world.pod("modest", queue="queue", gpus=2)
    world.run()
    world.now += 1
    container = {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}
    promised = {"spec": {"containers": [container], **template}} if template else None
    world.workload("pushy", {"count": 1} | ({"template": promised} if promised else {}), queueName="queue", **spec)
    world.run()
    world.pod("pushy-0", workload="pushy", gpus=2)
    world.run()
    assert world.where() == {"runs": "inside"}

    world.finish("runs")
    world.run()

    assert world.where() == {"runs": "inside", "modest": "inside"}


def test_a_number_below_that_of_its_class_makes_a_workload_go_last():
    world = shared()
    world.pod("runs", queue="queue", gpus=2)
    world.run()
    for name, spec in (("humble", {"priority": -1}), ("plain", {})):
        world.now += 1
        world.workload(name, {"count": 1}, queueName="queue", **spec)
        world.pod(f"{name}-0", workload=name, gpus=2)
    world.run()
    world.finish("runs")
    world.run()
    assert world.where() == {"runs": "inside", "plain-0": "inside"}


def test_an_admission_that_a_pod_claims_for_itself_admits_nobody():
    world = shared()
    world.pod("runs", queue="queue", gpus=2)
    world.run()
    world.pod("forged", queue="queue", gpus=2, annotations={ADMISSION_ANNOTATION: FORGED})
    world.run()
    assert world.where() == {"runs": "inside"}
    assert world.used("cq") == 2


@pytest.mark.parametrize("place", ["default", "default/queue", "../default/queue", "cq"])
def test_a_queue_of_another_namespace_is_out_of_reach_whatever_it_is_called(place):
    world = shared()
    world.pod("stranger", namespace="elsewhere", queue=place)
    world.pod("member", namespace="elsewhere", group="g")
    world.pod_group("g", 1, namespace="elsewhere", queueName=place)
    world.run()
    assert world.where(namespace="elsewhere") == {}
    assert world.used("cq") == 0


def test_a_gang_of_another_namespace_cannot_be_joined():
    world = shared()
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g")
    world.pod("intruder", namespace="elsewhere", group="g")
    world.run()
    assert world.where() == {}
    assert world.used("cq") == 0


@pytest.mark.parametrize("consents", [False, True])
def test_gangs_of_two_namespaces_are_one_only_where_both_say_so(consents):
    """Koordinator's groups: who merely names another's gang neither holds that up nor comes by its queue."""
    prefix, both = "gang.scheduling.koordinator.sh/", '["default/g", "elsewhere/h"]'
    world = shared()
    world.pod("h-0", namespace="elsewhere", queue="queue",
              annotations={f"{prefix}name": "h", f"{prefix}min-available": "1", f"{prefix}groups": both})  # fmt: skip
    world.run()
    assert world.where(namespace="elsewhere") == {}
    assert world.used("cq") == 0
    said = {f"{prefix}groups": both} if consents else {}
    world.pod("g-0", queue="queue", annotations={f"{prefix}name": "g", f"{prefix}min-available": "1", **said})
    world.run()
    assert world.where() == {"g-0": "inside"}
    assert world.where(namespace="elsewhere") == ({"h-0": "inside"} if consents else {})


@pytest.mark.parametrize(
    "asks",
    [
        {"selector": {"kind": "outside"}},
        {"tolerations": [Toleration(operator="Exists")]},
        {"selector": {"kind": "outside"}, "tolerations": [Toleration(operator="Exists")]},
        {"selector": {"kubernetes.io/hostname": "outside"}, "tolerations": [Toleration(operator="Exists")]},
    ],
)
@pytest.mark.parametrize("annotations", [{}, {ADMISSION_ANNOTATION: FORGED}])
def test_no_pod_of_a_queue_gets_onto_a_node_that_its_flavor_excludes(asks, annotations):
    world = shared()
    for number in range(3):
        world.pod(f"p{number}", queue="queue", annotations=annotations, **asks)
    world.run()
    assert set(world.where().values()) <= {"inside"}


def largest(world: World) -> int:
    """Bytes of the largest decision."""
    return max(len(msgspec.json.encode(decision)) for decision in world.log)


def many_resources(world: World) -> None:
    pod = world.pod("p")
    asks = {f"example.com/{'r' * 40}-{number}": "1" for number in range(10_000)}
    containers = [Container("c", resources=ResourceRequirements(asks))]
    world.put(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=containers)))


def many_queues(world: World) -> None:
    world.pod_group("g", 2)
    for number in range(1000):
        world.pod(f"g-{number}", group="g", queue=f"queue-{'q' * 40}-{number}")


def many_sizes(world: World) -> None:
    prefix = "gang-scheduling.preferred.jp/gang"
    for number in range(1000):
        world.pod(f"g-{number}", annotations={f"{prefix}-name": "g", f"{prefix}-size": str(number + 1)})


def many_local_queues(world: World) -> None:
    for number in range(2000):
        world.object("LocalQueue", f"queue-{'q' * 40}-{number}", {"clusterQueue": "none"})
    world.pod("p", queue="another")


def many_mistakes(world: World) -> None:
    groups = [{"name": f"g{number}", "count": -1} for number in range(18)]
    mistakes = {f"{'f' * 100}{number}": 1 for number in range(1000)}
    world.object("Workload", "w", {"podGroups": groups, **mistakes})


@pytest.mark.parametrize("fill", [many_resources, many_queues, many_sizes, many_local_queues, many_mistakes])
def test_ten_thousand_reasons_are_told_in_what_an_api_server_takes(fill):
    """Each is repeated on every pod of a gang, so it must stay small; 32,768 is what a condition may hold."""
    world = World()
    world.node("n1")
    fill(world)
    world.run()
    assert world.log
    assert largest(world) <= 3 * LONGEST_TEXT


def test_ten_thousand_nodes_that_keep_a_gang_out_are_counted_and_not_listed():
    world = World()
    for number in range(10_000):
        world.node(f"n{number}", taints=[Taint(key=f"example.com/{'x' * 40}-{number}", value="v", effect="NoSchedule")])
    world.gang("g", 2)
    world.run()
    assert world.why("PodGroup", "g").message.startswith("0/10000 nodes are available: 10000 node(s) had untolerated")
    assert largest(world) <= LONGEST_TEXT


def test_what_is_cut_says_how_much_is_left_out():
    why = Explanation(Gate.QUOTA, "X", "m" * 10_000, {f"reason {number}": "1" for number in range(100)})
    assert len(why.message) == LONGEST_TEXT
    assert why.message.endswith("m... (5904 more characters)")
    assert len(why.details) == MOST_ENTRIES + 1
    assert why.details["more"] == "68"


def test_a_megabyte_of_annotations_is_neither_repeated_nor_in_the_way():
    world = World()
    world.node("n1")
    noise = {f"example.com/{number}": "x" * 1000 for number in range(1000)}
    world.pod("loud", gpus=9, annotations=noise)
    world.pod("quiet")
    world.run()
    assert world.where() == {"quiet": "n1"}
    assert largest(world) <= LONGEST_TEXT
