"""Nobody is taken out by a priority that somebody has only written: the API server must have admitted pods with it.

Whoever may write PodGroups and Workloads can name every PriorityClass in them, whatever his ResourceQuota says of pods.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.reading.test_priority import put_class, template
from tests.engine.world import World, replaced
from tutti.api.core import SchedulingGroup
from tutti.engine.records.decisions import Evict

NATIVE = "scheduling.k8s.io/v1alpha2"
OF_PODS = {"group": "scheduling.k8s.io", "kind": "PriorityClass"}
URGENT: dict[str, Any] = {
    "apiVersion": "scheduling.tutti.dev/v1alpha1",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent", "uid": "urgent"},
    "value": 100,
}


def full(**spec: Any) -> World:
    """A node full of pods of another tenant, who is in no queue, or in the queue of all where `spec` says how."""
    world = World(namespaces=("default", "others"))
    put_class(world, "high", 100)
    put_class(world, "middle", 5)
    for name in ("system-node-critical", "system-cluster-critical"):
        put_class(world, name, 2_000_001_000)
    world.node("n", gpus=4)
    if spec:
        world.flavor()
        world.queue("cq", 4, preemption=spec)
        world.object("LocalQueue", "queue", {"clusterQueue": "cq"}, "others")
    for rank in range(2):
        world.pod(f"v{rank}", namespace="others", gpus=2, priority=10, queue="queue" if spec else "")
    world.run()
    assert len(world.where(namespace="others")) == 2
    return world


def evicted(world: World) -> int:
    world.until(60.0)
    return len([one for one in world.log if isinstance(one, Evict)])


@pytest.mark.parametrize(
    ("named", "pods", "gone"),
    [
        ("high", 0, 0),  # the attack: the class of the PodGroup alone
        ("high", 100, 2),
        ("high", 20, 2),  # as far as the pods go
        ("middle", 100, 0),  # the PodGroup asks for less
        ("", 100, 2),
        ("missing", 0, 0),
    ],
)
def test_a_pod_group_takes_out_others_by_the_lesser_of_its_class_and_its_pods(named, pods, gone):
    world = full()
    world.pod_group("jump", 2, **({"priorityClassName": named} if named else {}))
    for rank in range(2):
        world.pod(f"jump-{rank}", group="jump", gpus=2, priority=pods)
    assert evicted(world) == gone
    assert len(world.where("jump")) == gone


@pytest.mark.parametrize(("pods", "gone"), [(0, 0), (100, 2)])
@pytest.mark.parametrize("spec", [{"priority": 100}, {"priorityClassName": "high"}])
def test_neither_does_a_pod_group_of_kubernetes_by_what_it_names_alone(spec, pods, gone):
    world = full()
    world.gang_object(NATIVE, "jump", {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec})
    for rank in range(2):
        pod = world.pod(f"jump-{rank}", gpus=2, priority=pods, gated=True)
        spec_of = replaced(pod.spec, scheduling_group=SchedulingGroup(pod_group_name="jump"), scheduling_gates=[])
        world.put(replaced(pod, spec=spec_of))
    assert evicted(world) == gone
    assert len(world.where("jump")) == gone


@pytest.mark.parametrize(("pods", "gone"), [(0, 0), (100, 2)])
def test_nor_does_one_of_volcano(pods, gone):
    world = full()
    world.gang_object("scheduling.volcano.sh/v1beta1", "jump", {"minMember": 2, "priorityClassName": "high"})
    for rank in range(2):
        world.pod(f"jump-{rank}", gpus=2, priority=pods, annotations={"scheduling.k8s.io/group-name": "jump"})
    assert evicted(world) == gone


@pytest.mark.parametrize(
    ("ref", "pods", "gone"),
    [
        ({**OF_PODS, "name": "high"}, 0, 0),
        ({**OF_PODS, "name": "high"}, 100, 2),
        ({"kind": "WorkloadPriorityClass", "name": "urgent"}, 0, 2),  # an administrator's word about queues
        ({"kind": "WorkloadPriorityClass", "name": "urgent"}, 100, 2),
    ],
)
def test_within_a_queue_a_class_of_pods_counts_as_far_as_pods_have_it_and_one_of_workloads_in_full(ref, pods, gone):
    world = full(withinClusterQueue="LowerPriority")
    world.put_object("WorkloadPriorityClass", {**URGENT})
    world.workload("w", {"count": 2}, queueName="queue", priorityClassRef=ref)
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w", gpus=2, priority=pods)
    assert evicted(world) == gone
    assert len(world.where("w")) == gone


@pytest.mark.parametrize(("pods", "gone"), [(0, 0), (100, 2)])
def test_within_a_queue_the_class_of_a_pod_group_counts_as_far_as_pods_have_it(pods, gone):
    world = full(withinClusterQueue="LowerPriority")
    world.pod_group("jump", 2, priorityClassName="high", queueName="queue")
    for rank in range(2):
        world.pod(f"jump-{rank}", group="jump", gpus=2, priority=pods)
    assert evicted(world) == gone


@pytest.mark.parametrize("within", [{}, {"withinClusterQueue": "LowerPriority"}], ids=["nodes", "queue"])
def test_pods_that_are_only_promised_take_out_nobody_by_the_class_of_their_template(within):
    world = full(**within)
    queue = {"queueName": "queue"} if within else {}
    world.workload("ghosts", {"count": 2, "template": template("high")}, **queue)
    assert evicted(world) == 0


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_system_classes_of_pod_groups_and_workloads_are_refused_and_told_so(name):
    world = full()
    world.node("free", gpus=4)
    world.pod_group("jump", 1, priorityClassName=name)
    world.pod("jump-0", group="jump", priority=2_000_001_000)
    world.workload("w", {"count": 1}, priorityClassRef={**OF_PODS, "name": name})
    world.pod("w-0", workload="w")
    assert evicted(world) == 0
    assert world.where() == {}
    for kind, which, told in (("PodGroup", "jump", "Scheduled"), ("Workload", "w", "Admitted")):
        condition = world.condition(kind, which, told)
        assert (condition["status"], world.reason(kind, which)) == ("False", "SystemPriorityClass")
        assert name in condition["message"]
    world.pod_group("jump", 1, priorityClassName="high")
    world.workload("w", {"count": 1}, priorityClassRef={**OF_PODS, "name": "high"})
    world.until(60.0)
    assert set(world.where()) == {"jump-0", "w-0"}


def test_what_runs_when_its_pod_group_comes_to_name_a_system_class_is_left_alone():
    world = full()
    world.node("free", gpus=4)
    world.gang("g", 2)
    world.run()
    world.pod_group("g", 2, priorityClassName="system-node-critical")
    world.until(200.0)
    assert set(world.where()) == {"g-0", "g-1"}


@pytest.mark.parametrize(
    ("name", "pods", "gone"),
    [
        ("high", 0, 0),  # the attack: the label of an owner alone
        ("high", 100, 2),
        ("high", 20, 2),
        ("urgent", 0, 2),  # an administrator's word about queues
        ("missing", 0, 0),
    ],
)
@pytest.mark.parametrize("key", ["scheduling.tutti.dev/priority-class", "kueue.x-k8s.io/priority-class"])
def test_within_a_queue_a_class_of_pods_that_an_owner_names_counts_as_far_as_pods_have_it(key, name, pods, gone):
    world = full(withinClusterQueue="LowerPriority")
    world.follow_owners()
    world.put_object("WorkloadPriorityClass", {**URGENT})
    owned(world, {key: name}, priority=pods)
    assert evicted(world) == gone
    assert len(world.where("jump")) == gone


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_system_classes_that_owners_name_are_refused_and_told_so(name):
    world = full(withinClusterQueue="LowerPriority")
    world.node("free", gpus=4)
    world.follow_owners()
    owned(world, {"scheduling.tutti.dev/priority-class": name}, priority=0)
    assert evicted(world) == 0
    assert world.where() == {}
    (found,) = [one for one in world.engine.state.workloads.values() if one.explanation is not None]
    assert found.explanation is not None
    assert found.explanation.reason == "SystemPriorityClass"
    assert name in found.explanation.message


def owned(world: World, labels: dict[str, str], *, priority: int) -> None:
    """An Indexed Job of two pods with these labels."""
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": {"spec": {}}}
    job = world.owner("Job", "jump", labels={"kueue.x-k8s.io/queue-name": "queue"} | labels, spec=spec)
    for rank in range(2):
        index = {"batch.kubernetes.io/job-completion-index": str(rank)}
        world.pod(f"jump-{rank}", owner=job, gpus=2, priority=priority, labels=index)
