"""What becomes of the process when a part of it fails: some parts are begun again, and of one it shares the fate.

When the leader's session ends, everything stops, and the process says why: what is embedded beside it would not notice
that it has died, and would keep answering webhooks for it. A lost lease ends it. An engine that fails does not, nor
does what the engine does not need in order to schedule: such a part is begun again after a growing backoff, and
everything else goes on meanwhile. The log, a metric and /readyz say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from tutti.controller.health import Check, Health
from tutti.controller.metrics import Metrics
from tutti.kube.fencing import LeadershipLost
from tutti.kube.retry import Backoff

log = structlog.get_logger(__name__)


class Supervisor:
    """Runs `work` once, as one task, and sets `stop` when that task ends, however it ends.

    `work` is handed nothing and is expected to return soon after `stop` is set by somebody else.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], *, stop: asyncio.Event, health: Health) -> None:
        self._work = work
        self._stop = stop
        self._health = health
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the work; a second call is a mistake."""
        if self._task is not None:
            raise RuntimeError("the engine was started twice")
        self._health.alive["engine"] = lambda: Check(ok=True)
        self._task = asyncio.create_task(self._watched(), name="engine")

    async def _watched(self) -> None:
        try:
            await self._work()
            if not self._stop.is_set():
                raise RuntimeError("the engine ended though nobody asked it to")  # noqa: TRY301 - the crash it reports
        except BaseException as error:
            reasons = list(dict.fromkeys(repr(leaf) for leaf in leaves(error)))
            self._health.died("engine", ", ".join(reasons))
            if is_lost_lease(error):
                log.warning("leadership_lost", why=str(next(leaves(error))))
            elif not isinstance(error, asyncio.CancelledError):
                log.critical("engine_crashed", errors=reasons)
            raise
        finally:
            self._stop.set()

    async def finished(self) -> None:
        """Wait until the work has ended; what it raised is not raised here but by `result()`."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def result(self) -> None:
        """Raise what the work raised, if it has ended with an error."""
        if self._task is not None and self._task.done():
            self._task.result()


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a task group, or several within one another, has bundled."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def is_lost_lease(error: BaseException) -> bool:
    """Whether an error says only that another leads now: that ends a process, and is no fault of it."""
    return all(isinstance(leaf, LeadershipLost) for leaf in leaves(error))


async def first_of(*either: asyncio.Event | asyncio.Task[Any]) -> None:
    """Return once any of the events is set, or any of the tasks has ended; those go on, and raise nothing here."""
    waiting = [asyncio.create_task(one.wait()) for one in either if isinstance(one, asyncio.Event)]
    tasks = [one for one in either if isinstance(one, asyncio.Task)]
    try:
        await asyncio.wait([*tasks, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


_FORGIVEN_SECONDS: Final = 300.0
"""Who has worked for so long begins again at once the next time."""


class _Ended(Exception):  # noqa: N818 - it says what the part has done
    """A part has ended though nobody asked it to."""


@dataclass(frozen=True, slots=True)
class Restartable:
    """One such part.

    Attributes:
        name: As the log, metrics and /readyz have it.
        work: Works until it is cancelled; begun anew each time.
        gates: Whether the process is not ready without it, because others ask it for something.
    """

    name: str
    work: Callable[[], Awaitable[None]]
    gates: bool = False


async def keep_up(
    part: Restartable,
    *,
    health: Health,
    metrics: Metrics,
    backoff: Backoff | None = None,
    ticks: Callable[[], float] = time.monotonic,
) -> None:
    """Have a part work until this is cancelled.

    Raises:
        LeadershipLost: That is nobody's fault and ends the process as ever.
    """
    backoff = backoff or Backoff(first=1.0, longest=60.0)
    metrics.part_failures.labels(part.name)  # told from the beginning on, as 0
    while True:
        began = ticks()
        health.ready[part.name] = lambda: Check(ok=True)
        try:
            await part.work()
            raise _Ended("it ended though nobody asked it to")  # noqa: TRY301 - told like everything else
        except Exception as error:
            lost = next((leaf for leaf in leaves(error) if isinstance(leaf, LeadershipLost)), None)
            if lost is not None:
                raise lost from error
            if ticks() - began >= _FORGIVEN_SECONDS:
                backoff.reset()
            await _wait(part, error, backoff.next(None), health=health, metrics=metrics)


def note_failure(part: str, error: Exception, metrics: Metrics) -> None:
    """Log and count that something has failed that is begun anew by itself, such as an answer to somebody."""
    metrics.part_failures.labels(part).inc()
    log.error("part_failed", part=part, error=str(error) or repr(error))
    log.debug("part_failed_at", part=part, exc_info=error)


async def _wait(part: Restartable, error: Exception, seconds: float, *, health: Health, metrics: Metrics) -> None:
    why = ", ".join(dict.fromkeys(str(leaf) or repr(leaf) for leaf in leaves(error)))
    metrics.part_failures.labels(part.name).inc()
    log.error("part_failed", part=part.name, error=why, again_in_seconds=round(seconds, 1))
    log.debug("part_failed_at", part=part.name, exc_info=error)
    again = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%H:%M:%SZ")
    check = Check(ok=not part.gates, detail=f"degraded, begun again at {again}: {why}")
    health.ready[part.name] = lambda: check
    await asyncio.sleep(seconds)


async def until_stopped(stop: asyncio.Event, *works: Awaitable[object]) -> None:
    """Have all of these work until `stop` is set, or one of them raises; return when all have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await first_of(stop, *tasks)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if isinstance(one, Exception):
            raise one
