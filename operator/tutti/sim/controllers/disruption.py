"""The disruption controller: keeps the status of pod disruption budgets, which evictions are granted by.

Healthy is a pod that is Ready and not being deleted (pkg/controller/disruption). The expected count is the number of
pods that match, where the original asks the pods' controllers for their scale.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tutti.sim.kinds.resource import Resource
from tutti.sim.meta import labels
from tutti.sim.rest.backend import Backend
from tutti.sim.rest.local import Local
from tutti.sim.store.version import Key, Version

Json = dict[str, Any]


class DisruptionController:
    """Follows budgets and pods."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "disruption-controller")
        self._budgets = backend.resource("policy", "v1", "poddisruptionbudgets")
        self._pods = backend.resource("", "v1", "pods")
        self._due: set[str] = set()

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note the namespace of a write that budgets may depend on, and look at it soon."""
        version = new or old
        if version is None or resource.storage not in ("pods", self._budgets.storage):
            return
        namespace = version.key[0]
        if namespace not in self._due and (resource is self._budgets or self._has_budgets(namespace)):
            self._due.add(namespace)
            asyncio.get_running_loop().call_soon(self._sync, namespace)

    def _has_budgets(self, namespace: str) -> bool:
        return next(self._backend.collection(self._budgets).scan(namespace), None) is not None

    def _sync(self, namespace: str) -> None:
        self._due.discard(namespace)
        pods = list(self._backend.collection(self._pods).scan(namespace))
        for budget in list(self._backend.collection(self._budgets).scan(namespace)):
            selects = labels.from_object(budget.obj["spec"].get("selector"))
            matching = [one for one in pods if selects(one.obj["metadata"].get("labels", {})) and not _ended(one.obj)]
            status = counted(budget.obj, matching)
            if status != budget.obj.get("status"):
                self._local.set_status(self._budgets, budget, status)


def counted(budget: Json, pods: list[Version]) -> Json:
    """The status of a budget over the pods that match it."""
    status = {key: value for key, value in budget.get("status", {}).items() if key != "disruptedPods"}
    present: dict[str, Key] = {one.key[1]: one.key for one in pods if not one.obj["metadata"].get("deletionTimestamp")}
    disrupted = {
        name: moment for name, moment in budget.get("status", {}).get("disruptedPods", {}).items() if name in present
    }
    healthy = sum(1 for one in pods if _healthy(one.obj) and one.key[1] not in disrupted)
    desired = _desired(budget["spec"], len(pods))
    status |= {
        "observedGeneration": budget["metadata"].get("generation", 0),
        "expectedPods": len(pods),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(healthy - desired, 0),
    }
    return {**status, "disruptedPods": disrupted} if disrupted else status


def _desired(spec: Json, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(expected - _share(spec["maxUnavailable"], expected), 0)
    return _share(spec.get("minAvailable", 1), expected)


def _share(value: Any, total: int) -> int:
    """A count, or a percentage of a total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(str(value).rstrip("%")) * total // 100)


def _healthy(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
