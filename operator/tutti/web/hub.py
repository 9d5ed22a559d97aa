"""From the mirror to whoever looks: pictures are taken, pages made of them, and what has changed is sent.

However many look at a page, it is made once, and so is the message that says what is different. Pictures are taken
while somebody looks, after a change, and with a rest that is as long as taking the last one took: it costs half of one
processor at most, and it is told twice a second at most. All of it is done in a thread of its own; what is tried out
for somebody, in another, so that it holds up no page.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.web.access import Refused, Viewer
from tutti.web.addresses import PageAddress, made_page
from tutti.web.documents import PageDocument, change_of
from tutti.web.mirror import ClusterMirror
from tutti.web.pages.asking import NotShown
from tutti.web.picture import Picture
from tutti.web.standing import KeptAnswers
from tutti.web.trials import Trials

log = structlog.get_logger(__name__)

MOST_STREAMS: Final = 200
"""So many pages may be open at once."""
MOST_STREAMS_OF_ONE: Final = 30
"""So many of these may be of one who has signed in."""
MOST_STREAMS_OF_ACCOUNTS: Final = 100
"""So many of these may be of all service accounts of one namespace."""
_LEAST_REST_SECONDS: Final = 0.5
_LONGEST_REST_SECONDS: Final = 30.0
_ANEW_SECONDS: Final = 15.0
"""Time itself changes what is shown: who backs off, which windows are on."""
_KEPT_SECONDS: Final = 60.0
"""How long a picture is kept after the last one has looked away: it may be a page that is loaded anew."""
_MOST_PENDING: Final = 2
"""Who is behind by more messages than that is sent the whole page instead."""


class Subscription:
    """One open page, and what it has not been sent yet."""

    def __init__(self) -> None:
        self._pending: deque[bytes] = deque()
        self._there = asyncio.Event()
        self.behind = False

    def offer(self, message: bytes) -> None:
        """Have a message sent; whoever is too far behind is sent a whole page with the next one."""
        if len(self._pending) >= _MOST_PENDING:
            self._pending.clear()
            self.behind = True
        else:
            self._pending.append(message)
        self._there.set()

    def offer_whole(self, message: bytes) -> None:
        """Have a whole page sent, in place of all that was not."""
        self._pending.clear()
        self._pending.append(message)
        self.behind = False
        self._there.set()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yield messages as they come."""
        while True:
            await self._there.wait()
            while self._pending:
                yield self._pending.popleft()
            self._there.clear()


@dataclass(slots=True, eq=False)
class _Channel:
    """One page as those of one scope see it, and who has it open."""

    address: PageAddress
    viewer: Viewer
    document: PageDocument | None = None
    open: set[Subscription] = field(default_factory=set)


