"""What runs uses what it holds, of what it was admitted in: now, after a resize, and after any restart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, indexed
from tests.engine.ingest.owners import pods as owned_pods
from tests.engine.world import GPU, World, replaced
from tutti.api.core import Container, ContainerStatus, PodCondition, ResourceRequirements
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

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
