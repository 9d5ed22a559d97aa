"""Bad input is told to whoever wrote it, once and clearly, and everything else goes on."""

from __future__ import annotations

import json

import pytest

from tests.engine.world import GPU, World, replaced
from tutti.api.core import Container, ResourceRequirements
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import ObjectSeen

PFNET = "gang-scheduling.preferred.jp/gang"


@pytest.fixture
def world():
    """A cluster in which a bystander is scheduled after the bad input, whatever that is."""
    world = World()
    world.flavor()
    world.queue("cq", 8)
    world.node("n1")
    yield world
    world.until(30.0)
    world.gang("bystander", 2, queue="queue")
    world.until(30.0)
    assert len(world.where("bystander")) == 2
    assert world.replay().differences == []


def complaints(world: World, name: str) -> list[str]:
    return [d.note for d in world.log if isinstance(d, EmitEvent) and d.type == "Warning" and d.name == name]


def test_a_pod_group_with_a_minimum_of_zero(world):
    world.gang("g", 1)
    world.pod_group("g", 0)
    world.run()
    (note,) = complaints(world, "g")
    assert "minCount" in note
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "Invalid"
    assert world.where("g") == {}
    why = world.why("PodGroup", "g")
    assert why.reason == "InvalidPodGroup"
    assert "minCount" in why.message
    world.pod_group("g", 1)
    world.run()
    assert world.where("g") == {"g-0": "n1"}


def test_a_workload_that_cannot_be_read(world):
    world.object("Workload", "w", {"podGroups": []})
    world.pod("w-0", workload="w")
    world.run()
    (note,) = complaints(world, "w")
    assert "podGroups" in note
    assert world.why("Workload", "w").reason == "InvalidWorkload"
    assert world.where("w") == {}


def test_a_workload_that_names_no_local_queue_that_exists(world):
    world.workload("w", {"count": 1}, queueName="typo")
    world.pod("w-0", workload="w")
    world.until(2.0)
    assert complaints(world, "w") == [
        "LocalQueue default/typo does not exist; this namespace has: queue",
    ]
    assert world.condition("Workload", "w", "Admitted")["reason"] == "LocalQueueNotFound"
    world.object("LocalQueue", "typo", {"clusterQueue": "cq"})
    world.run()
    assert world.where("w") == {"w-0": "n1"}


def test_a_cluster_queue_that_names_a_missing_flavor(world):
    world.queue("broken", 8, flavors=("missing",), local="broken")
    world.pod("p", queue="broken")
    world.run()
    (note,) = complaints(world, "p")
    assert "ResourceFlavor missing does not exist" in note
    assert world.reason("Pod", "p") == "ClusterQueueInactive"
    world.flavor("missing")
    world.run()
    assert world.where("p") == {"p": "n1"}


def test_a_cluster_queue_that_cannot_be_read(world):
    """Whoever waits at it is told which field is wrong, whether the queue was fine before or not."""
    world.queue("broken", 8, local="broken")
    world.pod("p", queue="broken", gpus=9)
    world.run()
    assert world.reason("Pod", "p") == "ExceedsMaxQuota"
    spec = world.objects["ClusterQueue", "", "broken"]["spec"]
    for wrong in ({"queueingStrategy": "Random"}, {"preemption": {"withinClusterQueue": "Often"}}):
        world.object("ClusterQueue", "broken", {**spec, **wrong})
        world.run()
        why = world.why("Pod", "p")
        assert (why.gate, why.reason) == ("Queue", "ClusterQueueInvalid")
        assert f"ClusterQueue broken: spec.{next(iter(wrong))}" in why.message
    assert len(complaints(world, "p")) == 2
    world.object("ClusterQueue", "new", {**spec, "stopPolicy": "Now"})
    world.object("LocalQueue", "new", {"clusterQueue": "new"})
    world.pod("q", queue="new")
    world.run()
    assert "ClusterQueue new: spec.stopPolicy" in world.why("Pod", "q").message
    for name in ("broken", "new"):
        world.object("ClusterQueue", name, spec)
    world.pod("p", queue="broken")
    world.run()
    assert set(world.where()) == {"p", "q"}


