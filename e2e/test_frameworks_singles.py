"""What starts pod by pod: Spark, workflows, wrappers, kinds that nobody knows, and Jobs with a native PodGroup.

Shapes: spark-operator 38082f33 (v1beta2), argo-workflows f016ad89 (v1alpha1), AppWrapper of CodeFlare (v1beta2), and
the Job controller of Kubernetes 1.37 (KEP-5547: a PodGroup of policy Basic for every eligible Job, a second owner).
"""

from __future__ import annotations

from http import HTTPStatus

import pytest
import yaml
from kubernetes import client

from e2e.harness.controllers import job_pods, spark_driver, spark_executor
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.guests import serve
from e2e.harness.plays import INDEXED_JOB, KUEUE
from e2e.harness.story import Story

SPARK_KIND = "sparkoperator.k8s.io/v1beta2/SparkApplication"
WORKFLOW_KIND = "argoproj.io/v1alpha1/Workflow"
WRAPPER_KIND = "workload.codeflare.dev/v1beta2/AppWrapper"


def spark(driver_scheduler: str = "tutti") -> str:
    """A SparkApplication of a driver and three executors."""
    return f"""
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {{name: pi, labels: {KUEUE}}}
spec:
  type: Scala
  mode: cluster
  sparkVersion: 4.0.0
  driver: {{cores: 1, schedulerName: {driver_scheduler}}}
  executor: {{cores: 1, instances: 3, schedulerName: tutti}}
"""


def template(scheduler: str = "tutti") -> Made:
    """What spark-submit makes pods of."""
    made: Made = yaml.safe_load(TEMPLATE.replace("schedulerName: tutti", f"schedulerName: {scheduler}"))
    return made


def test_a_driver_starts_alone_and_its_executors_one_by_one_in_the_queue_of_the_application(story: Story) -> None:
    player = Player(story, SPARK_KIND)
    story.queue(QUEUE, 3)
    player.fill(3)
    story.start_operator()
    app = player.make(spark())
    driver = spark_driver(player, app, template())
    player.wait_bound(1)
    for number in (1, 2):
        spark_executor(player, app, driver, number, template())
        player.wait_bound(1 + number)
    spark_executor(player, app, driver, 3, template())
    player.wait_waiting("WaitingForQuota")
    player.wait_used(3)

    story.resize_queue(QUEUE, 4)
    player.wait_waiting("Unschedulable")
    player.clear()
    player.wait_bound(4)
    player.wait_used(4)


def test_executors_are_in_the_queue_of_an_application_whose_driver_another_scheduler_places(story: Story) -> None:
    player = Player(story, SPARK_KIND)
    story.queue(QUEUE, 1)
    story.start_operator()
    app = player.make(spark("default-scheduler"))
    placed = template("default-scheduler")
    placed["spec"]["nodeName"] = story.cluster.nodes[0]
    driver = spark_driver(player, app, placed)
    spark_executor(player, app, driver, 1, template())
    player.wait_bound(2)  # the driver is one of them
    spark_executor(player, app, driver, 2, template())
    player.wait_waiting("WaitingForQuota")
    player.wait_used(1)


def test_an_operator_killed_between_executors_goes_on_where_it_was(story: Story) -> None:
    player = Player(story, SPARK_KIND)
    story.queue(QUEUE, 3)
    player.start()
    app = player.make(spark())
    driver = spark_driver(player, app, template())
    player.wait_bound(1)
    for number in (1, 2):
        spark_executor(player, app, driver, number, template())
        player.crash()
        player.wait_bound(1 + number)
    spark_executor(player, app, driver, 3, template())
    player.wait_waiting("WaitingForQuota")


