"""One run of one workload: what its operations share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tutti_bench import templates
from tutti_bench.measuring import Measurement
from tutti_bench.objects import Objects
from tutti_bench.pods import Namespaces, PodBook
from tutti_bench.results import DataItem
from tutti_bench.stage import ELSEWHERE, Process
from tutti_bench.templates import Object

DEFAULT_SCHEDULER = "default-scheduler"


class Reporter(Protocol):
    """Whoever shows how far a benchmark has come."""

    def begin(self, name: str, operations: int) -> None:
        """A workload of so many operations begins."""
        ...

    def operation(self, number: int, what: str) -> None:
        """The operation of this number, from 0, begins."""
        ...

    def progress(self, done: int, total: int) -> None:
        """So much of the current operation is done."""
        ...

    def note(self, text: str) -> None:
        """Something the reader should know."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take, in seconds; the first two defaults are scheduler_perf's."""

    operation: float = 600.0
    workload: float = 1800.0
    settle: float = 3.0
    """How long deleted objects may take before their finalizers are taken off; scheduler_perf deletes nothing."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What the operations of a workload share.

    Attributes:
        name: `<scenario>/<workload>`.
        scheduler: The schedulerName of pods whose template names none, or names kube-scheduler's.
        folder: Where the paths of templates begin.
        default_pod_template: Of pods whose operation names none.
        background: Where operations go on after their turn; ends with the workload.
        process: The scheduler's.
        items: What was found so far.
        measuring: What startCollectingMetrics has begun.
    """

    name: str
    scheduler: str
    folder: Path
    default_pod_template: str
    objects: Objects
    namespaces: Namespaces
    book: PodBook
    reporter: Reporter
    limits: Limits
    background: asyncio.TaskGroup
    process: Process = ELSEWHERE
    going_on: list[asyncio.Task[None]] = field(default_factory=list)
    items: list[DataItem] = field(default_factory=list)
    measuring: Measurement | None = None

    @property
    def now(self) -> float:
        """The loop's clock, in seconds."""
        return asyncio.get_running_loop().time()

    def template(self, path: str) -> templates.Template:
        """Return the template at a path of the file.

        Raises:
            TemplateError: It cannot be read.
        """
        return templates.load_template((self.folder / path).resolve())

    def go_on(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let something go on beside the operations that follow; if it fails, the workload fails."""
        self.going_on.append(self.background.create_task(work, name=name))

    def measure(self, name: str, namespaces: list[str], selector: Mapping[str, str] | None = None) -> Measurement:
        """Begin a measurement whose items are named `<workload>/<name>`, or after the workload alone."""
        full = f"{self.name}/{name}" if name else self.name
        measurement = Measurement(self.book, full, namespaces, selector, process=self.process)
        measurement.start()
        return measurement

    def addressed(self, pod: Object) -> Object:
        """Return a pod with the name of the scheduler that is measured, unless it names one of its own."""
        spec = pod.get("spec") or {}
        if spec.get("schedulerName", DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER:
            return pod
        return {**pod, "spec": {**spec, "schedulerName": self.scheduler}}


def fill(template: templates.Template, params: Mapping[str, Any], index: int, count: int) -> Object:
    """Return the object of a template for one of `count` objects.

    Raises:
        TemplateError: It cannot be filled in.
    """
    return template.object({**params, "Index": index, "Count": count})