def test_a_cluster_queue_of_which_a_reference_cannot_be_read(world):
    world.flavor("wrong", nodeTaints=[{"key": "a"}])
    world.queue("broken", 8, flavors=("wrong",), local="broken")
    world.pod("p", queue="broken")
    world.run()
    assert "ResourceFlavor wrong: spec.nodeTaints[0].effect" in world.why("Pod", "p").message
    world.object("Topology", "t", {"levels": []})
    world.flavor("wrong", nodeLabels={"a": "b"}, topologyName="t")
    world.run()
    assert "Topology t: spec.levels" in world.why("Pod", "p").message


def test_a_cohort_that_cannot_be_read(world):
    """Its limits are not known: nothing is admitted below it as if there were none."""
    world.object("Cohort", "top", {"resourceGroups": [{"coveredResources": [GPU], "flavors": []}]})
    world.object("Cohort", "below", {"parentName": "top"})
    world.queue("broken", 8, cohort="below", local="broken")
    world.pod("p", queue="broken")
    world.run()
    why = world.why("Pod", "p")
    assert why.reason == "ClusterQueueInactive"
    assert "Cohort top: spec.resourceGroups[0].flavors" in why.message
    world.object("Cohort", "top", {})
    world.run()
    assert world.where("p") == {"p": "n1"}


def test_a_local_queue_that_cannot_be_read(world):
    world.object("LocalQueue", "broken", {"clusterQueue": "cq", "stopPolicy": "Now"})
    world.pod("p", queue="broken")
    world.run()
    why = world.why("Pod", "p")
    assert why.reason == "LocalQueueInvalid"
    assert "LocalQueue default/broken: spec.stopPolicy" in why.message
    world.object("LocalQueue", "broken", {"clusterQueue": "cq"})
    world.run()
    assert world.where("p") == {"p": "n1"}


def test_a_local_queue_that_leads_nowhere(world):
    world.object("LocalQueue", "nowhere", {})
    world.pod("p", queue="nowhere")
    world.until(2.0)
    assert (
        world.why("Pod", "p").message == "LocalQueue default/nowhere names no ClusterQueue: fill in spec.clusterQueue"
    )


def test_a_ring_of_cohorts(world):
    world.object("Cohort", "a", {"parentName": "b"})
    world.object("Cohort", "b", {"parentName": "a"})
    world.queue("ringed", 8, cohort="a", local="ringed")
    world.pod("p", queue="ringed")
    world.run()
    (note,) = complaints(world, "p")
    assert "a -> b -> a" in note
    world.object("Cohort", "b", {})
    world.run()
    assert world.where("p") == {"p": "n1"}


def test_a_pod_that_asks_for_more_than_any_node_has(world):
    world.pod("p", gpus=9)
    world.run()
    (note,) = complaints(world, "p")
    assert "A pod asks for 9 nvidia.com/gpu; the largest node offers 8: ask for less, or add larger nodes" in note
    assert world.reason("Pod", "p") == "Impossible"


def test_a_pod_that_asks_for_more_than_its_queue_can_ever_have(world):
    world.pod("p", gpus=9, queue="queue")
    world.run()
    (note,) = complaints(world, "p")
    assert "it can never be admitted there" in note
    assert world.reason("Pod", "p") == "ExceedsMaxQuota"


def test_a_pod_that_asks_for_what_its_queue_does_not_cover(world):
    pod = world.pod("p", queue="queue")
    requests = ResourceRequirements({"example.com/fpga": "1"})
    world.put(replaced(pod, spec=replaced(pod.spec, containers=[Container("c", resources=requests)])))
    world.run()
    (note,) = complaints(world, "p")
    assert "no quota of example.com/fpga" in note


def test_a_quantity_that_cannot_be_read(world):
    world.pod("p", cpu="one", group="g")
    world.pod_group("g", 1)
    world.run()
    (note,) = complaints(world, "g")
    assert "'one' is not a quantity" in note
    assert world.reason("PodGroup", "g") == "InvalidPod"


def test_a_surplus_member_that_cannot_be_read_does_not_keep_its_gang_from_starting(world):
    world.gang("g", 2)
    world.pod("g-bad", group="g", cpu="one")
    world.run()
    assert set(world.where("g")) == {"g-0", "g-1"}
    assert "'one' is not a quantity" in world.why("PodGroup", "g").message


def test_requests_beyond_all_bounds(world):
    """Each of the two containers is within what the API server accepts; their sum is beyond 64 bits."""
    pod = world.pod("p")
    huge = Container("c", resources=ResourceRequirements({"memory": "8E"}))
    world.put(replaced(pod, spec=replaced(pod.spec, containers=[huge, huge])))
    world.run()
    (note,) = complaints(world, "p")
    assert "A pod asks for" in note


