"""What has become of a Job's pods, and what follows for the Job: decided from objects, without a cluster.

Source: pkg/controller/job, 1.36 (job_controller.go, pod_failure_policy.go, indexed_job_utils.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tutti_sim.controllers.jobpods import index_of, indexes
from tutti_sim.meta import conditions

Json = dict[str, Any]


class Verdict(NamedTuple):
    """How a Job ends: its condition, and the reason and message with it."""

    condition: str
    reason: str
    message: str


COMPLETE = Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
EXCEEDED = Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LATE = Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
INTERIM = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition that says what is coming, while pods are still ending."""


@dataclass(slots=True)
class Past:
    """What is remembered of pods that may be gone, by uid; `dropped` are those that the Job itself had no use for."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    verdict: Verdict | None = None


@dataclass(slots=True)
class Tally:
    """The pods of a Job by what has become of them; `restarts` counts those of the containers of active pods."""

    active: list[Json] = field(default_factory=list)
    succeeded: list[Json] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    terminating: list[Json] = field(default_factory=list)
    restarts: int = 0

    @property
    def ready(self) -> int:
        """How many active pods are ready."""
        return sum(conditions.holds(pod, "Ready") for pod in self.active)


def indexed(job: Json) -> bool:
    """Whether each pod of a Job has its own completion index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def waits_for_end(job: Json) -> bool:
    """Whether a pod is replaced only once it has ended, not already when it is being deleted."""
    spec = job["spec"]
    default = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    return bool(spec.get("podReplacementPolicy", default) == "Failed")


def tally(job: Json, pods: Iterable[Json], past: Past) -> Tally:
    """Sort the pods of a Job, and take note in `past` of those that have ended."""
    found = Tally()
    for pod in pods:
        uid, phase = pod["metadata"]["uid"], pod.get("status", {}).get("phase")
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if leaving and phase not in ("Succeeded", "Failed"):
            found.terminating.append(pod)
        if phase == "Succeeded":
            found.succeeded.append(pod)
            past.succeeded.add(uid)
        elif phase == "Failed" or (leaving and not waits_for_end(job)):
            found.failed.append(pod)
            _judge(job, pod, past)
        elif not leaving:
            found.active.append(pod)
            found.restarts += _restarts(pod)
    return found


def _restarts(pod: Json) -> int:
    return sum(int(one.get("restartCount", 0)) for one in pod.get("status", {}).get("containerStatuses", ()))


def _judge(job: Json, pod: Json, past: Past) -> None:
    """Count a failed pod as the failure policy says; once it is over for the Job, it stays over."""
    uid = pod["metadata"]["uid"]
    if uid in past.failed or uid in past.ignored or uid in past.dropped:
        return
    action, message = failure_action(job, pod)
    if action == "Ignore":
        past.ignored.add(uid)
        return
    past.failed.add(uid)
    if action == "FailJob" and past.verdict is None:
        past.verdict = Verdict("Failed", "PodFailurePolicy", message)


def failure_action(job: Json, pod: Json) -> tuple[str, str]:
    """What the failure policy of a Job makes of a failed pod: FailJob, Ignore or Count, and why."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for place, rule in enumerate(job["spec"].get("podFailurePolicy", {}).get("rules", ())):
        suffix = f"matching {rule['action']} rule at index {place}"
        codes = rule.get("onExitCodes")
        if codes is not None:
            for container, code in _exit_codes(pod, codes.get("containerName")):
                if (code in codes["values"]) == (codes["operator"] == "In"):
                    return rule["action"], f"Container {container} for pod {name} failed with exit code {code} {suffix}"
            continue
        for pattern in rule.get("onPodConditions", ()):
            found = conditions.find(pod, pattern["type"])
            if found is not None and found.get("status") == pattern.get("status", "True"):
                return rule["action"], f"Pod {name} has condition {pattern['type']} {suffix}"
    return "Count", ""


def _exit_codes(pod: Json, container: str | None) -> list[tuple[str, int]]:
    """The exit codes other than 0 of a pod's containers, of one of them if one is named."""
    ended = [
        (str(one["name"]), int(one.get("state", {}).get("terminated", {}).get("exitCode", 0)))
        for one in pod.get("status", {}).get("containerStatuses", ())
    ]
    return [(name, code) for name, code in ended if code and container in (None, name)]


def completed(job: Json, found: Tally, past: Past) -> set[Any]:
    """What counts towards completions: indexes (once done, always done), or pods."""
    if not indexed(job):
        return set(past.succeeded)
    total = int(job["spec"].get("completions") or 0)
    done = indexes(job.get("status", {}).get("completedIndexes", ""))
    done |= {index for pod in found.succeeded if (index := index_of(pod)) is not None}
    return {index for index in done if index < total}


def verdict(job: Json, found: Tally, past: Past) -> Verdict | None:
    """How a Job ends by its pods; None while it goes on. The deadline is not looked at here."""
    if past.verdict is None:
        past.verdict = _verdict(job, found, past)
    return past.verdict


def _verdict(job: Json, found: Tally, past: Past) -> Verdict | None:
    interim = {one["type"]: one for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"}
    for condition, early in INTERIM.items():
        if early in interim:
            return Verdict(condition, interim[early]["reason"], interim[early]["message"])
    if len(past.failed) + found.restarts > job["spec"]["backoffLimit"]:
        return EXCEEDED
    completions = job["spec"].get("completions")
    if completions is None:
        over = bool(past.succeeded) and not found.active
    else:
        over = len(completed(job, found, past)) >= completions
    return COMPLETE if over else None


class Plan(NamedTuple):
    """Which active pods are too many, and what to make: an index, or None, for each new pod."""

    surplus: list[Json]
    missing: list[int | None]


def plan(job: Json, found: Tally, past: Past) -> Plan:
    """What to change so that as many pods run as the Job asks for."""
    spec = job["spec"]
    done, completions, wanted = completed(job, found, past), spec.get("completions"), int(spec["parallelism"])
    if completions is not None:
        wanted = min(wanted, completions - len(done))
    elif done:
        wanted = min(wanted, len(found.active))
    holding = [*found.active, *(found.terminating if waits_for_end(job) else ())]
    surplus = sorted(found.active, key=_worth)[: max(len(found.active) - max(wanted, 0), 0)]
    missing = max(wanted - len(holding), 0)
    if not indexed(job):
        return Plan(surplus, [None] * missing)
    taken = done | {index_of(pod) for pod in holding}
    free = (index for index in range(completions or 0) if index not in taken)
    return Plan(surplus, [index for index, _ in zip(free, range(missing), strict=False)])


def _worth(pod: Json) -> tuple[bool, bool, str]:
    """Pods that are not on a node, not ready, or younger go first."""
    return bool(pod["spec"].get("nodeName")), conditions.holds(pod, "Ready"), pod["metadata"]["name"]


def counts(job: Json, found: Tally, past: Past) -> Mapping[str, Any]:
    """The counts that a Job's status shows; a count of zero is left out, as Go does."""
    done = completed(job, found, past)
    shown: Json = {
        "active": len(found.active),
        "succeeded": len(done),
        "failed": len(past.failed),
        "completedIndexes": _ranges(done) if indexed(job) else "",
    }
    kept: Json = {name: value for name, value in shown.items() if value}
    return {**kept, "ready": found.ready, "terminating": len(found.terminating), "uncountedTerminatedPods": {}}


def _ranges(numbers: Iterable[int]) -> str:
    """Indexes as a Job's status writes them: `0-2,5`; two in a row are written `0,1`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in parts
    )
