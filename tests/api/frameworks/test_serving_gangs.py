"""Replicas of LeaderWorkerSets, and kinds whose pods start one by one unless asked otherwise.

Sources: LeaderWorkerSet 060ab4d; spark-operator 38082f33; Kubernetes 1.36; Volcano ed72c7c8.
"""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects, later, numbers, parts
from tutti.api.frameworks import PlacedAlone, UnusableOwner

LWS = "leaderworkerset.sigs.k8s.io/"


def lws(policy: str = "", exclusive_topology: str = "") -> Objects:
    objects = Objects(shapes.LEADER_WORKER_SET, shapes.LEADERS)
    if policy:
        objects.change("LeaderWorkerSet/vllm", "spec.startupPolicy", policy)
    if exclusive_topology:
        annotations = {f"{LWS}exclusive-topology": exclusive_topology}
        objects.raw["LeaderWorkerSet/vllm"]["metadata"]["annotations"] = annotations
    return objects


def lws_pods(objects: Objects, *, size: int = 4, sub_groups: tuple[str, str] | None = None):
    """Leaders are pods of one StatefulSet, workers of another, which the leader owns (pkg/controllers, pkg/webhooks)."""
    labels = {f"{LWS}group-key": "k0", f"{LWS}worker-index": "0"}
    annotations = {f"{LWS}size": str(size)}
    first, second = ({f"{LWS}subgroup-index": one} for one in sub_groups) if sub_groups else ({}, {})
    leader = objects.pod("vllm-0", "StatefulSet/vllm", labels=labels | first, annotations=annotations)
    if "StatefulSet/vllm-0" not in objects.raw:
        objects.add(shapes.WORKERS)
    labels = labels | {f"{LWS}worker-index": "2"} | second
    return leader, objects.pod("vllm-0-2", "StatefulSet/vllm-0", labels=labels, annotations=annotations)


def test_each_replica_of_a_leader_worker_set_is_a_gang_of_its_size():
    """LWS, pkg/schedulerprovider/volcano_provider.go: MinMember is the size."""
    objects = lws()
    leader, worker = (objects.gang(pod) for pod in lws_pods(objects, sub_groups=("0", "1")))
    assert numbers(leader) == numbers(worker) == (4, 4, 4)
    assert leader.group == worker.group
    assert parts(leader) == {"leader": (1, 1), "worker": (3, 3)}
    assert (leader.role, worker.role) == ("leader", "worker")
    assert (leader.sub_group, worker.sub_group) == ("0", "1")
    labels = {f"{LWS}group-key": "k1", f"{LWS}worker-index": "0"}
    other = objects.gang(objects.pod("vllm-1", "StatefulSet/vllm", labels=labels))
    assert other.workload != leader.workload


@pytest.mark.parametrize(("policy", "topology"), [("LeaderReady", ""), ("LeaderCreated", "rack")])
def test_where_workers_are_made_after_the_leader_it_starts_alone_with_room_for_all(policy, topology):
    """volcano_provider.go: MinMember 1 with LeaderReady; pod_controller.go: exclusive placement needs a node first."""
    objects = lws(policy, topology)
    leader, worker = (objects.gang(pod) for pod in lws_pods(objects))
    assert numbers(leader) == numbers(worker) == (1, 4, 4)
    assert later(leader) == [("worker", 3, "", True, True)]
    assert (leader.joins_later, worker.joins_later) == (False, True)
    assert (leader.domain, leader.domain_key) == (topology, leader.group if topology else "")
    assert worker.domain_key == leader.domain_key


def test_a_replica_of_an_older_generation_has_the_size_that_its_pods_say():
    objects = lws()
    objects.change("LeaderWorkerSet/vllm", "spec.leaderWorkerTemplate.size", 8)
    leader, worker = (objects.gang(pod) for pod in lws_pods(objects, size=4))
    assert leader.minimum == worker.minimum == 4


def test_a_replica_that_is_made_anew_is_another_gang():
    """RecreateGroupOnPodRestart deletes the leader; what it owned goes with it, and the next one has the same name."""
    objects = lws()
    before, _ = (objects.gang(pod) for pod in lws_pods(objects))
    labels = {f"{LWS}group-key": "k0", f"{LWS}worker-index": "0"}
    again = objects.pod("vllm-0", "StatefulSet/vllm", labels=labels)
    again = type(again)(again.namespace, again.name, "another", again.owner, 0, "tutti", again.labels)
    assert objects.gang(again).workload != before.workload


@pytest.mark.parametrize("unreadable", ["LeaderWorkerSet/vllm", "StatefulSet/vllm"])
def test_where_the_set_cannot_be_read_its_pods_say_the_size(unreadable):
    """Whether workers wait for the leader is not known then, so it starts alone, and room is kept for all."""
    objects = lws("LeaderReady")
    objects.unreadable.add(unreadable)
    leader, worker = (objects.gang(pod) for pod in lws_pods(objects))
    assert numbers(leader) == numbers(worker) == (1, 4, 4)
    assert leader.group == worker.group
    assert (leader.joins_later, worker.joins_later) == (False, True)
    assert leader.notes == ("the LeaderWorkerSet that it belongs to is not read",)


