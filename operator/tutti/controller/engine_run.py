"""One engine and everything that turns round it: informers in, the cycle, writers out.

    all listed ─▶ may lead ─▶ deciding ─▶ (the engine raises) ─▶ writes answered, or too old to land ─▶ the next run

An engine that raises at nobody in particular cannot be mended from within, and what it holds in memory can be had anew
from the API server, as every process has it at its start. So no part of a run outlives it: the next one lists
everything, with informers that remember nothing, and hears no answer to what this one has written. Its list shows that
instead, for it begins when nothing of this one can land any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from tutti.api.configuration import TuttiConfiguration
from tutti.api.shards import DEFAULT_SHARD
from tutti.controller.cycle import Cycle, Journal
from tutti.controller.dispatch import Dispatch
from tutti.controller.election import ElectionThread
from tutti.controller.health import Health
from tutti.controller.informers import Informers, OptionalInformers
from tutti.controller.measuring import NodeMeasuring
from tutti.controller.metrics import Metrics
from tutti.controller.object_cache import ObjectCache
from tutti.controller.pod_defaults import OwnerArrivals
from tutti.controller.progress import GangTimes, ProgressReporter
from tutti.controller.supervision import leaves, note_failure
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import AnyObservation, OwnerSeen, PodGone, PodSeen
from tutti.kube.client import Client
from tutti.kube.fencing import Confirm, Fence, LeadershipLost, LeaseTerm, unconfirmed
from tutti.kube.lease import boot_clock

Observe: TypeAlias = Callable[[AnyObservation], None]


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What the leader's session is given by the process.

    Attributes:
        clock: The time of day, in Unix seconds.
        ticks: Seconds that go on while the machine sleeps, from any beginning: what a lease is counted in.
        aside: Where the lease is held; None: in the loop of the session, and with its client.
        shard: Which part of the cluster is scheduled here, where the configuration names shards.
    """

    client: Client
    configuration: TuttiConfiguration
    health: Health
    metrics: Metrics
    journal: Journal | None = None
    clock: Callable[[], float] = time.time
    ticks: Callable[[], float] = boot_clock
    aside: ElectionThread | None = None
    shard: str = DEFAULT_SHARD


@dataclass(frozen=True, slots=True)
class Leadership:
    """How a process stands with its replicas, for those who write.

    Attributes:
        fence: Asked before each write.
        term: Returns what writes record of the lease.
        identity: The name of this process.
        confirm: Asks the server before what nothing would refuse.
        lost: Returns for how many seconds in all it could write nothing though it led.
    """

    fence: Fence
    term: Callable[[], LeaseTerm | None]
    identity: str
    confirm: Confirm = unconfirmed
    lost: Callable[[], float] = lambda: 0.0


log = structlog.get_logger(__name__)

DRAIN_SECONDS: Final = 15.0
"""How long answers to what was written are waited for."""
_PATIENCE_LEASES: Final = 3
"""How many times as long as a lease lasts a new leader may fail to list what others have bound."""


