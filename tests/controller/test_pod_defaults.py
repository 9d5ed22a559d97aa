"""Which pods get their scheduler filled in: by namespace, by queue, and by owners that may be late."""

from __future__ import annotations

import asyncio

import pytest

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Namespace, ObjectMeta
from tutti.api.frameworks import ProjectedOwner
from tutti.controller import pod_defaults
from tutti.controller.pod_defaults import OwnerArrivals, PodDefaults
from tutti.engine.cycle.engine import Engine
from tutti.engine.records import observations

LABEL = "scheduling.tutti.dev/scheduler-name"
QUEUE = "scheduling.tutti.dev/queue-name"


class Known:
    """An engine that was told of one namespace, and that Jobs are followed."""

    def __init__(self, labels):
        self.arrivals, self.engine, self.lists = OwnerArrivals(), Engine(TuttiConfiguration()), False
        for name in ("team", "kube-system"):
            self.see(observations.NamespaceSeen(Namespace(ObjectMeta(name=name, labels=labels))))
        self.see(observations.OwnerKindFollowed("batch", "Job", followed=True))

    def see(self, observation):
        self.engine.observe(observation)

    def catalog(self):
        return self.engine.state.catalog

    def known(self):
        return None if self.lists else self.engine.state


def job(**labels):
    return ProjectedOwner("batch", "Job", "team", "train", "uid-1", labels=labels)


def pod(*, owner=True, labels=None, annotations=None, kind="Job", **spec):
    meta = {"generateName": "train-", "labels": labels or {}, "annotations": annotations or {}}
    if owner:
        api = "batch/v1" if kind == "Job" else "apps/v1"
        meta["ownerReferences"] = [
            {"apiVersion": api, "kind": kind, "name": "train", "uid": "uid-1", "controller": True}
        ]
    return {"metadata": meta, "spec": {"schedulerName": "default-scheduler", "containers": [], **spec}}


def asked(known, raw, namespace="team"):
    return asyncio.run(PodDefaults(TuttiConfiguration(), known, clock=lambda: 0.0).scheduler_of(raw, namespace))


@pytest.fixture
def known():
    return Known({LABEL: "tutti"})


@pytest.mark.parametrize("key", [QUEUE, "kueue.x-k8s.io/queue-name"])
def test_a_pod_whose_owner_names_a_queue_is_ours(known, key):
    known.see(observations.OwnerSeen(job(**{key: "q"})))

    assert asked(known, pod()) == "tutti"
    assert asked(known, pod(owner=False, labels={key: "q"})) == "tutti"
    assert asked(known, pod(owner=False)) == ""


def test_an_owner_without_a_queue_leaves_its_pods_alone(known):
    known.see(observations.OwnerSeen(job()))

    assert asked(known, pod()) == ""


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(labels={QUEUE: "q"}, schedulerName="other"), id="names a scheduler"),
        pytest.param(pod(labels={QUEUE: "q"}, nodeName="n1"), id="has a node"),
        pytest.param(pod(labels={QUEUE: "q"}, kind="DaemonSet"), id="a DaemonSet's"),
        pytest.param(pod(labels={QUEUE: "q"}, annotations={"kubernetes.io/config.mirror": "x"}), id="a mirror pod"),
        pytest.param({"metadata": {"labels": {QUEUE: "q"}}, "spec": {"containers": 3}}, id="cannot be read"),
    ],
)
def test_what_others_have_a_claim_to_is_left_alone(known, raw):
    assert asked(known, raw) == ""


@pytest.mark.parametrize("labels", [{}, {LABEL: "other"}, {LABEL: ""}])
def test_a_namespace_has_to_name_a_scheduler_of_ours(labels):
    assert asked(Known(labels), pod(labels={QUEUE: "q"})) == ""


def test_what_keeps_the_cluster_going_is_left_alone(known):
    assert asked(known, pod(labels={QUEUE: "q"}), "kube-system") == ""


@pytest.mark.parametrize(("label", "given"), [({QUEUE: "q"}, "tutti"), ({}, "")])
def test_an_owner_that_comes_a_moment_later_is_waited_for(known, label, given):
    async def story():
        asking = asyncio.create_task(
            PodDefaults(TuttiConfiguration(), known, clock=lambda: 0.0).scheduler_of(pod(), "team")
        )
        await asyncio.sleep(0)
        assert not asking.done()
        known.arrivals.seen(job(**label))
        return await asking

    assert asyncio.run(story()) == given


