"""A process of the operator: the real engine and the real shell, on a simulated wire and clock.

Everything from the informers to the writers is what `tutti run` runs; only kopf, which decides nothing, is left out.
After each decision the engine is held to its invariants.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import traceback
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tests.engine.invariants import Invariants
from tests.simulation.loop import OWNER, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.wire import Wire
from tutti.api.configuration import NetworkSettings, ThrottlesSettings, TuttiConfiguration, UsersSettings
from tutti.api.kinds.pod_group import OnMemberLoss
from tutti.api.shards import DEFAULT_SHARD
from tutti.controller.cycle import Journal
from tutti.controller.engine_run import OperatorContext
from tutti.controller.health import Health
from tutti.controller.leader_session import LeaderSession
from tutti.controller.metrics import Metrics
from tutti.controller.supervision import leaves
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision, Bind, Evict, NoteFault
from tutti.engine.records.observations import AnyObservation, BindAnswer, BindFinished, Interrupted, NodeGone
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.kube.fencing import LeadershipLost
from tutti.kube.metrics import WireMetrics

WINDOW = 20
CARD_TURNS = 3
"""So many pods of a gang may be waited for that go to the same node after the first, one by one."""
LOSS_WINDOW = 30
MOST_AT_ONCE = 200
"""How often an engine may ask to be asked again at once, with nothing observed in between: nothing else would ever run."""
QUIET_TURNS = 4
"""Of so many turns that decide nothing (two of three do not) one is looked at: what is wrong then stays wrong."""
LONGEST_BIND_SECONDS = 70.0
"""A request is waited for 30 s at most, on a wire that is broken or by a process that sleeps for 40 s."""
LONGEST_NAMED_SECONDS = 60.0
"""How long somebody who is gone may be named: a text stands for 10 s, and a process sleeps for 40 s."""
NAMED = re.compile(r"and (\w+/\S+) is before it")
LONGEST_PERMIT_SECONDS = 60.0
"""The permits of all gangs last 30 s; who sleeps over their end gives them back when it wakes."""
CONFIGURATION = TuttiConfiguration(
    permit_timeout_seconds=30,
    bind_window_seconds=WINDOW,
    victims_timeout_seconds=30,
    on_member_loss=OnMemberLoss(window_seconds=LOSS_WINDOW),
)


POLICIES = CONFIGURATION.model_copy(
    update={
        "throttles": ThrottlesSettings(name="kube-throttler"),
        "users": UsersSettings(by="Annotation"),
        "network": NetworkSettings(bandwidth=True),
    }
)
"""The same where throttles, users and the network count."""

Journals = Callable[[TuttiConfiguration], Journal]
"""Gives what a life of a process records what it sees and decides in."""


class CheckedEngine(Invariants, Engine):
    """An engine whose decisions are checked as they are taken; what is wrong is handed to `complain`.

    `lacks` says of a pod that is about to be bound, and of those that have nodes together with it, what its gang would
    lack of what its user has asked for. `was_whole` says of a gang that is found bound in part whether it has been whole
    before: what it has lost since, in an earlier life too, makes it no gang that is half started. With `may_fail` engines may
    raise: another one follows in the same process.
    """

    may_fail: ClassVar = False

    def __init__(
        self,
        configuration: TuttiConfiguration,
        *,
        complain: Callable[[str], None],
        local_queues: tuple[str, ...],
        lacks: Callable[[str, frozenset[str]], str],
        was_whole: Callable[[str], bool],
    ) -> None:
        super().__init__(configuration)
        self.engine = self
        self.now = 0.0
        self.decisions = 0
        self._complain = complain
        self._lacks = lacks
        self._was_whole = was_whole
        self._under_way: dict[str, str] = {}
        self._held: dict[tuple[WorkloadKey, float], float] = {}  # since when this process has seen each reservation
        self._unknown: dict[str, str] = {}
        self._lost: set[str] = set()
        self.strays: set[str] = set()  # sent to a node that was gone before the answer
        self._named_since: dict[tuple[WorkloadKey, str], float] = {}
        self._at_once = 0
        window = configuration.bind_window_seconds
        turns = CARD_TURNS * WINDOW if configuration.hami is not None else 0  # each begins the window anew
        longest = LONGEST_BIND_SECONDS
        self.begin_watching(window=window + turns, local_queues=local_queues, longest_bind=longest)

    def observe(self, observation: AnyObservation) -> None:
        self._at_once = 0
        if isinstance(observation, BindFinished):
            self._under_way.pop(observation.uid, None)
            if observation.outcome is BindAnswer.UNKNOWN and observation.uid not in self._lost:
                self._unknown[observation.uid] = observation.node
            self._lost.discard(observation.uid)
        elif isinstance(observation, NodeGone):
            # What was sent there is placed elsewhere, though a node of that name may come back before the answer.
            self._lost |= {uid for uid, node in self._under_way.items() if node == observation.name}
            self.strays |= self._lost
            self._unknown = {uid: node for uid, node in self._unknown.items() if node != observation.name}
        elif isinstance(observation, Interrupted):
            self.pass_over(observation.seconds)
            self._held = {one: since + observation.seconds for one, since in self._held.items()}
        super().observe(observation)

    def decide(
        self, now: float, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> list[AnyDecision]:
        self._at_once = self._at_once if now == self.now else 0
        self.now = now
        self.remember()
        heads = self._strict_heads()
        waiting = {key for key, one in self.state.workloads.items() if one.phase is Phase.WAITING}
        if not self.decisions:
            self.whole = {key for key in self.state.workloads if self._was_whole(key[2])}
        decisions = super().decide(now, most=most, enough=enough)
        self.decisions += 1
        try:
            if decisions or self.decisions % QUIET_TURNS == 0:
                self.check_state()
                self._check_held()
                self._check_named()
            self._check_heads(heads, waiting)
            for decision in decisions:
                self._check(decision)
            self.check_victims([one for one in decisions if isinstance(one, Evict)])
        except AssertionError as error:
            self._complain(_told(error))
        return decisions

    def wakeup(self) -> float | None:
        """Return what the engine says; one that goes round in a circle is not asked again, so that the run ends."""
        at = super().wakeup()
        if at is None or at > self.now:
            return at
        self._at_once += 1
        if self._at_once <= MOST_AT_ONCE:
            return at
        names = ", ".join("/".join(key) for key in self.state.dirty) or "somebody in line"
        self._complain(f"asked again {self._at_once} times at one moment, for the sake of {names}")
        return None

    def _strict_heads(self) -> dict[str, Workload]:
        """Who is first of those that stand in line at each strict queue that goes by priority and time alone."""
        heads: dict[str, Workload] = {}
        for standing in self._cycle.queue._entries.values():
            queue, workload = standing.queue, standing.workload
            if queue is not None and queue.strict and queue.order is None and workload.phase is Phase.WAITING:
                first = heads.setdefault(queue.name, workload)
                heads[queue.name] = min(first, workload, key=lambda one: one.order)
        return heads

    def _check_heads(self, before: Mapping[str, Workload], waiting: set[WorkloadKey]) -> None:
        """Nobody has overtaken the head of a strict queue, which still waits."""
        after = self._strict_heads()
        for name, head in before.items():
            if after.get(name) is not head:
                continue
            for member in self.newly_reserved():
                workload = self.state.workloads[self.state.pod_group_of[member.pod.key][0]]
                same = workload.cluster_queue == name and workload.key in waiting
                assert not same or workload.order < head.order, f"{workload.name} has overtaken {head.name}"

    def _check_named(self) -> None:
        """Nobody is told for long that somebody is before it who is not there any more (invariant 9)."""
        there = {one.name for one in self.state.workloads.values() if one.phase is Phase.WAITING}
        told = ((key, NAMED.search(one.reported[1])) for key, one in self.state.workloads.items())
        gone = [(key, found[1]) for key, found in told if found is not None and found[1] not in there]
        self._named_since = {one: self._named_since.get(one, self.now) for one in gone}
        for (key, name), since in self._named_since.items():
            assert self.now - since <= LONGEST_NAMED_SECONDS, f"{key} is told since {since} that {name} is before it"

    def _check_held(self) -> None:
        """Nobody holds for long what is no use to it yet."""
        before, self._held = self._held, {}
        for key, one in self.state.workloads.items():
            if one.phase is Phase.RESERVED and one.reserved_at is not None:
                # One that had to be made anew has a permit of its own; quota may have been held for checks before that.
                since = self._held[key, one.reserved_at] = before.get((key, one.reserved_at), self.now)
                assert self.now - since <= LONGEST_PERMIT_SECONDS, f"{key} holds a reservation since {since}"

    def _check(self, decision: AnyDecision) -> None:
        assert self.may_fail or not isinstance(decision, NoteFault), f"the engine raised: {decision}"
        pods = self.state.cluster.pods
        if isinstance(decision, Evict):
            known = pods[decision.namespace, decision.name]
            assert known.uid != decision.uid or not known.deleting, f"{decision.name} is asked to leave twice"
        if not isinstance(decision, Bind):
            return
        known = pods[decision.namespace, decision.name]
        assert known.uid == decision.uid, f"{decision.name} is bound by the uid of another"
        assert not known.node, f"{decision.name} is bound twice"
        assert not known.gated, f"{decision.name} is bound while gated"
        assert not known.deleting, f"{decision.name} is bound while being deleted"
        assert not known.terminated, f"{decision.name} is bound after its end"
        assert decision.uid not in self._under_way, f"{decision.name} is on its way already"
        before = self._unknown.pop(decision.uid, decision.node)
        assert before == decision.node or before not in self.state.cluster.nodes.rows, (
            f"{decision.name} may be on {before} already"
        )
        self._under_way[decision.uid] = decision.node
        workload = self.state.workloads[self.state.pod_group_of[known.key][0]]
        placed = frozenset(m.pod.name for m in workload.members() if m.pod.place or m.pod.phase == "Succeeded")
        lacking = self._lacks(decision.name, placed)
        assert not lacking, f"{decision.name} is bound, but {lacking}"


def _told(error: AssertionError) -> str:
    """Which check failed, and what it says."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.name}, line {frame.lineno}: {error}"


