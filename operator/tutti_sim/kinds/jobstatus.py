"""What may be written into the status of a Job: as of 1.36, ends that follow from nothing are refused.

Source: pkg/apis/batch/validation (validateJobStatus, ValidateJobUpdateStatus). The texts and their order are recorded
in `tests/conformance/cases/jobs.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tutti_sim.meta import Json, clock
from tutti_sim.meta.errors import FieldError, duplicate, invalid, required

COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
TOGETHER = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)
"""Conditions that exclude each other."""
BEFORE = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""What has to be said before a Job has ended so."""


def check_status(new: Json, old: Json) -> list[FieldError]:
    """What is wrong with a change of a Job's status: with what it says now, and with what it said before."""
    return [*_state(new), *_change(new, old)]


def _state(job: Json) -> Iterator[FieldError]:
    status = job.get("status", {})
    held = {one["type"] for one in status.get("conditions", ()) if one.get("status") == "True"}
    yield from _counts(status)
    yield from _ends(status, held)
    if held & BEFORE.keys():
        yield from _finished(status)
    started, ended = status.get("startTime"), status.get("completionTime")
    if started and ended and datetime.fromisoformat(ended) < datetime.fromisoformat(started):
        yield invalid("status.completionTime", ended, "must be equal to or after `startTime`")
    if status.get("ready", 0) > status.get("active", 0) >= 0:
        yield invalid("status.ready", status["ready"], "cannot set more ready pods than active")
    yield from _indexes(job)


def _counts(status: Json) -> Iterator[FieldError]:
    for field in COUNTS:
        if status.get(field, 0) < 0:
            yield invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(status.get("uncountedTerminatedPods", {}).get(field, ())):
            if uid in seen:
                yield duplicate(f"status.uncountedTerminatedPods.{field}[{index}]", uid)
            seen.add(uid)


def _ends(status: Json, held: set[str]) -> Iterator[FieldError]:
    ended = status.get("completionTime")
    for first, second in TOGETHER[:2]:
        yield from _excluded(first, second, held)
    if ended and "Complete" not in held:
        text = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", ended, text)
    if not ended and "Complete" in held:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    for condition, before in BEFORE.items():
        if condition in held and before not in held:
            yield _conditions(f"cannot set {condition}=True condition without the {before}=true condition")
    for first, second in TOGETHER[2:]:
        yield from _excluded(first, second, held)


def _finished(status: Json) -> Iterator[FieldError]:
    if not status.get("startTime"):
        yield required("status.startTime", "startTime is required for finished job")
    if status.get("active", 0) > 0:
        yield invalid("status.active", status["active"], "active>0 is invalid for finished job")
    uncounted = status.get("uncountedTerminatedPods", {})
    if any(uncounted.values()):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        yield invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")
    if status.get("terminating", 0) > 0:
        yield invalid("status.terminating", status["terminating"], "terminating>0 is invalid for finished job")


def _excluded(first: str, second: str, held: set[str]) -> Iterator[FieldError]:
    if {first, second} <= held:
        yield _conditions(f"cannot set {first}=True and {second}=true conditions")


def _conditions(detail: str) -> FieldError:
    """A mistake of which the value is not shown."""
    return FieldError("FieldValueInvalid", "status.conditions", f"Invalid value: {detail}")


def _indexes(job: Json) -> Iterator[FieldError]:
    spec, status = job["spec"], job.get("status", {})
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if spec.get("completionMode") != "Indexed":
        if completed:
            text = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid("status.completedIndexes", completed, text)
        return
    if fault := _index_fault(completed, spec["completions"]):
        yield invalid("status.completedIndexes", completed, f"error parsing completedIndexes: {fault}")
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, text)


def _index_fault(text: str, completions: int) -> str:
    """What is wrong with a list such as `1,3-5`; "" where it is right."""
    last = -1
    for part in text.split(",") if text else ():
        for number in part.split("-", 1):
            if not number.isascii() or not number.isdigit():
                return f'cannot convert string to integer for index: "{number}"'
            if int(number) >= completions:
                return f'too large index: "{number}"'
            if int(number) <= last:
                return f"non-increasing order, previous: {last}, current: {int(number)}"
            last = int(number)
    return ""


def _change(new: Json, old: Json) -> Iterator[FieldError]:
    after, before = new.get("status", {}), old.get("status", {})
    finished = any(clock.holds(old, condition) for condition in BEFORE)
    if (
        finished
        and before.get("completionTime")
        and after.get("completionTime") not in (None, before["completionTime"])
    ):
        yield invalid("status.completionTime", after["completionTime"], "field is immutable")
    started = before.get("startTime")
    if started and after.get("startTime") != started and not new["spec"].get("suspend"):
        text = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", after.get("startTime"), text)
    for field in ("failed", "succeeded"):
        if after.get(field, 0) < before.get(field, 0):
            yield invalid(f"status.{field}", after.get(field, 0), f"cannot decrease the {field} counter")
