"""The user stories about devices: a gang and its claims."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from e2e.harness.story import Story

DRIVER = "gpu.example.com"
VERSION = ("resource.k8s.io", "v1")


@pytest.fixture
def api(story: Story) -> Any:
    """A story where claims are made from templates; what it makes for the whole cluster goes with it."""
    custom = client.CustomObjectsApi(story.api)
    made: list[tuple[str, str]] = []

    def create(plural: str, name: str, spec: dict[str, Any]) -> None:
        custom.create_cluster_custom_object(
            *VERSION,
            plural,
            {"apiVersion": "/".join(VERSION), "kind": KINDS[plural], "metadata": {"name": name}, "spec": spec},
        )
        made.append((plural, name))

    yield create
    for plural, name in reversed(made):
        custom.delete_cluster_custom_object(*VERSION, plural, name)


KINDS = {"deviceclasses": "DeviceClass", "resourceslices": "ResourceSlice"}


def publish(story: Story, api: Any, count: int = 4, taints: list[dict[str, str]] | None = None) -> str:
    """Every node has so many devices, of a class that is this story's own."""
    name = story.namespace
    for node in story.core.list_node().items:
        devices = [
            {
                "name": f"gpu-{i}",
                "attributes": {"model": {"string": "h100"}, "root": {"string": f"pci{i // 2}"}},
                **({"taints": taints} if taints else {}),
            }
            for i in range(count)
        ]
        pool = {"name": node.metadata.name, "generation": 1, "resourceSliceCount": 1}
        driver = f"{name}.{DRIVER}"
        spec = {"driver": driver, "pool": pool, "nodeName": node.metadata.name, "devices": devices}
        api("resourceslices", f"{name}-{node.metadata.name}", spec)
    api("deviceclasses", name, {"selectors": [{"cel": {"expression": f'device.driver == "{name}.{DRIVER}"'}}]})
    return name


def template(story: Story, count: int, device_class: str) -> None:
    match = {"matchAttribute": f"{device_class}.{DRIVER}/model"}
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    spec = {"spec": {"devices": {"requests": [request], "constraints": [match]}}}
    body = {
        "apiVersion": "/".join(VERSION),
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": spec,
    }
    client.CustomObjectsApi(story.api).create_namespaced_custom_object(
        *VERSION, story.namespace, "resourceclaimtemplates", body
    )


def claims(story: Story) -> list[dict[str, Any]]:
    found = client.CustomObjectsApi(story.api).list_namespaced_custom_object(
        *VERSION, story.namespace, "resourceclaims"
    )
    items: list[dict[str, Any]] = found["items"]
    return items


def taken(story: Story) -> list[str]:
    """The devices of all claims."""
    return [
        f"{one['pool']}/{one['device']}"
        for claim in claims(story)
        for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


def gang(story: Story, size: int) -> None:
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": size}}})
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    for rank in range(size):
        story.pod(f"train-{rank}", labels={"scheduling.tutti.dev/pod-group": "train"}, device_claims=[entry])


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


def crew(story: Story, size: int) -> None:
    """A gang whose members a Job makes anew, each with a claim of its own."""
    story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": size}}})
    pod = {
        "schedulerName": "tutti",
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.9", "resources": {"requests": {"cpu": "10m"}}}],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
    }
    template = {"metadata": {"labels": {"scheduling.tutti.dev/pod-group": "train"}}, "spec": pod}
    body = {"parallelism": size, "completions": size, "backoffLimit": 100, "template": template}
    client.BatchV1Api(story.api).create_namespaced_job(story.namespace, {"metadata": {"name": "train"}, "spec": body})


def devices_of(story: Story, pod: str) -> list[str]:
    """The devices of the claims that are reserved for a pod."""
    return [
        f"{one['pool']}/{one['device']}"
        for claim in claims(story)
        if any(user["name"] == pod for user in claim.get("status", {}).get("reservedFor", ()))
        for one in claim["status"]["allocation"]["devices"]["results"]
    ]


def change_slice(story: Story, node: str, taints: dict[str, list[dict[str, str]]]) -> None:
    """The driver says of devices of a node that they are tainted."""
    custom, name = client.CustomObjectsApi(story.api), f"{story.namespace}-{node}"
    found = custom.get_cluster_custom_object(*VERSION, "resourceslices", name)
    for device in found["spec"]["devices"]:
        device["taints"] = taints.get(device["name"], [])
    custom.replace_cluster_custom_object(*VERSION, "resourceslices", name, found)


def test_a_gang_is_whole_again_without_a_device_that_its_driver_has_tainted(story: Story, api: Any) -> None:
    if story.cluster.kind != "embedded":
        pytest.skip("nobody evicts from tainted devices here, or makes the pods of Jobs, or has such a driver")
    device_class = publish(story, api, 2)
    template(story, 1, device_class)
    story.start_operator()
    crew(story, 6)
    story.wait(lambda: len(story.living("train")) == 6, "the whole gang to be bound")
    victim = min(story.living("train"))
    (broken,) = devices_of(story, victim)
    node, _, device = broken.partition("/")

    change_slice(story, node, {device: [{"key": "broken", "effect": "NoExecute"}]})

    story.wait(lambda: victim not in story.living("train"), "who uses the device to be taken out")
    story.wait(lambda: len(story.living("train")) == 6, "the gang to be whole again")
    devices = [one for pod in story.living("train") for one in devices_of(story, pod)]
    assert len(devices) == len(set(devices)) == 6
    assert broken not in devices


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
