"""Where the pod templates of an object stand, as whoever rewrites it needs them."""

from __future__ import annotations

import pytest
import yaml

from tests.api.frameworks import shapes
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.projection import placed_roles
from tutti.api.problems import path_of

TABLE = KindTable()
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
