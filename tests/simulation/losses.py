"""What is lost between the processes and the server of a simulated cluster on any day, and when: at a write, for example.

A moment drawn at random is hardly ever the one in which a gang is being bound, which takes milliseconds. So anything
may be told to happen at the n-th write of a kind: when it has been sent, or when the server has done it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.loop import VirtualLoop
from tests.simulation.network import Network, Sent, Trouble

Do = Callable[[str, dict[str, Any]], Awaitable[None]]


class Losses:
    """Has things go wrong on the wire, with clocks, and at writes.

    Args:
        network: Where they go wrong.
        loop: Tells the time.
        do: Carries out any step of the world; one about the replica `sender` is about whoever sent a write.
        forget: Has the server forget what has happened.
    """

    def __init__(self, network: Network, loop: VirtualLoop, do: Do, forget: Callable[[], None]) -> None:
        self._network = network
        self._loop = loop
        self._do = do
        self._forget = forget
        self._is_over = False
        self._under_way: set[asyncio.Task[None]] = set()

    def heal(self) -> None:
        """From now on nothing goes wrong any more; clocks that are wrong stay so, as long as nobody sets them."""
        self._is_over = True
        self._network.troubles.clear()
        self._network.lags.clear()
        self._network.doubled.clear()
        self._network.break_silence()

    # The wire.

    async def do_trouble(self, *, lasts: float | None = None, **trouble: Any) -> None:
        """Something goes wrong with requests, so many of them, or for so many seconds."""
        one = Trouble(**trouble)
        self._network.troubles.append(one)
        if lasts is not None:
            self._later(lasts, setattr, one, "times", 0)

    async def do_lag(self, what: str, seconds: float, owner: str = "", lasts: float | None = None) -> None:
        """Changes of a kind come so much later, for so many seconds if it is said."""
        self._network.lags[owner, what] = seconds
        if lasts is not None:
            self._later(lasts, self._network.lags.pop, (owner, what), None)

    async def do_drop(self, what: str, owner: str = "") -> None:
        self._network.drop(owner, what)

    async def do_double(self, what: str) -> None:
        self._network.doubled.add(what)

    async def do_forget(self) -> None:
        self._forget()

    async def do_relist(self, what: str) -> None:
        """Watches break, and what has happened is forgotten: who comes back is told 410 Gone."""
        self._network.drop("", what)
        self._forget()

    async def do_silence(self, what: str, seconds: float, owner: str = "", marks: bool = False) -> None:
        """Watches tell of nothing more, and nobody closes them before so many seconds; with `marks`, of bookmarks."""
        self._network.silence(owner, what, marks=marks)
        self._later(seconds, self._network.break_silence)

    async def do_break(self) -> None:
        """Every connection breaks at once, as when certificates or what stands before the server are renewed."""
        self._network.break_all()

    async def do_down(self, seconds: float) -> None:
        """The server goes away and comes back without any history."""
        self._network.down_until = self._loop.time() + seconds
        self._network.break_all()
        self._forget()

    # Clocks.

    async def do_clock(self, machine: str, ahead: float) -> None:
        """The clock of a machine is set."""
        self._loop.set_clock(machine, ahead)

    # At a write.

    async def do_at_write(self, what: str, method: str, number: int, done: bool, do: str, args: dict[str, Any]) -> None:
        """Something happens at the n-th write of a kind from now on, once it is sent or, with `done`, has been done.

        Args:
            what: The kind, as `Sent` has it.
            method: The method.
            number: Which of them.
            done: Whether the server has it.
            do: What happens.
            args: What that is given.
        """
        left = number

        def count(sent: Sent) -> None:
            nonlocal left
            if sent.what == what and sent.method == method and not self._is_over:
                left -= 1
                if left == 0:
                    self._begin(do, _meant(args, sent))

        if done:
            self._network.handled.append(lambda sent, _: count(sent))
        else:
            self._network.sending.append(count)

    def _begin(self, do: str, args: dict[str, Any]) -> None:
        """Carry out a step, as nobody."""
        task = self._loop.create_task(self._if_still(do, args), context=contextvars.Context())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard, context=contextvars.Context())

    async def _if_still(self, do: str, args: dict[str, Any]) -> None:
        if not self._is_over:
            await self._do(do, args)

    def _later(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(seconds, call, *args, context=contextvars.Context())


def _meant(args: dict[str, Any], sent: Sent) -> dict[str, Any]:
    """What a step is given that is about whoever has sent something."""
    replica = sent.owner.partition(".")[0]
    return {name: replica if value == "sender" else value for name, value in args.items()}
