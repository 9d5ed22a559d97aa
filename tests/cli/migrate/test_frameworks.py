"""What is migrated of objects that make pods is read by the operator's rules on owners as Kueue would have admitted it.

Each object is one of Kueue's users': in the shape of its project's documentation, suspended, in a queue.
"""

from __future__ import annotations

import pytest
import yaml

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects, later, numbers
from tests.api.frameworks.pods import jobset_pod, ray_pod
from tests.cli.migrate.manifests import KUEUES, kueue, said, submitted
from tutti.api.frameworks import PlacedAlone
from tutti.cli.migrate.report import NoteLevel
from tutti.cli.migrate.streams import documents

OURS = "scheduling.tutti.dev/"


def written(text: str) -> Objects:
    """The objects that are written for a manifest; nothing of it is lost, and nothing stands beside it."""
    found = kueue(text)
    assert [str(one.note) for one in found.entries if one.note.level in (NoteLevel.LOST, NoteLevel.INVALID)] == []
    assert KUEUES not in found.text
    assert "suspend" not in found.text
    [one] = documents(found.text)
    return Objects(yaml.safe_dump(one))


JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec: {{parallelism: 4, SPECtemplate: {shapes.TEMPLATE}}}
"""


@pytest.mark.parametrize(
    ("spec", "annotations", "minimum", "count"),
    # Kueue 0.20, pkg/controller/jobs/job/job_controller.go: podsCount, minPodsCount
    [
        ("completionMode: Indexed, completions: 4, ", {}, 4, 4),
        ("", {}, 4, 4),
        ("completions: 3, ", {}, 3, 3),
        ("completions: 9, ", {}, 4, 4),
        ("", {"job-min-parallelism": "2"}, 2, 4),
        ("", {"job-min-parallelism": "4"}, 4, 4),
    ],
)
@pytest.mark.parametrize("name", [{}, {"name": "", "generateName": "train-"}])
def test_a_job_is_one_gang_of_as_many_pods_as_run_at_once(spec, annotations, minimum, count, name):
    keys = {f"{KUEUES}{key}": text for key, text in annotations.items()}
    objects = written(submitted(JOB.replace("SPEC", spec), annotations=keys, **name))
    [owner] = objects.raw
    pod = objects.pod("p", owner)

    assert numbers(objects.gang(pod)) == (minimum, count, minimum)
    assert objects.terms(pod).queue == "team"


def test_one_pod_needs_nobody_to_say_that_it_is_a_gang():
    text = submitted(JOB.replace("parallelism: 4, SPEC", ""))

    assert "gang" not in kueue(text).text


def test_a_stated_minimum_that_cannot_be_read_is_told():
    found = kueue(submitted(JOB.replace("SPEC", ""), annotations={f"{KUEUES}job-min-parallelism": "few"}))

    [one] = found.entries
    assert one.note.level is NoteLevel.INVALID
    assert one.note.path == f"metadata.annotations[{KUEUES}job-min-parallelism]"
    assert "'few' is not a whole number" in one.note.happens


def test_priority_and_run_time_are_said_by_the_object():
    labels = {f"{KUEUES}{key}": text for key, text in [("queue-name", "q"), ("priority-class", "high")]}
    labels[f"{KUEUES}max-exec-time-seconds"] = "3600"
    objects = written(submitted(shapes.JOB, labels=labels))

    found = objects.terms(objects.pod("p", "Job/train"))
    assert (found.queue, found.priority_class, found.maximum_seconds) == ("q", "high", 3600)


def test_the_jobs_of_a_cron_job_are_gangs_in_its_queue():
    text = f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    metadata: {{labels: {{{KUEUES}queue-name: team}}}}
    spec: {{suspend: true, parallelism: 3, completions: 6, template: {shapes.TEMPLATE}}}
"""
    [cron] = documents(kueue(text).text)
    template = cron["spec"]["jobTemplate"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nightly-1", **template["metadata"]}}
    objects = Objects(yaml.safe_dump({**job, "spec": template["spec"]}))
    pod = objects.pod("p", "Job/nightly-1")

    assert numbers(objects.gang(pod)) == (3, 3, 3)
    assert objects.terms(pod).queue == "team"
    assert "suspend" not in template["spec"]


def test_a_job_set_is_one_gang_though_its_name_is_made_by_the_server():
    objects = written(submitted(shapes.JOB_SET, name="", generateName="js-"))
    pod = jobset_pod(objects, "workers", jobset="")

    assert numbers(objects.gang(pod)) == (7, 7, 7)
    assert objects.terms(pod).queue == "team"


def test_a_job_set_that_starts_in_stages_starts_stage_by_stage():
    raw = yaml.safe_load(shapes.JOB_SET)
    raw["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    text = submitted(yaml.safe_dump(raw))
    objects = written(text)

    assert numbers(objects.gang(jobset_pod(objects, "driver"))) == (1, 1, 1)
    assert numbers(objects.gang(jobset_pod(objects, "workers"))) == (6, 6, 6)
    [one] = kueue(text).entries
    assert (one.note.level, one.note.path) == (NoteLevel.CHANGED, "spec.replicatedJobs[1].template.spec.template")
    assert one.note.happens == "workers: admitted when driver has succeeded, and no quota is kept for it before"


@pytest.mark.parametrize("order", ["InOrder", "Ready"])
def test_a_job_set_whose_stages_run_beside_one_another_keeps_room_for_all_as_kueue_keeps_quota(order):
    raw = yaml.safe_load(shapes.JOB_SET)
    if order == "InOrder":
        raw["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    else:
        raw["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    text = submitted(yaml.safe_dump(raw))
    objects = written(text)

    assert numbers(objects.gang(jobset_pod(objects, "driver"))) == (1, 1, 7)
    assert kueue(text).entries == []


@pytest.mark.parametrize(
    ("kind", "at", "roles", "more"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), ""),
        ("TFJob", "tfReplicaSpecs", ("Chief", "Worker"), ""),
        ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker"), ""),
        ("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker"), ""),
        ("JAXJob", "jaxReplicaSpecs", ("Head", "Worker"), ""),
        ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), ""),
        ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), "launcherCreationPolicy: WaitForWorkersReady"),
    ],
)
def test_a_training_job_has_room_for_all_of_its_roles_and_nothing_is_different(kind, at, roles, more):
    both = f"{shapes.replica(roles[0], 1)}, {shapes.replica(roles[1], 3)}"
    text = submitted(shapes.kubeflow(kind, at, both, more=more), suspend="spec.runPolicy")
    objects = written(text)
    labels = {"training.kubeflow.org/replica-type": "worker"}
    gang = objects.gang(objects.pod("w", f"{kind}/train", labels=labels))

    assert gang.room == gang.count == 4
    assert gang.minimum == (3 if more else 4)
    assert kueue(text).entries == []


