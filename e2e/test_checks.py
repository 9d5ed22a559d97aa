"""Admission checks: quota is held without nodes until others have said yes, whoever is killed, silent or late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.processes import PATIENCE
from e2e.harness.story import GROUP, VERSION, Story

EXAMPLE = Path(__file__).parents[1] / "examples" / "check-controller" / "budget_check.py"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def applied(story: Story, plural: str, name: str, body: dict[str, Any], *, namespaced: bool) -> None:
    """Apply a status as a check's controller does."""
    custom = client.CustomObjectsApi(story.api)
    how = {"field_manager": "budget", "force": True, "_content_type": "application/apply-patch+yaml"}
    if namespaced:
        custom.patch_namespaced_custom_object_status(GROUP, VERSION, story.namespace, plural, name, body, **how)
    else:
        custom.patch_cluster_custom_object_status(GROUP, VERSION, plural, name, body, **how)


def check(story: Story, *, controller: str = "example.com/budget", active: bool = True) -> None:
    """An AdmissionCheck of this story's own."""
    story.object("AdmissionCheck", story.namespace, {"controllerName": controller})
    if active:
        told = {"type": "Active", "status": "True", "reason": "Running", "message": "", "lastTransitionTime": now()}
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "AdmissionCheck", "metadata": {"name": story.namespace}}
        applied(story, "admissionchecks", story.namespace, {**body, "status": {"conditions": [told]}}, namespaced=False)


def answer(story: Story, name: str, state: str, kind: str = "Workload", **said: Any) -> None:
    """The check answers."""
    entry = {"name": story.namespace, "state": state, "lastTransitionTime": now(), **said}
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}}
    plural = {"Workload": "workloads", "PodGroup": "podgroups"}[kind]
    applied(story, plural, name, {**body, "status": {"admissionChecks": [entry]}}, namespaced=True)


def state_of(story: Story, name: str, kind: str = "Workload") -> tuple[str, int]:
    """What the check says of a workload, and in which round."""
    status = story.get(kind, name).get("status", {})
    said = {one["name"]: one["state"] for one in status.get("admissionChecks", [])}
    return said.get(story.namespace, ""), status.get("checksRound", 0)


def held(story: Story) -> str:
    """How many GPUs are reserved in the queue."""
    usage = story.get("ClusterQueue", story.namespace).get("status", {}).get("flavorsReservation", [])
    return next((one["total"] for part in usage for one in part["resources"] if "gpu" in one["name"]), "0")


def queue(story: Story, **strategy: Any) -> None:
    checks = {"admissionChecks": [{"name": story.namespace}], **strategy}
    story.queue(story.namespace, 4, admissionChecksStrategy=checks)


def workload(story: Story, name: str, size: int = 2) -> None:
    groups = [{"name": "main", "count": size}]
    story.object("Workload", name, {"queueName": story.namespace, "podGroups": groups})
    for rank in range(size):
        story.pod(f"{name}-{rank}", gpus=1, labels={f"{GROUP}/workload": name})


@pytest.fixture(autouse=True)
def goes_on(story: Story) -> Iterator[None]:
    """No engine fails meanwhile: the next one would hide it."""
    yield
    said = story.log.read_text(encoding="utf-8")
    assert "engine_failed" not in said
    assert "set_aside" not in said


def test_the_example_controller_lets_a_workload_and_a_gang_run(story: Story) -> None:
    check(story, controller="example.com/gpu-budget", active=False)
    queue(story)
    story.start_operator()
    workload(story, "w")
    story.wait(
        lambda: "is not active" in story.condition("ClusterQueue", story.namespace, "Active").get("message", ""),
        "the queue to wait for the controller",
    )
    environment = {**os.environ, "KUBECONFIG": str(story.kubeconfig)}
    controller = subprocess.Popen([sys.executable, str(EXAMPLE)], env=environment)
    try:
        story.wait(lambda: len(story.where("w-")) == 2, "the workload to run")
        story.gang("g", 2, queue=story.namespace)
        story.wait(lambda: len(story.where("g-")) == 2, "the gang to run")
        assert story.get("Workload", "w")["status"]["admissionChecks"][0]["message"] == "2 of 8 GPUs"
        assert state_of(story, "g", "PodGroup") == ("Ready", 1)
    finally:
        controller.terminate()
        controller.wait(PATIENCE)


