"""What cluster-autoscaler and Karpenter make of the pods of gangs, by their own rules for which pods want nodes.

The rules are models of theirs, applied to pods as the engine leaves them:
cluster-autoscaler 1.36, utils/kubernetes/listers.go (isUnschedulable, SchedulerUnprocessed) and core/podlistprocessor
(FilterOutExpendable, CurrentlyDrainedNodes: a pod that names a node is put there); Karpenter 1.x, utils/pod/scheduling.go
(IsProvisionable: FailedToSchedule, not IsPreempting, not IsScheduled).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine.storage import ZONE
from tests.engine.world import GPU, World, replaced
from tests.placement.storage import claim, storage_class
from tutti.api.core import Pod
from tutti.engine.records.decisions import SetPodCondition
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.gang_membership import GATE_ANNOTATION as GATE

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "reasons.md"
EXPENDABLE_BELOW = -10
"""--expendable-pods-priority-cutoff."""


def cluster_autoscaler_adds_for(pod: Pod) -> bool:
    """Whether cluster-autoscaler looks for nodes for a pod; `--bypassed-scheduler-names` is not set."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.status.nominated_node_name:
        return False
    if (pod.spec.priority or 0) < EXPENDABLE_BELOW:
        return False
    told = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    return any(c.status == "False" and c.reason == "Unschedulable" for c in told)


def cluster_autoscaler_counts_on(pod: Pod) -> str:
    """On which node cluster-autoscaler counts a pod: a node with a pod on it is not unneeded."""
    return pod.spec.node_name or pod.status.nominated_node_name


def unprocessed(pod: Pod) -> bool:
    """Whether a scheduler of `--bypassed-scheduler-names` would have left it to cluster-autoscaler: no reason yet."""
    return not any(c.type == "PodScheduled" and c.reason for c in pod.status.conditions)


def karpenter_provisions_for(pod: Pod) -> bool:
    """Whether Karpenter looks for a node for a pod, or keeps the one that it would fit on."""
    if pod.spec.node_name or pod.status.nominated_node_name or pod.metadata.deletion_timestamp is not None:
        return False
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)


def members(world: World, name: str = "g") -> list[Pod]:
    return [pod for (_, each), pod in sorted(world.pods.items()) if each.startswith(f"{name}-")]


