"""The news that the server is back: who waits to try again after a failure need not wait any longer.

After an outage everything that talks to the server is somewhere in a wait of its own, the longer the longer the outage
was. Whoever is the first to find that what had failed works again tells all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Recovery:
    """What one client's informers and its lease tell each other; for one loop, unless `tell_also` joins it to another.

    Told is only what had failed before, so nobody is woken by those who have no trouble: somebody who fails while
    everything else works goes on waiting longer and longer.
    """

    def __init__(self) -> None:
        self._told = asyncio.Event()
        self._elsewhere: list[Callable[[], object]] = []

    def tell_also(self, tell: Callable[[], object]) -> None:
        """Have somebody called with each piece of news from here, such as `hear` of another, in its loop."""
        self._elsewhere.append(tell)

    def tell(self) -> None:
        """Something that had failed works again."""
        self.hear()
        for tell in self._elsewhere:
            tell()

    def hear(self) -> None:
        """Wake those who wait here."""
        told, self._told = self._told, asyncio.Event()
        told.set()

    async def wait(self, seconds: float, *, at_least: float = 0.0) -> None:
        """Return after so many seconds, or as soon as something works again; but not before `at_least`."""
        told = self._told
        if at_least > 0:
            await asyncio.sleep(min(at_least, seconds))
        try:
            async with asyncio.timeout(max(0.0, seconds - at_least)):
                await told.wait()
        except TimeoutError:
            return
