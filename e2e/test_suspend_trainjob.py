"""TrainJobs of a queue that keeps suspended what waits in it; Trainer makes a JobSet of each, suspended like it.

What Trainer does: 8c0f5059, pkg/runtime/framework/plugins/jobset/jobset.go (Build, checkRuntimePatchesImmutability) and
pkg/runtime/core/trainingruntime.go (mergeRuntimePatches).
"""

from __future__ import annotations

from typing import Any

import yaml

from e2e.harness.controllers import job_pods, replicated_job
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.plays import JOBSET_KIND, TRAIN_JOB_KIND, job_set, role
from e2e.harness.story import GROUP, Story
from e2e.test_suspend import POOL, STARTED, managed

MANAGER = "scheduling.tutti.dev/operator"


class Trainer:
    """Plays Trainer for one TrainJob of a runtime with so many nodes."""

    def __init__(self, story: Story, nodes: int) -> None:
        self.player, self.nodes = Player(story, JOBSET_KIND, TRAIN_JOB_KIND), nodes
        self.story = story
        self.job: Made = self.player.make(
            f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: tune, labels: {{{GROUP}/queue-name: {QUEUE}}}}}
spec: {{suspend: true, runtimeRef: {{name: torch}}, trainer: {{numNodes: {nodes}}}}}
"""
        )
        self.written = self.spec
        self.made: Made | None = None
        self.job_of_nodes: Made = {}

    @property
    def spec(self) -> Any:
        """What the TrainJob says now."""
        return self.player.change(self.job, {})["spec"]

    def started(self) -> bool:
        """Whether it has been started."""
        return not self.spec["suspend"]

    def waits(self) -> bool:
        """Whether it says what its user wrote, with nothing of a start."""
        meta = self.player.change(self.job, {})["metadata"]
        return bool(self.spec == self.written and STARTED not in meta.get("annotations", {}))

    def reconcile(self) -> None:
        """Make the JobSet, or make it anew of the patches that there are."""
        suspended = "true" if self.spec["suspend"] else "false"
        template = yaml.safe_load(TEMPLATE)
        for patch in self.spec.get("runtimePatches", []):
            (change,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
            template["spec"] |= change["template"]["spec"]["template"]["spec"]
        manifest = yaml.safe_load(job_set(role("node", 1, self.nodes), labels="{}", suspend=suspended))
        manifest["metadata"]["name"] = "tune"
        manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = template
        if self.made is None:
            self.made = self.player.make(manifest, self.job)
        else:
            self.made = self.player.change(self.made, {"spec": manifest["spec"]})

    def run(self) -> None:
        """Make the pods, as Jobs do whose JobSet has been resumed, and count them."""
        self.reconcile()
        assert self.made is not None
        (self.job_of_nodes,) = replicated_job(self.player, self.made, "node")
        job_pods(self.player, self.job_of_nodes)
        self.count(1)

    def stop(self) -> None:
        """Delete the pods of a TrainJob that is suspended, and count none."""
        self.player.delete(self.job_of_nodes, *self.player.pods)
        self.player.pods.clear()
        self.count(0)

    def count(self, active: int) -> None:
        """Write how many Jobs are active."""
        counts = [{"name": "node", "active": active}]
        assert self.made is not None
        self.player.status(self.made, {"replicatedJobsStatus": counts})
        self.player.status(self.job, {"jobsStatus": counts})


def test_a_trainjob_waits_for_its_runtime_and_is_started_whole_on_nodes_of_its_flavor(story: Story) -> None:
    managed(story, 2)
    story.start_operator()
    trainer = Trainer(story, 3)
    assert trainer.waits()
    trainer.reconcile()  # its runtime has come
    story.wait(lambda: story.all("PodGroup"), "it to wait")
    assert trainer.waits()

    story.resize_queue(QUEUE, 3)

    story.wait(trainer.started, "the TrainJob to be started")
    (patch,) = trainer.spec["runtimePatches"]
    assert patch["manager"] == MANAGER
    trainer.run()
    trainer.player.wait_bound(3)
    trainer.player.wait_used(3)
    (pod, *_) = story.pods("tune-")
    assert pod.spec.node_selector == {POOL: story.namespace}
    assert "gpu" in [one.key for one in pod.spec.tolerations]


def test_an_operator_that_is_killed_between_the_writes_leaves_a_trainjob_as_its_user_wrote_it(story: Story) -> None:
    managed(story, 3, preemption={"withinClusterQueue": "LowerPriority"})
    high = story.priority_class("high", 1000)
    trainer = Trainer(story, 3)
    trainer.reconcile()
    trainer.player.start()
    story.wait(trainer.started, "the TrainJob to be started")
    trainer.player.crash()  # before its pods are there
    trainer.run()
    trainer.player.wait_bound(3)

    story.pod("urgent", gpus=1, priority_class=high, labels={f"{GROUP}/queue-name": QUEUE})
    story.wait(lambda: not trainer.started(), "the TrainJob to be suspended")
    assert trainer.spec != trainer.written  # its webhook would not have the patch taken off while anything runs
    trainer.player.crash()
    trainer.reconcile()
    trainer.stop()
    story.wait(trainer.waits, "the TrainJob to say what its user wrote")
    trainer.reconcile()
    story.wait(lambda: story.node_of("urgent"), "the urgent pod to run")

    story.core.delete_namespaced_pod("urgent", story.namespace, grace_period_seconds=0)
    story.wait(trainer.started, "the TrainJob to be started again")
    trainer.run()
    trainer.player.wait_bound(3)
