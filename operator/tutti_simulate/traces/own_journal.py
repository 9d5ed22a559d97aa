"""What an operator has written down (`tutti run --journal`), as a trace: the work that came, and how long it ran.

The journal is run through a fresh engine, as `tutti replay` does, and read off its state: so gangs, queues and requests
are what the operator took them for, in whatever convention users wrote them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.cycle.engine import Engine
from tutti.engine.cycle.state import State
from tutti.engine.journal import Decided, Header, JournalError, Saw, read
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.observations import PodGone
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti_simulate.jobs import BadEntryError, JobPods, Trace, TraceJob, checked
from tutti_simulate.traces.reading import TraceError

_NO_RUN = "it did not end in the journal"
_PODS = "pods"


@dataclass(slots=True)
class _Course:
    """What was seen of a workload: what it asked for, since when it runs, and how long it ran in its last run."""

    submitted: float
    pods: tuple[JobPods, ...] = ()
    queue: str = ""
    priority: int = 0
    limit: float | None = None
    since: float | None = None
    ran: float | None = None


def read_journal(lines: Iterable[bytes]) -> Trace:
    """Return the workloads of a journal that were placed in it, and when they were.

    One that ran before the journal began, or was never placed, is not among them: how long it runs is not known there.

    Raises:
        TraceError: It is no journal, or lacks its beginning.
    """
    courses: dict[WorkloadKey, _Course] = {}
    leaving: set[WorkloadKey] = set()
    engine: Engine | None = None
    try:
        for number, line in read(lines):
            if isinstance(line, Header) and engine is None:
                engine = Engine(TuttiConfiguration.model_validate_json(line.configuration))
            elif engine is None:
                raise TraceError(f"line {number} is not the header of a journal; was the beginning cut off?")
            elif isinstance(line, Saw):
                if isinstance(line.observation, PodGone):
                    pod = (line.observation.namespace, line.observation.name)
                    group = engine.state.pod_group_of.get(pod)
                    leaving |= set() if group is None else {group[0]}
                engine.observe(line.observation)
            elif isinstance(line, Decided):
                share = line.ended
                asked = iter(range(1, 2**62))
                engine.decide(line.at, most=line.most, enough=lambda share=share, asked=asked: next(asked) == share)  # type: ignore[misc]
                for event in engine.lifecycle_events:
                    _follow(courses, engine.state, event, line.at)
                for key in leaving - engine.state.workloads.keys():
                    _end(courses.get(key), line.at)
                leaving.clear()
    except JournalError as error:
        raise TraceError(str(error)) from None
    return _trace(courses)


def _follow(courses: dict[WorkloadKey, _Course], state: State, event: LifecycleEvent, at: float) -> None:
    workload = state.workloads.get(event.workload)
    if event.step is LifecycleStep.SCHEDULED and workload is not None:
        course = courses.setdefault(event.workload, _Course(workload.created or at))
        course.pods, course.queue, course.since = _pods(workload), event.queue, at
        course.priority, course.limit = workload.priority, workload.limit_seconds
    elif event.step in (LifecycleStep.FINISHED, LifecycleStep.EVICTED) and event.workload in courses:
        if event.step is LifecycleStep.FINISHED:
            _end(courses[event.workload], at)
        courses[event.workload].since = None


def _end(course: _Course | None, at: float) -> None:
    """Note that a workload has ended, or was deleted while it ran."""
    if course is not None and course.since is not None:
        course.ran, course.since = at - course.since, None


def _pods(workload: Workload) -> tuple[JobPods, ...]:
    sizes: Counter[tuple[tuple[str, int], ...]] = Counter()
    for member in workload.members():
        asked = ((name, units) for name, units in member.pod.pod_class.requests.items() if units and name != _PODS)
        sizes[tuple(sorted(asked))] += 1
    return tuple(JobPods(count, dict(requests)) for requests, count in sorted(sizes.items()))


def _trace(courses: dict[WorkloadKey, _Course]) -> Trace:
    trace = Trace()
    begins = min((course.submitted for course in courses.values()), default=0.0)
    for key, one in courses.items():
        limit = None if one.limit is None else float(one.limit)
        name = "/".join(key)
        job = TraceJob(name, one.submitted - begins, one.ran, one.pods, one.queue, key[1], limit, priority=one.priority)
        try:
            trace.jobs.append(checked(job))
        except BadEntryError as error:
            trace.left_out += 1
            trace.skipped.append(f"{name}: {error}")
        if one.ran is None:
            trace.filled[_NO_RUN] += 1
    return trace
