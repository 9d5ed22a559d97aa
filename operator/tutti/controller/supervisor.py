"""Keeps the room and the process to one fate: when it ends, everything stops, and the process says why.

What is embedded beside it would not notice that it has died, and would keep answering webhooks for it. An engine that
fails does not end the room (`session.py`); a lost lease does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import structlog

from tutti.controller.health import Check, Health
from tutti.kube.fencing import LeadershipLost

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
