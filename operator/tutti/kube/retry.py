"""Trying again: jittered exponential backoff, a bounded number of times, and no longer once the server is back.

Jitter keeps many clients, or the many streams of one, from coming back in step after the server was away. After an
outage everything that talks to the server is somewhere in a wait of its own, the longer the longer the outage was;
whoever is the first to find that what had failed works again tells all others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tutti.kube.errors import WireError, is_retryable, retry_after

_LONGEST_EXPONENT: Final = 32


@dataclass(slots=True)
class Backoff:
    """Growing waits in seconds: between half and the whole of `first * 2**failures`, at most `longest`."""

    first: float = 0.2
    longest: float = 30.0
    failures: int = 0
    uniform: Callable[[float, float], float] = random.uniform

    def next(self, at_least: float | None = None, *, at_most: float = float("inf")) -> float:
        """Count one failure and return the seconds to wait, never less than what the server asked for."""
        ceiling = min(self.longest, at_most, self.first * 2.0 ** min(self.failures, _LONGEST_EXPONENT))
        self.failures += 1
        return max(ceiling * self.uniform(0.5, 1.0), at_least or 0.0)

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self.failures = 0


R = TypeVar("R")


async def retrying(attempt: Callable[[], Awaitable[R]], *, tries: int = 5, backoff: Backoff | None = None) -> R:
    """Return what `attempt` returns, repeating it after errors that may pass, and not before the server's Retry-After.

    Only for requests that may be repeated although an earlier one took effect.

    Raises:
        WireError: The last try's error, or the first one that trying again cannot mend.
    """

    async def judge(error: WireError) -> None:
        """Have nothing repeated that trying again cannot mend."""
        if not is_retryable(error):
            raise error

    return await settling(attempt, judge, tries=tries, backoff=backoff or Backoff())


async def settling(
    attempt: Callable[[], Awaitable[R]],
    judge: Callable[[WireError], Awaitable[R | None]],
    *,
    tries: int,
    backoff: Backoff,
    after: WireError | None = None,
) -> R:
    """Return what `attempt` returns, or what `judge` makes of its error; while that is None, repeat it.

    Only for requests that may be repeated although an earlier one took effect. `after` is the error of a try that was
    made before; it is the first of them.

    Raises:
        WireError: The last try's error, of which `judge` makes nothing; or what `judge` raises.
    """
    for left in reversed(range(tries)):
        try:
            if after is not None:
                raise after
            return await attempt()
        except WireError as error:
            after = None
            found = await judge(error)
            if found is not None:
                return found
            if not left:
                raise
            await asyncio.sleep(backoff.next(retry_after(error)))
    raise ValueError("at least one try is needed")


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
