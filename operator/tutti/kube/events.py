"""Records events (events.k8s.io/v1) without ever making the scheduler wait.

An event that repeats is one object with a count, not many objects: the first is created at once, repeats are added up
and written as its series now and then. What would flood the server is dropped and counted: more than a burst of
different events on one object, or more waiting events than fit the queue.

What stays so for long is told once by every process that finds it so. Its event is named after what it says, so that
the next process finds it there, and adds to its count.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from tutti.api.conditions import micro_timestamp
from tutti.engine.records.decisions import EmitEvent
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence, LeadershipLost
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import EVENTS
from tutti.kube.retry import Backoff, retrying

LONGEST_NOTE: Final = 1024
"""kube-apiserver refuses longer notes (core validation, NoteLengthLimit)."""


_Regarding: TypeAlias = tuple[str, str, str, str, str]
"""The object that an event is about."""
_REFERENCE: Final = ("apiVersion", "kind", "name", "namespace", "uid")
"""Its fields in a core/v1 ObjectReference."""


def _regarding(event: EmitEvent) -> _Regarding:
    return event.api_version, event.kind, event.name, event.namespace, event.uid


def cut_note(note: str) -> str:
    """Return the note within the server's limit, which counts bytes; a cut one ends in an ellipsis."""
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE:
        return note
    return encoded[: LONGEST_NOTE - 3].decode("utf-8", "ignore") + "..."


log = structlog.get_logger(__name__)

_LONGEST_INSTANCE: Final = 128
_LONGEST_NAME: Final = 253
_SERIES_SECONDS: Final = 360.0
_TRACKED: Final = 10_000


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """How much is written at most."""

    burst: int = 25
    """Different events on one object at once, one at least."""
    refill_seconds: float = 60.0
    """After which the object may have one more."""
    series_seconds: float = 10.0
    """Between two writes of a repeated event."""
    waiting: int = 4096
    """Events not yet written; more are dropped."""


@dataclass(slots=True)
class _Series:
    """An event and its repeats."""

    event: EmitEvent
    name: str
    first_at: float
    last_at: float
    last_heard: float
    count: int = 1
    written: int = 0
    busy: bool = False  # queued, or being written
    waiting: asyncio.TimerHandle | None = None

    @property
    def namespace(self) -> str:
        """Where the event lives: with its object, and in `default` for cluster-scoped objects."""
        return self.event.namespace or "default"


@dataclass(slots=True)
class _Bucket:
    """What an object may still report."""

    tokens: float
    filled_at: float


