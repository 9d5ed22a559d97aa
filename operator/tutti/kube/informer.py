"""Keeps a consumer in step with one kind of object: a list, then a watch, for ever.

    list ──pages──▶ diff against what is known ──▶ watch ──lines──▶ apply ──┐
      ▲                                              ▲      │ closed, broken │
      │ 410, rewound, failed again and again         └──────┴────────────────┘ from the last version

What holds: an object that vanished unseen is reported Gone by the next list; a name reused by another object is Gone,
then Seen; an object's states are delivered in order and, after a list, only where its version is new. Whatever the
server does, the informer comes back; it ends only by cancellation, or when its consumer raises.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from time import time
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from tutti.kube.backoff import Backoff
from tutti.kube.changes import Change, Gone, Key, Seen
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, NotSent, WireError, is_retryable, retry_after
from tutti.kube.listing import Scope, fetch_page
from tutti.kube.resources import Resource
from tutti.kube.watching import LineSplitter, Meta, WatchEvent, read_error, read_event, read_meta, read_version

log = structlog.get_logger(__name__)
T = TypeVar("T")

Decode = Callable[[msgspec.Raw], T]
"""Turns an object's JSON into what the consumer wants; raises ValueError (as msgspec does) for a bad object."""

_STALL_GRACE_SECONDS: Final = 15.0
_BRIEF_SECONDS: Final = 1.0
_RELIST_AFTER_FAILURES: Final = 5
_PAGED_ATTEMPTS: Final = 2


