"""The driver: feeds the engine what was seen, asks it when something may have changed, hands on what it decides.

    streams ── observe() ──▶ buffer ──▶ engine.observe ──▶ engine.decide(now) ──▶ carry out ── results ──▶ observe()

It sleeps only until something is observed or the engine's own wake-up time; it has no period of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, get_args

from tutti.controller.logs import tell_decisions
from tutti.controller.metrics import Metrics
from tutti.engine.decisions import AnyDecision
from tutti.engine.observations import AnyObservation, Synced

# Between two batches, and between two calls of the engine, the loop serves everything else: leases, streams, probes,
# and above all the binds that were decided last, so that the API server works while the engine does. At 15 to 50
# microseconds per observation, and less than a millisecond per single pod tried, both stay below twenty milliseconds.
_BATCH = 200
_TRIES = 32
_REST = 0.25
_LONGEST_REST_SECONDS = 0.05


class EngineLike(Protocol):
    """What the driver needs of the engine."""

    def observe(self, observation: AnyObservation) -> None:
        """Take in one observation."""

    def decide(self, now: float, *, most: int | None = None) -> list[AnyDecision]:
        """Return what is to be done, given everything observed and the time in Unix seconds.

        At most so many workloads are tried; `wakeup` then asks for the next call at once.
        """

    def wakeup(self) -> float | None:
        """Return the Unix time at which `decide` must be called again though nothing was observed, or None."""


class Journal(Protocol):
    """Where observations and decisions are recorded for replay."""

    def saw(self, observation: AnyObservation) -> None:
        """Record what the engine is about to be told."""

    def decided(self, at: float, decisions: list[AnyDecision], *, most: int | None = None) -> None:
        """Record when the engine was asked and what it answered."""


class Cycle:
    """Runs one engine. Everything happens in one loop, so nothing here is locked.

    Before `synced()` the engine is only fed; it is asked only while `lead()` was called and `rest()` was not.
    `decided` is called after each time, with the seconds that the engine took.
    """

    def __init__(
        self,
        engine: EngineLike,
        carry_out: Callable[[Sequence[AnyDecision]], None],
        *,
        metrics: Metrics,
        journal: Journal | None = None,
        decided: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._metrics = metrics
        # Looked up once: this runs for every change of every pod.
        self._count = {kind: metrics.observations.labels(kind.__name__).inc for kind in get_args(AnyObservation)}
        self._journal = journal
        self._decided = decided
        self._clock = clock
        self._buffer: list[AnyObservation] = []
        self._woken = asyncio.Event()
        self._announced = False
        self._synced = False
        self._now = 0.0
        self._leading = False
        self._resting = False

    def observe(self, observation: AnyObservation) -> None:
        """Have the engine told soon; may be called from any callback of the loop."""
        self._buffer.append(observation)
        self._woken.set()

    def synced(self) -> None:
        """Everything that exists has been observed: the engine may decide. Further calls change nothing."""
        if not self._announced:
            self._announced = True
            self.observe(Synced())

    def lead(self) -> None:
        """This process may act from now on."""
        self._leading = True
        self._woken.set()

    def rest(self) -> None:
        """Decide nothing more; what is observed is still taken in. There is no way back."""
        self._resting = True
        self._woken.set()

    @property
    def _may_decide(self) -> bool:
        return self._synced and self._leading and not self._resting

    async def run(self) -> None:
        """Drive the engine until cancelled; what the engine raises ends the run."""
        while True:
            await self._wait()
            began = self._clock()
            await self._feed()
            if self._may_decide:
                self._decide()
            # For a part of what the engine took the loop is left to what it decided: a bind needs several rounds of
            # the loop to be sent and answered. What is observed meanwhile is decided about together.
            rest = _REST * (self._clock() - began)
            await asyncio.sleep(min(max(0.0, rest), _LONGEST_REST_SECONDS))

    async def _wait(self) -> None:
        """Return once something was observed or the engine wants to be asked again."""
        if self._woken.is_set():
            return
        alarm = self._engine.wakeup() if self._may_decide else None
        if alarm is None:
            await self._woken.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, alarm - self._clock()), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _feed(self) -> None:
        """Tell the engine what was buffered when called; what arrives meanwhile waits for the next round."""
        self._woken.clear()
        observations, self._buffer = self._buffer, []
        for start in range(0, len(observations), _BATCH):
            if start:
                await asyncio.sleep(0)
            for observation in observations[start : start + _BATCH]:
                self._tell(observation)

    def _tell(self, observation: AnyObservation) -> None:
        if self._journal is not None:
            self._journal.saw(observation)
        self._count[type(observation)]()
        self._engine.observe(observation)
        self._synced = self._synced or isinstance(observation, Synced)

    def _decide(self) -> None:
        now = self._now = max(self._now, self._clock())  # a clock that is set back must not lengthen deadlines
        started = time.perf_counter()
        decisions = self._engine.decide(now, most=_TRIES)
        took = time.perf_counter() - started
        self._metrics.decide_seconds.observe(took)
        if self._journal is not None:
            self._journal.decided(now, decisions, most=_TRIES)
        for kind, times in Counter(map(type, decisions)).items():
            self._metrics.decisions.labels(kind.__name__).inc(times)
        tell_decisions(decisions)
        if decisions:
            self._carry_out(decisions)
        self._decided(took)
