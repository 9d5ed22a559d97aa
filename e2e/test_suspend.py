"""Jobs of a queue that keeps suspended what waits in it: started when all of their pods fit, and suspended again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.harness.controllers import job_pods, ray_head, ray_workers, replicated_job
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.hooks import webhooks_asked
from e2e.harness.plays import JOBSET_KIND, RAY_KINDS, job_set, ray_group, ray_object, ray_spec, role
from e2e.harness.power import SOON, Power
from e2e.harness.story import GROUP, Story

STARTED = "scheduling.tutti.dev/started"
POOL = "example.com/pool"


class Jobs:
    """Makes Jobs whose pods the cluster's own controller makes."""

    def __init__(self, story: Story) -> None:
        self.story, self.batch = story, client.BatchV1Api(story.api)

    def make(self, name: str, pods: int, *, labels: dict[str, str] | None = None, **spec: Any) -> Any:
        """Make a suspended Job."""
        if not self.story.cluster.kubelets:
            pytest.skip("without a control plane nobody makes the pods of a Job")
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
    name = group["metadata"]["name"]
    story.wait(lambda: story.why(name).get("reason") == "ExceedsMaxQuota", "it to say that it never fits")
    assert jobs.waits("train")
    assert not story.pods("")

    story.resize_queue(QUEUE, 3)

    story.wait(lambda: jobs.runs("train", 3), "the Job to run")
    spec = jobs.get("train").spec.template.spec
    assert spec.node_selector == {POOL: story.namespace}
    assert [one.key for one in spec.tolerations] == ["gpu"]
    story.wait(lambda: "Started" in dict(story.events("train")), "an event that says so")


def test_room_for_one_pod_less_starts_nothing(story: Story) -> None:
    jobs = managed(story, 100)
    player = Player(story)
    player.fill(2)
    story.start_operator()
    jobs.make("train", 3)
    jobs.make("small", 2)  # comes later, and fits
    story.wait(lambda: jobs.runs("small", 2), "the small Job to run")
    assert jobs.waits("train")
    assert not story.pods("train-")

    player.clear(3)

    story.wait(lambda: jobs.runs("train", 3), "the Job to run")


def test_a_job_whose_pods_keep_apart_by_its_name_is_started_only_where_each_has_a_node(story: Story) -> None:
    """Their names are labels that the Job controller writes, and a Service tells them apart by another."""
    jobs, nodes = managed(story, 100), len(story.cluster.nodes)
    selects = {"selector": {"batch.kubernetes.io/job-completion-index": "0"}, "clusterIP": "None"}
    story.core.create_namespaced_service(story.namespace, {"metadata": {"name": "first"}, "spec": selects})
    story.start_operator()

    jobs.make("more", nodes + 1, template=apart("more"))
    jobs.make("each", nodes, template=apart("each"), completionMode="Indexed")

    story.wait(lambda: jobs.runs("each", nodes), "the Job with a node for each of its pods to run")
    assert len(set(story.living("each-").values())) == nodes
    assert jobs.waits("more")
    assert not story.pods("more-")
    assert "reservation_given_back" not in story.log.read_text()  # each had the node that was held for it


def apart(job: str) -> dict[str, Any]:
    """The template of pods of which no two of one Job are on one node."""
    template: dict[str, Any] = yaml.safe_load(TEMPLATE)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": job}}}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return template


def workload_class(story: Story, value: int) -> str:
    """Make a WorkloadPriorityClass: what suspended objects take others out by."""
    name = f"{story.namespace}-high"
    body = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    story.custom.create_cluster_custom_object(GROUP, "v1alpha1", "workloadpriorityclasses", body)
    return name


def test_one_that_is_preempted_is_suspended_with_its_template_as_it_was_and_comes_back(story: Story) -> None:
    jobs = managed(story, 3, preemption={"withinClusterQueue": "LowerPriority"})
    high = workload_class(story, 1000)
    story.start_operator()
    jobs.make("train", 3)
    before = jobs.template("train")
    story.wait(lambda: jobs.runs("train", 3), "the Job to run")
    assert jobs.template("train") != before

    jobs.make("urgent", 2, labels={"scheduling.tutti.dev/priority-class": high})

    story.wait(lambda: jobs.waits("train"), "the first Job to be suspended")
    story.wait(lambda: jobs.runs("urgent", 2), "the urgent Job to run")
    assert jobs.template("train") == before
    assert not story.living("train-")
    story.wait(lambda: "Preempted" in dict(story.events("train")), "an event that says so")

    jobs.batch.delete_namespaced_job("urgent", story.namespace, propagation_policy="Background")
    story.wait(lambda: jobs.runs("train", 3), "the first Job to run again")


