"""A small cluster with a Job controller: Jobs and JobSets that are started and suspended, with the pods they make."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from tests.engine.world import GPU, World
from tutti.api.core import Pod
from tutti.api.frameworks.projection import projected
from tutti.api.frameworks.roles import placed_roles
from tutti.api.frameworks.starting import StartError, restored, started, suspended
from tutti.engine.records.decisions import AnyDecision, StartOwner, SuspendOwner
from tutti.engine.records.observations import OwnerGone, OwnerSeen, OwnerWritten

QUEUE = {"scheduling.tutti.dev/queue-name": "queue"}


def template(gpus: int = 1, **spec: Any) -> dict[str, Any]:
    requests = {"requests": {GPU: str(gpus), "cpu": "1", "memory": "1Gi"}}
    return {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": requests}], **spec}}


class HeldWorld(World):
    """`makes_pods` has Jobs make theirs at once; `refuses` has every start or suspension fail so."""

    def __init__(self, **configuration: Any) -> None:
        self.raws: dict[str, dict[str, Any]] = {}
        self.makes_pods = True
        self.refuses = ""
        self.attempt = "0"
        self.stops_at: int | None = None  # how many writes are carried out before the process is killed
        super().__init__(**configuration)
        self.follow_owners()

    def held(self, kind: str, name: str, spec: dict[str, Any], **labels: str) -> str:
        """Make an object; returns its uid."""
        uid = f"{kind}-{name}"
        meta = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "1", "generation": 1}
        meta |= {"labels": QUEUE | labels, "creationTimestamp": f"2026-01-01T00:00:{len(self.raws):02}Z"}
        self.raws[uid] = {"kind": kind, "metadata": meta, "spec": spec}
        self.show(uid)
        return uid

    def job(self, name: str, count: int, **more: Any) -> str:
        spec = {"parallelism": count, "completions": count, "suspend": True, "template": template()}
        return self.held("Job", name, spec | more)

    def show(self, uid: str) -> None:
        """Have the engine see an object as it is."""
        self.owners[uid] = projected(self.raws[uid], self._kind(uid), version="v1")
        self.tell(OwnerSeen(self.owners[uid]))

    def change(self, uid: str, **spec: Any) -> None:
        """Have a user change the spec of an object."""
        raw = self.raws[uid] = copy.deepcopy(self.raws[uid])
        raw["spec"] |= spec
        raw["metadata"]["generation"] += 1
        self.show(uid)
        self._sync(uid)

    def remove(self, uid: str) -> None:
        del self.raws[uid], self.owners[uid]
        self.tell(OwnerGone(uid))
        self.delete(*[name for _, name in list(self.pods) if name.startswith(f"{uid}-")])

    def spec(self, uid: str) -> dict[str, Any]:
        return self.raws[uid]["spec"]

    def waits(self, uid: str) -> bool:
        return bool(self.spec(uid)["suspend"]) and "annotations" not in _bare(self.raws[uid]["metadata"])

    def placed(self, uid: str) -> dict[str, str]:
        return self.where(f"{uid}-")

    def _kind(self, uid: str) -> Any:
        return next(one for one in self.engine.state.kinds if one.kind == self.raws[uid]["kind"] and one.startable)

    def _carry_out(self, decision: AnyDecision) -> None:
        if self.stops_at is not None:
            if not self.stops_at:
                return
            self.stops_at -= 1
        if isinstance(decision, StartOwner | SuspendOwner):
            self._write(decision)
        else:
            super()._carry_out(decision)

    def _write(self, wanted: StartOwner | SuspendOwner) -> None:
        raw = self.raws.get(wanted.uid)
        if self.refuses or raw is None:
            self.tell(OwnerWritten(wanted.uid, self.refuses or "it does not exist any more"))
            return
        kind = self._kind(wanted.uid)
        templates = {one.role.name: one.template for one in placed_roles(raw, kind)[0]}
        try:
            if isinstance(wanted, StartOwner) and wanted.generation != raw["metadata"]["generation"]:
                self.tell(OwnerWritten(wanted.uid, "it was changed meanwhile"))
                return
            if isinstance(wanted, StartOwner):
                patch = started(raw, kind, templates, wanted.added, wanted.at)
            else:
                patch = restored(raw, kind, templates) or suspended(raw, kind)
        except StartError as error:
            self.tell(OwnerWritten(wanted.uid, str(error)))
            return
        self.raws[wanted.uid] = _applied(raw, patch)
        self.raws[wanted.uid]["metadata"]["generation"] += 1
        self.tell(OwnerWritten(wanted.uid))
        self.show(wanted.uid)
        self._sync(wanted.uid)

    def _sync(self, uid: str) -> None:
        """Do what the controller of an object does."""
        raw = self.raws[uid]
        if raw["spec"]["suspend"]:
            mine = [pod for (_, name), pod in self.pods.items() if name.startswith(f"{uid}-")]
            self.delete(*[pod.metadata.name for pod in mine if pod.status.phase != "Succeeded"])
        elif self.makes_pods:
            self.make_pods(uid)

    def make_pods(self, uid: str) -> None:
        """Make the pods of an object, those that are not there."""
        raw = self.raws[uid]
        roles = raw["spec"].get("replicatedJobs") or [{"name": "", "template": {"spec": raw["spec"]}}]
        for role in roles:
            job = role["template"]["spec"]
            for index in range(role.get("replicas", 1) * job["parallelism"]):
                name = f"{uid}-{role['name']}-{index}"
                if ("default", name) not in self.pods:
                    self._make_pod(uid, name, job["template"], role["name"])

    def _make_pod(self, uid: str, name: str, made_of: dict[str, Any], role: str) -> None:
        kind = self._kind(uid)
        owner = {"apiVersion": f"{kind.group}/v1", "kind": kind.kind, "name": self.raws[uid]["metadata"]["name"]}
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": role} if role else {}
        labels |= {"jobset.sigs.k8s.io/restart-attempt": self.attempt} if role else {}
        labels["jobset.sigs.k8s.io/jobset-name" if role else "job-name"] = self.raws[uid]["metadata"]["name"]
        meta = {"name": name, "namespace": "default", "uid": f"pod-{name}-{next(self._uids)}", "labels": labels}
        meta["ownerReferences"] = [{**owner, "uid": uid, "controller": True}]
        self.put(msgspec.convert({"metadata": meta, "spec": made_of["spec"]}, Pod))


def _bare(meta: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if value}


def _applied(value: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            out.pop(key, None)
        else:
            out[key] = _applied(out.get(key), change)
    return out
