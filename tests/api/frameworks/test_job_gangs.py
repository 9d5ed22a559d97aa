"""Jobs and JobSets as gangs: all that is made at the same moment.

Sources: Kubernetes 1.36 and KEP-5547; Kueue 0.20; KAI d5bc503a; JobSet 08dfbdfd; Trainer 8c0f5059.
"""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects, later, numbers, parts
from tests.api.frameworks.pods import jobset_pod
from tutti.api.frameworks import PlacedAlone, UnusableOwner

VOLCANO = "scheduling.volcano.sh/group-min-member"


def test_an_indexed_job_that_runs_all_at_once_is_one_gang():
    """KEP-5547: Indexed, and as many completions as parallelism, above 1."""
    objects = Objects(shapes.JOB)
    first, second = (objects.gang(objects.pod(f"train-{index}-x", "Job/train")) for index in range(2))
    assert numbers(first) == (4, 4, 4)
    assert parts(first) == {"main": (4, 4)}
    assert first.group == second.group == first.workload == "uid-Job/train"
    assert (first.group_name, first.workload_name) == (second.group_name, first.group_name)


@pytest.mark.parametrize(
    "changed",
    [
        {"spec.completionMode": "NonIndexed"},
        {"spec.completionMode": None},
        {"spec.completions": 8},
        {"spec.completions": None},
        {"spec.parallelism": None},
    ],
    ids=str,
)
def test_pods_of_other_jobs_start_by_themselves(changed):
    """Whoever counts pods of such a Job, counts 1 (KAI, Volcano)."""
    objects = Objects(shapes.JOB)
    for path, value in changed.items():
        objects.change("Job/train", path, value)
    assert objects.answer(objects.pod("train-0-x", "Job/train")) == PlacedAlone()


@pytest.mark.parametrize(
    "key",
    [
        "scheduling.tutti.dev/min-member",
        "kueue.x-k8s.io/job-min-parallelism",
        "scheduling.volcano.sh/group-min-member",
        "kai.scheduler/batch-min-member",
    ],
)
@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
def test_an_annotation_of_the_job_says_how_many_must_start_at_once(key, mode):
    objects = Objects(shapes.JOB)
    objects.change("Job/train", "spec.completionMode", mode)
    objects.raw["Job/train"]["metadata"]["annotations"] = {key: "3"}
    gang = objects.gang(objects.pod("train-0-x", "Job/train"))
    assert numbers(gang) == (3, 4, 3)


def test_our_annotation_goes_before_others():
    objects = Objects(shapes.JOB)
    said = {"scheduling.tutti.dev/min-member": "2", "scheduling.volcano.sh/group-min-member": "3"}
    objects.raw["Job/train"]["metadata"]["annotations"] = said
    assert objects.gang(objects.pod("train-0-x", "Job/train")).minimum == 2


def test_a_minimum_above_what_there_is_would_never_start_and_is_told():
    objects = Objects(shapes.JOB)
    objects.raw["Job/train"]["metadata"]["annotations"] = {VOLCANO: "9"}
    gang = objects.gang(objects.pod("train-0-x", "Job/train"))
    assert (gang.minimum, gang.count) == (4, 4)
    assert gang.notes == (f"metadata.annotations[{VOLCANO}] asks for 9 pods, and 4 are made at first: they are enough",)


@pytest.mark.parametrize(("succeeded", "minimum"), [(0, 4), (1, 3), (3, 1), (4, 1), (9, 1)])
def test_of_a_job_only_what_has_not_succeeded_is_waited_for(succeeded, minimum):
    """min(parallelism, remaining): else pods that an eviction took would never start again."""
    objects = Objects(shapes.JOB)
    objects.change("Job/train", "status.succeeded", succeeded)
    assert objects.gang(objects.pod("train-0-x", "Job/train")).minimum == minimum


def test_a_job_of_fewer_completions_than_parallelism_makes_that_many_pods():
    """Kueue, pkg/controller/jobs/job: min(parallelism, completions)."""
    objects = Objects(shapes.JOB)
    objects.change("Job/train", "spec.parallelism", 9)
    objects.raw["Job/train"]["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Together"}
    assert objects.gang(objects.pod("train-0-x", "Job/train")).count == 4


def test_another_job_of_the_same_name_is_another_gang():
    objects = Objects(shapes.JOB)
    before = objects.gang(objects.pod("train-0-x", "Job/train"))
    objects.change("Job/train", "metadata.uid", "another")
    after = objects.gang(objects.pod("train-0-y", "Job/train"))
    assert before.group != after.group
    assert before.group_name != after.group_name


def test_a_job_of_a_cron_job_is_a_gang_by_its_own_rule():
    objects = Objects("{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}}", shapes.JOB)
    objects.raw["Job/train"]["metadata"]["ownerReferences"] = [objects._written(objects.reference("CronJob/nightly"))]
    assert objects.gang(objects.pod("train-0-x", "Job/train")).owner == "Job train"


def test_all_that_a_job_set_makes_at_once_is_one_gang():
    """Kueue, pkg/controller/jobs/jobset: replicas x min(parallelism, completions) of each replicated job."""
    objects = Objects(shapes.JOB_SET)
    driver, worker = jobset_pod(objects, "driver"), jobset_pod(objects, "workers", 1)
    gangs = [objects.gang(driver), objects.gang(worker)]
    assert {numbers(gang) for gang in gangs} == {(7, 7, 7)}
    assert {gang.group for gang in gangs} == {"uid-JobSet/js"}
    assert parts(gangs[0]) == {"driver": (1, 1), "workers": (6, 6)}
    assert [gang.role for gang in gangs] == ["driver", "workers"]
    assert [gang.sub_group for gang in gangs] == ["driver-0", "workers-1"]


