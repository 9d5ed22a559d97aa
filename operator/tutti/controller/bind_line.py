"""Writes binds in the order in which they were decided: a few carriers take one after another.

A turn decides thousands at once, of which the server is given some dozens at a time. A task for each that waits would
be made of twenty objects, which the garbage collector walks through for as long as it waits. So a carrier writes the
first try of one bind after another. Nearly all end with that. What has to go on, or has something else to write
before, does so by itself: it may take long, and holds up none of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, Final

from tutti.engine.records.decisions import Bind
from tutti.kube.binder import Binder, BindResult, FirstTry

_SPARE: Final = 8
"""Carriers beyond what may be under way: these wait for their turn, by which flow control sees that binds do."""


class BindLine:
    """The binds that no carrier has taken yet; `len` counts them.

    Args:
        binder: What writes them.
        at_once: Writes that may be under way.
        spawn: Runs a coroutine in a task of its own, for as long as it takes.
        guard: Awaits what is done for one bind; what that raises costs this bind alone.
        answered: Is told what has become of each bind.
    """

    def __init__(
        self,
        binder: Binder,
        *,
        at_once: int,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        guard: Callable[[Bind, Awaitable[None]], Coroutine[Any, Any, None]],
        answered: Callable[[Bind, BindResult], None],
    ) -> None:
        self._binder = binder
        self._most = at_once + _SPARE
        self._spawn = spawn
        self._guard = guard
        self._answered = answered
        self._line: deque[tuple[Bind, float]] = deque()  # and since when each waits
        self._carriers = 0

    def __len__(self) -> int:
        return len(self._line)

    def add(self, bind: Bind) -> None:
        """Have a bind written, after those added before; one with something to write before it waits for none."""
        if bind.labels or bind.tolerations or bind.card_lock is not None:
            self._spawn(self._guard(bind, self._write(bind)))
            return
        if self._carriers < self._most:
            self._spawn(self._carry())
            self._carriers += 1
        self._line.append((bind, perf_counter()))

    def withdraw(self, node: str) -> list[Bind]:
        """Take out the binds to a node that no carrier has taken, and return them: the server would not refuse them."""
        withdrawn = [bind for bind, _ in self._line if bind.node == node]
        if withdrawn:
            self._line = deque(one for one in self._line if one[0].node != node)
        return withdrawn

    async def _carry(self) -> None:
        """Write the first try of one bind after another until none is left."""
        try:
            while self._line:
                bind, began = self._line.popleft()
                await self._guard(bind, self._try_first(bind, began))
        finally:
            self._carriers -= 1

    async def _try_first(self, bind: Bind, began: float) -> None:
        tried = await self._binder.try_first(bind, began)
        if isinstance(tried, FirstTry):
            self._spawn(self._guard(bind, self._go_on(bind, tried)))
        else:
            self._answered(bind, tried)

    async def _go_on(self, bind: Bind, tried: FirstTry) -> None:
        self._answered(bind, await self._binder.go_on(bind, tried))

    async def _write(self, bind: Bind) -> None:
        self._answered(bind, await self._binder.bind(bind))
