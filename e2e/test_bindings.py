"""A pod that is bound in protobuf, as Tutti does, says what it would say had it been bound in JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from e2e.harness.clusters import Cluster
from e2e.harness.story import Story
from tutti.engine.records.decisions import Bind
from tutti.kube.binder import Binder, BindOutcome
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.fencing import unfenced

CONTAINERS = [{"name": "c", "image": "registry.example/c:1"}]
OWN = ("name", "uid", "resourceVersion", "creationTimestamp")
"""In what metadata of equal pods differ."""


def created(core: CoreV1Api, namespace: str, name: str) -> str:
    """Make a pod that nobody else binds; its uid."""
    spec = {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": CONTAINERS}
    meta = {"name": name, "annotations": {"before": "kept", "both": "of the pod"}}
    return str(core.create_namespaced_pod(namespace, {"metadata": meta, "spec": spec}).metadata.uid)


def bound_in_json(core: CoreV1Api, namespace: str, name: str, uid: str, node: str, said: Mapping[str, str]) -> None:
    meta = {"name": name, "namespace": namespace, "uid": uid, "annotations": said}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}}
    core.create_namespaced_pod_binding(name, namespace, body, _preload_content=False)


async def bound_by_tutti(cluster: Cluster, bind: Bind) -> BindOutcome:
    async with Client(await Credentials.load(cluster.kubeconfig)) as client:
        return (await Binder(client, fence=unfenced).bind(bind)).outcome


def read(core: CoreV1Api, namespace: str, name: str) -> dict[str, Any]:
    """A pod as the server has it, without what is its own or tells a time."""
    pod = json.loads(core.read_namespaced_pod(name, namespace, _preload_content=False).data)
    pod["metadata"] = {key: value for key, value in pod["metadata"].items() if key not in OWN}
    for condition in pod["status"].get("conditions", ()):
        condition.pop("lastTransitionTime", None)
    for written in pod["metadata"].get("managedFields", ()):
        written.pop("time", None)
        written.pop("manager", None)  # by the client's name
    return pod


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"both": "of the binding", "empty": ""},
        {"example.com/text": "\x00 \t\n \\ \x7f \xe9 \u07ff \u0800 \uffff \U00010000 \U0010ffff"},
        {f"example.com/l{length}": "x" * length for length in (1, 127, 128, 16383, 16384)},
        {"example.com/large": "\xe9" * 65_536},
    ],
    ids=["nothing", "over another", "characters", "lengths", "large"],
)
def test_a_pod_is_the_same_however_it_was_bound(story: Story, core: CoreV1Api, said: dict[str, str]) -> None:
    space, node = story.namespace, "no-such-node"
    ours, theirs = (created(core, space, name) for name in ("ours", "theirs"))
    bound_in_json(core, space, "theirs", theirs, node, said)
    outcome = asyncio.run(bound_by_tutti(story.cluster, Bind(space, "ours", ours, node, annotations=said)))
    assert outcome is BindOutcome.BOUND
    pod = read(core, space, "ours")
    assert pod == read(core, space, "theirs")
    assert pod["spec"]["nodeName"] == node
    assert pod["metadata"]["annotations"] == {"before": "kept", "both": "of the pod", **said}
    assert [(one["type"], one["status"]) for one in pod["status"]["conditions"]] == [("PodScheduled", "True")]