class Operator:
    """One replica: a process that is started, dies, sleeps, and is started again.

    Attributes:
        name: Who it is to the network; another for each life.
        engine: That of its present life, the last one where it has had several.
        lives: How often it was started.
    """

    def __init__(
        self,
        replica: str,
        network: Network,
        loop: VirtualLoop,
        *,
        complain: Callable[[str], None],
        local_queues: tuple[str, ...],
        draw: Callable[[], float],
        lacks: Callable[[str, frozenset[str]], str],
        was_whole: Callable[[str], bool],
        configuration: TuttiConfiguration = CONFIGURATION,
        journals: Journals | None = None,
        shard: str = DEFAULT_SHARD,
    ) -> None:
        self.replica = replica
        self.name = ""
        self.lives = 0
        self.engine: CheckedEngine | None = None
        self.room: LeaderSession | None = None
        self._network = network
        self._loop = loop
        self._complain = complain
        self._local_queues = local_queues
        self._configuration = configuration
        self._journals = journals
        self.shard = shard
        self._draw = draw
        self._lacks = lacks
        self._was_whole = was_whole
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._wanted = True
        self._behind = 0.0

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def leads(self) -> bool:
        """Whether it may act now."""
        return self.alive and self.room is not None and self.room._elector is not None and self.room._elector.leading

    def start(self) -> None:
        """Begin a life; a process that has ended by itself is started again after a while."""
        if self.alive or not self._wanted:
            return
        self.lives += 1
        self.name = f"{self.replica}.{self.lives}"
        context = contextvars.copy_context()
        context.run(OWNER.set, self.name)
        self._task = self._loop.create_task(self._live(), context=context)
        again = contextvars.Context()
        self._task.add_done_callback(self._ended, context=again)

    def crash(self) -> None:
        """Die at once: nothing more is sent."""
        if not self.alive:
            return
        self._network.dead.add(self.name)
        self._loop.resume(self.name)
        assert self._task is not None
        self._task.cancel()

    def pause(self, seconds: float) -> None:
        """Stand still, as a process that was suspended, and go on."""
        self._stand_still(seconds)

    def stop(self, seconds: float) -> None:
        """Stand still with the whole machine, as when a hypervisor stops it: its clock does not go on meanwhile."""
        self._behind += seconds
        self._stand_still(seconds)

    def _ticks(self) -> float:
        return self._loop.time() - self._behind

    def _stand_still(self, seconds: float) -> None:
        name = self.name
        self._loop.pause(name)
        self._loop.call_later(seconds, self._loop.resume, name, context=contextvars.Context())

    async def shut(self) -> None:
        """End in an orderly way."""
        self._wanted = False
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        self.engine = None
        metrics = Metrics()
        wire: Any = Wire(self._network, self.name, WireMetrics(metrics.registry))
        journal = self._journals(self._configuration) if self._journals is not None else None
        around = OperatorContext(
            wire,
            self._configuration,
            Health(),
            metrics,
            journal,
            clock=self._loop.wall,
            ticks=self._ticks,
            shard=self.shard,
        )
        self.room = LeaderSession(self._make_engine, around)
        self.identify(self.room)
        try:
            await self.room.run(self._stop)
        except Exception as error:
            lost = all(isinstance(leaf, LeadershipLost) for leaf in leaves(error))
            if not lost:
                raise

    def _make_engine(self) -> CheckedEngine:
        if self.engine is not None and not self.engine.may_fail:
            self._complain(f"the engine of {self.name} failed")
        self.engine = CheckedEngine(
            self._configuration,
            complain=self._complain,
            local_queues=self._local_queues,
            lacks=self._lacks,
            was_whole=self._was_whole,
        )
        return self.engine

    def identify(self, room: LeaderSession) -> None:
        """Give the process a name that is the same in every run of a seed."""
        if room._elector is not None:
            room._elector.identity = self.name

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            why = ", ".join(dict.fromkeys(repr(leaf) for leaf in leaves(task.exception())))
            self._complain(f"the process {self.name} crashed: {why}")
        self._loop.call_later(0.5 + 5 * self._draw(), self.start)