@pytest.mark.parametrize(("label", "given"), [({QUEUE: "q"}, "tutti"), ({}, "")], ids=["queued", "not queued"])
def test_an_owner_that_was_seen_and_not_told_to_the_engine_yet_is_known(known, monkeypatch, label, given):
    """The engine is told between its turns; a Job's controller makes pods before that."""
    monkeypatch.setattr(pod_defaults, "OWNER_PATIENCE_SECONDS", 60.0)

    known.arrivals.seen(job(**label))

    assert asked(known, pod()) == given


def test_no_more_owners_are_remembered_than_may_be(known, monkeypatch):
    monkeypatch.setattr(pod_defaults, "_REMEMBERED", 2)
    for number in range(5):
        known.arrivals.seen(ProjectedOwner("batch", "Job", "team", f"job-{number}", f"uid-{number}"))

    assert [*known.arrivals._last] == ["uid-3", "uid-4"]


def test_one_that_does_not_come_has_its_pods_held_here(known, monkeypatch):
    monkeypatch.setattr(pod_defaults, "OWNER_PATIENCE_SECONDS", 0.01)

    assert asked(known, pod()) == "tutti"
    assert not known.arrivals._awaited


def test_while_an_engine_lists_pods_of_owners_are_held_here(known):
    known.lists = True

    assert asked(known, pod()) == "tutti"
    assert asked(known, pod(owner=False)) == ""


def test_with_a_default_queue_every_pod_of_the_namespace_is_queued(known):
    queue = {"metadata": {"name": "default", "namespace": "team"}, "spec": {"clusterQueue": "cq"}}
    known.see(observations.ObjectSeen("LocalQueue", queue))

    assert asked(known, pod(owner=False)) == "tutti"


JOB = {
    "metadata": {"name": "train", "labels": {QUEUE: "q"}},
    "spec": {"parallelism": 2, "template": {"spec": {"schedulerName": "tutti"}}},
}


def keeps(known, manage="Suspend"):
    """Have a queue keep suspended what waits in it."""
    local = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"clusterQueue": "cq", "manage": manage}}
    known.see(observations.ObjectSeen("LocalQueue", local))
    return known


def suspends(known, raw, kind="Job"):
    described = next(one for one in known.engine.state.kinds if one.kind == kind and one.startable)
    return asyncio.run(PodDefaults(TuttiConfiguration(), known, clock=lambda: 100.0).suspends(raw, described, "team"))


def with_owner(owner):
    return JOB | {"metadata": JOB["metadata"] | {"ownerReferences": [owner]}}


def test_a_job_whose_queue_keeps_it_suspended_is_suspended_when_it_is_written(known):
    assert suspends(keeps(known), JOB)
    assert not suspends(keeps(known, "Pods"), JOB)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(JOB | {"metadata": {"name": "train"}}, id="names no queue"),
        pytest.param(JOB | {"spec": {"template": {"spec": {"schedulerName": "other"}}}}, id="another scheduler's"),
        pytest.param(JOB | {"spec": {**JOB["spec"], "suspend": True}}, id="suspended by its user"),
        pytest.param(
            JOB | {"metadata": {**JOB["metadata"], "annotations": {"scheduling.tutti.dev/gang": "Apart"}}}, id="apart"
        ),
        pytest.param({"metadata": 3, "spec": []}, id="cannot be read"),
    ],
)
def test_other_jobs_are_left_alone(known, raw):
    assert not suspends(keeps(known), raw)


def test_a_job_of_a_job_set_is_suspended_by_that(known):
    above = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "s", "controller": True}
    known.see(observations.OwnerSeen(ProjectedOwner("jobset.x-k8s.io", "JobSet", "team", "set", "s")))

    assert not suspends(keeps(known), with_owner(above))


def test_a_trainjob_is_suspended_before_anybody_knows_its_pods(known):
    raw = {"metadata": {"name": "train", "labels": {QUEUE: "q"}}, "spec": {"runtimeRef": {"name": "torch"}}}

    assert suspends(keeps(known), raw, "TrainJob")
    assert not suspends(keeps(known, "Pods"), raw, "TrainJob")
    assert not suspends(keeps(known), {**raw, "metadata": {"name": "train"}}, "TrainJob")


def test_a_job_of_a_cron_job_is_suspended_for_itself(known):
    above = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}
    known.see(observations.OwnerSeen(ProjectedOwner("batch", "CronJob", "team", "nightly", "c")))

    assert suspends(keeps(known), with_owner(above))


def test_without_a_scheduler_in_its_template_the_namespace_has_to_give_it():
    raw = JOB | {"spec": {"template": {"spec": {}}}}

    assert suspends(keeps(Known({LABEL: "tutti"})), raw)
    assert not suspends(keeps(Known({})), raw)


def test_while_an_engine_lists_nothing_is_suspended(known):
    keeps(known).lists = True

    assert not suspends(known, JOB)
