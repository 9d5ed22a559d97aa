"""Binding a pod to a node, and evicting it, if its disruption budget allows.

Binding is the one write a scheduler lives by, so it copies as little as it can. Eviction:
registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import Json, clock, selectors
from tutti_sim.meta.errors import ApiError, bad_request, conflict, internal, not_found, shown_value, too_many_requests
from tutti_sim.rest import delete
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.delete import DeleteOptions
from tutti_sim.rest.metadata import User
from tutti_sim.store.collection import Version


def bind(backend: Backend, namespace: str, name: str, body: Any, *, dry_run: bool = False) -> None:
    """Assign a pod to the target of a Binding; ApiError 409 when it has a node, a gate, or is going away."""
    if not isinstance(body, dict):
        raise bad_request("a Binding must be an object with a target")
    meta = body.get("metadata") or {}
    target = body.get("target") or {}
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    kind = target.get("kind", "")
    if kind not in ("", "Node"):
        raise internal(
            f'target.kind: Unsupported value: {shown_value(kind)}: supported values: "Node", "<empty>"', reason=""
        )
    if not target.get("name"):
        raise internal("target.name: Required value", reason="")
    pods = backend.resource("", "v1", "pods")
    current = backend.store.collection("pods").get(namespace, name)
    if current is None:
        raise not_found("pods", "", name)
    _check(current.obj, name, meta, dry_run=dry_run)
    if dry_run:
        return
    version = backend.store.replace(backend.store.collection("pods"), current, assigned(current, target["name"], meta))
    backend.tell(pods, current, version)


def _check(pod: Json, name: str, meta: Json, *, dry_run: bool) -> None:
    own = pod["metadata"]
    for field, told in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if meta.get(field) and meta[field] != own[field]:
            text = f"Precondition failed: {told} in precondition: {meta[field]}, {told} in object meta: {own[field]}"
            key = f"{'' if dry_run else '/registry'}/pods/{own['namespace']}/{name}"
            what = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
            raise conflict("pods", "", name, what)
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


RETRY = 10
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(backend: Backend, namespace: str, name: str, body: Any, *, user: User, dry_run: bool) -> None:
    """Delete a pod gracefully, counted against its budget; ApiError 429 when the budget is spent."""
    if not isinstance(body, dict):
        raise bad_request("an Eviction must be an object")
    meta = body.get("metadata") or {}
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    pods = backend.resource("", "v1", "pods")
    current = backend.get(pods, namespace, name)
    options = delete.delete_options(body.get("deleteOptions"), {}, user=user)
    options.call.dry_run = options.call.dry_run or dry_run
    delete.check_preconditions(pods, current, options)
    phase = current.obj.get("status", {}).get("phase")
    if phase not in ("Succeeded", "Failed", "Pending") and not current.obj["metadata"].get("deletionTimestamp"):
        _take_from_budget(backend, current, options)
    if not options.call.dry_run:
        current = _mark_disrupted(backend, current)
    delete.remove(backend, pods, current, options)


def _take_from_budget(backend: Backend, pod: Version, options: DeleteOptions) -> None:
    own = pod.obj["metadata"].get("labels", {})
    collection = backend.store.collection("poddisruptionbudgets.policy")
    budgets = [
        version
        for version in collection.scan(pod.key[0])
        if selectors.from_object(version.obj["spec"].get("selector"))(own)
    ]
    if len(budgets) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets or (not _ready(pod.obj) and _tolerates_unready(budgets[0].obj)):
        return
    budget = budgets[0].obj
    status = budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {budgets[0].key[1]} is still being processed by the server.")
    if status.get("disruptionsAllowed", 0) <= 0:
        healthy = (
            f"needs {status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently"
        )
        raise _refused(f"The disruption budget {budgets[0].key[1]} {healthy}")
    if options.call.dry_run:
        return
    counted = {
        **status,
        "disruptionsAllowed": status["disruptionsAllowed"] - 1,
        "disruptedPods": {**status.get("disruptedPods", {}), pod.key[1]: clock.now()},
    }
    changed = {**budget, "metadata": dict(budget["metadata"]), "status": counted}
    resource = backend.resource("policy", "v1", "poddisruptionbudgets")
    backend.tell(resource, budgets[0], backend.store.replace(collection, budgets[0], changed))


def _refused(message: str) -> ApiError:
    return too_many_requests(REFUSED, seconds=RETRY, causes=[{"reason": "DisruptionBudget", "message": message}])


def _ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _tolerates_unready(budget: Json) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired, healthy = int(status.get("desiredHealthy", 0)), int(status.get("currentHealthy", 0))
    return 0 < desired <= healthy


def _mark_disrupted(backend: Backend, current: Version) -> Version:
    """Add the DisruptionTarget condition, so that Jobs and users see why the pod ended."""
    pod = current.obj
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": clock.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod.get("status", {})
    others = [one for one in status.get("conditions", ()) if one.get("type") != "DisruptionTarget"]
    changed = {**pod, "metadata": dict(pod["metadata"]), "status": {**status, "conditions": [*others, condition]}}
    version = backend.store.replace(backend.store.collection("pods"), current, changed)
    backend.tell(backend.resource("", "v1", "pods"), current, version)
    return version