def message_of(event: str, generation: int, content: Any) -> bytes:
    """Return a server-sent event; JSON has no line ends of its own."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (generation, event.encode(), msgspec.json.encode(content))


class PageHub:
    """Makes pages for all who look, while `run` runs."""

    def __init__(self, mirror: ClusterMirror, *, clock: Callable[[], float] = time.time) -> None:
        self._mirror = mirror
        self._clock = clock
        self._channels: dict[tuple[PageAddress, object], _Channel] = {}
        self._of: Counter[str] = Counter()  # open pages by who looks, and by household
        self._picture: Picture | None = None
        self._generation = 0
        self._looked = asyncio.Event()  # somebody has come for whom no page was made yet
        self._taken = asyncio.Condition()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self.trials = Trials(clock)
        self._wanted = 0
        self._kept = KeptAnswers(self._found_out)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._not_before = 0.0

    @property
    def streams(self) -> int:
        """How many pages are open."""
        return sum(len(one.open) for one in self._channels.values())

    async def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have a LocalQueue now, whether pictures are taken or not; waits for the first."""
        await self._mirror.ready.wait()
        return self._mirror.queue_namespaces()

    async def picture(self) -> Picture:
        """Return the latest picture; one is taken where there is none."""
        if self._picture is None:
            self._wanted += 1
            self._looked.set()
            try:
                async with self._taken:
                    await self._taken.wait_for(lambda: self._picture is not None)
            finally:
                self._wanted -= 1
        assert self._picture is not None
        return self._picture

    @contextmanager
    def subscribed(self, address: PageAddress, viewer: Viewer) -> Iterator[Subscription]:
        """Follow a page within the block.

        Raises:
            Refused: Too many pages are open, or too many of his.
        """
        if self.streams >= MOST_STREAMS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_STREAMS} pages are open, and that is the most")
        if viewer.name and self._of[viewer.name] >= MOST_STREAMS_OF_ONE:
            text = f"{viewer.name} has {MOST_STREAMS_OF_ONE} pages open, and that is the most for one: close some"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, text)
        of = {viewer.name, viewer.household}
        if viewer.household != viewer.name and self._of[viewer.household] >= MOST_STREAMS_OF_ACCOUNTS:
            text = f"{viewer.household} have {MOST_STREAMS_OF_ACCOUNTS} pages open, and that is the most: close some"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, text)
        key = address, viewer.scope
        channel = self._channels.setdefault(key, _Channel(address, viewer))
        one = Subscription()
        channel.open.add(one)
        self._of.update(of)
        if channel.document is None:
            self._looked.set()
        else:
            one.offer_whole(message_of("full", channel.document.generation, channel.document))
        try:
            yield one
        finally:
            channel.open.discard(one)
            self._of.subtract(of)
            self._of = +self._of
            if not channel.open and self._channels.get(key) is channel:
                del self._channels[key]

    async def run(self) -> None:
        """Take pictures and make pages until cancelled."""
        loop = self._loop = asyncio.get_running_loop()
        await self._mirror.ready.wait()
        while True:
            if not (self._channels or self._wanted):
                await self._rest_without_viewers()
            is_new = await self._due()
            self._looked.clear()
            began = loop.time()
            if is_new or self._picture is None:
                self._mirror.changed.clear()
                self._generation += 1
                at = self._clock()
                self._kept.follow(at, self._mirror.changes())
                picture = Picture(
                    self._generation,
                    self._mirror.listed(),
                    at,
                    self._mirror.configuration,
                    self._mirror.events.latest(),
                    self._mirror.interruptions(),
                    self._kept,
                )
                channels = list(self._channels.values())
            else:
                picture = self._picture
                channels = [one for one in self._channels.values() if one.document is None]
            made = await loop.run_in_executor(self._worker, _make, picture, channels)
            self._hand_out(made)
            async with self._taken:
                self._picture = picture
                self._taken.notify_all()
            if is_new:
                took = loop.time() - began
                self._not_before = loop.time() + min(_LONGEST_REST_SECONDS, max(_LEAST_REST_SECONDS, took))

    def _found_out(self) -> None:
        """Have a picture taken, though nothing has changed in the cluster: more is known of it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._mirror.changed.set)

    async def _rest_without_viewers(self) -> None:
        """Wait until somebody looks; after a while, forget what was seen last."""
        try:
            async with asyncio.timeout(_KEPT_SECONDS):
                await self._looked.wait()
        except TimeoutError:
            self._picture = None
            self._kept.forget()
            await self._looked.wait()

    async def _due(self) -> bool:
        """Wait until pages are to be made; return whether of a new picture."""
        loop = asyncio.get_running_loop()
        changed = asyncio.create_task(self._mirror.changed.wait())
        looked = asyncio.create_task(self._looked.wait())
        try:
            rest = max(0.0, self._not_before - loop.time())
            if rest:
                await asyncio.wait({looked}, timeout=rest)
            if loop.time() < self._not_before and self._picture is not None:
                return False  # a page for somebody who has just come, of the last picture
            done, _ = await asyncio.wait({changed, looked}, timeout=_ANEW_SECONDS, return_when="FIRST_COMPLETED")
            return changed in done or not done or self._picture is None
        finally:
            changed.cancel()
            looked.cancel()

    def _hand_out(self, made: Iterable[tuple[_Channel, PageDocument]]) -> None:
        for channel, document in made:
            before, channel.document = channel.document, document
            generation = document.generation
            whole = b""
            change = {} if before is None else change_of(before, document)
            message = message_of("change", generation, change) if change else b""
            for one in channel.open:
                if before is None or one.behind:
                    whole = whole or message_of("full", generation, document)
                    one.offer_whole(whole)
                elif message:
                    one.offer(message)

    def close(self) -> None:
        """End the threads, and what is being tried out."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self.trials.close()
        self._kept.close()


def _make(picture: Picture, channels: Iterable[_Channel]) -> list[tuple[_Channel, PageDocument]]:
    """Make pages, in the thread of pages; one that cannot be made says so, and the others are."""
    made = []
    for channel in channels:
        try:
            document = made_page(picture, channel.address, channel.viewer)
        except NotShown as error:
            document = PageDocument("Not here", str(error), problems=(str(error),))
        except Exception as error:
            log.error("page_failed", page=channel.address.path, error=repr(error))  # noqa: TRY400 - as it is, next line
            log.debug("page_failed_at", page=channel.address.path, exc_info=error)
            text = f"this page cannot be made: {type(error).__name__}; the log says more"
            document = PageDocument("Not made", text, problems=(text,))
        made.append((channel, msgspec.structs.replace(document, generation=picture.generation)))
    return made
