"""Evicting a pod, if its disruption budget allows (registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import clock, labels
from tutti_sim.meta.errors import ApiError, bad_request, internal, too_many_requests
from tutti_sim.rest import delete
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.delete import DeleteOptions
from tutti_sim.rest.options import User
from tutti_sim.store.version import Version

Json = dict[str, Any]

RETRY = 10
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(backend: Backend, namespace: str, name: str, body: Any, *, user: User, dry_run: bool) -> None:
    """Delete a pod gracefully, counted against its budget; ApiError 429 when the budget is spent."""
    if not isinstance(body, dict):
        raise bad_request("an Eviction must be an object")
    meta = body.get("metadata") or {}
    if meta.get("name") and meta["name"] != name:
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
        if labels.from_object(version.obj["spec"].get("selector"))(own)
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
