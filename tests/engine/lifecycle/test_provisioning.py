"""ProvisioningRequests: nodes are asked for where quota is free and none has room.

Facts: cluster-autoscaler 1.36, apis/provisioningrequest/v1; Kueue 0.20, admissionchecks/provisioning.
"""

from __future__ import annotations

import pytest

from tests.engine.provisioned import CLASS, POOL, pool, progress, provisioned
from tests.engine.world import GPU, World
from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER
from tutti.engine.records.decisions import CreateProvisioning, DeleteProvisioning


@pytest.mark.parametrize("kind", ["Workload", "PodGroup"])
def test_who_has_quota_and_finds_no_nodes_has_them_made_and_starts(kind: str):
    world = provisioned(kind=kind)
    (name,) = world.autoscaler.names()
    assert world.used("cq", "spot") == 2
    assert progress(world, kind) == [(["spot"], "Pending", 0)]
    why = world.why(kind, "w")
    assert (why.gate, why.reason) == ("Checks", "ProvisioningPending")
    assert "no autoscaler has accepted it yet" in why.message
    assert "request 1 of 4" in why.message
    assert world.pod_condition("w-0").reason == "ProvisioningPending"  # so that nodes are not asked for twice
    world.autoscaler.say("Accepted")
    world.autoscaler.say("Provisioned", so="False", message="expected in 3 minutes")
    world.run()
    assert "accepted, and not provisioned yet (expected in 3 minutes)" in world.why(kind, "w").message
    world.autoscaler.say("Provisioned")
    world.run()
    why = world.why(kind, "w")
    assert (why.gate, why.reason) == ("Placement", "WaitingForProvisionedNodes")
    assert world.pod_condition("w-0").reason == "WaitingForProvisionedNodes"
    pool(world, "n1")
    world.run()
    assert world.where() == {"w-0": "n1", "w-1": "n1"}
    assert world.used("cq", "spot") == 2
    consumed = world.pods["default", "w-0"].metadata.annotations
    assert consumed["autoscaling.x-k8s.io/consume-provisioning-request"] == name
    assert consumed["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS
    assert world.autoscaler.names() == [name], "it tells of capacity that is taken back"
    world.finish("w-0", "w-1")
    world.run()
    assert world.autoscaler.names() == []
    assert not world.autoscaler.templates
    assert not world.replay().differences


def test_what_is_asked_for_is_what_the_pods_ask_for_on_nodes_of_the_flavor():
    world = provisioned(terms={"parameters": {"ValidUntilSeconds": "600"}})
    ((_, name),) = world.autoscaler.requests
    request = world.autoscaler.requests["default", name]
    assert request["spec"] == {
        "provisioningClassName": CLASS,
        "podSets": [{"podTemplateRef": {"name": f"{name}-0"}, "count": 2}],
        "parameters": {"ValidUntilSeconds": "600"},
    }
    uid = world.objects["Workload", "default", "w"]["metadata"]["uid"]
    template = world.autoscaler.templates["default", f"{name}-0"]
    for document in (request, template):
        (owner,) = document["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Workload", "w", uid)
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {POOL: "spot"}
    (container,) = spec["containers"]
    assert container["resources"]["requests"][GPU] == container["resources"]["limits"][GPU] == "1"


def test_who_fits_on_nodes_that_are_there_asks_for_none():
    world = World()
    world.autoscaler.serve()
    world.flavor("spot")
    said = {"controllerName": PROVISIONING_CONTROLLER, "provisioning": {"provisioningClassName": CLASS}}
    world.object("AdmissionCheck", "nodes", said)
    world.queue("cq", 8, flavors=("spot",), admissionChecksStrategy={"admissionChecks": [{"name": "nodes"}]})
    world.node("n1")
    world.workload("w", {"count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert len(world.where()) == 2
    assert not world.autoscaler.made
    assert "provisioning" not in world.status("Workload", "w")


def test_a_failure_gives_the_quota_back_and_is_followed_by_another_request_after_a_pause():
    world = provisioned(terms={"retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 100}})
    world.autoscaler.say("Failed", message="no capacity in this zone")
    world.run()
    assert world.used("cq", "spot") == 0
    assert progress(world) == [(["spot"], "Failed", 1)]
    assert "no capacity in this zone" in world.why("Workload", "w").message
    assert world.condition("Workload", "w", "Evicted")["reason"] == "AdmissionCheck"
    world.until(99)
    assert len(world.autoscaler.made) == 1
    world.until(2)
    assert len(world.autoscaler.made) == 2
    assert len(world.autoscaler.names()) == 1, "the failed one has gone"
    assert world.used("cq", "spot") == 2
    world.autoscaler.say("Failed")
    world.run()
    world.until(199)
    assert len(world.autoscaler.made) == 2, "the pause doubles"
    world.until(2)
    assert len(world.autoscaler.made) == 3


def test_the_next_flavor_is_tried_when_the_last_request_has_failed():
    world = provisioned(flavors=("spot", "demand"), terms={"retryStrategy": {"backoffLimitCount": 0}})
    world.autoscaler.say("Failed", message="sold out")
    world.run()
    assert progress(world) == [(["spot"], "GivenUp", 1), (["demand"], "Pending", 0)]
    assert (world.used("cq", "spot"), world.used("cq", "demand")) == (0, 2)
    assert world.events("ProvisioningGivenUp")
    world.autoscaler.say("Provisioned")
    pool(world, "n1", "demand")
    world.run()
    assert len(world.where()) == 2
    assert len(world.autoscaler.names()) == 1


def test_a_flavor_without_the_check_is_one_that_has_to_have_nodes():
    world = provisioned(flavors=("spot", "demand"), on=("spot",), terms={"retryStrategy": {"backoffLimitCount": 0}})
    world.autoscaler.say("Failed", message="sold out")
    world.run()
    assert progress(world) == [(["spot"], "GivenUp", 1)]
    why = world.why("Workload", "w")
    assert (why.gate, why.reason) == ("Placement", "Unschedulable")
    assert "nodes are not asked for any more after 1 request" in why.message
    assert "sold out" in why.message
    pool(world, "n1", "demand")
    world.run()
    assert len(world.where()) == 2
    assert not world.autoscaler.names()


def test_a_request_that_nobody_answers_is_given_up_in_time_and_taken_back():
    world = provisioned(strategy={"pendingTimeoutSeconds": 60})
    world.until(59)
    assert world.used("cq", "spot") == 2
    world.until(2)
    assert world.used("cq", "spot") == 0
    assert "not provisioned within 60 s" in world.why("Workload", "w").message
    assert not world.autoscaler.names(), "its nodes would come for nobody"


def test_a_booking_that_expires_before_there_was_room_counts_as_a_failure():
    world = provisioned()
    world.autoscaler.say("Provisioned")
    world.run()
    world.autoscaler.say("BookingExpired", message="10 minutes")
    world.run()
    assert progress(world) == [(["spot"], "Failed", 1)]
    assert world.used("cq", "spot") == 0


def test_nodes_that_others_have_taken_are_waited_for_no_longer_than_quota_may_be_kept():
    world = provisioned(strategy={"placementTimeoutSeconds": 60})
    world.autoscaler.say("Provisioned")
    world.run()
    world.until(61)
    assert progress(world) == [(["spot"], "Failed", 1)]
    assert "no room for all pods within 60 s" in world.why("Workload", "w").message


def test_who_runs_on_capacity_that_is_taken_back_leaves_and_asks_again():
    world = provisioned()
    world.autoscaler.say("Provisioned")
    pool(world, "n1")
    world.run()
    assert len(world.where()) == 2
    world.autoscaler.say("BookingExpired")  # ten minutes after, as always: nothing of it
    world.run()
    assert len(world.where()) == 2
    world.autoscaler.say("CapacityRevoked", message="reclaimed")
    world.remove_node("n1")
    world.run()
    assert not world.where()
    assert world.condition("Workload", "w", "Evicted")["reason"] == "AdmissionCheck"
    for rank in range(2):
        world.pod(f"w-again-{rank}", workload="w")
    world.until(61)
    assert progress(world) == [(["spot"], "Pending", 1)]
    assert len(world.autoscaler.made) == 2


def test_quota_that_is_taken_back_takes_the_request_back():
    world = provisioned()
    world.object("Workload", "w", {"podGroups": [{"count": 2}], "queueName": "queue", "active": False})
    world.run()
    assert world.used("cq", "spot") == 0
    assert not world.autoscaler.names()
    world.object("Workload", "w", {"podGroups": [{"count": 2}], "queueName": "queue", "active": True})
    world.run()
    assert len(world.autoscaler.made) == 2, "under another name"
    assert progress(world) == [(["spot"], "Pending", 0)]


def test_other_terms_begin_anew():
    world = provisioned(terms={"retryStrategy": {"backoffLimitCount": 0}})
    world.autoscaler.say("Failed")
    world.run()
    assert progress(world) == [(["spot"], "GivenUp", 1)]
    said = {"provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io"}
    world.object("AdmissionCheck", "nodes", {"controllerName": PROVISIONING_CONTROLLER, "provisioning": said})
    world.run()
    assert progress(world) == [(["spot"], "Pending", 0)]
    said = {"provisioningClassName": CLASS}
    world.object("AdmissionCheck", "nodes", {"controllerName": PROVISIONING_CONTROLLER, "provisioning": said})
    world.run()
    assert progress(world) == [(["spot"], "Pending", 0)]
    assert len(world.autoscaler.names()) == 1
    assert len(world.autoscaler.made) == 3


def test_ordinary_checks_are_asked_first_and_then_nodes_by_the_same_clock():
    world = provisioned(strategy={"pendingTimeoutSeconds": 100})
    world.admission_check("budget")
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    both = {"admissionChecks": [{"name": "budget"}, {"name": "nodes"}], "pendingTimeoutSeconds": 100}
    world.object("ClusterQueue", "cq", {**spec, "admissionChecksStrategy": both})
    world.workload("v", {"count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"v-{rank}", workload="v")
    world.run()
    assert world.why("Workload", "v").reason == "ChecksPending"
    assert len(world.autoscaler.made) == 1
    world.until(50)
    world.answer_check("budget", "Ready", of="v")
    world.run()
    assert world.why("Workload", "v").reason == "ProvisioningPending"
    assert len(world.autoscaler.made) == 2
    assert world.used("cq", "spot") == 4
    world.until(51)
    assert "not provisioned within 100 s" in world.why("Workload", "v").message


def test_managed_resources_decide_for_whom_nodes_are_made():
    world = provisioned(terms={"managedResources": ["example.com/other"]})
    assert not world.autoscaler.made
    assert world.why("Workload", "w").reason == "Unschedulable"
    said = "its pods ask for none of the managedResources of AdmissionCheck nodes (example.com/other)"
    assert world.why("Workload", "w").message.endswith(said)


def test_pods_go_to_the_nodes_that_the_class_names():
    updates = {"nodeSelector": [{"key": "made-for", "valueFromProvisioningClassDetail": "ResizeRequest"}]}
    world = provisioned(terms={"podSetUpdates": updates})
    world.autoscaler.say("Provisioned", ResizeRequest="r-1")
    pool(world, "n1")
    world.run()
    assert not world.where()
    world.node("n2", labels={POOL: "spot", "made-for": "r-1"})
    world.run()
    assert set(world.where().values()) == {"n2"}


def test_single_pods_are_left_to_ordinary_scale_up():
    world = provisioned()
    world.pod("alone", queue="queue")
    world.run()
    assert world.pod_condition("alone").reason == "Unschedulable"
    assert len(world.autoscaler.made) == 1


def test_a_gang_that_asks_twice_has_never_two_requests_at_once():
    world = provisioned()
    for _ in range(3):
        world.autoscaler.say("Failed")
        world.run()
        world.until(2000)
        assert len(world.autoscaler.names()) == 1
    asked = [one for one in world.log if isinstance(one, CreateProvisioning)]
    taken = [one for one in world.log if isinstance(one, DeleteProvisioning)]
    assert len({one.name for one in asked}) == len(asked) == 4
    assert len(taken) == 3