class EventRecorder:
    """Takes events without blocking, and writes them while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        controller: str,
        instance: str,
        concurrency: int = 4,
        limits: RecorderLimits | None = None,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._client = client
        self._fence = fence
        self._controller = controller
        self._instance = instance[:_LONGEST_INSTANCE]
        self._concurrency = concurrency
        self._limits = limits or RecorderLimits()
        self._backoff = backoff
        self._series: OrderedDict[EmitEvent, _Series] = OrderedDict()
        self._buckets: OrderedDict[_Regarding, _Bucket] = OrderedDict()
        self._queue: asyncio.Queue[_Series] = asyncio.Queue()
        self._work_left = _Outstanding()
        self._hurry = False

    def record(self, event: EmitEvent) -> None:
        """Take note of an event; it is written later, added to an earlier one, or dropped and counted."""
        heard = asyncio.get_running_loop().time()
        self._forget(heard)
        known = self._series.get(event)
        if known is not None and heard - known.last_heard < _SERIES_SECONDS:
            known.count += 1
            known.last_at, known.last_heard = time.time(), heard
            self._series.move_to_end(event)
            self._schedule(known)
        elif not self._admit(_regarding(event), heard):
            self._drop("flood")
        elif self._queue.qsize() >= self._limits.waiting:
            self._drop("queue_full")
        else:
            self._begin(event, heard)

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            ExceptionGroup: With LeadershipLost, where this process may not write any more.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def flush(self, *, within_seconds: float = 5.0) -> int:
        """Write what was recorded, counts included; return how many are left unwritten. `run` must still run."""
        self._hurry = True
        for series in self._series.values():
            if series.waiting is not None:
                series.waiting.cancel()
                self._enqueue(series)
        try:
            async with asyncio.timeout(within_seconds):
                await self._work_left.none.wait()
        except TimeoutError:
            log.warning("events_not_flushed", left=self._work_left.count)
        finally:
            self._hurry = False
        return self._work_left.count

    def _forget(self, at: float) -> None:
        """Let go of what was not heard of for so long that it begins anew: the least recent are first in both."""
        while self._series:
            oldest = next(iter(self._series.values()))
            if oldest.busy or oldest.waiting is not None or at - oldest.last_heard < _SERIES_SECONDS:
                break
            self._series.popitem(last=False)
        full = self._limits.burst * self._limits.refill_seconds
        while self._buckets and at - next(iter(self._buckets.values())).filled_at >= full:
            self._buckets.popitem(last=False)

    def _admit(self, regarding: _Regarding, at: float) -> bool:
        """Take a token of the object's bucket, if there is one."""
        limits = self._limits
        bucket = self._buckets.get(regarding)
        if bucket is None:  # as for most objects, of which one thing is told
            self._buckets[regarding] = _Bucket(limits.burst - 1, at)
            if len(self._buckets) > _TRACKED:
                self._buckets.popitem(last=False)
            return True
        self._buckets.move_to_end(regarding)
        bucket.tokens = min(limits.burst, bucket.tokens + (at - bucket.filled_at) / limits.refill_seconds)
        bucket.filled_at = at
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _begin(self, event: EmitEvent, heard: float) -> None:
        """Start a series with its first event, to be written at once."""
        moment = time.time()
        tail = f".{_digest(event) if event.lasting else random.getrandbits(64):016x}"
        name = event.name[: _LONGEST_NAME - len(tail)].rstrip(".-") + tail
        series = _Series(event, name, moment, moment, heard)
        self._series[event] = series
        self._series.move_to_end(event)
        if len(self._series) > _TRACKED:
            self._series.popitem(last=False)
        self._enqueue(series)

    def _schedule(self, series: _Series) -> None:
        """Have a grown count written after a while, unless that is already arranged."""
        if series.busy or series.waiting is not None:
            return
        if self._hurry:
            self._enqueue(series)
            return
        loop = asyncio.get_running_loop()
        series.waiting = loop.call_later(self._limits.series_seconds, self._enqueue, series)
        self._work_left.add()

    def _enqueue(self, series: _Series) -> None:
        """Hand the series to the writers."""
        if series.waiting is None:
            self._work_left.add()
        series.waiting = None
        series.busy = True
        self._queue.put_nowait(series)

    def _drop(self, reason: str) -> None:
        """Count an event that is never written."""
        self._client.metrics.events_dropped.labels(reason).inc()

    async def _work(self) -> None:
        """Write one series after another."""
        while True:
            series = await self._queue.get()
            try:
                await self._write(series)
            except WireError as error:
                self._drop("error")
                self._series.pop(series.event, None)
                log.debug("event_not_written", reason=series.event.reason, error=str(error))
            except LeadershipLost:
                raise
            except Exception:
                self._drop("raised")
                self._series.pop(series.event, None)
                log.exception("event_not_written", reason=series.event.reason)
            series.busy = False
            if self._series.get(series.event) is series and series.count > series.written:
                self._schedule(series)
            self._work_left.remove()

    async def _write(self, series: _Series) -> None:
        """Create the event, or bring its series up to date; one that the server has expired is created anew."""
        count = series.count
        if not series.written:
            count = await self._create(series, count)
        else:
            try:
                await self._send("PATCH", EVENTS.path(series.namespace, series.name), _as_series(series, count))
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                count = await self._create(series, count)
        series.written = count
        self._client.metrics.writes.labels("event", "written").inc()

    async def _create(self, series: _Series, count: int) -> int:
        """Create the event; one that exists already was written by us, and an answer was lost, or by one before us.

        Returns:
            How often the event says that it was told.
        """
        try:
            await self._send("POST", EVENTS.path(series.namespace), self._document(series, count))
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            if series.event.lasting:
                return await self._add(series)
        return count

    async def _add(self, series: _Series) -> int:
        """Add to the event of an earlier process, which a write that changes nothing lets us see."""
        path = EVENTS.path(series.namespace, series.name)
        found = msgspec.json.decode(await self._send("PATCH", path, {}), type=_Written)
        if found.event_time == micro_timestamp(series.first_at):
            return found.times
        series.count += found.times
        count = series.count
        await self._send("PATCH", path, _as_series(series, count))
        return count

    async def _send(self, method: str, path: str, document: dict[str, Any]) -> bytes:
        """Send one write, trying again a few times; returns the answer."""
        body = msgspec.json.encode(document)
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"

        async def attempt() -> bytes:
            return await self._client.write(
                PriorityLevel.EVENT, method, path, body=body, fence=self._fence, content_type=content_type
            )

        return await retrying(attempt, tries=3, backoff=self._backoff())

    def _document(self, series: _Series, count: int) -> dict[str, Any]:
        """Return the event as it is created."""
        event = series.event
        regarding = dict(zip(_REFERENCE, _regarding(event), strict=True))
        document: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": micro_timestamp(series.first_at),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": {field: value for field, value in regarding.items() if value},
            "reason": event.reason,
            "action": event.action,
            "type": event.type,
            "note": cut_note(event.note),
        }
        return {**document, **_as_series(series, count)} if count > 1 else document


class _Counted(msgspec.Struct):
    """The series of an event that is there."""

    count: int = 1


class _Written(msgspec.Struct, rename="camel"):
    """What matters of an event that is there."""

    event_time: str | None = None
    series: _Counted | None = None

    @property
    def times(self) -> int:
        """How often it was told."""
        return 1 if self.series is None else self.series.count


def _digest(event: EmitEvent) -> int:
    """Return a number, of 64 bits, that tells what an event says and of which object."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(event)).digest()[:8], "big")


@dataclass(slots=True)
class _Outstanding:
    """Counts what is still to be written."""

    count: int = 0
    none: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.none.set()

    def add(self) -> None:
        """One more."""
        self.count += 1
        self.none.clear()

    def remove(self) -> None:
        """One less."""
        self.count -= 1
        if not self.count:
            self.none.set()


def _as_series(series: _Series, count: int) -> dict[str, Any]:
    """Return the part of an event that says how often it has happened, and when last."""
    return {"series": {"count": count, "lastObservedTime": micro_timestamp(series.last_at)}}