def test_an_operator_that_is_killed_anywhere_between_comes_to_the_same_end(story: Story) -> None:
    jobs = managed(story, 3)
    player = Player(story)
    player.start()
    jobs.make("train", 3)
    story.wait(lambda: STARTED in (jobs.get("train").metadata.annotations or {}), "the Job to be started")
    player.crash()
    story.wait(lambda: jobs.runs("train", 3), "the Job to run")

    story.kill_operator()
    batch, where = jobs.batch, ("train", story.namespace)
    batch.patch_namespaced_job(*where, {"spec": {"suspend": True}})  # the first of the writes of a suspension
    player.start()
    story.wait(lambda: not story.living("train-") or jobs.runs("train", 3), "its pods to go")
    story.wait(lambda: jobs.runs("train", 3), "the Job to be restored, and to run again")
    story.wait(lambda: not jobs.get("train").spec.suspend, "the Job to be started")


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed meanwhile"])
def test_one_whose_node_is_lost_is_suspended_and_started_again_whole(
    story: Story, power: Power, *, killed: bool
) -> None:
    jobs = managed(story, 4)
    player = Player(story)
    player.fill(4)  # two nodes are left
    configuration = {"leaderElection": {"enabled": False}, "onMemberLoss": {"windowSeconds": 10}}
    story.start_operator(**configuration)
    before = jobs.make("train", 4, template=fleeting(), completionMode="Indexed").to_dict()["spec"]["template"]["spec"]
    story.wait(lambda: jobs.runs("train", 4), "the Job to run")
    lost = story.cluster.nodes[1]
    assert [*story.living("train-").values()].count(lost) == 2

    power.off(lost)
    story.wait(lambda: len(story.living("train-")) < 4, "two pods to be told to end", SOON)
    if killed:
        story.kill_operator()
        story.start_operator(**configuration)

    story.wait(lambda: jobs.waits("train"), "the Job to be suspended, as there is no other room", SOON)
    assert jobs.get("train").to_dict()["spec"]["template"]["spec"] == before
    story.wait(lambda: "MemberLost" in dict(story.events("train")), "an event that says so")
    story.wait(lambda: not story.living("train-"), "those of its pods to go that had not lost their node", SOON)

    power.on(lost)
    story.wait(lambda: jobs.runs("train", 4), "the Job to be started again, whole", SOON)
    assert not jobs.get("train").spec.suspend


def fleeting() -> Any:
    """A template whose pods leave a silent node after a second."""
    template = yaml.safe_load(TEMPLATE)
    silent = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    forgives = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    template["spec"]["tolerations"] = [{"key": key, **forgives} for key in silent]
    return template


def test_a_user_who_starts_it_by_hand_has_its_pods_wait(story: Story) -> None:
    jobs = managed(story, 2)
    story.start_operator()
    jobs.make("train", 3)
    story.wait(lambda: story.all("PodGroup"), "it to wait")
    jobs.batch.patch_namespaced_job("train", story.namespace, {"spec": {"suspend": False}})
    story.wait(lambda: len(story.pods("train-")) == 3, "its pods")
    story.wait(lambda: waiting(story) == 1, "one of them to wait for quota, as pods of such a Job start one by one")
    story.wait(lambda: jobs.runs("train", 2), "the two others to run")

    story.resize_queue(QUEUE, 3)
    story.wait(lambda: jobs.runs("train", 3), "the last one to run")


def waiting(story: Story) -> int:
    """How many of the Job's pods wait for quota."""
    return [story.pod_condition(pod.metadata.name)[0] for pod in story.pods("train-")].count("WaitingForQuota")


def test_one_that_is_deleted_while_it_waits_leaves_nothing_behind(story: Story) -> None:
    jobs = managed(story, 2)
    story.start_operator()
    jobs.make("train", 3)
    story.wait(lambda: story.all("PodGroup"), "it to wait")
    jobs.batch.delete_namespaced_job("train", story.namespace, propagation_policy="Background")
    story.wait(lambda: not story.all("PodGroup"), "its PodGroup to go")
    jobs.make("next", 2)
    story.wait(lambda: jobs.runs("next", 2), "the next Job to run")


