"""The Job controller: keeps as many pods as a Job asks for, counts what they come to, and says when it is over.

Parallelism, completions, indexed completion, suspension, backoff limit, failure policy, replacement policy, active
deadline and time to live are honoured; limits per index, success policies and the delay between failed attempts are
not (batch/v1; pkg/controller/job). What a Job's pods mean is decided in `jobtally`.
"""

from __future__ import annotations

from typing import Any

import structlog

from tutti_sim.controllers import jobtally
from tutti_sim.controllers.jobpods import template_pod
from tutti_sim.controllers.jobtally import INTERIM, TOO_LATE, Past, Tally, Verdict
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock, conditions
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]

NAME = "kubernetes.io/job-controller"
COUNTED = ("active", "ready", "succeeded", "failed", "terminating", "completedIndexes")


class JobController:
    """Follows Jobs and the pods they control; one task brings changed Jobs up to date."""

    def __init__(self, backend: Backend) -> None:
        self._local = Local(backend, "job-controller")
        self._jobs = Tended(backend, "batch", "v1", "jobs")
        self._pods = Tended(backend, "", "v1", "pods")
        self._owned: dict[str, set[Key]] = {}
        self._keys: dict[str, Key] = {}
        self._past: dict[str, Past] = {}
        self._ended: dict[str, dict[str, Json]] = {}
        self._worker = Worker("job", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note which Job a write concerns."""
        version = new or old
        if version is None:
            return
        if resource.storage == self._jobs.storage:
            uid = version.obj["metadata"]["uid"]
            if new is None:
                self._keys.pop(uid, None)
                self._past.pop(uid, None)
                self._ended.pop(uid, None)
                self._worker.forget((self._jobs.storage, version.key))
            else:
                self._keys[uid] = new.key
                self._worker.note((self._jobs.storage, new.key))
        elif resource.storage == self._pods.storage:
            self._follow_pod(version, gone=new is None)

    def _follow_pod(self, version: Version, *, gone: bool) -> None:
        uid = _controller(version.obj)
        if uid is None:
            return
        if version.obj.get("status", {}).get("phase") in ("Succeeded", "Failed") and uid in self._keys:
            # A pod may be gone by the time that its Job is looked at; how it ended counts all the same.
            self._ended.setdefault(uid, {})[version.obj["metadata"]["uid"]] = version.obj
        held = self._owned.setdefault(uid, set())
        if gone:
            held.discard(version.key)
            if not held:
                del self._owned[uid]
        else:
            held.add(version.key)
        if uid in self._keys:
            self._worker.note((self._jobs.storage, self._keys[uid]))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        """Bring one Job up to date."""
        current = self._jobs.get(place[1])
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        job = current.obj
        if job["spec"].get("managedBy", NAME) != NAME:
            return
        if _finished(job):
            self._expire(current)
            return
        ended = self._ended.get(job["metadata"]["uid"], {})
        counted = list(ended)
        verdict = self._judge(job, place)
        if verdict is None and not job["spec"].get("suspend"):
            await self._scale(job)
        else:
            for pod in self._tally(job).active:
                self._remove(job, pod, counted=verdict is not None)
        self._write_status(place[1], verdict)
        for uid in counted:
            ended.pop(uid, None)

    def _pods_of(self, job: Json) -> list[Json]:
        uid = job["metadata"]["uid"]
        pods = dict(self._ended.get(uid, {}))
        for key in sorted(self._owned.get(uid, ())):
            version = self._pods.get(key)
            if version is not None:
                pods[version.obj["metadata"]["uid"]] = version.obj
        return list(pods.values())

    def _past_of(self, job: Json) -> Past:
        return self._past.setdefault(job["metadata"]["uid"], Past())

    def _tally(self, job: Json) -> Tally:
        return jobtally.tally(job, self._pods_of(job), self._past_of(job))

    def _judge(self, job: Json, place: Place) -> Verdict | None:
        """How a Job ends, by its pods or by its deadline, of which it is reminded."""
        past = self._past_of(job)
        found = jobtally.verdict(job, self._tally(job), past)
        started, deadline = job.get("status", {}).get("startTime"), job["spec"].get("activeDeadlineSeconds")
        if found is None and started and deadline is not None and not job["spec"].get("suspend"):
            left = deadline - _since(started)
            if left > 0:
                self._worker.later(left, place)
            else:
                found = past.verdict = TOO_LATE
        return found

    async def _scale(self, job: Json) -> None:
        """Make or remove pods until there are as many as wanted."""
        surplus, missing = jobtally.plan(job, self._tally(job), self._past_of(job))
        for pod in surplus:
            self._remove(job, pod, counted=False)
        for index in missing:
            body = template_pod(job, index)
            await self._local.create(self._pods.resource, job["metadata"]["namespace"], body)

    def _remove(self, job: Json, pod: Json, *, counted: bool) -> None:
        """Delete a pod; what a Job has no use for is no failure of its pods, what it leaves behind is."""
        if not counted:
            self._past_of(job).dropped.add(pod["metadata"]["uid"])
        version = self._pods.get((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        if version is not None and version.obj is pod:
            self._local.remove(self._pods.resource, version)

    def _write_status(self, key: Key, verdict: Verdict | None) -> None:
        current = self._jobs.get(key)
        if current is None:
            return
        job = current.obj
        status = self._status(job, verdict)
        if status != job.get("status", {}):
            current = self._local.set_status(self._jobs.resource, current, status)
        if verdict is not None and _finished(current.obj):
            log.info("job_finished", job="/".join(key), outcome=verdict.condition, reason=verdict.reason)

    def _status(self, job: Json, verdict: Verdict | None) -> Json:
        found = self._tally(job)
        status = {key: value for key, value in job.get("status", {}).items() if key not in COUNTED}
        status.update(jobtally.counts(job, found, self._past_of(job)))
        suspended = bool(job["spec"].get("suspend"))
        if suspended and verdict is None:
            status.pop("startTime", None)
        else:
            status.setdefault("startTime", clock.now())
        shown = list(status.get("conditions", ()))
        if suspended or any(one["type"] == "Suspended" for one in shown):
            words = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
            shown = _put(shown, "Suspended", "True" if suspended else "False", *words)
        if verdict is not None:
            shown = _put(shown, INTERIM[verdict.condition], "True", verdict.reason, verdict.message)
            if not found.active and not found.terminating:
                shown = _put(shown, verdict.condition, "True", verdict.reason, verdict.message)
                if verdict.condition == "Complete":
                    status["completionTime"] = clock.now()
        if shown:
            status["conditions"] = shown
        return status

    def _expire(self, current: Version) -> None:
        """Remove a finished Job whose time to live is over, or have it looked at when it is."""
        lifetime = current.obj["spec"].get("ttlSecondsAfterFinished")
        ended = conditions.find(current.obj, "Complete") or conditions.find(current.obj, "Failed")
        if lifetime is None or ended is None:
            return
        left = lifetime - _since(ended["lastTransitionTime"])
        if left > 0:
            self._worker.later(left, (self._jobs.storage, current.key))
        else:
            self._local.remove(self._jobs.resource, current)


def _controller(obj: Json) -> str | None:
    """The uid of the Job that controls an object."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Job":
            return str(owner["uid"])
    return None


def _finished(job: Json) -> bool:
    return conditions.holds(job, "Complete") or conditions.holds(job, "Failed")


def _since(moment: str) -> float:
    return (clock.parse(clock.now()) - clock.parse(moment)).total_seconds()


def _put(shown: list[Json], kind: str, status: str, reason: str, message: str) -> list[Json]:
    """Conditions with one of them set, unless it is set so already."""
    if any(one["type"] == kind and one["status"] == status for one in shown):
        return shown
    return conditions.put(shown, kind, status, lastProbeTime=clock.now(), reason=reason, message=message)
