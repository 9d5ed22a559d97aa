"""The whole evening: starts the processes, sets the stage, plays, watches, and takes everything down again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import API_VERSION
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti_demo.picture import Picture
from tutti_demo.playing import Play, set_stage
from tutti_demo.scenario import GPU, compose
from tutti_demo.shows import Show
from tutti_demo.summary import Summary, summarize
from tutti_demo.watching import Observer
from tutti_sim.children import Child, ChildDied, Children, tail

LIMIT_SECONDS = 52.0
"""Leaves time to take everything down within a minute."""
STAGE_SECONDS = 120.0
"""How long the cluster and the operator have to be ready: on a busy machine it takes them long to start."""
BIND_WINDOW_SECONDS = 10
"""The operator's bind window, and so the longest time for which a gang may be partly bound."""


class NotReady(Exception):  # noqa: N818 - reads as what it is
    """The stage was not set in time; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the play is played.

    Attributes:
        seed: Of what is left to chance.
        speed: How many times faster than written.
        kill_operator_at: Seconds after the beginning at which the operator is killed and started again, or None.
        limit_seconds: So long after its beginning the play is ended, finished or not.
    """

    seed: int = 0
    speed: float = 1.0
    kill_operator_at: float | None = None
    limit_seconds: float = LIMIT_SECONDS


def operator_configuration() -> str:
    """The operator's configuration for the demo, as YAML.

    One replica needs no lease, so a killed one is not waited for; pods pack by GPU, which keeps whole nodes free.
    """
    strategy = {"type": "MostAllocated", "resources": [{"name": GPU}]}
    document = {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "profiles": [{"schedulerName": "tutti", "scoringStrategy": strategy}],
        "bindWindowSeconds": BIND_WINDOW_SECONDS,
        "leaderElection": {"enabled": False},
        "metrics": {"bindAddress": "127.0.0.1:0"},
    }
    TuttiConfiguration.model_validate(document)
    return yaml.safe_dump(document, sort_keys=False)


class Performance:
    """One run of the demo, in a directory of its own for logs, kubeconfig and configuration."""

    def __init__(self, options: Options, *, directory: Path, show: Show) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._options = options
        self._directory = directory
        self._show = show
        self._clock = time.monotonic
        self._picture = Picture(compose(seed=options.seed, speed=options.speed))

    async def run(self, afterwards: Callable[[Summary], Awaitable[None]]) -> Summary:
        """Play, call `afterwards` with the outcome while everything still runs, and take everything down.

        Raises:
            ChildDied: a process of ours ended on its own.
            NotReady: the stage was not set in time.
            WireError: the cluster refused what the play needs.
        """
        deadline = asyncio.get_running_loop().time() + STAGE_SECONDS
        try:
            async with Children(self._directory) as children:
                cluster = await self._start_cluster(children, deadline)
                operator = await self._start_operator(children)
                async with asyncio.TaskGroup() as group:
                    watches = [group.create_task(child.supervise()) for child in (cluster, operator)]
                    summary = await self._perform(operator, deadline)
                    await afterwards(summary)
                    for watch in watches:
                        watch.cancel()
        except BaseExceptionGroup as errors:
            raise _cause(errors) from errors
        return summary

    async def _start_cluster(self, children: Children, deadline: float) -> Child:
        scenario = self._picture.scenario
        self._show.say(f"Starting a cluster of {scenario.nodes} hollow nodes; logs are in {self._directory}")
        size = ("--nodes", str(scenario.nodes), "--gpus", str(scenario.gpus_per_node))
        cluster = await children.start("cluster", "cluster", *size, "--port", "0", "--kubeconfig", str(self.kubeconfig))
        async with _in_time(deadline, "the cluster does not answer", cluster.log):
            await cluster.until(self.kubeconfig.exists)
        return cluster

    async def _start_operator(self, children: Children) -> Child:
        self._show.say("Starting the operator")
        configuration = self._directory / "tutti.yaml"
        configuration.write_text(operator_configuration(), encoding="utf-8")
        files = ("--kubeconfig", str(self.kubeconfig), "--config", str(configuration))
        return await children.start("operator", "run", *files, "--log-format", "console")

    async def _perform(self, operator: Child, deadline: float) -> Summary:
        """Set the stage, until the deadline at the latest, and play."""
        credentials = await Credentials.load(self.kubeconfig)
        async with Client(credentials) as client, asyncio.TaskGroup() as group:
            observer = Observer(client, self._picture, clock=self._clock)
            play = Play(client, observer, clock=self._clock)
            async with _in_time(deadline, "the operator has not made the queues active", operator.log):
                await set_stage(client, self._picture.scenario)
                behind = [group.create_task(observer.run(), name="observe")]
                await play.ready()
            started_at = self._clock()
            behind += [group.create_task(one) for one in self._beside(play, operator, observer, started_at)]
            limit = self._options.limit_seconds
            try:
                async with asyncio.timeout(limit):
                    await play.run()
            except TimeoutError:  # what is undone stands in the summary
                self._show.say(f"The play was ended after {limit:g} s, before all was done (--limit gives it longer)")
            for task in behind:
                task.cancel()
        now = self._clock()
        return summarize(self._picture, at=now, started_at=started_at, partly_bound_limit=BIND_WINDOW_SECONDS)

    def _beside(
        self, play: Play, operator: Child, observer: Observer, started_at: float
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """What goes on beside the play."""
        yield self._show.follow(observer, started_at=started_at, clock=self._clock)
        if self._options.kill_operator_at is not None:
            yield play.kill(operator, self._options.kill_operator_at)


@asynccontextmanager
async def _in_time(deadline: float, problem: str, log: Path) -> AsyncIterator[None]:
    """Bound what is done within; at the deadline, say what the problem is and how the log ends."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError as error:
        raise NotReady(f"{problem} in time; the end of its log, {log}:\n{tail(log)}") from error


def _cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that tells most: that a process has died, else the first one."""
    leaves = list(_leaves(errors))
    return next((error for error in leaves if isinstance(error, ChildDied)), leaves[0])


def _leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