def test_an_object_that_cannot_be_started_says_so_and_holds_up_nobody(story: Story) -> None:
    jobs = managed(story, 2)
    story.start_operator()
    template = yaml.safe_load(TEMPLATE)
    template["spec"]["nodeSelector"] = {POOL: "elsewhere"}
    jobs.make("elsewhere", 1, template=template)
    jobs.make("train", 2)
    story.wait(lambda: jobs.runs("train", 2), "the other Job to run")
    assert jobs.waits("elsewhere")


# ---- JobSet, by whose controller's rules a player makes Jobs and pods


def set_of(*pods: int, suspended: bool = True) -> str:
    """A JobSet with so many pods in each of its replicated jobs."""
    roles = [role(f"part-{index}", 1, count) for index, count in enumerate(pods)]
    return job_set(*roles, suspend="true" if suspended else "false")


def jobset_template(player: Player, made: Made) -> Any:
    """The templates of a JobSet as they are."""
    found = player.change(made, {})
    return found["spec"]["replicatedJobs"], found["spec"]["suspend"]


def test_a_job_set_is_started_whole_and_suspended_whole(story: Story) -> None:
    player = Player(story, JOBSET_KIND)
    managed(story, 4, preemption={"withinClusterQueue": "LowerPriority"})
    high = story.priority_class("high", 1000)
    story.start_operator()
    made = player.make(set_of(1, 3))
    before, _ = jobset_template(player, made)
    story.wait(lambda: not jobset_template(player, made)[1], "the JobSet to be started")
    after, _ = jobset_template(player, made)
    assert [_spec_of(one)["nodeSelector"] for one in after] == [{POOL: story.namespace}] * 2

    started = player.change(made, {})
    for name in ("part-0", "part-1"):
        for job in replicated_job(player, started, name):
            job_pods(player, job)
    player.wait_bound(4)
    player.wait_used(4)

    story.pod("urgent", gpus=1, priority_class=high, labels={f"{GROUP}/queue-name": QUEUE})
    story.wait(lambda: jobset_template(player, made)[1], "the JobSet to be suspended")
    assert jobset_template(player, made)[0] == before
    player.delete_pods(*player.pods)  # as its controller does
    story.wait(lambda: story.node_of("urgent"), "the urgent pod to run")


def _spec_of(role: Any) -> Any:
    return role["template"]["spec"]["template"]["spec"]


# ---- Ray, by whose operator's rules a player makes pods


def test_a_ray_cluster_waits_without_pods_and_is_started_whole(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    managed(story, 2)
    story.start_operator()
    spec = ray_spec(ray_group("small", 2), more="suspend: true, ")
    made = player.make(ray_object("RayCluster", "rc", spec))
    story.wait(lambda: story.all("PodGroup"), "it to wait")
    assert player.change(made, {})["spec"]["suspend"]

    story.resize_queue(QUEUE, 3)

    story.wait(lambda: not player.change(made, {})["spec"]["suspend"], "the RayCluster to be started")
    started = player.change(made, {})
    assert started["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"] == {POOL: story.namespace}
    ray_head(player, started)
    assert not player.bound()
    ray_workers(player, started, "small")
    player.wait_bound(3)
    player.wait_used(3)


# ---- with the webhook


def test_with_the_webhook_nobody_has_to_write_suspend(story: Story) -> None:
    jobs = managed(story, 2)
    player = Player(story, JOBSET_KIND)

    def asked(_: Story) -> bool:
        probe = jobs.batch.create_namespaced_job
        spec = {"template": yaml.safe_load(TEMPLATE)}
        meta = {"name": "probe", "labels": {f"{GROUP}/queue-name": QUEUE}}
        return bool(probe(story.namespace, {"metadata": meta, "spec": spec}, dry_run="All").spec.suspend)

    with webhooks_asked(story, asked, "suspend-webhook"):
        jobs.make("train", 3, suspend=False)
        assert jobs.waits("train")
        jobs.make("other", 3, suspend=False, labels={f"{GROUP}/queue-name": ""})
        assert not jobs.get("other").spec.suspend
        made = player.make(set_of(3, suspended=False))
        assert made["spec"]["suspend"]

        jobs.make("small", 2, suspend=False)
        story.wait(lambda: jobs.runs("small", 2), "a Job that fits to run")
        assert jobs.waits("train")
