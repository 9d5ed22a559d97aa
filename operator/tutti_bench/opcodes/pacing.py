"""So many a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def paced(things: Iterable[T], per_second: float) -> AsyncIterator[T]:
    """Give things one by one, so many a second at most; what is late is not waited for again."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    for index, thing in enumerate(things):
        await asyncio.sleep(begun + index / per_second - clock())
        yield thing