def test_a_restart_of_a_job_set_is_gathered_anew():
    """JobSet counts restarts of all in a label of its pods (pkg/constants RestartsKey)."""
    objects = Objects(shapes.JOB_SET)
    before = objects.gang(jobset_pod(objects, "driver"))
    after = objects.gang(jobset_pod(objects, "driver", attempt=2))
    assert after.group == f"{before.group}/attempt-2"
    assert objects.gang(jobset_pod(objects, "workers", attempt=2)).group == after.group


def test_jobs_of_a_job_set_that_have_succeeded_are_not_waited_for():
    objects = Objects(shapes.JOB_SET)
    objects.change("JobSet/js", "status.replicatedJobsStatus", [{"name": "workers", "succeeded": 1}])
    assert parts(objects.gang(jobset_pod(objects, "driver"))) == {"driver": (1, 1), "workers": (3, 3)}


def test_in_order_each_replicated_job_is_a_gang_and_room_is_kept_for_those_that_follow():
    """JobSet, pkg/controllers/startup_policy.go: the next is made when the one before is ready; both run side by side."""
    objects = Objects(shapes.JOB_SET)
    objects.change("JobSet/js", "spec.startupPolicy", {"startupPolicyOrder": "InOrder"})
    driver = objects.gang(jobset_pod(objects, "driver"))
    worker = objects.gang(jobset_pod(objects, "workers"))
    assert numbers(driver) == (1, 1, 7)
    assert numbers(worker) == (6, 6, 6)
    assert driver.group != worker.group
    assert driver.workload == worker.workload
    assert later(driver) == [("workers", 6, worker.group_name, True, True)]
    assert worker.later == ()


def test_what_waits_for_others_to_complete_needs_no_room_beside_them():
    """Trainer's runtimes (manifests/base/runtimes/torchtune): the nodes start when both initializers are Complete."""
    objects = Objects(shapes.TRAIN_JOB, shapes.TRAIN_JOB_SET)
    data = objects.gang(jobset_pod(objects, "dataset-initializer", jobset="tune"))
    model = objects.gang(jobset_pod(objects, "model-initializer", jobset="tune"))
    node = objects.gang(jobset_pod(objects, "node", jobset="tune"))
    assert (numbers(data), numbers(node)) == ((2, 2, 2), (2, 2, 2))
    assert data.group == model.group != node.group
    assert data.workload == node.workload
    assert later(data) == [("node", 2, node.group_name, False, False)]
    assert data.owner == "TrainJob tune"
    assert data.workload_name.startswith("trainjob-tune-")


def test_what_waits_for_others_to_be_ready_needs_room_beside_them():
    """JobSet, pkg/controllers/depends_on.go: Ready is as many ready, failed or succeeded jobs as there are replicas."""
    objects = Objects(shapes.JOB_SET)
    workers = objects.raw["JobSet/js"]["spec"]["replicatedJobs"][1]
    workers["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert numbers(objects.gang(jobset_pod(objects, "driver"))) == (1, 1, 7)


def exclusive(objects: Objects, where: dict) -> None:
    where.setdefault("metadata", {}).setdefault("annotations", {})["alpha.jobset.sigs.k8s.io/exclusive-topology"] = (
        "cloud.example.com/rack"
    )


@pytest.mark.parametrize("whole", [True, False], ids=["annotation of the JobSet", "annotation of one role"])
def test_of_a_job_with_a_domain_for_itself_only_the_first_pod_is_made_at_once(whole):
    """JobSet's webhook refuses followers until completion index 0 has a node (pkg/webhooks/pod_webhook.go)."""
    objects = Objects(shapes.JOB_SET)
    raw = objects.raw["JobSet/js"]
    exclusive(objects, raw if whole else raw["spec"]["replicatedJobs"][1]["template"])
    gang = objects.gang(jobset_pod(objects, "workers"))
    assert numbers(gang) == (3, 7, 7)
    assert parts(gang) == {"driver": (1, 1), "workers": (2, 6)}
    assert not gang.joins_later
    assert objects.gang(jobset_pod(objects, "workers", completion=1)).joins_later


def test_each_job_with_a_domain_for_itself_needs_room_there_for_all_its_pods():
    objects = Objects(shapes.JOB_SET)
    exclusive(objects, objects.raw["JobSet/js"])
    gangs = [objects.gang(jobset_pod(objects, "workers", index, completion=1)) for index in range(2)]
    assert [(gang.domain, gang.domain_key) for gang in gangs] == [
        ("cloud.example.com/rack", "workers-0"),
        ("cloud.example.com/rack", "workers-1"),
    ]
    exclusive(objects, objects.raw["JobSet/js"]["spec"]["replicatedJobs"][1]["template"])
    own = objects.raw["JobSet/js"]["spec"]["replicatedJobs"][1]["template"]["metadata"]["annotations"]
    own[next(iter(own))] = "not a label"
    answer = objects.answer(jobset_pod(objects, "workers"))
    assert isinstance(answer, UnusableOwner)
    assert answer.problems[0].endswith("'not a label' cannot be the key of a node label")


def test_with_node_selectors_the_followers_are_made_at_once():
    """api/jobset/v1alpha2, NodeSelectorStrategyKey."""
    objects = Objects(shapes.JOB_SET)
    exclusive(objects, objects.raw["JobSet/js"])
    objects.raw["JobSet/js"]["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/node-selector"] = "true"
    assert objects.gang(jobset_pod(objects, "workers")).minimum == 7
