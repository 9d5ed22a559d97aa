"""What a process does for its shard beside scheduling: it takes what has become the shard's, and gives up what has not.

    read who has what ─▶ engine ─▶ (something is to leave, or has come that an engine cannot be told of while it runs)
      ─▶ nothing more decided, all writes answered ─▶ given up, by annotation ─▶ read who has what ─▶ the next engine

Given up is by the lease of the shard that has it, after everything that its engine wrote was answered, or is too old to
land. Who takes it reads after that: the pods of a node, or everything. So no two shards use anything at one time. For a
shard whose lease nobody renews any more another one stands in: it takes that lease, gives to itself what is due
to it, and lets the lease go; whoever leads that shard next finds it so.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from tutti.api.core import Pod
from tutti.api.shards import DEFAULT_SHARD, lease_of
from tutti.controller.election import lease_times
from tutti.controller.engine_run import EngineRun, OperatorContext
from tutti.controller.references import KindKey
from tutti.controller.shard_records import hand_over, read_charges, read_node, read_ownership, read_pods
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import AnyObservation
from tutti.kube.client import Client
from tutti.kube.errors import WireError, retry_after
from tutti.kube.fencing import Fence, LeadershipLost
from tutti.kube.lease import Elector
from tutti.kube.retry import Backoff
from tutti.shards.ownership import CLUSTER_QUEUE, COHORT, KINDS, NAMESPACE, NODE, Holding, Ownership, may_leave
from tutti.shards.view import ShardView

log = structlog.get_logger(__name__)

GATHER_SECONDS: Final = 1.0
"""For how long changes are gathered: to give something up costs a whole engine, however much it is."""
AGAIN_SECONDS: Final = 5.0
"""After how long what has failed is tried again."""
MOST_LIVE: Final = 200
"""Nodes that an engine takes while it runs; where more come at once, reading everything anew is quicker."""
_AT_ONCE: Final = 8
_PATIENCE_LEASES: Final = 3
"""How many times as long as a lease lasts a new leader may fail to read what its shard has."""
_TREES: Final = (CLUSTER_QUEUE, COHORT)


class Sharding:
    """Has the engines of one shard know what is its own, one engine at a time.

    Attributes:
        shard: Its name.
        ownership: Who has what, as this process sees it.
        view: What the present engine is told; None before the first.
    """

    def __init__(
        self,
        context: OperatorContext,
        *,
        fence: Fence,
        charged: Callable[[EngineRun], Mapping[KindKey, str]],
        changed: Callable[[], None],
    ) -> None:
        """Do it for the shard of a process.

        Args:
            context: What the process gives.
            fence: That of the shard's lease.
            charged: Returns which ClusterQueue's quota each workload holds, by an engine.
            changed: Called when something may have been taken or given up.
        """
        self.shard = context.shard
        self.ownership = Ownership(context.configuration.shards)
        self.view: ShardView | None = None
        self._context = context
        self._client = context.client
        self._fence = fence
        self._charged = charged
        self._changed = changed
        self._woken = asyncio.Event()
        self._version = -1
        self._outdated = False  # whether the engine knows as this shard's what another one has
        self._blocked = False  # whether something is to leave that still is used
        self._told_several: set[str] = set()
        self._backoff = Backoff(first=AGAIN_SECONDS, longest=300.0)
        self._not_before = float("-inf")  # when giving up may cost an engine again, by the clock of the loop

    async def begin(self) -> None:
        """Find out who has what, before an engine is begun with it, however long the server is away."""
        self.ownership = await self._read(patience_seconds=math.inf)
        self._version = -1
        self._outdated = False
        self._woken.set()

    async def still_has(self) -> bool:
        """Return whether nothing was given up that an engine uses which is to lead now; else it must not.

        Watches tell of that in their own time, and while it stood by others could give up what it knows as its own.

        Raises:
            WireError: It could not be read for so long that another may lead.
        """
        assert self.view is not None
        patience = _PATIENCE_LEASES * self._context.configuration.leader_election.lease_duration_seconds
        now = await self._read(patience_seconds=patience)
        self._outdated = any(now.has(one) not in ("", self.shard) for one in self.view.held)
        self._woken.set()
        return not self._outdated

    async def _read(self, *, patience_seconds: float) -> Ownership:
        """Return who has what, as it is read now.

        Raises:
            WireError: It could not be read, for so many seconds.
        """
        backoff, clock = Backoff(), asyncio.get_running_loop().time
        until = clock() + patience_seconds
        while True:
            found = Ownership(self._context.configuration.shards)
            try:
                await read_ownership(self._client, found)
            except WireError as error:
                if clock() >= until:
                    raise
                say = log.debug if backoff.failures else log.warning
                say("ownership_not_read", shard=self.shard, error=str(error))
                await self._client.recovery.wait(backoff.next(), at_least=retry_after(error) or 0.0)
            else:
                return found

    def look(self, observe: Callable[[AnyObservation], None]) -> Callable[[AnyObservation], None]:
        """Return what an engine's informers are to call; what of it is this shard's goes to `observe`."""
        names = self._context.configuration.scheduler_names
        self.view = view = ShardView(self.shard, self.ownership, names, observe)
        log.info("shard_begins", shard=self.shard, **_counted(view.held))

        def seen(observation: AnyObservation) -> None:
            view.observe(observation)
            if self.ownership.version != self._version:
                self._woken.set()

        return seen

    def concerns(self, kind: str, namespace: str, name: str) -> bool:
        """Whether conditions and deletions of an object of ours are this shard's business."""
        if self.view is None:
            return False
        if namespace:
            return Holding(NAMESPACE, namespace) in self.view.held
        return Holding(kind, name) in self.view.held if kind in _TREES else self.shard == DEFAULT_SHARD

    def misled(self) -> Mapping[KindKey, str]:
        """Return the LocalQueues that lead out of the shard of their namespace, with what they are told."""
        return {
            ("LocalQueue", namespace, name): (
                f"ClusterQueue {queue} is of shard {there}, but namespace {namespace} is of shard {here}, where others "
                f"of it lead: one shard schedules a namespace; make this LocalQueue in another one"
            )
            for namespace, name, queue, here, there in self.ownership.misled()
        }

    def wake(self) -> None:
        """Look at what has come and is to leave: the engine knows all there is."""
        self._woken.set()

    def turned(self) -> None:
        """Look again at what is to leave: the engine has had a turn."""
        if self._blocked:
            self._woken.set()

    async def run_until_changed(self, run: EngineRun) -> None:
        """Take and give up what the engine that runs can; return once another one must be begun."""
        async with asyncio.TaskGroup() as group:
            standing_in = group.create_task(self._stand_in(run), name="stand in for shards")
            await self._follow(run)
            standing_in.cancel()

    async def _follow(self, run: EngineRun) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._woken.clear()
            self._version = self.ownership.version
            assert self.view is not None  # a run has begun
            if not run.listed:
                continue  # woken again then
            if self._outdated or self.view.lost():
                log.info("shard_begins_anew", shard=self.shard, why="another shard has what was its own")
                return
            self.view.restate()
            self._measure(self.view)
            self._tell_several(run)
            if not await self._take() or await self._give(run):
                return
            self._changed()

    def _measure(self, view: ShardView) -> None:
        metrics, tally = self._context.metrics, Counter(one.kind for one in view.held)
        for kind in KINDS:
            metrics.shard_holdings.labels(self.shard, kind).set(tally[kind])
        metrics.shard_leaving.labels(self.shard).set(len(self.ownership.leaving(self.shard)))

    async def _take(self) -> bool:
        """Use what has become this shard's; returns whether the engine that runs can be told of all of it."""
        view = self.view
        assert view is not None
        arrived = view.arrived()
        nodes = [one.name for one in arrived if one.kind == NODE]
        rest = [one for one in arrived if one.kind != NODE]
        if len(nodes) > MOST_LIVE or not all(one.kind == NAMESPACE and view.is_fresh(one.name) for one in rest):
            log.info("shard_begins_anew", shard=self.shard, why="it has more by now", **_counted(arrived))
            return False
        try:
            for one in rest:
                pods = await read_pods(self._client, namespace=one.name)
                if any(self._is_bound(pod) for pod in pods):
                    log.info("shard_begins_anew", shard=self.shard, why=f"pods of namespace {one.name} run")
                    return False
                view.take_namespace(one.name)
                log.info("taken", kind=one.kind, name=one.name, shard=self.shard)
            for name in nodes:
                await self._take_node(view, name)
        except WireError as error:
            log.warning("not_taken", shard=self.shard, error=str(error), again_in_seconds=AGAIN_SECONDS)
            self._wake_later()
        return True

    async def _take_node(self, view: ShardView, name: str) -> None:
        """Use a node: what runs there was all bound before it was given up, and so is read after that."""
        node = await read_node(self._client, name)
        pods = [] if node is None else await read_pods(self._client, node=name)
        if node is not None and self.ownership.belongs(Holding(NODE, name), self.shard):
            view.take_node(name, node, pods)
            log.info("taken", kind=NODE, name=name, shard=self.shard)

    def _is_bound(self, pod: Pod) -> bool:
        ours = pod.spec.scheduler_name in self._context.configuration.scheduler_names
        return ours and bool(pod.spec.node_name) and not pod.terminated

    async def _give(self, run: EngineRun) -> bool:
        """Give up what no engine uses; returns whether the one that runs must end for the rest of it."""
        view = self.view
        assert view is not None
        leaving = self.ownership.leaving(self.shard)
        self._blocked = False
        if not leaving or not run.leads:
            self._blocked = bool(leaving)
            return False
        for one in leaving:
            if one.kind == NAMESPACE and one in view.held and view.is_untouched(one.name):
                view.give_up(one)
        unused = {one: to for one, to in leaving.items() if one not in view.held}
        in_use = may_leave(leaving, self._charges(run), self.ownership, self.shard)
        if any(one in view.held for one in in_use):
            if asyncio.get_running_loop().time() >= self._not_before:
                return True
            asyncio.get_running_loop().call_at(self._not_before, self._woken.set)
        self._blocked = any(one in view.held for one in leaving)
        if not await self._hand_over({one: to for one, to in unused.items() if one in in_use}):
            self._wake_later()
        return False

    async def give_up(self, run: EngineRun) -> None:
        """Give up what is to leave, of an engine that decides nothing more and whose writes are answered.

        Raises:
            LeadershipLost: Whoever leads now does it.
        """
        leaving = may_leave(self.ownership.leaving(self.shard), self._charges(run), self.ownership, self.shard)
        log.info("shard_gives_up", shard=self.shard, **_counted(leaving))
        if await self._hand_over(leaving):
            self._backoff.reset()
        else:  # what is refused, for want of a right for example, must not cost one engine after the other
            self._not_before = asyncio.get_running_loop().time() + self._backoff.next()

    async def _hand_over(self, going: Mapping[Holding, str]) -> bool:
        return await handed_over(self._client, going, self.shard, fence=self._fence)

    def _charges(self, run: EngineRun) -> Mapping[tuple[str, str], int]:
        return Counter((key[1], queue) for key, queue in self._charged(run).items())

    def _wake_later(self) -> None:
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._woken.set)

    # For shards that nobody leads.

    async def _stand_in(self, run: EngineRun) -> None:
        """Have what is due to this shard given up by the shards that have it, where nobody leads these."""
        electors: dict[str, Elector] = {}
        election = self._context.configuration.leader_election
        while True:
            awaited = self.ownership.awaited(self.shard) if run.leads else {}
            for shard in awaited:
                elector = electors.get(shard)
                if elector is None:
                    elector = electors[shard] = self._elector(shard)
                if await elector.try_acquire():
                    await self._give_for(shard, elector)
            for shard in electors.keys() - awaited.keys():
                del electors[shard]
            await asyncio.sleep(election.retry_period_seconds)

    def _elector(self, shard: str) -> Elector:
        election = self._context.configuration.leader_election
        return Elector(
            self._client,
            namespace=election.lease_namespace,
            name=lease_of(election.lease_name, shard),
            times=lease_times(self._context.configuration),
            clock=self._context.ticks,
            shown=lambda _: None,
        )

    async def _give_for(self, shard: str, elector: Elector) -> None:
        """Give to this shard what another has that nobody leads; by the lease of that one, which is held meanwhile."""
        log.warning("stands_in", shard=self.shard, absent=shard)
        holding = asyncio.create_task(elector.hold(), name=f"lease of shard {shard}")
        done = False
        try:
            leaving = self.ownership.leaving(shard)
            used = any(one.kind != NODE for one in leaving)
            charges = await read_charges(self._client) if used else {}
            going = may_leave(leaving, charges, self.ownership, shard)
            ours = {one: to for one, to in going.items() if to == self.shard}
            await handed_over(self._client, ours, shard, fence=elector.check)
            done = True
        except (WireError, LeadershipLost) as error:
            log.warning("not_stood_in", shard=self.shard, absent=shard, error=str(error))
        finally:
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)  # that it is lost the fence has said
            await elector.end(under_way=not done)

    def _tell_several(self, run: EngineRun) -> None:
        """Tell nodes that several shards select which of them they are due to, once."""
        for name, selecting in self.ownership.selected_by_several().items():
            if run.leads and name not in self._told_several and selecting[0] == self.shard:
                self._told_several.add(name)
                note = f"the shards {', '.join(selecting)} select this node; it is due to {selecting[0]}, the first"
                run.record(EmitEvent("v1", NODE, "", name, "", "Warning", "SeveralShards", "Scheduling", note))


async def handed_over(client: Client, going: Mapping[Holding, str], giver: str, *, fence: Fence) -> bool:
    """Give things up, kind after kind: who uses quota before the quota; returns whether all have gone.

    Raises:
        LeadershipLost: The giver may write nothing any more.
    """
    turn, whole = asyncio.Semaphore(_AT_ONCE), True

    async def give(one: Holding, to: str) -> bool:
        """Give up one of them, when it is its turn."""
        async with turn:
            return await hand_over(client, one, giver, to, fence=fence)

    for kind in (NAMESPACE, CLUSTER_QUEUE, COHORT, NODE):
        some = [(one, to) for one, to in going.items() if one.kind == kind]
        results = await asyncio.gather(*(give(*pair) for pair in some))
        whole = whole and all(results)
        if not whole:
            break  # what comes after it is used by what is still here
    return whole


def _counted(holdings: Collection[Holding]) -> dict[str, int]:
    tally = Counter(one.kind for one in holdings)
    return {
        "nodes": tally[NODE],
        "namespaces": tally[NAMESPACE],
        "queues": tally[CLUSTER_QUEUE],
        "cohorts": tally[COHORT],
    }
