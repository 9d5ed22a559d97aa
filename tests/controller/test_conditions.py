"""What is said of quota by a process that has only begun to lead."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.kube.conftest import serving
from tutti.controller.conditions import ConditionKeeper
from tutti.controller.object_cache import ObjectCache
from tutti.kube.fencing import unfenced
from tutti.kube.statuses import StatusWriter

EXCEEDED = {
    "type": "QuotaExceeded",
    "status": "True",
    "reason": "MoreInUse",
    "message": "more is used than there is quota for",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_until_somebody_has_looked_it_stands_that_a_queue_uses_too_much():
    """A new leader said for a moment that it did not any more, and that it did since just now."""
    queue = {"metadata": {"name": "cq", "uid": "u", "generation": 1}, "status": {"conditions": [EXCEEDED]}}
    catalogue, overused = ObjectCache(), None
    catalogue.seen("ClusterQueue", queue)
    written = asyncio.Queue()

    async def take(request):
        conditions = (await request.json())["status"]["conditions"]
        written.put_nowait({one["type"]: one for one in conditions})
        return web.json_response({})

    async with serving(take) as server:
        writer = StatusWriter(server.client, fence=unfenced, spacing_seconds=0.0)
        keeper = ConditionKeeper(catalogue, writer, overused=lambda: overused, clock=lambda: 1.8e9)
        tasks = [asyncio.create_task(writer.run()), asyncio.create_task(keeper.run())]
        said = await written.get()
        assert said["Active"]["status"] == "True"
        assert said["QuotaExceeded"] == EXCEEDED
        overused = {}
        catalogue.touch()
        assert (await written.get())["QuotaExceeded"]["status"] == "False"
        for task in tasks:
            task.cancel()
