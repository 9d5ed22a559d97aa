"""Which volume a claim gets."""

import pytest

from tutti_sim.controllers import volumematch

ZONE = "topology.kubernetes.io/zone"


def claim(size="5Gi", **spec):
    defaults = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "c"}
    return {"metadata": {"name": "d", "namespace": "default", "uid": "u"}, "spec": {**defaults, **spec}}


def volume(name="v", size="5Gi", *, phase="Available", labels=None, zone=None, **spec):
    defaults = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "c"}
    if zone:
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {**defaults, **spec},
        "status": {"phase": phase},
    }


def node(zone):
    return {"metadata": {"name": "n", "labels": {ZONE: zone}}}


def best(one, *volumes, on=None):
    found = volumematch.best(one, volumes, on)
    return found and found["metadata"]["name"]


def test_the_smallest_that_fits_is_taken():
    assert best(claim(), volume("big", "10Gi"), volume("small", "4Gi"), volume("fits", "6Gi")) == "fits"


@pytest.mark.parametrize(
    "other",
    [
        volume(storageClassName="d"),
        volume(accessModes=["ReadOnlyMany"]),
        volume(volumeMode="Block"),
        volume(phase="Released"),
        volume(phase="Pending"),
        volume(claimRef={"namespace": "default", "name": "someone"}),
        volume(claimRef={"namespace": "default", "name": "d", "uid": "an older one"}),
    ],
    ids=["class", "access", "mode", "released", "pending", "taken", "older"],
)
def test_what_does_not_suit_is_left(other):
    assert best(claim(), other) is None


def test_a_selector_chooses_by_labels():
    wanted = claim(selector={"matchLabels": {"disk": "fast"}})

    assert best(wanted, volume("slow", "5Gi"), volume("fast", "9Gi", labels={"disk": "fast"})) == "fast"


def test_a_volume_reserved_for_the_claim_comes_before_a_smaller_one():
    reserved = volume("reserved", "50Gi", claimRef={"namespace": "default", "name": "d"})

    assert best(claim(), volume("small"), reserved) == "reserved"


def test_a_node_rules_out_volumes_it_cannot_reach():
    near, far = volume("near", "9Gi", zone="a"), volume("far", "5Gi", zone="b")

    assert best(claim(), near, far, on=node("a")) == "near"
    assert best(claim(), near, far) == "far"


def test_a_provisioned_volume_is_made_where_the_node_is():
    made = volumematch.provisioned(claim(), {"provisioner": "p", "reclaimPolicy": "Retain"}, node("a"))

    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["spec"]["claimRef"]["uid"] == "u"
    assert volumematch.reachable(made, node("a"))
    assert not volumematch.reachable(made, node("b"))


def test_a_class_may_keep_to_a_topology():
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]

    assert volumematch.allows(terms, node("a"))
    assert not volumematch.allows(terms, node("b"))
    assert volumematch.allows([], node("b"))
