"""Keeps a consumer in step with one kind of object: a list, then a watch, for ever.

    list ──stream, pages──▶ diff against what is known ──▶ watch ──lines──▶ apply ──┐
      ▲                                                      ▲      │ closed, broken │
      │ 410, rewound, failed again and again                 └──────┴────────────────┘ from the last version

A list comes in pages; where that fails, and the server can, as the beginning of the watch itself (a streaming list,
KEP-3157), which needs no snapshot that could expire, but more of both processors. Whatever the server does, the
informer comes back; it ends only by cancellation, or when its consumer raises.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from tutti.kube.client import Client
from tutti.kube.decoding import BrokenStream, LineSplitter
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError, is_retryable, retry_after
from tutti.kube.fetching import FIRST_PAGE, ListPage, ListScope, fetch_page, next_limit
from tutti.kube.resources import APIResource
from tutti.kube.retry import Backoff
from tutti.kube.store import Change, ObjectKey, ObjectStore, Unreadable

log = structlog.get_logger(__name__)
T = TypeVar("T")

LONGEST_WATCH_SECONDS: Final = 60
"""A watch that fell silent, though what is between keeps its connection, tells nothing until its end is overdue: probes
find only peers that vanished. To open one anew costs little, and that soon no list: kube-apiserver 1.36 keeps what has
happened for 75 s at least (storage/cacher, eventFreshDuration)."""
_STALL_GRACE_SECONDS: Final = 15.0
_LIST_SILENCE_SECONDS: Final = 30.0
_BRIEF_SECONDS: Final = 1.0
_RELIST_AFTER_FAILURES: Final = 5
_LONGEST_AWAY_SECONDS: Final = 2.0
"""To be refused a connection costs nobody anything, so a server that is away is asked often whether it is back."""
_PAGED_ATTEMPTS: Final = 2
# How a server answers that does not know streaming lists, or has them switched off.
_NO_STREAMING_LISTS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
# So many objects are taken, in two to three milliseconds, before everything else in the loop has its turn.
_SLICE: Final = 100


class Informer(Generic[T]):
    """Lists and watches `resource` and delivers every change, in batches, to a consumer that must not block.

    The consumer gets objects as `view`, a type that msgspec can read; of one that it cannot, a log line and `unread`
    tell; where that is no Struct, `trim` leaves what is to be kept of one. With `streams` lists are streaming lists
    wherever the server has them.

    Attributes:
        tried: Set once the first list has failed, or been delivered in full.
        synced: Set once it has been delivered in full.
        problem: Why the stream does not flow at the moment, or None.
        refused: Whether that is because this may not be read.
    """

    def __init__(
        self,
        client: Client,
        resource: APIResource,
        *,
        view: type[T],
        deliver: Callable[[Sequence[Change[T]]], None],
        unread: Callable[[Unreadable], None] = lambda _: None,
        trim: Callable[[T], T] = lambda found: found,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 2_000,
        streams: bool = False,
        watch_seconds: int = LONGEST_WATCH_SECONDS,
        stall_seconds: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.resource = resource
        self.tried = asyncio.Event()
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self.refused = False
        self._interrupted_at = 0.0  # when the problem began, by the clock of the loop
        self._client = client
        self._store = ObjectStore(resource, client.metrics, view=view, deliver=deliver, unread=unread, trim=trim)
        self._scope = ListScope(resource.path(namespace), label_selector, field_selector)
        self._page_size = page_size
        self._most = page_size  # less after pages did not come in time
        self._watch_seconds = watch_seconds
        self._stall_seconds = stall_seconds
        self._backoff = backoff or Backoff()
        self._away = False  # whether the last attempt did not even reach the server
        self._expired = False  # whether there was a 410 since the stream flowed last
        self._expired_lists = 0
        self._streams = streams
        self._has_streaming_lists = True
        self._in_pages = not streams  # whether the next list is to come in pages
        self._in_turn = 0  # objects taken since everything else in the loop had its turn
        self._round: asyncio.Timeout | None = None  # what the round under way is ended by when a list is asked for
        self._asked = 0  # how often a list was asked for until now,
        self._begun = 0  # until the round under way began,
        self._answered = 0  # and until the one began in which there last was a list that was delivered in full
        self._listed = asyncio.Event()  # set at the end of a list; the next one has another
        self._relists = client.metrics.relists.labels(resource.label)
        self._errors = client.metrics.watch_errors.labels(resource.label)
        self._synced_gauge = client.metrics.synced.labels(resource.label)

    @property
    def keys(self) -> frozenset[ObjectKey]:
        """The objects known to exist, including those that could not be decoded."""
        return self._store.keys

    @property
    def interrupted_seconds(self) -> float:
        """For how long the stream does not flow; 0 while it does."""
        return 0.0 if self.problem is None else asyncio.get_running_loop().time() - self._interrupted_at

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._round = going = asyncio.timeout(None)
            try:
                async with going:
                    await self._go_round()
            except TimeoutError:
                if not going.expired():
                    raise

    async def list_anew(self) -> None:
        """Return once a list that began after this call was delivered in full: nothing from before it is missing.

        An open watch cannot tell that: it may be late. Whatever is under way, a watch, a list or a wait, ends at once.
        The list is consistent (without a resourceVersion it is no older than its request).
        """
        self._asked += 1
        wanted = self._asked
        self.problem = None  # of what ends now
        if self._round is not None and not self._round.expired():
            self._round.reschedule(asyncio.get_running_loop().time())
        while self._answered < wanted:
            await self._listed.wait()

    async def _go_round(self) -> None:
        """Watch, after a list where one is needed, until the stream ends or fails."""
        if self._answered < self._asked:
            self._store.version = None
        self._begun = self._asked
        try:
            if self._store.version is None and self._in_pages:
                await self._list()
            await self._watch()
        except WireError as error:
            await self._recover(error)

    async def _recover(self, error: WireError) -> None:
        """Decide where to go on after an error, and wait: not after the first 410, else longer and longer."""
        lists, streams = self._store.version is None, not self._in_pages
        refused = isinstance(error, ApiError) and error.status in _NO_STREAMING_LISTS
        if lists and streams and refused:
            self._in_pages, self._has_streaming_lists = True, False
            log.debug("no_streaming_lists", resource=self.resource.label, answer=str(error))
            return
        if lists and self._in_pages and isinstance(error, UnknownOutcome):
            self._most = max(1, self._most // 2)
        if lists and not isinstance(error, NotSent):
            self._in_pages = streams or not self._has_streaming_lists
        self._errors.inc()
        self.refused = isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN
        if isinstance(error, ApiError):
            self._note_answer()
        if isinstance(error, ApiError) and error.status == HTTPStatus.GONE:
            self._store.version = None
            self._expired_lists += lists
            before, self._expired = self._expired, True
            if not before:
                return
        await self._pause(error)

    async def _pause(self, error: WireError) -> None:
        """Wait before the next attempt, and say why; what shows the server to be back ends the wait."""
        self._away = isinstance(error, NotSent)
        # A server that is away needs no new list when it is back; one that answers and keeps failing may.
        if self._backoff.failures >= _RELIST_AFTER_FAILURES and not self._away:
            self._store.version = None
        asked = retry_after(error)
        wait = self._backoff.next(asked, at_most=_LONGEST_AWAY_SECONDS if self._away else math.inf)
        self._report(str(error), passing=self._expired or is_retryable(error))
        await self._client.recovery.wait(wait, at_least=asked or 0.0)

    def _note_answer(self) -> None:
        """The server can be reached: how often it could not be does not count any more."""
        if self._away:
            self._away = False
            self._backoff.reset()

    def _note_flowing(self) -> None:
        """The watch is one that works, not one that is opened only to say that it cannot be."""
        self._backoff.reset()
        self._expired = False
        self._report(None)

    def _report(self, problem: str | None, *, passing: bool = False) -> None:
        """Remember what is wrong, and say so once; one interruption has many faces while a server comes back."""
        before, self.problem = self.problem, problem
        if problem is None:
            if before is not None:
                log.info("informer_recovered", resource=self.resource.label)
                self._client.recovery.tell()
        elif problem != before:
            say = log.debug if passing and before is not None else log.warning
            say("informer_interrupted", resource=self.resource.label, problem=problem)
        if before is None:
            self._interrupted_at = asyncio.get_running_loop().time()
        self.refused = self.refused and problem is not None
        self.tried.set()

    async def _list(self) -> None:
        """Deliver a whole snapshot page by page, then what is known but not in it as Gone."""
        self._relists.inc()
        self._store.begin_list()
        # A list so long that its snapshot expires between pages is asked for in one piece.
        limit = min(self._most, FIRST_PAGE) if self._expired_lists < _PAGED_ATTEMPTS else 0
        page = await fetch_page(self._client, self._scope, limit=limit)
        while cursor := page.metadata.cursor:
            limit = next_limit(limit, page, most=self._most)
            # The server works on the next page while this one is taken.
            following = asyncio.create_task(self._after(cursor, limit), name=f"page of {self.resource.label}")
            try:
                await self._take_items(page.items or ())
                found = await following
            finally:
                following.cancel()
            if isinstance(found, WireError):
                raise found
            page = found
        await self._take_items(page.items or ())
        self._store.end_list(page.metadata.resource_version)
        self._note_listed()

    async def _after(self, cursor: str, limit: int) -> ListPage | WireError:
        """Return the page that a cursor leads to, or why there is none."""
        try:
            return await fetch_page(self._client, self._scope, limit=limit, cursor=cursor)
        except WireError as error:
            return error

    async def _take_items(self, items: Sequence[msgspec.Raw]) -> None:
        """Take the objects of a page, leaving the loop to others now and then."""
        for start in range(0, len(items), _SLICE):
            self._store.take_items(items[start : start + _SLICE])
            await asyncio.sleep(0)

    def _note_listed(self) -> None:
        """Everything that exists has been delivered."""
        self._most = min(self._page_size, 2 * self._most)
        self._expired_lists = 0
        self._in_pages = not (self._streams and self._has_streaming_lists)
        self._report(None)
        if not self.synced.is_set():
            log.info("informer_synced", resource=self.resource.label, objects=len(self._store))
            self.synced.set()
            self._synced_gauge.set(1)
        self._answered = self._begun
        listed, self._listed = self._listed, asyncio.Event()
        listed.set()

    async def _watch(self) -> None:
        """Follow the changes since the last version, or from a list on, until the stream ends."""
        shortest = max(1, self._watch_seconds // 2)
        seconds = random.randint(shortest, self._watch_seconds)  # noqa: S311 - spreads the ends of watches only
        # A quiet kind sends nothing, not even bookmarks, until the server ends the watch: silence is a stall only
        # after that. Peers that vanished are found sooner, by the client's keep-alive probes.
        stall = self._stall_seconds or seconds + _STALL_GRACE_SECONDS
        loop = asyncio.get_running_loop()
        clock = loop.time
        async with self._client.stream(self._scope.path, query=self._query(seconds), idle_seconds=stall) as chunks:
            splitter = LineSplitter()
            heard = self._store.version is None
            self._note_answer()
            if heard:
                await self._take_list(chunks, splitter)
            opened = clock()
            lasting = loop.call_later(_BRIEF_SECONDS, self._note_flowing)
            try:
                async for chunk in chunks:
                    if await self._take(splitter.feed(chunk)):
                        heard = True
                        self._note_flowing()
            finally:
                lasting.cancel()
                brief = clock() - opened < _BRIEF_SECONDS
        if not heard:
            await self._check_history()
            if brief:
                await self._client.recovery.wait(self._backoff.next())

    def _query(self, seconds: int) -> dict[str, str]:
        """Return the query of a watch from the last version on, or of one that begins with all that exists."""
        version = self._store.version
        begin = {"resourceVersion": version or ""}
        if version is None:
            begin = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return self._scope.query(watch="1", allowWatchBookmarks="true", timeoutSeconds=str(seconds), **begin)

    async def _take_list(self, chunks: AsyncIterator[bytes], splitter: LineSplitter) -> None:
        """Take a stream's events up to the bookmark that ends its list, and what came with that.

        Raises:
            WireError: The stream broke, ended or fell silent before.
        """
        self._relists.inc()
        self._store.begin_list()
        clock = asyncio.get_running_loop().time
        longest = self._stall_seconds or _LIST_SILENCE_SECONDS
        try:
            async with asyncio.timeout(longest) as silence:
                async for chunk in chunks:
                    silence.reschedule(clock() + longest)
                    await self._take(splitter.feed(chunk))
                    if self._store.version is not None:
                        self._note_listed()
                        return
        except TimeoutError as error:
            raise BrokenStream(f"a streaming list of {self.resource.label} fell silent before its end") from error
        raise BrokenStream(f"a streaming list of {self.resource.label} ended before all was told")

    async def _take(self, lines: Sequence[bytes]) -> bool:
        """Apply a chunk's events, leaving the loop to others now and then; returns whether there were any."""
        for start in range(0, len(lines), _SLICE):
            few = lines[start : start + _SLICE]
            self._store.take_lines(few)
            self._in_turn += len(few)
            if self._in_turn >= _SLICE:
                self._in_turn = 0
                await asyncio.sleep(0)
        return bool(lines)

    async def _check_history(self) -> None:
        """After a watch that ended well but silent, see whether the server's history still is ours.

        A server restored from a backup has older versions than we do and would keep such a watch open and silent.
        """
        page = await fetch_page(self._client, self._scope, limit=1)
        ours, theirs = self._store.version or "", page.metadata.resource_version
        if ours.isdecimal() and theirs.isdecimal() and int(theirs) < int(ours):
            log.warning("informer_rewound", resource=self.resource.label, version=ours, server_version=theirs)
            self._store.version = None
