"""Where the pod templates of an object stand, as whoever rewrites it needs them."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from tests.api.frameworks import shapes
from tutti.api.frameworks import KindTable, projected
from tutti.api.frameworks.roles import placed_roles
from tutti.api.problems import path_of
from tutti.api.templates import MOST_BYTES, TOO_LARGE

TABLE = KindTable()
CRON_JOB = f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec: {{jobTemplate: {{spec: {{parallelism: 2, template: {shapes.TEMPLATE}}}}}}}
"""
PLACES = {
    shapes.JOB: ["spec.template"],
    shapes.JOB_SET: [f"spec.replicatedJobs[{index}].template.spec.template" for index in range(2)],
    shapes.kubeflow("JAXJob", "jaxReplicaSpecs", shapes.replica("Worker", 3)): ["spec.jaxReplicaSpecs.Worker.template"],
    shapes.kubeflow("MPIJob", "mpiReplicaSpecs", shapes.replica("Launcher")): [
        "spec.mpiReplicaSpecs.Launcher.template"
    ],
    shapes.RAY_CLUSTER: [
        "spec.headGroupSpec.template",
        "spec.workerGroupSpecs[0].template",
        "spec.workerGroupSpecs[1].template",
    ],
    shapes.RAY_JOB: [
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs[0].template",
        "spec.rayClusterSpec.workerGroupSpecs[1].template",
        "spec.submitterPodTemplate",
    ],
    shapes.LEADER_WORKER_SET: [
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
    ],
    shapes.SPARK: ["", ""],
    shapes.STATEFUL_SET: ["spec.template"],
    CRON_JOB: ["spec.jobTemplate.spec.template"],
    shapes.STATEFUL_SET.replace("StatefulSet", "Deployment"): ["spec.template"],
    shapes.VOLCANO_JOB: ["spec.tasks[0].template", "spec.tasks[1].template"],
}


@pytest.mark.parametrize(("text", "places"), PLACES.items(), ids=[yaml.safe_load(text)["kind"] for text in PLACES])
def test_each_role_has_its_template_at_its_place(text, places):
    raw = yaml.safe_load(text)
    kind = TABLE.get(raw["apiVersion"].rpartition("/")[0], raw["kind"])
    roles, problems = placed_roles(raw, kind)
    assert [path_of(one.template) for one in roles] == places
    assert problems == []
    for one in roles:
        found = raw
        for step in one.template:
            found = found[step]
        assert not one.template or found["spec"]["schedulerName"] == "tutti"


def test_a_set_without_a_template_for_leaders_makes_them_of_that_of_workers():
    """LeaderWorkerSet, leaderworkerset_types.go: leaderTemplate may be left out."""
    raw = yaml.safe_load(shapes.LEADER_WORKER_SET)
    del raw["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    roles, _ = placed_roles(raw, TABLE.get("leaderworkerset.x-k8s.io", "LeaderWorkerSet"))
    assert roles[0].template == roles[1].template == ("spec", "leaderWorkerTemplate", "workerTemplate")


def role_templates(text: str, **changes) -> dict[str, dict]:
    raw = yaml.safe_load(text)
    raw["spec"] |= changes
    kind = TABLE.get(raw["apiVersion"].rpartition("/")[0], raw["kind"])
    return {role.name: role.template for role in projected(raw, kind).roles}


def test_templates_are_kept_of_pods_for_whom_room_is_kept_before_they_are_made():
    """Their pods do not exist when the gang starts: what they need is to be read from the template."""
    kept = {"spec": {"schedulerName": "tutti", "containers": [{"name": "main"}]}}
    assert role_templates(shapes.JOB) == {"main": {}}
    assert role_templates(shapes.LEADER_WORKER_SET) == {"leader": {}, "worker": {}}
    assert role_templates(shapes.LEADER_WORKER_SET, startupPolicy="LeaderReady") == {"leader": {}, "worker": kept}
    assert role_templates(shapes.RAY_JOB)["submitter"] == kept
    assert role_templates(shapes.JOB_SET) == {"driver": {}, "workers": {}}
    in_order = {"startupPolicyOrder": "InOrder"}
    assert role_templates(shapes.JOB_SET, startupPolicy=in_order) == {"driver": kept, "workers": kept}
    assert role_templates(shapes.SPARK) == {"driver": {}, "executor": {}}


def test_all_templates_of_an_object_are_within_the_bytes_of_one():
    tolerations = [{"key": f"key-{index}", "operator": "Exists"} for index in range(1_000)]
    template = {"spec": {"schedulerName": "tutti", "tolerations": tolerations}}
    roles = [{"name": f"r{index}", "template": {"spec": {"template": template}}} for index in range(4)]
    kept = role_templates(shapes.JOB_SET, startupPolicy={"startupPolicyOrder": "InOrder"}, replicatedJobs=roles)
    assert [TOO_LARGE in one for one in kept.values()] == [False, True, True, True]
    assert len(msgspec.json.encode(kept)) < MOST_BYTES + 1_000


@pytest.mark.parametrize("depth", [60, 2_000])
def test_a_template_that_is_nested_too_deep_is_a_problem(depth):
    value: object = "x"
    for _ in range(depth):
        value = [value]
    raw = yaml.safe_load(shapes.LEADER_WORKER_SET)
    raw["spec"]["startupPolicy"] = "LeaderReady"
    raw["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["tolerations"] = value
    problems = projected(raw, TABLE.get("leaderworkerset.x-k8s.io", "LeaderWorkerSet")).problems
    expected = ("spec.leaderWorkerTemplate.workerTemplate: is nested deeper than 64 levels",)
    assert problems == (expected if depth > 64 else ())
