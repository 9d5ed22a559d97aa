"""The leader's session, which lasts as long as the process: the lease, and the engines that it covers, one at a time.

    CRDs served ─▶ all listed ─▶ lease acquired ─▶ nodes and pods listed anew ─▶ deciding
      ─▶ (asked to stop) ─▶ writers drained ─▶ lease released

A standby goes as far as the second step and waits there with everything known, so that little is left to take over:
what the former leader has bound, of which a watch tells in its own time. Who had the lease at the first try may have to
list that anew as well, for it may have been given up while the first list was under way. Only where nobody held the
lease before that list, and nobody has written it since, did that list begin after the last bind of anybody.

An engine that fails is followed by another one, fed from the beginning, and the lease is kept meanwhile
(`engine_run.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import structlog

from tutti.controller.conditions import ConditionKeeper
from tutti.controller.definitions import Definitions
from tutti.controller.election import election_of
from tutti.controller.engine_run import EngineRun, Leadership, Observe, OperatorContext
from tutti.controller.gauges.collector import StateGauges
from tutti.controller.health import Check
from tutti.controller.object_cache import ObjectCache
from tutti.controller.pod_defaults import OwnerArrivals
from tutti.controller.references import KindKey
from tutti.controller.sharding import Sharding
from tutti.controller.supervision import Restartable, first_of, is_lost_lease, keep_up, leaves, note_failure
from tutti.engine.cycle.engine import Engine
from tutti.engine.ingest import IngestState
from tutti.engine.reading.catalog import Catalog
from tutti.engine.reading.quota_windows import WindowNote
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState
from tutti.kube.fencing import Fence, LeaseTerm, unconfirmed, unfenced
from tutti.kube.lease import Elector, default_identity
from tutti.kube.statuses import StatusWriter

_READY_CONNECTIONS: Final = 8
"""That a small gang which comes after a quiet time is bound at once, for next to nothing: each is opened anew once a
minute while nothing is sent."""


def charged_queues(state: StatusState) -> dict[KindKey, str]:
    """Return the ClusterQueue whose quota each workload holds, for those that hold any: reserved, bound or leaving."""
    return {workload.key: queue for workload in state.workloads.values() for queue in _charges(workload)}


def overused_objects(state: StatusState) -> dict[KindKey, str]:
    """Return the ClusterQueues and Cohorts that use more quota than there is, with what they are told of it."""
    return {key: told.message for key, told in state.overuses.reported.items()}


def _charges(workload: Workload) -> Iterator[str]:
    for group in workload.groups.values():
        for member in group.members.values():
            if member.charge is not None:
                yield member.charge.queue
        for hold in group.holds:
            if hold.charge is not None:
                yield hold.charge.queue


log = structlog.get_logger(__name__)


class LeaderSession:
    """Runs engines against one cluster, one at a time.

    Attributes:
        catalogue: What is known of our kinds; kopf's handlers read it.
        arrivals: Told of each owner that is seen.
        definitions: Which of our kinds the server serves.
        synced: Set once everything was listed for the first time.
        deciding: Set while this process leads and the engine has settled what it found.

    Args:
        engines: Makes an engine that has been told nothing yet; called again when one has failed.
        context: What the process gives.
        once_synced: Called whenever everything was listed, once for each engine.
    """

    def __init__(
        self, engines: Callable[[], Engine], context: OperatorContext, *, once_synced: Callable[[], None] = lambda: None
    ) -> None:
        self._engines = engines
        self._once_synced = once_synced
        self._run: EngineRun | None = None
        self._catalog: Catalog | None = None
        self.arrivals = OwnerArrivals()
        self.definitions = Definitions(context.client)
        self._told = 0, 0, False  # versions of what was told of overuse and windows; whether requests are seen
        self.catalogue = ObjectCache(self._charged)
        self.synced = asyncio.Event()
        self.deciding = asyncio.Event()
        self._context = context
        self._may_act = asyncio.Event()  # set once this process has the lease, or needs none
        self._has_led = False
        self._resting = False
        self._election = election_of(
            context.configuration, context.client, context.aside, clock=context.ticks, shard=context.shard
        )
        self._elector = self._election.elector if self._election else None
        self._leadership = Leadership(
            self._election.check if self._election else unfenced,
            self._term,
            self._elector.identity if self._elector else default_identity(),
            self._election.confirm if self._election else unconfirmed,
            self._lost,
        )
        self._sharding: Sharding | None = None
        if context.configuration.shards:
            self._sharding = Sharding(
                context,
                fence=self._leadership.fence,
                charged=lambda run: charged_queues(run.engine.state),
                changed=self.catalogue.touch,
            )
        StateGauges(
            self,
            self.catalogue,
            context.metrics.registry,
            leads=self._is_leading,
            failed=lambda error: note_failure("metrics", error, context.metrics),
            local_queues=context.configuration.metrics.local_queues,
        )
        self._conditions = StatusWriter(context.client, fence=self._leadership.fence, term=self._term, concurrency=2)
        context.health.waiting("crds", "not looked for yet")
        context.health.ready["synced"] = self._check_listed
        if self._elector is not None:
            context.health.ready["leadership"] = partial(_check_leadership, self._elector)

    @property
    def state(self) -> StatusState:
        """What the engine knows; there is one to be asked while this process leads."""
        assert self._run is not None
        return self._run.engine.state

    @property
    def fence(self) -> Fence:
        """What is asked before each write of this process."""
        return self._leadership.fence

    def known(self) -> IngestState | None:
        """Return what the engine knows that was told of all; None while one lists."""
        return self._run.engine.state if self._run is not None and self._run.listed else None

    def catalog(self) -> Catalog:
        """Return classes, queues and namespaces: of the last engine that was told of all; once `synced` is set."""
        assert self._catalog is not None
        return self._catalog

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
            if self._election is not None:
                await self._election.end(under_way=self._has_led and not drained)
        if not work.cancelled():
            _raise_unless_stopped(work, asked=asked)

    def record(self, event: EmitEvent) -> None:
        """Record an event about an object of ours; only while an engine leads."""
        if self._run is not None:
            self._run.record(event)

    async def _work(self) -> None:
        context = self._context
        engine = Restartable("engine", self._run_engine, gates=True)
        keeper = ConditionKeeper(
            self.catalogue,
            self._conditions,
            overused=self._overused,
            windows=self._windows,
            followed=self._followed,
            concerns=self.concerns,
            misled=self._misled,
            clock=context.clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self.definitions.run(), name="watch CRDs")
            await self.definitions.installed(context.health)
            if self._election is not None:
                await self._election.look()
            group.create_task(self._conditions.run(), name="condition writer")
            group.create_task(
                keep_up(engine, health=context.health, metrics=context.metrics, ticks=context.ticks), name="engine"
            )
            await self.synced.wait()
            if self._election is not None:
                log.info("waiting_for_lease", identity=self._election.elector.identity)
                await self._election.acquire()
                group.create_task(self._election.hold(), name="lease")
            else:
                context.client.metrics.leader.set(1)  # whoever acts leads, by a lease or without
            self._may_act.set()
            group.create_task(
                keep_up(Restartable("conditions", keeper.run), health=context.health, metrics=context.metrics),
                name="conditions",
            )

    async def _run_engine(self) -> None:
        """Have an engine work, one that has been told nothing yet, until it fails; one after the other for a shard."""
        if self._sharding is None:
            await self._work_with(self._new_run())
            return
        while True:
            await self._sharding.begin()
            await self._work_until_changed(self._new_run(self._sharding.look), self._sharding)

    def _new_run(self, look: Callable[[Observe], Observe] = lambda observe: observe) -> EngineRun:
        run = self._run = EngineRun(
            self._engines(),
            self._context,
            self._leadership,
            catalogue=self.catalogue,
            turned=self._turned,
            failed=self.deciding.clear,
            arrivals=self.arrivals,
            look=look,
        )
        return run

    async def _work_with(self, run: EngineRun) -> None:
        try:
            await run.run(partial(self._lead, run, within_term=self._may_act.is_set()))
        finally:
            self._run = None

    async def _work_until_changed(self, run: EngineRun, sharding: Sharding) -> None:
        """Have an engine work until it fails, or its shard has what it cannot be told of while it works, or gives up.

        Then it decides nothing more, and what it has decided is written before anybody else may have anything of it.
        """
        work = asyncio.create_task(self._work_with(run), name="engine run")
        changing = asyncio.create_task(sharding.run_until_changed(run), name="shard")
        try:
            await first_of(work, changing)
            if work.done():
                work.result()
            changing.result()
            self.deciding.clear()
            if run.leads:
                if not await run.finish():
                    await asyncio.sleep(self._context.configuration.leader_election.lease_duration_seconds)
                await sharding.give_up(run)
            if self._context.journal is not None:
                self._context.journal.begin_anew()
        finally:
            for task in (work, changing):
                task.cancel()
            await asyncio.gather(work, changing, return_exceptions=True)  # what ended it is raised above

    async def _lead(self, run: EngineRun, *, within_term: bool) -> None:
        """Have a run that has listed everything decide as soon as it may.

        Args:
            run: That one.
            within_term: Whether its lists began when this process could already act.
        """
        self._catalog = run.engine.state.catalog
        if self._sharding is not None:
            self._sharding.wake()
        self.synced.set()
        log.info("synced")
        self._once_synced()
        await self._may_act.wait()
        if self._elector is not None and not (within_term or self._elector.alone):
            await run.list_anew()
            if self._sharding is not None and not await self._sharding.still_has():
                return  # another is begun
        if not self._resting:
            self._has_led = True
            self._context.client.keep_ready(min(_READY_CONNECTIONS, self._context.client.concurrency))
            run.lead()

    def concerns(self, kind: str, namespace: str, name: str) -> bool:
        """Whether conditions and deletions of an object of ours are the business of this process, where it leads."""
        return self._sharding is None or self._sharding.concerns(kind, namespace, name)

    def _misled(self) -> Mapping[KindKey, str]:
        return {} if self._sharding is None else self._sharding.misled()

    def _term(self) -> LeaseTerm | None:
        return self._elector.term if self._elector else None

    def _lost(self) -> float:
        return self._elector.lost_seconds if self._elector else 0.0

    def _is_leading(self) -> bool:
        """Whether an engine decides for this process, which may act."""
        led = self._run is not None and self._run.leads
        return led and (self._elector is None or self._elector.leading)

    def _check_listed(self) -> Check:
        listed = self._run is not None and self._run.listed
        return Check(listed, "ok" if listed else "listing")

    def _charged(self) -> Mapping[KindKey, str]:
        """Return who holds quota; while no engine has looked, what was last said of it."""
        return charged_queues(self.state) if self.deciding.is_set() else self.catalogue.specs.admitted

    def _overused(self) -> dict[KindKey, str] | None:
        return overused_objects(self.state) if self.deciding.is_set() else None

    def _windows(self) -> Mapping[str, WindowNote] | None:
        return self.state.catalog.windows.notes if self.deciding.is_set() else None

    def _followed(self) -> bool | None:
        return self.state.requests.followed if self.deciding.is_set() else None

    def _turned(self) -> None:
        """Wake who waits for the engine to have looked, or for what has changed."""
        if self._sharding is not None:
            self._sharding.turned()
        if not self.deciding.is_set():
            self.deciding.set()
            log.info("deciding")
            self.catalogue.touch()
        elif self._is_news():
            self.catalogue.touch()

    def _is_news(self) -> bool:
        """Whether the last turn has changed what conditions are about."""
        told = self.state.overuses.version, self.state.catalog.windows.version, self.state.requests.followed
        before, self._told = self._told, told
        emptied = self.catalogue.specs.queue_is_leaving and self.catalogue.count_users()
        return emptied or before != told

    async def _finish(self, work: asyncio.Task[None]) -> bool:
        """Decide nothing more, and let writers end what was decided; return whether they have."""
        self._resting = True
        if self._elector is not None:
            self._elector.leave()
        if not self._has_led:
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
        drained = self._run is None or await self._run.finish()
        await self._conditions.flush(within_seconds=1.0)
        return drained


def _check_leadership(elector: Elector) -> Check:
    """Say who leads; whoever has led and must write nothing until it could renew the lease does not do its work."""
    return Check(ok=not elector.doubted, detail=elector.told)


def _raise_unless_stopped(work: asyncio.Task[None], *, asked: bool) -> None:
    """Raise what ended the work, unless it was the loss of the lease after being asked to stop."""
    error = work.exception()
    if asked and error is not None and is_lost_lease(error):
        # Whoever leads now finishes what was begun; this process was to end anyway.
        log.warning("lease_lost_while_stopping", error=str(next(leaves(error))))
        return
    work.result()
