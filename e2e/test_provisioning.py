"""ProvisioningRequests: nodes come for a gang that has quota, whatever becomes of the request or the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.autoscaler import Autoscaler
from e2e.harness.story import GROUP, Story

CONTROLLER = "scheduling.tutti.dev/provisioning-request"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@pytest.fixture
def autoscaler(story: Story) -> Iterator[Autoscaler]:
    """An autoscaler, and at the end no engine that has failed: the next one would hide it."""
    one = Autoscaler(story)
    yield one
    one.close()
    said = story.log.read_text(encoding="utf-8")
    assert "engine_failed" not in said
    assert "set_aside" not in said


def pools(story: Story, *flavors: str, retries: int = 0, **strategy: Any) -> None:
    """A queue whose flavors have no nodes, and a check that has them made."""
    retry = {"backoffLimitCount": retries, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
    asks = {"provisioningClassName": CLASS, "retryStrategy": retry}
    story.object("AdmissionCheck", story.namespace, {"controllerName": CONTROLLER, "provisioning": asks})
    quota = [{"name": "nvidia.com/gpu", "nominalQuota": 4}, {"name": "cpu", "nominalQuota": 100}]
    quota.append({"name": "memory", "nominalQuota": "1Ti"})
    named = []
    for flavor in flavors:
        name = f"{story.namespace}-{flavor}"
        story.object("ResourceFlavor", name, {"nodeLabels": {"e2e.example.com/pool": name}})
        named.append({"name": name, "resources": quota})
    groups = [{"coveredResources": [one["name"] for one in quota], "flavors": named}]
    checks = {"admissionChecks": [{"name": story.namespace}], **strategy}
    spec = {"resourceGroups": groups, "namespaceSelector": {}, "admissionChecksStrategy": checks}
    story.object("ClusterQueue", story.namespace, spec)
    story.object("LocalQueue", story.namespace, {"clusterQueue": story.namespace})


def states(story: Story, name: str = "g") -> list[tuple[str, str]]:
    """What has been asked for: the flavor and the state of each."""
    said = story.get("PodGroup", name).get("status", {}).get("provisioning", [])
    return [(one["flavors"][0].rpartition("-")[2], one["state"]) for one in said]


def test_nodes_are_made_for_a_gang_that_has_quota_and_it_runs_there(story: Story, autoscaler: Autoscaler) -> None:
    pools(story, "spot")
    story.start_operator()
    story.wait(
        lambda: story.condition("AdmissionCheck", story.namespace, "Active").get("status") == "True", "it to be Active"
    )
    story.gang("g", 2, queue=story.namespace)
    request = autoscaler.asked()
    assert request["spec"]["podSets"][0]["count"] == 2
    story.wait(lambda: story.why("g").get("reason") == "ProvisioningPending", "the gang to say so")
    story.wait(lambda: story.pod_condition("g-0")[0] == "ProvisioningPending", "its pods to say so")
    name = request["metadata"]["name"]
    autoscaler.provision(name)
    story.wait(lambda: len(story.where("g-")) == 2, "the gang to run")
    assert all(node.startswith(name) for node in story.where("g-").values())
    consumed = story.pods("g-")[0].metadata.annotations["autoscaling.x-k8s.io/consume-provisioning-request"]
    assert consumed == name
    story.finish("g-")
    story.wait(lambda: not autoscaler.names(), "the request to be removed")
    templates, made = story.core.list_namespaced_pod_template, f"{GROUP}/provisions-for"
    story.wait(lambda: not templates(story.namespace, label_selector=made).items, "and its templates after it")


def test_a_flavor_that_is_sold_out_leaves_the_next_one(story: Story, autoscaler: Autoscaler) -> None:
    pools(story, "spot", "demand", retries=1)
    story.start_operator()
    story.gang("g", 2, queue=story.namespace)
    autoscaler.say(autoscaler.await_attempt(1), "Failed", "sold out")
    # By an event: the state is another one as soon as it is asked for again.
    story.wait(lambda: any("(request 1 of 2)" in note for _, note in story.events("g")), "the failure to be told")
    autoscaler.say(autoscaler.await_attempt(2), "Failed", "still sold out")
    story.wait(lambda: ("demand", "Pending") in states(story), "the next flavor to be asked for")
    assert ("spot", "GivenUp") in states(story)
    story.wait(lambda: "ProvisioningGivenUp" in dict(story.events("g")), "an event that says so")
    autoscaler.provision(autoscaler.asked()["metadata"]["name"])
    story.wait(lambda: len(story.where("g-")) == 2, "the gang to run")


def test_an_operator_that_dies_between_its_writes_makes_one_request(story: Story, autoscaler: Autoscaler) -> None:
    """Killed after the templates were made, after the request was, and after it was answered."""
    pools(story, "spot")
    story.start_operator()
    story.gang("g", 2, queue=story.namespace)
    request = autoscaler.asked()
    name, uid = request["metadata"]["name"], request["metadata"]["uid"]
    story.wait(lambda: states(story) == [("spot", "Pending")], "the status to be written")
    story.kill_operator()
    custom = client.CustomObjectsApi(story.api)
    where = ("autoscaling.x-k8s.io", "v1", story.namespace, "provisioningrequests", name)
    custom.delete_namespaced_custom_object(*where)  # as if it had died after the templates
    story.start_operator()
    again = autoscaler.asked()
    assert again["metadata"]["name"] == name
    assert again["metadata"]["uid"] != uid
    story.kill_operator()
    autoscaler.provision(name)
    story.start_operator()
    story.wait(lambda: len(story.where("g-")) == 2, "the gang to run")
    assert autoscaler.names() == [name]
    templates = story.core.list_namespaced_pod_template(story.namespace, label_selector=f"{GROUP}/provisions-for")
    assert [one.metadata.name for one in templates.items] == [f"{name}-0"]


def test_a_booking_that_expires_and_capacity_that_is_revoked_are_asked_for_anew(
    story: Story, autoscaler: Autoscaler
) -> None:
    pools(story, "spot", retries=5)
    story.start_operator()
    story.gang("g", 2, queue=story.namespace)
    first = autoscaler.await_attempt(1)
    autoscaler.say(first, "Provisioned")  # and no node comes
    story.wait(lambda: story.why("g").get("reason") == "WaitingForProvisionedNodes", "the gang to look for nodes")
    autoscaler.say(first, "BookingExpired", "ten minutes are over")
    second = autoscaler.await_attempt(2)
    autoscaler.provision(second)
    story.wait(lambda: len(story.where("g-")) == 2, "the gang to run")
    autoscaler.revoke(second)
    story.wait(lambda: not story.living("g-"), "the gang to leave")
    story.let_leave("g-")
    story.wait(lambda: "EvictedDueToAdmissionCheck" in dict(story.events("g")), "it to be told")
    for rank in range(2):
        story.pod(f"g-again-{rank}", gpus=1, labels={f"{GROUP}/pod-group": "g"})
    autoscaler.provision(autoscaler.await_attempt(3))
    story.wait(lambda: len(story.living("g-again-")) == 2, "the gang to run again")


def test_a_name_that_is_taken_asks_for_nothing_under_it(story: Story, autoscaler: Autoscaler) -> None:
    """A tenant who may make PodTemplates, and no requests, has no more asked for by a template of that name."""
    pools(story, "spot", retries=5)
    story.start_operator()
    story.gang("g", 2, queue=story.namespace)
    first = autoscaler.await_attempt(1)
    greedy = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1000"}}}]}
    taken = f"{first.removesuffix('-1')}-2-0"
    body = {"metadata": {"name": taken}, "template": {"spec": greedy}}
    story.core.create_namespaced_pod_template(story.namespace, body)
    autoscaler.say(first, "Failed")
    third = autoscaler.await_attempt(3)
    story.wait(lambda: autoscaler.names() == [third], "nothing to be asked for by the second")