def test_a_ray_cluster_that_grows_takes_workers_beyond_those_that_it_starts_with():
    raw = yaml.safe_load(shapes.RAY_CLUSTER)
    raw["spec"]["enableInTreeAutoscaling"] = True
    objects = written(submitted(yaml.safe_dump(raw), annotations={f"{KUEUES}elastic-job": "true"}))
    gang = objects.gang(ray_pod(objects, "small"))

    assert gang.minimum < gang.count
    assert gang.most is not None


def test_who_submits_a_ray_job_joins_its_cluster_and_is_told_where_the_default_scheduler_places_it():
    assert kueue(submitted(shapes.RAY_JOB)).entries == []
    without = yaml.safe_load(shapes.RAY_JOB)
    del without["spec"]["submitterPodTemplate"]

    assert said(kueue(submitted(yaml.safe_dump(without)))) == [("changed", "spec.submitterPodTemplate")]


def test_each_replica_of_a_leader_worker_set_is_a_gang_near_one_another():
    raw = yaml.safe_load(shapes.LEADER_WORKER_SET)
    near = {f"{KUEUES}podset-required-topology": "rack", f"{KUEUES}podset-group-name": "group"}
    for template in ("leaderTemplate", "workerTemplate"):
        raw["spec"]["leaderWorkerTemplate"][template] = {"metadata": {"annotations": dict(near)}, "spec": {}}
    objects = written(submitted(yaml.safe_dump(raw), suspend=""))
    objects.add(shapes.LEADERS)
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {f"{prefix}group-key": "k0", f"{prefix}worker-index": "0"}
    gang = objects.gang(objects.pod("vllm-0", "StatefulSet/vllm", labels=labels))

    assert numbers(gang) == (4, 4, 4)
    both = objects.raw["LeaderWorkerSet/vllm"]["spec"]["leaderWorkerTemplate"]
    for template in ("leaderTemplate", "workerTemplate"):
        annotations = {f"{OURS}podset-required-topology": "rack", f"{OURS}podset-group-name": "group"}
        assert both[template] == {"metadata": {"annotations": annotations}, "spec": {"schedulerName": "tutti"}}


