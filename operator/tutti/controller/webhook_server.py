"""The server of reviews: kopf's, with bounds on how large a review may be, and on how many are worked on at once.

Whoever may write objects has the API server ask for as many reviews as it lets him, each as large as an object and the
one before it. A review is decoded in this process, and looked at in the loop that decides: what is worked on at once is
what may come between two turns. All others wait with their bodies unread, so that they take next to no memory, and
those beyond the line are told at once to come again, rather than after the API server has given them up.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

import kopf
import structlog
from aiohttp import web

log = structlog.get_logger(__name__)

MOST_BYTES: Final = 8 * 1024 * 1024
"""An API server takes requests of 3 MiB (apiserver, MaxRequestBodyBytes), and a review has the object twice.

aiohttp's own bound, of 1 MiB, would refuse what the API server takes.
"""

MOST_AT_ONCE: Final = 4
"""So many are worked on at once."""

MOST_WAITING: Final = 256
"""So many wait for that; small ones take a millisecond, and the API server waits for five seconds."""

MOST_SECONDS = 2.0
"""So long a body may take to come in once it is asked for; the API server has it ready, and is near."""


class BoundedWebhookServer(kopf.WebhookServer):
    """Serves reviews, some at a time.

    It overrides how kopf (1.45) serves one request; `tests/controller/test_webhook_flood.py` says when that changes.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0
        self._is_full = False

    async def _serve(self, fn: Any, request: web.Request) -> web.Response:  # type: ignore[override] # there it is static
        """Answer one review when its turn comes."""
        if self._waiting >= MOST_WAITING:
            if not self._is_full:  # once, until a review is taken again: a flood must not flood the log
                log.warning("reviews_refused", waiting=self._waiting)
            self._is_full = True
            text = f"{MOST_WAITING} reviews wait already; try again"
            return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, text=text, headers={"Connection": "close"})
        self._is_full = False
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            if request.transport is None:  # the API server has given it up meanwhile
                return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
            bounded = request.clone(client_max_size=MOST_BYTES)
            try:
                async with asyncio.timeout(MOST_SECONDS):
                    await bounded.read()  # it is kept there for who decodes it
            except TimeoutError:  # whoever sends nothing would have its turn for ever
                return web.Response(status=HTTPStatus.REQUEST_TIMEOUT, headers={"Connection": "close"})
            return await super()._serve(fn, bounded)
        finally:
            self._turns.release()
