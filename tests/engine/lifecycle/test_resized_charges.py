"""What is resized in place uses what its kubelet has granted, and holds of its node what it may come to have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import GPU, World, replaced
from tutti.api.core import Container, ContainerStatus, PodCondition, ResourceRequirements
from tutti.engine.records.gang_membership import GATE_ANNOTATION

CPU = {"resource": "cpu"}


def cores(most: int) -> World:
    """A queue of so many cores, and a node."""
    world = World()
    world.flavor()
    quota = {"name": "cpu", "nominalQuota": str(most)}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    world.node("n0")
    return world


def core(world: World, name: str, cpu: str, **more: Any) -> None:
    world.pod(name, memory="0", cpu=cpu, **{"gpus": 0, "queue": "queue", **more})


def resize(
    world: World,
    name: str,
    namespace: str = "default",
    *,
    actual: str = "",
    allocated: str = "",
    state: str = "",
    **amounts: str,
) -> None:
    """The pod's `resize` is written; the kubelet may still have granted other amounts."""
    pod = world.pods[namespace, name]
    asked = {**pod.spec.containers[0].resources.requests, **amounts}
    containers = [Container("c", resources=ResourceRequirements(asked))]
    granted = ContainerStatus(
        "c",
        resources=ResourceRequirements({"cpu": actual}) if actual else None,
        allocated_resources={"cpu": allocated} if allocated else {},
    )
    status = replaced(
        pod.status,
        container_statuses=[granted] if actual or allocated else [],
        conditions=[PodCondition("PodResizePending", "True", state)] if state else [],
    )
    world.put(replaced(pod, spec=replaced(pod.spec, containers=containers), status=status))
    world.run()


def recounted(world: World, queue: str = "cq", flavor: str = "default", resource: str = "cpu") -> int:
    """What a queue uses, which must be what one started anew would say."""
    now = world.used(queue, flavor, resource)
    world.restart()
    world.run()
    assert world.used(queue, flavor, resource) == now
    return now


def test_a_pod_that_is_resized_uses_more_and_nobody_is_admitted_on_top():
    world = cores(8)
    core(world, "a", "1")
    world.run()
    resize(world, "a", cpu="8")
    assert world.used("cq", **CPU) == 8000
    core(world, "b", "7")
    world.run()
    assert set(world.where()) == {"a"}
    assert "needs 7 cpu in default; 0 free now" in world.why("Pod", "b").message
    assert recounted(world) == 8000


def test_a_pod_that_is_resized_uses_less_and_others_go_on():
    world = cores(8)
    core(world, "a", "8")
    core(world, "b", "7")
    world.run()
    assert set(world.where()) == {"a"}
    resize(world, "a", cpu="1")
    assert set(world.where()) == {"a", "b"}
    assert recounted(world) == 8000


def test_a_queue_that_a_resize_takes_beyond_its_quota_is_told_so_and_nobody_is_taken_out():
    world = cores(8)
    core(world, "a", "4")
    core(world, "b", "4")
    world.run()
    resize(world, "a", cpu="6")
    (event,) = world.events("QuotaExceeded")
    assert (event.kind, event.name) == ("ClusterQueue", "cq")
    assert "10 of 8 cpu of flavor default" in event.note
    assert set(world.where()) == {"a", "b"}
    assert ("ClusterQueue", "", "cq") in world.engine.state.overuses.reported
    resize(world, "a", cpu="4")
    assert not world.engine.state.overuses.reported
    assert recounted(world) == 8000