def reasons_on_the_page() -> list[tuple[str, str]]:
    """Each gate and reason that a workload can be told; a test of the page holds it to what the engine can say."""
    return sorted(set(re.findall(r"^\| (\w+) \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)))


@pytest.mark.parametrize(("gate", "reason"), reasons_on_the_page())
def test_only_who_lacks_a_node_says_unschedulable(gate, reason):
    lacks = (gate, reason) in {("Placement", "Unschedulable"), ("Placement", "Impossible")}
    assert (Explanation(Gate(gate), reason, "").pod_reason == "Unschedulable") is lacks


def test_a_gang_without_room_has_all_its_members_counted_though_some_would_fit():
    world = World()
    world.node("n0", gpus=2)
    world.gang("g", 3)
    world.run()
    assert all(cluster_autoscaler_adds_for(pod) and karpenter_provisions_for(pod) for pod in members(world))


def test_all_members_of_a_gang_are_told_in_one_turn_one_after_the_other():
    world = World()
    world.node("n0", gpus=2)
    for name in ("a", "g"):
        world.gang(name, 50)
    told = [
        (d.name.partition("-")[0], turn) for turn in range(20) for d in world.decide() if isinstance(d, SetPodCondition)
    ]
    assert len(told) == 100
    assert len(set(told)) == 2  # each gang in a turn of its own, or both in one
    order = [name for name, _ in told]
    assert order == sorted(order)


@pytest.mark.parametrize("wait", ["quota", "queue on hold", "gathering", "gated", "approval", "no queue"])
def test_nobody_adds_nodes_for_a_gang_that_waits_for_something_else(wait):
    world = World(autoscaler="None", require_queue=wait == "no queue")
    world.node("n0", gpus=8)
    world.flavor()
    world.queue("cq", 2 if wait == "quota" else 8, **({"stopPolicy": "Hold"} if wait == "queue on hold" else {}))
    queue = "" if wait == "no queue" else "queue"
    annotations = {GATE: "budget"} if wait == "approval" else {}
    size = 2 if wait == "gathering" else 3
    world.gang("g", size, min_count=3, queue=queue, annotations=annotations, gated=wait == "gated")
    world.until(30)
    assert not world.where()
    for pod in members(world):
        assert not cluster_autoscaler_adds_for(pod)
        assert not karpenter_provisions_for(pod)
        assert wait == "gated" or not unprocessed(pod)  # the API server writes what gated pods are told


def test_a_gathering_gang_is_told_so_once_that_has_lasted_and_only_once():
    world = World()
    world.node("n0")
    world.pod_group("g", 4)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    told = [d for d in world.until(9) if isinstance(d, SetPodCondition)]
    assert not told  # most gangs are whole by then
    told = [d for d in world.until(2) if isinstance(d, SetPodCondition)]
    assert {(d.name, d.reason) for d in told} == {("g-0", "WaitingForMembers"), ("g-1", "WaitingForMembers")}
    world.pod("g-2", group="g")
    told = [d for d in world.until(60) if isinstance(d, SetPodCondition)]
    assert [d.name for d in told] == ["g-2"]  # the numbers change where they are told: in the status of the PodGroup
    world.restart()
    assert not [d for d in world.until(60) if isinstance(d, SetPodCondition)]


def test_members_of_a_gang_with_gates_say_what_is_missing_and_never_that_they_have_gates():
    world = World()
    world.node("n0")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", gated=True)
    world.until(20)
    assert world.reason("PodGroup", "g") == "SchedulingGated"
    assert world.pod_condition("g-0").reason == "WaitingForMembers"
    assert world.pod_condition("g-1") is None  # the API server tells it


def held(autoscaler: str) -> World:
    world = World(autoscaler=autoscaler)
    world.node("n0", gpus=2)
    world.node("n1", gpus=2)
    world.gang("g", 4, annotations={GATE: "budget"})
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForApproval"
    return world


def test_cluster_autoscaler_counts_held_members_on_their_nodes():
    world = held("ClusterAutoscaler")
    assert sorted(cluster_autoscaler_counts_on(pod) for pod in members(world)) == ["n0", "n0", "n1", "n1"]
    assert not any(cluster_autoscaler_adds_for(pod) for pod in members(world))
    assert {world.pod_condition(pod.metadata.name).reason for pod in members(world)} == {"WaitingForApproval"}


def test_karpenter_sees_held_members_as_pods_that_want_a_node():
    world = held("Karpenter")
    assert all(karpenter_provisions_for(pod) for pod in members(world))
    assert not any(pod.status.nominated_node_name for pod in members(world))


def test_without_an_autoscaler_held_members_name_no_node():
    world = held("None")
    assert not any(pod.status.nominated_node_name for pod in members(world))
    assert not any(karpenter_provisions_for(pod) for pod in members(world))


@pytest.mark.parametrize("autoscaler", ["ClusterAutoscaler", "Karpenter", "None"])
def test_what_said_unschedulable_says_otherwise_once_it_is_held(autoscaler):
    world = World(autoscaler=autoscaler)
    world.gang("g", 2, annotations={GATE: "budget"})
    world.run()
    assert {world.pod_condition(pod.metadata.name).reason for pod in members(world)} == {"Unschedulable"}
    world.node("n0")
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForApproval"
    counted = {cluster_autoscaler_adds_for(pod) for pod in members(world)}
    assert counted == {autoscaler == "Karpenter"}


def test_a_nomination_is_taken_back_with_the_reservation():
    world = held("ClusterAutoscaler")
    world.until(301)  # permitTimeoutSeconds
    assert world.events("PermitTimeout")
    back = [d for d in world.log if isinstance(d, SetPodCondition) and d.nominated_node == ""]
    assert {d.name for d in back} == {f"g-{rank}" for rank in range(4)}


def test_a_nomination_follows_the_reservation_to_another_node():
    world = World(autoscaler="ClusterAutoscaler")
    world.node("n0", gpus=2)
    world.gang("g", 2, annotations={GATE: "budget"})
    world.run()
    world.remove_node("n0")
    world.until(1)
    assert {pod.status.nominated_node_name for pod in members(world)} == {""}
    assert all(cluster_autoscaler_adds_for(pod) for pod in members(world))
    world.node("n1", gpus=2)
    world.until(30)
    assert {cluster_autoscaler_counts_on(pod) for pod in members(world)} == {"n1"}


def test_a_nomination_of_an_earlier_process_is_taken_back_where_nothing_is_held_any_more():
    world = held("ClusterAutoscaler")
    world.remove_node("n1")
    world.restart()
    world.until(1)
    assert {pod.status.nominated_node_name for pod in members(world)} == {""}
    assert all(cluster_autoscaler_adds_for(pod) for pod in members(world))


def test_approved_members_are_bound_where_they_were_nominated():
    world = held("ClusterAutoscaler")
    nominated = {pod.metadata.name: pod.status.nominated_node_name for pod in members(world)}
    for pod in members(world):
        world.put(replaced(pod, metadata=replaced(pod.metadata, annotations={})))
    world.run()
    assert world.where("g-") == nominated


def test_a_gang_that_waits_for_volumes_counts_on_its_nodes():
    world = World(autoscaler="ClusterAutoscaler")
    world.node("n0", labels={ZONE: "a"})
    world.storage.held = True
    world.storage.put(storage_class(provisioner="csi.example.com"), claim("c"))
    world.pod("g-0", claims=("c",))
    world.run()
    assert world.reason("Pod", "g-0") == "WaitingForVolumes"
    assert cluster_autoscaler_counts_on(world.pods["default", "g-0"]) == "n0"


def test_a_condition_is_written_again_for_another_generation_of_the_pod():
    world = World()
    world.node("n0", gpus=0)
    world.gang("g", 2)
    for pod in members(world):
        world.put(replaced(pod, metadata=replaced(pod.metadata, generation=1)))
    told = [d for d in world.run() if isinstance(d, SetPodCondition)]
    assert {d.observed_generation for d in told} == {1}
    pod = world.pods["default", "g-1"]
    world.put(replaced(pod, metadata=replaced(pod.metadata, generation=2)))
    told = [d for d in world.run() if isinstance(d, SetPodCondition)]
    assert [(d.name, d.observed_generation, d.reason) for d in told] == [("g-1", 2, "Unschedulable")]
    world.restart()
    assert not [d for d in world.run() if isinstance(d, SetPodCondition)]  # it is told for this generation


def test_expendable_pods_get_no_nodes():
    world = World()
    world.node("n0", gpus=0)
    world.pod("g-0", priority=-11)
    world.run()
    pod = world.pods["default", "g-0"]
    assert (cluster_autoscaler_adds_for(pod), karpenter_provisions_for(pod)) == (False, True)
    assert GPU in world.pod_condition("g-0").message
