"""Pods get their scheduler from the webhook where their namespace asks for it and they are in a queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.harness.controllers import job_pods, replicated_job
from e2e.harness.frameworks import QUEUE, TEMPLATE, Player
from e2e.harness.hooks import webhooks_asked
from e2e.harness.plays import JOBSET_KIND, TRAIN_JOB, TRAIN_JOB_KIND, train_job_set
from e2e.harness.story import Story

LABEL = "scheduling.tutti.dev/scheduler-name"
OURS = {"scheduling.tutti.dev/queue-name": QUEUE}
KUEUES = {"kueue.x-k8s.io/queue-name": QUEUE}
UNNAMED = TEMPLATE.replace("schedulerName: tutti, ", "")


@pytest.fixture
def opted(story: Story) -> Iterator[Story]:
    """A story in whose namespace pods that are in a queue get the scheduler `tutti`."""
    story.core.patch_namespace(story.namespace, {"metadata": {"labels": {LABEL: "tutti"}}})
    with webhooks_asked(story, is_named, "pod-webhook"):
        yield story


def is_named(story: Story) -> bool:
    """Whether a pod that names a queue gets its scheduler by now."""
    try:
        return scheduler(story, dry(story, "probe", labels=OURS)) == "tutti"
    except client.ApiException:
        return False


def dry(story: Story, name: str, *, labels: dict[str, str] | None = None, owner: str = "", **spec: Any) -> Any:
    """What would become of a pod."""
    meta: dict[str, Any] = {"name": name, "labels": labels or {}}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "x", "controller": True}
        ]
    body = {"metadata": meta, "spec": {**yaml.safe_load(UNNAMED)["spec"], **spec}}
    return story.core.create_namespaced_pod(story.namespace, body, dry_run="All")


def scheduler(_: Story, pod: Any) -> str:
    """Who places a pod."""
    return str(pod.spec.scheduler_name)


def test_a_trainjob_starts_though_nothing_that_its_user_wrote_names_a_scheduler(opted: Story) -> None:
    player = Player(opted, JOBSET_KIND, TRAIN_JOB_KIND)
    opted.queue(QUEUE, 2)
    found = train_job_set(player, player.make(TRAIN_JOB), UNNAMED)
    initializers = []
    for what in ("dataset", "model"):
        initializers += job_pods(player, *replicated_job(player, found, f"{what}-initializer"))
    player.wait_bound(2)
    player.wait_used(2)
    player.end(*initializers)
    done = [{"name": f"{what}-initializer", "succeeded": 1} for what in ("dataset", "model")]
    player.status(found, {"replicatedJobsStatus": done})
    (node,) = replicated_job(player, found, "node")
    job_pods(player, node, [0])
    player.wait_gathering()
    job_pods(player, node, [1])
    player.wait_bound(2)
    player.wait_used(2)


@pytest.mark.parametrize("labels", [OURS, KUEUES], ids=["ours", "kueue's"])
def test_the_pods_of_a_job_that_names_a_queue_are_ours(opted: Story, labels: dict[str, str]) -> None:
    opted.queue(QUEUE, 2)
    player = Player(opted)  # what the embedded cluster's own controllers make, no webhook is asked about
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": yaml.safe_load(UNNAMED)}
    for name, said in (("queued", labels), ("free", {})):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": said}, "spec": spec}
        job_pods(player, player.make(job))

    assert {pod.spec.scheduler_name for pod in opted.pods("queued-")} == {"tutti"}
    assert {pod.spec.scheduler_name for pod in opted.pods("free-")} == {"default-scheduler"}
    opted.wait(lambda: opted.pod_condition(opted.pods("queued-")[0].metadata.name)[1], "the gang to wait")
    assert not opted.where("queued-")  # 3 GPUs are not to be had in a queue of 2

    opted.resize_queue(QUEUE, 3)
    opted.wait(lambda: len(opted.where("queued-")) == 3, "the Job to run")


def test_who_has_a_scheduler_or_needs_none_is_left_alone(opted: Story) -> None:
    assert scheduler(opted, dry(opted, "p", labels=OURS, schedulerName="other")) == "other"
    assert scheduler(opted, dry(opted, "p", labels=OURS, owner="DaemonSet")) == "default-scheduler"
    assert scheduler(opted, dry(opted, "p", labels=OURS, nodeName=opted.cluster.nodes[0])) == "default-scheduler"
    assert scheduler(opted, dry(opted, "p")) == "default-scheduler"

    opted.queue("default", 1)
    opted.wait(lambda: scheduler(opted, dry(opted, "p")) == "tutti", "the default queue of the namespace to be known")
    opted.core.patch_namespace(opted.namespace, {"metadata": {"labels": {LABEL: None}}})
    assert scheduler(opted, dry(opted, "p", labels=OURS)) == "default-scheduler"


def test_while_the_operator_is_away_pods_are_made_as_they_are_written(opted: Story) -> None:
    opted.kill_operator()

    assert scheduler(opted, dry(opted, "p", labels=OURS)) == "default-scheduler"