def test_a_killed_operator_holds_the_same_quota_and_nobody_else_gets_it(story: Story) -> None:
    check(story)
    queue(story)
    story.start_operator()
    workload(story, "w")
    story.wait(lambda: state_of(story, "w") == ("Pending", 1), "the check to be asked")
    story.wait(lambda: held(story) == "2", "the quota to be held")
    story.wait(lambda: story.pod_condition("w-0")[0] in ("", "ChecksPending"), "its pod to say nothing else")
    story.kill_operator()
    workload(story, "v", 3)
    story.start_operator()
    story.wait(lambda: story.condition("Workload", "v", "Admitted").get("reason") == "WaitingForQuota", "v to wait")
    assert state_of(story, "w") == ("Pending", 1)
    assert held(story) == "2"
    assert not story.where("w-")
    story.kill_operator()
    answer(story, "w", "Ready")
    story.start_operator()
    story.wait(lambda: len(story.where("w-")) == 2, "the workload to run")
    story.wait(lambda: story.condition("Workload", "w", "Admitted").get("status") == "True", "it to be admitted")


def test_a_silent_check_gives_the_quota_back_and_is_asked_again(story: Story) -> None:
    check(story)
    queue(story, pendingTimeoutSeconds=2)
    story.start_operator(backoff={"baseSeconds": 1, "maxSeconds": 2})
    workload(story, "w")
    story.wait(lambda: state_of(story, "w")[1] >= 2, "a second round")
    story.wait(lambda: "EvictedDueToAdmissionCheck" in dict(story.events("w")), "an event that says so")
    story.change("ClusterQueue", story.namespace, {"admissionChecksStrategy": {"pendingTimeoutSeconds": 600}})

    def runs() -> bool:
        """Whether it does; says yes in the round of now, for one of before may have ended as the answer came."""
        if state_of(story, "w")[0] == "Pending":
            answer(story, "w", "Ready")
        return len(story.where("w-")) == 2

    story.wait(runs, "the workload to hold quota again, and to run")


def test_a_check_adds_to_pods_and_changes_nothing_of_them(story: Story) -> None:
    check(story)
    queue(story)
    story.start_operator()
    workload(story, "w")
    story.wait(lambda: state_of(story, "w")[0] == "Pending", "the check to be asked")
    spot = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
    update = {"name": "main", "labels": {"paid": "yes"}, "annotations": {"ticket": "7"}, "tolerations": [spot]}
    answer(story, "w", "Ready", podSetUpdates=[update])
    story.wait(lambda: len(story.where("w-")) == 2, "the workload to run")
    for pod in story.pods("w-"):
        assert (pod.metadata.labels["paid"], pod.metadata.annotations["ticket"]) == ("yes", "7")
        assert "spot" in [one.key for one in pod.spec.tolerations]
    workload(story, "v", 1)
    story.wait(lambda: state_of(story, "v")[0] == "Pending", "the check to be asked of v")
    answer(story, "v", "Ready", podSetUpdates=[{"name": "main", "labels": {f"{GROUP}/workload": "w"}}])
    said = "an admission check adds label"
    story.wait(lambda: any(said in note for _, note in story.events("v")), "it to say why v is not bound")
    assert not story.where("v-")


@pytest.mark.parametrize("ending", ["Retry", "Rejected"])
def test_a_check_takes_out_what_runs_and_a_retry_while_it_leaves_does_not_wedge(story: Story, ending: str) -> None:
    check(story)
    queue(story)
    story.start_operator(backoff={"baseSeconds": 1, "maxSeconds": 2})
    workload(story, "w")
    story.wait(lambda: state_of(story, "w")[0] == "Pending", "the check to be asked")
    answer(story, "w", "Ready")
    story.wait(lambda: len(story.where("w-")) == 2, "the workload to run")

    answer(story, "w", ending, message="enough")

    story.wait(lambda: not story.pods("w-"), "its pods to be gone")
    answer(story, "w", "Retry", requeueAfterSeconds=9999)  # late, and about a run that is over
    if ending == "Rejected":
        story.wait(lambda: story.get("Workload", "w")["spec"].get("active") is False, "it to be set inactive")
        story.change("Workload", "w", {"active": True})
    for rank in range(2):
        story.pod(f"w-{rank}", gpus=1, labels={f"{GROUP}/workload": "w"})
    story.wait(lambda: state_of(story, "w") == ("Pending", 2), "the check to be asked anew")
    answer(story, "w", "Ready")
    story.wait(lambda: len(story.where("w-")) == 2, "the workload to run again")