def test_a_size_that_cannot_be_read_is_told():
    objects = lws()
    labels = {f"{LWS}group-key": "k0", f"{LWS}worker-index": "0"}
    answer = objects.answer(objects.pod("p", "StatefulSet/vllm", labels=labels, annotations={f"{LWS}size": "many"}))
    assert isinstance(answer, UnusableOwner)
    assert "'many' is not a whole number" in answer.problems[0]


def test_executors_of_spark_join_their_driver_one_by_one():
    """Executors are made by the driver, and owned by it; spark-operator's own minMember is 1."""
    objects = Objects(shapes.SPARK)
    driver = objects.pod("pi-driver", "SparkApplication/pi", labels={"spark-role": "driver"})
    executor = objects.pod("pi-exec-1", "Pod/pi-driver", labels={"spark-role": "executor"})
    gangs = [objects.gang(driver), objects.gang(executor)]
    assert {numbers(gang) for gang in gangs} == {(1, 4, 1)}
    assert gangs[0].group == gangs[1].group
    assert [gang.joins_later for gang in gangs] == [False, True]
    assert later(gangs[0]) == [("executor", 3, "", True, False)]


def test_dynamic_allocation_says_to_how_many_executors_it_grows():
    objects = Objects(shapes.SPARK)
    objects.change("SparkApplication/pi", "spec.dynamicAllocation", {"enabled": True, "maxExecutors": 9})
    driver = objects.pod("pi-driver", "SparkApplication/pi", labels={"spark-role": "driver"})
    assert objects.gang(driver).most == 10


def test_pods_of_a_stateful_set_start_one_by_one():
    objects = Objects(shapes.STATEFUL_SET)
    assert objects.answer(objects.pod("db-0", "StatefulSet/db")) == PlacedAlone()


@pytest.mark.parametrize(
    ("annotation", "minimum"),
    [
        ({"scheduling.tutti.dev/gang": "Together"}, 3),
        ({"scheduling.tutti.dev/min-member": "2"}, 2),
        ({"scheduling.volcano.sh/group-min-member": "2"}, 2),
    ],
    ids=str,
)
def test_a_stateful_set_is_a_gang_where_an_annotation_asks_for_it(annotation, minimum):
    objects = Objects(shapes.STATEFUL_SET)
    objects.raw["StatefulSet/db"]["metadata"]["annotations"] = annotation
    assert numbers(objects.gang(objects.pod("db-0", "StatefulSet/db"))) == (minimum, 3, minimum)


def test_a_stateful_set_that_makes_its_pods_one_after_the_other_cannot_be_a_gang():
    objects = Objects(shapes.STATEFUL_SET)
    objects.raw["StatefulSet/db"]["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Together"}
    objects.change("StatefulSet/db", "spec.podManagementPolicy", "OrderedReady")
    answer = objects.answer(objects.pod("db-0", "StatefulSet/db"))
    assert isinstance(answer, PlacedAlone)
    assert answer.note.endswith("they are one where spec.podManagementPolicy is Parallel")


def test_each_generation_of_a_deployment_is_a_gang_where_it_asks_for_one():
    """The annotations of a Deployment are on its ReplicaSets too (Kubernetes 1.36, deployment/util)."""
    replicas = "{apiVersion: apps/v1, kind: ReplicaSet, owner: Deployment/web, metadata: {name: web-1}}"
    objects = Objects("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}", replicas)
    objects.change("ReplicaSet/web-1", "spec", {"replicas": 2, "template": {"spec": {"schedulerName": "tutti"}}})
    pod = objects.pod("web-1-x", "ReplicaSet/web-1")
    assert objects.answer(pod) == PlacedAlone()
    objects.raw["ReplicaSet/web-1"]["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Together"}
    assert objects.gang(pod).owner == "ReplicaSet web-1"


def test_a_job_of_volcanos_is_a_gang_of_its_minimum():
    """batch.volcano.sh/v1alpha1: spec.minAvailable; pods of it mostly name their PodGroup themselves."""
    objects = Objects(shapes.VOLCANO_JOB)
    gang = objects.gang(objects.pod("mpi-worker-0", "Job/mpi", annotations={"volcano.sh/task-spec": "worker"}))
    assert (numbers(gang), gang.role) == ((3, 5, 3), "worker")


def test_pods_of_workflows_and_of_kinds_that_nobody_knows_start_by_themselves():
    """Argo: each template's pod by the order of its graph; what is unknown is transparent."""
    objects = Objects("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: flow}}")
    objects.add("{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}")
    assert objects.answer(objects.pod("flow-1", "Workflow/flow")) == PlacedAlone()
    assert objects.answer(objects.pod("t-1", "Thing/t")) == PlacedAlone("Thing t, which owns Pod t-1, is not read")
    assert objects.answer(objects.pod("bare")) == PlacedAlone()


def test_what_stands_below_a_wrapper_decides():
    """AppWrapper and workflow engines are transparent: the Job that they make is a gang by its own rule."""
    objects = Objects(
        "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}}", shapes.JOB
    )
    objects.raw["Job/train"]["metadata"]["ownerReferences"] = [objects._written(objects.reference("AppWrapper/aw"))]
    assert objects.gang(objects.pod("train-0", "Job/train")).owner == "Job train"
