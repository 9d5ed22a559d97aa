"""Waiting for what controllers do, without asking again and again: every write of the cluster is an event."""

from __future__ import annotations

import asyncio


async def until(cluster, so, seconds=120.0):
    """What `so` gives, once it is true; it is asked after each write."""
    written = asyncio.Event()

    def note(*_):
        written.set()

    cluster.backend.after.append(note)
    try:
        async with asyncio.timeout(seconds):
            while True:
                written.clear()
                found = so()
                if found:
                    return found
                await written.wait()
    finally:
        cluster.backend.after.remove(note)