def test_a_leader_worker_set_of_one_template_is_no_loss():
    raw = yaml.safe_load(shapes.LEADER_WORKER_SET)
    del raw["spec"]["leaderWorkerTemplate"]["leaderTemplate"]

    assert kueue(submitted(yaml.safe_dump(raw), suspend="")).entries == []


def test_driver_and_executors_of_spark_are_placed_here_and_told_to_come_one_by_one():
    text = submitted(shapes.SPARK)
    objects = written(text)
    spec = objects.raw["SparkApplication/pi"]["spec"]
    gang = objects.gang(objects.pod("pi-driver", "SparkApplication/pi", labels={"spark-role": "driver"}))

    assert [spec[role]["schedulerName"] for role in ("driver", "executor")] == ["tutti", "tutti"]
    assert later(gang) == [("executor", 3, "", True, False)]
    assert said(kueue(text)) == [("changed", "spec.executor")]


def test_a_train_job_is_in_its_queue_and_its_scheduler_is_told_to_be_the_runtimes():
    found = kueue(submitted(shapes.TRAIN_JOB))
    objects = Objects(found.text, shapes.TRAIN_JOB_SET)

    assert objects.terms(jobset_pod(objects, "node", jobset="tune")).queue == "team"
    assert "suspend" not in found.text
    assert said(found) == [("lost", "spec.runtimeRef")]


def test_a_stateful_set_that_makes_its_pods_at_once_is_a_gang():
    objects = written(submitted(shapes.STATEFUL_SET, suspend=""))

    assert numbers(objects.gang(objects.pod("db-0", "StatefulSet/db"))) == (3, 3, 3)


def test_a_stateful_set_that_makes_them_one_by_one_is_told():
    text = submitted(shapes.STATEFUL_SET.replace("podManagementPolicy: Parallel, ", ""), suspend="")
    objects = written(text)

    assert isinstance(objects.answer(objects.pod("db-0", "StatefulSet/db")), PlacedAlone)
    assert said(kueue(text)) == [("changed", "spec.podManagementPolicy")]


def test_what_an_app_wrapper_wraps_is_placed_here_in_its_queue():
    inner = yaml.safe_load(submitted(JOB.replace("SPEC", ""), suspend="", labels={}))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrapped"},
        "spec": {"components": [{"template": service}, {"template": inner}]},
    }
    found = kueue(submitted(yaml.safe_dump(wrapper)))
    [outer] = documents(found.text)
    [_, component] = outer["spec"]["components"]
    objects = Objects(yaml.safe_dump(outer), yaml.safe_dump({**component["template"], "owner": "AppWrapper/wrapped"}))
    pod = objects.pod("p", "Job/train")

    assert found.entries == []
    assert numbers(objects.gang(pod)) == (4, 4, 4)
    assert objects.terms(pod).queue == "team"
    assert "suspend" not in outer["spec"]
    both = {**wrapper, "spec": {"components": [{"template": inner}, {"template": inner}]}}
    assert said(kueue(submitted(yaml.safe_dump(both)))) == [("changed", "spec.components")]


WORKFLOW = f"""
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{generateName: steps-}}
spec:
  podMetadata: {{labels: {{ALL}}}}
  templates:
  - {{name: in-queue, metadata: {{labels: {{{KUEUES}queue-name: own}}}}, container: {{image: a}}}}
  - {{name: without, container: {{image: a}}}}
"""


