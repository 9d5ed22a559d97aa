"""Jobs of a queue that keeps suspended what waits in it: started when all of their pods fit, suspended when they leave."""

from __future__ import annotations

from typing import Any

import yaml
from kubernetes import client

from e2e.harness.frameworks import QUEUE, TEMPLATE, Player
from e2e.harness.story import Story

STARTED = "scheduling.tutti.dev/started"
POOL = "example.com/pool"


class Jobs:
    """Makes Jobs whose pods the cluster's own controller makes."""

    def __init__(self, story: Story) -> None:
        self.story, self.batch = story, client.BatchV1Api(story.api)

    def make(self, name: str, pods: int, *, labels: dict[str, str] | None = None, **spec: Any) -> Any:
        """Make a suspended Job."""
        body = {"parallelism": pods, "completions": pods, "suspend": True, "template": yaml.safe_load(TEMPLATE), **spec}
        meta = {"name": name, "labels": {"scheduling.tutti.dev/queue-name": QUEUE, **(labels or {})}}
        return self.batch.create_namespaced_job(self.story.namespace, {"metadata": meta, "spec": body})

    def get(self, name: str) -> Any:
        """A Job as it is."""
        return self.batch.read_namespaced_job(name, self.story.namespace)

    def template(self, name: str) -> Any:
        """The template of a Job as it is, field by field."""
        where = ("batch", "v1", self.story.namespace, "jobs", name)
        return self.story.custom.get_namespaced_custom_object(*where)["spec"]["template"]["spec"]

    def waits(self, name: str) -> bool:
        """Whether a Job is suspended, with nothing in it of a start."""
        job = self.get(name)
        return bool(job.spec.suspend) and STARTED not in (job.metadata.annotations or {})

    def runs(self, name: str, pods: int) -> bool:
        """Whether all pods of a Job are on nodes."""
        return len(self.story.living(f"{name}-")) == pods


def managed(story: Story, gpus: int, **spec: Any) -> Jobs:
    """A queue that keeps suspended what waits in it, whose flavor has one label and one toleration."""
    taint = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    story.label_nodes(story.cluster.nodes, {POOL: story.namespace})
    story.queue(QUEUE, gpus, manage="Suspend", **spec)
    story.change("ResourceFlavor", QUEUE, {"nodeLabels": {POOL: story.namespace}, "tolerations": [taint]})
    return Jobs(story)


def test_a_job_is_started_when_there_is_quota_for_all_of_its_pods(story: Story) -> None:
    jobs = managed(story, 2)
    story.start_operator()
    jobs.make("train", 3)
    story.wait(lambda: story.all("PodGroup"), "a PodGroup to say why it waits")
    (group,) = story.all("PodGroup")
    story.wait(lambda: story.why(group["metadata"]["name"]), "a reason")
    assert story.why(group["metadata"]["name"])["reason"] == "ExceedsMaxQuota"
    assert jobs.waits("train")
    assert not story.pods("")

    story.resize_queue(QUEUE, 3)

    story.wait(lambda: jobs.runs("train", 3), "the Job to run")
    spec = jobs.get("train").spec.template.spec
    assert spec.node_selector == {POOL: story.namespace}
    assert [one.key for one in spec.tolerations] == ["gpu"]
    assert "Started" in [reason for reason, _ in story.events("train")]