class Informer(Generic[T]):
    """Lists and watches `resource` and delivers every change, in batches, to a consumer that must not block.

    Attributes:
        synced: Set once the first list has been delivered in full.
        problem: Why the stream does not flow at the moment, or None.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        decode: Decode[T],
        deliver: Callable[[Sequence[Change[T]]], None],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
        watch_seconds: int = 300,
        stall_seconds: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self._client = client
        self._decode = decode
        self._deliver = deliver
        self._scope = Scope(resource.path(namespace), label_selector, field_selector)
        self._page_size = page_size
        self._watch_seconds = watch_seconds
        self._stall_seconds = stall_seconds
        self._backoff = backoff or Backoff()
        self._known: dict[Key, tuple[str, str]] = {}  # uid and resourceVersion
        self._version: str | None = None  # what the watch goes on from; None: list first
        self._expired_lists = 0
        self._count_metrics()

    def _count_metrics(self) -> None:
        """Look the labelled metrics up once."""
        metrics, label = self._client.metrics, self.resource.label
        self._events = {
            kind: metrics.watched.labels(label, kind) for kind in ("LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK")
        }
        self._relists = metrics.relists.labels(label)
        self._errors = metrics.watch_errors.labels(label)
        self._decode_errors = metrics.decode_errors.labels(label)
        self._objects = metrics.objects.labels(label)
        self._synced_gauge = metrics.synced.labels(label)
        self._last_event = metrics.last_event.labels(label)

    @property
    def keys(self) -> frozenset[Key]:
        """The objects known to exist, including those that could not be decoded."""
        return frozenset(self._known)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except WireError as error:
                await self._recover(error)

    async def _recover(self, error: WireError) -> None:
        """Decide where to go on after an error, and wait: not at all after the first 410, else longer and longer."""
        self._errors.inc()
        expired = isinstance(error, ApiError) and error.status == HTTPStatus.GONE
        failures = self._backoff.failures
        if expired and self._version is None:
            self._expired_lists += 1
        # A server that is away needs no new list when it is back; one that answers and keeps failing may.
        if expired or (failures >= _RELIST_AFTER_FAILURES and not isinstance(error, NotSent)):
            self._version = None
        wait = self._backoff.next(retry_after(error))
        if expired and not failures:
            return
        self._report(str(error), passing=expired or is_retryable(error))
        await asyncio.sleep(wait)

    def _report(self, problem: str | None, *, passing: bool = False) -> None:
        """Remember what is wrong, and say so once; one interruption has many faces while a server comes back."""
        if problem != self.problem:
            if problem is None:
                log.info("informer_recovered", resource=self.resource.label)
            else:
                say = log.debug if passing and self.problem is not None else log.warning
                say("informer_interrupted", resource=self.resource.label, problem=problem)
        self.problem = problem

    async def _list(self) -> None:
        """Deliver a whole snapshot page by page, then what is known but not in it as Gone."""
        self._relists.inc()
        listed: set[Key] = set()
        # A list so long that its snapshot expires between pages is asked for in one piece.
        limit = self._page_size if self._expired_lists < _PAGED_ATTEMPTS else 0
        cursor = ""
        while True:
            page = await fetch_page(self._client, self._scope, limit=limit, cursor=cursor)
            self._take_page(page.items or (), listed)
            await asyncio.sleep(0)
            cursor = page.metadata.cursor
            if not cursor:
                break
        self._hand_over([Gone(key, self._known.pop(key)[0]) for key in self._known.keys() - listed])
        self._version = page.metadata.resource_version
        self._expired_lists = 0
        self._report(None)
        if not self.synced.is_set():
            log.info("informer_synced", resource=self.resource.label, objects=len(self._known))
            self.synced.set()
            self._synced_gauge.set(1)

    def _take_page(self, items: Iterable[msgspec.Raw], listed: set[Key]) -> None:
        """Deliver what is new in a page."""
        changes: list[Change[T]] = []
        taken = 0
        for raw in items:
            taken += 1
            meta = self._identify(raw)
            if meta is None:
                continue
            key = Key(meta.namespace, meta.name)
            listed.add(key)
            if self._known.get(key) != (meta.uid, meta.resource_version):
                self._note(key, meta, raw, changes)
        self._events["LISTED"].inc(taken)
        self._hand_over(changes)

    async def _watch(self) -> None:
        """Follow the changes since the last version until the stream ends."""
        shortest = max(1, self._watch_seconds // 2)
        seconds = random.randint(shortest, self._watch_seconds)  # noqa: S311 - spreads the ends of watches only
        query = self._scope.query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=self._version or "",
            timeoutSeconds=str(seconds),
        )
        # A quiet kind sends nothing, not even bookmarks, until the server ends the watch: silence is a stall only
        # after that. Peers that vanished are found sooner, by the client's keep-alive probes.
        stall = self._stall_seconds or seconds + _STALL_GRACE_SECONDS
        splitter = LineSplitter()
        heard = False
        clock = asyncio.get_running_loop().time
        async with self._client.stream(self._scope.path, query=query, idle_seconds=stall) as chunks:
            self._report(None)
            opened = clock()
            try:
                async for chunk in chunks:
                    lines = splitter.feed(chunk)
                    self._take_lines(lines)
                    heard = heard or bool(lines)
                    await asyncio.sleep(0)
            finally:
                brief = clock() - opened < _BRIEF_SECONDS
                if not brief:
                    self._backoff.reset()
        if not heard:
            await self._check_history()
            if brief:
                await asyncio.sleep(self._backoff.next())

    async def _check_history(self) -> None:
        """After a watch that ended well but silent, see whether the server's history still is ours.

        A server restored from a backup has older versions than we do and would keep such a watch open and silent.
        """
        page = await fetch_page(self._client, self._scope, limit=1)
        ours, theirs = self._version or "", page.metadata.resource_version
        if ours.isdecimal() and theirs.isdecimal() and int(theirs) < int(ours):
            log.warning("informer_rewound", resource=self.resource.label, version=ours, server_version=theirs)
            self._version = None

    def _take_lines(self, lines: Sequence[bytes]) -> None:
        """Apply the events of one chunk and deliver them together, also those before an event that ends the watch."""
        changes: list[Change[T]] = []
        try:
            for line in lines:
                self._take_event(read_event(line), changes)
        finally:
            self._hand_over(changes)
        if lines:
            self._last_event.set(time())
            self._backoff.reset()

    def _take_event(self, event: WatchEvent, changes: list[Change[T]]) -> None:
        """Apply one event to what is known."""
        if event.type == "ERROR":
            raise read_error(event.object)
        if event.type == "BOOKMARK":
            self._version = read_version(event.object) or self._version
            self._events["BOOKMARK"].inc()
            return
        meta = self._identify(event.object)
        if meta is None:
            return
        key = Key(meta.namespace, meta.name)
        if event.type == "DELETED":
            uid = self._known.pop(key, (meta.uid, ""))[0]
            changes.append(Gone(key, uid))
        else:
            self._note(key, meta, event.object, changes)
        self._version = meta.resource_version or self._version
        if event.type in self._events:
            self._events[event.type].inc()

    def _note(self, key: Key, meta: Meta, raw: msgspec.Raw, changes: list[Change[T]]) -> None:
        """Remember an object's new state and add what is to be delivered of it."""
        before = self._known.get(key)
        if before is not None and before[0] != meta.uid:
            changes.append(Gone(key, before[0]))
        self._known[key] = (meta.uid, meta.resource_version)
        try:
            changes.append(Seen(key, meta.uid, self._decode(raw)))
        except ValueError as error:
            self._decode_errors.inc()
            log.error(  # noqa: TRY400 - the reason is in the object, not in our stack
                "object_not_decoded",
                resource=self.resource.label,
                namespace=key.namespace,
                name=key.name,
                version=meta.resource_version,
                error=str(error),
            )

    def _identify(self, raw: msgspec.Raw) -> Meta | None:
        """Return the object's metadata; an object without is counted and left out."""
        meta = read_meta(raw)
        if meta is None:
            self._decode_errors.inc()
            log.error("object_without_metadata", resource=self.resource.label, starts=bytes(raw)[:120])
        return meta

    def _hand_over(self, changes: Sequence[Change[T]]) -> None:
        """Deliver a batch, if there is anything in it."""
        if changes:
            self._deliver(changes)
        self._objects.set(len(self._known))
