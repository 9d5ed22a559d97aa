"""When something is due that a schedule says: at a time after the start of the cluster, and every so often then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


async def follow_time(at: float, every: float | None) -> AsyncIterator[int]:
    """Wait until it is due, and tell which time it is, counted from 0; end after the only time."""
    loop = asyncio.get_running_loop()
    start, turn = loop.time(), 0
    while True:
        due = start + at + turn * (every or 0.0)
        await asyncio.sleep(max(due - loop.time(), 0.0))
        yield turn
        if every is None:
            return
        turn += 1
