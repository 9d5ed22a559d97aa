"""One call of `tutti bench run`: starts what is needed, runs all workloads for each scheduler, tells the outcome."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from tutti.cli.terminal import Terminal
from tutti.controller import logs
from tutti.kube.credentials import CredentialsError
from tutti.kube.errors import WireError
from tutti_bench import outcomes
from tutti_bench.objects import Refused
from tutti_bench.outcomes import Outcome, ProgressView, progress_on
from tutti_bench.pods import Stalled
from tutti_bench.results import DataItem, encode, file_name, judged, medians, of_fewer_turns, threshold_of
from tutti_bench.run import Limits
from tutti_bench.session import Session, Task, WorkloadFailed, opened
from tutti_bench.stage import START_SECONDS, ClusterNotReady, Contender, Process, staged
from tutti_sim.children import ChildDied

_GOOD, _BROKEN, _CANNOT, _INTERRUPTED = 0, 1, 2, 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True, kw_only=True)
class Benchmark:
    """What was asked for on the command line."""

    tasks: Sequence[Task]
    contenders: Sequence[Contender]
    runs: int
    embedded: bool
    kubeconfig: Path | None
    limits: Limits
    topic: str
    folder: Path | None
    as_json: bool
    plain: bool
    outcome: Outcome = field(default_factory=Outcome)
    # By scheduler, for each of the tasks, of each run that came to its end.
    found: dict[str, list[list[list[DataItem]]]] = field(default_factory=dict)

    async def run(self) -> int:
        """Run everything, and return the exit code; the logs are kept where something went wrong."""
        directory = Path(tempfile.mkdtemp(prefix="tutti-bench-"))
        console = Terminal(stderr=True, highlight=False)
        code = _CANNOT
        try:
            with (directory / "bench.log").open("w", encoding="utf-8") as log:
                logs.configure("json", stream=log)
                code = await self._all(directory, console)
        finally:
            if code in (_GOOD, _INTERRUPTED):
                shutil.rmtree(directory)
            else:
                console.print(f"The logs are kept in {directory}", soft_wrap=True)
        return code

    async def _all(self, directory: Path, console: Console) -> int:
        _heed_signals()
        if self.embedded:
            _bypass_proxies()
        try:
            with progress_on(console, plain=self.plain) as show:
                self._note(show)
                async with (
                    staged(directory, embedded=self.embedded, kubeconfig=self.kubeconfig) as stage,
                    opened(stage.client, show, self.limits) as session,
                ):
                    for contender in in_turn(self.contenders, self.runs):
                        async with stage.playing(contender) as process:
                            await self._play(session, contender, process, show)
        except (ChildDied, ClusterNotReady, CredentialsError, WireError, Refused, Stalled) as error:
            self._tell(console)
            console.print(f"tutti bench: {error}", style="red", markup=False, soft_wrap=True)
            return _CANNOT
        except asyncio.CancelledError:
            self._tell(console)
            console.print("Interrupted; what was made is taken away")
            return _INTERRUPTED
        self._tell(console)
        return _GOOD if self.outcome.is_good else _BROKEN

    async def _play(self, session: Session, contender: Contender, process: Process, show: ProgressView) -> None:
        """Run all workloads for one scheduler; one that fails does not stop the others."""
        found = self.found.setdefault(contender.label, [[] for _ in self.tasks])
        await session.probe(contender.scheduler, START_SECONDS)
        for task, runs in zip(self.tasks, found, strict=True):
            try:
                runs.append(await session.run(task, contender.scheduler, process))
            except WorkloadFailed as error:
                self.outcome.failures.append(f"{contender.label}: {error}")
                show.note(str(error))

    def _settle(self) -> None:
        """Take the medians of all runs, and hold those of the first scheduler against the thresholds."""
        for contender in self.contenders:
            told: list[DataItem] = []
            for task, runs in zip(self.tasks, self.found.get(contender.label, ()), strict=False):
                selector = task.scenario.selector(task.workload)
                items, verdicts = judged(medians(runs), selector, threshold_of(task.workload, self.topic))
                told += items
                if contender is self.contenders[0]:
                    self.outcome.verdicts += verdicts
            if contender.label in self.found:
                self.outcome.items[contender.label] = told

    def _note(self, show: ProgressView) -> None:
        """Say what of the files is not for this program to do."""
        gates = {gate for task in self.tasks for gate in (*task.scenario.feature_gates, *task.workload.feature_gates)}
        if gates:
            show.note(f"feature gates are set where a scheduler is started, not here: {', '.join(sorted(gates))}")
        if any(task.scenario.scheduler_config_path for task in self.tasks):
            show.note("schedulerConfigPath is left to whoever starts the scheduler")
        if any(task.scenario.metrics_collector_config for task in self.tasks):
            show.note(
                "metricsCollectorConfig names histograms within kube-scheduler's process, which are not read here"
            )

    def _tell(self, console: Console) -> None:
        self._settle()
        items = self.outcome.all_items()
        if not items and not self.outcome.failures:
            return
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            target = self.folder / file_name(self.topic, stamp)
            target.write_text(encode(items), encoding="utf-8")
            console.print(f"Written to {target}", soft_wrap=True)
        if self.as_json:
            click.echo(encode(items), nl=False)
        else:
            out = outcomes.console()
            out.print(outcomes.found(self.outcome))
            if len(self.outcome.items) > 1 and (rows := self.outcome.ratios()):
                out.print()
                out.print(outcomes.ratios(rows))
        names = [f"{task.scenario.name}/{task.workload.name}" for task in self.tasks]
        for text in of_fewer_turns(self.found, names, self.runs):
            console.print(text, style="yellow", markup=False, soft_wrap=True)
        for verdict in self.outcome.verdicts:
            if not verdict.is_met:
                console.print(f"threshold missed: {verdict}", style="red", markup=False, soft_wrap=True)
        for failure in self.outcome.failures:
            console.print(f"failed: {failure}", style="red", markup=False, soft_wrap=True)


def in_turn(contenders: Sequence[Contender], runs: int) -> Iterator[Contender]:
    """Give each of them so many times, and let each begin as often: who is first finds a server that has done little.

    A server that has just started answers the first requests of a kind late, and when ten pods are all there is,
    these are the requests that count.
    """
    for run in range(runs):
        yield from contenders if run % 2 == 0 else reversed(contenders)


def _heed_signals() -> None:
    """Have a signal end the run in order, so that what it made is taken away."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None  # it is called from one
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)


def _bypass_proxies() -> None:
    """Forget the proxies of the environment: this process and its children talk to this machine only."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
