"""Event loops in threads of their own, for what must go on while the engine is busy; and how late a loop comes round.

The interpreter lets another thread in every 5 ms while Python code runs, and while numpy or the system work. So what
is awaited in such a loop is late by some such moments, not by as long as a turn takes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tutti.controller.health import Check
from tutti.controller.logs import tell_loop_error
from tutti.controller.metrics import Metrics

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 5.0


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop for whichever thread of the operator's, which logs what it can hand to nobody as all of them do."""
    if sys.platform == "win32":
        loop = asyncio.new_event_loop()
    else:
        import uvloop  # noqa: PLC0415 - not to be had on Windows

        loop = uvloop.new_event_loop()
    loop.set_exception_handler(tell_loop_error)
    return loop


class OtherLoop:
    """A loop of another thread, for whoever has something to ask there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run there, and return what it returns or raise what it raises."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class LoopThread:
    """A loop that runs in a thread of its own within `with`; what is left in it at the end is cancelled."""

    def __init__(self, name: str, factory: Callable[[], asyncio.AbstractEventLoop] = new_loop) -> None:
        self._runner = asyncio.Runner(loop_factory=factory)
        self._began = threading.Event()
        self._ends: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._began.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._loop is not None  # it was entered
        assert self._ends is not None
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(_PATIENCE_SECONDS)  # a thread that hangs must not keep the process from ending

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run there, and return what it returns or raise what it raises.

        Whoever is cancelled meanwhile goes on once the coroutine has been cancelled and has ended, or has not for five
        seconds: one that does not heed it is cancelled once more at the end of that loop.
        """
        assert self._loop is not None  # it was entered
        there, here, ended = self._loop, asyncio.get_running_loop(), asyncio.Event()
        begun: list[asyncio.Task[T]] = []

        def begin() -> None:
            """Begin it there."""
            task = there.create_task(work)
            task.add_done_callback(end)
            begun.append(task)

        def end(task: asyncio.Task[T]) -> None:
            """Say here that it has ended; a coroutine that is cancelled before it begins could not say it itself."""
            if not task.cancelled():
                task.exception()  # whoever was cancelled does not look at it
            if not here.is_closed():
                here.call_soon_threadsafe(ended.set)

        def cancel() -> None:
            """Cancel it there, once it has begun."""
            begun[0].cancel()

        there.call_soon_threadsafe(begin)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            there.call_soon_threadsafe(cancel)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await ended.wait()
            raise
        return begun[0].result()

    def soon(self, callback: Callable[[], None]) -> None:
        """Have something called there soon; nothing is, where that loop has come to its end."""
        assert self._loop is not None  # it was entered
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    @asynccontextmanager
    async def holding(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        """Hold there what `make` makes, until the block ends here."""

        async def enter() -> tuple[AbstractAsyncContextManager[T], T]:
            """Make it there, and enter it."""
            held = make()
            return held, await held.__aenter__()

        async def leave() -> None:
            """Leave it there."""
            await held.__aexit__(None, None, None)

        held, entered = await self.run(enter())
        try:
            yield entered
        finally:
            await self.run(leave())

    def _serve(self) -> None:
        with self._runner as runner:
            runner.run(self._until_ended())

    async def _until_ended(self) -> None:
        self._loop, self._ends = asyncio.get_running_loop(), asyncio.Event()
        self._began.set()
        await self._ends.wait()


_EVERY_SECONDS: Final = 0.05
_TERM_SECONDS: Final = 60.0
_STUCK_SECONDS: Final = 60.0


class LongestStall:
    """The longest of the stalls of the last one to two terms, of a minute each."""

    def __init__(self, term_seconds: float = _TERM_SECONDS) -> None:
        self._term_seconds = term_seconds
        self._begun = 0.0
        self._before = 0.0
        self._longest = 0.0

    def add(self, now: float, stall: float) -> float:
        """Count a stall in seconds that ended now, on any clock that goes on; return the longest."""
        terms = (now - self._begun) // self._term_seconds
        if terms >= 1:
            self._before = self._longest if terms == 1 else 0.0
            self._longest = 0.0
            self._begun += terms * self._term_seconds
        self._longest = max(self._longest, stall)
        return max(self._longest, self._before)


class Heartbeat:
    """When the loop last came round; may be asked from any thread."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._last = ticks()

    def beat(self) -> None:
        """The loop has come round."""
        self._last = self._ticks()

    def is_there(self) -> bool:
        """Whether it has within a minute: a turn that takes longer than that is not expected to end."""
        return self._ticks() < self._last + _STUCK_SECONDS

    def check(self) -> Check:
        """The same for /healthz."""
        gone = self._ticks() - self._last
        return Check(self.is_there(), "ok" if gone < 1 else f"it has not come round for {gone:.0f} s")


async def measure_lag(metrics: Metrics, pulse: Heartbeat) -> None:
    """Note how late the loop runs a timer that is due twenty times a second, until cancelled.

    A stall is seen but for what is left until the timer is due, at most 50 ms of it.
    """
    loop, longest = asyncio.get_running_loop(), LongestStall()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        pulse.beat()
        now = loop.time()
        late = max(0.0, now - due)
        metrics.loop_lag_seconds.observe(late)
        metrics.loop_longest_stall_seconds.set(longest.add(now, late))
