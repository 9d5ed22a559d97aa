"""Workloads that start after others have ended, as users of JobFlows have them."""

from __future__ import annotations

import pytest
import yaml

from e2e.harness.controllers import job_complete, job_pods
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.plays import KUEUE
from e2e.harness.story import GROUP, Story


def workload(story: Story, name: str, *after: str) -> None:
    """A workload of two pods, with these."""
    said = {"after": [{"workload": other} for other in after]} if after else {}
    spec = {"queueName": story.namespace, "podGroups": [{"name": "main", "count": 2}], **said}
    story.object("Workload", name, spec)
    for rank in range(2):
        story.pod(f"{name}-{rank}", gpus=1, labels={f"{GROUP}/workload": name})


def reason(story: Story, name: str) -> str:
    """Why it waits, as its condition says."""
    return str(story.condition("Workload", name, "Admitted").get("reason", ""))


def job(name: str, *, after: str = "") -> Made:
    """An Indexed Job of two pods."""
    annotations = f'{{{GROUP}/after: "{after}"}}' if after else "{}"
    text = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {KUEUE}, annotations: {annotations}}}
spec: {{parallelism: 2, completions: 2, completionMode: Indexed, template: {TEMPLATE}}}
"""
    manifest: Made = yaml.safe_load(text)
    return manifest


def test_a_pipeline_is_submitted_at_once_and_runs_in_its_order_though_the_operator_dies(story: Story) -> None:
    story.queue(story.namespace, 2)
    story.start_operator()
    workload(story, "serve", "train")
    workload(story, "train", "load", "prepare")
    workload(story, "prepare")
    story.wait(lambda: len(story.where("prepare")) == 2, "the first to run")
    for name in ("train", "serve"):
        story.wait(lambda name=name: reason(story, name) == "WaitingForWorkloads", f"{name} to say whom it waits for")
    story.finish("prepare")
    ended = [{"workload": "prepare", "outcome": "Succeeded"}]
    story.wait(lambda: story.get("Workload", "train")["status"].get("after") == ended, "its end to be noted")
    story.kill_operator()
    story.remove("Workload", "prepare")
    for pod in story.pods("prepare"):
        story.core.delete_namespaced_pod(pod.metadata.name, story.namespace, grace_period_seconds=0)
    workload(story, "load")

    story.start_operator()

    story.wait(lambda: len(story.where("load")) == 2, "the other one to run, which nobody had seen")
    assert not story.where("train")
    story.finish("load")
    story.wait(lambda: len(story.where("train")) == 2, "the second to start, though the first is deleted")
    story.wait(lambda: reason(story, "serve") == "WaitingForWorkloads", "the last one to wait")
    story.kill_operator()
    story.finish("train")
    story.start_operator()
    story.wait(lambda: len(story.where("serve")) == 2, "the last one to run, whose turn came while nobody looked")


def test_a_ring_is_told_and_runs_when_it_is_broken(story: Story) -> None:
    story.queue(story.namespace, 2)
    story.start_operator()
    workload(story, "a", "b")
    workload(story, "b", "a")
    story.wait(lambda: {reason(story, name) for name in "ab"} == {"AfterItself"}, "both to be told")
    story.change("Workload", "a", {"after": None})
    story.wait(lambda: len(story.where("a")) == 2, "the one to run that waits for nobody")
    story.finish("a")
    story.wait(lambda: len(story.where("b")) == 2, "the other one to run")


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed between"])
def test_a_job_starts_after_a_job(story: Story, killed: bool) -> None:
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    train = player.make(job("train", after="prepare"))
    job_pods(player, train)
    player.wait_waiting("WaitingForWorkloads")
    prepare = player.make(job("prepare"))
    pods = job_pods(player, prepare)
    player.wait_bound(2)
    player.end(*pods)
    if killed:
        story.kill_operator()
    job_complete(player, prepare)
    if killed:
        story.start_operator()
    story.wait(lambda: len(story.where("train")) == 2, "the Job to start after the other")
