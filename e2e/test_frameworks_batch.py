"""Jobs, JobSets and TrainJobs as people submit them: nothing but `schedulerName: tutti` and a queue label.

Shapes: batch/v1 of Kubernetes 1.36, JobSet 08dfbdfd (v1alpha2), Trainer 8c0f5059; minimum annotations of Kueue 0.20,
Volcano ed72c7c8 and KAI d5bc503a.
"""

from __future__ import annotations

import pytest
import yaml

from e2e.harness.controllers import (
    EXCLUSIVE,
    exclusive_followers,
    exclusive_leader,
    job_pods,
    name_of,
    replicated_job,
)
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.plays import INDEXED_JOB, JOBSET_KIND, KUEUE, TRAIN_JOB, TRAIN_JOB_KIND, job_set, role, train_job_set
from e2e.harness.story import Story

RACK = "e2e/rack"


def job(name: str, *, annotations: str = "{}", **spec: object) -> Made:
    """A Job of four pods that is not Indexed."""
    text = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {KUEUE}, annotations: {annotations}}}
spec: {{parallelism: 4, completions: 4, template: {TEMPLATE}}}
"""
    manifest: Made = yaml.safe_load(text)
    manifest["spec"] |= spec
    return manifest


# ---- batch/v1 Job


def test_an_indexed_job_is_one_gang_in_the_queue_that_its_label_names(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    train = player.make(INDEXED_JOB)
    pods = job_pods(player, train, [0, 1, 2])
    player.wait_sizes(4)
    (group,) = story.all("PodGroup")
    assert [one["name"] for one in group["metadata"]["ownerReferences"]] == ["train"]
    assert not player.bound()

    pods += job_pods(player, train, [3])

    player.wait_bound(4)
    player.wait_used(4)
    player.delete(train, *pods)
    player.wait_sizes()
    player.wait_used(0)


def test_the_clusters_own_controller_makes_the_pods_of_such_a_job(story: Story) -> None:
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes the pods of a Job")
    player = Player(story)
    story.queue(QUEUE, 3)
    story.start_operator()
    story.custom.create_namespaced_custom_object("batch", "v1", story.namespace, "jobs", yaml.safe_load(INDEXED_JOB))
    story.wait(lambda: len(story.pods("train-")) == 4, "the controller to make four pods")
    player.pods += [pod.metadata.name for pod in story.pods("train-")]
    player.wait_waiting("ExceedsMaxQuota", 4)

    story.resize_queue(QUEUE, 4)

    player.wait_bound(4)


def test_the_pods_of_a_job_that_is_not_indexed_start_alone_and_in_its_queue(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 3)
    story.start_operator()
    pods = job_pods(player, player.make(job("bag")))
    player.wait_bound(3)
    player.wait_waiting("WaitingForQuota")
    assert player.sizes() == []

    player.end(*sorted(player.bound())[:1])

    player.wait_bound(3)
    assert len({*pods} - player.bound()) == 1  # the one that has ended


@pytest.mark.parametrize(
    "annotation",
    [
        "scheduling.tutti.dev/min-member",
        "kueue.x-k8s.io/job-min-parallelism",
        "scheduling.volcano.sh/group-min-member",
        "kai.scheduler/batch-min-member",
    ],
)
def test_a_job_starts_with_the_minimum_that_an_annotation_says_and_takes_the_rest_as_they_find_room(
    story: Story, annotation: str
) -> None:
    player = Player(story)
    story.queue(QUEUE, 100)
    player.fill(1)
    story.start_operator()
    job_pods(player, player.make(job("train", annotations=f'{{{annotation}: "2"}}')))
    player.wait_waiting("Unschedulable", 2)
    assert not player.bound()

    player.clear(2)
    player.wait_bound(3)

    player.clear()
    player.wait_bound(4)
    player.wait_used(4)


def test_of_a_gang_that_starts_again_those_that_have_succeeded_are_not_waited_for(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    train = player.make(INDEXED_JOB)
    first, *others = job_pods(player, train)
    player.wait_bound(4)
    player.end(first)
    player.status(train, {"startTime": "2026-01-01T00:00:00Z", "succeeded": 1, "completedIndexes": "0"})
    player.delete_pods(*others)

    job_pods(player, train, [1, 2, 3])

    player.wait_bound(3)
    player.wait_used(3)


def test_a_job_whose_name_the_server_makes_is_a_gang_and_two_of_them_are_two(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 8)
    story.start_operator()
    manifest = yaml.safe_load(INDEXED_JOB)
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "train-"
    for _ in range(2):
        job_pods(player, player.make(manifest))
    player.wait_bound(8)
    player.wait_sizes(4, 4)


def test_a_job_that_asks_to_be_apart_is_no_gang(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 3)
    story.start_operator()
    manifest = yaml.safe_load(INDEXED_JOB)
    manifest["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Apart"}
    job_pods(player, player.make(manifest))
    player.wait_bound(3)
    player.wait_waiting("WaitingForQuota")


def test_a_job_of_a_cron_job_is_in_the_queue_of_that(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    inner = yaml.safe_load(INDEXED_JOB)
    meta = {"name": "nightly", "labels": inner["metadata"].pop("labels")}
    spec = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": inner["spec"]}}
    cron = player.make({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec})
    inner["metadata"]["name"] = "nightly-29000000"
    job_pods(player, player.make(inner, cron))
    player.wait_bound(4)
    player.wait_used(4)


# ---- JobSet


def test_a_jobset_that_is_made_anew_is_gathered_whole_again(story: Story) -> None:
    """JobSet deletes all Jobs after a failure, and makes them anew with one restart attempt more."""
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 7)
    story.start_operator()
    found = player.make(job_set(role("driver"), role("workers", 2, 3)))
    jobs = [*replicated_job(player, found, "driver"), *replicated_job(player, found, "workers")]
    pods = {name_of(one): job_pods(player, one) for one in jobs}
    player.wait_bound(7)
    player.wait_used(7)
    for one in jobs:
        player.delete(one, *pods[name_of(one)])

    driver, first, second = [
        one for name in ("driver", "workers") for one in replicated_job(player, found, name, attempt=1)
    ]
    for one in (driver, first):
        job_pods(player, one)
    player.wait_gathering()
    assert not player.bound()

    job_pods(player, second)

    player.wait_bound(7)
    player.wait_used(7)


@pytest.mark.parametrize(
    "shape",
    [
        ((role("driver"), role("workers", 2, 2)), {"startupPolicy": "{startupPolicyOrder: InOrder}"}),
        ((role("driver"), role("workers", 2, 2, after="driver Ready")), {}),
    ],
    ids=["InOrder", "dependsOn"],
)
def test_room_is_kept_for_a_stage_that_runs_beside_the_first(
    story: Story, shape: tuple[tuple[str, ...], dict[str, str]]
) -> None:
    roles, more = shape
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 100)
    player.fill(5)
    story.start_operator()
    found = player.make(job_set(*roles, **more))
    job_pods(player, *replicated_job(player, found, "driver"))
    player.wait_bound(1)
    rival = player.rival()
    story.wait(lambda: story.pod_condition(rival)[0] == "Unschedulable", "another pod to find no room")

    for one in replicated_job(player, found, "workers"):
        job_pods(player, one)

    player.wait_bound(5)  # in no second line, behind the rival
    player.wait_used(5)
    assert not story.node_of(rival)


def test_no_room_is_kept_for_a_stage_that_begins_when_the_first_has_ended(story: Story) -> None:
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 4)
    player.fill(4)
    story.start_operator()
    found = player.make(job_set(role("init"), role("workers", 1, 3, after="init Complete")))
    (init,) = job_pods(player, *replicated_job(player, found, "init"))
    player.wait_bound(1)
    rival = player.rival(2)
    story.wait(lambda: story.node_of(rival), "another pod to have what is free meanwhile")
    player.end(init)
    player.status(found, {"replicatedJobsStatus": [{"name": "init", "succeeded": 1}]})
    job_pods(player, *replicated_job(player, found, "workers"))
    workers = tuple(pod for pod in player.pods if pod != init)
    player.wait_waiting("WaitingForQuota", 3, pods=workers)

    player.end(rival)

    player.wait_bound(3)


def _racks(story: Story) -> None:
    """Two racks of two nodes each: four GPUs."""
    for index, node in enumerate(story.cluster.nodes):
        story.label_nodes((node,), {RACK: f"rack-{index // 2}"})


def _rack_of(story: Story, pod: str) -> str:
    node = story.core.read_node(story.node_of(pod))
    return str(node.metadata.labels[RACK])


def test_leaders_of_exclusive_topology_wait_until_their_followers_have_room_in_a_rack(story: Story) -> None:
    """JobSet's webhook refuses followers until the leader of their Job, completion index 0, has a node."""
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 100)
    _racks(story)
    player.fill(6)  # all of rack 0, and two of rack 1
    story.start_operator()
    found = player.make(job_set(role("workers", 2, 3), annotations=f"{{{EXCLUSIVE}: {RACK}}}"))
    jobs = replicated_job(player, found, "workers")
    leaders = [exclusive_leader(player, one, RACK)[0] for one in jobs]
    player.wait_waiting("Unschedulable")
    assert not player.bound()

    player.clear()
    player.wait_bound(2)
    racks = [_rack_of(story, leader) for leader in leaders]
    assert sorted(racks) == ["rack-0", "rack-1"]
    rival = player.rival()
    story.wait(lambda: story.node_of(rival), "another pod to have what is left")  # seven are free, six are kept
    for one, rack in zip(jobs, racks, strict=True):
        exclusive_followers(player, one, RACK, rack)

    player.wait_bound(6)
    story.label_nodes(story.cluster.nodes, {RACK: None})


