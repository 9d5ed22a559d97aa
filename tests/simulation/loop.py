"""An event loop on a virtual clock, in which a seed chooses what runs next.

Nothing waits: when nobody can run, the clock moves on to the next timer. Which of those that can run goes first is
drawn, so that no code under test gets by on an order that asyncio happens to have. Whoever runs belongs to an owner, a
process of the simulated cluster; a paused owner runs nothing until it goes on, as a process that was stopped does.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

OWNER: contextvars.ContextVar[str] = contextvars.ContextVar("owner", default="")
"""The process that runs."""

EPOCH = 1_800_000_000.0
"""The time of day at which every simulation begins, in Unix seconds."""

Entry = tuple[str, asyncio.Handle]


class _Future(asyncio.Future):
    """A future whose place in a set is the same in every run: asyncio keeps futures and tasks in sets."""

    def __init__(self, number: int, loop: VirtualLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task):
    """A task whose place in a set is the same in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class Stuck(Exception):  # noqa: N818 - what has happened to the loop
    """Nobody can run and nothing will ever happen."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs coroutines in an order drawn from `draw`.

    Attributes:
        turns: How many callbacks have run.
        errors: What callbacks and forgotten tasks have failed with.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._now = 0.0
        self._ready: list[Entry] = []
        self._timers: list[tuple[float, int, str, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._paused: dict[str, list[Entry]] = {}
        self._ahead: dict[str, float] = {}
        self._closed = False
        self._generators: set[Any] = set()
        self.turns = 0
        self.errors: list[dict[str, Any]] = []

    # Time.

    def time(self) -> float:
        return self._now

    def wall(self) -> float:
        """The time of day, in Unix seconds, by the clock of the machine of whoever runs."""
        return EPOCH + self._now + self._ahead.get(OWNER.get().partition(".")[0], 0.0)

    def set_clock(self, machine: str, ahead: float) -> None:
        """Set the clock of a machine, that of a replica or, without a name, of the server, so many seconds ahead."""
        self._ahead[machine] = ahead

    # Processes.

    def pause(self, owner: str) -> None:
        """Run nothing of this owner until it is resumed."""
        self._paused.setdefault(owner, [])

    def resume(self, owner: str) -> None:
        """Go on with an owner, with everything that has become due meanwhile."""
        self._ready.extend(self._paused.pop(owner, []))

    # What asyncio asks of a loop.

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context  # an empty one is false
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((context.get(OWNER, ""), handle))
        return handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context  # an empty one is false
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), context.get(OWNER, ""), handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(delay, 0.0), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        return _Task(next(self._numbers), coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are left out when they are due."""

    # Running.

    def run_until_complete(self, future: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end.

        Raises:
            Stuck: It waits for what cannot happen.
        """
        with self._entered():
            task = self.create_task(future)
            while not task.done():
                self._turn()
            return task.result()

    def drain(self) -> None:
        """Run what can run now, without letting time pass."""
        with self._entered():
            while self._ready:
                self._turn()

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._paused.clear()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Be the running loop, with the clock of the process in place of the machine's."""
        real, outer = time.time, asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        time.time = self.wall
        try:
            yield
        finally:
            time.time = real
            asyncio._set_running_loop(outer)

    def _turn(self) -> None:
        """Run one callback, after moving the clock if there is none."""
        if not self._ready:
            self._advance()
        ready = self._ready
        owner, handle = ready.pop(self._draw.randrange(len(ready)) if len(ready) > 1 else 0)
        if handle.cancelled():
            return
        if owner in self._paused:
            self._paused[owner].append((owner, handle))
            return
        self.turns += 1
        handle._run()

    def _advance(self) -> None:
        """Move the clock to the next timer, and make ready what is due then."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nobody can run and no timer is set")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, owner, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._ready.append((owner, handle))