@pytest.mark.parametrize(
    ("case", "held", "used"),
    [  # Kubernetes 1.36, component-helpers/resource/helpers.go: the most that it may have is held of the node
        ({"cpu": "2", "actual": "4", "allocated": "4"}, 4000, 4000),
        ({"cpu": "6", "actual": "4", "allocated": "4"}, 6000, 4000),  # the kubelet has yet to answer
        ({"cpu": "6", "actual": "4", "allocated": "4", "state": "Deferred"}, 6000, 4000),
        ({"cpu": "6", "actual": "4", "allocated": "4", "state": "Infeasible"}, 4000, 4000),
        ({"cpu": "6", "actual": "4", "allocated": "6"}, 6000, 6000),  # granted, and not yet actuated
        ({"cpu": "9", "actual": "4", "allocated": "6", "state": "Deferred"}, 9000, 6000),
        ({"cpu": "6", "actual": "4"}, 6000, 6000),  # of a kubelet that does not say what it has granted
        ({"cpu": "6", "actual": "4", "state": "Deferred"}, 6000, 4000),
        ({"cpu": "6"}, 6000, 6000),
        ({"cpu": "6", "state": "Deferred"}, 6000, 6000),  # nothing tells what it has
    ],
)
def test_while_a_pod_is_resized_it_uses_of_quota_what_was_granted_and_holds_of_its_node_what_it_may_have(
    case, held, used
):
    world = cores(8)
    core(world, "a", "4")
    world.run()
    resize(world, "a", **case)
    assert recounted(world) == used
    nodes = world.engine.state.cluster.nodes
    assert nodes.requested[nodes.rows["n0"]][nodes.resource_index.column("cpu")] == held


def two_tenants() -> World:
    """A cohort of two queues of 4 cores, one for each namespace, and two nodes of 64."""
    world = World(namespaces=("default", "theirs"))
    world.flavor()
    quota = {"name": "cpu", "nominalQuota": "4"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    for name, namespace in (("honest", "default"), ("greedy", "theirs")):
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "cohortName": "all"}
        world.object("ClusterQueue", name, spec)
        world.object("LocalQueue", "queue", {"clusterQueue": name}, namespace)
    for node in ("n0", "n1"):
        world.node(node, cpu="64")
    return world


def test_a_raise_that_the_kubelet_puts_off_has_nobody_else_of_the_cohort_wait_and_is_charged_once_it_is_granted():
    world = two_tenants()
    core(world, "greedy", "1", namespace="theirs")
    world.run()
    node = world.where(namespace="theirs")["greedy"]
    core(world, "fills", "63", queue="", node=node)
    resize(world, "greedy", "theirs", cpu="60", actual="1", allocated="1", state="Deferred")
    assert world.used("greedy", **CPU) == 1000
    core(world, "works", "4")
    world.run()
    assert "works" in world.where()
    assert not world.events("QuotaExceeded")
    world.delete("fills")
    resize(world, "greedy", "theirs", cpu="60", actual="1", allocated="60")
    assert recounted(world, "greedy") == 60000
    assert [event.name for event in world.events("QuotaExceeded")]


