"""The process: what is started in which order, what stops it, and with which exit code it ends.

A signal and a lost lease end in the same place: nothing more is decided, what was decided is written, the lease is
given back (or left to run out, where something may be under way still), and the process ends; with exit code 0 only if
it was asked to. The engine, and what is embedded beside it, kopf above all, fail and begin again by themselves.

    thread              what runs in its loop
    main                streams, engine, writers; metrics are read, deletions and reviews judged
    lease and probes    the lease, /healthz, /readyz, the answers of /metrics
    deletions           kopf, which holds finalizers
    webhooks            kopf, which serves reviews, where they are enabled

Pages, where they are wanted, are served by a process of their own (`web_view.py`).
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog
from prometheus_client import disable_created_metrics

from tutti import __version__
from tutti.api.configuration import TuttiConfiguration
from tutti.api.shards import DEFAULT_SHARD
from tutti.controller.election import ElectionThread
from tutti.controller.engine_run import OperatorContext
from tutti.controller.event_loops import Heartbeat, LoopThread, OtherLoop, measure_lag, new_loop
from tutti.controller.health import Health
from tutti.controller.journaling import journal_at
from tutti.controller.kopf_handlers import DeletionGuard, Reviewer, holding, reviewing, run_kopf, settings_for
from tutti.controller.large_pages import keep_in_large_pages
from tutti.controller.leader_session import LeaderSession
from tutti.controller.metrics import Metrics
from tutti.controller.pod_defaults import PodDefaults
from tutti.controller.self_signing import own_certificate
from tutti.controller.serving import MetricsReaders, application, guarded, serving
from tutti.controller.stuck_deletions import StuckDeletions
from tutti.controller.supervision import Restartable, Supervisor, is_lost_lease, keep_up, leaves, until_stopped
from tutti.controller.web_view import web_view
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.plugins import Plugins, checksums
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.metrics import WireMetrics
from tutti.placement.extension import Stopwatch

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Whoever scrapes cannot know it, and each process has its own.
_CERTIFICATE_LASTS = timedelta(days=3650)


class Crashed(Exception):  # noqa: N818 - it says what has happened to the process
    """The operator could not go on; the cause is what stopped it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What the process was started with.

    Attributes:
        plugins: Makes those of one engine; may raise a ConfigurationError.
        shard: Which part of the cluster it schedules, where the configuration names shards.
    """

    configuration: TuttiConfiguration
    kubeconfig: Path | None = None
    context: str | None = None
    journal: Path | None = None
    plugins: Callable[[], Plugins] = dict
    shard: str = DEFAULT_SHARD


class _Engines:
    """Makes one engine after the other, each with plugins of its own: these may remember what they have let go.

    Attributes:
        stopwatch: Measures what they take.
        policies: The checksums of the learned policies among them.

    Raises:
        ConfigurationError: The plugins cannot be made; those of the first engine are made here.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._first: Plugins | None = launch.plugins()
        self.stopwatch: Stopwatch | None = None
        self.policies = checksums(self._first)

    def __call__(self) -> Engine:
        """Make an engine; what one before it has left is given back first, for two of them may be too much."""
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        plugins, self._first = self._first, None
        plugins = self._launch.plugins() if plugins is None else plugins
        return Engine(self._launch.configuration, plugins, stopwatch=self.stopwatch)