class EngineRun:
    """Runs one engine.

    Attributes:
        engine: Read its state between two turns only.
        listed: Whether everything was listed.
        leads: Whether the engine may decide, or has decided.

    Args:
        engine: One that has been told nothing yet.
        context: What the process gives.
        leadership: Who this process is to the others.
        catalogue: Told of our kinds.
        turned: Called after each turn.
        failed: Called as soon as the engine is known to have failed, before anything is waited for.
        arrivals: Told of each owner that is seen.
        look: Given what takes in observations, returns what the informers are to call in its place.
    """

    def __init__(
        self,
        engine: Engine,
        context: OperatorContext,
        leadership: Leadership,
        *,
        catalogue: ObjectCache,
        turned: Callable[[], None],
        failed: Callable[[], None],
        arrivals: OwnerArrivals,
        look: Callable[[Observe], Observe] = lambda observe: observe,
    ) -> None:
        self.engine = engine
        self.listed = False
        self.leads = False
        self._context = context
        self._turned = turned
        self._failed = failed
        self._arrivals = arrivals
        self._drained = False  # whether everything was answered after the engine had failed
        self._left = False  # whether something may land that nobody waits for any more
        self._lease_seconds = context.configuration.leader_election.lease_duration_seconds
        self._times = GangTimes(context.metrics, clock=context.clock)
        self._dispatch = self._make_dispatch(leadership)
        self._cycle = self._make_cycle(leadership)
        self._progress = ProgressReporter(engine, context.metrics)
        seen = look(self._observe)
        self._informers = Informers(
            context.client,
            observe=seen,
            forget=self._dispatch.forget,
            catalogue=catalogue,
        )
        self._measuring = NodeMeasuring(
            context.client,
            context.configuration,
            observe=self._observe,
            metrics=context.metrics,
            clock=context.clock,
        )
        self._optional_informers = OptionalInformers(
            context.client, context.configuration, observe=seen, forget=self._dispatch.forget
        )

    def _make_dispatch(self, leadership: Leadership) -> Dispatch:
        """Return who carries out what the engine decides."""
        context = self._context
        return Dispatch(
            context.client,
            fence=leadership.fence,
            confirm=leadership.confirm,
            observe=self._observe,
            metrics=context.metrics,
            times=self._times,
            term=leadership.term,
            instance=leadership.identity,
            extenders=context.configuration.extenders,
            kinds=self.engine.state.kinds,
        )

    def _make_cycle(self, leadership: Leadership) -> Cycle:
        """Return who asks the engine, and has its decisions carried out."""
        context = self._context
        return Cycle(
            self.engine,
            self._dispatch.carry_out,
            node_gone=self._dispatch.node_gone,
            metrics=context.metrics,
            journal=context.journal,
            decided=self._decided,
            fence=leadership.fence,
            lost=leadership.lost,
            clock=context.clock,
            ticks=context.ticks,
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Work until cancelled.

        Args:
            lead: Called once everything was listed; calls `lead` here as soon as the engine may decide.

        Raises:
            ExceptionGroup: Of what the engine, or anything else here, has raised, once nothing that was decided can
                land any more; of LeadershipLost at once.
        """
        probes = {**self._informers.probes, "other kinds": self._optional_informers.check}
        with self._context.health.asking(probes):
            try:
                await self._work(lead)
            except Exception as error:
                if _is_over(error):
                    raise
                self._failed()
                if self._context.journal is not None:
                    self._context.journal.begin_anew()
                self._left = not self._drained
                if self._left:
                    log.warning("writes_waited_out", seconds=self._lease_seconds)
                    await asyncio.sleep(self._lease_seconds)  # who leads next relies on the same
                raise

    async def _work(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Turn until something raises, then have the writers end what was decided."""
        async with asyncio.TaskGroup() as writers:
            writers.create_task(self._dispatch.run(), name="dispatch")
            try:
                await self._turn(lead)
            except Exception as error:
                if not _is_over(error):
                    self._failed()
                    why = dict.fromkeys(str(leaf) or repr(leaf) for leaf in leaves(error))
                    log.exception("engine_failed", errors=list(why))
                    drained = await self._dispatch.drain(within_seconds=DRAIN_SECONDS)
                    self._drained = drained.writes and drained.statuses
                    self._left = not self._drained
                raise

    async def _turn(self, lead: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers")
            group.create_task(self._optional_informers.run(), name="optional informers")
            group.create_task(self._measuring.run(), name="measuring")
            group.create_task(self._cycle.run(), name="cycle")
            await self._informers.synced.wait()
            await self._optional_informers.synced.wait()
            self._cycle.synced()
            self.listed = True
            await lead()

    async def list_anew(self) -> None:
        """Return once what a former leader has bound is known (`Informers.list_anew`)."""
        await self._informers.list_anew(patience_seconds=_PATIENCE_LEASES * self._lease_seconds)

    def lead(self) -> None:
        """Have the engine decide, once it has been told of everything that was observed until now."""
        self.leads = True
        self._cycle.lead()

    async def finish(self) -> bool:
        """Decide nothing more, and let writers end what was decided; return whether they have."""
        self._cycle.rest()
        if not self.leads:
            return True
        drained = await self._dispatch.drain(within_seconds=DRAIN_SECONDS)
        return drained.writes and not self._left

    def record(self, event: EmitEvent) -> None:
        """Record an event about an object of ours."""
        self._dispatch.record(event)

    def _decided(self, seconds: float) -> None:
        """Tell what has come of a turn."""
        try:
            self._progress.turned(seconds)
        except Exception as error:  # noqa: BLE001 - a bulkhead: what is told of a turn is not what came of it
            note_failure("progress", error, self._context.metrics)
        self._turned()

    def _observe(self, observation: AnyObservation) -> None:
        if isinstance(observation, PodSeen):
            self._times.seen(observation.pod)
        elif isinstance(observation, PodGone):
            self._times.gone(observation.namespace, observation.name)
        elif isinstance(observation, OwnerSeen):
            self._arrivals.seen(observation.found)
        self._cycle.observe(observation)


def _is_over(error: Exception) -> bool:
    """Whether this process leads no more: then another does what is left to be done."""
    return any(isinstance(leaf, LeadershipLost) for leaf in leaves(error))
