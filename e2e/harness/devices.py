"""Words for stories about devices: who publishes and asks for them, who has them, and what is done to their claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client

from e2e.harness.story import Story

DRIVER = "gpu.example.com"
VERSION = ("resource.k8s.io", "v1")
FROM_TEMPLATE = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
KINDS = {"deviceclasses": "DeviceClass", "resourceslices": "ResourceSlice"}


@contextmanager
def published(story: Story) -> Iterator[Any]:
    """Makes objects for the whole cluster, and takes them away in the end."""
    custom = client.CustomObjectsApi(story.api)
    made: list[tuple[str, str]] = []

    def create(plural: str, name: str, spec: dict[str, Any]) -> None:
        custom.create_cluster_custom_object(
            *VERSION,
            plural,
            {"apiVersion": "/".join(VERSION), "kind": KINDS[plural], "metadata": {"name": name}, "spec": spec},
        )
        made.append((plural, name))

    try:
        yield create
    finally:
        for plural, name in reversed(made):
            custom.delete_cluster_custom_object(*VERSION, plural, name)


def publish(story: Story, api: Any, count: int = 4, **device: Any) -> str:
    """Every node has so many devices, of a class that is this story's own; `device` are further fields of each."""
    name = story.namespace
    for node in story.core.list_node().items:
        devices = [
            {
                "name": f"gpu-{i}",
                "attributes": {"model": {"string": "h100"}, "root": {"string": f"pci{i // 2}"}},
                **device,
            }
            for i in range(count)
        ]
        pool = {"name": node.metadata.name, "generation": 1, "resourceSliceCount": 1}
        driver = f"{name}.{DRIVER}"
        spec = {"driver": driver, "pool": pool, "nodeName": node.metadata.name, "devices": devices}
        api("resourceslices", f"{name}-{node.metadata.name}", spec)
    selectors = [{"cel": {"expression": f'device.driver == "{name}.{DRIVER}"'}}]
    api("deviceclasses", name, {"selectors": selectors, "extendedResourceName": f"{name}.example.com/gpu"})
    return name


def vanish(story: Story) -> list[dict[str, Any]]:
    """The driver takes away all that it has published; returns what that was."""
    custom, out = client.CustomObjectsApi(story.api), []
    for node in story.core.list_node().items:
        where = (*VERSION, "resourceslices", f"{story.namespace}-{node.metadata.name}")
        out.append(custom.get_cluster_custom_object(*where))
        custom.delete_cluster_custom_object(*where)
    return out


def come_back(story: Story, slices: list[dict[str, Any]]) -> None:
    """The driver publishes again what it has taken away."""
    for one in slices:
        again = {key: one[key] for key in ("apiVersion", "kind", "spec")} | {
            "metadata": {"name": one["metadata"]["name"]}
        }
        client.CustomObjectsApi(story.api).create_cluster_custom_object(*VERSION, "resourceslices", again)


def make_claim(story: Story, name: str, device_class: str, count: int = 1) -> None:
    """A claim that nobody makes from a template."""
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    body = {
        "apiVersion": "/".join(VERSION),
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }
    _claims(story).create_namespaced_custom_object(*VERSION, story.namespace, "resourceclaims", body)


def change_status(story: Story, name: str, seen: str | None = None, **status: Any) -> None:
    """Write some fields of what a claim says of its devices and users; None takes one away.

    Raises ``ApiException`` with status 409 if the claim was ``seen`` in an older version than it has by now.
    """
    where = (*VERSION, story.namespace, "resourceclaims", name)
    body = {"metadata": {"resourceVersion": seen}, "status": status} if seen else {"status": status}
    _claims(story).patch_namespaced_custom_object_status(*where, body)


def remove_claim(story: Story, name: str) -> None:
    """Delete a claim, whoever protects it."""
    where = (*VERSION, story.namespace, "resourceclaims", name)
    _claims(story).patch_namespaced_custom_object(*where, {"metadata": {"finalizers": None}})
    _claims(story).delete_namespaced_custom_object(*where)


def _claims(story: Story) -> client.CustomObjectsApi:
    return client.CustomObjectsApi(story.api)


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


def taint(story: Story, device: str) -> None:
    """The driver says of one device that it fails: whoever has it has to go."""
    node, _, name = device.partition("/")
    custom, where = client.CustomObjectsApi(story.api), (*VERSION, "resourceslices", f"{story.namespace}-{node}")
    found: Any = custom.get_cluster_custom_object(*where)
    for one in found["spec"]["devices"]:
        if one["name"] == name:
            one["taints"] = [{"key": "example.com/failing", "value": "ecc", "effect": "NoExecute"}]
    found["spec"]["pool"]["generation"] += 1
    custom.replace_cluster_custom_object(*where, found)


def holder(story: Story, device: str) -> str:
    """The pod that has a device."""
    return next(
        str(claim["status"]["reservedFor"][0]["name"])
        for claim in claims(story)
        for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        if f"{one['pool']}/{one['device']}" == device
    )
