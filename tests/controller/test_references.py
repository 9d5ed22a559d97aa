"""The rules behind `Active`: what is missing, what is stopped, and what heals it."""

from __future__ import annotations

import pytest

from tutti.controller.references import References, active_conditions, flavor_users, queue_users, topology_users, users


def cluster_queue(name="cq", *, cohort="", flavors=(), stop="", deleting=False):
    meta = {"name": name} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": flavor} for flavor in flavors]}]
    return "ClusterQueue", {
        "metadata": meta,
        "spec": {"cohortName": cohort, "stopPolicy": stop, "resourceGroups": groups},
    }


def cohort(name, parent="", flavors=()):
    groups = [{"flavors": [{"name": flavor} for flavor in flavors]}]
    return "Cohort", {"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": groups}}


def flavor(name, topology=None):
    return "ResourceFlavor", {"metadata": {"name": name}, "spec": {"topologyName": topology} if topology else {}}


def local_queue(name="lq", queue="cq", *, stop="", namespace="team"):
    spec = {"clusterQueue": queue, "stopPolicy": stop}
    return "LocalQueue", {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def topology(name):
    return "Topology", {"metadata": {"name": name}, "spec": {}}


def specs(*objects):
    known = References()
    for kind, raw in objects:
        known.add(kind, raw)
    return known


def verdict(known, kind, name, namespace=""):
    return dict(active_conditions(known))[kind, namespace, name]


@pytest.mark.parametrize(
    ("objects", "reason", "said"),
    [
        pytest.param([cluster_queue()], "Ready", "Can admit", id="a queue without quota is active"),
        pytest.param(
            [cluster_queue(flavors=["a"])], "FlavorNotFound", "ResourceFlavor a ", id="a missing flavor is named"
        ),
        pytest.param(
            [cluster_queue(flavors=["a", "c", "b"]), flavor("c")],
            "FlavorNotFound",
            "a, b",
            id="all missing flavors are named",
        ),
        pytest.param([cluster_queue(flavors=["a"]), flavor("a")], "Ready", "Can admit", id="its flavor exists"),
        pytest.param(
            [cluster_queue(flavors=["a"]), flavor("a", "racks")],
            "TopologyNotFound",
            "racks",
            id="its flavor misses its topology",
        ),
        pytest.param(
            [cluster_queue(flavors=["a"]), flavor("a", "racks"), topology("racks")],
            "Ready",
            "",
            id="the topology exists",
        ),
        pytest.param([cluster_queue(stop="Hold")], "Stopped", "Hold", id="held"),
        pytest.param(
            [cluster_queue(stop="HoldAndDrain", flavors=["a"])],
            "Stopped",
            "HoldAndDrain",
            id="stopped wins over missing",
        ),
        pytest.param([cluster_queue(stop="None")], "Ready", "", id="stop policy None does not stop"),
        pytest.param([cluster_queue(deleting=True)], "Terminating", "deleted", id="being deleted"),
        pytest.param([cluster_queue(cohort="nowhere")], "Ready", "", id="a cohort without an object is implicit"),
        pytest.param(
            [cluster_queue(cohort="a"), cohort("a", "b"), cohort("b", "a")],
            "CohortRing",
            "a -> b -> a",
            id="its cohorts form a ring",
        ),
        pytest.param(
            [cluster_queue(cohort="x"), cohort("x", "a"), cohort("a", "a")],
            "CohortRing",
            ": a -> a;",
            id="a ring further up",
        ),
    ],
)
def test_a_cluster_queue_is_judged_by_what_it_refers_to(objects, reason, said):
    found = verdict(specs(*objects), "ClusterQueue", "cq")

    assert reason == found.reason
    assert found.active is (reason == "Ready")
    assert said in found.message


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([local_queue()], "ClusterQueueDoesNotExist", id="no such queue"),
        pytest.param(
            [local_queue(), cluster_queue(flavors=["a"])], "ClusterQueueIsInactive", id="its queue is inactive"
        ),
        pytest.param([local_queue(), cluster_queue()], "Ready", id="its queue is active"),
        pytest.param([local_queue(stop="Hold"), cluster_queue()], "Stopped", id="stopped by itself"),
    ],
)
def test_a_local_queue_is_judged_by_its_cluster_queue(objects, reason):
    found = verdict(specs(*objects), "LocalQueue", "lq", "team")

    assert reason == found.reason
    assert found.active is (reason == "Ready")


def test_a_local_queue_that_leads_nowhere_is_told_what_to_fill_in():
    assert "spec.clusterQueue is empty" in verdict(specs(local_queue(queue="")), "LocalQueue", "lq", "team").message


