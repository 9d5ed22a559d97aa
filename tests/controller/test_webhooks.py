"""What is refused, warned of and filled in, and how it is said."""

from __future__ import annotations

import pytest

from tutti.controller import kopf_handlers, reviews
from tutti.controller.references import References
from tutti.engine.reading.catalog import Catalog

CLASSES = Catalog()  # no class of priority is there


def review(kind, raw, old, specs, classes=CLASSES):
    return reviews.review(kind, raw, old, specs, classes=classes)


def defaults(kind, raw, specs, queue="default"):
    return kopf_handlers.spec_defaults(kind, raw, specs, queue=queue)


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
    specs = References()
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
    found = review(raw["kind"], raw, None, References())

    assert [problem.path for problem in found.problems] == [path]
    assert said in found.problems[0].message


def test_a_ring_of_cohorts_is_refused_and_spelled_out():
    specs = known(obj("Cohort", "b", spec={"parentName": "c"}), obj("Cohort", "c", spec={"parentName": "a"}))

    (problem,) = review("Cohort", obj("Cohort", "a", spec={"parentName": "b"}), None, specs).problems

    assert problem.path == "spec.parentName"
    assert "a -> b -> c -> a" in problem.message
    assert review("Cohort", obj("Cohort", "a", spec={"parentName": "other"}), None, specs).problems == []


def test_a_cohort_that_would_stand_too_deep_is_refused():
    chain = [obj("Cohort", f"c{number}", spec={"parentName": f"c{number + 1}"}) for number in range(101)]

    (problem,) = review("Cohort", chain[0], None, known(*chain[1:])).problems

    assert problem.path == "spec.parentName"
    assert "more than 100 cohorts above it" in problem.message
    assert review("Cohort", chain[1], None, known(*chain[2:])).problems == []


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
    found = review(raw["kind"], raw, None, References())

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

    assert (
        review("ClusterQueue", bad | {"metadata": {"name": "a", "labels": {"l": "1"}}}, bad, References()).problems
        == []
    )
    assert review("ClusterQueue", worse, bad, References()).problems != []
    leaving = obj("ClusterQueue", spec={"cohort": "y"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert review("ClusterQueue", leaving, bad, References()).problems == []


def test_a_workload_without_a_queue_goes_to_the_default_queue_of_its_namespace():
    specs = known(obj("LocalQueue", "default", namespace="team"))

    assert defaults("Workload", workload(), specs) == {"queueName": "default"}
    assert defaults("Workload", workload(), specs, queue="main") == {}
    assert defaults("Workload", workload(), specs, queue="") == {}
    assert defaults("Workload", workload(queueName="other"), specs) == {}
    assert defaults("Workload", workload(), References()) == {}
    assert defaults("LocalQueue", obj("LocalQueue", namespace="team"), specs) == {}


def test_a_pod_group_made_for_annotations_keeps_saying_what_they_say():
    specs = known(obj("LocalQueue", "default", namespace="team"))
    made = obj("PodGroup", namespace="team", labels={"scheduling.tutti.dev/implicit": "volcano"})

    assert defaults("PodGroup", made, specs) == {}
    assert defaults("PodGroup", obj("PodGroup", namespace="team"), specs) == {"queueName": "default"}


def used(queue, **amounts):
    """The queue with a status that says that this is in use."""
    resources = [{"name": name, "total": total} for name, total in amounts.items()]
    return queue | {"status": {"flavorsReservation": [{"name": "f", "resources": resources}]}}


FLAVOR = obj("ResourceFlavor", "f")
COHORT = {"cohortName": "all"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            quota("f", "2"), ["nominalQuota: 2 is less than the 3 cpu of flavor f that are in use"], id="less"
        ),
        pytest.param(quota("f", "3"), [], id="as much"),
        pytest.param(quota("f", "50%"), [], id="a part of what nodes offer"),
        pytest.param(quota("f", "2") | COHORT, ["the rest counts as borrowed"], id="in a cohort"),
        pytest.param({"resourceGroups": []}, ["spec.resourceGroups: 3 cpu of flavor f are in use"], id="nothing"),
    ],
)
def test_quota_that_is_made_less_than_what_is_in_use_is_warned_of(spec, said):
    old = used(obj("ClusterQueue", spec=quota("f", "4")), cpu="3")

    found = review("ClusterQueue", obj("ClusterQueue", spec=spec), old, known(FLAVOR))

    assert found.problems == []
    assert len(found.warnings) == len(said)
    for warning, part in zip(found.warnings, said, strict=True):
        assert part in warning


def test_quota_that_was_borrowed_already_is_not_warned_of_when_it_grows():
    old = used(obj("ClusterQueue", spec=quota("f", "1") | COHORT), cpu="3")

    assert review("ClusterQueue", obj("ClusterQueue", spec=quota("f", "2") | COHORT), old, known(FLAVOR)).warnings == []


def test_every_missing_name_is_told_with_its_place_and_the_nearest_one():
    specs = known(obj("ResourceFlavor", "h100"), obj("LocalQueue", "main", namespace="team"))
    spec = quota("h10")
    spec["resourceGroups"][0]["flavors"].append(spec["resourceGroups"][0]["flavors"][0] | {"name": "other"})

    first, second = review("ClusterQueue", obj("ClusterQueue", spec=spec), None, specs).warnings
    assert first.startswith(
        "spec.resourceGroups[0].flavors[0].name: ResourceFlavor h10 does not exist (did you mean h100?)"
    )
    assert second.startswith("spec.resourceGroups[0].flavors[1].name: ResourceFlavor other does not exist; it stays")
    (queue,) = review("Workload", workload(queueName="mainn"), None, specs).warnings
    assert queue.startswith("spec.queueName: LocalQueue team/mainn does not exist (did you mean main?)")


def test_a_class_of_priority_that_is_not_there_is_warned_of():
    known_classes = Catalog()
    known_classes.put(
        "WorkloadPriorityClass", {"metadata": {"name": "high"}, "kind": "WorkloadPriorityClass", "value": 9}
    )
    high, low = ({"name": name} for name in ("high", "low"))
    cluster_wide = {"name": "high", "kind": "PriorityClass", "group": "scheduling.k8s.io"}

    assert review("Workload", workload(priorityClassRef=high), None, References(), known_classes).warnings == []
    for ref in (low, cluster_wide):
        (said,) = review("Workload", workload(priorityClassRef=ref), None, References(), known_classes).warnings
        assert said.startswith("spec.priorityClassRef.name: ")
        assert "does not exist" in said


def test_a_queue_that_is_there_and_cannot_be_used_is_told_why():
    specs = known(obj("ResourceFlavor", "f", spec={"topologyName": "t"}))

    (said,) = review("ClusterQueue", obj("ClusterQueue", spec=quota("f")), None, specs).warnings
    assert "ResourceFlavor f" in said
    assert "it stays inactive until then" in said
