"""What has to be waited for besides quota and room: checks, the end of others, a window, and that a Job is started.

Each is drawn apart from the other steps (`tests.simulation.waiting_steps`), and each has a rule that must hold of the
API server's own objects, whatever processes die on the way:

- no pod of a checked queue is bound before its check has said Ready;
- no pod of a follower is bound before those of the one that it follows have succeeded;
- no pod is bound by quota of a window before that begins;
- a suspended Job is started with the labels of its flavor, within its quota and after its check; where it is suspended
  without a trace of a start it says what its user wrote.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from tests.simulation.limits import LIMITS, used_of
from tests.simulation.loop import VirtualLoop
from tests.simulation.pods import GROUP, plain
from tests.simulation.server import Json, Server
from tutti_sim.controllers.jobs import JobController
from tutti_sim.kinds.resource import Resource
from tutti_sim.store.collection import Version

CHECK = "budget"
STARTED = f"{GROUP}/started"
QUEUES = {"q4": "cq4", "q5": "cq5", "q6": "cq6"}
"""The queues in which something of this has to be waited for: a check, a start, a window."""


class Waits:
    """Answers checks, makes Jobs, and complains of what has not been waited for.

    Args:
        server: Knows the objects.
        loop: Tells the time.
        complain: Is told what must not be.
        about: Returns what is known of the gang of a pod by the pod's name; None of others.
    """

    def __init__(
        self,
        server: Server,
        loop: VirtualLoop,
        complain: Callable[[str], None],
        about: Callable[[str], Json | None],
    ) -> None:
        self._server, self._loop, self._complain, self._about = server, loop, complain, about
        self._answers: dict[str, Any] = {}
        self._retries: dict[str, int] = {}
        self._ready: set[tuple[str, str]] = set()
        self._succeeded: dict[str, set[str]] = {}
        self._written: dict[str, Json] = {}
        self._opens = 0.0
        self._controller: asyncio.Task[None] | None = None
        self._checked: set[str] = set()
        server.backend.after.append(self._follow)

    # What happens.

    async def do_check(self, seconds: float, retries: int, queues: list[str]) -> None:
        """Have a check that answers so long after it is asked, the first times with Retry."""
        self._answers = {"seconds": seconds, "retries": retries}
        self._checked = set(queues)
        resource = self._server.ours("AdmissionCheck")
        await self._server.put("AdmissionCheck", CHECK, {"controllerName": "sim.tutti.dev/budget"})
        made = self._server.backend.collection(resource).get("", CHECK)
        active = {"type": "Active", "status": "True", "reason": "Running", "message": "it answers"}
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        self._server.user.set_status(resource, made, {"conditions": [{**active, **since}]})

    async def do_window(self, at: float) -> None:
        """From when on the quota of a window is there, in seconds of the run."""
        self._opens = at

    async def do_job(self, name: str, pods: int, gpus: int, seconds: float) -> None:
        """A user submits a suspended Job."""
        if self._controller is None:
            controller = JobController(self._server.backend)
            self._server.backend.after.append(controller.follow)
            self._controller = asyncio.get_running_loop().create_task(controller.run())
        pod = plain(name, gpus, seconds, labels={}, annotations={})
        meta = {"annotations": pod["metadata"]["annotations"]}
        spec = {"suspend": True, "parallelism": pods, "completions": pods, "completionMode": "Indexed"}
        template = {"metadata": meta, "spec": pod["spec"]}
        labels = {f"{GROUP}/queue-name": "q5"}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
        jobs = self._server.resource("batch", "v1", "jobs")
        await self._server.user.create(
            jobs, "default", {**body, "spec": {**spec, "backoffLimit": 1000, "template": template}}
        )

    async def tidy(self) -> None:
        """The users delete their Jobs."""
        jobs = self._server.resource("batch", "v1", "jobs")
        for found in list(self._server.backend.collection(jobs).scan()):
            self._server.user.remove(jobs, found)

    async def stop(self) -> None:
        """Have nobody make pods any more."""
        if self._controller is not None:
            self._controller.cancel()
            await asyncio.gather(self._controller, return_exceptions=True)

    def unfinished(self) -> list[str]:
        """Jobs that are not over."""
        jobs = self._server.resource("batch", "v1", "jobs")
        return [
            one.obj["metadata"]["name"] for one in self._server.backend.collection(jobs).scan() if not _ended(one.obj)
        ]

    # What is seen.

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if new is None:
            return
        if resource.storage == "pods":
            if new.obj["spec"].get("nodeName") and (old is None or not old.obj["spec"].get("nodeName")):
                self._bound(new.obj)
            self._count(new.obj)
        elif resource.storage.startswith("jobs."):
            self._job_written(old, new)
        elif resource.storage in ("workloads.scheduling.tutti.dev", "podgroups.scheduling.tutti.dev"):
            self._gang_written(resource, new)

    def _gang_written(self, resource: Resource, new: Version) -> None:
        status, key = new.obj.get("status") or {}, (resource.storage, new.obj["metadata"]["name"])
        for one in status.get("admissionChecks", []):
            if one["name"] == CHECK and one["state"] == "Ready":
                self._ready.add(key)
            elif one["name"] == CHECK and one["state"] == "Pending" and self._answers:
                self._loop.call_later(self._answers["seconds"], self._answer, resource, key[1])

    def _answer(self, resource: Resource, name: str) -> None:
        """Say Ready, or Retry the first times, of a workload that is still waited for."""
        found = self._server.backend.collection(resource).get("default", name)
        asked = (found.obj.get("status") or {}).get("admissionChecks", []) if found is not None else []
        entry = next((one for one in asked if one["name"] == CHECK and one["state"] == "Pending"), None)
        if found is None or entry is None:
            return
        times = self._retries[name] = self._retries.get(name, 0) + 1
        retry = times <= self._answers["retries"]
        said = {"state": "Retry", "requeueAfterSeconds": 5} if retry else {"state": "Ready"}
        others = [one for one in asked if one is not entry]
        status = {**found.obj["status"], "admissionChecks": [*others, {**entry, **said}]}
        self._server.user.set_status(resource, found, status)

    def _count(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        about = self._about(name)
        if about is not None and (pod.get("status") or {}).get("phase") == "Succeeded":
            self._succeeded.setdefault(about["gang"], set()).add(name.rstrip("x"))

    def _bound(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        about = self._about(name)
        if about is None:
            return
        kind = {"Workload": "workloads", "PodGroup": "podgroups"}.get(about["how"])
        if about["queue"] in self._checked and (f"{kind}.{GROUP}", about["gang"]) not in self._ready:
            self._complain(f"{name} is bound before the check of {about['gang']} has said Ready")
        first = about.get("follows")
        if first is not None and len(self._succeeded.get(first["gang"], ())) < first["size"]:
            self._complain(f"{name} is bound before all of {first['gang']} have succeeded")
        if about["queue"] == "q6" and self._loop.time() < self._opens:
            self._complain(f"{name} is bound by quota of a window that begins at {self._opens:g} s")

    def _job_written(self, old: Version | None, new: Version) -> None:
        job = new.obj
        name, spec, said = job["metadata"]["name"], job["spec"], job["metadata"].get("annotations") or {}
        if old is None:
            self._written[name] = copy.deepcopy(spec["template"]["spec"])
            return
        if spec.get("suspend"):
            if STARTED not in said and spec["template"]["spec"] != self._written[name]:
                self._complain(f"Job {name} is suspended, and its template is not what its user wrote")
        elif old.obj["spec"].get("suspend"):
            self._job_started(job)

    def _job_started(self, job: Json) -> None:
        name, template = job["metadata"]["name"], job["spec"]["template"]["spec"]
        if STARTED not in (job["metadata"].get("annotations") or {}) or template.get("nodeSelector") != {"rack": "r0"}:
            self._complain(f"Job {name} was started without the labels of its flavor")
        gpus = int(template["containers"][0]["resources"]["requests"].get("nvidia.com/gpu", 0))
        needs = gpus * job["spec"]["completions"] - gpus * int((job.get("status") or {}).get("succeeded", 0))
        used = used_of(self._server, "cq5")
        if used + needs > LIMITS["cq5"]:
            self._complain(f"Job {name} was started for {needs} GPUs though {used} of {LIMITS['cq5']} are used")
        groups = [one for one in self._server.objects("PodGroup") if _is_of(one, job)]
        if "q5" in self._checked and not any(
            (f"podgroups.{GROUP}", one["metadata"]["name"]) in self._ready for one in groups
        ):
            self._complain(f"Job {name} was started before its check has said Ready")


def _is_of(group: Json, job: Json) -> bool:
    return any(one["uid"] == job["metadata"]["uid"] for one in group["metadata"].get("ownerReferences", []))


def _ended(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions", [])
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
