"""The user stories about devices: a gang and its claims."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from e2e.harness.devices import FROM_TEMPLATE, VERSION, claims, holder, publish, published, taint, taken, template
from e2e.harness.guests import serve
from e2e.harness.story import PAUSE, Story


@pytest.fixture
def api(story: Story) -> Any:
    """A story where claims are made from templates; what it makes for the whole cluster goes with it."""
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes claims from templates")
    with published(story) as create:
        yield create


def gang(story: Story, size: int) -> None:
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": size}}})
    for rank in range(size):
        story.pod(f"train-{rank}", labels={"scheduling.tutti.dev/pod-group": "train"}, device_claims=[FROM_TEMPLATE])


def test_a_gang_gets_claims_from_a_template_and_devices_for_all_of_them(story: Story, api: Any) -> None:
    device_class = publish(story, api)
    template(story, 2, device_class)
    story.start_operator()
    gang(story, 4)

    story.wait(lambda: len(story.where("train")) == 4, "the whole gang to be bound")
    where = set(story.where("train").values())
    devices = taken(story)
    assert len(devices) == len(set(devices)) == 8
    assert {one.split("/")[0] for one in devices} == where
    for claim in claims(story):
        assert len(claim["status"]["reservedFor"]) == 1
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


def test_a_gang_that_lacks_devices_holds_none_of_them(story: Story, api: Any) -> None:
    nodes = len(story.core.list_node().items)
    device_class = publish(story, api, 1)
    template(story, 1, device_class)
    story.start_operator()
    gang(story, nodes + 1)

    story.wait(lambda: story.why("train").get("gate") == "Placement", "the gang to wait for devices")
    assert taken(story) == []
    assert story.where("train") == {}


def test_devices_go_back_when_the_gang_is_gone(story: Story, api: Any) -> None:
    device_class = publish(story, api, 2)
    template(story, 2, device_class)
    story.start_operator()
    gang(story, 2)
    story.wait(lambda: len(story.where("train")) == 2, "the whole gang to be bound")

    for rank in range(2):
        story.core.delete_namespaced_pod(f"train-{rank}", story.namespace)

    story.wait(lambda: not claims(story), "the claims to go with their pods")


def test_an_operator_that_is_killed_between_claim_and_binding_goes_on(story: Story, api: Any) -> None:
    device_class = publish(story, api)
    template(story, 2, device_class)
    story.start_operator()
    gang(story, 4)
    story.wait(lambda: bool(taken(story)), "a claim to get its devices")
    story.kill_operator()
    story.start_operator()

    story.wait(lambda: len(story.where("train")) == 4, "the whole gang to be bound")
    devices = taken(story)
    assert len(devices) == len(set(devices)) == 8


@pytest.mark.parametrize("killed", [False, True])
def test_a_gang_asks_for_devices_as_extended_resources(story: Story, api: Any, killed: bool) -> None:
    resource = f"{publish(story, api)}.example.com/gpu"
    story.start_operator()
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": 4}}})
    for rank in range(4):
        labels = {"scheduling.tutti.dev/pod-group": "train"}
        story.pod(f"train-{rank}", labels=labels, extended={resource: "2"})
    if killed:
        story.wait(lambda: bool(claims(story)), "a claim to be made")
        story.kill_operator()
        story.start_operator()

    story.wait(lambda: len(story.where("train")) == 4, "the whole gang to be bound")
    devices = taken(story)
    assert len(devices) == len(set(devices)) == 8
    made = {one["metadata"]["name"]: one for one in claims(story)}
    assert len(made) == 4
    for pod in story.pods("train"):
        said = pod.status.extended_resource_claim_status
        claim = made[said.resource_claim_name]
        assert claim["metadata"]["ownerReferences"][0]["uid"] == pod.metadata.uid
        assert claim["status"]["reservedFor"][0]["uid"] == pod.metadata.uid
        assert {one["pool"] for one in claim["status"]["allocation"]["devices"]["results"]} == {pod.spec.node_name}
        assert said.request_mappings[0].container_name == "c"
        assert said.request_mappings[0].resource_name == resource

    for rank in range(4):
        story.core.delete_namespaced_pod(f"train-{rank}", story.namespace)
    story.wait(lambda: not claims(story), "the claims to go with their pods")


def evicted(story: Story, pod: str) -> None:
    """Wait until a pod is evicted for a taint of its device."""
    story.wait(lambda: pod not in story.living("train"), "the pod on the failing device to go")


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed meanwhile"])
def test_a_gang_whose_device_fails_is_whole_again_with_another_device(story: Story, api: Any, *, killed: bool) -> None:
    device_class = publish(story, api, 2)
    template(story, 1, device_class)
    story.start_operator(leaderElection={"enabled": False})
    story.crew("train", 4, gpus=0, device_claims=[FROM_TEMPLATE])
    story.wait(lambda: len(story.living("train")) == 4, "the whole gang to be bound")
    failing = taken(story)[0]
    lost = holder(story, failing)
    before = story.living("train")

    taint(story, failing)
    evicted(story, lost)
    if killed:
        story.kill_operator()
        story.start_operator(leaderElection={"enabled": False})

    story.wait(lambda: len(story.living("train")) == 4, "the gang to be whole again")
    story.wait(lambda: len(taken(story)) == 4, "the claim of the lost pod to go")
    assert failing not in taken(story)
    assert len({*taken(story)}) == 4
    assert before.items() - story.living("train").items() == {(lost, before[lost])}


def test_who_runs_stays_where_a_driver_has_vanished_and_nobody_else_comes(story: Story, api: Any) -> None:
    device_class = publish(story, api, 2)
    template(story, 1, device_class)
    story.start_operator()
    gang(story, 2)
    story.wait(lambda: len(story.where("train")) == 2, "the whole gang to be bound")
    where = story.where("train")
    node = where["train-0"]

    custom = client.CustomObjectsApi(story.api)
    found = custom.get_cluster_custom_object(*VERSION, "resourceslices", f"{story.namespace}-{node}")
    custom.delete_cluster_custom_object(*VERSION, "resourceslices", f"{story.namespace}-{node}")
    entry = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    for number in range(2):
        story.pod(f"late-{number}", selector={"kubernetes.io/hostname": node}, device_claims=entry)
    story.wait(lambda: story.pod_condition("late-0")[0], "the driver to be missed")
    assert story.where("late") == {}
    assert story.where("train") == where

    again = {key: found[key] for key in ("apiVersion", "kind", "spec")} | {
        "metadata": {"name": found["metadata"]["name"]}
    }
    custom.create_cluster_custom_object(*VERSION, "resourceslices", again)
    free = 2 - list(where.values()).count(node)
    story.wait(lambda: len(story.where("late")) == free, "whoever has room to come when the driver is back")
    assert len(taken(story)) == len(set(taken(story))) == 2 + free


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed meanwhile"])
def test_the_claim_of_a_pod_group_is_the_groups_and_goes_to_all_its_pods(story: Story, *, killed: bool) -> None:
    """KEP-5729, which real servers have behind a gate: `DRAWorkloadResourceClaims`."""
    if story.cluster.kind not in {"embedded", "envtest", "kubelets"}:
        pytest.skip("the claim controller has to have the gate as well")
    native = ("scheduling.k8s.io", "v1alpha2")
    serve(story.api, *native, "PodGroup")
    with published(story) as create:
        device_class = publish(story, create)
        request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": 2}}
        body = {"apiVersion": "/".join(VERSION), "kind": "ResourceClaim", "metadata": {"name": "ours"}}
        story.custom.create_namespaced_custom_object(
            *VERSION, story.namespace, "resourceclaims", {**body, "spec": {"devices": {"requests": [request]}}}
        )
        story.start_operator()
        listed = [{"name": "shared", "resourceClaimName": "ours"}]
        policy = {"gang": {"minCount": 3}}
        story.guest(*native, {"schedulingPolicy": policy, "resourceClaims": listed}, name="train")
        for rank in range(3):
            member(story, f"train-{rank}", listed)
        if killed:
            story.wait(lambda: bool(taken(story)), "the claim to get its devices")
            story.kill_operator()
            story.start_operator()

        story.wait(lambda: len(story.where("train")) == 3, "the whole gang to be bound")
        assert len(set(story.where("train").values())) == 1
        (claim,) = claims(story)
        users = [(one["apiGroup"], one["resource"], one["name"]) for one in claim["status"]["reservedFor"]]
        assert users == [("scheduling.k8s.io", "podgroups", "train")]
        assert len(taken(story)) == 2
        if story.cluster.kubelets:
            story.wait(lambda: all(one.status.phase == "Running" for one in story.pods("train")), "all to run")
            for pod in story.pods("train"):
                story.core.delete_namespaced_pod(pod.metadata.name, story.namespace)
            story.wait(lambda: not story.pods("train"), "its pods to end, which keep the group")
            assert len(taken(story)) == 2
            story.custom.delete_namespaced_custom_object(*native, story.namespace, "podgroups", "train")
            story.wait(lambda: not taken(story), "the devices to go with the group")


def member(story: Story, name: str, listed: list[dict[str, str]]) -> None:
    """A pod of the PodGroup `train`, with the claims that this lists."""
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}, "claims": [{"name": one["name"]} for one in listed]}
    spec = {
        "schedulerName": "tutti",
        "schedulingGroup": {"podGroupName": "train"},
        "resourceClaims": listed,
        "containers": [{"name": "c", "image": PAUSE, "resources": resources}],
    }
    story.core.create_namespaced_pod(story.namespace, {"metadata": {"name": name}, "spec": spec})