def test_the_steps_of_a_workflow_start_alone_in_the_queue_that_is_nearest(story: Story) -> None:
    player = Player(story, WORKFLOW_KIND)
    story.queue(QUEUE, 2)
    other = f"{story.namespace}-other"
    story.queue(other, 1)
    story.start_operator()
    flow = player.make(f"""
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{name: etl, labels: {KUEUE}}}
spec: {{entrypoint: main, templates: [{{name: main, container: {{image: busybox}}}}]}}
""")
    marks = {"workflows.argoproj.io/workflow": "etl", "workflows.argoproj.io/completed": "false"}
    for name, queue in [("etl-main-1", ""), ("etl-main-2", ""), ("etl-train-3", other), ("etl-train-4", other)]:
        labels = {**marks, **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
        player.pod(name, template(), flow, labels=labels, annotations={"workflows.argoproj.io/node-id": name})
    player.wait_bound(3)
    player.wait_waiting("WaitingForQuota")
    player.wait_used(2)
    player.wait_used(1, other)


def test_what_a_wrapper_holds_is_a_gang_in_the_queue_of_the_wrapper(story: Story) -> None:
    player = Player(story, WRAPPER_KIND)
    story.queue(QUEUE, 3)
    story.start_operator()
    inner = yaml.safe_load(INDEXED_JOB)
    del inner["metadata"]["labels"]
    wrapper = player.make(f"""
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {{name: wrapped, labels: {KUEUE}}}
spec: {{components: [{{template: {inner}}}]}}
""")
    inner["metadata"]["labels"] = {"workload.codeflare.dev/appwrapper": "wrapped"}
    job_pods(player, player.make(inner, wrapper))
    player.wait_waiting("ExceedsMaxQuota", 4)

    story.resize_queue(QUEUE, 4)

    player.wait_bound(4)
    player.wait_used(4)


def test_pods_of_a_kind_that_nobody_knows_start_alone(story: Story) -> None:
    player = Player(story, "widgets.example.com/v1/Widget")
    player.fill(2)
    story.start_operator()
    text = (
        f"{{apiVersion: widgets.example.com/v1, kind: Widget, metadata: {{name: w}}, spec: {{template: {TEMPLATE}}}}}"
    )
    owner = player.make(text)
    for number in range(3):
        player.pod(f"w-{number}", template(), owner)
    player.wait_bound(2)
    player.wait_waiting("Unschedulable")
    assert player.sizes() == []


@pytest.mark.parametrize("policy", ["basic", "gang"])
def test_a_native_pod_group_says_whether_the_pods_of_a_job_are_a_gang(story: Story, policy: str) -> None:
    """Kubernetes 1.37 makes a PodGroup of policy Basic for a Job whose `scheduling` says nothing."""
    player = Player(story)
    serve(story.api, "scheduling.k8s.io", "v1alpha2", "PodGroup")
    story.queue(QUEUE, 100)
    player.fill(3)
    story.start_operator()
    job = player.make(INDEXED_JOB)
    said = {"basic": {"basic": {}}, "gang": {"gang": {"minCount": 4}}}[policy]
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train-pgt-0"},
        "spec": {"schedulingPolicy": said},
    }
    group = player.make(body, job)
    spec = {**job["spec"]["template"]["spec"], "schedulingGroup": {"podGroupName": "train-pgt-0"}}
    for index in range(4):
        labels = {"batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/job-completion-index": str(index)}
        player.pod(f"train-{index}-{player.suffix()}", {"spec": spec}, job, group, labels=labels)
    if policy == "basic":
        player.wait_bound(3)
        player.wait_waiting("Unschedulable")
        player.wait_used(3)
    else:
        player.wait_waiting("Unschedulable", 4)
        assert not player.bound()
    assert "owners" not in player.told()

    player.clear()

    player.wait_bound(4)
    player.wait_used(4)


def test_a_native_minimum_may_change_while_its_gang_runs(story: Story) -> None:
    """KEP-5547: minCount is mutable; nobody is taken out for it, and what is added joins as there is room."""
    player = Player(story)
    serve(story.api, "scheduling.k8s.io", "v1alpha2", "PodGroup")
    story.queue(QUEUE, 100)
    player.fill(2)
    story.start_operator(onMemberLoss={"windowSeconds": 1})
    job = player.make(INDEXED_JOB)
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train-pgt-0"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    group = player.make(body, job)
    spec = {**job["spec"]["template"]["spec"], "schedulingGroup": {"podGroupName": "train-pgt-0"}}

    def more(*indexes: int) -> None:
        for index in indexes:
            labels = {"batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/job-completion-index": str(index)}
            player.pod(f"train-{index}-{player.suffix()}", {"spec": spec}, job, group, labels=labels)

    more(0, 1)
    player.wait_bound(2)
    first = player.bound()
    try:
        player.change(group, {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
    except client.ApiException as refused:
        if refused.status != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        pytest.skip("this API server takes no change of a minimum, as those before Kubernetes 1.37")
    more(2, 3)
    player.wait_waiting("Unschedulable")
    assert player.bound() == first

    player.clear()

    player.wait_bound(3)
    assert first <= player.bound()
    player.change(group, {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
    player.clear()
    player.wait_bound(4)
