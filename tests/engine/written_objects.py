"""What a World has of Tutti's kinds and of those of other projects that Tutti reads: documents, as a server keeps them.

Each method writes one as a user or a controller would, and has it seen at once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.engine.nodes_and_pods import GPU
from tutti.engine.records.observations import (
    GangObjectGone,
    GangObjectSeen,
    NetworkObjectGone,
    NetworkObjectSeen,
    ObjectGone,
    ObjectSeen,
    ThrottleGone,
    ThrottleSeen,
)

NAMESPACED = {"Workload", "PodGroup", "LocalQueue"}


class WrittenObjects:
    """The part of a World that has objects; of the rest it needs `now`, `tell`, `pod` and the next uid."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.gang_objects: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self.network_objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.throttles: dict[tuple[str, str, str], dict[str, Any]] = {}

    def object(
        self,
        kind: str,
        name: str,
        spec: dict[str, Any],
        namespace: str = "default",
        labels: dict[str, str] | None = None,
        uid: str = "",
    ) -> None:
        """Make an object of ours, or change its spec; without `uid` it has the next number."""
        key = (kind, namespace if kind in NAMESPACED else "", name)
        before = self.objects.get(key)
        meta = {
            "name": name,
            "uid": before["metadata"]["uid"] if before else uid or f"uid-{next(self._uids)}",
            "generation": before["metadata"]["generation"] + 1 if before else 1,
            "labels": labels or {},
            "creationTimestamp": before["metadata"]["creationTimestamp"]
            if before
            else self._timestamp().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if key[1]:
            meta["namespace"] = key[1]
        self.objects[key] = {
            "apiVersion": "scheduling.tutti.dev/v1alpha1",
            "kind": kind,
            "metadata": meta,
            "spec": spec,
            "status": before["status"] if before else {},
        }
        self.tell(ObjectSeen(kind, self.objects[key]))

    def put_object(self, kind: str, raw: dict[str, Any]) -> None:
        """Have an object seen as it is given, whatever it says."""
        meta = raw["metadata"]
        self.objects[kind, meta.get("namespace", ""), meta["name"]] = raw
        self.tell(ObjectSeen(kind, raw))

    def remove_object(self, kind: str, name: str, namespace: str = "default") -> None:
        key = (kind, namespace if kind in NAMESPACED else "", name)
        del self.objects[key]
        self.tell(ObjectGone(*key))

    def pod_group(self, name: str, min_count: int, namespace: str = "default", **spec: Any) -> None:
        self.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}, namespace)

    def gang(self, name: str, size: int, *, min_count: int | None = None, **pod: Any) -> None:
        """A PodGroup and its pods, `name`-0 and so on."""
        self.pod_group(name, min_count or size, pod.get("namespace", "default"))
        for rank in range(size):
            self.pod(f"{name}-{rank}", group=name, **pod)

    def workload(self, name: str, *groups: dict[str, Any], **spec: Any) -> None:
        self.object("Workload", name, {"podGroups": list(groups), **spec})

    def flavor(self, name: str = "default", **spec: Any) -> None:
        self.object("ResourceFlavor", name, spec)

    def queue(
        self,
        name: str,
        gpus: int | str,
        *,
        cohort: str = "",
        borrow: int | None = None,
        lend: int | None = None,
        flavors: tuple[str, ...] = ("default",),
        local: str = "queue",
        namespace: str = "default",
        more: dict[str, int | str] | None = None,
        **spec: Any,
    ) -> None:
        """A ClusterQueue with so many GPUs in each flavor (and plenty of the rest), and a LocalQueue to it."""
        limits = {"borrowingLimit": borrow, "lendingLimit": lend}
        gpu_quota = {"name": GPU, "nominalQuota": gpus, **{k: v for k, v in limits.items() if v is not None}}
        quotas = [gpu_quota, {"name": "cpu", "nominalQuota": 10_000}, {"name": "memory", "nominalQuota": "1000Ti"}]
        quotas += [{"name": name, "nominalQuota": amount} for name, amount in (more or {}).items()]
        group = {
            "coveredResources": [quota["name"] for quota in quotas],
            "flavors": [{"name": flavor, "resources": quotas} for flavor in flavors],
        }
        if cohort:
            spec["cohortName"] = cohort
        self.object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})
        if local:
            self.object("LocalQueue", local, {"clusterQueue": name}, namespace)

    def admission_check(self, name: str, *, active: bool = True) -> None:
        """An AdmissionCheck, and whether its controller says that it is active."""
        self.object("AdmissionCheck", name, {"controllerName": "example.com/budget"})
        self.check_active(name, active=active)

    def check_active(self, name: str, *, active: bool) -> None:
        found = self.objects["AdmissionCheck", "", name]
        condition = {
            "type": "Active",
            "status": str(active),
            "reason": "Active",
            "message": "",
            "lastTransitionTime": "",
        }
        self.put_object("AdmissionCheck", {**found, "status": {"conditions": [condition]}})

    def answer_check(self, name: str, state: str, kind: str = "Workload", of: str = "w", **said: Any) -> None:
        """The controller of a check writes its answer into a status, as server-side apply would: by name."""
        found = self.objects[kind, "default", of]
        before = found["status"].get("admissionChecks", [])
        entry = {"name": name, "state": state, "lastTransitionTime": self._timestamp().strftime("%Y-%m-%dT%H:%M:%SZ")}
        known = {one["name"]: one for one in before}
        known[name] = {**known.get(name, {}), **entry, **said}
        self.put_object(kind, {**found, "status": {**found["status"], "admissionChecks": list(known.values())}})

    def gang_object(
        self,
        api_version: str,
        name: str,
        spec: dict[str, Any],
        namespace: str = "default",
        kind: str = "PodGroup",
        owners: Any = (),
    ) -> None:
        """Make an object of another project that says how large a gang is, or change its spec."""
        key = (api_version, kind, namespace, name)
        before = self.gang_objects.get(key)
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": before["metadata"]["uid"] if before else f"uid-{next(self._uids)}",
            "generation": before["metadata"]["generation"] + 1 if before else 1,
        }
        if owners != ():
            meta["ownerReferences"] = msgspec.to_builtins(owners)
        self.gang_objects[key] = {"metadata": meta, "spec": spec, "status": before["status"] if before else {}}
        self.tell(GangObjectSeen(api_version, kind, self.gang_objects[key]))

    def remove_gang_object(
        self, api_version: str, name: str, namespace: str = "default", kind: str = "PodGroup"
    ) -> None:
        del self.gang_objects[api_version, kind, namespace, name]
        self.tell(GangObjectGone(api_version, kind, namespace, name))

    def throttle(self, kind: str, raw: dict[str, Any]) -> None:
        """Make a Throttle or ClusterThrottle, or change it."""
        meta = raw["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        before = self.throttles.get(key)
        self.throttles[key] = {"status": before["status"] if before else {}, **raw}
        self.tell(ThrottleSeen(kind, self.throttles[key]))

    def throttle_status(self, kind: str, name: str = "t") -> dict[str, Any]:
        return next(one["status"] for key, one in self.throttles.items() if (key[0], key[2]) == (kind, name))

    def remove_throttle(self, kind: str, name: str, namespace: str = "") -> None:
        del self.throttles[kind, namespace, name]
        self.tell(ThrottleGone(kind, namespace, name))

    def network_object(self, kind: str, raw: dict[str, Any]) -> None:
        """Make an AppGroup or NetworkTopology, or change it."""
        meta = raw["metadata"]
        self.network_objects[kind, meta.get("namespace", ""), meta["name"]] = raw
        self.tell(NetworkObjectSeen(kind, raw))

    def remove_network_object(self, kind: str, name: str, namespace: str = "default") -> None:
        del self.network_objects[kind, namespace, name]
        self.tell(NetworkObjectGone(kind, namespace, name))
