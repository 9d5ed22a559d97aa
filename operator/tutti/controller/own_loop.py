"""An event loop in a thread of its own, for what must go on while the engine, or anybody's plugin, is busy.

The interpreter lets another thread in every 5 ms while Python code runs, and while numpy or the system work. So what
is awaited here is late by some such moments, not by as long as a turn takes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 5.0


class Elsewhere:
    """A loop of another thread, for whoever has something to ask there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run there, and return what it returns or raise what it raises."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class OwnLoop:
    """A loop that runs in a thread of its own within `with`; what is left in it at the end is cancelled."""

    def __init__(self, name: str, factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
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