def test_a_node_whose_offer_cannot_be_read_offers_nothing_of_it(world):
    world.node("odd", gpus="many", labels={"odd": "yes"})
    world.pod("p", selector={"odd": "yes"})
    world.pod("q", selector={"odd": "yes"}, gpus=0)
    world.run()
    assert world.where() == {"q": "odd"}
    assert "'many' is not a quantity" in world.engine.state.cluster.unreadable["odd"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({f"{PFNET}-name": "g", f"{PFNET}-size": "two"}, "'two' is not a whole number"),
        ({f"{PFNET}-name": "g"}, "must be given"),
        ({f"{PFNET}-size": "2"}, "must be given"),
    ],
)
def test_a_gang_annotation_that_cannot_be_read(world, annotations, said):
    world.pod("p", annotations=annotations)
    world.run()
    (note,) = complaints(world, "p")
    assert said in note
    assert world.reason("Pod", "p") == "InvalidGang"
    assert world.where() == {}


def test_members_that_give_different_sizes_of_their_gang(world):
    for name, size in (("p", "2"), ("q", "3")):
        world.pod(name, annotations={f"{PFNET}-name": "g", f"{PFNET}-size": size})
    world.run()
    assert world.reason("PodGroup", "g") == "InvalidGang"
    assert "2 (p), 3 (q)" in world.why("PodGroup", "g").message
    assert world.where() == {}


def test_members_that_ask_for_different_queues(world):
    world.queue("cq2", 8, local="second")
    world.pod_group("g", 2)
    world.pod("g-0", group="g", queue="queue")
    world.pod("g-1", group="g", queue="second")
    world.run()
    (note,) = complaints(world, "g")
    assert note == "its members ask for different queues: queue (g-0), second (g-1); give all of them the same"
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "DifferentQueues"


def test_a_pod_that_names_a_group_which_its_workload_does_not_have(world):
    world.workload("w", {"name": "workers", "count": 1})
    world.pod("p", workload="w", group="worker")
    world.run()
    (note,) = complaints(world, "w")
    assert "names pod group 'worker'" in note
    assert "it has workers" in note


def test_what_is_wrong_with_one_is_never_told_of_another(world):
    """Pods that look alike to placement fail for reasons of their own."""
    world.pod("impossible", gpus=9)
    world.pod("queueless", gpus=9, queue="nowhere")
    world.until(2.0)
    assert world.reason("Pod", "impossible") == "Impossible"
    assert world.reason("Pod", "queueless") == "LocalQueueNotFound"


def test_a_gang_of_pods_that_ask_for_nothing(world):
    """They use no quota, and giving none back must not fail."""
    world.pod_group("g", 2)
    for name in ("g-0", "g-1"):
        pod = world.pod(name, group="g", queue="queue")
        world.put(replaced(pod, spec=replaced(pod.spec, containers=[Container("c")])))
    world.run()
    assert len(world.where("g")) == 2
    world.finish("g-0", "g-1")
    world.run()
    world.delete("g-0", "g-1")
    world.run()
    assert world.used("cq", resource=GPU) == 0


def test_an_object_of_the_wrong_shape(world):
    for metadata in ({"name": "a", "namespace": "default", "uid": "u", "labels": ["x"]}, "text", None):
        world.tell(ObjectSeen("PodGroup", {"metadata": metadata, "spec": 7}))
        world.run()


def test_a_gang_whose_pod_group_breaks_while_it_is_bound_is_not_left_bound_in_part(world):
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.answer(second, "Failed")
    world.pod_group("g", 0)
    world.until(61.0)
    assert world.where("g") == {}
    assert world.events("RolledBack")
    world.hold_binds = False


def is_so(world: World, kind: str, name: str) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in world.status(kind, name)["conditions"]}


@pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_spoilt_object_goes_on_saying_what_else_it_says_and_says_all_of_it_again_when_mended(world, kind, ended):
    """A merge patch replaces the conditions as a whole: what stood there is not lost, first of all that it has ended."""
    spec = {"PodGroup": {"schedulingPolicy": {"gang": {"minCount": 2}}}, "Workload": {"podGroups": [{"count": 2}]}}
    world.object(kind, "g", spec[kind])
    for name in ("g-0", "g-1"):
        world.pod(name, **({"group": "g"} if kind == "PodGroup" else {"workload": "g"}))
    world.run()
    if ended:
        world.finish("g-0", "g-1")
        world.run()
    before = is_so(world, kind, "g")
    assert before.get("Finished", ("False",))[0] == str(ended)
    world.object(kind, "g", {"podGroups": [], "schedulingPolicy": []})
    world.run()
    wrong = {"Scheduled" if kind == "PodGroup" else "Admitted": ("False", "Invalid")}
    assert is_so(world, kind, "g") == before | ({} if ended else wrong)
    assert len(complaints(world, "g")) == 1
    world.object(kind, "g", spec[kind])
    world.run()
    assert is_so(world, kind, "g") == before


def test_a_spoilt_part_of_a_workload_says_all_of_it_again_when_mended(world):
    world.workload("w", {"name": "main", "count": 2})
    part = {"workloadRef": {"name": "w", "podGroup": "main"}, "schedulingPolicy": {"gang": {"minCount": 2}}}
    world.object("PodGroup", "main", part)
    for name in ("w-0", "w-1"):
        world.pod(name, workload="w", group="main")
    world.run()
    before = is_so(world, "PodGroup", "main")
    assert before["Scheduled"][0] == "True"
    world.object("PodGroup", "main", {"schedulingPolicy": []})
    world.run()
    assert is_so(world, "PodGroup", "main") == {**before, "Scheduled": ("False", "Invalid")}
    world.object("PodGroup", "main", part)
    world.run()
    assert is_so(world, "PodGroup", "main") == before


LESS_THAN_NOTHING = {
    "of a Workload": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-10"}}}]}},
    "of a Workload, by limits": {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: -1}}}]}},
    "by overhead": {"spec": {"containers": [{"name": "c"}], "overhead": {"cpu": "-1m"}}},
    "as a whole": {"spec": {"containers": [{"name": "c"}], "resources": {"requests": {"memory": "-1Gi"}}}},
}


@pytest.mark.parametrize("name", LESS_THAN_NOTHING)
def test_a_template_that_asks_for_less_than_nothing(world, name):
    world.workload("w", {"count": 2, "template": LESS_THAN_NOTHING[name]}, queueName="queue")
    world.run()
    why = world.why("Workload", "w")
    assert why.reason == "InvalidPod"
    assert "is below zero: write 0 or more" in why.message
    assert world.used("cq", resource=GPU) == 0


def test_task_groups_that_ask_for_less_than_nothing_give_nobody_else_more(world):
    """What waits may not sum up to nothing while somebody does (shell.md, C2)."""
    prefix = "yunikorn.apache.org"
    groups = [{"name": "w", "minMember": 2, "minResource": {GPU: "-8"}}]
    said = {f"{prefix}/app-id": "a", f"{prefix}/task-group-name": "w", f"{prefix}/task-groups": json.dumps(groups)}
    world.pod("p", queue="queue", annotations=said)
    for at in range(3):
        world.pod(f"waits-{at}", gpus=16, queue="queue")
    world.run()
    assert "'-8' is below zero" in world.why("Pod", "p").message
    for at in range(3):
        world.delete(f"waits-{at}")
        world.run()


@pytest.mark.parametrize(
    "text", ["[" * 60_000, '{"clusterQueue": ' + "[" * 60_000, '{"x": ' + "[" * 300 + "]" * 300 + "}"]
)
def test_an_admission_that_is_nested_without_end_says_nothing(world, text):
    world.pod("p", node="n1", queue="queue", annotations={"scheduling.tutti.dev/admission": text})
    world.run()
    assert world.used("cq", resource=GPU) == 1


BEYOND_INT32 = {
    "a skew": {"topologySpreadConstraints": [{"maxSkew": 2**63 - 1, "topologyKey": "kubernetes.io/hostname"}]},
    "domains": {"topologySpreadConstraints": [{"maxSkew": 1, "minDomains": 2**31, "topologyKey": "zone"}]},
    "a weight": {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2**40, "preference": {}}]}
        }
    },
    "a port": {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": -(2**40)}]}]},
    "a priority": {"priority": 2**31},
}


@pytest.mark.parametrize("name", BEYOND_INT32)
def test_a_template_with_a_number_that_no_server_keeps(world, name):
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **BEYOND_INT32[name]}}
    world.workload("w", {"count": 2, "template": template}, queueName="queue")
    world.run()
    why = world.why("Workload", "w")
    assert why.reason == "InvalidTemplate"
    assert "Expected `int`" in why.message
