"""What pods inherit from their owners: nearest first, ours before Kueue's on one object."""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects
from tutti.api.conventions.membership import PodTopologyRequest
from tutti.api.frameworks import KindTable

OURS = "scheduling.tutti.dev/"
KUEUES = "kueue.x-k8s.io/"


def below_train_job(**labels: dict[str, str]) -> Objects:
    """A TrainJob, its JobSet and a Job; labels by kind."""
    objects = Objects(shapes.TRAIN_JOB, shapes.TRAIN_JOB_SET, shapes.job_of("tune-node-0", "JobSet/tune"))
    objects.raw["TrainJob/tune"]["metadata"].pop("labels")
    names = {"Job": "Job/tune-node-0", "JobSet": "JobSet/tune", "TrainJob": "TrainJob/tune"}
    for kind, said in labels.items():
        objects.raw[names[kind]]["metadata"]["labels"] = said
    return objects


def terms(objects: Objects):
    return objects.terms(objects.pod("p", "Job/tune-node-0"))


@pytest.mark.parametrize("prefix", [OURS, KUEUES])
def test_queue_priority_and_run_time_come_from_the_top_where_nobody_below_says_them(prefix):
    said = {f"{prefix}queue-name": "team", f"{prefix}priority-class": "high", f"{prefix}max-exec-time-seconds": "3600"}
    found = terms(below_train_job(TrainJob=said))
    assert (found.queue, found.priority_class, found.maximum_seconds) == ("team", "high", 3600)
    assert found.queue_by == "TrainJob tune"


def test_the_nearest_says_each_thing():
    objects = below_train_job(
        TrainJob={f"{OURS}queue-name": "top", f"{OURS}priority-class": "high"}, JobSet={f"{KUEUES}queue-name": "near"}
    )
    assert (terms(objects).queue, terms(objects).priority_class) == ("near", "high")


def test_ours_goes_before_kueues_on_one_object():
    assert terms(below_train_job(Job={f"{KUEUES}queue-name": "kueues", f"{OURS}queue-name": "ours"})).queue == "ours"


def test_a_convention_that_is_off_says_nothing():
    objects = below_train_job(Job={f"{KUEUES}queue-name": "team"})
    objects.table = KindTable(ignored=[f"{KUEUES}queue-name"])
    assert terms(objects).queue == ""


def test_the_policy_of_a_training_job_names_queue_class_and_time():
    """training-operator release-1.9, common_types.go, SchedulingPolicy."""
    policy = "schedulingPolicy: {queue: team, priorityClass: high, scheduleTimeoutSeconds: 60}"
    objects = Objects(shapes.kubeflow("JAXJob", "jaxReplicaSpecs", shapes.replica("Worker", 2), policy=policy))
    found = objects.terms(objects.pod("w", "JAXJob/train"))
    assert (found.queue, found.priority_class, found.schedule_timeout_seconds) == ("team", "high", 60)
    objects.raw["JAXJob/train"]["metadata"]["labels"] = {f"{OURS}queue-name": "label"}
    assert objects.terms(objects.pod("w", "JAXJob/train")).queue == "label"


def test_the_default_queue_of_volcano_is_none():
    """Volcano's webhook fills it in; its controllers read it as no queue of anybody's."""
    objects = Objects(shapes.VOLCANO_JOB)
    assert objects.terms(objects.pod("p", "Job/mpi")).queue == ""


def test_a_pod_that_owns_pods_passes_its_queue_on():
    objects = Objects(shapes.SPARK)
    objects.pod("pi-driver", "SparkApplication/pi", labels={f"{OURS}queue-name": "team"})
    assert objects.terms(objects.pod("pi-exec-1", "Pod/pi-driver")).queue == "team"


def test_topology_comes_from_annotations_of_an_owner():
    """Kueue 0.20, apis/kueue/v1beta2/topology_types.go; there they stand on pod templates, whence pods have them."""
    objects = below_train_job()
    annotations = {"kueue.x-k8s.io/podset-required-topology": "cloud.example.com/rack"}
    objects.raw["JobSet/tune"]["metadata"]["annotations"] = annotations
    assert terms(objects).topology == PodTopologyRequest("Required", "cloud.example.com/rack")
    annotations[f"{OURS}podset-preferred-topology"] = "cloud.example.com/block"
    assert terms(objects).topology == PodTopologyRequest("Preferred", "cloud.example.com/block")


@pytest.mark.parametrize(
    ("labels", "annotations", "problem"),
    [
        ({f"{OURS}queue-name": "No Such"}, {}, "'No Such' cannot be the name of an object"),
        ({f"{OURS}max-exec-time-seconds": "soon"}, {}, "'soon' is not a whole number"),
        ({}, {"kueue.x-k8s.io/podset-required-topology": "not a label"}, "cannot be the key of a node label"),
        ({}, {"kueue.x-k8s.io/podset-group-name": "x" * 5000}, "write at most 4096 characters"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_told_with_the_owner_that_says_it(labels, annotations, problem):
    objects = below_train_job(JobSet=labels)
    objects.raw["JobSet/tune"]["metadata"]["annotations"] = annotations
    found = terms(objects)
    assert len(found.problems) == 1
    assert found.problems[0].startswith("JobSet tune: ")
    assert problem in found.problems[0]
