"""Parts of the process that may fail by themselves: the engine, and what it does not need in order to schedule.

Such a part that fails, or that ends by itself, is begun again after a growing backoff, and everything else goes on
meanwhile. The log, a metric and /readyz say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from tutti.controller.health import Check, Health
from tutti.controller.metrics import Metrics
from tutti.controller.supervisor import first_of, leaves
from tutti.kube.backoff import Backoff
from tutti.kube.fencing import LeadershipLost

log = structlog.get_logger(__name__)

_FORGIVEN_SECONDS: Final = 300.0
"""Who has worked for so long begins again at once the next time."""


class _Ended(Exception):  # noqa: N818 - it says what the part has done
    """A part has ended though nobody asked it to."""


@dataclass(frozen=True, slots=True)
class Part:
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
    part: Part,
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


async def _wait(part: Part, error: Exception, seconds: float, *, health: Health, metrics: Metrics) -> None:
    why = ", ".join(dict.fromkeys(str(leaf) or repr(leaf) for leaf in leaves(error)))
    metrics.part_failures.labels(part.name).inc()
    log.error("part_failed", part=part.name, error=why, again_in_seconds=round(seconds, 1))
    log.debug("part_failed_at", part=part.name, exc_info=error)
    again = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%H:%M:%SZ")
    check = Check(ok=not part.gates, detail=f"degraded, begun again at {again}: {why}")
    health.ready[part.name] = lambda: check
    await asyncio.sleep(seconds)


async def until_stopped(stop: asyncio.Event, *works: Awaitable[None]) -> None:
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
