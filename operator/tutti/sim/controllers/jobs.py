"""The Job controller: keeps as many pods as a Job asks for, counts what they come to, and says when it is over.

Parallelism, completions, indexed completion, suspension, backoff limit, active deadline and time to live are honoured;
failure policies, per-index limits and pod finalizers are not (batch/v1; pkg/controller/job).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from tutti.sim.controllers.jobpods import index_of, ranges, template_pod
from tutti.sim.kinds.resource import Resource
from tutti.sim.meta import clock
from tutti.sim.meta.errors import ApiError
from tutti.sim.rest.backend import Backend
from tutti.sim.rest.local import Local
from tutti.sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]


@dataclass(slots=True)
class Tally:
    """The pods of a Job by what has become of them."""

    active: list[Version] = field(default_factory=list)
    succeeded: list[Version] = field(default_factory=list)
    failed: list[Version] = field(default_factory=list)
    terminating: int = 0

    @property
    def ready(self) -> int:
        """How many active pods are ready."""
        return sum(
            1
            for one in self.active
            if any(c.get("type") == "Ready" and c["status"] == "True" for c in one.obj["status"].get("conditions", ()))
        )


class JobController:
    """Follows Jobs and the pods they control; one task brings changed Jobs up to date."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "job-controller")
        self._jobs = backend.resource("batch", "v1", "jobs")
        self._pods = backend.resource("", "v1", "pods")
        self._owned: dict[str, set[Key]] = {}
        self._keys: dict[str, Key] = {}
        self._changed: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._done: dict[str, tuple[set[str], set[str]]] = {}

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note which Job a write concerns."""
        version = new or old
        if version is None:
            return
        if resource.storage == "jobs.batch":
            self._keys[version.obj["metadata"]["uid"]] = version.key
            self._note(version.key)
        elif resource.storage == "pods":
            uid = _controller(version.obj)
            if uid is None:
                return
            held = self._owned.setdefault(uid, set())
            if new is None:
                held.discard(version.key)
            else:
                held.add(version.key)
            if uid in self._keys:
                self._note(self._keys[uid])

    def _note(self, key: Key) -> None:
        self._changed[key] = None
        self._wake.set()

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = list(self._changed), {}
            for key in changed:
                try:
                    await self._sync(key)
                except ApiError as error:
                    log.warning("job_sync_failed", job="/".join(key), error=str(error))
                    asyncio.get_running_loop().call_later(1, self._note, key)

    async def _sync(self, key: Key) -> None:
        """Bring one Job up to date."""
        current = self._backend.collection(self._jobs).get(*key)
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        job = current.obj
        if job["spec"].get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
            return
        if _finished(job):
            return
        tally = self._tally(job)
        verdict = self._verdict(job, tally)
        if verdict is None and not job["spec"].get("suspend"):
            await self._scale(job, tally)
        elif tally.active:
            for version in tally.active:
                self._local.remove(self._pods, version)
        self._write_status(key, verdict)

    def _tally(self, job: Json) -> Tally:
        uid = job["metadata"]["uid"]
        done, failed = self._done.setdefault(uid, (set(), set()))
        tally = Tally()
        for key in sorted(self._owned.get(uid, ())):
            version = self._backend.collection(self._pods).get(*key)
            if version is None:
                continue
            phase = version.obj.get("status", {}).get("phase")
            if phase == "Succeeded":
                tally.succeeded.append(version)
                done.add(version.obj["metadata"]["uid"])
            elif phase == "Failed" or version.obj["metadata"].get("deletionTimestamp"):
                if phase == "Failed":
                    tally.failed.append(version)
                    failed.add(version.obj["metadata"]["uid"])
                else:
                    tally.terminating += 1
            else:
                tally.active.append(version)
        return tally

    def _verdict(self, job: Json, tally: Tally) -> tuple[str, str, str] | None:
        """Condition, reason and message of a Job that is over; None while it is not."""
        spec, uid = job["spec"], job["metadata"]["uid"]
        done, failed = self._done[uid]
        if len(failed) > spec["backoffLimit"]:
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started = job.get("status", {}).get("startTime")
        deadline = spec.get("activeDeadlineSeconds")
        if started and deadline is not None and not spec.get("suspend"):
            left = deadline - _since(started)
            if left <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            key = (job["metadata"]["namespace"], job["metadata"]["name"])
            asyncio.get_running_loop().call_later(left + 0.01, self._note, key)
        completions = spec.get("completions")
        if completions is None:
            over = bool(done) and not tally.active
        else:
            over = len(self._completed(job, tally, done)) >= completions
        return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if over else None

    def _completed(self, job: Json, tally: Tally, done: set[str]) -> set[Any]:
        """What counts towards completions: indexes, or pods."""
        if job["spec"].get("completionMode") == "Indexed":
            return {index_of(version.obj) for version in tally.succeeded}
        return set(done)

    async def _scale(self, job: Json, tally: Tally) -> None:
        """Make or remove pods until there are as many as wanted."""
        spec = job["spec"]
        done, _ = self._done[job["metadata"]["uid"]]
        wanted = spec["parallelism"]
        completions = spec.get("completions")
        if completions is not None:
            wanted = min(wanted, completions - len(self._completed(job, tally, done)))
        elif done:
            wanted = min(wanted, len(tally.active))
        for version in tally.active[max(wanted, 0) :]:
            self._local.remove(self._pods, version)
        missing = wanted - len(tally.active) - tally.terminating
        if missing <= 0:
            return
        indexes: Sequence[int | None] = [None] * missing
        if spec.get("completionMode") == "Indexed":
            taken = {index_of(one.obj) for one in (*tally.active, *tally.succeeded)}
            indexes = [*(index for index in range(completions or 0) if index not in taken)][:missing]
        for index in indexes:
            body = template_pod(job, index)
            await self._local.create(self._pods, job["metadata"]["namespace"], body)

    def _write_status(self, key: Key, verdict: tuple[str, str, str] | None) -> None:
        current = self._backend.collection(self._jobs).get(*key)
        if current is None:
            return
        job = current.obj
        tally = self._tally(job)
        status = self._status(job, tally, verdict)
        if status != job.get("status", {}):
            current = self._local.set_status(self._jobs, current, status)
        if verdict is not None:
            log.info("job_finished", job="/".join(key), outcome=verdict[0], reason=verdict[1])
            lifetime = job["spec"].get("ttlSecondsAfterFinished")
            if lifetime is not None:
                uid = job["metadata"]["uid"]
                asyncio.get_running_loop().call_later(lifetime, self._expire, key, uid)

    def _status(self, job: Json, tally: Tally, verdict: tuple[str, str, str] | None) -> Json:
        done, failed = self._done[job["metadata"]["uid"]]
        status = {
            one: value
            for one, value in job.get("status", {}).items()
            if one not in ("active", "ready", "succeeded", "failed", "terminating", "completedIndexes")
        }
        counts = {"active": len(tally.active), "succeeded": len(done), "failed": len(failed)}
        status.update({name: count for name, count in counts.items() if count})
        status.update({"ready": tally.ready, "terminating": tally.terminating, "uncountedTerminatedPods": {}})
        if job["spec"].get("completionMode") == "Indexed":
            text = ranges({index for one in tally.succeeded if (index := index_of(one.obj)) is not None})
            if text:
                status["completedIndexes"] = text
        suspended = bool(job["spec"].get("suspend"))
        if suspended and verdict is None:
            status.pop("startTime", None)
        else:
            status.setdefault("startTime", clock.now())
        conditions = list(status.get("conditions", ()))
        if suspended or any(one["type"] == "Suspended" for one in conditions):
            words = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
            conditions = _set(conditions, "Suspended", "True" if suspended else "False", *words)
        if verdict is not None:
            kind, reason, message = verdict
            before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
            conditions = _set(_set(conditions, before, "True", reason, message), kind, "True", reason, message)
            if kind == "Complete":
                status["completionTime"] = clock.now()
        if conditions:
            status["conditions"] = conditions
        return status

    def _expire(self, key: Key, uid: str) -> None:
        """Remove a finished Job whose time to live is over."""
        current = self._backend.collection(self._jobs).get(*key)
        if current is not None and current.obj["metadata"]["uid"] == uid:
            self._local.remove(self._jobs, current)


def _controller(obj: Json) -> str | None:
    """The uid of the Job that controls an object."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Job":
            return str(owner["uid"])
    return None


def _finished(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _since(moment: str) -> float:
    return (clock.parse(clock.now()) - clock.parse(moment)).total_seconds()


def _set(conditions: list[Json], kind: str, status: str, reason: str, message: str) -> list[Json]:
    """Conditions with one of them set; its times change only when its status does."""
    for one in conditions:
        if one["type"] == kind and one["status"] == status:
            return conditions
    now = clock.now()
    new = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
    return [*(one for one in conditions if one["type"] != kind), {**new, "reason": reason, "message": message}]
