"""Jobs of Volcano in the shape of its own example/job.yaml, with Volcano's controller and without its scheduler.

The controller is played by what it writes and waits for (ed72c7c8, pkg/controllers/job): createOrUpdatePodGroup,
calcPGMinResources (util.GetPodQuotaUsage), syncJob, createJobPod.
"""

from __future__ import annotations

from typing import Any

import yaml

from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.story import Story

JOB = "batch.volcano.sh/v1alpha1/Job"
POD_GROUP = "scheduling.volcano.sh/v1beta1/PodGroup"


class VolcanoJob:
    """One Job and its controller."""

    def __init__(self, player: Player, *, minimum: int = 3, scheduler: str = "tutti") -> None:
        self.player, self.story = player, player.story
        text = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: test-job}}
spec:
  minAvailable: {minimum}
  schedulerName: {scheduler}
  policies: [{{event: PodEvicted, action: RestartJob}}]
  plugins: {{ssh: [], env: [], svc: []}}
  maxRetry: 5
  queue: {QUEUE}
  tasks: [{{replicas: 4, name: default-nginx, template: {TEMPLATE}}}]
"""
        manifest: Made = yaml.safe_load(text)
        del manifest["spec"]["tasks"][0]["template"]["spec"]["schedulerName"]
        self.made = player.make(manifest)
        name, uid = self.made["metadata"]["name"], self.made["metadata"]["uid"]
        spec = {"minMember": minimum, "minTaskMember": {"default-nginx": 4}, "queue": QUEUE}
        least = {"cpu": f"{10 * minimum}m", "memory": f"{8 * minimum}Mi", "nvidia.com/gpu": str(minimum)}
        quotas = {f"requests.{name}": amount for name, amount in least.items()}
        spec["minResources"] = {**least, **quotas, "limits.nvidia.com/gpu": str(minimum), "count/pods": str(minimum)}
        spec["minResources"]["pods"] = str(minimum)
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        self.group = player.make({**group, "metadata": {"name": f"{name}-{uid}"}, "spec": spec}, self.made)

    @property
    def phase(self) -> str:
        where = ("scheduling.volcano.sh", "v1beta1", self.story.namespace, "podgroups", self.group["metadata"]["name"])
        found: Any = self.story.custom.get_namespaced_custom_object(*where)
        return str(found.get("status", {}).get("phase", ""))

    def sync(self) -> None:
        """Make the pods once the phase allows it."""
        self.story.wait(lambda: self.phase not in ("", "Pending"), "the phase that lets pods be made")
        template = self.made["spec"]["tasks"][0]["template"]
        template["spec"]["schedulerName"] = self.made["spec"]["schedulerName"]
        said = {"scheduling.k8s.io/group-name": self.group["metadata"]["name"], "volcano.sh/task-spec": "default-nginx"}
        for rank in range(4):
            self.player.pod(f"test-job-default-nginx-{rank}", template, self.made, annotations=said)


def test_a_job_of_volcano_runs_whole_in_its_queue(story: Story) -> None:
    player = Player(story, JOB, POD_GROUP)
    story.queue(QUEUE, 4)
    story.start_operator()
    job = VolcanoJob(player, minimum=4)
    job.sync()
    player.wait_bound(4)
    story.wait(lambda: job.phase == "Running", "its PodGroup to say that it runs")
    player.wait_used(4)


def test_a_job_of_volcano_waits_whole_for_quota_and_goes_on_after_a_crash(story: Story) -> None:
    player = Player(story, JOB, POD_GROUP)
    story.queue(QUEUE, 3)
    story.start_operator()
    job = VolcanoJob(player, minimum=4)
    story.wait(lambda: job.phase == "Inqueue", "the phase that lets pods be made")
    story.kill_operator()
    job.sync()
    story.start_operator()
    player.wait_waiting("ExceedsMaxQuota")
    assert not player.bound()
    story.resize_queue(QUEUE, 4)
    player.wait_bound(4)
    story.wait(lambda: job.phase == "Running", "its PodGroup to say that it runs")


def test_a_job_that_names_another_scheduler_is_left_to_it(story: Story) -> None:
    player = Player(story, JOB, POD_GROUP)
    story.queue(QUEUE, 4)
    story.start_operator()
    theirs = VolcanoJob(player, scheduler="volcano")
    story.pod("seen")
    story.wait(lambda: story.where("seen"), "the operator to have looked at everything")
    assert theirs.phase == ""