def test_with_node_selectors_in_the_place_of_that_webhook_all_pods_are_one_gang(story: Story) -> None:
    """`alpha.jobset.sigs.k8s.io/node-selector`: an administrator has labelled the nodes of each Job beforehand."""
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 6)
    _racks(story)
    key = "alpha.jobset.sigs.k8s.io/namespaced-job"
    for index, node in enumerate(story.cluster.nodes):
        story.label_nodes((node,), {key: f"{story.namespace}_set-workers-{index // 2}"})
    story.start_operator()
    notes = f'{{{EXCLUSIVE}: {RACK}, alpha.jobset.sigs.k8s.io/node-selector: "true"}}'
    jobs = replicated_job(player, player.make(job_set(role("workers", 2, 3), annotations=notes)), "workers")
    for one in jobs:
        assert not player.bound()
        selector = {key: f"{story.namespace}_{name_of(one)}"}
        job_pods(player, one, spec={**one["spec"]["template"]["spec"], "nodeSelector": selector})
    player.wait_bound(6)
    story.wait(lambda: 6 in player.sizes(), "a PodGroup that says so")
    story.label_nodes(story.cluster.nodes, {key: None, RACK: None})


# ---- TrainJob


def test_a_trainjob_whose_pods_get_their_scheduler_from_a_webhook_starts_in_stages(story: Story) -> None:
    """A TrainJob has no field for a scheduler, and the runtime of its project names none."""
    player = Player(story, JOBSET_KIND, TRAIN_JOB_KIND)
    story.queue(QUEUE, 2)
    story.start_operator()
    template = TEMPLATE.replace("schedulerName: tutti, ", "")
    found = train_job_set(player, player.make(TRAIN_JOB), template)
    hooked = {**yaml.safe_load(template)["spec"], "schedulerName": "tutti"}
    initializers = []
    for what in ("dataset", "model"):
        assert not player.bound()
        initializers += job_pods(player, *replicated_job(player, found, f"{what}-initializer"), spec=hooked)
    player.wait_bound(2)
    player.wait_used(2)
    player.end(*initializers)
    done = [{"name": f"{what}-initializer", "succeeded": 1} for what in ("dataset", "model")]
    player.status(found, {"replicatedJobsStatus": done})
    (node,) = replicated_job(player, found, "node")
    job_pods(player, node, [0], spec=hooked)
    player.wait_gathering()
    assert not player.bound()

    job_pods(player, node, [1], spec=hooked)

    player.wait_bound(2)
    player.wait_used(2)
