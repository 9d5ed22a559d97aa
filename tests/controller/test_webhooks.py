"""What is refused, warned of and filled in, and how it is said."""

from __future__ import annotations

import pytest

from tutti.controller.specs import Specs
from tutti.controller.webhooks import defaults, review

API = "scheduling.tutti.dev/v1alpha1"


def obj(kind, name="a", *, namespace="", spec=None, **metadata):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {}) | metadata
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec if spec is not None else {}}


def quota(flavor, cpu="4"):
    return {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}],
            }
        ]
    }


def known(*objects):
    specs = Specs()
    for one in objects:
        specs.add(one["kind"], one)
    return specs


def workload(**spec):
    return obj("Workload", namespace="team", spec={"podGroups": [{"name": "main", "count": 2}], **spec})


@pytest.mark.parametrize(
    ("raw", "path", "said"),
    [
        pytest.param(
            obj("ClusterQueue", spec={"cohort": "x"}),
            "spec.cohort",
            "cohortName",
            id="an unknown field, with its nearest",
        ),
        pytest.param(
            obj("ClusterQueue", spec=quota("f", cpu="-1")),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
            "0",
            id="a negative quota",
        ),
        pytest.param(obj("Topology", spec={"levels": []}), "spec.levels", "", id="a topology without levels"),
        pytest.param(
            obj("Workload", namespace="team", spec={"podGroups": [{"count": 2, "minCount": 3}]}),
            "spec.podGroups[0]",
            "minCount cannot be above count",
            id="a gang that asks for more than it has",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_path_and_what_would_be_right(raw, path, said):
    found = review(raw["kind"], raw, None, Specs())

    assert [problem.path for problem in found.problems] == [path]
    assert said in found.problems[0].message


def test_a_ring_of_cohorts_is_refused_and_spelled_out():
    specs = known(obj("Cohort", "b", spec={"parentName": "c"}), obj("Cohort", "c", spec={"parentName": "a"}))

    (problem,) = review("Cohort", obj("Cohort", "a", spec={"parentName": "b"}), None, specs).problems

    assert problem.path == "spec.parentName"
    assert "a -> b -> c -> a" in problem.message
    assert review("Cohort", obj("Cohort", "a", spec={"parentName": "other"}), None, specs).problems == []


def test_a_cohort_below_a_ring_that_exists_already_is_only_warned_of():
    specs = known(obj("Cohort", "b", spec={"parentName": "c"}), obj("Cohort", "c", spec={"parentName": "b"}))

    found = review("Cohort", obj("Cohort", "a", spec={"parentName": "b"}), None, specs)

    assert found.problems == []
    assert "b -> c -> b" in found.warnings[0]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        pytest.param(workload(queueName="q"), "LocalQueue team/q does not exist", id="workload"),
        pytest.param(
            obj("LocalQueue", namespace="team", spec={"clusterQueue": "cq"}),
            "ClusterQueue cq does not exist",
            id="door",
        ),
        pytest.param(obj("ClusterQueue", spec=quota("f")), "ResourceFlavor f does not exist", id="queue"),
    ],
)
def test_a_name_that_nothing_bears_yet_is_warned_of_and_not_refused(raw, said):
    found = review(raw["kind"], raw, None, Specs())

    assert found.problems == []
    assert said in found.warnings[0]


def test_what_is_in_order_or_meant_so_is_not_warned_of():
    specs = known(obj("ResourceFlavor", "f"), obj("LocalQueue", "q", namespace="team"))

    assert review("ClusterQueue", obj("ClusterQueue", spec=quota("f")), None, specs).warnings == []
    assert review("ClusterQueue", obj("ClusterQueue", spec={"stopPolicy": "Hold"}), None, specs).warnings == []
    assert review("Workload", workload(queueName="q"), None, specs).warnings == []


def test_an_object_that_is_stored_already_is_refused_only_where_its_spec_changes():
    bad = obj("ClusterQueue", spec={"cohort": "x"})
    worse = obj("ClusterQueue", spec={"cohort": "y"})

    assert review("ClusterQueue", bad | {"metadata": {"name": "a", "labels": {"l": "1"}}}, bad, Specs()).problems == []
    assert review("ClusterQueue", worse, bad, Specs()).problems != []
    leaving = obj("ClusterQueue", spec={"cohort": "y"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert review("ClusterQueue", leaving, bad, Specs()).problems == []


def test_a_workload_without_a_queue_goes_to_the_default_queue_of_its_namespace():
    specs = known(obj("LocalQueue", "default", namespace="team"))

    assert defaults("Workload", workload(), specs) == {"queueName": "default"}
    assert defaults("Workload", workload(queueName="other"), specs) == {}
    assert defaults("Workload", workload(), Specs()) == {}
    assert defaults("LocalQueue", obj("LocalQueue", namespace="team"), specs) == {}


def test_a_pod_group_made_for_annotations_keeps_saying_what_they_say():
    specs = known(obj("LocalQueue", "default", namespace="team"))
    made = obj("PodGroup", namespace="team", labels={"scheduling.tutti.dev/implicit": "volcano"})

    assert defaults("PodGroup", made, specs) == {}
    assert defaults("PodGroup", obj("PodGroup", namespace="team"), specs) == {"queueName": "default"}
