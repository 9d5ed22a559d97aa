"""Pods whose devices are tainted with NoExecute are deleted, in the time that their claims tolerate.

Who taints is a driver, or an administrator by a DeviceTaintRule. Rules: pkg/controller/devicetainteviction, 1.36:
tolerations are those that the allocation has kept; one without seconds tolerates for ever, of several the shortest time
counts, from when the taint was added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Version

log = structlog.get_logger()

_API: Final = "resource.k8s.io"
_DISRUPTED: Final = {
    "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint",
}


class DeviceTaintEvictions:
    """Follows slices, taint rules and claims."""

    def __init__(self, backend: Backend) -> None:
        self._local = Local(backend, "device-taint-eviction-controller")
        self._slices = Tended(backend, _API, "v1", "resourceslices")
        self._rules = Tended(backend, _API, "v1", "devicetaintrules")
        self._claims = Tended(backend, _API, "v1", "resourceclaims")
        self._pods = Tended(backend, "", "v1", "pods")
        self._tainted: dict[str, dict[tuple[str, str, str], list[Json]]] = {}
        self._worker = Worker("device-taint-eviction", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note claims when taints of devices change, and claims that got devices, or users, while some are tainted."""
        if resource.storage == self._slices.storage:
            version = new or old
            if version is not None:
                self._note_slice(version.key[1], new)
        elif resource.storage == self._rules.storage:
            for one in self._slices.scan():
                self._note_slice(one.key[1], one)
        elif resource.storage == self._claims.storage and new is not None and self._tainted:
            self._worker.note((self._claims.storage, new.key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _note_slice(self, name: str, new: Version | None) -> None:
        rules = [one.obj["spec"] for one in self._rules.scan()]
        found = dict(_tainted(new.obj["spec"], rules)) if new is not None else {}
        if found == self._tainted.get(name, {}):
            return
        if found:
            self._tainted[name] = found
        else:
            self._tainted.pop(name, None)
        for claim in self._claims.scan():
            if (claim.obj.get("status") or {}).get("reservedFor"):
                self._worker.note((self._claims.storage, claim.key))

    async def _sync(self, place: Place) -> None:
        claim = self._claims.get(place[1])
        due = self._due(claim.obj) if claim is not None else None
        if claim is None or due is None:
            self._worker.forget(place)
            return
        left = due - clock.moment()
        if left > 0:
            self._worker.later(left, place)
            return
        for user in claim.obj["status"].get("reservedFor", ()):
            pod = self._pods.get((claim.key[0], user["name"])) if user.get("resource") == "pods" else None
            if pod is not None and pod.obj["metadata"]["uid"] == user["uid"] and pod.obj["spec"].get("nodeName"):
                self._evict(pod)

    def _due(self, claim: Json) -> float | None:
        """When the users of a claim have to go; None where they may stay."""
        results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ()
        times = [
            moment
            for result in results
            for taints in self._tainted.values()
            for taint in taints.get((result["driver"], result["pool"], result["device"]), ())
            if (moment := _gone_at(taint, result.get("tolerations") or ())) is not None
        ]
        return min(times, default=None)

    def _evict(self, pod: Version) -> None:
        if pod.obj["metadata"].get("deletionTimestamp") or pod.obj["status"].get("phase") in ("Succeeded", "Failed"):
            return
        log.info("pod_evicted_by_device_taint", pod="/".join(pod.key))
        status = pod.obj.get("status", {})
        marked = clock.put_condition(
            status.get("conditions", ()), "DisruptionTarget", "True", lastProbeTime=None, **_DISRUPTED
        )
        pod = self._local.set_status(self._pods.resource, pod, {**status, "conditions": marked})
        self._local.remove(self._pods.resource, pod)


def _tainted(spec: Json, rules: Iterable[Json]) -> Iterable[tuple[tuple[str, str, str], list[Json]]]:
    for device in spec.get("devices", ()):
        name = (spec["driver"], spec["pool"]["name"], device["name"])
        said = [*device.get("taints", ()), *(rule["taint"] for rule in rules if _selects(rule, *name))]
        taints = [one for one in said if one["effect"] == "NoExecute"]
        if taints:
            yield name, taints


def _selects(rule: Json, driver: str, pool: str, device: str) -> bool:
    """Whether a rule is about a device; one without a selector is about none."""
    selector = rule.get("deviceSelector")
    named = {"driver": driver, "pool": pool, "device": device}
    return selector is not None and all(selector.get(key) in (None, value) for key, value in named.items())


def _gone_at(taint: Json, tolerations: Iterable[Json]) -> float | None:
    """The moment at which a taint ends the use of a device; None for never."""
    since = clock.parse_time(taint["timeAdded"]).timestamp() if taint.get("timeAdded") else clock.moment()
    matching = [one for one in tolerations if one.get("effect") == "NoExecute" and _tolerates(one, taint)]
    if not matching:
        return since
    seconds = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
    return since + max(min(seconds), 0) if seconds else None


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or toleration.get("value", "") == taint.get("value", "")
