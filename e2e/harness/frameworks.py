"""Plays the controllers of job frameworks: makes objects and pods with the labels and owners that theirs write.

What each project's controller makes of an object, and in which order, stands in `e2e.harness.controllers`; here is what
all of them do. Nobody else makes the pods: Jobs name the player as their controller (batch/v1, spec.managedBy).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.harness.guests import serve
from e2e.harness.machines import GPUS
from e2e.harness.story import PAUSE, Story

PLAYER = "e2e.tutti.dev/player"
"""Who makes the pods of Jobs, so that the cluster's own controller does not."""
QUEUE = "team"
"""The queue that the manifests name."""
TEMPLATE = f"""{{spec: {{
  schedulerName: tutti, restartPolicy: Never, terminationGracePeriodSeconds: 0,
  containers: [{{name: main, image: "{PAUSE}", resources: {{
    requests: {{cpu: 10m, memory: 8Mi, nvidia.com/gpu: "1"}}, limits: {{nvidia.com/gpu: "1"}}}}}}]}}}}"""
"""A pod template that asks for one GPU; YAML that may stand in a line."""

Made = dict[str, Any]
"""An object as the server has it."""


class Player:
    """Makes, changes and removes what controllers do, in one story.

    Args:
        kinds: What is served from the start: `group/version/Kind`, as a project's installation would have it.
        tag: What is put behind the names of objects that nobody owns, where one manifest is played twice.
    """

    def __init__(self, story: Story, *kinds: str, tag: str = "") -> None:
        self.story = story
        self.pods: list[str] = []
        self._tag, self._made = tag, list[Made]()
        self._numbers = itertools.count(1)
        for kind in kinds:
            self.serve(kind)

    # ---- what controllers do

    def serve(self, kind: str) -> None:
        """Have a kind served, by a definition that permits every field, where the server has none."""
        group, version, name = kind.split("/")
        serve(self.story.api, group, version, name)

    def make(self, manifest: str | Made, owner: Made | None = None, *, status: Made | None = None) -> Made:
        """Make an object of whatever kind, controlled by another, and write its status."""
        body: Made = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        self._not_by_others(body)
        if owner is not None:
            body["metadata"]["ownerReferences"] = [reference(owner)]
        elif self._tag:
            body["metadata"]["name"] += self._tag
        if body["kind"] == "Job" and body["apiVersion"] == "batch/v1":
            body["spec"]["managedBy"] = PLAYER
        made: Made = self.story.custom.create_namespaced_custom_object(*self._at(body), body)
        if owner is None:
            self._made.append(made)
        if status is not None:
            self.status(made, status)
        return made

    def _not_by_others(self, body: Made) -> None:
        """StatefulSets cannot say that somebody else makes their pods."""
        if body["kind"] == "StatefulSet" and self.story.cluster.stateful_sets:
            pytest.skip("the cluster's own controller would make pods of the StatefulSet too")

    def pod(self, name: str, template: Made, *owners: Made, **more: Any) -> Made:
        """Make a pod of a template, controlled by the first of its owners.

        Args:
            name: Of the pod.
            template: The pod template.
            owners: What owns it.
            more: Further `labels`, `annotations`, and fields of its `spec`.
        """
        meta = template.get("metadata", {})
        body = {
            "metadata": {
                "name": name,
                "labels": {**meta.get("labels", {}), **more.get("labels", {})},
                "annotations": {**meta.get("annotations", {}), **more.get("annotations", {})},
                "ownerReferences": [reference(one, controls=not index) for index, one in enumerate(owners)],
            },
            "spec": {**template["spec"], **more.get("spec", {})},
        }
        made = self.story.core.create_namespaced_pod(self.story.namespace, body)
        self.pods.append(name)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": made.metadata.uid}}

    def adopt(self, prefix: str, count: int) -> None:
        """Take pods for the play's own that the cluster's controllers make."""
        self.story.wait(lambda: len(self.story.pods(prefix)) == count, f"{count} pods of {prefix}")
        self.pods += [pod.metadata.name for pod in self.story.pods(prefix)]

    def suffix(self) -> str:
        """What a server puts behind a generated name."""
        return f"x{next(self._numbers):04d}"

    def change(self, made: Made, patch: Made) -> Made:
        """Merge a patch into an object."""
        where = (*self._at(made), made["metadata"]["name"])
        return dict(self.story.custom.patch_namespaced_custom_object(*where, patch))

    def status(self, made: Made, status: Made) -> None:
        """Merge a patch into the status of an object."""
        where = (*self._at(made), made["metadata"]["name"])
        self.story.custom.patch_namespaced_custom_object_status(*where, {"status": status})

    def delete(self, made: Made, *pods: str) -> None:
        """Delete an object, and the pods below it that its project's controller, or garbage collection, removes."""
        where = (*self._at(made), made["metadata"]["name"])
        self.story.custom.delete_namespaced_custom_object(*where, propagation_policy="Background")
        self.delete_pods(*pods)

    def leave(self) -> None:
        """Delete all that the play has made."""
        for made in self._made:
            self.delete(made)
        self.delete_pods(*self.pods)

    def delete_pods(self, *pods: str) -> None:
        """Delete pods; they are gone at once."""
        for pod in pods:
            with contextlib.suppress(client.ApiException):  # garbage collection may have been faster
                self.story.core.delete_namespaced_pod(pod, self.story.namespace, grace_period_seconds=0)
        self.story.wait(lambda: not {one.metadata.name for one in self.story.pods("")} & {*pods}, "pods to be gone")

    def end(self, *pods: str, phase: str = "Succeeded") -> None:
        """Let the work of pods come to an end, with success or without."""
        self.story.end(*pods, phase=phase)

    def _at(self, body: Made) -> tuple[str, str, str, str]:
        group, _, version = body["apiVersion"].partition("/")
        return group, version, self.story.namespace, f"{body['kind'].lower()}s"

    def rival(self, gpus: int = 1, name: str = "rival") -> str:
        """Somebody else's pod in the same queue; it is none of the play's."""
        self.story.pod(name, gpus=gpus, labels={"scheduling.tutti.dev/queue-name": QUEUE})
        return name

    # ---- the operator

    def start(self) -> None:
        """Start an operator that needs no lease: after its death nobody waits for that to run out."""
        self.story.start_operator(leaderElection={"enabled": False})

    def crash(self) -> None:
        """Kill -9 it, and start the next one."""
        self.story.kill_operator()
        self.start()

    # ---- room and quota

    def fill(self, free: int) -> None:
        """Use up GPUs until so many are free, by pods that somebody else has placed."""
        slots = [node for node in self.story.cluster.nodes for _ in range(GPUS)]
        for number, node in enumerate(slots[free:]):
            spec = {**yaml.safe_load(TEMPLATE)["spec"], "schedulerName": "default-scheduler", "nodeName": node}
            self.story.core.create_namespaced_pod(
                self.story.namespace, {"metadata": {"name": f"filler-{number}"}, "spec": spec}
            )

    def clear(self, count: int = 1) -> None:
        """Have so many of these GPUs free again."""
        fillers = sorted(pod.metadata.name for pod in self.story.pods("filler-"))
        self.delete_pods(*fillers[:count])

    # ---- what is seen

    def bound(self) -> set[str]:
        """The pods of the play that have a node and have not ended."""
        return {*self.story.living("")} & {*self.pods}

    def wait_bound(self, count: int, what: str = "") -> None:
        """Wait until so many are bound, and not one more."""
        self.story.wait(lambda: len(self.bound()) >= count, what or f"{count} pods to be bound")
        assert len(self.bound()) == count, f"{sorted(self.bound())} are bound, but {count} should be"

    def wait_waiting(self, reason: str, *numbers: int, pods: tuple[str, ...] = ()) -> str:
        """Wait until all pods that have no node say the reason, with the numbers in their message.

        Args:
            reason: That of the condition PodScheduled.
            numbers: What the message has to name; how large a gang is may be told as one role, and others with it.
            pods: Which pods; none: all that have no node.

        Returns:
            What the first one says.
        """
        asked = pods or tuple(one for one in self.pods if one not in self.bound())
        assert asked, "nobody waits"

        def said(pod: str) -> bool:
            assert not self.story.node_of(pod), f"{pod} has a node, but should wait with {reason}"
            why, message = self.story.pod_condition(pod)
            return why == reason and {*numbers} <= _numbers(message)

        def told() -> str:
            return "; ".join(f"{pod}: {self.story.pod_condition(pod)}" for pod in asked)

        try:
            self.story.wait(lambda: all(map(said, asked)), f"{asked} to say {reason} with {numbers}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nwhat they say: {told()}") from None
        return self.story.pod_condition(asked[0])[1]

    def wait_gathering(self) -> None:
        """Wait until a gang says that it waits for members that have not been made."""

        def waits() -> bool:
            waiting = [group.get("status", {}).get("pendingReason") or {} for group in self.story.all("PodGroup")]
            reasons = [one["reason"] for found in waiting for one in found.get("reasons", [])]
            return "WaitingForMembers" in reasons

        self.story.wait(waits, "a gang to wait for more members")

    def used(self, queue: str = QUEUE) -> int:
        """How many GPUs the pods that run count for in a ClusterQueue."""
        status = self.story.get("ClusterQueue", queue).get("status", {})
        amounts = [one for flavor in status.get("flavorsUsage", []) for one in flavor.get("resources", [])]
        return sum(int(one.get("total", 0)) for one in amounts if one["name"] == "nvidia.com/gpu")

    def wait_used(self, count: int, queue: str = QUEUE) -> None:
        """Wait until a queue counts so many GPUs."""
        self.story.wait(lambda: self.used(queue) == count, f"{count} GPUs to be counted in the queue")

    def sizes(self) -> list[int]:
        """How many each gang needs at once, as the PodGroups say that are there."""
        policies = [one["spec"]["schedulingPolicy"] for one in self.story.all("PodGroup")]
        return sorted(one["gang"]["minCount"] for one in policies if "gang" in one)

    def wait_sizes(self, *sizes: int) -> None:
        """Wait until there are PodGroups of these sizes, and no others."""
        self.story.wait(lambda: self.sizes() == sorted(sizes), f"PodGroups of {sorted(sizes)}")

    def told(self) -> str:
        """All that is said in the story: conditions of pod groups and pods, and events of whatever object."""
        texts = [
            one.get("message", "")
            for group in self.story.all("PodGroup")
            for one in group.get("status", {}).get("conditions", [])
        ]
        reasons = [group.get("status", {}).get("pendingReason") or {} for group in self.story.all("PodGroup")]
        texts += [one["message"] for reason in reasons for one in reason.get("reasons", [])]
        for pod in self.pods:
            with contextlib.suppress(client.ApiException):
                texts.append(self.story.pod_condition(pod)[1])
        return "\n".join([*texts, *self.story.notes()])


def _numbers(message: str) -> set[int]:
    """What numbers a message names, and how many start together by it."""
    role = re.search(r"of (\d+) pods of the gang", message)
    others = re.search(r"together with (\d+) other pod", message)
    together = (int(role[1]) if role else 1) + (int(others[1]) if others else 0)
    return {together, *map(int, re.findall(r"\d+", message))}


def reference(owner: Made, *, controls: bool = True) -> Made:
    """A reference to an owner, as controllers write it."""
    meta = owner["metadata"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**found, "controller": True, "blockOwnerDeletion": True} if controls else found
