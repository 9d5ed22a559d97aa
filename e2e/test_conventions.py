"""Manifests written for other schedulers, unchanged but for `schedulerName`, are scheduled as gangs."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from e2e.harness.guests import serve
from e2e.harness.power import SOON
from e2e.harness.replica import decisions
from e2e.harness.story import PAUSE, Story

PFNET = "gang-scheduling.preferred.jp/gang"
KOORD = "gang.scheduling.koordinator.sh"
TASK_GROUPS = '[{"name": "workers", "minMember": 3, "minResource": {"cpu": "10m", "memory": "8Mi"}}]'

# Metadata and spec that each project documents for a member of a gang of 3, and the object beside it, if there is one.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str, dict[str, Any]] | None]] = {
    "native": (
        {},
        {"schedulingGroup": {"podGroupName": "trio"}},
        ("scheduling.k8s.io", "v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 3}}}),
    ),
    "scheduler-plugins": (
        {"labels": {"scheduling.x-k8s.io/pod-group": "trio"}},
        {},
        ("scheduling.x-k8s.io", "v1alpha1", {"minMember": 3, "scheduleTimeoutSeconds": 10}),
    ),
    "volcano": (
        {"annotations": {"scheduling.k8s.io/group-name": "trio"}},
        {},
        ("scheduling.volcano.sh", "v1beta1", {"minMember": 3, "queue": "default"}),
    ),
    "pfnet": ({"annotations": {f"{PFNET}-name": "trio", f"{PFNET}-size": "3"}}, {}, None),
    "koordinator": ({"annotations": {f"{KOORD}/name": "trio", f"{KOORD}/min-available": "3"}}, {}, None),
    "yunikorn": (
        {
            "labels": {"applicationId": "trio"},
            "annotations": {
                "yunikorn.apache.org/task-group-name": "workers",
                "yunikorn.apache.org/task-groups": TASK_GROUPS,
            },
        },
        {},
        None,
    ),
    "kueue": (
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "trio"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
        },
        {},
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_unchanged_manifest_is_scheduled_as_a_gang(story: Story, name: str) -> None:
    metadata, spec, beside = CASES[name]
    if beside is not None:
        serve(story.api, beside[0], beside[1], "PodGroup")
    story.start_operator()
    if beside is not None:
        story.guest(*beside, name="trio")
    for rank in range(2):
        _member(story, rank, metadata, spec)
    story.wait(lambda: _made(story), "a PodGroup that shows the gang")
    (made,) = _made(story)
    story.wait(lambda: story.why(made).get("reason") == "WaitingForMembers", "the gang to wait for its third member")
    # YuniKorn starts what there is as soon as there is room for the rest; it is kept for them.
    early = 2 if name == "yunikorn" else 0
    story.wait(lambda: len(story.where("member")) == early, f"{early} of two members to be bound")

    _member(story, 2, metadata, spec)

    story.wait(lambda: len(story.where("member")) == 3, "the gang to be bound")
    story.wait(lambda: story.condition("PodGroup", made, "Scheduled").get("status") == "True", "it to say so")
    if name == "native":
        story.wait(lambda: _native_condition(story).get("status") == "True", "the native PodGroup to be told")


def _member(story: Story, rank: int, metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}}
    container = {"name": "c", "image": PAUSE, "resources": resources}
    body = {
        "metadata": {**metadata, "name": f"member-{rank}"},
        "spec": {"schedulerName": "tutti", "containers": [container], **spec},
    }
    story.core.create_namespaced_pod(story.namespace, body)


def _made(story: Story) -> list[str]:
    return [one["metadata"]["name"] for one in story.all("PodGroup")]


def _native_condition(story: Story) -> dict[str, Any]:
    found = story.custom.get_namespaced_custom_object(
        "scheduling.k8s.io", "v1alpha2", story.namespace, "podgroups", "trio"
    )
    conditions = found.get("status", {}).get("conditions", [])
    return next((dict(one) for one in conditions if one["type"] == "PodGroupScheduled"), {})


def test_a_pod_group_goes_with_the_job_it_was_made_for_though_nobody_is_there_to_delete_it(story: Story) -> None:
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes the pods of a Job, or collects what it owned")
    story.start_operator()
    jobs = _trio_of_a_job(story)
    (owner,) = story.get("PodGroup", "trio")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Job", "trio")
    assert story.stop_operator() == 0

    jobs.delete_namespaced_job("trio", story.namespace, propagation_policy="Background")

    story.wait(lambda: not _made(story), "the PodGroup to go")


def test_a_pod_group_is_not_made_over_and_over_for_pods_that_take_their_time_when_their_job_has_gone(
    story: Story,
) -> None:
    """The garbage collector deletes whatever names an owner that there is no more."""
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes the pods of a Job, or collects what it owned")
    story.start_operator()
    jobs = _trio_of_a_job(story, grace=10)
    story.wait(lambda: all(pod.status.phase == "Running" for pod in story.pods("trio-")), "the gang to run")

    jobs.delete_namespaced_job("trio", story.namespace, propagation_policy="Background")

    story.wait(lambda: not story.pods("trio-"), "the pods to end", SOON)
    made = list(decisions(story.folder / "journal", "create-pod-group"))
    assert len(made) <= 3  # its own, and what was begun before all of its pods were told to end


def _trio_of_a_job(story: Story, grace: int = 0) -> client.BatchV1Api:
    """A Job whose three pods say that they are a gang, and take so many seconds to end; returns when they are bound."""
    annotations = {f"{PFNET}-name": "trio", f"{PFNET}-size": "3"}
    slow = {"lifecycle": {"preStop": {"sleep": {"seconds": grace}}}} if grace else {}
    container = {"name": "c", "image": PAUSE, "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}, **slow}
    spec = {"schedulerName": "tutti", "restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": annotations}, "spec": {**spec, "terminationGracePeriodSeconds": grace}}
    body = {"metadata": {"name": "trio"}, "spec": {"parallelism": 3, "completions": 3, "template": template}}
    jobs = client.BatchV1Api(story.api)
    jobs.create_namespaced_job(story.namespace, body)
    story.wait(lambda: len(story.where("trio-")) == 3, "the gang to be bound")
    return jobs


def test_the_pods_of_a_job_labelled_as_kueues_users_label_it_are_in_its_queue(story: Story) -> None:
    """The label of a Job never reaches its pods: twelve of them ran beside a queue of one."""
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes the pods of a Job")
    story.queue("team", 1)
    story.start_operator()
    gpu = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": PAUSE, "resources": {"requests": {"cpu": "10m", **gpu}, "limits": gpu}}
    template = {"spec": {"schedulerName": "tutti", "restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "team"}}
    body = {"metadata": metadata, "spec": {"parallelism": 3, "completions": 3, "template": template}}
    client.BatchV1Api(story.api).create_namespaced_job(story.namespace, body)

    story.wait(lambda: _waiting(story) == 2, "two of three to wait for quota")
    assert len(story.where("train-")) == 1
    story.kill_operator()
    story.start_operator()
    story.pod("probe")
    story.wait(lambda: story.where("probe"), "another pod to be bound after the restart")
    assert len(story.where("train-")) == 1


def _waiting(story: Story) -> int:
    """How many of the job's pods wait for quota."""
    found = [story.pod_condition(pod.metadata.name)[0] for pod in story.pods("train-")]
    return found.count("WaitingForQuota")
