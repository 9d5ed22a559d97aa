"""Binding a pod to a node: the one write a scheduler lives by, so it copies as little as it can."""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import clock
from tutti_sim.meta.errors import bad_request, conflict, internal, not_found, shown
from tutti_sim.rest.backend import Backend
from tutti_sim.store.version import Version

Json = dict[str, Any]


def bind(backend: Backend, namespace: str, name: str, body: Any, *, dry_run: bool = False) -> None:
    """Assign a pod to the target of a Binding; ApiError 409 when it has a node, a gate, or is going away."""
    if not isinstance(body, dict):
        raise bad_request("a Binding must be an object with a target")
    meta = body.get("metadata") or {}
    target = body.get("target") or {}
    if meta.get("name") and meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    kind = target.get("kind", "")
    if kind not in ("", "Node"):
        raise internal(f'target.kind: Unsupported value: {shown(kind)}: supported values: "Node", "<empty>"', reason="")
    if not target.get("name"):
        raise internal("target.name: Required value", reason="")
    pods = backend.resource("", "v1", "pods")
    current = backend.store.collection("pods").get(namespace, name)
    if current is None:
        raise not_found("pods", "", name)
    _check(current.obj, name, meta)
    if dry_run:
        return
    version = backend.store.replace(backend.store.collection("pods"), current, assigned(current, target["name"], meta))
    backend.tell(pods, current, version)


def _check(pod: Json, name: str, meta: Json) -> None:
    uid = pod["metadata"]["uid"]
    if meta.get("uid") and meta["uid"] != uid:
        text = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {uid}"
        raise conflict("pods/binding", "", name, text)
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        text = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict("pods/binding", "", name, text)
    if pod["spec"].get("schedulingGates"):
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")


def assigned(current: Version, node: str, meta: Json) -> Json:
    """The pod on its node: a bare PodScheduled condition, no nomination, and the binding's labels and annotations."""
    pod = current.obj
    metadata = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        if meta.get(field):
            metadata[field] = {**metadata.get(field, {}), **meta[field]}
    status = {key: value for key, value in pod.get("status", {}).items() if key != "nominatedNodeName"}
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": clock.now(),
    }
    others = [one for one in status.get("conditions", ()) if one.get("type") != "PodScheduled"]
    status["conditions"] = [scheduled, *others]
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}
