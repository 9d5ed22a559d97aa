"""A cluster autoscaler that a story plays: it accepts requests, makes nodes for them, fails, and takes them back."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from e2e.harness.processes import wait_for
from e2e.harness.story import Story

GROUP, VERSION, PLURAL = "autoscaling.x-k8s.io", "v1", "provisioningrequests"
DEFINITION = Path(__file__).parents[2] / "examples" / "provisioning" / "provisioningrequests.yaml"


class Autoscaler:
    """Answers the requests of one story's namespace, when it is told to."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._custom = client.CustomObjectsApi(story.api)
        self._nodes: list[str] = []
        extensions = client.ApiextensionsV1Api(story.api)
        body = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
        with contextlib.suppress(client.ApiException):  # another story has made it
            extensions.create_custom_resource_definition(body)

        def established() -> bool:
            found = extensions.read_custom_resource_definition(body["metadata"]["name"])
            return any(c.type == "Established" and c.status == "True" for c in found.status.conditions or [])

        wait_for(established, "ProvisioningRequests to be served")

    def close(self) -> None:
        """Remove the nodes that were made."""
        for name in list(self._nodes):
            self.scale_down(name)

    def requests(self) -> list[dict[str, Any]]:
        """All requests of the story, the first one first."""
        found = self._custom.list_namespaced_custom_object(GROUP, VERSION, self._story.namespace, PLURAL)
        return sorted(found["items"], key=lambda one: one["metadata"]["creationTimestamp"])

    def names(self) -> list[str]:
        """The names of all requests."""
        return [one["metadata"]["name"] for one in self.requests()]

    def asked(self, count: int = 1) -> dict[str, Any]:
        """Wait until there are so many requests; returns the last one."""
        self._story.wait(lambda: len(self.requests()) == count, f"{count} requests")
        return self.requests()[-1]

    def await_attempt(self, number: int) -> str:
        """Wait until there is one request, of this number; returns its name."""
        self._story.wait(lambda: [n for n in self.names() if n.endswith(f"-{number}")], f"request {number}")
        return next(name for name in self.names() if name.endswith(f"-{number}"))

    def say(self, name: str, kind: str, message: str = "") -> None:
        """Set a condition of a request."""
        where = (GROUP, VERSION, self._story.namespace, PLURAL, name)
        status = self._custom.get_namespaced_custom_object(*where).get("status", {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"type": kind, "status": "True", "reason": kind, "message": message, "lastTransitionTime": now}
        others = [one for one in status.get("conditions", []) if one["type"] != kind]
        self._custom.patch_namespaced_custom_object_status(*where, {"status": {"conditions": [*others, told]}})

    def provision(self, name: str) -> None:
        """Accept a request, and make nodes as its templates ask: one for each pod, as large as the pod."""
        self.say(name, "Accepted")
        request = self._custom.get_namespaced_custom_object(GROUP, VERSION, self._story.namespace, PLURAL, name)
        for part in request["spec"]["podSets"]:
            template = self._story.core.read_namespaced_pod_template(
                part["podTemplateRef"]["name"], self._story.namespace
            ).template
            for number in range(part["count"]):
                self._scale_up(f"{part['podTemplateRef']['name']}-{number}", template.spec)
        self.say(name, "Provisioned", "nodes were made")

    def _scale_up(self, name: str, spec: Any) -> None:
        gpus = spec.containers[0].resources.requests.get("nvidia.com/gpu", "0")
        room = {"cpu": "4", "memory": "8Gi", "pods": "16", "nvidia.com/gpu": gpus}
        machines, wished = self._story.cluster.machines, spec.node_selector or {}
        self._nodes.append(name)
        if self._story.cluster.kubelets and not machines.can_come:
            machines.add(name, int(gpus))
            self._story.label_nodes((name,), wished)
            return
        labels = {"kubernetes.io/hostname": name, **wished}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        body = {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
        }
        self._story.core.create_node(body)
        self._story.core.patch_node_status(name, {"status": body["status"]})

    def scale_down(self, name: str) -> None:
        """Take a node away."""
        self._nodes.remove(name)
        if self._story.cluster.kubelets and not self._story.cluster.machines.can_come:
            self._story.cluster.machines.remove(name)
            return
        with contextlib.suppress(client.ApiException):
            self._story.core.delete_node(name)

    def revoke(self, name: str) -> None:
        """Take the capacity of a request back: its nodes go, and it says so."""
        self.say(name, "CapacityRevoked", "the reservation has ended")
        for node in [one for one in self._nodes if one.startswith(name)]:
            self.scale_down(node)
