"""A small cluster with Kubeflow Trainer: TrainJobs of runtimes, the JobSets made of them, and their pods.

By Trainer 8c0f5059: the JobSet is made, suspended, while the TrainJob is suspended, of the runtime as it was then and
the patches as they are (trainingruntime.go, jobset.go); patches may not change while anything is active.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from tests.engine.decision_writers import merged
from tests.engine.held_owners import HeldWorld, template
from tutti.api.core import Pod
from tutti.api.frameworks.projection import projected
from tutti.api.frameworks.starting import restored, start_state, started, suspended
from tutti.engine.records.decisions import StartOwner, SuspendOwner
from tutti.engine.records.observations import OwnerGone, OwnerKindFollowed, OwnerSeen, OwnerWritten

RUNTIME = "torch"
DENIED = "RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"


def nodes(count: int, **pod: Any) -> dict[str, Any]:
    """The trainer's replicated job of a runtime."""
    job = {"parallelism": count, "completions": count, "template": template(**pod)}
    return {"name": "node", "template": {"spec": job}}


class TrainWorld(HeldWorld):
    """`runtimes` are there; `drains` is whether what is suspended has no active pods at once."""

    def __init__(self, **configuration: Any) -> None:
        self.runtimes: dict[str, list[dict[str, Any]]] = {}
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.drains = True
        super().__init__(**configuration)

    def train_job(self, name: str, runtime: str = RUNTIME, *, patches: Any = None, **labels: str) -> str:
        """Make a suspended TrainJob."""
        spec = {"suspend": True, "runtimeRef": {"name": runtime}}
        uid = self.held("TrainJob", name, spec | ({"runtimePatches": patches} if patches is not None else {}), **labels)
        self._sync(uid)
        return uid

    def runtime(self, *roles: dict[str, Any], name: str = RUNTIME) -> None:
        """Make a runtime, or write it otherwise; TrainJobs that have a JobSet already keep what it said."""
        self.runtimes[name] = list(roles)
        for uid in [uid for uid, raw in self.raws.items() if raw["kind"] == "TrainJob"]:
            self._sync(uid)

    def made(self, uid: str) -> dict[str, Any]:
        """The JobSet of a TrainJob."""
        return self.raws[f"JobSet-{uid}"]

    def drained(self, uid: str) -> None:
        """Have the status of a suspended TrainJob say that nothing of it is active."""
        self._count(uid, 0)

    def remove(self, uid: str) -> None:
        if f"JobSet-{uid}" in self.raws:
            self.remove_set(uid)
        super().remove(uid)

    def remove_set(self, uid: str) -> None:
        """Delete the JobSet of a TrainJob."""
        made = f"JobSet-{uid}"
        del self.raws[made], self.owners[made]
        self.tell(OwnerGone(made))

    def unread(self, kind: str) -> None:
        """Take away the right to read objects of a kind."""
        group = next(group for group, name in self.followed if name == kind)
        self.followed.remove((group, kind))
        self.tell(OwnerKindFollowed(group, kind, followed=False))

    def _pods_of(self, uid: str) -> list[str]:
        return [name for _, name in list(self.pods) if name.startswith(f"{uid}-")]

    def show(self, uid: str) -> None:
        version = "v1alpha1" if self.raws[uid]["kind"] == "TrainJob" else "v1alpha2"
        self.owners[uid] = projected(self.raws[uid], self._kind(uid), version=version)
        self.tell(OwnerSeen(self.owners[uid]))

    def _write(self, wanted: StartOwner | SuspendOwner) -> None:
        raw = self.raws.get(wanted.uid)
        if raw is None or raw["kind"] != "TrainJob" or self.refuses:
            super()._write(wanted)
            return
        kind, state = self._kind(wanted.uid), start_state(raw, self._kind(wanted.uid), "v1alpha1")
        patch, back = None, restored(raw, kind, {})
        if isinstance(wanted, StartOwner):
            if wanted.generation != raw["metadata"]["generation"]:
                self.tell(OwnerWritten(wanted.uid, "it was changed meanwhile"))
                return
            patch = started(raw, kind, {}, wanted.added, wanted.at)
        elif not raw["spec"]["suspend"]:
            patch = suspended(raw, kind)
        elif back is not None and not state.active:
            patch = back
        if patch is not None and not self._patched(wanted.uid, patch):
            self.tell(OwnerWritten(wanted.uid, DENIED))
            return
        self.tell(OwnerWritten(wanted.uid))
        self.show(wanted.uid)
        self._sync(wanted.uid)

    def _patched(self, uid: str, patch: dict[str, Any]) -> bool:
        """Write to a TrainJob, as far as its webhook lets that be done."""
        after = merged(self.raws[uid], patch)
        changes = after["spec"].get("runtimePatches") != self.raws[uid]["spec"].get("runtimePatches")
        active = any(one["active"] for one in self.made(uid).get("status", {}).get("replicatedJobsStatus", []))
        if changes and active:
            return False
        self.raws[uid] = after
        self.raws[uid]["metadata"]["generation"] += 1
        return True

    def _sync(self, uid: str) -> None:
        raw = self.raws[uid]
        if raw["kind"] != "TrainJob":
            super()._sync(uid)
            return
        runtime = self.kept.get(uid) or self.runtimes.get(raw["spec"]["runtimeRef"]["name"])
        if runtime is None:
            return
        self.kept[uid] = copy.deepcopy(runtime)
        made = f"JobSet-{uid}"
        known = self.raws.get(made)
        if known is None or known["spec"]["suspend"] or raw["spec"]["suspend"]:
            self._make_set(uid, made)
        if raw["spec"]["suspend"]:
            self.delete(*self._pods_of(uid))
            if self.drains:
                self._count(uid, 0)
        elif self.makes_pods:
            self.make_pods(uid)
            self._count(uid, 1)

    def _make_set(self, uid: str, made: str) -> None:
        raw, roles = self.raws[uid], copy.deepcopy(self.kept[uid])
        for patch in raw["spec"].get("runtimePatches") or []:
            for change in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                spec = change["template"]["spec"]["template"]["spec"]
                (role,) = (one for one in roles if one["name"] == change["name"])
                pod = role["template"]["spec"]["template"]["spec"]
                pod["nodeSelector"] = pod.get("nodeSelector", {}) | spec.get("nodeSelector", {})
                pod["tolerations"] = spec.get("tolerations", pod.get("tolerations", []))
        above = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": raw["metadata"]["name"]}
        meta = {"name": raw["metadata"]["name"], "namespace": "default", "uid": made, "generation": 1}
        meta |= {"resourceVersion": "1", "ownerReferences": [{**above, "uid": uid, "controller": True}]}
        spec = {"suspend": raw["spec"]["suspend"], "replicatedJobs": roles}
        status = self.raws.get(made, {}).get("status", {})
        self.raws[made] = {"kind": "JobSet", "metadata": meta, "spec": spec, "status": status}
        self.show(made)

    def _count(self, uid: str, active: int) -> None:
        """Write how many Jobs are active, into the status of the JobSet and then into that of the TrainJob."""
        counts = [{"name": role["name"], "active": active} for role in self.kept[uid]]
        made = f"JobSet-{uid}"
        self.raws[made] = self.raws[made] | {"status": {"replicatedJobsStatus": counts}}
        self.raws[uid] = self.raws[uid] | {"status": {"jobsStatus": counts}}
        self.show(made)
        self.show(uid)

    def make_pods(self, uid: str) -> None:
        if self.raws[uid]["kind"] != "TrainJob":
            super().make_pods(uid)
            return
        made = self.made(uid)
        for role in made["spec"]["replicatedJobs"]:
            if role.get("dependsOn"):
                continue  # made when others have ended
            job = role["template"]["spec"]
            for index in range(role.get("replicas", 1) * job["parallelism"]):
                name = f"{uid}-{role['name']}-{index}"
                if ("default", name) not in self.pods:
                    self._put_pod(made, name, job["template"], role["name"])

    def _put_pod(self, made: dict[str, Any], name: str, made_of: dict[str, Any], role: str) -> None:
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": made["metadata"]["name"]}
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": role}
        meta = {"name": name, "namespace": "default", "uid": f"pod-{name}-{next(self._uids)}", "labels": labels}
        meta["ownerReferences"] = [{**owner, "uid": made["metadata"]["uid"], "controller": True}]
        self.put(msgspec.convert({"metadata": meta, "spec": made_of["spec"]}, Pod))