@pytest.mark.parametrize("end", ["deleted", "failed"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
@pytest.mark.parametrize(("queue", "cpu"), [("queue", "7"), ("", "63")])
def test_what_is_kept_for_a_member_that_was_lost_is_what_it_had_and_not_what_it_asked_for_last(
    queue, cpu, restarts, end
):
    world = two_tenants()
    world.pod_group("g", 2, "theirs", **({"queueName": queue} if queue else {}))
    for rank in range(2):
        core(world, f"g-{rank}", "1", group="g", queue="", namespace="theirs")
    world.run()
    node = world.where(namespace="theirs")["g-1"]
    resize(world, "g-1", "theirs", cpu=cpu, actual="1", allocated="1", state="Infeasible")
    if end == "failed":
        pod = world.pods["theirs", "g-1"]
        world.put(replaced(pod, status=replaced(pod.status, phase="Failed")))
    else:
        world.delete("g-1", namespace="theirs")
    world.run()
    if restarts:
        world.restart()
        world.run()
    assert set(world.where(namespace="theirs")) >= {"g-0"}
    assert world.used("greedy", **CPU) == (2000 if queue else 0)
    core(world, "beside", "32", queue="", selector={"kubernetes.io/hostname": node})
    core(world, "works", "4")
    world.run()
    assert set(world.where()) == {"beside", "works"}


def test_only_what_can_be_resized_counts_by_what_was_granted():
    """Kubelets before 1.33 do not repeat other resources in the status of a container."""
    world = cores(8)
    world.flavor()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    (group,) = spec["resourceGroups"]
    amounts = [*group["flavors"][0]["resources"], {"name": GPU, "nominalQuota": "8"}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": "default", "resources": amounts}]}]
    world.object("ClusterQueue", "cq", {**spec, "resourceGroups": groups})
    core(world, "a", "4", gpus=2)
    world.run()
    for state in ("Deferred", "Infeasible"):
        resize(world, "a", cpu="6", actual="4", allocated="4", state=state)
        assert recounted(world) == 4000
        assert recounted(world, resource=GPU) == 2


def test_a_resource_that_a_resize_adds_is_counted_in_the_flavor_of_the_others():
    world = World()
    for kind in "ab":
        world.flavor(kind)
    world.queue("cq", 8, flavors=("a", "b"))
    world.node("n0")
    world.pod("filler", gpus=8, queue="queue")
    world.pod("late", gpus=8, cpu="0", queue="queue")
    world.run()
    assert world.used("cq", "b") == 0  # its node is full
    world.node("n1")
    world.run()
    assert world.used("cq", "b") == 8
    resize(world, "late", cpu="2")
    assert recounted(world, flavor="b") == 2000
    assert world.used("cq", "a", "cpu") == 1000


def test_members_of_one_gang_are_resized_one_by_one():
    world = cores(8)
    world.pod_group("g", 3, queueName="queue")
    for rank in range(3):
        core(world, f"g-{rank}", "1", group="g", queue="")
    world.run()
    resize(world, "g-0", cpu="3")
    assert world.used("cq", **CPU) == 5000
    resize(world, "g-1", cpu="500m")
    assert world.used("cq", **CPU) == 4500
    world.finish("g-0")
    world.run()
    assert recounted(world) == 1500


def test_a_victim_that_is_resized_while_it_leaves_gives_its_preemptor_what_was_promised():
    world = cores(8)
    found = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**found, "preemption": {"withinClusterQueue": "LowerPriority"}})
    core(world, "low", "8")
    world.run()
    world.hold_evictions = True
    core(world, "urgent", "6", priority=9)
    world.run()
    assert world.reason("Pod", "urgent") == "WaitingForVictims"
    resize(world, "low", cpu="4")
    world.delete("low")
    world.run()
    assert set(world.where()) == {"urgent"}
    assert recounted(world) == 6000


@pytest.mark.parametrize("amount", ["5", "7"], ids=["that is still there", "that is not there"])
def test_a_member_that_comes_to_ask_for_more_while_it_is_held_is_let_in_by_what_it_asks_for_then(amount: str) -> None:
    """It had let itself be admitted with little, and been bound with any amount."""
    world = cores(8)
    asks = {GATE_ANNOTATION: "by its own wish"}
    world.gang("g", 2, gpus=0, memory="0", cpu="1", queue="queue", annotations=asks)
    world.run()
    assert (world.reason("PodGroup", "g"), world.used("cq", **CPU)) == ("WaitingForApproval", 2000)
    core(world, "other", "2")
    world.run()

    resize(world, "g-1", cpu=amount)
    for name in ("g-0", "g-1"):
        pod = world.pods["default", name]
        world.put(replaced(pod, metadata=replaced(pod.metadata, annotations={})))
    world.until(60)
    fits = amount == "5"
    assert len(world.where("g")) == 2 * fits
    assert recounted(world) == (8000 if fits else 2000)
    assert not world.replay().differences


def test_a_member_that_comes_to_ask_for_less_while_it_is_held_stays_held() -> None:
    world = cores(8)
    world.gang("g", 2, gpus=0, memory="0", cpu="2", queue="queue", annotations={GATE_ANNOTATION: "budget"})
    world.run()
    resize(world, "g-1", cpu="1")
    assert world.reason("PodGroup", "g") == "WaitingForApproval"
    assert world.used("cq", **CPU) == 3000
    assert len(world.events("WaitingForApproval")) == 1


def test_one_that_is_on_its_way_is_charged_for_what_it_has_come_to_ask_for() -> None:
    world = cores(8)
    world.hold_binds = True
    core(world, "a", "1")
    world.run()
    resize(world, "a", cpu="9")
    (sent,) = world.pending_binds
    world.answer(sent, "Bound")
    world.run()
    assert world.where() == {"a": "n0"}
    assert recounted(world) == 9000