def test_steps_of_a_workflow_that_name_a_queue_are_placed_here_and_others_are_not():
    found = kueue(WORKFLOW.replace("ALL", ""))
    [one] = documents(found.text)
    [own, without] = one["spec"]["templates"]

    assert own["metadata"]["labels"] == {f"{OURS}queue-name": "own"}
    assert own["schedulerName"] == "tutti"
    assert "schedulerName" not in without
    assert "schedulerName" not in one["spec"]
    assert found.entries == []


def test_a_workflow_whose_pods_are_all_in_a_queue_names_the_scheduler_once():
    found = kueue(WORKFLOW.replace("ALL", f"{KUEUES}queue-name: team"))
    [one] = documents(found.text)

    assert one["spec"]["schedulerName"] == "tutti"
    assert one["spec"]["podMetadata"]["labels"] == {f"{OURS}queue-name": "team"}
    assert found.entries == []


def test_a_pod_template_in_a_queue_is_taken_over_wherever_it_stands():
    text = f"""
apiVersion: agents.example.com/v1
kind: Sandbox
metadata: {{name: box}}
spec:
  nested:
  - podTemplate:
      metadata: {{labels: {{{KUEUES}queue-name: team}}}}
      spec: {{containers: [{{name: main}}]}}
"""
    [one] = documents(kueue(text).text)
    template = one["spec"]["nested"][0]["podTemplate"]

    assert template["metadata"]["labels"] == {f"{OURS}queue-name": "team"}
    assert template["spec"]["schedulerName"] == "tutti"


def test_pods_of_a_workload_that_somebody_wrote_still_name_it():
    found = kueue(submitted(shapes.JOB_SET, annotations={f"{KUEUES}prebuilt-workload-name": "mine"}))
    [one] = documents(found.text)

    labels = [job["template"]["spec"]["template"]["metadata"]["labels"] for job in one["spec"]["replicatedJobs"]]
    assert labels == [{f"{OURS}workload": "mine", f"{OURS}pod-group": role} for role in ("driver", "workers")]


def test_an_object_that_was_sent_to_another_cluster_starts_in_this_one_and_that_is_told():
    raw = yaml.safe_load(submitted(shapes.JOB))
    raw["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    found = kueue(yaml.safe_dump(raw))

    assert said(found) == [("lost", "spec.managedBy")]
    assert "managedBy" not in found.text


@pytest.mark.parametrize(
    ("text", "path", "do"),
    [
        (
            """
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [visibility.kueue.x-k8s.io], resources: [localqueues/pendingworkloads], verbs: [get]}]
""",
            "rules[0].apiGroups[0]",
            "scheduling.tutti.dev",
        ),
        (
            """
kind: ValidatingAdmissionPolicy
metadata: {name: in-a-queue}
spec: {validations: [{expression: "'kueue.x-k8s.io/queue-name' in object.metadata.labels"}]}
""",
            "spec.validations[0].expression",
            "scheduling.tutti.dev/queue-name",
        ),
        (
            """
kind: Bundle
metadata: {name: b, labels: {kueue.x-k8s.io/queue-name: team}}
""",
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            "schedulerName tutti",
        ),
    ],
)
def test_what_still_speaks_of_kueue_is_passed_on_and_told(text, path, do):
    whole = f"apiVersion: example.com/v1{text}"
    found = kueue(whole)

    assert found.text == whole
    [one] = found.entries
    assert (one.note.level, one.note.path) == (NoteLevel.LOST, path)
    assert do in one.note.do


def test_words_of_kueues_that_are_left_over_are_told_each():
    raw = yaml.safe_load(submitted(shapes.SPARK))
    raw["spec"]["executor"]["labels"] = {f"{KUEUES}queue-name": "other"}

    assert ("lost", f"spec.executor.labels[{KUEUES}queue-name]") in said(kueue(yaml.safe_dump(raw)))


def test_parameters_of_a_provisioning_request_are_told():
    annotations = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"}
    found = kueue(submitted(shapes.JOB, annotations=annotations))

    assert said(found) == [("lost", "metadata.annotations[provreq.kueue.x-k8s.io/maxRunDurationSeconds]")]
    assert "provreq" not in found.text
