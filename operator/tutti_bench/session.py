"""A session: workloads one after the other on one cluster, each of which finds it as the one before did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tutti.kube.client import Client
from tutti.kube.errors import WireError
from tutti_bench.dataitems import DataItem
from tutti_bench.document import DocumentError, Scenario, Workload
from tutti_bench.namespaces import Namespaces
from tutti_bench.objects import Objects, Refused
from tutti_bench.opcodes.performing import perform
from tutti_bench.opcodes.pods import default_pod
from tutti_bench.operations.frame import Operation
from tutti_bench.params import ParameterError, Params
from tutti_bench.pods import PodBook, Stalled
from tutti_bench.process import ELSEWHERE, Process
from tutti_bench.run import Limits, Reporter, Run

PROBE: Final = "tutti-bench-probe"


class WorkloadFailed(Exception):  # noqa: N818 - reads as what has happened
    """A workload could not be run to its end; the text says which, at which operation, and why."""


@dataclass(frozen=True, slots=True)
class Task:
    """One workload, with its parameters in place."""

    scenario: Scenario
    workload: Workload
    operations: list[Operation]
    folder: Path

    @property
    def name(self) -> str:
        """`<scenario>/<workload>`."""
        return f"{self.scenario.name}/{self.workload.name}"


def prepare(scenario: Scenario, workload: Workload, folder: Path) -> Task:
    """Put a workload's parameters in place.

    Raises:
        DocumentError: A parameter is missing, of the wrong kind, or used by nobody.
    """
    params = Params(workload.params)
    name = f"{scenario.name}/{workload.name}"
    operations = []
    for index, operation in enumerate(scenario.workload_template):
        try:
            operations.append(operation.resolved(params))
        except ValueError as error:
            raise DocumentError(f"{name}: operation {index}, {operation.opcode}: {error}") from None
    try:
        params.check_all_used()
    except ParameterError as error:
        raise DocumentError(f"{name}: {error}") from None
    return Task(scenario, workload, operations, folder)


class Session:
    """Runs workloads, for one scheduler after the other; made by `opened`."""

    def __init__(self, client: Client, reporter: Reporter, limits: Limits) -> None:
        self._reporter = reporter
        self._limits = limits
        self._objects = Objects(client, limits.settle)
        self._book = PodBook(client)
        self._namespaces = Namespaces(self._objects, self._book)

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Watch pods meanwhile."""
        watching = asyncio.create_task(self._book.run(), name="pods")
        try:
            await self._book.synced()
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def probe(self, scheduler: str, seconds: float) -> None:
        """Have one pod scheduled on a node of its own, so that it is known that somebody schedules under a name.

        Raises:
            Stalled: Nobody does within so many seconds.
            Refused: The API server does not take the pod.
            WireError: It could not be reached.
        """
        try:
            await self._namespaces.ensure(PROBE)
            capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
            meta = {"name": PROBE, "labels": {"kubernetes.io/hostname": PROBE}}
            await self._objects.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
            pod = {"apiVersion": "v1", "kind": "Pod", **default_pod()}
            pod["spec"] = {**pod["spec"], "schedulerName": scheduler}
            made, at = await self._objects.create_at(pod, PROBE)
            known = self._book.created(PROBE, made.name, made.uid, {}, at)
            await self._book.until([known], lambda one: one.is_bound, what=f"bound by {scheduler}", seconds=seconds)
        finally:
            await self._sweep()

    async def run(self, task: Task, scheduler: str, process: Process = ELSEWHERE) -> list[DataItem]:
        """Run one workload for a scheduler, take away all that it made, and return what was found.

        Args:
            task: The workload.
            scheduler: The schedulerName of its pods.
            process: The scheduler's.

        Raises:
            WorkloadFailed: It could not be run to its end.
            Refused: What it made could not be taken away.
            WireError: The API server could not be reached.
        """
        self._reporter.begin(task.name, len(task.operations))
        try:
            return await self._perform(task, scheduler, process)
        finally:
            await self._sweep()

    async def _perform(self, task: Task, scheduler: str, process: Process) -> list[DataItem]:
        at = 0
        try:
            async with asyncio.timeout(self._limits.workload), asyncio.TaskGroup() as background:
                run = self._run(task, scheduler, process, background)
                try:
                    for at, operation in enumerate(task.operations):
                        self._reporter.operation(at, operation.opcode)
                        await perform(operation, run, at)
                finally:
                    await _end(run)
        except TimeoutError:
            raise WorkloadFailed(f"{task.name}: not done after {self._limits.workload:.0f} s") from None
        except BaseExceptionGroup as errors:
            # A group that fails cancels the task it is in, and before Python 3.13 leaves it marked so; before 3.11.4 no
            # timeout works in a task that is, and what is taken away afterwards needs some.
            here = asyncio.current_task()
            if here is not None and here.cancelling():
                here.uncancel()
            cause = next(_leaves(errors))
            if not isinstance(cause, Refused | Stalled | WireError | ValueError):
                raise
            raise WorkloadFailed(f"{task.name}: operation {at}, {task.operations[at].opcode}: {cause}") from errors
        return run.items

    def _run(self, task: Task, scheduler: str, process: Process, background: asyncio.TaskGroup) -> Run:
        return Run(
            name=task.name,
            scheduler=scheduler,
            folder=task.folder,
            default_pod_template=task.scenario.default_pod_template_path,
            objects=self._objects,
            namespaces=self._namespaces,
            book=self._book,
            reporter=self._reporter,
            limits=self._limits,
            background=background,
            process=process,
        )

    async def _sweep(self) -> None:
        """Take away what a workload made; namespaces stay, empty."""
        await self._namespaces.empty()
        await self._objects.sweep()

    async def close(self) -> None:
        """Delete the namespaces.

        Raises:
            WireError: The API server refused, or could not be reached.
        """
        await self._namespaces.delete()


async def _end(run: Run) -> None:
    """End what goes on beside the operations; what has failed by itself stays failed."""
    for going_on in run.going_on:
        going_on.cancel()
    if run.measuring is not None:
        await run.measuring.cancel()


def _leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


@asynccontextmanager
async def opened(client: Client, reporter: Reporter, limits: Limits) -> AsyncIterator[Session]:
    """Open a session, and take its namespaces away at its end.

    Raises:
        WireError: The API server refused, or could not be reached.
    """
    session = Session(client, reporter, limits)
    async with session._watched():  # noqa: SLF001 - the other half of the same thing
        try:
            yield session
        finally:
            await session.close()
