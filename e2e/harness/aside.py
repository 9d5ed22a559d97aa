"""A loop in a thread of its own, for what runs beside a story and is told from it what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from e2e.harness.processes import PATIENCE

_T = TypeVar("_T")


class Aside:
    """Runs from `begin` to `end`; coroutines that are left by then are not finished."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def begin(self) -> None:
        """Begin the thread."""
        self._thread.start()

    def end(self) -> None:
        """Stop the loop, and wait until its thread has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Have something done in the thread; returns what comes of it.

        Raises:
            TimeoutError: It has not been done in time.
        """
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def tell(self, what: Callable[[], object]) -> None:
        """Have something called there soon, without waiting for it."""
        self._loop.call_soon_threadsafe(what)
