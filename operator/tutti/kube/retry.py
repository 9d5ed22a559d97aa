"""Trying again, a bounded number of times, what is safe to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tutti.kube.backoff import Backoff
from tutti.kube.errors import WireError, is_retryable, retry_after

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
