"""The whole evening: starts the processes, sets the stage, and takes everything down again.

In between work arrives act by act, and each act is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import API_VERSION
from tutti.controller.definitions import installed
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.supervision import leaves
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.errors import ApiError
from tutti.kube.resources import NAMESPACES, PODS, APIResource
from tutti.kube.retry import retrying
from tutti_demo.picture import Picture, pair_of
from tutti_demo.scenario import (
    GPU,
    Act,
    DemoScenario,
    Document,
    Wave,
    compose,
    definitions,
    fixtures,
    pod,
    pod_group,
)
from tutti_demo.shows import Show
from tutti_demo.summary import Summary, summarize
from tutti_demo.watching import Observer
from tutti_sim.children import Child, ChildDied, Children, tail

_SERVED = {
    "CustomResourceDefinition": APIResource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
    ),
    "Namespace": NAMESPACES,
    "Pod": PODS,
    **OUR_RESOURCES,
}


async def set_stage(client: Client, scenario: DemoScenario) -> None:
    """Install the CRDs, wait until they are served, and create what stands before the first act.

    Raises:
        WireError: the server refused, or could not be reached.
    """
    for definition in definitions():
        await create_object(client, definition)
    await installed(client)
    for document in fixtures(scenario):
        await create_object(client, document)


async def create_object(client: Client, document: Document) -> None:
    """Create an object; that it is there already is as good, for an earlier try may have taken effect.

    Raises:
        WireError: the server refused, or could not be reached.
    """
    path = _SERVED[document["kind"]].path(document["metadata"].get("namespace"))
    body = msgspec.json.encode(document)
    try:
        await retrying(lambda: client.request("POST", path, body=body))
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


class Play:
    """One performance. Times are those of `clock`, which the observer shares."""

    def __init__(self, client: Client, observer: Observer, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._observer = observer
        self._picture = observer.picture
        self._clock = clock
        self._pair: tuple[str, ...] = ()

    async def ready(self) -> None:
        """Return once all nodes are there and the operator has judged every queue."""
        scenario = self._picture.scenario
        await self._observer.synced()
        await self._observer.until(lambda: len(self._picture.nodes) >= scenario.nodes)
        await self._observer.until(
            lambda: all(
                (queue := self._picture.queues.get(team.name)) is not None and queue.active for team in scenario.teams
            )
        )
        self._pair = pair_of(self._picture)

    async def run(self) -> None:
        """Play all acts; each begins when the work of the one before is done."""
        for act in self._picture.scenario.acts:
            await self._play(act)

    async def kill(self, operator: Child, after_seconds: float) -> None:
        """Kill the operator so long after now, and see it started again."""
        await asyncio.sleep(after_seconds)
        self._picture.operator("killed with SIGKILL; nobody decides now, what runs goes on", at=self._clock())
        self._observer.touch()
        await operator.crash()
        self._picture.operator(
            "started again; it reads all it knows from the API server", at=self._clock(), restarted=True
        )
        self._observer.touch()

    async def _play(self, act: Act) -> None:
        begun = self._clock()
        self._picture.begin(act, at=begun)
        self._observer.touch()
        for wave in act.waves:
            await asyncio.sleep(begun + wave.at - self._clock())
            await self._send(wave)
        await self._observer.until(lambda: self._picture.finished(act))

    async def _send(self, wave: Wave) -> None:
        for gang in wave.gangs:
            await create_object(self._client, pod_group(gang))
        for job, name in wave.pods:
            await create_object(self._client, pod(job, name, pinned_to=self._pair))


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
    """One run of the demo, in a directory of its own for logs, kubeconfig and configuration.

    Attributes:
        pages: The address of its pages, from the first act until everything is taken down; "" before.
    """

    def __init__(self, options: Options, *, directory: Path, show: Show) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._options = options
        self._directory = directory
        self._show = show
        self._clock = time.monotonic
        self._picture = Picture(compose(seed=options.seed, speed=options.speed))
        self.pages = ""

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
                pages = await self._start_pages(children)
                async with asyncio.TaskGroup() as group:
                    watches = [group.create_task(child.supervise()) for child in (cluster, operator, pages)]
                    summary = await self._perform(operator, pages, deadline)
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

    async def _start_pages(self, children: Children) -> Child:
        files = ("--kubeconfig", str(self.kubeconfig), "--config", str(self._directory / "tutti.yaml"))
        return await children.start("pages", "ui", *files, "--no-browser")

    async def _find_pages(self, child: Child, deadline: float) -> None:
        """Tell where pages are served, once they are."""
        async with _in_time(deadline, "the pages are not served", child.log):
            await child.until(lambda: "http://" in tail(child.log))
        self.pages = next(word for word in tail(child.log).split() if word.startswith("http://"))
        self._show.tell_pages(self.pages)

    async def _perform(self, operator: Child, pages: Child, deadline: float) -> Summary:
        """Set the stage, until the deadline at the latest, and play."""
        credentials = await Credentials.load(self.kubeconfig)
        async with Client(credentials) as client, asyncio.TaskGroup() as group:
            observer = Observer(client, self._picture, clock=self._clock)
            play = Play(client, observer, clock=self._clock)
            async with _in_time(deadline, "the operator has not made the queues active", operator.log):
                await set_stage(client, self._picture.scenario)
                behind = [group.create_task(observer.run(), name="observe")]
                await play.ready()
            await self._find_pages(pages, deadline)
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
    found = list(leaves(errors))
    return next((error for error in found if isinstance(error, ChildDied)), found[0])
