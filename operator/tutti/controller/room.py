"""Everything that turns round one engine: streams in, the cycle, writers out, and the lease that lets them write.

    CRDs served ─▶ all listed ─▶ lease acquired ─▶ nodes and pods listed anew ─▶ deciding
      ─▶ (asked to stop) ─▶ writers drained ─▶ lease released

A standby goes as far as the second step and waits there with everything known, so that little is left to take over:
what the former leader has bound, of which a watch tells in its own time. Who had the lease at the first try may have to
list that anew as well, for it may have been given up while the first list was under way. Only where nobody held the
lease before that list, and nobody has written it since, did that list begin after the last bind of anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.catalogue import Catalogue
from tutti.controller.conditions import ConditionKeeper
from tutti.controller.crds import installed
from tutti.controller.cycle import Cycle, Journal
from tutti.controller.dispatch import Dispatch
from tutti.controller.election import Aside, Election, elector_in, times_of
from tutti.controller.feeds import Feeds
from tutti.controller.gang_times import GangTimes
from tutti.controller.gauges.collector import StateGauges
from tutti.controller.health import Check, Health
from tutti.controller.metrics import Metrics
from tutti.controller.parts import Part, keep_up, note_failure
from tutti.controller.progress import Progress
from tutti.controller.reviews import Classes
from tutti.controller.served_feeds import ServedFeeds
from tutti.controller.specs import ObjectKey
from tutti.controller.supervisor import first_of, is_lost_lease, leaves
from tutti.controller.usage import charged, overused
from tutti.engine.engine import Engine
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import AnyObservation, PodGone, PodSeen
from tutti.kube.client import Client
from tutti.kube.fencing import Fence, Term, unfenced
from tutti.kube.lease import Elector, boot_clock, default_identity
from tutti.kube.statuses import StatusWriter

log = structlog.get_logger(__name__)

_DRAIN_SECONDS = 15.0
_PATIENCE_LEASES: Final = 3
"""How many times as long as a lease lasts a new leader may fail to list what others have bound."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a room is given by the process it runs in.

    Attributes:
        clock: The time of day, in Unix seconds.
        ticks: Seconds that go on while the machine sleeps, from any beginning: what a lease is counted in.
        aside: Where the lease is held; None: in the loop of the room, and with its client.
    """

    client: Client
    configuration: TuttiConfiguration
    health: Health
    metrics: Metrics
    journal: Journal | None = None
    clock: Callable[[], float] = time.time
    ticks: Callable[[], float] = boot_clock
    aside: Aside | None = None


class Room:
    """Runs one engine against one cluster.

    Attributes:
        catalogue: What is known of our kinds; kopf's handlers read it.
        classes: Who knows the classes of priority.
        synced: Set once everything was listed.
        deciding: Set once this process leads and the engine has settled what it found.
    """

    def __init__(self, engine: Engine, around: Surroundings, *, once_synced: Callable[[], None] = lambda: None) -> None:
        self._once_synced = once_synced
        self.catalogue = Catalogue(lambda: charged(engine.state))
        self._state = engine.state
        self._overuses = 0  # the version of what was told of them
        self.classes: Classes = engine.state.catalog
        self.synced = asyncio.Event()
        self.deciding = asyncio.Event()
        self._around = around
        self._leads = False
        self._elector = _elector(around)
        fence: Fence = self._elector.check if self._elector else unfenced
        self._times = GangTimes(around.metrics, clock=around.clock)
        self._dispatch = Dispatch(
            around.client,
            fence=fence,
            observe=self._observe,
            metrics=around.metrics,
            times=self._times,
            term=self._term,
            instance=self._elector.identity if self._elector else default_identity(),
            extenders=around.configuration.extenders,
        )
        self._cycle = Cycle(
            engine,
            self._dispatch.carry_out,
            metrics=around.metrics,
            journal=around.journal,
            decided=self._decided,
            fence=fence,
            clock=around.clock,
            ticks=around.ticks,
        )
        self._progress = Progress(engine, around.metrics)
        StateGauges(
            engine,
            self.catalogue,
            around.metrics.registry,
            leads=lambda: self._leads and (self._elector is None or self._elector.leading),
            failed=lambda error: note_failure("metrics", error, around.metrics),
            local_queues=around.configuration.metrics.local_queues,
        )
        self._conditions = StatusWriter(around.client, fence=fence, term=self._term, concurrency=2)
        around.health.waiting("crds", "not looked for yet")
        around.health.ready["synced"] = lambda: Check(self.synced.is_set(), "ok" if self.synced.is_set() else "listing")
        self._feeds = Feeds(
            around.client,
            observe=self._observe,
            forget=self._dispatch.forget,
            catalogue=self.catalogue,
            health=around.health,
        )
        self._served_feeds = ServedFeeds(
            around.client, around.configuration.conventions, observe=self._observe, forget=self._dispatch.forget
        )
        around.health.ready["other kinds"] = self._served_feeds.check
        if self._elector is not None:
            around.health.ready["leadership"] = partial(_check_leadership, self._elector)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what was begun.

        Raises:
            ExceptionGroup: Of what ended the work, such as LeadershipLost; but not of that alone once `stop` was set.
        """
        asked = drained = False
        work = asyncio.create_task(self._work(), name="engine work")
        try:
            await first_of(work, stop)
            if not work.done():
                asked = True
                drained = await self._finish(work)
        finally:
            work.cancel()
            await asyncio.wait({work})
            if self._elector is not None:
                await self._elector.end(under_way=self._leads and not drained)
        if not work.cancelled():
            _judge(work, asked=asked)

    def record(self, event: EmitEvent) -> None:
        """Record an event about an object of ours; only while leading."""
        self._dispatch.record(event)

    async def _work(self) -> None:
        await installed(self._around.client, self._around.health)
        if self._elector is not None:
            await self._elector.look()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feeds.run(), name="feeds")
            group.create_task(self._served_feeds.run(), name="served feeds")
            group.create_task(self._cycle.run(), name="cycle")
            group.create_task(self._dispatch.run(), name="dispatch")
            group.create_task(self._conditions.run(), name="condition writer")
            await self._feeds.synced.wait()
            await self._served_feeds.synced.wait()
            self._cycle.synced()
            self.synced.set()
            log.info("synced")
            self._once_synced()
            if self._elector is not None:
                log.info("waiting_for_lease", identity=self._elector.identity)
                await self._elector.acquire()
                group.create_task(self._elector.hold(), name="lease")
                if not self._elector.alone:
                    lease_seconds = self._around.configuration.leader_election.lease_duration_seconds
                    await self._feeds.list_anew(patience_seconds=_PATIENCE_LEASES * lease_seconds)
            else:
                self._around.client.metrics.leader.set(1)  # whoever acts leads, by a lease or without
            self._lead(group)

    def _term(self) -> Term | None:
        return self._elector.term if self._elector else None

    def _lead(self, group: asyncio.TaskGroup) -> None:
        self._leads = True
        self._cycle.lead()
        keeper = ConditionKeeper(self.catalogue, self._conditions, overused=self._overused, clock=self._around.clock)
        group.create_task(
            keep_up(Part("conditions", keeper.run), health=self._around.health, metrics=self._around.metrics),
            name="conditions",
        )

    def _overused(self) -> dict[ObjectKey, str] | None:
        return overused(self._state) if self.deciding.is_set() else None

    def _decided(self, seconds: float) -> None:
        """Tell what has come of a turn; wake who waits for the engine to have looked, or for what has changed."""
        try:
            self._progress.turned(seconds)
        except Exception as error:  # noqa: BLE001 - a bulkhead: what is told of a turn is not what came of it
            note_failure("progress", error, self._around.metrics)
        if not self.deciding.is_set():
            self.deciding.set()
            log.info("deciding")
            self.catalogue.touch()
        elif self._is_news():
            self.catalogue.touch()

    def _is_news(self) -> bool:
        """Whether the last turn has changed what conditions are about."""
        before, self._overuses = self._overuses, self._state.overuses.version
        emptied = self.catalogue.specs.queue_is_leaving and self.catalogue.count_users()
        return emptied or before != self._overuses

    async def _finish(self, work: asyncio.Task[None]) -> bool:
        """Decide nothing more, and let writers end what was decided; return whether they have."""
        self._cycle.rest()
        if self._elector is not None:
            self._elector.leave()
        if not self._leads:
            return True
        log.info("draining")
        draining = asyncio.create_task(self._drain(), name="drain")
        await first_of(work, draining)
        if draining.done():
            return draining.result()
        draining.cancel()
        await asyncio.wait({draining})
        return False

    async def _drain(self) -> bool:
        drained = await self._dispatch.drain(within_seconds=_DRAIN_SECONDS)
        await self._conditions.flush(within_seconds=1.0)
        return drained

    def _observe(self, observation: AnyObservation) -> None:
        if isinstance(observation, PodSeen):
            self._times.seen(observation.pod)
        elif isinstance(observation, PodGone):
            self._times.gone(observation.namespace, observation.name)
        self._cycle.observe(observation)


def _check_leadership(elector: Election) -> Check:
    """Say who leads; whoever has led and must write nothing until it could renew the lease does not do its work."""
    return Check(ok=not elector.doubted, detail=elector.told)


def _judge(work: asyncio.Task[None], *, asked: bool) -> None:
    """Raise what ended the work, unless it was the loss of the lease after being asked to stop."""
    error = work.exception()
    if asked and error is not None and is_lost_lease(error):
        # Whoever leads now finishes what was begun; this process was to end anyway.
        log.warning("lease_lost_while_stopping", error=str(next(leaves(error))))
        return
    work.result()


def _elector(around: Surroundings) -> Election | None:
    election = around.configuration.leader_election
    if not election.enabled:
        return None
    if around.aside is not None:
        return elector_in(around.aside, around.client, around.configuration)
    lease, times = (election.lease_namespace, election.lease_name), times_of(around.configuration)
    return Elector(around.client, namespace=lease[0], name=lease[1], times=times, clock=around.ticks)
