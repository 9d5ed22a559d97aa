"""Work as traces tell of it: what was asked for, when, and how long it ran, whatever the trace was written by."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

GPU = "nvidia.com/gpu"
GPU_SHARE = "simulate.tutti.dev/gpu-milli"
"""What parts of cards are counted as, in thousandths of one, where the caller wants them counted."""
MOST_PODS = 20_000
"""Pods that one job may have; more are nobody's gang but a mistake in the trace."""
MOST_SECONDS = 10 * 366 * 86_400.0
"""How long a job may run, and a trace may last."""
MOST_UNITS = 2**53
"""The largest amount of anything that a pod may ask for."""
DEFAULT_SECONDS = 3600.0
"""How long jobs run in a trace that says it of none."""


class JobPods(msgspec.Struct, frozen=True, gc=False):
    """So many equal pods of a job, and what each asks for in scheduling units: cpu in milli-cores, memory in bytes."""

    count: int
    requests: dict[str, int]


class TraceJob(msgspec.Struct, frozen=True):
    """One job.

    Attributes:
        name: As the trace calls it.
        submitted: Seconds from the start of the trace.
        seconds: How long it ran; None where the trace does not say.
        pods: Which start together, or not at all.
        limit: How long it said that it may run, seconds; None: it did not.
        models: The GPU models that it takes; none: any.
        share: Thousandths of a card that each pod asks for where it asks for less than one; else 0.
        priority: Of its pods.
    """

    name: str
    submitted: float
    seconds: float | None
    pods: tuple[JobPods, ...]
    queue: str = ""
    user: str = ""
    limit: float | None = None
    models: tuple[str, ...] = ()
    share: int = 0
    priority: int = 0

    @property
    def size(self) -> int:
        """How many pods it has."""
        return sum(part.count for part in self.pods)

    def asks(self, resource: str) -> int:
        """Return what all its pods ask for together."""
        return sum(part.count * part.requests.get(resource, 0) for part in self.pods)


class BadEntryError(ValueError):
    """An entry of a trace that cannot be used; the message says which field, and what would be right."""


@dataclass(slots=True)
class Trace:
    """The jobs of a trace, and what had to be done so that they can be played.

    Attributes:
        jobs: In the order of their submission.
        skipped: Entries that could not be read, the first ones in words, with where they stand.
        left_out: How many could not be.
        filled: What the trace did not say and what was taken instead, with how many jobs.
    """

    jobs: list[TraceJob] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    left_out: int = 0
    filled: Counter[str] = field(default_factory=Counter)


def checked(job: TraceJob) -> TraceJob:
    """Return a job whose numbers can be played.

    Raises:
        BadEntryError: One of them cannot be; it says which.
    """
    if not 0 <= job.submitted <= MOST_SECONDS:
        raise BadEntryError(f"it was submitted at {job.submitted:g} s, which must be within 0 and {MOST_SECONDS:g}")
    if job.seconds is not None and not 0 <= job.seconds <= MOST_SECONDS:
        raise BadEntryError(f"it ran for {job.seconds:g} s, which must be within 0 and {MOST_SECONDS:g}")
    if job.limit is not None and not 0 < job.limit <= MOST_SECONDS:
        raise BadEntryError(f"it may run for {job.limit:g} s, which must be above 0 and at most {MOST_SECONDS:g}")
    if not 1 <= job.size <= MOST_PODS or any(part.count < 1 for part in job.pods):
        raise BadEntryError(f"it has {job.size} pods, which must be within 1 and {MOST_PODS}")
    for part in job.pods:
        for resource, units in part.requests.items():
            if not 0 <= units <= MOST_UNITS:
                raise BadEntryError(f"it asks for {units} {resource}, which must be within 0 and {MOST_UNITS}")
    return job


def completed(trace: Trace) -> Trace:
    """Return a trace in order of submission, from 0 on, in which each job says how long it runs.

    Those that do not run as long as the median of those that do.
    """
    known = [job.seconds for job in trace.jobs if job.seconds is not None]
    usual = statistics.median(known) if known else DEFAULT_SECONDS
    begins = min((job.submitted for job in trace.jobs), default=0.0)
    jobs = []
    for job in sorted(trace.jobs, key=lambda one: (one.submitted, one.name)):
        if job.seconds is None:
            source = "the median of the others" if known else "an hour"
            trace.filled[f"run time unknown: {source} is taken ({usual:g} s)"] += 1
        seconds = usual if job.seconds is None else job.seconds
        jobs.append(msgspec.structs.replace(job, submitted=job.submitted - begins, seconds=seconds))
    return Trace(jobs, trace.skipped, trace.left_out, trace.filled)


def thinned(trace: Trace, *, part: float = 1.0, speed_up: float = 1.0, most: int | None = None) -> Trace:
    """Return part of a trace, faster.

    Args:
        trace: The whole of it.
        part: So much of its jobs, of 1, evenly over the trace.
        speed_up: So many times faster do they come; they run as long as before.
        most: Only so many of them, the first ones.
    """
    kept = [job for number, job in enumerate(trace.jobs) if int((number + 1) * part) > int(number * part)][:most]
    moved = [msgspec.structs.replace(job, submitted=job.submitted / speed_up) for job in kept]
    return Trace(moved, trace.skipped, trace.left_out, trace.filled)


def with_shares(trace: Trace, how: str) -> Trace:
    """Return a trace in which parts of cards are counted: as `whole` cards, or in thousandths (`milli`)."""
    return Trace([_shared(job, how, trace.filled) for job in trace.jobs], trace.skipped, trace.left_out, trace.filled)


def _shared(job: TraceJob, how: str, filled: Counter[str]) -> TraceJob:
    if how == "whole":
        if not job.share:
            return job
        filled["part of a card: a whole one is taken"] += 1
        return msgspec.structs.replace(job, pods=_asking(job.pods, {GPU: 1}))
    milli = [JobPods(part.count, _in_milli(part.requests, job.share)) for part in job.pods]
    return msgspec.structs.replace(job, pods=tuple(milli))


def _in_milli(requests: Mapping[str, int], share: int) -> dict[str, int]:
    cards = {GPU_SHARE: share or 1000 * requests.get(GPU, 0)}
    return {name: units for name, units in {**requests, **cards}.items() if name != GPU and units}


def _asking(pods: Iterable[JobPods], more: Mapping[str, int]) -> tuple[JobPods, ...]:
    return tuple(JobPods(part.count, {**part.requests, **more}) for part in pods)


def queues_of(jobs: Sequence[TraceJob]) -> list[str]:
    """Return the queues that jobs name, in alphabetical order."""
    return sorted({job.queue for job in jobs})