def test_a_cohort_in_a_ring_and_one_with_a_missing_flavor_are_inactive_and_others_are_not():
    known = specs(cohort("a", "b"), cohort("b", "c"), cohort("c", "a"), cohort("d", "e", ["gone"]), cohort("e"))

    assert verdict(known, "Cohort", "b").reason == "CohortRing"
    assert "a -> b -> c -> a" in verdict(known, "Cohort", "b").message
    assert verdict(known, "Cohort", "d").reason == "FlavorNotFound"
    assert verdict(known, "Cohort", "e").active


def test_a_queue_heals_when_the_missing_thing_appears_and_sickens_when_it_goes():
    known = specs(cluster_queue(flavors=["a"]), local_queue())
    assert not verdict(known, "LocalQueue", "lq", "team").active

    known.add(*flavor("a"))
    assert verdict(known, "LocalQueue", "lq", "team").active

    known.remove("ResourceFlavor", "", "a")
    assert verdict(known, "ClusterQueue", "cq").reason == "FlavorNotFound"


def test_users_of_a_flavor_and_of_a_topology_are_named():
    known = specs(
        cluster_queue("q2", flavors=["a"]), cluster_queue("q1", flavors=["a", "b"]), cohort("c", flavors=["b"])
    )
    known.add(*flavor("a", "racks"))

    assert flavor_users("a", known) == ["ClusterQueue/q1", "ClusterQueue/q2"]
    assert flavor_users("b", known) == ["ClusterQueue/q1", "Cohort/c"]
    assert topology_users("racks", known) == ["ResourceFlavor/a"]
    assert topology_users("other", known) == []


def test_a_queue_being_deleted_says_which_workloads_hold_its_quota_and_how_many_more():
    known = specs(cluster_queue(deleting=True))
    known.admitted = {("PodGroup", "team", f"w{number}"): "cq" for number in range(7)} | {("Pod", "team", "x"): "other"}
    said = verdict(known, "ClusterQueue", "cq").message
    assert len(queue_users("cq", known)) == 7
    assert "PodGroup/team/w0" in said
    assert said.endswith("and 2 more")

    known.admitted = {}
    assert verdict(known, "ClusterQueue", "cq").message == "It is being deleted; nothing uses it any more"


def test_a_cohort_that_cannot_be_read_makes_the_queues_below_it_inactive():
    known = specs(cluster_queue(cohort="below"), cohort("below", "top"), cohort("top"))
    assert verdict(known, "ClusterQueue", "cq").active
    known.broken["Cohort", "", "top"] = "spec.resourceGroups: wrong"
    told = verdict(known, "ClusterQueue", "cq")
    assert (told.reason, told.message) == ("CohortInvalid", "Cohort top cannot be used: spec.resourceGroups: wrong")


def test_what_cannot_be_read_is_invalid_and_told_to_those_that_refer_to_it():
    known = specs(cluster_queue(flavors=["a"]), flavor("a"))
    known.broken["ResourceFlavor", "", "a"] = "spec.nodeLabels: wrong"
    assert verdict(known, "ResourceFlavor", "a").reason == "Invalid"
    told = verdict(known, "ClusterQueue", "cq")
    assert (told.reason, told.message) == ("FlavorInvalid", "ResourceFlavor a cannot be used: spec.nodeLabels: wrong")

    known.broken = {("ClusterQueue", "", "cq"): "spec: wrong"}
    known.add(*local_queue())
    assert verdict(known, "ClusterQueue", "cq").message == "spec: wrong"
    assert verdict(known, "LocalQueue", "lq", "team").reason == "ClusterQueueIsInactive"


def test_a_flavor_and_a_topology_being_deleted_keep_their_users_going():
    known = specs(cluster_queue(flavors=["a"]))
    known.add("ResourceFlavor", {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}})

    assert verdict(known, "ResourceFlavor", "a").reason == "Terminating"
    assert users("ResourceFlavor", "a", known) == ["ClusterQueue/cq"]
    assert verdict(known, "ClusterQueue", "cq").active


@pytest.mark.parametrize(
    "raw",
    [
        {"metadata": {"name": "cq"}},
        {"metadata": {"name": "cq"}, "spec": None},
        {"metadata": {"name": "cq"}, "spec": {"resourceGroups": "all", "cohortName": 7}},
        {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [None, {"flavors": [3, {"name": None}]}]}},
    ],
)
def test_a_malformed_spec_refers_to_nothing(raw):
    assert verdict(specs(("ClusterQueue", raw)), "ClusterQueue", "cq").active