async def operate(
    launch: Launch,
    *,
    serves_at: Callable[[int], None] | None = None,
    once_synced: Callable[[], None] = lambda: None,
) -> None:
    """Run the operator until a signal, or what ends it.

    Args:
        launch: what to run.
        serves_at: called with the port of probes and metrics once they are served.
        once_synced: called once everything was listed.

    Raises:
        CredentialsError: there is no usable way to a cluster.
        ConfigurationError: the plugins cannot be made.
        OSError: the port for probes or metrics cannot be listened on, or there is no folder for the journal.
        Crashed: the operator could not go on.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody asks for
    configuration = launch.configuration
    engines = _Engines(launch)
    credentials = await Credentials.load(launch.kubeconfig, launch.context)
    stop = asyncio.Event()
    health, metrics = Health(), Metrics(local_queues=configuration.metrics.local_queues)
    wire, pulse = WireMetrics(metrics.registry), Heartbeat()
    engines.stopwatch = metrics.plugin_times
    health.alive["loop"] = pulse.check
    with (
        _signals(stop),
        journal_at(launch.journal, configuration, metrics.journal_failures, engines.policies) as journal,
        LoopThread("lease and probes") as own,
    ):
        lasting = await own.run(Credentials.load(launch.kubeconfig, launch.context))
        async with (
            own.holding(_server(configuration, health, metrics)) as port,
            own.holding(lambda: Client(lasting, metrics=wire)) as holder,
            own.holding(_readers_server(configuration, holder, metrics)),
            # After the other one: what it writes is what is to be seen of writes under way.
            Client(credentials, metrics=wire, concurrency=configuration.client_connection.concurrency) as client,
        ):
            log.info("started", version=__version__, cluster=credentials.source, port=port)
            if serves_at is not None:
                serves_at(port)
            aside = ElectionThread(own, holder, pulse)
            context = OperatorContext(client, configuration, health, metrics, journal, aside=aside, shard=launch.shard)
            try:
                session = LeaderSession(engines, context, once_synced=once_synced)
                await _operate(session, context, launch, credentials, stop, pulse=pulse)
            except Exception as error:
                said = dict.fromkeys(str(leaf) or repr(leaf) for leaf in leaves(error))
                raise Crashed(", ".join(said)) from error
    log.info("stopped")


async def _operate(
    session: LeaderSession,
    context: OperatorContext,
    launch: Launch,
    credentials: Credentials,
    stop: asyncio.Event,
    *,
    pulse: Heartbeat,
) -> None:
    """Run the engine, and beside it what may fail by itself."""
    supervisor = Supervisor(lambda: session.run(stop), stop=stop, health=context.health)
    with ExitStack() as loops:
        loop = loops.enter_context(LoopThread("deletions"))
        parts = [_deletions(session, credentials, context, loop)]
        if context.configuration.webhook.enabled:
            loop = loops.enter_context(LoopThread("webhooks"))
            parts.append(_webhooks(session, credentials, context, loop))
        if context.configuration.ui is not None:
            parts.append(web_view(context.configuration, launch.kubeconfig, launch.context))
        supervisor.start()
        try:
            await until_stopped(
                stop,
                measure_lag(context.metrics, pulse),
                _once_synced(session, context, parts),
            )
        finally:
            stop.set()
            await supervisor.finished()
    supervisor.result()


async def _once_synced(session: LeaderSession, context: OperatorContext, parts: Sequence[Restartable]) -> None:
    """Keep up what goes by what was listed."""
    await session.synced.wait()
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(keep_up(part, health=context.health, metrics=context.metrics), name=part.name)


def _deletions(
    session: LeaderSession, credentials: Credentials, context: OperatorContext, loop: LoopThread
) -> Restartable:
    """Return the part that holds deletions of what is in use."""
    holder = DeletionGuard(
        session.catalogue, deciding=session.deciding, record=session.record, concerns=session.concerns
    )
    there = OtherLoop(asyncio.get_running_loop())
    stuck = StuckDeletions(context.client, holder, session.catalogue, fence=session.fence)

    async def hold() -> None:
        await loop.run(run_kopf(holding(credentials, holder, there), settings_for(context.configuration)))

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.definitions.begin_anew(hold))
            group.create_task(stuck.run())

    return Restartable("deletions", work)


def _webhooks(
    session: LeaderSession, credentials: Credentials, context: OperatorContext, loop: LoopThread
) -> Restartable:
    """Return the part that serves reviews; without it, the API server must not ask this process."""
    configuration = context.configuration
    reviewer = Reviewer(session.catalogue, session.catalog, default_queue=configuration.default_local_queue)
    pods = PodDefaults(configuration, session, clock=context.clock)
    there = OtherLoop(asyncio.get_running_loop())

    async def work() -> None:
        ended = asyncio.Event()
        async with own_certificate(configuration.webhook, context.client, ended) as certificate:

            async def serve() -> None:
                settings = settings_for(configuration, certificate, serves=True)
                await loop.run(run_kopf(reviewing(credentials, reviewer, pods, there), settings))

            await until_stopped(ended, session.definitions.begin_anew(serve))

    return Restartable("webhooks", work, gates=True)


def _server(
    configuration: TuttiConfiguration, health: Health, metrics: Metrics
) -> Callable[[], AbstractAsyncContextManager[int]]:
    """Return what serves probes and metrics, in whatever loop it is begun; metrics are read in this one."""
    registry = metrics.registry if configuration.metrics.secure_bind_address is None else None
    host, port = _address(configuration.metrics.bind_address)
    app = application(health, registry, measured_in=OtherLoop(asyncio.get_running_loop()))
    return lambda: serving(app, host=host, port=port)


def _readers_server(
    configuration: TuttiConfiguration, client: Client, metrics: Metrics
) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Return what serves metrics to those who may read them, where that is asked for; they are read in this loop.

    Args:
        configuration: What an administrator has set.
        client: Asks who may; of the loop that it is begun in.
        metrics: What is measured.
    """
    here = OtherLoop(asyncio.get_running_loop())

    @asynccontextmanager
    async def begun() -> AsyncIterator[None]:
        address = configuration.metrics.secure_bind_address
        if address is None:
            yield
            return
        # Needs a package that takes its time to load.
        from tutti.kube.certificate import Certificate  # noqa: PLC0415

        host, port = _address(address)
        context = Certificate.make([host or "localhost"], lasts=_CERTIFICATE_LASTS).context()
        app = guarded(metrics.registry, MetricsReaders(client), measured_in=here)
        async with serving(app, host=host, port=port, context=context) as served:
            log.info("serving_metrics", port=served)
            yield

    return begun


def _address(text: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Have signals ask for a stop; outside of the main thread there are none to have."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def run_operator(launch: Launch) -> int:
    """Run the operator in a loop of its own and return the exit code of the process.

    Raises:
        CredentialsError: there is no usable way to a cluster.
        ConfigurationError: the plugins cannot be made.
        OSError: the port for probes or metrics cannot be listened on, or there is no folder for the journal.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_exit_code(launch))


def _keep_for_good() -> None:
    """Have the garbage collector not walk through what was listed again: most of it lives as long as the engine.

    Only what is youngest is collected before: a walk through everything would stall the loop for as long as what it
    is to spare, and the views and records that a list leaves behind hold no cycles.
    """
    gc.collect(0)
    gc.freeze()


async def _exit_code(launch: Launch) -> int:
    listed = asyncio.Event()

    def once_synced() -> None:
        _keep_for_good()
        listed.set()

    pages = asyncio.create_task(keep_in_large_pages(listed), name="large pages")
    try:
        await operate(launch, once_synced=once_synced)
    except Crashed as crash:
        if not is_lost_lease(crash.__cause__ or crash):  # which was told where it happened, and is no fault
            log.critical("crashed", error=str(crash), exc_info=crash.__cause__)
        return 1
    finally:
        pages.cancel()
    return 0
