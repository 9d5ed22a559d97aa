"""The driver: feeds the engine what was seen, asks it when something may have changed, hands on what it decides.

    informers ── observe() ──▶ buffer ──▶ engine.observe ──▶ engine.decide(now) ──▶ carry out ── results ──▶ observe()

It sleeps only until something is observed or the engine's own wake-up time; it has no period of its own, only a least
distance between two turns.

The engine is told the time of day, but going on as evenly as a clock that nobody sets. The time of day can be set: by
hours when a machine learns it after its start, or wrongly for a moment. All limits, backoffs and deadlines of what runs
would be over at once, or would wait until the former time has come again. So time goes on with a clock that counts
seconds, and is brought to the time of day bit by bit.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol, get_args

import structlog

from tutti.controller.logs import tell_decisions
from tutti.controller.metrics import Metrics
from tutti.engine.journal import Share
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.observations import (
    AnyObservation,
    BindAnswer,
    BindFinished,
    Interrupted,
    NodeGone,
    PodSeen,
    Synced,
)
from tutti.kube.fencing import Fence, LeadershipDoubted, unfenced
from tutti.kube.lease import boot_clock

FOLLOWED_SECONDS = 1.0
"""A time of day that is ahead by no more than this is followed at once."""

SLEW = 0.1
"""Where it is ahead by more, or behind, so much more or less time passes in a second until both are one again."""

TOLD_SECONDS = 60.0
"""From which difference on a line is logged."""

_NOISE_SECONDS = 0.001

log = structlog.get_logger(__name__)


class SteadyTime:
    """Unix seconds that never go back, stand still or leap.

    Args:
        clock: The time of day, in Unix seconds.
        ticks: Seconds that go on while the machine sleeps, from any beginning, and that nobody sets.
    """

    def __init__(self, clock: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._clock = clock
        self._ticks = ticks
        self._last: tuple[float, float] | None = None
        self._told = False

    def __call__(self) -> float:
        """Return the time now; at the first call it is the time of day."""
        wall, tick = self._clock(), self._ticks()
        if self._last is None:
            self._last = wall, tick
            return wall
        before, last = self._last
        passed = max(0.0, tick - last)
        ahead = wall - (before + passed)
        if -_NOISE_SECONDS <= ahead <= FOLLOWED_SECONDS:
            now = max(before, wall)
        else:
            now = before + passed + max(-SLEW * passed, min(SLEW * passed, ahead))
        self._last = now, tick
        self._tell(wall - now)
        return now

    def _tell(self, ahead: float) -> None:
        """Log a line when the time of day has been set, and when that has been caught up with."""
        if not self._told and abs(ahead) > TOLD_SECONDS:
            self._told = True
            log.warning("clock_was_set", ahead_seconds=round(ahead), caught_up_in_seconds=round(abs(ahead) / SLEW))
        elif self._told and abs(ahead) <= FOLLOWED_SECONDS:
            self._told = False
            log.info("clock_caught_up")


# After each slice of work the loop serves everything else: leases, streams, probes, and above all the binds that were
# decided last, so that the API server works while the engine does. So the engine is asked although more has been
# observed than it was told: the first of a thousand gangs need not wait until the last one has been read. At 15 to 50
# microseconds per observation, twice that to settle what it is about, and 0.3 milliseconds per single pod tried by
# itself, a slice stays below twenty milliseconds.
_BATCH = 128
_TRIES = 32
# Where what was written costs more than that, a turn ends all the same: after the observation, or the try, with which
# its share of time is over.
_FEED_SECONDS = 0.05
_TURN_SECONDS = 0.1
_REST = 0.25
_LONGEST_REST_SECONDS = 0.05
_ECHOES_APART_SECONDS = 0.05
_APART_SECONDS = 0.01
_ARRIVALS_APART_SECONDS = 0.002

_BOUND = BindAnswer.BOUND


class EngineLike(Protocol):
    """What the driver needs of the engine."""

    def observe(self, observation: AnyObservation) -> None:
        """Take in one observation."""

    def decide(
        self, now: float, *, most: int | None = None, enough: Callable[[], bool] | None = None
    ) -> list[AnyDecision]:
        """Return what is to be done, given everything observed and the time in Unix seconds.

        At most so many workloads are tried, and no more once it is enough; `wakeup` then asks for the next call at
        once.
        """

    def wakeup(self) -> float | None:
        """Return the Unix time at which `decide` must be called again though nothing was observed, or None."""


class Journal(Protocol):
    """Where observations and decisions are recorded for replay."""

    def saw(self, observation: AnyObservation) -> None:
        """Record what the engine is about to be told."""

    def decided(
        self, at: float, decisions: list[AnyDecision], *, most: int | None = None, ended: int | None = None
    ) -> None:
        """Record when the engine was asked and what it answered, and when it was told that it is enough."""

    def begin_anew(self) -> None:
        """The engine that this was about has failed: what is recorded from now on is about another one."""


class Cycle:
    """Runs one engine. Everything happens in one loop, so nothing here is locked.

    Before `synced()` the engine is only fed; it is asked only while `lead()` was called and `rest()` was not, and not
    while the `fence` doubts that this process leads: what cannot be done is not decided, nor told as if it were done.
    `decided` is called after each time, with the seconds that the engine took, and `node_gone` once the engine knows
    that a node is gone: no earlier, for it may decide on that node until then. Before the engine is asked, it is told
    of time in which nothing could be written: of how much there has been in all says `lost`. What it is told as the
    time is the `clock`, steadied by `ticks` (`SteadyTime`).
    """

    def __init__(
        self,
        engine: EngineLike,
        carry_out: Callable[[Sequence[AnyDecision]], None],
        *,
        metrics: Metrics,
        node_gone: Callable[[str], None] = lambda _: None,
        journal: Journal | None = None,
        decided: Callable[[float], None] = lambda _: None,
        fence: Fence = unfenced,
        lost: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = boot_clock,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._node_gone = node_gone
        self._metrics = metrics
        # Looked up once: this runs for every change of every pod.
        self._count = {kind: metrics.observations.labels(kind.__name__).inc for kind in get_args(AnyObservation)}
        self._journal = journal
        self._decided = decided
        self._fence = fence
        self._lost = lost
        self._told_lost = lost()
        self._settling: asyncio.Task[object] | None = None  # while the fence is in doubt
        self._clock = clock
        self._ticks = ticks
        self._time = SteadyTime(clock, ticks)
        self._buffer: deque[AnyObservation] = deque()
        self._woken = asyncio.Event()
        # What has come since the engine was told last: a pod that waits for a node, and anything but an echo.
        self._arrived = asyncio.Event()
        self._news = asyncio.Event()
        self._announced = False
        self._synced = False
        self._alarm: float | None = None  # as the engine said after it was asked last
        self._leading = False
        self._untold = 0  # of what was observed before this process could lead
        self._resting = False

    def observe(self, observation: AnyObservation) -> None:
        """Have the engine told soon; may be called from any callback of the loop."""
        self._buffer.append(observation)
        self._woken.set()
        if _is_echo(observation) and len(self._buffer) < _BATCH:
            return
        self._news.set()
        if isinstance(observation, PodSeen) and not observation.pod.spec.node_name:
            self._arrived.set()

    def synced(self) -> None:
        """Everything that exists has been observed: the engine may decide. Further calls change nothing."""
        if not self._announced:
            self._announced = True
            self.observe(Synced())

    def lead(self) -> None:
        """This process may act, once the engine has been told of everything that was observed until now."""
        self._leading = True
        self._untold = len(self._buffer)
        self._woken.set()
        self._news.set()

    def rest(self) -> None:
        """Decide nothing more; what is observed is still taken in. There is no way back."""
        self._resting = True
        self._woken.set()
        self._news.set()

    @property
    def _may_decide(self) -> bool:
        return self._synced and self._leading and not self._untold and not self._resting

    async def run(self) -> None:
        """Drive the engine until cancelled; what the engine raises ends the run, and so does a lost lease."""
        try:
            await self._run()
        finally:
            if self._settling is not None:
                self._settling.cancel()

    async def _run(self) -> None:
        while True:
            await self._wait()
            began = self._clock()
            ends = self._ticks() + _TURN_SECONDS
            self._feed()
            if not self._may_decide or self._is_in_doubt():
                await asyncio.sleep(0)
                continue
            self._tell_lost()
            self._decide(ends)
            self._alarm = self._engine.wakeup()
            await self._pause(began)

    async def _pause(self, began: float) -> None:
        """Leave the loop to everything else after a turn that began then, in Unix seconds.

        For a part of what the engine took the loop is left to what it decided: a bind needs several rounds of the loop
        to be sent and answered. And where the engine has taken in and tried all there was, it is not asked for each
        answer and each event that comes in meanwhile: what it settles, a gang for example, costs as much for one of
        them as for many. That binds take effect as they were decided helps nobody who waits, so that may take longest.
        A pod that comes then is not kept waiting for any of it: nobody has decided about it yet.
        """
        took = max(0.0, self._clock() - began)
        rest = min(_REST * took, _LONGEST_REST_SECONDS)
        due = float("inf") if self._alarm is None else self._alarm - self._time()
        if self._buffer or due <= 0:
            await asyncio.sleep(rest)
            return
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(rest, _ARRIVALS_APART_SECONDS - took))
        await _first_of(self._arrived, now + min(due, _APART_SECONDS - took))
        await _first_of(self._news, now + min(due, _ECHOES_APART_SECONDS - took))

    def _is_in_doubt(self) -> bool:
        """Whether nothing may be written now; then the engine is asked again as soon as that is settled."""
        try:
            self._fence()
        except LeadershipDoubted as doubt:
            self._alarm = None
            if self._settling is None or self._settling.done():
                self._settling = asyncio.ensure_future(doubt.settled())
                self._settling.add_done_callback(lambda _: self._woken.set())
            return True
        return False

    async def _wait(self) -> None:
        """Return once something was observed or the engine wants to be asked again."""
        if self._woken.is_set():
            return
        if self._alarm is None or not self._may_decide:
            await self._woken.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, self._alarm - self._time()), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    def _feed(self) -> None:
        """Tell the engine what was observed first; the rest waits for the next round."""
        self._arrived.clear()
        self._news.clear()
        buffer, told = self._buffer, 0
        ends, batch = self._ticks() + _FEED_SECONDS, min(_BATCH, len(buffer))
        kinds: Counter[type[AnyObservation]] = Counter()
        while told < batch and (told == 0 or self._ticks() < ends):
            observation = buffer.popleft()
            told += 1
            kinds[type(observation)] += 1
            self._tell(observation)
        self._untold = max(0, self._untold - told)
        for kind, times in kinds.items():
            self._count[kind](times)
        if not buffer:
            self._woken.clear()

    def _tell(self, observation: AnyObservation) -> None:
        if self._journal is not None:
            self._journal.saw(observation)
        self._engine.observe(observation)
        if isinstance(observation, NodeGone):  # whatever was decided of it until now was decided without knowing that
            self._node_gone(observation.name)
        self._synced = self._synced or isinstance(observation, Synced)

    def _tell_lost(self) -> None:
        """Tell the engine of time in which nothing could be written, if there was any since it was told last."""
        lost, before = self._lost(), self._told_lost
        if lost > before:
            self._told_lost = lost
            self._count[Interrupted](1)
            self._tell(Interrupted(lost - before, self._time()))

    def _decide(self, ends: float) -> None:
        now = self._time()
        share = Share(lambda _: self._ticks() >= ends)
        started = time.perf_counter()
        decisions = self._engine.decide(now, most=_TRIES, enough=share)
        took = time.perf_counter() - started
        self._metrics.decide_seconds.observe(took)
        if self._journal is not None:
            self._journal.decided(now, decisions, most=_TRIES, ended=share.ended)
        for kind, times in Counter(map(type, decisions)).items():
            self._metrics.decisions.labels(kind.__name__).inc(times)
        tell_decisions(decisions)
        if decisions:
            self._carry_out(decisions)
        self._decided(took)


def _is_echo(observation: AnyObservation) -> bool:
    """Whether it says no more than that a bind took effect: that the pod is on its node, and has not begun to run."""
    if isinstance(observation, BindFinished):
        return observation.outcome is _BOUND
    if not isinstance(observation, PodSeen):
        return False
    pod = observation.pod
    return bool(pod.spec.node_name) and pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None


async def _first_of(event: asyncio.Event, until: float) -> None:
    """Return when something has happened, at the latest at that time of the loop."""
    loop = asyncio.get_running_loop()
    if event.is_set() or until <= loop.time():
        return
    timer = loop.call_at(until, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
